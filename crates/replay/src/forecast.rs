//! What a replay would do, without doing it: everything is planned, and nothing sent.

use std::collections::{BTreeMap, HashSet};

use clock::Speed;
use run::SkipReason;
use workload::{ArchiveError, EventKind, WorkloadReader};

use crate::course::Course;
use crate::guard;
use crate::options::Options;
use crate::portals::Portals;

/// What a replay would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Sessions that would connect.
    pub sessions: u64,
    /// Statements: those that would be sent and those that would be skipped.
    pub statements: u64,
    /// Statements that would be sent and may write, as their first words tell; with `read_only`,
    /// those that the server would refuse.
    pub writes: u64,
    /// Statements that would not be sent, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// When the last event would be due, in nanoseconds from the start; `None` at full speed. In a
    /// closed loop, when it would be due in an open one.
    pub span_ns: Option<i64>,
    /// Silence that would be cut, in microseconds of captured time.
    pub cut_us: i64,
}

/// Plans a whole replay, and sends nothing.
///
/// # Errors
/// Where the workload cannot be read.
pub fn forecast(reader: &WorkloadReader, options: &Options) -> Result<Forecast, ArchiveError> {
    let mut writing = HashSet::new();
    for statement in reader.statements()? {
        let statement = statement?;
        if statement.class.may_write() {
            writing.insert(statement.fingerprint);
        }
    }
    let timeline = options.timeline();
    let mut course = Course::new(options.shape(), reader.info().span_us, || reader.events());
    let mut forecast = Forecast {
        span_ns: (options.speed != Speed::Max).then_some(0),
        ..Forecast::default()
    };
    let mut portals = Portals::new(options.fetch_size);
    while let Some(step) = course.next()? {
        let mut event = step.event;
        if let Some(span_ns) = &mut forecast.span_ns {
            *span_ns = timeline.due_ns(event.due_us).max(*span_ns);
        }
        forecast.sessions += u64::from(matches!(event.kind, EventKind::Connect { .. }));
        let unreplayable = portals.rows_max(&event).err();
        if !event.kind.is_statement() {
            continue;
        }
        forecast.statements += 1;
        let skipped = match unreplayable {
            Some(reason) => Some(SkipReason::Unreplayable(reason)),
            None if options.read_only && !guard::keep_from_writing(&mut event) => {
                Some(SkipReason::ReadOnly)
            }
            None => None,
        };
        match skipped {
            Some(reason) => *forecast.skipped.entry(reason).or_default() += 1,
            None => {
                let writes = step
                    .fingerprint
                    .is_some_and(|print| writing.contains(&print));
                forecast.writes += u64::from(writes);
            }
        }
    }
    forecast.cut_us = course.cut_us();
    Ok(forecast)
}
