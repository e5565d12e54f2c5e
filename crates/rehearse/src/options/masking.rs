//! Options of masking, shared by captures, slices and dumps.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sql::Pattern;
use transform::mask::{Mask, MaskKey, Masker};

use crate::options::encrypting::EncryptArgs;
use study::Failure;

/// Largest key file that is read.
const KEY_BYTES_MAX: u64 = 1 << 20;
/// Value of `--mask` that stands for a key that is not kept.
const RANDOM: &str = "random";

/// Masking of values.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Masking")]
pub struct MaskArgs {
    /// Replace the values of literals, parameters, COPY data and results by others of the same
    /// type and length, with the key in this file (see `rehearse mask key`). `random` uses a key
    /// that is not kept.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: Option<String>,
    /// Values to keep.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// Values that masking keeps.
#[derive(Debug, Clone, Default, Args)]
pub struct KeepArgs {
    /// Keep values that equal this text, such as the labels of an enumeration; `*` matches any
    /// text. Repeatable.
    #[arg(long, value_name = "VALUE")]
    pub mask_keep: Vec<String>,
    /// Keep the values of statements whose normalised text contains this text, in any case; `*`
    /// matches any text. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub mask_keep_statement: Vec<String>,
}

impl MaskArgs {
    /// Creates the masker, or returns `None` if masking was not requested.
    ///
    /// # Errors
    /// If the key cannot be read, or a pattern would keep everything.
    pub fn masker(&self) -> Result<Option<Masker>, Failure> {
        let Some(file) = &self.mask else {
            let keeps = [&self.keep.mask_keep, &self.keep.mask_keep_statement];
            return match keeps.iter().all(|keep| keep.is_empty()) {
                true => Ok(None),
                false => Err(Failure::usage(
                    "--mask-keep and --mask-keep-statement say what a masking leaves; give --mask KEYFILE too, or leave them out",
                )),
            };
        };
        let key = match file.as_str() {
            RANDOM => MaskKey::parse(random_key()?.as_bytes()).map_err(Failure::could_not)?,
            file => read_key(Path::new(file))?,
        };
        Ok(Some(Masker::new(self.keep.mask(key)?)))
    }
}

impl KeepArgs {
    /// Creates a mask with this key that keeps the requested values.
    ///
    /// # Errors
    /// If a pattern would match everything.
    pub fn mask(&self, key: MaskKey) -> Result<Mask, Failure> {
        let mut mask = Mask::new(key);
        for value in &self.mask_keep {
            if value.trim_matches('*').is_empty() {
                return Err(Failure::usage(format!(
                    "--mask-keep '{value}' would keep every value; give a value, such as 'shipped' or 'ship*'"
                )));
            }
            mask.keep_value(Pattern::name(value));
        }
        for text in &self.mask_keep_statement {
            mask.keep_statement(Pattern::statement(text).ok_or_else(|| {
                Failure::usage(format!(
                    "--mask-keep-statement '{text}' would match every statement; give a part of a statement's text, such as 'from holidays'"
                ))
            })?);
        }
        Ok(mask)
    }
}

/// Reads a key file.
///
/// # Errors
/// If the file cannot be read, or contains no key.
pub fn read_key(file: &Path) -> Result<MaskKey, Failure> {
    let secret = archive::read_small_file(file, KEY_BYTES_MAX).map_err(|error| {
        Failure::usage(format!(
            "the key file {} cannot be read ({error}); give one that `rehearse mask key FILE` made, or `random`",
            file.display()
        ))
    })?;
    let key = MaskKey::parse(&secret)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    study::keys::refuse_open_key_file(file)?;
    Ok(key)
}

/// Creates a key of 256 bits in hexadecimal digits, as [`MaskKey::parse`] accepts it.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_key() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Failure::could_not(format!("/dev/urandom cannot be read: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Options of `rehearse mask`.
#[derive(Debug, Args)]
pub struct MaskCommand {
    /// Action.
    #[command(subcommand)]
    pub action: MaskAction,
}

/// Actions of `rehearse mask`.
#[derive(Debug, Subcommand)]
pub enum MaskAction {
    /// Create a key file.
    Key {
        /// Write the key to this file, readable by its owner only.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Create a masked copy of a workload.
    Workload(MaskWorkload),
    /// Mask the rows of a plain SQL dump by pg_dump, from standard input to standard output.
    Dump(MaskDump),
    /// Mask rows in COPY text format, from standard input to standard output.
    Values(MaskValues),
}

/// Options of `rehearse mask workload`.
#[derive(Debug, Args)]
pub struct MaskWorkload {
    /// Mask this workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// Write the masked workload to this directory.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// Mask with the key in this file, or with a `random` key that is not kept.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: String,
    /// Values to keep.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Encryption of the workload.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// Options of `rehearse mask dump`.
#[derive(Debug, Args)]
pub struct MaskDump {
    /// Mask with the key in this file.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: PathBuf,
    /// Keep this column as it is: TABLE.COLUMN or SCHEMA.TABLE.COLUMN. Repeatable.
    #[arg(long, value_name = "TABLE.COLUMN")]
    pub keep_column: Vec<String>,
    /// Keep values that equal this text; `*` matches any text. Repeatable.
    #[arg(long, value_name = "VALUE")]
    pub mask_keep: Vec<String>,
}

/// Options of `rehearse mask values`.
#[derive(Debug, Args)]
pub struct MaskValues {
    /// Mask with the key in this file.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: PathBuf,
    /// Mask these columns, counted from 1 [default: all].
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub columns: Vec<u32>,
    /// Read and write CSV.
    #[arg(long)]
    pub csv: bool,
    /// Keep values that equal this text; `*` matches any text. Repeatable.
    #[arg(long, value_name = "VALUE")]
    pub mask_keep: Vec<String>,
}
