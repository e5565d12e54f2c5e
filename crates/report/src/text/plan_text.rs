//! Text on a statement's plans in two runs.

use plans::{Condition, PlanChange, PlanSide, StatementPlans};

/// Describes the change of a plan in a line.
pub(crate) fn line(plans: &StatementPlans) -> String {
    let words = changes(plans).join("; ");
    match &plans.comparison {
        Some(found) if found.same && words.is_empty() => "the same plan".to_owned(),
        Some(found) if found.same => format!("the same plan; {words}"),
        Some(_) if words.is_empty() => "another plan".to_owned(),
        Some(_) => words,
        None => {
            let sides = [("before", &plans.before), ("after", &plans.after)];
            let missing = sides.into_iter().filter_map(|(name, side)| {
                let why = missing(side)?;
                Some(format!("no plan {name}: {why}"))
            });
            missing.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Describes each difference of two plans.
pub(crate) fn changes(plans: &StatementPlans) -> Vec<String> {
    let found = plans.comparison.iter().flat_map(|found| &found.changes);
    found.map(change).collect()
}

/// Explains why a side has no plan.
fn missing(side: &PlanSide) -> Option<String> {
    match side {
        PlanSide::Planned { .. } => None,
        PlanSide::NotRequested => {
            Some("it is not among the statements whose plans were asked for".to_owned())
        }
        PlanSide::NotAsked { reason } => Some(reason.explanation().to_owned()),
        PlanSide::Refused { sqlstate, message } => {
            Some(format!("the server refused ({sqlstate}: {message})"))
        }
        PlanSide::Unreadable { reason } => Some(reason.explanation().to_owned()),
    }
}

fn change(change: &PlanChange) -> String {
    let with_key = |step: &str, by: &Option<Condition>| match by {
        None => step.to_owned(),
        Some(by) => format!("{step} by {}", by.text),
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
        } => match (before, after) {
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
    use plans::statement_plans;
    use run::{NoPlan, PlanFact, PlanOutcome};
    use sql::Fingerprint;
    use workload::Literals;
    use workload::Sqlstate;

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

    fn plans(before: &PlanFact, after: &PlanFact, literals: Literals) -> StatementPlans {
        statement_plans(Some(before), Some(after), literals).unwrap()
    }

    const SCAN: &str = r#""Node Type": "Seq Scan", "Relation Name": "t", "Plan Rows": 5, "Filter": "(name = 'Jane'::text)""#;

    #[test]
    fn values_are_redacted_in_every_part() {
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
            let said = |literals| {
                let plans = plans(&before, &after, literals);
                format!(
                    "{} {}",
                    serde_json::to_string(&plans).unwrap(),
                    line(&plans)
                )
            };
            let hidden = said(Literals::Hidden);
            assert!(!hidden.contains("Jane"), "{hidden}");
            let shown = said(Literals::Shown);
            assert!(shown.contains("Jane"), "{shown}");
        }
        let found = plans(&planned(SCAN), &planned(&other), Literals::Hidden);
        assert!(found.comparison.as_ref().unwrap().same);
        assert_eq!(
            changes(&found),
            ["Seq Scan on t: Filter (name = $1::text) → (name <> $1::text)"]
        );
    }

    #[test]
    fn line_describes_the_plan_change() {
        let index = r#""Node Type": "Index Scan", "Index Name": "i", "Relation Name": "t""#;
        let line =
            |before: &PlanFact, after: &PlanFact| line(&plans(before, after, Literals::Hidden));
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
        let one_sided = statement_plans(None, Some(&planned(SCAN)), Literals::Hidden).unwrap();
        assert!(one_sided.comparison.is_none());
        let PlanSide::Planned {
            example: Some(example),
            ..
        } = one_sided.after
        else {
            panic!("{one_sided:?}");
        };
        assert_eq!((example.session, example.sequence), (2, 3));
        assert!(statement_plans(None, None, Literals::Hidden).is_none());
    }
}
