//! Events that earlier captures of a log or of packets have recorded, and that it has again when it is read again.

use std::collections::HashMap;

use workload::series::{
    HeldEvent, NO_SESSION, RunningEvent, SeriesInfo, count_events, is_among, settled_us,
    take_event, take_exactly,
};

/// State of an event of the source in earlier captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedEvent {
    /// Nothing.
    Nothing,
    /// Everything of its time.
    Settled,
    /// The event, as one that ended at this time, in microseconds since 1970-01-01 UTC.
    Noted {
        /// As that of [`RunningEvent`].
        ended_us: i64,
    },
}

/// Whether all events that ended by the end of this one are recorded, apart from held ones.
fn is_settled(to_us: Option<i64>, event: RunningEvent) -> bool {
    to_us.is_some_and(|to_us| event.ended_us < settled_us(to_us))
}

/// Returns the starts of gaps, also possible ones, the earliest first, each with the latest end of the gaps up to it.
fn gap_ranges(info: &SeriesInfo) -> Vec<(i64, i64)> {
    let gaps = info.gaps.iter().map(|gap| (gap.from_us, gap.to_us));
    let possible = info.possible_gaps.iter();
    let possible = possible.map(|gap| (gap.from_us, gap.to_us));
    let mut ranges: Vec<(i64, i64)> = gaps.chain(possible).collect();
    ranges.sort_unstable();
    let mut latest_us = i64::MIN;
    for (_, to_us) in &mut ranges {
        latest_us = latest_us.max(*to_us);
        *to_us = latest_us;
    }
    ranges
}

/// Events of earlier captures. Each of those near the end, or after it, is found once.
#[derive(Debug, Default)]
pub(super) struct RecordedEvents {
    /// Time up to which the earlier captures have what had ended.
    to_us: Option<i64>,
    /// Events that ended near this time or later.
    running: HashMap<RunningEvent, u32>,
    /// Events that had ended or ran at the end of a capture, and that no capture has.
    held: HashMap<RunningEvent, Vec<HeldEvent>>,
    /// Statements that ran when a capture ended, and that the series has without their ends.
    unended: HashMap<RunningEvent, u32>,
    /// Those that were found, and whose ends are not settled.
    ended: Vec<RunningEvent>,
    /// Times at which the first event of the source was sent and at which its last one ended.
    read_us: Option<(i64, i64)>,
    /// As `to_us`, for server events. A recovered part has none.
    server_to_us: Option<i64>,
    running_server: HashMap<RunningEvent, u32>,
    /// Starts of the gaps, also of possible ones, the earliest first, each with the latest end of the gaps up to it, in microseconds
    /// since 1970-01-01 UTC.
    gaps: Vec<(i64, i64)>,
    /// Number of events that were left out and ended in a gap.
    in_gaps: u64,
}

impl RecordedEvents {
    /// Returns those of a series.
    pub(super) fn of(info: &SeriesInfo) -> Self {
        let server = info.running_server.iter();
        let to_us = info.recorded_to_us();
        let mut held: HashMap<RunningEvent, Vec<HeldEvent>> = HashMap::new();
        for one in &info.held {
            held.entry(one.event).or_default().push(*one);
        }
        RecordedEvents {
            to_us,
            running: count_events(info.running.iter().copied()),
            held,
            unended: count_events(info.unended.iter().copied()),
            ended: Vec::new(),
            read_us: None,
            server_to_us: info.captured_to_us,
            gaps: gap_ranges(info),
            in_gaps: 0,
            running_server: count_events(server.map(|at_us| RunningEvent::new(*at_us, None, None))),
        }
    }

    /// Returns the time up to which the earlier captures have what had ended.
    pub(super) fn to_us(&self) -> Option<i64> {
        self.to_us
    }

    /// Returns the events that no capture has and that were not found so far.
    pub(super) fn held(&self) -> impl Iterator<Item = HeldEvent> {
        self.held.values().flatten().copied()
    }

    /// Notes that an event was left out.
    pub(super) fn note_left_out(&mut self, event: RunningEvent) {
        let begun = (self.gaps).partition_point(|(from_us, _)| *from_us < event.ended_us);
        let last = self.gaps[..begun].last();
        self.in_gaps += u64::from(last.is_some_and(|(_, to_us)| event.ended_us < *to_us));
    }

    /// Returns the number of events that were left out and ended in a gap, so that the series may not have them.
    pub(super) fn in_gaps(&self) -> u64 {
        self.in_gaps
    }

