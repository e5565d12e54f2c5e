//! The lease of a sandbox: its state is saved before a change, and restored at the end.

use connect::login::Dialer;
use replay::{LoginMap, Target};
use sandbox::{Sandbox, Stop};

use super::{merge_settings, server_target};
use crate::error::ExperimentError;

/// Purpose of a lease. Each purpose has its own snapshots, so that an interrupted experiment is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePurpose {
    /// The trials of a sweep.
    Sweep,
    /// The replays of a proof.
    Proof,
    /// A replay that is diagnosed, or candidates that the planner is asked about. It cannot be resumed.
    Exploration,
}

impl LeasePurpose {
    const ALL: [LeasePurpose; 3] = [
        LeasePurpose::Sweep,
        LeasePurpose::Proof,
        LeasePurpose::Exploration,
    ];

    /// Returns the name of the snapshot of the initial state.
    fn initial(self) -> &'static str {
        match self {
            LeasePurpose::Sweep => "sweep-base",
            LeasePurpose::Proof => "prove-base",
            LeasePurpose::Exploration => "lent-found",
        }
    }

    /// Returns the common prefix of its snapshots' names.
    fn prefix(self) -> &'static str {
        self.initial().split_inclusive('-').next().unwrap_or("")
    }

    /// Returns the reason why an interrupted lease refuses another.
    fn refusal(self) -> String {
        let (what, instead) = match self {
            LeasePurpose::Sweep => ("a sweep", "end that one with --resume, or "),
            LeasePurpose::Proof => ("a proof", "end that one with --resume, or "),
            LeasePurpose::Exploration => ("a command", ""),
        };
        format!(
            "the sandbox still has the snapshot of {what} that did not end, so its data may not be those that you loaded; {instead}bring back the data from before it with `rehearse sandbox restore NAME`"
        )
    }
}

/// Refuses a sandbox whose data may be those of an interrupted experiment. The `resumed` one is allowed.
///
/// # Errors
/// With what to do about it.
pub fn refuse_leased(
    sandbox: &Sandbox,
    resumed: Option<LeasePurpose>,
) -> Result<(), ExperimentError> {
    let snapshots = sandbox.snapshots();
    let is_held = |purpose: &LeasePurpose| snapshots.iter().any(|one| one == purpose.initial());
    let mut others = LeasePurpose::ALL.into_iter();
    match others.find(|one| Some(*one) != resumed && is_held(one)) {
        Some(held) => Err(ExperimentError::Usage(held.refusal())),
        None => Ok(()),
    }
}

/// Gives a sandbox back as it was before an experiment that was interrupted. Returns false if there was none.
///
/// # Errors
/// If its data cannot be restored, or it does not start.
pub fn restore_interrupted(sandbox: Sandbox) -> Result<bool, ExperimentError> {
    let snapshots = sandbox.snapshots();
    let mut purposes = LeasePurpose::ALL.into_iter();
    let interrupted = purposes.find(|one| snapshots.iter().any(|name| name == one.initial()));
    let Some(purpose) = interrupted else {
        return Ok(false);
    };
    let settings = sandbox.snapshot_settings(purpose.initial());
    let settings = settings.unwrap_or_else(|| sandbox.settings().to_vec());
    SandboxLease::acquire(sandbox, "postgres", purpose, Some(settings))?.release()?;
    Ok(true)
}

/// A private server that is changed for a while, and then given back as it was.
#[derive(Debug)]
pub struct SandboxLease {
    pub(super) sandbox: Sandbox,
    /// The database that connections go to.
    pub(super) database: String,
    purpose: LeasePurpose,
    /// Settings of the sandbox before the lease.
    settings: Vec<(String, String)>,
}

impl SandboxLease {
    /// Leases a sandbox. It is not changed before the first restart. A resumed experiment passes in `resumed` the
    /// settings that the sandbox had at its start.
    ///
    /// # Errors
    /// If another experiment was interrupted there.
    pub fn acquire(
        sandbox: Sandbox,
        database: &str,
        purpose: LeasePurpose,
        resumed: Option<Vec<(String, String)>>,
    ) -> Result<Self, ExperimentError> {
        refuse_leased(&sandbox, resumed.as_ref().map(|_| purpose))?;
        let settings = resumed.unwrap_or_else(|| sandbox.settings().to_vec());
        Ok(SandboxLease {
            sandbox,
            database: database.to_owned(),
            purpose,
            settings,
        })
    }

