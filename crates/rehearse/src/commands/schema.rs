//! `rehearse schema`: what the JSON of a command looks like.

use crate::ending::Ending;
use crate::options::Schema;
use crate::terminal;
use study::Failure;

/// Prints the schema.
pub fn run(options: &Schema) -> Result<Ending, Failure> {
    terminal::say(&options.of.described().schema());
    Ok(Ending::Done)
}
