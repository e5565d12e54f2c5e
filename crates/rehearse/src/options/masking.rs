//! How values are masked: the same options for captures, slices and dumps.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sql::Pattern;
use transform::mask::{Mask, MaskKey, Masker};

use crate::options::encrypting::EncryptArgs;
use study::Failure;

/// What `--mask` takes instead of a file.
const RANDOM: &str = "random";

/// How values are masked.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Masking")]
pub struct MaskArgs {
    /// Replace the values of literals, parameters, COPY data and results by others of the same type
    /// and length, by the key in this file (see `rehearse mask key`); `random` is a key that is kept
    /// nowhere.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: Option<String>,
    /// What stays as it is.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// What a masking leaves as it is.
#[derive(Debug, Clone, Default, Args)]
pub struct KeepArgs {
    /// Leave values that are this text as a whole, such as the labels of an enumeration; `*` stands
    /// for any text. Can be given again.
    #[arg(long, value_name = "VALUE")]
    pub mask_keep: Vec<String>,
    /// Leave the values of statements whose normalised text holds this text; `*` stands for any
    /// text, case does not matter. Can be given again.
    #[arg(long, value_name = "PATTERN")]
    pub mask_keep_statement: Vec<String>,
}

impl MaskArgs {
    /// What masks; `None` if that was not asked for.
    ///
    /// # Errors
    /// Where the key cannot be read, or what to keep makes no sense.
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
    /// A mask with this key that keeps what was asked for.
    ///
    /// # Errors
    /// Where a pattern would match everything.
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
/// Where it is not there, or holds no key.
pub fn read_key(file: &Path) -> Result<MaskKey, Failure> {
    let secret = std::fs::read(file).map_err(|error| {
        Failure::usage(format!(
            "the key file {} cannot be read ({error}); give one that `rehearse mask key FILE` made, or `random`",
            file.display()
        ))
    })?;
    MaskKey::parse(&secret).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// 256 bits in hexadecimal digits: what [`MaskKey::parse`] takes.
///
/// # Errors
/// Where the system has no random numbers.
pub fn random_key() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Failure::could_not(format!("/dev/urandom cannot be read: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// `rehearse mask`
#[derive(Debug, Args)]
pub struct MaskCommand {
    /// What to do.
    #[command(subcommand)]
    pub action: MaskAction,
}

/// What to do with masks.
#[derive(Debug, Subcommand)]
pub enum MaskAction {
    /// Make a key file.
    Key {
        /// The file to make, for its owner alone.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a masked workload of a workload.
    Workload(MaskWorkload),
    /// Mask the rows of a dump by pg_dump as plain SQL, from standard input to standard output.
    Dump(MaskDump),
    /// Mask rows in the text format of COPY, from standard input to standard output.
    Values(MaskValues),
}

/// `rehearse mask workload`
#[derive(Debug, Args)]
pub struct MaskWorkload {
    /// The workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// The workload to make.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// The key file, or `random`.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: String,
    /// What stays.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Print the account as JSON.
    #[arg(long)]
    pub json: bool,
    /// To whom it is encrypted.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// `rehearse mask dump`
#[derive(Debug, Args)]
pub struct MaskDump {
    /// The key file.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: PathBuf,
    /// Leave this column as it is: TABLE.COLUMN or SCHEMA.TABLE.COLUMN. Can be given again.
    #[arg(long, value_name = "TABLE.COLUMN")]
    pub keep_column: Vec<String>,
    /// Leave values that are this text as a whole; `*` stands for any text. Can be given again.
    #[arg(long, value_name = "VALUE")]
    pub mask_keep: Vec<String>,
}

/// `rehearse mask values`
#[derive(Debug, Args)]
pub struct MaskValues {
    /// The key file.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: PathBuf,
    /// Which columns, from 1; all where it is not given.
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub columns: Vec<u32>,
    /// The rows are CSV.
    #[arg(long)]
    pub csv: bool,
    /// Leave values that are this text as a whole; `*` stands for any text. Can be given again.
    #[arg(long, value_name = "VALUE")]
    pub mask_keep: Vec<String>,
}
