//! The plans of a statement in two runs.

use std::collections::BTreeMap;

use analyse::plan::{Condition, Mark, Plan, PlanChange, PlanSide, StatementPlans};
use schemars::JsonSchema;
use serde::Serialize;

use analyse::{Literals, redact_message};

/// The plans of a statement in two runs, and what changed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanChangeView {
    /// `same`, `changed`, or `unknown` where a side has no plan.
    pub verdict: &'static str,
    /// What changed, in words, what tells most first. Of plans that are the same: wording, estimates
    /// and settings.
    pub words: Vec<String>,
    /// Indexes that only the plan before uses.
    pub indexes_gone: Vec<String>,
    /// Indexes that only the plan after uses.
    pub indexes_new: Vec<String>,
    /// The plan before.
    pub before: PlanSideView,
    /// The plan after.
    pub after: PlanSideView,
}

/// One side's plan, or why it has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PlanSideView {
    /// Why there is none; `null` where there is one.
    pub missing: Option<String>,
    /// 16 hexadecimal digits, equal for plans that do the same in the same order; `null` without a
    /// plan.
    pub shape: Option<String>,
    /// The execution whose values were planned: its session in the workload …
    pub session: Option<u64>,
    /// … and its place in the session.
    pub sequence: Option<u64>,
    /// Settings that bear on planning and are not as they are by default.
    pub settings: BTreeMap<String, String>,
    /// Its steps, from the top.
    pub steps: Vec<PlanStepView>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanStepView {
    /// How far below the top.
    pub depth: usize,
    /// What it does: `Index Scan using orders_customer on orders`.
    pub label: String,
    /// `same`, `changed`, or `alone` where the other plan has no such step; `same` where there is no
    /// other plan.
    pub mark: &'static str,
    /// The planner's estimate of rows, each time that it is carried out.
    pub rows: f64,
    /// The planner's estimate of cost, in its units.
    pub cost: f64,
    /// What it filters, joins, sorts or groups by.
    pub conditions: Vec<String>,
}

impl PlanChangeView {
    /// The view of a statement's plans.
    pub fn new(plans: &StatementPlans, literals: Literals) -> Self {
        let found = plans.comparison.as_ref();
        PlanChangeView {
            verdict: match found {
                None => "unknown",
                Some(found) if found.same => "same",
                Some(_) => "changed",
            },
            words: found.map_or_else(Vec::new, |found| {
                let words = found.changes.iter();
                words.map(|change| words_of(change, literals)).collect()
            }),
            indexes_gone: found.map_or_else(Vec::new, |found| found.indexes_gone.clone()),
            indexes_new: found.map_or_else(Vec::new, |found| found.indexes_new.clone()),
            before: side(
                &plans.before,
                found.map_or(&[], |found| &found.before_marks),
                literals,
            ),
            after: side(
                &plans.after,
                found.map_or(&[], |found| &found.after_marks),
                literals,
            ),
        }
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        match self.verdict {
            "same" if self.words.is_empty() => "the same plan".to_owned(),
            "same" => format!("the same plan; {}", self.words.join("; ")),
            "changed" if self.words.is_empty() => "another plan".to_owned(),
            "changed" => self.words.join("; "),
            _ => {
                let missing = |side: &PlanSideView, name: &str| {
                    let why = side.missing.as_ref()?;
                    Some(format!("no plan {name}: {why}"))
                };
                let missing = [
                    missing(&self.before, "before"),
                    missing(&self.after, "after"),
                ];
                missing.into_iter().flatten().collect::<Vec<_>>().join("; ")
            }
        }
    }
}

impl PlanSideView {
    /// The view of one plan, with no other beside it.
    pub fn new(plan: &PlanSide, literals: Literals) -> Self {
        side(plan, &[], literals)
    }
}

fn side(side: &PlanSide, marks: &[Mark], literals: Literals) -> PlanSideView {
    let missing = |why: String| PlanSideView {
        missing: Some(why),
        ..PlanSideView::default()
    };
    match side {
        PlanSide::Planned(plan, example) => PlanSideView {
            missing: None,
            shape: Some(plan.shape().to_string()),
            session: example.map(|(session, _)| session),
            sequence: example.map(|(_, sequence)| sequence),
            settings: plan.settings.clone(),
            steps: steps(plan, marks, literals),
        },
        PlanSide::NotWanted => {
            missing("it is not among the statements whose plans were asked for".to_owned())
        }
        PlanSide::Unasked(reason) => missing(reason.explanation().to_owned()),
        PlanSide::Refused(sqlstate, message) => {
            let message = redact_message(*sqlstate, message, literals);
            missing(format!("the server refused ({sqlstate}: {message})"))
        }
        PlanSide::Unreadable(error) => missing(error.explanation().to_owned()),
    }
}

fn steps(plan: &Plan, marks: &[Mark], literals: Literals) -> Vec<PlanStepView> {
    let mut steps = Vec::new();
    plan.root.each(&mut |node, depth| {
        let mark = marks.get(steps.len()).copied().unwrap_or(Mark::Same);
        let conditions = node.conditions.iter();
        steps.push(PlanStepView {
            depth,
            label: node.label(),
            mark: match mark {
                Mark::Same => "same",
                Mark::Changed => "changed",
                Mark::Alone => "alone",
            },
            rows: node.rows,
            cost: node.cost,
            conditions: conditions
                .map(|one| format!("{}: {}", one.label, text_of(one, literals)))
                .collect(),
        });
    });
    steps
}

fn text_of(condition: &Condition, literals: Literals) -> String {
    match literals {
        Literals::Shown => condition.text.clone(),
        Literals::Hidden => condition.without_values(),
    }
}

