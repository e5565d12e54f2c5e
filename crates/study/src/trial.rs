//! The common part of the trials of all experiments: a replay at a server that is set up.

use std::path::Path;
use std::sync::Arc;

use clock::Clock;
use connect::login::{Dialer, Login, QueryConnection};
use replay::{Observer, Options, Target};
use run::{ArchiveError, PlanFact, RunInfo, RunWriter, TargetInfo};
use workload::WorkloadReader;

use crate::error::ExperimentError;
use crate::preflight;
use crate::target_snapshot::collect_plans;

/// Reason why the CPU time of a server is missing.
pub(crate) const SERVER_UNSEEN: &str =
    "the server's processes are not of this machine, or not to be seen";

/// Inputs of a trial.
pub struct TrialContext<'a> {
    /// How to connect to the server, in the state of the trial's condition.
    pub target: Target,
    /// The first process of a private server.
    pub postmaster: Option<i32>,
    /// The path of the run.
    pub run: &'a Path,
    /// The clock.
    pub clock: &'a Arc<dyn Clock>,
    /// Reports whether the user wants to interrupt the experiment.
    pub stop: &'a dyn Fn() -> bool,
}

impl TrialContext<'_> {
    /// Reports whether the server is private, so that extensions may be created there.
    pub(crate) fn is_private(&self) -> bool {
        self.postmaster.is_some()
    }
}

/// A workload that is ready to be replayed.
pub(crate) struct TrialReplay<'a> {
    pub(crate) context: &'a TrialContext<'a>,
    /// Opens this program's own connections.
    pub(crate) dialer: Dialer,
    /// The login of the workload's first session.
    pub(crate) session: Login,
    /// The target, with the initial settings of sessions.
    pub(crate) target: Target,
    reader: &'a WorkloadReader,
    options: &'a Options,
    info: TargetInfo,
}

impl<'a> TrialReplay<'a> {
    /// Checks that all sessions can log in.
    ///
    /// # Errors
    /// If one cannot, or the workload cannot be read.
    pub(crate) fn new(
        reader: &'a WorkloadReader,
        options: &'a Options,
        context: &'a TrialContext<'a>,
    ) -> Result<Self, ExperimentError> {
        let target = options.target_with_settings(&context.target);
        preflight::check_once(reader, &context.target, options)?;
        let info = replay::check_target(reader, &target, &options.logins)?;
        let first = reader.logins()?.first();
        let (user, database) = first.map_or(("", ""), |one| (&*one.user, &*one.database));
        Ok(TrialReplay {
            context,
            dialer: Dialer::new(&target)?,
            session: options.logins.login(&target, user, database, "rehearse"),
            target,
            reader,
            options,
            info,
        })
    }

    /// Replays the workload and writes the run.
    ///
    /// # Errors
    /// If the workload cannot be read, or the run cannot be written.
    pub(crate) fn run(&self, observer: &mut dyn Observer) -> Result<RunInfo, ExperimentError> {
        Ok(replay::replay(
            self.reader,
            &self.target,
            self.info.clone(),
            self.options,
            self.context.run,
            self.context.clock,
            observer,
        )?)
    }

    /// Writes the target's settings and schema into the run.
    pub(crate) fn write_facts(&self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        let logins = [self.session.clone()];
        run.facts(&observe::facts(
            &self.context.target,
            &logins,
            &**self.context.clock,
        ))
    }

    /// Asks the target for the plans of the statements with the most time, which must have been summed.
    pub(crate) fn collect_plans(
        &self,
        run: &RunWriter,
        most: usize,
    ) -> Result<Vec<PlanFact>, ArchiveError> {
        let place = (&self.target, &self.options.logins);
        let clock = &**self.context.clock;
        Ok(collect_plans(run, self.reader, place, clock, most)?.plans)
    }

    /// Returns the first process of the server, if it is known or the server runs on this machine.
    pub(crate) fn postmaster(
        &self,
        questions: &mut QueryConnection<'_>,
        login: &Login,
    ) -> Option<i32> {
        self.context.postmaster.or_else(|| {
            let rows = questions.query("SELECT pg_backend_pid()").ok()?;
            let backend = rows.first()?.first()?.as_deref()?.parse().ok()?;
            cpu_profile::postmaster_of(backend, &login.user, &login.database)
        })
    }
}
