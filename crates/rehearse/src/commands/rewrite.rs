//! `rehearse rewrite`: a workload as clients would have made it that do something otherwise.

use report::{Rewritings, TransformReport, rewrite_text, to_json};

use crate::commands::capture::must_be_a_workloads_name;
use crate::ending::Ending;
use crate::options::rewrite::Rewrite;
use crate::terminal;
use study::Failure;
use study::keys;
use study::rewrite_workload::rewrite;

/// Reads one workload, writes the other, and shows what became of every statement.
pub fn run(options: &Rewrite) -> Result<Ending, Failure> {
    let all = options.how.all();
    if all.is_empty() {
        return Err(Failure::usage(
            "nothing says how; give --batch-inserts ROWS, --drop TEXT, --cache TIME, --prepare, --unprepare or --pool CONNECTIONS",
        ));
    }
    must_be_a_workloads_name(&options.output)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let reader = keys::open(&options.workload)?;
    let mut recipients = keys::recipients(&options.encryption.encrypt)?;
    if recipients.is_empty() {
        recipients = reader.recipients();
    }
    let info = rewrite(&reader, &all, (&options.output, &recipients), &interrupt)?;
    let done = &info.provenance.rewrites;
    let rewritings = done[done.len() - all.len()..].to_vec();
    let paths = [&options.workload, &options.output].map(|path| path.display().to_string());
    let rewritten = TransformReport::new(
        "rehearse/rewrite/1",
        paths,
        &info,
        Rewritings { rewritings },
    );
    match options.json {
        true => terminal::say_line(&to_json(&rewritten)),
        false => terminal::say(&rewrite_text::render_text(&rewritten, &terminal::style())),
    }
    Ok(Ending::Done)
}