    /// Notes that the source has an event, whose time stamps are not ahead of the clock.
    pub(super) fn note_read(&mut self, event: RunningEvent) {
        let (first_us, last_us) = self.read_us.unwrap_or((event.due_us, event.ended_us));
        self.read_us = Some((first_us.min(event.due_us), last_us.max(event.ended_us)));
    }

    /// Returns what earlier captures have of an event of a client.
    pub(super) fn take(&mut self, event: RunningEvent) -> RecordedEvent {
        let is_settled = is_settled(self.to_us, event);
        let without_process = event.with_process(0);
        // One that has not ended is noted again if it is the last of its session.
        let unended = self.take_unended(event);
        if is_settled {
            let is_held =
                unended.is_none() && (self.take_held(event) || self.take_held(without_process));
            return match is_held {
                true => RecordedEvent::Nothing,
                false => RecordedEvent::Settled,
            };
        }
        if let Some(noted) = unended {
            take_event(&mut self.running, without_process.unended());
            return self.note_end(noted, event);
        }
        // It ran at the kill, so it can have ended after what is settled. Once it is written, no later capture may find it.
        // A note with its process is its own. Then equal times and texts are preferred to equal times.
        if event.process != 0 && self.take_held(event) {
            return RecordedEvent::Nothing;
        }
        if take_exactly(&mut self.running, without_process) {
            return self.note_end(without_process, event);
        }
        if self.take_held(without_process) {
            return RecordedEvent::Nothing;
        }
        match take_event(&mut self.running, without_process) {
            Some(noted) => self.note_end(noted, event),
            None => RecordedEvent::Nothing,
        }
    }

    /// Notes an event that the series has without its end. Later captures do not find it by its end.
    fn note_end(&mut self, noted: RunningEvent, event: RunningEvent) -> RecordedEvent {
        let ended_us = noted.ended_us;
        if ended_us < event.ended_us {
            self.ended.push(event.unended());
        }
        RecordedEvent::Noted { ended_us }
    }

    fn take_unended(&mut self, event: RunningEvent) -> Option<RunningEvent> {
        let unended = event.unended();
        // A version without processes can have noted it.
        take_event(&mut self.unended, unended)
            .or_else(|| take_event(&mut self.unended, unended.with_process(0)))
    }

    /// Takes a held event out of the list. It may have got a duration since then.
    fn take_held(&mut self, event: RunningEvent) -> bool {
        self.take_held_as(event) || self.take_held_as(event.unended())
    }

    fn take_held_as(&mut self, event: RunningEvent) -> bool {
        let Some(same) = self.held.get_mut(&event) else {
            return false;
        };
        same.pop();
        if same.is_empty() {
            self.held.remove(&event);
        }
        true
    }

    /// Forgets held events that the source does not have, though it has earlier and later ones.
    pub(super) fn forget_missed(&mut self) {
        let Some((first_us, last_us)) = self.read_us else {
            return;
        };
        let last_us = settled_us(last_us);
        (self.held).retain(|event, _| event.due_us < first_us || event.ended_us >= last_us);
    }

    /// Returns the statements that ran when a capture ended and that were not found so far, or whose ends are not settled.
    pub(super) fn unended(&self) -> impl Iterator<Item = RunningEvent> {
        let counts = self.unended.iter();
        let missing = counts.flat_map(|(event, count)| (0..*count).map(|_| *event));
        missing.chain(self.ended.iter().copied())
    }

    /// Whether an earlier capture has an event of a client, or has noted that it is held.
    pub(super) fn knows(&self, event: RunningEvent) -> bool {
        let is_known = |event: RunningEvent| {
            is_among(&self.unended, event.unended())
                || [event, event.unended()]
                    .iter()
                    .any(|one| self.held.contains_key(one))
        };
        let without_process = event.with_process(0);
        is_settled(self.to_us, event)
            || is_among(&self.running, without_process)
            || is_known(event)
            || is_known(without_process)
    }

    /// Whether an earlier capture has a server event of this time.
    pub(super) fn take_server(&mut self, at_us: i64) -> bool {
        let is_settled = (self.server_to_us).is_some_and(|to_us| at_us < settled_us(to_us));
        is_settled
            || take_event(
                &mut self.running_server,
                RunningEvent::new(at_us, None, None),
            )
            .is_some()
    }
}

