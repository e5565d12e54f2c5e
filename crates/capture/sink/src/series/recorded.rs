//! Events that earlier captures of a log or of packets have recorded, and that it has again when it is read again.

use std::collections::HashMap;

use workload::series::{
    HeldEvent, RunningEvent, SeriesInfo, count_events, is_among, settled_us, take_event,
};

/// Whether all events that ended by the end of this one are recorded, apart from held ones.
fn is_settled(to_us: Option<i64>, event: RunningEvent) -> bool {
    to_us.is_some_and(|to_us| event.ended_us < settled_us(to_us))
}

/// Events of earlier captures. Each of those near the end, or after it, is found once.
#[derive(Debug, Default)]
pub(super) struct RecordedEvents {
    /// Time up to which the earlier captures have what had ended.
    to_us: Option<i64>,
    /// Events that ended near this time or later.
    running: HashMap<RunningEvent, u32>,
    /// Events that ended earlier and that no capture has.
    held: Vec<HeldEvent>,
    /// Statements that ran at a stop, and that the series has without their ends.
    unended: Vec<RunningEvent>,
    /// As `to_us`, for server events. A recovered part has none.
    server_to_us: Option<i64>,
    running_server: HashMap<RunningEvent, u32>,
}

impl RecordedEvents {
    /// Returns those of a series.
    pub(super) fn of(info: &SeriesInfo) -> Self {
        let server = info.running_server.iter();
        let to_us = info.recorded_to_us();
        // Others are recognised by not being in the list of running events.
        let is_settled = |held: &&HeldEvent| is_settled(to_us, held.event);
        let held = info.held.iter().filter(is_settled);
        RecordedEvents {
            to_us,
            running: count_events(info.running.iter().copied()),
            held: held.copied().collect(),
            unended: info.unended.clone(),
            server_to_us: info.captured_to_us,
            running_server: count_events(server.map(|at_us| RunningEvent::new(*at_us, None, None))),
        }
    }

    /// Returns the time up to which the earlier captures have what had ended.
    pub(super) fn to_us(&self) -> Option<i64> {
        self.to_us
    }

    /// Returns the events that no capture has and that were not found so far.
    pub(super) fn held(&self) -> &[HeldEvent] {
        &self.held
    }

    /// Whether an earlier capture has an event of a client.
    pub(super) fn take(&mut self, event: RunningEvent) -> bool {
        let is_settled = is_settled(self.to_us, event);
        if !is_settled && (take_event(&mut self.running, event) || self.take_unended(event)) {
            return true;
        }
        // It ran at the kill, so it can have ended after what is settled. Once it is written, no later capture may find it.
        let mut held = self.held.iter();
        let found = held.position(|held| held.is(event));
        if let Some(index) = found {
            self.held.swap_remove(index);
        }
        is_settled && found.is_none()
    }

    /// Whether it is a statement that ran at a stop.
    fn take_unended(&mut self, event: RunningEvent) -> bool {
        let mut unended = self.unended.iter();
        let found = unended.position(|one| *one == event.unended());
        if let Some(index) = found {
            self.unended.swap_remove(index);
        }
        found.is_some()
    }

    /// Returns the statements that ran at a stop and that were not found so far.
    pub(super) fn unended(&self) -> &[RunningEvent] {
        &self.unended
    }

    /// Whether an earlier capture has an event of a client, or has noted that it is held.
    pub(super) fn knows(&self, event: RunningEvent) -> bool {
        is_settled(self.to_us, event) || is_among(&self.running, event)
    }

    /// Whether an earlier capture has a server event of this time.
    pub(super) fn take_server(&mut self, at_us: i64) -> bool {
        let is_settled = (self.server_to_us).is_some_and(|to_us| at_us < settled_us(to_us));
        is_settled
            || take_event(
                &mut self.running_server,
                RunningEvent::new(at_us, None, None),
            )
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
        let Some(held) = self.by_session.get_mut(&session) else {
            return;
        };
        if let Some(index) = held.iter().position(|one| one.is(event)) {
            held.remove(index);
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
    use super::*;

    #[test]
    fn statement_that_ran_at_a_kill_is_found_once_by_the_captures_that_continue() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        info.captured_to_us = Some(100_000_000);
        let while_running = RunningEvent::new(90_000_000, None, Some("select 1"));
        info.held = vec![HeldEvent::of_source(1, while_running)];
        let mut recorded = RecordedEvents::of(&info);
        let ended = RunningEvent::new(90_000_000, Some(20_000_000), Some("select 1"));
        assert!(!recorded.take(ended), "no capture has it");
        assert_eq!(recorded.held(), []);
        // The next capture has everything up to a later time.
        info.captured_to_us = Some(200_000_000);
        info.held = recorded.held().to_vec();
        assert!(RecordedEvents::of(&info).take(ended));
    }
}
