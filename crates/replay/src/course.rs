//! What is replayed, in the order of captured time: the workload, or several copies of it beside
//! and behind one another.
//!
//! Copies beside one another (`--scale`) are read by a reader each, a shift apart, and merged: no
//! shift is too large for memory. Copies behind one another (`--repeat`) are read one round after
//! the other.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Factor;
use sql::Fingerprint;
use workload::{ArchiveError, Event, EventKind, Outcome, WorkloadReader};

use crate::timeline::Silence;

/// The session *n* of copy *c* is session *c* · this + *n* of the run: a decimal number that shows
/// both. Copies count from 0: round · copies of a round + place in the round.
pub const SESSIONS_OF_A_COPY: u64 = 1_000_000_000_000;

/// How many copies of each session there are, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// How many times each session is there; of what stands behind the point, that share of the
    /// sessions, always the same ones.
    pub factor: Factor,
    /// How much later than the copy before it each copy comes, in captured time.
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
    /// Copies in a round, a share of one among them.
    pub fn copies(&self) -> u64 {
        self.factor.whole() + u64::from(self.factor.rest_millionths() > 0)
    }

    /// Whether a copy, from 0, has the session.
    fn keeps(&self, copy: u64, session: u64) -> bool {
        copy < self.factor.whole() || millionth(session) < self.factor.rest_millionths()
    }

    fn shift_us(&self) -> i64 {
        i64::try_from(self.shift.as_micros()).unwrap_or(i64::MAX)
    }
}

/// A number below a million for a session: the same in every replay, and evenly spread. Source of
/// the mixing: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn millionth(session: u64) -> u64 {
    let mut mixed = session.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % 1_000_000
}

/// What shapes the course.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) scale: Scale,
    pub(crate) rounds: u64,
    pub(crate) idle_max: Option<Duration>,
}

/// One thing to do.
pub(crate) struct Step {
    /// With the session's number in the run, and due where it is in captured time, with shifts in
    /// it and without silence that was cut.
    pub(crate) event: Event,
    pub(crate) fingerprint: Option<Fingerprint>,
    /// From 0.
    pub(crate) round: u64,
}

type Item = Result<(Event, Option<Fingerprint>), ArchiveError>;

/// One copy of the workload, and its next event.
struct Copy<I> {
    number: u64,
    events: I,
    next: Option<(Event, Option<Fingerprint>)>,
}

/// The steps, in time order. See the module's text.
pub(crate) struct Course<I, F> {
    shape: Shape,
    span_us: i64,
    open: F,
    round: u64,
    copies: Vec<Copy<I>>,
    silence: Silence,
    /// The sessions of this round that are open, with their next sequence; followed only where
    /// another round comes behind.
    live: BTreeMap<u64, u64>,
    /// The ends of what this round leaves open.
    closing: Vec<(u64, u64)>,
}