fn words_of(change: &PlanChange, literals: Literals) -> String {
    let text = |label: &str, text: &Option<String>| {
        text.as_ref().map(|text| {
            let condition = Condition {
                label: label.to_owned(),
                text: text.clone(),
            };
            text_of(&condition, literals)
        })
    };
    let with_key = |step: &str, by: &Option<Condition>| match by {
        None => step.to_owned(),
        Some(by) => format!("{step} by {}", text_of(by, literals)),
    };
    match change {
        PlanChange::Step {
            before,
            after,
            more: 0,
        } => format!("{before} → {after}"),
        PlanChange::Step {
            before,
            after,
            more,
        } => format!("{before} → {after} (and so in {more} more)"),
        PlanChange::New { step, by } => format!("new: {}", with_key(step, by)),
        PlanChange::Gone { step, by } => format!("gone: {}", with_key(step, by)),
        PlanChange::JoinOrder { before, after } => format!(
            "joined in another order: {} → {}",
            before.join(", "),
            after.join(", ")
        ),
        PlanChange::Partitions { before, after } => {
            format!("partitions read: {before} → {after}")
        }
        PlanChange::Workers { before, after } => format!("parallel workers: {before} → {after}"),
        PlanChange::Condition {
            step,
            label,
            before,
            after,
        } => match (text(label, before), text(label, after)) {
            (Some(was), Some(is)) => format!("{step}: {label} {was} → {is}"),
            (None, Some(is)) => format!("{step}: new {label} {is}"),
            (Some(was), None) => format!("{step}: no {label} {was}"),
            (None, None) => format!("{step}: {label}"),
        },
        PlanChange::Rows {
            step,
            before,
            after,
        } => format!("estimated rows of {step}: {before:.0} → {after:.0}"),
        PlanChange::Jit { after: true } => "compiled (JIT)".to_owned(),
        PlanChange::Jit { after: false } => "not compiled any more (JIT)".to_owned(),
        PlanChange::Setting {
            name,
            before,
            after,
        } => {
            let value =
                |side: &Option<String>| side.clone().unwrap_or_else(|| "the default".to_owned());
            format!("{name}: {} → {}", value(before), value(after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyse::plan::statement_plans;
    use run::{NoPlan, PlanFact, PlanOutcome};
    use workload::{Fingerprint, Sqlstate};

    fn fact(outcome: PlanOutcome) -> PlanFact {
        PlanFact {
            fingerprint: Fingerprint(1),
            service_ns: 1,
            calls: 1,
            example: Some((2, 3)),
            database: String::new(),
            user: String::new(),
            outcome,
        }
    }

    fn planned(node: &str) -> PlanFact {
        fact(PlanOutcome::Planned(format!("[{{\"Plan\": {{{node}}}}}]")))
    }

    fn view(before: &PlanFact, after: &PlanFact, literals: Literals) -> PlanChangeView {
        PlanChangeView::new(
            &statement_plans(Some(before), Some(after)).unwrap(),
            literals,
        )
    }

    const SCAN: &str = r#""Node Type": "Seq Scan", "Relation Name": "t", "Plan Rows": 5, "Filter": "(name = 'Jane'::text)""#;

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let other = SCAN.replace("name =", "name <>");
        let index = r#""Node Type": "Sort", "Sort Key": ["(name = 'Jane'::text)"], "Plans": [{"Node Type": "Index Scan", "Index Name": "i", "Relation Name": "t", "Index Cond": "(name = 'Jane'::text)"}]"#;
        let refused = fact(PlanOutcome::Refused {
            sqlstate: Sqlstate(*b"22P02"),
            message: "invalid input syntax for type integer: \"Jane\"".to_owned(),
        });
        for (before, after) in [
            (planned(SCAN), planned(&other)),
            (planned(SCAN), planned(index)),
            (planned(index), planned(SCAN)),
            (planned(SCAN), refused),
        ] {
            let hidden = serde_json::to_string(&view(&before, &after, Literals::Hidden)).unwrap();
            assert!(!hidden.contains("Jane"), "{hidden}");
            let shown = serde_json::to_string(&view(&before, &after, Literals::Shown)).unwrap();
            assert!(shown.contains("Jane"), "{shown}");
        }
        let found = view(&planned(SCAN), &planned(&other), Literals::Hidden);
        assert_eq!(found.verdict, "same");
        assert_eq!(
            found.words,
            ["Seq Scan on t: Filter (name = $1::text) → (name <> $1::text)"]
        );
    }

    #[test]
    fn a_line_says_what_became_of_it() {
        let index = r#""Node Type": "Index Scan", "Index Name": "i", "Relation Name": "t""#;
        let line =
            |before: &PlanFact, after: &PlanFact| view(before, after, Literals::Hidden).line();
        assert_eq!(line(&planned(SCAN), &planned(SCAN)), "the same plan");
        assert_eq!(
            line(&planned(index), &planned(SCAN)),
            "Index Scan using i on t → Seq Scan on t"
        );
        let utility = fact(PlanOutcome::Unasked(NoPlan::Utility));
        assert_eq!(
            line(&planned(SCAN), &utility),
            "no plan after: this kind of statement has no plan"
        );
        let broken = fact(PlanOutcome::Planned("{".to_owned()));
        assert!(
            line(&broken, &utility).starts_with("no plan before: the server's answer is no JSON")
        );
        let one_sided = statement_plans(None, Some(&planned(SCAN))).unwrap();
        let one_sided = PlanChangeView::new(&one_sided, Literals::Hidden);
        assert_eq!(one_sided.verdict, "unknown");
        assert_eq!(one_sided.after.steps[0].mark, "same");
        assert_eq!(
            (one_sided.after.session, one_sided.after.sequence),
            (Some(2), Some(3))
        );
        assert!(statement_plans(None, None).is_none());
    }
}