    /// Returns the settings that the sandbox had before the lease.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Starts the server with its initial data. A sandbox that was not changed is started as it is.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&mut self) -> Result<Target, ExperimentError> {
        match self.has(self.purpose.initial()) {
            // The present data belong to an interrupted trial, and may be incomplete.
            true => self.restart_clean(&[]),
            false => server_target(&self.sandbox.start()?, &self.database),
        }
    }

    /// Restarts the server with its initial data, and with these settings in addition to its own.
    ///
    /// # Errors
    /// If it does not start, or its data cannot be copied.
    pub fn restart_clean(
        &mut self,
        settings: &[(String, String)],
    ) -> Result<Target, ExperimentError> {
        self.restart(Some(self.purpose.initial()), settings)
    }

    /// Restarts the server with its initial data, and with statement statistics if they are available.
    ///
    /// # Errors
    /// If it does not start, or cannot be asked.
    pub fn restart_with_statistics(&mut self) -> Result<Target, ExperimentError> {
        const LIBRARIES: &str = "shared_preload_libraries";
        let target = self.restart_clean(&[])?;
        let question = "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
        if ask(&target, question)?.is_empty() {
            return Ok(target);
        }
        let own = self.settings.iter();
        let mut own = own.filter(|(name, _)| name.eq_ignore_ascii_case(LIBRARIES));
        let libraries = match own.next_back().map(|(_, value)| value.as_str()) {
            None | Some("") => "pg_stat_statements".to_owned(),
            Some(value) if value.contains("pg_stat_statements") => value.to_owned(),
            Some(value) => format!("{value}, pg_stat_statements"),
        };
        // Planning counts as time in the server. Servers before 13 do not know the setting, and ignore it.
        let target = self.restart_clean(&[
            (LIBRARIES.to_owned(), libraries),
            (
                "pg_stat_statements.track_planning".to_owned(),
                "on".to_owned(),
            ),
        ])?;
        // Without the extension the counts are reported as missing.
        let _ = ask(&target, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
        Ok(target)
    }

    /// Restarts the server from a snapshot, or with its present data.
    pub(super) fn restart(
        &mut self,
        snapshot: Option<&str>,
        settings: &[(String, String)],
    ) -> Result<Target, ExperimentError> {
        self.save()?;
        let settings = merge_settings(self.settings.iter().chain(settings));
        self.sandbox.set(settings)?;
        match snapshot {
            Some(name) => {
                // The present data are discarded.
                self.sandbox.stop(Stop::Immediate)?;
                self.sandbox.restore(name)?;
            }
            None => self.sandbox.stop(Stop::Fast)?,
        }
        server_target(&self.sandbox.start()?, &self.database)
    }

    /// Saves the initial state, unless it is saved already.
    pub(super) fn save(&mut self) -> Result<(), ExperimentError> {
        if !self.has(self.purpose.initial()) {
            self.sandbox.snapshot(self.purpose.initial())?;
        }
        Ok(())
    }

    /// Returns the name of the snapshot of another state.
    pub(super) fn state(&self, number: usize) -> String {
        format!("{}{number}", self.purpose.prefix())
    }

    /// Reports whether a snapshot of this name exists.
    pub(super) fn has(&self, name: &str) -> bool {
        self.sandbox.snapshots().iter().any(|one| one == name)
    }

    /// Restores the sandbox and ends the lease.
    ///
    /// # Errors
    /// If its data cannot be restored, or it does not start.
    pub fn release(mut self) -> Result<(), ExperimentError> {
        self.restore()
    }

    /// Restarts the server in its initial state, and deletes the snapshots. Does nothing if it was not changed.
    pub(super) fn restore(&mut self) -> Result<(), ExperimentError> {
        let initial = self.purpose.initial();
        if !self.has(initial) {
            return Ok(());
        }
        self.restart(Some(initial), &[])?;
        for name in self.sandbox.snapshots() {
            if name.starts_with(self.purpose.prefix()) && name != initial {
                self.sandbox.remove_snapshot(&name)?;
            }
        }
        // This snapshot is deleted last, since it marks a lease that is not released.
        Ok(self.sandbox.remove_snapshot(initial)?)
    }
}

/// Sends one query to the server as its superuser.
pub(crate) fn ask(
    target: &Target,
    question: &str,
) -> Result<Vec<connect::login::Row>, ExperimentError> {
    let login = LoginMap::default().login(target, "", "", "rehearse");
    let answer = Dialer::new(target)?.query(&login, question);
    let answer = answer.map_err(|error| ExperimentError::Failed(error.to_string()))?;
    Ok(answer.rows)
}
