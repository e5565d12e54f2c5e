//! Watching a target beside a replay: the stages never import each other, so the program begins it
//! before the replay, tells it when that starts, and ends it behind the last statement.

use std::sync::Arc;

use clock::Clock;
use observe::{Watch, WatchOptions};
use replay::{LoginMap, Meter, Target};
use run::RunWriter;
use target::login::Login;
use workload::ArchiveError;

use crate::terminal;

/// A watch, from before it begins until it is over.
pub struct TargetWatch {
    options: WatchOptions,
    target: Target,
    clock: Arc<dyn Clock>,
    watch: Option<Watch>,
}

impl TargetWatch {
    /// Does nothing yet.
    pub fn new(options: WatchOptions, target: Target, clock: Arc<dyn Clock>) -> Self {
        TargetWatch {
            options,
            target,
            clock,
            watch: None,
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
        terminal::note(&told(&watch));
        self.watch = Some(watch);
        Ok(())
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
