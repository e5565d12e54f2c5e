//! Builds the jobs of a workload's events.

use run::SkipReason;
use sql::Fingerprint;
use workload::{ArchiveError, Event, EventKind};

use super::Dispatcher;
use super::think_times::ThinkTimes;
use crate::captured_deadlocks::replacement_of_victim;
use crate::commit_order::CommitCounter;
use crate::encode::Encoder;
use crate::event_follower::EventFollower;
use crate::generated::{ReplayedValues, UsedValue, Value};
use crate::job::{Action, Job};
use crate::read_only_filter::ReadOnlyFilter;
use crate::resume::RecordedValues;
use crate::statement_order::StatementOrder;

/// Builds the jobs of a workload's events, in order.
pub(super) struct JobBuilder<'d> {
    read_only: Option<ReadOnlyFilter<'d>>,
    order: Option<&'d StatementOrder>,
    follower: EventFollower<'d>,
    /// Values that the run to resume recorded.
    recorded_values: RecordedValues,
    replayed_values: &'d ReplayedValues,
    /// Statements that were victims of deadlocks in the capture, and fail without one here.
    deadlock_victims: u64,
    pub(super) encoder: Encoder<'d>,
    think_times: Option<ThinkTimes>,
    commits: CommitCounter,
}

impl<'d> JobBuilder<'d> {
    /// Creates the builder of a dispatcher.
    ///
    /// # Errors
    /// If the workload or the run to resume cannot be read.
    pub(super) fn new(dispatcher: &'d Dispatcher<'_>) -> Result<Self, ArchiveError> {
        let options = dispatcher.options;
        let order = dispatcher.order.as_deref();
        let values = dispatcher.values;
        let recorded_values = match (values, &dispatcher.resume_from) {
            (Some(_), Some((previous, _))) => RecordedValues::load(previous.generated_values()?)?,
            _ => RecordedValues::default(),
        };
        Ok(JobBuilder {
            read_only: (options.read_only.is_on())
                .then(|| ReadOnlyFilter::new(dispatcher.unrestricted)),
            order,
            encoder: dispatcher.encoder()?,
            think_times: options.think_time.map(ThinkTimes::new),
            commits: CommitCounter::default(),
            follower: EventFollower::new(
                values,
                matches!(order, Some(StatementOrder::Dependencies(_))),
            ),
            recorded_values,
            replayed_values: &dispatcher.replayed_values,
            deadlock_victims: 0,
        })
    }

    /// Takes an event that the previous run completed: its generated values are known, and what depends on it does not
    /// wait.
    pub(super) fn skip(&mut self, mut event: Event, fingerprint: Option<Fingerprint>) {
        if let Some(think_times) = &mut self.think_times {
            think_times.before(&event);
        }
        if self.follower.values.is_none() {
            return;
        }
        let (places, tracked) = self.follower.track_values(&mut event, fingerprint);
        let id = (event.session, event.sequence);
        if let Some(expected) = tracked.expected.as_deref() {
            let recorded = &mut self.recorded_values;
            recorded.set_values(id, expected, self.replayed_values);
        }
        if let (Some(StatementOrder::Dependencies(order)), Some(tracker)) =
            (self.order, &mut self.follower.dependencies)
        {
            if tracker.is_new(event.session) {
                order.begin_session(event.session);
            }
            let effect = self.encoder.session_effect(&event);
            tracker.track(&event, places.as_deref(), effect, &tracked.sources);
            match event.kind {
                EventKind::Disconnect => order.end_session(event.session),
                _ => order.finish(event.session, event.sequence),
            }
        }
    }

    /// Returns entries for the run's manifest.
    pub(super) fn notes(&self) -> Vec<(String, String)> {
        let mut notes: Vec<_> = self.encoder.user_types().notes().collect();
        if self.deadlock_victims > 0 {
            let count = self.deadlock_victims.to_string();
            notes.push(("deadlock_victims".to_owned(), count));
        }
        let invalid_traces = self.encoder.invalid_traces();
        if invalid_traces > 0 {
            let count = invalid_traces.to_string();
            notes.push(("invalid_traceparents".to_owned(), count));
        }
        notes
    }

    /// Builds the job of the next event.
    pub(super) fn build(
        &mut self,
        mut event: Event,
        fingerprint: Option<Fingerprint>,
        due_ns: i64,
    ) -> Job {
        let think_times = self.think_times.as_mut();
        let think_ns = think_times.and_then(|think_times| think_times.before(&event));
        let is_withheld =
            (self.read_only.as_mut()).is_some_and(|filter| !filter.keep_from_writing(&mut event));
        let (places, tracked) = self.follower.track_values(&mut event, fingerprint);
        let has_victims = self.follower.dependencies.is_some();
        let replaced = has_victims.then(|| replacement_of_victim(&event)).flatten();
        self.deadlock_victims += u64::from(replaced.is_some());
        let uses_snapshot = |used: &UsedValue| matches!(used.captured, Value::Snapshot(_));
        let snapshot_is_known = tracked.used.iter().any(uses_snapshot);
        self.encoder.set_snapshot_known(snapshot_is_known);
        // What a log does not have is not sent.
        let details = self
            .follower
            .inferred
            .and_then(|_| event.wire_details.take());
        let mut job = self
            .encoder
            .job(replaced.as_ref().unwrap_or(&event), fingerprint, due_ns);
        if self.follower.inferred.is_some() {
            event.wire_details = details;
        }
        job.think_ns = think_ns;
        job.expected = tracked.expected;
        job.used = tracked.used.into();
        match self.order {
            Some(StatementOrder::Commits(order)) => {
                self.commits.assign(&event, &mut job, order);
            }
            Some(StatementOrder::Dependencies(order)) => {
                if let Some(tracker) = &mut self.follower.dependencies {
                    if tracker.is_new(event.session) {
                        order.begin_session(event.session);
                    }
                    let (effect, sources) = (job.session_effect, &tracked.sources);
                    let mut executions = tracker.track(&event, places.as_deref(), effect, sources);
                    order.remove_done(&mut executions);
                    job.dependencies = executions.into();
                }
            }
            None => {}
        }
        if is_withheld {
            job.action = Action::Skip(SkipReason::ReadOnly);
        }
        job
    }
}
