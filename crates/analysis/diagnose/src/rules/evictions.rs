//! Evictions from `pg_stat_statements`: there are more statements than it keeps, so its counts are
//! too low.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const EVICTIONS: Threshold = Threshold {
    name: "evictions",
    value: 1.0,
    unit: "rounds of evictions",
    decides: "fewer are none",
    source: "pg_stat_statements_info.dealloc: each round throws away 5 % of all entries",
};

pub(super) const RULE: Rule = Rule {
    name: "evictions",
    looks_at: "statements that the statistics threw away",
    thresholds: &[EVICTIONS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.counted.clone()?;
    let source = "pg_stat_statements";
    let rounds = evidence.increase(source, "", "evictions");
    let vanished = evidence.increase(source, "", "vanished");
    if rounds < thresholds.of(&EVICTIONS) && (rounds > 0.0 || vanished < 1.0) {
        return Ok(Vec::new());
    }
    let most = evidence
        .setting("pg_stat_statements.max")
        .and_then(|text| text.parse::<f64>().ok());
    let mut facts = vec![
        Fact::new(
            "rounds of evictions",
            rounds,
            Unit::Count,
            "pg_stat_statements_info (from 14 on)",
        )
        .check("SELECT dealloc, stats_reset FROM pg_stat_statements_info"),
        Fact::new(
            "entries that were gone at the next reading",
            vanished,
            Unit::Count,
            source,
        ),
    ];
    if let Some(most) = most {
        facts.push(Fact::new(
            "entries that it keeps",
            most,
            Unit::Count,
            "pg_settings",
        ));
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: Severity::Note,
        subject: Subject::setting("pg_stat_statements.max".to_owned()),
        title: "statements were thrown out of the statistics: what is counted is less than what was done".to_owned(),
        evidence: facts,
        cost: None,
        max_gain: None,
        changes: vec![Change::setting(
            "room for more statements (a restart); texts made with values or names in them are better sent with parameters",
            "pg_stat_statements.max",
            format!("{:.0}", most.unwrap_or(5_000.0) * 4.0),
        )],
        risk: "some shared memory for each entry".to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::EvidenceBuilder;

    #[test]
    fn evictions_are_noted_and_their_absence_is_no_finding() {
        let with = |rounds| {
            EvidenceBuilder::new()
                .setting("pg_stat_statements.max", "5000")
                .counter("pg_stat_statements", "", "evictions", 4.0, 4.0 + rounds)
        };
        assert_eq!(with(2.0).findings(&RULE)[0].severity, Severity::Note);
        assert_eq!(with(0.0).findings(&RULE), []);
    }
}
