//! `rehearse inspect`: what is in a workload.

use analyse::Inspection;
use report::{InspectView, inspect_text, to_json};
use workload::WorkloadReader;

use crate::ending::{Ending, Failure};
use crate::options::Inspect;
use crate::terminal;

/// Reads the workload once and shows what is in it.
pub fn run(options: &Inspect) -> Result<Ending, Failure> {
    let reader = WorkloadReader::open(&options.workload)?;
    if options.verify {
        reader.verify()?;
    }
    let inspection = Inspection::collect(
        reader.info(),
        reader.events()?,
        reader.sessions()?,
        reader.statements()?,
    )?;
    let view = InspectView::new(&options.workload.display().to_string(), &inspection);
    if options.json {
        terminal::say_line(&to_json(&view));
    } else {
        terminal::say(&inspect_text::render_text(&view, &terminal::style()));
    }
    Ok(Ending::Done)
}
