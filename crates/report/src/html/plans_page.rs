//! Page of a check of plans: changed plans first, both sides next to each other.

use askama::Template;
use plans::StepMark;
use study::plan_check::{CheckedStatement, Coverage, PlanCheck, PlanVerdict};

use super::frame::{Frame, render};
use super::plan_steps::{PlanStep, plan_steps};
use super::status::Status;
use crate::text::line::one_line;
use crate::text::plans_check_text::{
    ChangeOfPlan, UNSTABLE_TITLE, conditions, coverage, heading, limitation_texts, plan_changes,
    share_text, statement_risks, unstable_statements,
};
use crate::text::units::count;

/// Width of a text.
const COLUMNS: usize = 2_000;
/// Depth from which nodes are not indented further.
const DEPTH_MAX: usize = 12;

/// Statement whose plan changes.
struct Statement {
    sql: String,
    share: String,
    risks: Vec<String>,
    changes: Vec<Change>,
}

impl Statement {
    fn of(one: &CheckedStatement, coverage: &Coverage) -> Self {
        Statement {
            sql: one_line(&one.sql, COLUMNS),
            share: share_text((one.executions, one.captured_us), coverage),
            risks: statement_risks(one),
            changes: plan_changes(one).iter().map(Change::of).collect(),
        }
    }
}

/// Change of a plan for some values.
struct Change {
    values: String,
    text: String,
    sides: [(&'static str, Vec<Step>); 2],
}

impl Change {
    fn of(change: &ChangeOfPlan<'_>) -> Self {
        let sides = plan_steps(&change.pair.plans);
        let [before, after] = sides.map(|steps| steps.into_iter().map(Step::from).collect());
        Change {
            values: change.values.clone(),
            text: change.text.clone(),
            sides: [("before", before), ("after", after)],
        }
    }
}

#[derive(Template)]
#[template(path = "plans.html")]
struct Page {
    frame: Frame,
    status: Status,
    headline: String,
    conditions: Vec<String>,
    coverage: String,
    source: String,
    changed: Vec<Statement>,
    unstable: Vec<String>,
    unstable_title: &'static str,
    unchecked: Vec<(String, String)>,
    limitations: Vec<String>,
    same: Vec<String>,
}

/// Renders the page.
pub fn render_html(check: &PlanCheck) -> String {
    let planner = &check.planner;
    let with_verdict = |is_same: bool| {
        let all = check.statements.iter();
        all.filter(move |one| (one.verdict == PlanVerdict::Same) == is_same)
    };
    let page = Page {
        frame: Frame::new(Vec::new()),
        status: status(check),
        headline: heading(check),
        conditions: conditions(check),
        coverage: coverage(&check.coverage),
        source: format!(
            "Planned without data, with the statistics that {} exported from the database {} of PostgreSQL {} at {}{}.",
            one_line(&planner.path, 300),
            one_line(&planner.database, 100),
            one_line(&planner.server_version, 40),
            one_line(&planner.exported_at, 40),
            match check.perturbed_copies {
                0 => String::new(),
                copies => format!(", and with {copies} perturbed copies of them"),
            }
        ),
        changed: with_verdict(false)
            .map(|one| Statement::of(one, &check.coverage))
            .collect(),
        unstable: (unstable_statements(check).into_iter())
            .map(|one| one_line(&one.sql, COLUMNS))
            .collect(),
        unstable_title: UNSTABLE_TITLE,
        unchecked: (check.unchecked.iter())
            .map(|one| {
                let amount = (one.executions, one.captured_us);
                (
                    one_line(&one.sql, COLUMNS),
                    format!(
                        "{}: {}",
                        share_text(amount, &check.coverage),
                        one_line(&one.reason, COLUMNS)
                    ),
                )
            })
            .collect(),
        limitations: limitation_texts(check),
        same: with_verdict(true)
            .map(|one| one_line(&one.sql, COLUMNS))
            .collect(),
    };
    render(&page)
}

/// Returns bad for an error, a risk or a condition that holds, and unsure for other changes or if less than 90 % of the
/// executions were checked.
fn status(check: &PlanCheck) -> Status {
    let is_bad = |one: &CheckedStatement| {
        one.verdict == PlanVerdict::Error || !statement_risks(one).is_empty()
    };
    let has_condition = check.conditions.iter().any(|one| one.holds);
    if has_condition || check.statements.iter().any(is_bad) {
        return Status::Bad;
    }
    let coverage = &check.coverage;
    let is_covered = 9 * coverage.unchecked_executions <= coverage.executions;
    let mut statements = check.statements.iter();
    match statements.all(|one| one.verdict == PlanVerdict::Same) {
        true if check.statements.is_empty() || check.undecided.is_some() || !is_covered => {
            Status::Unsure
        }
        true => Status::Good,
        false => Status::Unsure,
    }
}

/// Node of a plan.
struct Step {
    class: &'static str,
    /// Correspondence for readers of the screen, if it is not the same.
    note: Option<&'static str>,
    /// Indentation in em.
    indent: f64,
    label: String,
    /// Estimated rows and cost.
    estimate: String,
    conditions: Vec<String>,
}

impl From<PlanStep> for Step {
    fn from((depth, label, mark, rows, cost, conditions): PlanStep) -> Self {
        let (class, note) = match mark {
            StepMark::Same => ("same", None),
            StepMark::Changed => ("changed", Some("changed")),
            StepMark::Alone => ("alone", Some("on this side only")),
        };
        Step {
            class,
            note,
            indent: depth.min(DEPTH_MAX) as f64 + 1.5,
            label: one_line(&label, COLUMNS),
            estimate: format!("about {} rows, cost {cost}", count(rows.round() as u64)),
            conditions: (conditions.iter())
                .map(|text| one_line(text, COLUMNS))
                .collect(),
        }
    }
}
