//! Keys, and to whom what is written is encrypted.

use std::path::PathBuf;

use clap::Args;

/// The key of what is read.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Encryption")]
pub struct KeyArgs {
    /// The file with the secret key of an encrypted workload.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "REHEARSE_KEY_FILE",
        hide_env_values = true
    )]
    pub key: Option<PathBuf>,
}

/// To whom what is written is encrypted.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Encryption")]
pub struct EncryptArgs {
    /// Encrypt the workload to this public key of age (age1…), or to those of this key file. Can be
    /// given again: each of them opens it.
    #[arg(long, value_name = "RECIPIENT|KEYFILE")]
    pub encrypt: Vec<String>,
}

/// `rehearse key`
#[derive(Debug, Args)]
pub struct KeyCommand {
    /// The file to make, for its owner alone.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
