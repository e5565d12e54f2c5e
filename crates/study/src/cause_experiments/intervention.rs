//! Interventions: changes that may remove the cause of a statement's time.

use diagnose::{Change, Evidence, Form, StatementEvidence};
use observe::Example;
use plans::{MeasuredTimes, Plan, PlanNode, SpillPlace, TimePart};

use super::statement_trial::{PlanningMode, TrialConnection};
use crate::environment::quote_literal;

/// Share of a statement's time from which a part of it is worth an intervention.
pub(super) const EXPENSIVE: f64 = 0.2;

/// Blocks of an execution from which they tell whether the traffic is reproduced.
const BLOCKS_MIN: f64 = 20.0;
/// Part of the usual blocks that an execution reads at least if it reproduces the traffic.
const REPRODUCED: f64 = 0.5;

/// Way in which an intervention acts.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// It only helps if the statement's own plan changes.
    OnPlan,
    /// It may help with the same plan.
    OnExecution,
    /// These statements have the effect of the change, which no transaction can make.
    StandIn(Vec<String>),
    /// These statements, which are no advice, change the plan to find the cause.
    Diagnostic(Vec<String>),
    /// These statements, which are no advice, take away what is suspected.
    Removal(Vec<String>),
    /// Another text of the statement with the same result; `None` for a text that it leaves as it is.
    Rewrite(fn(&str) -> Option<String>),
}

/// Proposed cause of a statement's time, and what removes it.
#[derive(Debug, Clone)]
pub(super) struct Intervention {
    /// The cause, a sentence without a full stop.
    pub(super) cause: String,
    /// Change that removes it.
    pub(super) change: Change,
    /// Way in which it acts.
    pub(super) action: Action,
    /// Risk or cost of the change.
    pub(super) risk: String,
}

impl Intervention {
    /// Whether it finds a cause without being advice.
    pub(super) fn is_diagnostic(&self) -> bool {
        matches!(self.action, Action::Diagnostic(_) | Action::Removal(_))
    }

    /// Returns the statements that make the change in a transaction; `None` if no transaction can make it.
    pub(super) fn setup(&self) -> Option<Vec<String>> {
        match &self.action {
            Action::Rewrite(_) => Some(Vec::new()),
            Action::Diagnostic(setup) | Action::Removal(setup) | Action::StandIn(setup) => {
                Some(setup.clone())
            }
            _ => setup(&self.change.form),
        }
    }
}

/// Commands that a transaction cannot execute or roll back, or that say nothing about a statement.
const NOT_IN_TRANSACTIONS: [&str; 7] = [
    "vacuum",
    "reindex",
    "cluster",
    "repack",
    "checkpoint",
    "concurrently",
    "system",
];

/// Returns the statements that make a change in a transaction.
fn setup(form: &Form) -> Option<Vec<String>> {
    match form {
        Form::Sql(text) => {
            let texts = sql::statement_texts(text);
            let is_possible = |text: &str| {
                let mut words = text.split(|c: char| !c.is_alphanumeric());
                !words.any(|word| {
                    NOT_IN_TRANSACTIONS
                        .iter()
                        .any(|one| word.eq_ignore_ascii_case(one))
                })
            };
            texts
                .iter()
                .all(|text| is_possible(text))
                .then(|| texts.iter().map(|text| text.to_string()).collect())
        }
        Form::Setting(name, value) => {
            Some(vec![format!("SET LOCAL {name} = {}", quote_literal(value))])
        }
        Form::Rewrite(_) | Form::ByHand => None,
    }
}

/// Categories of `pg_settings` that act on the execution of a statement, in addition to those of the planner. 18 renamed two.
pub(crate) const STATEMENT_RESOURCES: &str = "'Resource Usage / Memory', 'Resource Usage / Asynchronous Behavior', \
     'Resource Usage / Worker Processes', 'Resource Usage / I/O'";