/// How many statements a course holds.
///
/// # Errors
/// Where the workload cannot be read.
pub(crate) fn statements(reader: &WorkloadReader, shape: &Shape) -> Result<u64, ArchiveError> {
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
            // Not every source counts them by session.
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

/// How long a course is in captured time, in microseconds, before silence is cut.
pub(crate) fn span_us(reader: &WorkloadReader, shape: &Shape) -> i64 {
    let rounds = i64::try_from(shape.rounds).unwrap_or(i64::MAX);
    round_us(reader.info().span_us, &shape.scale).saturating_mul(rounds)
}

fn round_us(span_us: i64, scale: &Scale) -> i64 {
    let shifts = i64::try_from(scale.copies().saturating_sub(1)).unwrap_or(i64::MAX);
    span_us.saturating_add(scale.shift_us().saturating_mul(shifts))
}

impl<I, F> Course<I, F>
where
    I: Iterator<Item = Item>,
    F: FnMut() -> Result<I, ArchiveError>,
{
    /// A course over what `open` opens, `span_us` long.
    pub(crate) fn new(shape: Shape, span_us: i64, open: F) -> Self {
        let idle_max = shape.idle_max;
        let limit_us = idle_max.map(|max| i64::try_from(max.as_micros()).unwrap_or(i64::MAX));
        Course {
            shape,
            span_us,
            open,
            round: 0,
            copies: Vec::new(),
            silence: Silence::new(limit_us),
            live: BTreeMap::new(),
            closing: Vec::new(),
        }
    }

    /// How much silence was cut so far, in microseconds.
    pub(crate) fn cut_us(&self) -> i64 {
        self.silence.cut_us()
    }

    /// The next step; `None` behind the last.
    ///
    /// # Errors
    /// Where the workload cannot be read on.
    pub(crate) fn next(&mut self) -> Result<Option<Step>, ArchiveError> {
        let per_round = self.shape.scale.copies();
        loop {
            if let Some((session, sequence)) = self.closing.pop() {
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
                    let place = self.copies.len() - 1;
                    self.advance(place)?;
                }
            }
            let first = self
                .copies
                .iter()
                .enumerate()
                .filter_map(|(place, copy)| Some((copy.next.as_ref()?.0.due_us, place)))
                .min();
            let Some((_, place)) = first else {
                self.copies.clear();
                if self.round + 1 < self.shape.rounds {
                    self.closing = std::mem::take(&mut self.live).into_iter().rev().collect();
                }
                self.round += 1;
                continue;
            };
            let (mut event, fingerprint) = self.copies[place].next.take().expect("just seen");
            self.advance(place)?;
            if self.round + 1 < self.shape.rounds {
                match event.kind {
                    EventKind::Disconnect => {
                        self.live.remove(&event.session);
                    }
                    _ => {
                        self.live.insert(event.session, event.sequence + 1);
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

    /// Reads a copy's next event that it keeps, and gives it its place in the course.
    fn advance(&mut self, place: usize) -> Result<(), ArchiveError> {
        let (scale, starts_us) = (self.shape.scale, self.round_starts_us(self.round));
        let of_round = self.round * scale.copies();
        let copy = &mut self.copies[place];
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
            event.session += (of_round + copy.number) * SESSIONS_OF_A_COPY;
            copy.next = Some((event, fingerprint));
            break;
        }
        Ok(())
    }

    /// The end of a session that the workload leaves open: the next round finds nobody waiting
    /// for its locks.
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
                particulars: None,
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
            particulars: None,
        }
    }

    /// 40 sessions of five statements; every third one has no end.
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
        let mut course = Course::new(shape, SPAN_US, open);
        let mut steps = Vec::new();
        while let Some(step) = course.next().unwrap() {
            steps.push(step);
        }
        (steps, course.cut_us())
    }

    #[test]
    fn one_copy_is_the_workload_itself() {
        let (steps, cut_us) = steps("1", 1, None);
        let events: Vec<Event> = steps.into_iter().map(|step| step.event).collect();
        assert_eq!(events, workload());
        assert_eq!(cut_us, 0);
    }

    #[test]
    fn copies_keep_time_order_and_each_session_its_own() {
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
                let copy = session / SESSIONS_OF_A_COPY;
                assert_eq!(copy / copies as u64, step.round);
                assert!(session % SESSIONS_OF_A_COPY < 40);
            }
            // What another round comes behind is closed; what the last leaves open is not.
            for session in next.keys() {
                let last_round = steps
                    .iter()
                    .any(|step| step.event.session == *session && step.round + 1 == rounds);
                let has_end = !(session % SESSIONS_OF_A_COPY).is_multiple_of(3);
                assert_eq!(ended.contains(session), has_end || !last_round);
            }
        }
    }

    #[test]
    fn a_fraction_is_always_the_same_share_and_shares_nest() {
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
            .filter_map(|id| id.checked_sub(SESSIONS_OF_A_COPY))
            .collect();
        assert_eq!(more, half);
    }

    #[test]
    fn shifts_and_rounds_are_where_they_are_said_to_be() {
        let (steps, _) = steps("2", 2, None);
        let connect = |copy: u64| {
            let session = copy * SESSIONS_OF_A_COPY + 7;
            let step = steps.iter().find(|step| step.event.session == session);
            step.unwrap().event.due_us
        };
        let first = connect(0);
        assert_eq!(connect(1), first + 1_500);
        assert_eq!(connect(2), first + SPAN_US + 1_500);
        assert_eq!(connect(3), first + SPAN_US + 3_000);
    }
}
