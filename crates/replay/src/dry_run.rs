//! Dry run: reads the workload as a replay would, and sends nothing.

use std::collections::{BTreeMap, HashSet};

use clock::Speed;
use connect::Target;
use run::SkipReason;
use workload::{EventKind, UnrepeatableFinder, UnrepeatableStatement, WorkloadReader};

use crate::connection_limits::check_limits;
use crate::error::ReplayError;
use crate::event_stream::EventStream;
use crate::options::Options;
use crate::read_only_catalogue::unrestricted_names;
use crate::skip_prediction::SkipPredictor;

/// Summary of a replay that was not run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DryRun {
    /// Sessions that would connect.
    pub sessions: u64,
    /// Statements, those to be skipped included.
    pub statements: u64,
    /// Statements that would be sent and may write, judged by their first words. With `read_only`, the server
    /// would refuse them.
    pub writes: u64,
    /// Statements that would not be sent, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Statements that would be sent and whose conditions depend on the time, on chance or on the server, the most frequent
    /// first.
    pub unrepeatable: Vec<UnrepeatableStatement>,
    /// Due time of the last event, in nanoseconds from the start; `None` at full speed. In a closed loop, the
    /// time is that of an open loop.
    pub span_ns: Option<i64>,
    /// Idle time that would be cut, in microseconds of captured time.
    pub cut_us: i64,
}

/// Reads a whole workload as a replay would, and sends nothing.
///
/// # Errors
/// If the workload cannot be read, a limit of the process is too low for the replay, or the target does not say what a read-only replay must not use.
pub fn dry_run(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
) -> Result<DryRun, ReplayError> {
    check_limits(reader, options)?;
    let unrestricted = unrestricted_names(reader, target, options)?;
    let mut writing = HashSet::new();
    for statement in reader.statements()? {
        let statement = statement?;
        if statement.class.may_write() {
            writing.insert(statement.fingerprint);
        }
    }
    let timeline = options.timeline();
    let mut events = EventStream::new(options.shape(), reader.info().span_us, || reader.events());
    let mut forecast = DryRun {
        span_ns: (options.speed != Speed::Max).then_some(0),
        ..DryRun::default()
    };
    let mut unrepeatable = UnrepeatableFinder::default();
    let mut predictor = SkipPredictor::new(options, &unrestricted);
    while let Some(step) = events.next()? {
        let mut event = step.event;
        if (options.shard.as_ref()).is_some_and(|shard| !shard.has(event.session)) {
            continue;
        }
        if let Some(span_ns) = &mut forecast.span_ns {
            *span_ns = timeline.due_ns(event.due_us).max(*span_ns);
        }
        forecast.sessions += u64::from(matches!(event.kind, EventKind::Connect { .. }));
        let skipped = predictor.skip_reason(&mut event);
        if !event.kind.is_statement() {
            continue;
        }
        forecast.statements += 1;
        match skipped {
            Some(reason) => *forecast.skipped.entry(reason).or_default() += 1,
            None => {
                let writes = step
                    .fingerprint
                    .is_some_and(|print| writing.contains(&print));
                forecast.writes += u64::from(writes);
                unrepeatable.add(&event, step.fingerprint);
            }
        }
    }
    forecast.unrepeatable = unrepeatable.finish(reader.statements()?)?;
    forecast.cut_us = events.cut_us();
    Ok(forecast)
}