/// Whether an execution of a single statement can show what a change does. Most settings act on sessions or on the server.
pub(super) fn acts_on_statement(
    connection: &mut TrialConnection<'_>,
    intervention: &Intervention,
) -> bool {
    let Form::Setting(name, _) = &intervention.change.form else {
        return true;
    };
    let question = format!(
        "SELECT 1 FROM pg_catalog.pg_settings WHERE name = {} AND context IN ('user', 'superuser') \
         AND (category LIKE 'Query Tuning%' OR category IN ({STATEMENT_RESOURCES}))",
        quote_literal(name)
    );
    // A setting that this version does not have cannot be tried.
    connection
        .value(&question)
        .is_ok_and(|found| found.is_some())
}

/// A statement, as it was measured without an intervention.
pub(super) struct MeasuredStatement<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) statement: &'a StatementEvidence,
    /// Parameter sets.
    pub(super) sets: Vec<Example>,
    /// Way in which the traffic plans it.
    pub(super) mode: PlanningMode,
    /// Way in which the traffic would plan it with a change.
    pub(super) trial_mode: PlanningMode,
    /// Times of each set, the fastest execution of it.
    pub(super) baseline: Vec<MeasuredTimes>,
    /// Times of each set with a plan for its values, if the traffic plans otherwise.
    pub(super) custom: Vec<MeasuredTimes>,
    /// Parts of the time of the representative set.
    pub(super) parts: TimePart,
    /// Index of that set.
    pub(super) representative: usize,
}

impl MeasuredStatement<'_> {
    /// Returns the times of the representative set.
    pub(super) fn times(&self) -> &MeasuredTimes {
        &self.baseline[self.representative]
    }

    /// Returns its plan.
    pub(super) fn plan(&self) -> &Plan {
        &self.times().plan
    }

    /// Whether the executions read as much as those of the traffic. If not, what makes these slow is not in the data of the sandbox, such
    /// as rows that died meanwhile, and the trials say nothing of it.
    pub(super) fn is_reproduced(&self) -> bool {
        let Some(counted) = self.statement.counted.filter(|one| one.calls > 0) else {
            return true;
        };
        let usual = (counted.shared_hit + counted.shared_read) as f64 / counted.calls as f64;
        let most = self.baseline.iter().map(MeasuredTimes::blocks);
        usual < BLOCKS_MIN || most.fold(0.0, f64::max) >= usual * REPRODUCED
    }

    /// Returns the time of the representative set, in milliseconds.
    pub(super) fn total_ms(&self) -> f64 {
        self.times().total_ms()
    }

    /// Returns the share of the time that nodes with this label take themselves.
    pub(super) fn node_share(&self, label: &str) -> f64 {
        let all = self.parts.all();
        let own = all.iter().filter(|one| one.name == label);
        own.map(|one| one.own_ms).sum::<f64>() / self.total_ms().max(f64::MIN_POSITIVE)
    }

    /// Returns the share of a scan with its parts, and, since plans of partitions have many, of those of its kind.
    pub(super) fn scan_share(&self, node: &PlanNode) -> f64 {
        let mut share = self.node_share(&node.label());
        node.each(&mut |below, depth| {
            if depth > 0 && below.is_part() {
                share += self.node_share(&below.label());
            }
        });
        let mut siblings = Vec::new();
        self.plan().root.each(&mut |parent, _| {
            if parent.is_append()
                && parent
                    .children
                    .iter()
                    .any(|child| std::ptr::eq(child, node))
            {
                siblings = parent.children.iter().map(PlanNode::label).collect();
            }
        });
        let of_all: f64 = siblings.iter().map(|label| self.node_share(label)).sum();
        share.max(of_all)
    }

    /// Returns the nodes whose rows did not fit into memory.
    pub(super) fn spilling_nodes(&self) -> Vec<&PlanNode> {
        let mut found = Vec::new();
        self.plan().root.each(&mut |node, _| {
            let work = node.actual.as_ref();
            if work.is_some_and(|work| work.spill == SpillPlace::Disk || work.lossy > 0.0) {
                found.push(node);
            }
        });
        found
    }

    /// Returns a setting of the captured server as a number, in its unit.
    pub(super) fn setting(&self, name: &str) -> Option<f64> {
        self.evidence.setting(name)?.parse().ok()
    }
}
