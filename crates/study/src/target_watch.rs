//! Samples statistics and waits of a target during a replay.
//!
//! The crates `replay` and `observe` do not import each other. This module starts sampling before the replay, passes
//! it the replay's clock, and ends it after the last statement.

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::Clock;
use connect::login::Login;
use observe::{Monitor, MonitorOptions, MonitorScope};
use replay::{LoginMap, Metrics, Target};
use run::{Activity, RunWriter};
use workload::ArchiveError;

use crate::notes::note;
use crate::observed_replay::ReplayDisplay;

/// Sampling of a target's statistics and waits during a replay.
pub struct TargetWatch {
    options: MonitorOptions,
    target: Target,
    clock: Arc<dyn Clock>,
    watch: Option<Monitor>,
    /// End of the last window of samples that was displayed, in nanoseconds of the run.
    shown_ns: i64,
}

impl TargetWatch {
    /// Creates a watch that has not begun.
    pub fn new(options: MonitorOptions, target: Target, clock: Arc<dyn Clock>) -> Self {
        TargetWatch {
            options,
            target,
            clock,
            watch: None,
            shown_ns: i64::MIN,
        }
    }

    /// Connects and begins sampling, before anything else is sent. The target's own user is tried first, then the
    /// logins in their order.
    ///
    /// # Errors
    /// If the run cannot be written.
    pub fn begin(&mut self, run: &mut RunWriter, logins: &[Login]) -> Result<(), ArchiveError> {
        let writer = run.observed()?;
        let logins = add_target_login(&self.target, logins);
        let watch = Monitor::begin(&self.target, &logins, &self.options, &self.clock, writer);
        note(&summarize_probes(&watch, self.options.scope));
        self.watch = Some(watch);
        Ok(())
    }

    /// Returns the reason why a probe was off at the beginning, if it was.
    pub fn off_reason(&self, probe: &str) -> Option<&str> {
        let statuses = self.watch.as_ref()?.statuses();
        let status = statuses.iter().find(|status| status.probe == probe)?;
        status.off.as_deref()
    }

    /// Passes the clock of a replay that starts.
    pub fn start_with_meter(&self, meter: &Arc<Metrics>) {
        let meter = meter.clone();
        self.start(Arc::new(move || meter.now_ns()));
    }

    /// Passes the clock of a run that starts.
    pub fn start(&self, time: observe::RunTime) {
        if let Some(watch) = &self.watch {
            watch.start(time);
        }
    }

    /// Displays the waits of the last complete window of samples, once.
    pub fn display_waits(&mut self, display: &mut dyn ReplayDisplay) {
        let Some(watch) = &self.watch else { return };
        let activity = watch.statuses().iter().find(|one| one.probe == "activity");
        if let Some(why) = activity.and_then(|one| one.off.as_ref()) {
            if self.shown_ns == i64::MIN {
                self.shown_ns = 0;
                display.on_waits_unavailable(why);
            }
            return;
        }
        let latest = watch.latest();
        let Some(window) = latest.window else { return };
        if window.until_ns > self.shown_ns && window.samples > 0 {
            self.shown_ns = window.until_ns;
            let seconds = (window.until_ns - window.at_ns) as f64 / 1e9;
            let source = format!(
                "{:.0} samples a second of pg_stat_activity, without idle sessions",
                window.samples as f64 / seconds.max(1e-3)
            );
            let waits = mean_waits(&latest.activity, window.samples);
            display.on_waits(&source, window.until_ns, waits);
        }
    }

    /// Ends sampling after the last statement.
    ///
    /// # Errors
    /// If the samples cannot be written.
    pub fn end(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        match self.watch.take() {
            Some(watch) => run.take_observed(watch.end()?),
            None => Ok(()),
        }
    }
}

/// Computes the mean number of sessions in each wait.
fn mean_waits(activity: &[Activity], samples: u64) -> Vec<(String, f64)> {
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    // Background processes are left out, because they wait for their own work.
    let is_for_client =
        |one: &&Activity| ["client backend", "parallel worker"].contains(&one.backend.as_str());
    for one in activity.iter().filter(is_for_client) {
        let name = match (one.state.as_str(), &one.wait_type, &one.wait) {
            (state, _, _) if state.starts_with("idle in transaction") => state.to_owned(),
            (_, None, _) => "running or waiting for a CPU".to_owned(),
            (_, Some(kind), None) => kind.clone(),
            (_, Some(kind), Some(wait)) => format!("{kind} {wait}"),
        };
        *by_name.entry(name).or_default() += one.count;
    }
    let of = |(name, count): (String, u64)| (name, count as f64 / samples as f64);
    by_name.into_iter().map(of).collect()
}

/// Returns the logins, preceded by that of the user whom the target names. A user named there is meant for such
/// queries.
fn add_target_login(target: &Target, logins: &[Login]) -> Vec<Login> {
    let database = logins.first().map_or("", |login| &login.database);
    let mut all = Vec::new();
    if let Some(user) = &target.user {
        let own = LoginMap::default().login(target, user, database, "");
        all.push(own);
    }
    for login in logins {
        if !all.contains(login) {
            all.push(login.clone());
        }
    }
    all
}

/// Summarises in one line which probes are on, and why the others are off.
fn summarize_probes(watch: &Monitor, scope: MonitorScope) -> String {
    if let (MonitorScope::Statistics, [statistics]) = (scope, watch.statuses()) {
        return match &statistics.off {
            None => "Statement statistics of the target are read before and after.".to_owned(),
            Some(why) => format!(
                "No statement statistics of the target: {why}. A comparison of this run has only plans and times to judge by."
            ),
        };
    }
    let on: Vec<&str> = watch
        .statuses()
        .iter()
        .filter(|status| status.off.is_none())
        .map(|status| status.probe)
        .collect();
    let mut off: Vec<(&str, Vec<&str>)> = Vec::new();
    for status in watch.statuses() {
        let Some(why) = &status.off else { continue };
        match off.iter_mut().find(|(known, _)| *known == why.as_str()) {
            Some((_, probes)) => probes.push(status.probe),
            None => off.push((why, vec![status.probe])),
        }
    }
    let off: Vec<String> = off
        .into_iter()
        .map(|(why, probes)| format!("{} ({why})", probes.join(", ")))
        .collect();
    let on = match on.is_empty() {
        true => "nothing".to_owned(),
        false => on.join(", "),
    };
    match off.is_empty() {
        true => format!("Watching the target: {on}."),
        false => format!("Watching the target: {on}. Off: {}.", off.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_waits_groups_by_name_and_divides_by_samples() {
        let activity_of = |state: &str, wait: Option<(&str, &str)>, count| Activity {
            state: state.to_owned(),
            wait_type: wait.map(|(kind, _)| kind.to_owned()),
            wait: wait.map(|(_, wait)| wait.to_owned()),
            count,
            backend: "client backend".to_owned(),
            ..Activity::default()
        };
        let own = Activity {
            backend: "checkpointer".to_owned(),
            ..activity_of("active", Some(("Timeout", "CheckpointWriteDelay")), 20)
        };
        let seen = [
            activity_of("active", None, 30),
            activity_of("active", Some(("Lock", "transactionid")), 10),
            activity_of("active", Some(("Lock", "transactionid")), 20),
            activity_of("idle in transaction", Some(("Client", "ClientRead")), 5),
            own,
        ];
        let expected = [
            ("Lock transactionid", 1.5),
            ("idle in transaction", 0.25),
            ("running or waiting for a CPU", 1.5),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(mean_waits(&seen, 20), expected);
    }
}
