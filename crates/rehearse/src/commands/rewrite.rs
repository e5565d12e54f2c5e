//! `rehearse rewrite`: creates a workload as modified clients would have sent it.

use report::{Rewritings, TransformReport, rewrite_text, to_json};

use crate::commands::capture::check_workload_name;
use crate::exit_status::ExitStatus;
use crate::options::rewrite::RewriteWorkload;
use crate::terminal;
use study::Failure;
use study::keys;
use study::rewrite_workload::rewrite_workload;

/// Reads one workload, writes the other, and reports the changes to statements.
pub fn run(options: &RewriteWorkload) -> Result<ExitStatus, Failure> {
    let all = options.how.all();
    if all.is_empty() {
        return Err(Failure::usage(
            "nothing says how; give --batch-inserts ROWS, --drop TEXT, --cache TIME, --prepare, --unprepare or --pool CONNECTIONS",
        ));
    }
    check_workload_name(&options.output)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let reader = keys::open_workload(&options.workload)?;
    let mut recipients = keys::read_recipients(&options.encryption.encrypt)?;
    if recipients.is_empty() {
        recipients = reader.recipients();
    }
    let info = rewrite_workload(&reader, &all, (&options.output, &recipients), &interrupt)?;
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
    Ok(ExitStatus::Success)
}
