//! Merges the events to replay in captured time order: the workload, or concurrent and repeated copies of it.
//!
//! Concurrent copies (`--copies`) have one reader each and are merged with a shift between them, so no shift
//! is too large for memory. Repeated copies (`--loops`) are read one round after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Factor;
use sql::Fingerprint;
use workload::{ArchiveError, Event, EventKind, Outcome, WorkloadReader};

use crate::pacing::Silence;

/// Offset between the session numbers of two copies. Session *n* of copy *c* is session *c* · this + *n* of
/// the run, so the decimal number shows both. Copies count from 0: round · copies per round + index in the
/// round.
pub const COPY_SESSION_OFFSET: u64 = 1_000_000_000_000;

/// Number of copies of each session, and the shift between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Copies of each session. A fractional part selects that share of the sessions, always the same ones.
    pub factor: Factor,
    /// Delay of each copy after the one before it, in captured time.
    pub shift: Duration,
}

impl Default for Scale {
    fn default() -> Self {
        Scale {
            factor: Factor::ONE,
            shift: Duration::from_millis(100),
        }
    }
}

impl Scale {
    /// Returns the number of copies in a round, with a partial copy counted as one.
    pub fn copies(&self) -> u64 {
        self.factor.whole() + u64::from(self.factor.rest_millionths() > 0)
    }

    /// Whether a copy, counted from 0, includes the session.
    pub(crate) fn keeps(&self, copy: u64, session: u64) -> bool {
        copy < self.factor.whole() || millionth(session) < self.factor.rest_millionths()
    }

    fn shift_us(&self) -> i64 {
        i64::try_from(self.shift.as_micros()).unwrap_or(i64::MAX)
    }
}

/// Hashes a session's number to 0..1,000,000: the same in every replay, and uniform.
fn millionth(session: u64) -> u64 {
    mix(session) % 1_000_000
}

/// Hashes a number with the finaliser of SplitMix64 (Steele, Lea, Flood 2014): the same in every replay, and uniform.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Options that shape the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) scale: Scale,
    pub(crate) rounds: u64,
    pub(crate) idle_max: Option<Duration>,
}

/// One event of the stream.
pub(crate) struct Step {
    /// Event with the session's number in the run. Its captured time includes shifts and excludes idle time
    /// that was cut.
    pub(crate) event: Event,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Round, from 0.
    pub(crate) round: u64,
}

type Item = Result<(Event, Option<Fingerprint>), ArchiveError>;

/// Reader of one copy of the workload, with its next event.
struct Copy<I> {
    number: u64,
    events: I,
    next: Option<(Event, Option<Fingerprint>)>,
}

/// Merged stream of events, in time order.
pub(crate) struct EventStream<I, F> {
    shape: Shape,
    span_us: i64,
    open: F,
    round: u64,
    copies: Vec<Copy<I>>,
    silence: Silence,
    /// Open sessions of this round, each with its next sequence number. Tracked only if another round follows.
    open_sessions: BTreeMap<u64, u64>,
    /// Disconnects still to return for the sessions that this round leaves open.
    pending_closes: Vec<(u64, u64)>,
}

/// Counts the statements of a stream.
///
/// # Errors
/// If the workload cannot be read.
pub(crate) fn count_statements(
    reader: &WorkloadReader,
    shape: &Shape,
) -> Result<u64, ArchiveError> {
    let (scale, all) = (&shape.scale, reader.info().statements);
    let mut of_a_round = scale.factor.whole().saturating_mul(all);
    if scale.factor.rest_millionths() > 0 {
        let (mut counted, mut kept) = (0, 0);
        for session in reader.sessions()? {
            let session = session?;
            counted += session.statements;
            if scale.keeps(u64::MAX, session.id) {
                kept += session.statements;
            }
        }
        if counted != all {
            // Not every source counts statements by session.
            kept = 0;
            for item in reader.events()? {
                let (event, _) = item?;
                let is_kept = scale.keeps(u64::MAX, event.session);
                kept += u64::from(is_kept && event.kind.is_statement());
            }
        }
        of_a_round = of_a_round.saturating_add(kept);
    }
    Ok(of_a_round.saturating_mul(shape.rounds))
}

/// Returns the length of a stream in captured time, in microseconds, before idle time is cut.
pub(crate) fn span_us(reader: &WorkloadReader, shape: &Shape) -> i64 {
    let rounds = i64::try_from(shape.rounds).unwrap_or(i64::MAX);
    round_us(reader.info().span_us, &shape.scale).saturating_mul(rounds)
}

