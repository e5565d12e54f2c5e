//! Watching a target beside a replay: the stages never import each other, so the program begins it
//! before the replay, tells it when that starts, and ends it behind the last statement.

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::Clock;
use connect::login::Login;
use observe::{Watch, WatchOptions};
use replay::{LoginMap, Meter, Target};
use run::{Activity, RunWriter};
use workload::ArchiveError;

use crate::notes::note;
use crate::observed_replay::ReplayDisplay;

/// A watch, from before it begins until it is over.
pub struct TargetWatch {
    options: WatchOptions,
    target: Target,
    clock: Arc<dyn Clock>,
    watch: Option<Watch>,
    /// The end of the last stretch of samples that was shown.
    shown_ns: i64,
}

impl TargetWatch {
    /// Does nothing yet.
    pub fn new(options: WatchOptions, target: Target, clock: Arc<dyn Clock>) -> Self {
        TargetWatch {
            options,
            target,
            clock,
            watch: None,
            shown_ns: i64::MIN,
        }
    }

    /// Before anything else is sent, as one of the logins, or first as the user that the target names.
    ///
    /// # Errors
    /// Where the run cannot be written.
    pub fn begin(&mut self, run: &mut RunWriter, logins: &[Login]) -> Result<(), ArchiveError> {
        let writer = run.observed()?;
        let logins = with_own(&self.target, logins);
        let watch = Watch::begin(&self.target, &logins, &self.options, &self.clock, writer);
        note(&told(&watch));
        self.watch = Some(watch);
        Ok(())
    }

    /// Why one of the probes does not look, as it was at the beginning.
    pub fn why_off(&self, probe: &str) -> Option<&str> {
        let statuses = self.watch.as_ref()?.statuses();
        let status = statuses.iter().find(|status| status.probe == probe)?;
        status.off.as_deref()
    }

    /// The replay starts.
    pub fn started(&self, meter: &Arc<Meter>) {
        let meter = meter.clone();
        self.start(Arc::new(move || meter.now_ns()));
    }

    /// It starts, and has this time.
    pub fn start(&self, time: observe::RunTime) {
        if let Some(watch) = &self.watch {
            watch.start(time);
        }
    }

    /// Shows whoever looks at the replay what was seen in the last second that is over, once.
    pub fn show(&mut self, display: &mut dyn ReplayDisplay) {
        let Some(watch) = &self.watch else { return };
        let activity = watch.statuses().iter().find(|one| one.probe == "activity");
        if let Some(why) = activity.and_then(|one| one.off.as_ref()) {
            if self.shown_ns == i64::MIN {
                self.shown_ns = 0;
                display.waits_unavailable(why);
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
            let waits = waits(&latest.activity, window.samples);
            display.waits(&source, window.until_ns, waits);
        }
    }

    /// The last statement is done.
    ///
    /// # Errors
    /// Where what was seen cannot be written.
    pub fn end(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        match self.watch.take() {
            Some(watch) => run.take_observed(watch.end()?),
            None => Ok(()),
        }
    }
}

/// How many were met in each wait, on average.
fn waits(activity: &[Activity], samples: u64) -> Vec<(String, f64)> {
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    // The server's own processes wait for work of theirs.
    let of_clients =
        |one: &&Activity| ["client backend", "parallel worker"].contains(&one.backend.as_str());
    for one in activity.iter().filter(of_clients) {
        let name = match (one.state.as_str(), &one.wait_type, &one.wait) {
            (state, _, _) if state.starts_with("idle in transaction") => state.to_owned(),
            (_, None, _) => "on a processor, or in want of one".to_owned(),
            (_, Some(kind), None) => kind.clone(),
            (_, Some(kind), Some(wait)) => format!("{kind} {wait}"),
        };
        *by_name.entry(name).or_default() += one.count;
    }
    let of = |(name, count): (String, u64)| (name, count as f64 / samples as f64);
    by_name.into_iter().map(of).collect()
}

/// The logins, with the one before them whom the target itself names: who names a user there has one for
/// such questions.
fn with_own(target: &Target, logins: &[Login]) -> Vec<Login> {
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

/// What is looked at, and what not, in a line.
fn told(watch: &Watch) -> String {
    let on: Vec<&str> = watch
        .statuses()
        .iter()
        .filter(|status| status.off.is_none())
        .map(|status| status.probe)
        .collect();
    let mut off: Vec<(&str, Vec<&str>)> = Vec::new();
    for status in watch.statuses() {
        let Some(why) = &status.off else { continue };
        match off.iter_mut().find(|(known, _)| known == why) {
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
    fn waits_are_counted_by_name_and_by_sample() {
        let met = |state: &str, wait: Option<(&str, &str)>, count| Activity {
            state: state.to_owned(),
            wait_type: wait.map(|(kind, _)| kind.to_owned()),
            wait: wait.map(|(_, wait)| wait.to_owned()),
            count,
            backend: "client backend".to_owned(),
            ..Activity::default()
        };
        let own = Activity {
            backend: "checkpointer".to_owned(),
            ..met("active", Some(("Timeout", "CheckpointWriteDelay")), 20)
        };
        let seen = [
            met("active", None, 30),
            met("active", Some(("Lock", "transactionid")), 10),
            met("active", Some(("Lock", "transactionid")), 20),
            met("idle in transaction", Some(("Client", "ClientRead")), 5),
            own,
        ];
        let expected = [
            ("Lock transactionid", 1.5),
            ("idle in transaction", 0.25),
            ("on a processor, or in want of one", 1.5),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(waits(&seen, 20), expected);
    }
}