/// Events that the source has read and not delivered.
#[derive(Debug, Default)]
pub(super) struct HeldEvents {
    /// Time up to which the source had delivered everything else; `None` if it does not report held events.
    at_us: Option<i64>,
    by_session: HashMap<u64, Vec<HeldEvent>>,
}

impl HeldEvents {
    /// Notes those of a source that has delivered everything else up to `delivered_us`.
    pub(super) fn at(delivered_us: i64, events: impl Iterator<Item = HeldEvent>) -> Self {
        let mut by_session: HashMap<u64, Vec<HeldEvent>> = HashMap::new();
        for event in events {
            by_session.entry(event.session).or_default().push(event);
        }
        HeldEvents {
            at_us: Some(delivered_us),
            by_session,
        }
    }

    /// Notes that an event was delivered.
    pub(super) fn deliver(&mut self, session: u64, event: RunningEvent) {
        // Its session can have begun since then.
        for session in [session, NO_SESSION] {
            let held = self.by_session.get_mut(&session);
            let Some(held) = held else {
                continue;
            };
            if let Some(index) = held.iter().position(|one| one.is(event)) {
                held.remove(index);
                return;
            }
        }
    }

    /// Returns `us`, or an earlier time up to which these are all events that were not delivered.
    pub(super) fn limit(&self, us: i64) -> i64 {
        self.at_us.map_or(us, |at_us| us.min(at_us))
    }

    /// Returns the events.
    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldEvent> {
        self.by_session.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use workload::series::{PossibleGap, SeriesGap};

    use super::*;

    fn takes(recorded: &mut RecordedEvents, event: RunningEvent) -> bool {
        recorded.take(event) != RecordedEvent::Nothing
    }

    #[test]
    fn statement_that_ran_at_a_kill_is_found_once_by_the_captures_that_continue() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        info.captured_to_us = Some(100_000_000);
        let while_running = RunningEvent::new(90_000_000, None, Some("select 1"));
        info.held = vec![HeldEvent::of_source(1, while_running)];
        let mut recorded = RecordedEvents::of(&info);
        let ended = RunningEvent::new(90_000_000, Some(20_000_000), Some("select 1"));
        assert!(!takes(&mut recorded, ended), "no capture has it");
        assert_eq!(recorded.held().count(), 0);
        // The next capture has everything up to a later time.
        info.captured_to_us = Some(200_000_000);
        info.held = recorded.held().collect();
        assert!(takes(&mut RecordedEvents::of(&info), ended));
    }

    #[test]
    fn statement_is_not_taken_for_one_of_another_process_with_the_same_text_and_start() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        info.captured_to_us = Some(100_000_000);
        let commit = |duration_us, process| {
            RunningEvent::new(90_000_000, duration_us, Some("COMMIT")).with_process(process)
        };
        let (quick, slow) = (commit(Some(1_000), 2), commit(Some(20_000_000), 1));
        info.unended = vec![commit(None, 1)];
        let mut recorded = RecordedEvents::of(&info);
        assert!(takes(&mut recorded, quick));
        assert_eq!(recorded.unended().count(), 1);
        assert!(
            takes(&mut recorded, slow),
            "the series has it without its end"
        );
        info.unended.clear();
        info.held = vec![HeldEvent::of_source(1, commit(None, 1))];
        let mut recorded = RecordedEvents::of(&info);
        assert!(takes(&mut recorded, quick));
        assert!(!takes(&mut recorded, slow), "no part has it");
    }

    #[test]
    fn event_that_was_left_out_counts_as_in_a_gap_only_between_its_ends() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        info.captured_to_us = Some(100_000_000);
        let gap = |from_us, to_us| SeriesGap {
            from_us,
            to_us,
            before_part: 2,
            reason: "the capture was stopped".to_owned(),
        };
        // One is within another, as that of a log that was read again.
        info.gaps = vec![
            gap(50_000_000, 60_000_000),
            gap(52_000_000, 52_000_000),
            gap(80_000_000, 90_000_000),
        ];
        info.possible_gaps = vec![PossibleGap {
            from_us: 60_000_000,
            to_us: 70_000_000,
        }];
        let mut recorded = RecordedEvents::of(&info);
        for ended_us in [40, 50, 55, 60, 65, 70, 85, 95] {
            recorded.note_left_out(RunningEvent::new(ended_us * 1_000_000, Some(0), None));
        }
        assert_eq!(recorded.in_gaps(), 3);
    }
}
