//! Wait samples of a run's sessions, as stacks.

use std::collections::BTreeMap;
use std::path::Path;

use report::flame::{folded_waits, wait_notes};
use run::{RunReader, SampleWindow, SeenStatement};
use time_breakdown::time_model::whole_statements;
use time_breakdown::waiting::{WaitChoice, Waiting};
use workload::StatementText;

use super::FlameStacks;
use study::Failure;
use study::profile_samples::SampleFilter;
use study::profile_samples::fingerprint;

/// Returns the wait samples of an observed run as stacks.
///
/// # Errors
/// If the run was not observed, the selection does not apply to waits, or the run cannot be
/// read.
pub fn waits(path: &Path, choice: &SampleFilter) -> Result<FlameStacks, Failure> {
    if let Some(role) = &choice.user {
        return Err(Failure::usage(format!(
            "--filter-user {role} cannot be told of waits, whose samples have no roles; choose by --filter-database or --statement"
        )));
    }
    let choice = WaitChoice {
        statement: choice.statement.as_deref().map(fingerprint).transpose()?,
        database: choice.database.clone(),
        all_processes: choice.all_processes,
    };
    let run = RunReader::open(path)?;
    let windows: Vec<SampleWindow> = run.sample_windows()?.collect::<Result<_, _>>()?;
    if !windows.iter().any(|window| window.samples > 0) {
        return Err(Failure::usage(format!(
            "{} has no samples of what sessions wait for; give `rehearse replay` the option --observe, or take some with `rehearse observe`",
            path.display()
        )));
    }
    let mut texts: BTreeMap<_, StatementText> = BTreeMap::new();
    for text in run.statements()? {
        let text = text?;
        texts.insert(text.fingerprint, text);
    }
    let seen: Vec<SeenStatement> = run.seen_statements()?.collect::<Result<_, _>>()?;
    let whole = whole_statements(&seen, &texts);
    for one in seen {
        texts.entry(one.fingerprint).or_insert(StatementText {
            fingerprint: one.fingerprint,
            class: one.class,
            sql: one.sql,
        });
    }
    let waiting = Waiting::collect(&windows, run.activity()?, &whole, &choice)?;
    Ok(FlameStacks {
        folded: folded_waits(&waiting, &texts),
        notes: wait_notes(&waiting),
    })
}
