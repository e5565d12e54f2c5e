//! Demand of a replay: its sessions, and the statements and bytes of its busiest moments. One pass over the events finds
//! them, and nothing is sent.

mod peaks;

use std::collections::{BTreeMap, HashSet};

use clock::Speed;
use connect::Target;
use run::SkipReason;
use sql::UnrestrictedNames;
use workload::{ArchiveError, Event, EventKind, Parameter, WorkloadReader};

use crate::event_stream::EventStream;
use crate::options::Options;
use crate::pacing::Timeline;
use crate::progress::WorkloadPass;
use crate::read_only_catalogue::unrestricted_names;
use crate::skip_prediction::SkipPredictor;
pub use peaks::{Amount, Peaks};

/// Bytes of the messages around a statement's text and values: headers, names, formats, Sync
/// (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).
const REQUEST_BYTES: usize = 40;
/// Bytes of an answer without rows: ParseComplete, BindComplete, CommandComplete, ReadyForQuery.
const ANSWER_BYTES: u64 = 36;
/// Events between two reports of the progress.
const EVENTS_PER_REPORT: u64 = 1 << 16;

/// Demand of a replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    /// Sessions of all copies.
    pub sessions: u64,
    /// Greatest number of sessions that are open at the same time, if each statement ends at once.
    pub sessions_at_once: u64,
    /// Statements of all copies that are sent.
    pub statements: u64,
    /// Statements that are not sent, by reason.
    pub not_sent: BTreeMap<SkipReason, u64>,
    /// Reason why it is unknown which statements a read-only replay does not send, since they use objects of the target.
    pub read_only_unknown: Option<String>,
    /// Statements whose result has a known size.
    pub with_bytes: u64,
    /// Due time of the last event, in nanoseconds from the start.
    pub span_ns: i64,
    /// Sums and greatest amounts.
    pub peaks: Peaks,
}

/// Reads the events that a replay would send, and sums up what they need. At full speed the times are those of speed 1.
///
/// The catalogues of the target name what a read-only replay does not send. `capacity` is the number of statements per second that the tool can send, for the longest wait.
///
/// # Errors
/// If the workload cannot be read.
pub fn demand(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
    capacity: Option<f64>,
    on_progress: &mut dyn FnMut(WorkloadPass, u64, u64),
) -> Result<Demand, ArchiveError> {
    let timeline = match options.speed {
        Speed::Max => Timeline {
            speed: Speed::ONE,
            ..options.timeline()
        },
        Speed::Times { .. } => options.timeline(),
    };
    let mut events = EventStream::new(options.shape(), reader.info().span_us, || reader.events());
    let (unrestricted, unknown) = match unrestricted_names(reader, target, options) {
        Ok(names) => (names, None),
        Err(error) => (UnrestrictedNames::default(), Some(error.to_string())),
    };
    let mut predictor = SkipPredictor::new(options, &unrestricted);
    let mut demand = Demand {
        peaks: Peaks::new(capacity),
        read_only_unknown: unknown,
        ..Demand::default()
    };
    let mut open: HashSet<u64> = HashSet::new();
    let shape = options.shape();
    let events_of_copies = shape.scale.factor.of(reader.info().events as i64);
    let all = events_of_copies.unsigned_abs() * shape.rounds;
    let mut read = 0;
    while let Some(step) = events.next()? {
        let mut event = step.event;
        read += 1;
        if u64::is_multiple_of(read, EVENTS_PER_REPORT) {
            on_progress(WorkloadPass::Demand, read, all.max(read));
        }
        let due_ns = timeline.due_ns(event.due_us);
        demand.span_ns = demand.span_ns.max(due_ns);
        let mut amount = Amount::default();
        if event.kind == EventKind::Disconnect {
            open.remove(&event.session);
        } else if open.insert(event.session) {
            amount.connects = 1;
            demand.sessions += 1;
            demand.sessions_at_once = demand.sessions_at_once.max(open.len() as u64);
        }
        if let Some(reason) = predictor.skip_reason(&mut event) {
            *demand.not_sent.entry(reason).or_default() += 1;
        } else if event.kind.is_statement() {
            amount.statements = 1;
            amount.sent_bytes = sent_bytes(&event);
            amount.received_bytes = event.outcome.bytes.unwrap_or(0) + ANSWER_BYTES;
            demand.statements += 1;
            demand.with_bytes += u64::from(event.outcome.bytes.is_some());
        }
        demand.peaks.add(due_ns, amount);
    }
    demand.peaks.finish();
    Ok(demand)
}

/// Estimates the bytes of a statement's messages.
fn sent_bytes(event: &Event) -> u64 {
    let of_values = |values: &[Option<Parameter>]| -> usize {
        let bytes = |value: &Option<Parameter>| value.as_ref().map_or(0, |it| it.as_bytes().len());
        values.iter().map(|value| 4 + bytes(value)).sum()
    };
    let bytes = match &event.kind {
        EventKind::Simple { sql } | EventKind::Prepare { sql, .. } => sql.len(),
        EventKind::Execute {
            statement,
            sql,
            parameters,
            ..
        } => {
            // A named statement is usually prepared already.
            let text = if statement.is_empty() { sql.len() } else { 0 };
            text + of_values(parameters)
        }
        EventKind::FunctionCall { parameters, .. } => of_values(parameters),
        EventKind::Fetch { .. }
        | EventKind::Connect { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => 0,
    };
    let copied = event.wire_details.as_ref().and_then(|details| {
        let copy = details.copy.as_ref()?;
        Some(copy.data.len())
    });
    (REQUEST_BYTES + bytes + copied.unwrap_or(0)) as u64
}
