//! `rehearse schema`: what the JSON of a command looks like.

use crate::ending::{Ending, Failure};
use crate::options::Schema;
use crate::terminal;

/// Prints the schema.
pub fn run(options: &Schema) -> Result<Ending, Failure> {
    terminal::say(&options.of.described().schema());
    Ok(Ending::Done)
}
