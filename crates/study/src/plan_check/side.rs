//! Plans of one side: a private server, and `EXPLAIN` over a connection for each login.

use ::sandbox::{Dirs, Installation};
use connect::Target;
use connect::login::{Dialer, Login, LoginError};
use observe::{Example, ExplainSession};
use planner_copy::{CopyRequest, CreatedTable, NotRestored, OWNER, PlannerExport, PlannerServer};
use plans::PlanSide;
use run::{PlanFact, PlanOutcome};
use workload::{Literals, Sqlstate};

use super::SideRequest;
use super::examples::{CheckedExamples, PlanTask};
use super::open_sessions::OpenSessions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Plans of one side.
pub(super) struct SidePlans {
    /// Version of the server.
    pub(super) version: String,
    /// Plans of each statement's tasks; `None` if the version has no such plan.
    pub(super) outcomes: Vec<Vec<Option<PlanSide>>>,
    /// The same with each perturbed copy of the statistics.
    pub(super) perturbed: Vec<Vec<Vec<Option<PlanSide>>>>,
    /// Parts of the export that the server does not have.
    pub(super) left_out: Vec<NotRestored>,
    /// Tables that the change creates.
    pub(super) created: Vec<CreatedTable>,
}

/// Creates the server of a side, and plans all examples on it.
pub(super) fn plan_side(
    side: &SideRequest,
    (export, chosen): (&PlannerExport, &CheckedExamples),
    (installation, dirs): (&Installation, &Dirs),
    (literals, copies): (Literals, u32),
    interrupt: &Interrupt,
) -> Result<SidePlans, Failure> {
    let mut change = |target: &Target| match &side.change {
        Some(script) => script
            .apply_for_plans(target, interrupt)
            .map_err(|error| error.to_string()),
        None => Ok(()),
    };
    let mut server = PlannerServer::create(CopyRequest {
        export,
        installation,
        dirs,
        settings: &side.settings,
        change: &mut change,
    })?;
    let target = server.target().clone();
    let dialer = Dialer::new(&target)?;
    let mut planner = SidePlanner {
        dialer: &dialer,
        export,
        literals,
        open: OpenSessions::new(),
    };
    let outcomes = planner.plan_all(chosen, interrupt);
    let mut perturbed = Vec::new();
    for copy in 1..=copies {
        if interrupt.is_requested() {
            break;
        }
        server.perturb(export, copy)?;
        // Plans of prepared statements are cached by session.
        planner.open.close_all();
        perturbed.push(planner.plan_all(chosen, interrupt));
    }
    let mut left_out = std::mem::take(&mut server.left_out);
    left_out.extend(server.created.iter().map(limitation_of));
    Ok(SidePlans {
        version: installation.version.clone(),
        outcomes,
        perturbed,
        left_out,
        created: std::mem::take(&mut server.created),
    })
}

fn limitation_of(table: &CreatedTable) -> NotRestored {
    let reason = match table.is_replacement {
        true => {
            "the change creates it; it counts as large as the former table of this name, and has no statistics"
        }
        false => "the change creates it; it counts as empty, and has no statistics",
    };
    NotRestored {
        subject: format!("table {}.{}", table.schema, table.name),
        reason: format!("{reason}, and statements that read it are not checked"),
    }
}

struct SidePlanner<'a> {
    dialer: &'a Dialer,
    export: &'a PlannerExport,
    literals: Literals,
    open: OpenSessions<ExplainSession<'a>>,
}

impl SidePlanner<'_> {
    /// Plans all examples of all statements.
    fn plan_all(
        &mut self,
        chosen: &CheckedExamples,
        interrupt: &Interrupt,
    ) -> Vec<Vec<Option<PlanSide>>> {
        let mut outcomes = Vec::new();
        for statement in &chosen.statements {
            if interrupt.is_requested() {
                break;
            }
            let plans = statement.tasks.iter().map(|task| self.plan(task));
            outcomes.push(plans.collect());
        }
        outcomes
    }

    fn plan(&mut self, task: &PlanTask) -> Option<PlanSide> {
        let login = self.login(&task.example);
        let literals = self.literals;
        let dialer = self.dialer;
        let open = || ExplainSession::open(dialer, &login);
        let session = match self.open.get_or_open(&login, open) {
            Ok(session) => session,
            Err(error) => return Some(side_of(&login, task, refused(error), literals)),
        };
        let answer = match task.is_generic {
            true => session.generic_plan(&task.example)?,
            false => session.custom_plan(&task.example),
        };
        let outcome = answer.map_or_else(refused, PlanOutcome::Planned);
        let mut side = side_of(&login, task, outcome, literals);
        if let PlanSide::Planned { plan, .. } = &mut side {
            plan.jit |= session.is_jit_cost(plan.root.cost);
        }
        if session.is_closed() {
            self.open.close(&login);
        }
        Some(side)
    }

    /// Returns the login of an example with the settings of its connection. Its user is the owner of the database if the export
    /// does not have the role. No role of an export has the name of the private server's superuser.
    fn login(&self, example: &Example) -> Login {
        let is_known = |name: &str| self.export.roles.iter().any(|role| role.name == name);
        let user = match &*example.user {
            name if is_known(name) => name,
            _ => OWNER,
        };
        Login {
            user: user.into(),
            database: self.export.database.as_str().into(),
            application: "rehearse".into(),
            role: None,
            settings: example.settings.clone(),
        }
    }
}

fn refused(error: LoginError) -> PlanOutcome {
    PlanOutcome::Refused {
        sqlstate: Sqlstate(error.sqlstate),
        message: error.message,
    }
}

fn side_of(login: &Login, task: &PlanTask, outcome: PlanOutcome, literals: Literals) -> PlanSide {
    let fact = PlanFact {
        fingerprint: sql::Fingerprint(0),
        service_ns: 0,
        calls: 0,
        example: Some((task.example.session, task.example.sequence)),
        database: login.database.to_string(),
        user: login.user.to_string(),
        outcome,
    };
    PlanSide::of(Some(&fact), literals)
}
