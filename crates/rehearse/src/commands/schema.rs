//! `rehearse schema`: prints the JSON schema of a command's output.

use crate::exit_status::ExitStatus;
use crate::options::schema::Schema;
use crate::terminal;
use study::Failure;

/// Prints the schema.
pub fn run(options: &Schema) -> Result<ExitStatus, Failure> {
    terminal::say(&options.of.described().schema());
    Ok(ExitStatus::Success)
}