fn round_us(span_us: i64, scale: &Scale) -> i64 {
    let shifts = i64::try_from(scale.copies().saturating_sub(1)).unwrap_or(i64::MAX);
    span_us.saturating_add(scale.shift_us().saturating_mul(shifts))
}

impl<I, F> EventStream<I, F>
where
    I: Iterator<Item = Item>,
    F: FnMut() -> Result<I, ArchiveError>,
{
    /// Creates a stream over the events that `open` opens; one copy is `span_us` long.
    pub(crate) fn new(shape: Shape, span_us: i64, open: F) -> Self {
        let idle_max = shape.idle_max;
        let limit_us = idle_max.map(|max| i64::try_from(max.as_micros()).unwrap_or(i64::MAX));
        EventStream {
            shape,
            span_us,
            open,
            round: 0,
            copies: Vec::new(),
            silence: Silence::new(limit_us),
            open_sessions: BTreeMap::new(),
            pending_closes: Vec::new(),
        }
    }

    /// Returns the idle time cut so far, in microseconds.
    pub(crate) fn cut_us(&self) -> i64 {
        self.silence.cut_us()
    }

    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<Step>, ArchiveError> {
        let per_round = self.shape.scale.copies();
        loop {
            if let Some((session, sequence)) = self.pending_closes.pop() {
                return Ok(Some(self.close(session, sequence)));
            }
            if self.round >= self.shape.rounds {
                return Ok(None);
            }
            if self.copies.is_empty() {
                for number in 0..per_round {
                    let events = (self.open)()?;
                    self.copies.push(Copy {
                        number,
                        events,
                        next: None,
                    });
                    let index = self.copies.len() - 1;
                    self.advance(index)?;
                }
            }
            let first = self
                .copies
                .iter()
                .enumerate()
                .filter_map(|(index, copy)| Some((copy.next.as_ref()?.0.due_us, index)))
                .min();
            let Some((_, index)) = first else {
                self.copies.clear();
                if self.round + 1 < self.shape.rounds {
                    self.pending_closes = std::mem::take(&mut self.open_sessions)
                        .into_iter()
                        .rev()
                        .collect();
                }
                self.round += 1;
                continue;
            };
            let (mut event, fingerprint) = self.copies[index].next.take().expect("just seen");
            self.advance(index)?;
            if self.round + 1 < self.shape.rounds {
                match event.kind {
                    EventKind::Disconnect => {
                        self.open_sessions.remove(&event.session);
                    }
                    _ => {
                        self.open_sessions.insert(event.session, event.sequence + 1);
                    }
                }
            }
            let duration_us = event.outcome.duration_us.unwrap_or(0);
            event.due_us = self.silence.pass(event.due_us, duration_us);
            return Ok(Some(Step {
                event,
                fingerprint,
                round: self.round,
            }));
        }
    }

    fn round_starts_us(&self, round: u64) -> i64 {
        let round = i64::try_from(round).unwrap_or(i64::MAX);
        round_us(self.span_us, &self.shape.scale).saturating_mul(round)
    }

    /// Reads a copy's next event that is kept, and sets its time and session in the stream.
    fn advance(&mut self, index: usize) -> Result<(), ArchiveError> {
        let (scale, starts_us) = (self.shape.scale, self.round_starts_us(self.round));
        let of_round = self.round * scale.copies();
        let copy = &mut self.copies[index];
        for item in copy.events.by_ref() {
            let (mut event, fingerprint) = item?;
            if !scale.keeps(copy.number, event.session) {
                continue;
            }
            let shifts = i64::try_from(copy.number).unwrap_or(i64::MAX);
            event.due_us = event
                .due_us
                .saturating_add(scale.shift_us().saturating_mul(shifts))
                .saturating_add(starts_us);
            event.session += (of_round + copy.number) * COPY_SESSION_OFFSET;
            copy.next = Some((event, fingerprint));
            break;
        }
        Ok(())
    }

    /// Creates the disconnect of a session that the workload leaves open, so that its locks do not block the
    /// next round.
    fn close(&mut self, session: u64, sequence: u64) -> Step {
        let at_us = self.round_starts_us(self.round);
        Step {
            event: Event {
                session,
                sequence,
                due_us: self.silence.pass(at_us, 0),
                kind: EventKind::Disconnect,
                outcome: Outcome::default(),
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            },
            fingerprint: None,
            round: self.round - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn event(due_us: i64, session: u64, sequence: u64, kind: EventKind) -> Event {
        Event {
            session,
            sequence,
            due_us,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        }
    }

    /// Creates 40 sessions of five statements; every third one has no end.
    fn workload() -> Vec<Event> {
        let mut events = Vec::new();
        for session in 0..40u64 {
            let at = |n: u64| (session * 37 % 20 * 1_000 + n * 700) as i64;
            let connect = EventKind::Connect {
                database: "".into(),
                user: "".into(),
                application: "".into(),
            };
            events.push(event(at(0), session, 0, connect));
            for n in 1..=5 {
                let sql = "SELECT 1".into();
                events.push(event(at(n), session, n, EventKind::Simple { sql }));
            }
            if session % 3 != 0 {
                events.push(event(at(6), session, 6, EventKind::Disconnect));
            }
        }
        events.sort_by_key(|event| (event.due_us, event.session, event.sequence));
        events
    }

    const SPAN_US: i64 = 19_000 + 6 * 700;

    fn steps(factor: &str, rounds: u64, idle_max: Option<Duration>) -> (Vec<Step>, i64) {
        let shape = Shape {
            scale: Scale {
                factor: factor.parse().unwrap(),
                shift: Duration::from_micros(1_500),
            },
            rounds,
            idle_max,
        };
        let open = || Ok(workload().into_iter().map(|event| Ok((event, None))));
        let mut stream = EventStream::new(shape, SPAN_US, open);
        let mut steps = Vec::new();
        while let Some(step) = stream.next().unwrap() {
            steps.push(step);
        }
        (steps, stream.cut_us())
    }

    #[test]
    fn event_stream_of_one_copy_is_the_workload() {
        let (steps, cut_us) = steps("1", 1, None);
        let events: Vec<Event> = steps.into_iter().map(|step| step.event).collect();
        assert_eq!(events, workload());
        assert_eq!(cut_us, 0);
    }

    #[test]
    fn event_stream_keeps_time_order_and_session_order() {
        for (factor, rounds, idle_max) in [
            ("1", 3, None),
            ("3", 1, None),
            ("2.5", 2, None),
            ("0.4", 4, Some(Duration::from_micros(300))),
            ("3", 2, Some(Duration::from_micros(100))),
        ] {
            let (steps, _) = steps(factor, rounds, idle_max);
            let mut last_us = 0;
            let mut next = BTreeMap::new();
            let mut ended = BTreeSet::new();
            for step in &steps {
                let Event {
                    session, sequence, ..
                } = step.event;
                assert!(step.event.due_us >= last_us, "{factor} × {rounds}");
                last_us = step.event.due_us;
                let expected = next.entry(session).or_insert(0);
                assert_eq!(
                    *expected, sequence,
                    "{factor} × {rounds}, session {session}"
                );
                *expected += 1;
                assert!(!ended.contains(&session));
                if step.event.kind == EventKind::Disconnect {
                    ended.insert(session);
                }
                let copies: f64 = factor.parse::<f64>().unwrap().ceil();
                let copy = session / COPY_SESSION_OFFSET;
                assert_eq!(copy / copies as u64, step.round);
                assert!(session % COPY_SESSION_OFFSET < 40);
            }
            // Sessions are closed before another round; the last round leaves them open.
            for session in next.keys() {
                let last_round = steps
                    .iter()
                    .any(|step| step.event.session == *session && step.round + 1 == rounds);
                let has_end = !(session % COPY_SESSION_OFFSET).is_multiple_of(3);
                assert_eq!(ended.contains(session), has_end || !last_round);
            }
        }
    }

    #[test]
    fn event_stream_fraction_selects_nested_shares() {
        let sessions = |factor: &str| -> BTreeSet<u64> {
            let (steps, _) = steps(factor, 1, None);
            steps.iter().map(|step| step.event.session).collect()
        };
        let half = sessions("0.5");
        assert_eq!(half, sessions("0.5"));
        assert!(sessions("0.2").is_subset(&half));
        let many = (0..100_000).filter(|&id| millionth(id) < 250_000).count();
        assert!((24_000..26_000).contains(&many), "{many}");
        // One and a half: all, and the same half again.
        let more: BTreeSet<u64> = sessions("1.5")
            .into_iter()
            .filter_map(|id| id.checked_sub(COPY_SESSION_OFFSET))
            .collect();
        assert_eq!(more, half);
    }

    #[test]
    fn event_stream_shifts_copies_and_rounds() {
        let (steps, _) = steps("2", 2, None);
        let connect = |copy: u64| {
            let session = copy * COPY_SESSION_OFFSET + 7;
            let step = steps.iter().find(|step| step.event.session == session);
            step.unwrap().event.due_us
        };
        let first = connect(0);
        assert_eq!(connect(1), first + 1_500);
        assert_eq!(connect(2), first + SPAN_US + 1_500);
        assert_eq!(connect(3), first + SPAN_US + 3_000);
    }
}
