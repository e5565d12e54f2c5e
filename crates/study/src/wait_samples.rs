//! Wait samples of a run's sessions, with the statements that waited.

use std::collections::BTreeMap;
use std::path::Path;

use run::{RunReader, SampleWindow, SampledStatement};
use sql::Fingerprint;
use time_breakdown::time_model::match_truncated_queries;
use time_breakdown::waiting::{WaitChoice, Waiting};
use workload::StatementText;

use crate::failure::Failure;
use crate::profile_samples::{SampleFilter, parse_fingerprint};

/// Waits of a run's sessions.
pub struct WaitSamples {
    /// Start of the run, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// The waits.
    pub waiting: Waiting,
    /// Texts of the statements that waited.
    pub texts: BTreeMap<Fingerprint, StatementText>,
}

/// Reads the wait samples of an observed run.
///
/// # Errors
/// If the run was not observed, the selection does not apply to waits, or the run cannot be
/// read.
pub fn wait_samples(path: &Path, choice: &SampleFilter) -> Result<WaitSamples, Failure> {
    if let Some(role) = &choice.user {
        return Err(Failure::usage(format!(
            "--filter-user {role} cannot be told of waits, whose samples have no roles; choose by --filter-database or --statement"
        )));
    }
    let choice = WaitChoice {
        statement: choice
            .statement
            .as_deref()
            .map(parse_fingerprint)
            .transpose()?,
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
    let seen: Vec<SampledStatement> = run.observed_statements()?.collect::<Result<_, _>>()?;
    let whole = match_truncated_queries(&seen, &texts);
    for one in seen {
        texts.entry(one.fingerprint).or_insert(StatementText {
            fingerprint: one.fingerprint,
            class: one.class,
            sql: one.sql,
        });
    }
    let waiting = Waiting::collect(&windows, run.activity()?, &whole, &choice)?;
    Ok(WaitSamples {
        started_wall_us: run.info().started_wall_us,
        waiting,
        texts,
    })
}
