//! Options for decryption keys and for encryption.

use std::path::PathBuf;

use clap::Args;

/// Decryption key of workloads that are read.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Encryption")]
pub struct KeyArgs {
    /// Decrypt workloads with the secret key in this file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "REHEARSE_KEY_FILE",
        hide_env_values = true
    )]
    pub key: Option<PathBuf>,
}

/// Recipients of workloads that are written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Encryption")]
pub struct EncryptArgs {
    /// Encrypt the workload to this age public key (age1…), or to those in this key file.
    /// Repeatable: each recipient can decrypt it.
    #[arg(long, value_name = "RECIPIENT|KEYFILE")]
    pub encrypt: Vec<String>,
}

/// Options of `rehearse key`.
#[derive(Debug, Args)]
pub struct KeyCommand {
    /// Write the key to this file, readable by its owner only.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
