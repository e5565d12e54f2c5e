//! More regular expressions than a backend caches: with more than 32, each is compiled again at
//! every use.

use std::collections::BTreeSet;

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use cpu_profile::phases::Phase;
use sql::StatementClass;
use statistics::Unit;

const DISTINCT: Threshold = Threshold {
    name: "regex-distinct",
    value: 32.0,
    unit: "different expressions",
    decides: "a backend that uses more compiles them again and again",
    source: "MAX_CACHED_RES in PostgreSQL's regexp.c, 10 to 18",
};

pub(super) const RULE: Rule = Rule {
    name: "regex-cache",
    looks_at: "regular expressions in the predicates and expressions of indexes that writes evaluate",
    thresholds: &[DISTINCT],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut expressions: BTreeSet<String> = BTreeSet::new();
    let mut written: Vec<String> = Vec::new();
    let mut guilty = Vec::new();
    let mut most = 0;
    for one in &evidence.statements {
        let writes = matches!(
            one.class,
            StatementClass::Insert
                | StatementClass::Update
                | StatementClass::Merge
                | StatementClass::Copy
        );
        let Some(table) = evidence.written_by(one).filter(|_| writes) else {
            continue;
        };
        let mut own = BTreeSet::new();
        for index in evidence.indexes(table) {
            own.extend(regexes(&index.definition));
        }
        if own.is_empty() {
            continue;
        }
        most = most.max(own.len());
        expressions.extend(own);
        written.push(format!("{}.{}", table.schema, table.name));
        guilty.push(one);
    }
    written.sort_unstable();
    written.dedup();
    let distinct = expressions.len();
    let Some(first) = guilty
        .first()
        .filter(|_| distinct as f64 > thresholds.of(&DISTINCT))
    else {
        return Ok(Vec::new());
    };
    let all_ns: f64 = guilty.iter().map(|one| one.ns).sum();
    // Predicates are evaluated in this phase; without stacks, the whole time is the bound.
    let phase = [Phase::IndexPredicate];
    let stacked: Vec<f64> = guilty
        .iter()
        .filter_map(|one| one.phase_share(&phase).map(|(share, _)| share * one.ns))
        .collect();
    let ns = match stacked.is_empty() {
        true => all_ns,
        false => stacked.iter().sum(),
    };
    let share = evidence.share(ns);
    let mut facts = vec![
        Fact::new("different regular expressions", distinct as f64, Unit::Count, "pg_get_indexdef")
            .check("SELECT count(DISTINCT m[1]) FROM pg_indexes, regexp_matches(indexdef, '~\\*? ''([^'']*)''', 'g') m"),
        Fact::new("the most of one table", most as f64, Unit::Count, "pg_get_indexdef"),
        Fact::new("tables written that have some", written.len() as f64, Unit::Count, "statements and pg_index"),
    ];
    if !stacked.is_empty() {
        let of = ns / all_ns.max(1.0);
        facts.push(Fact::new(
            "predicates, of these statements' processor time",
            of,
            Unit::Share,
            "stacks (perf)",
        ));
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(first.fingerprint, first.sql.clone()),
        title: format!("writes evaluate {distinct} different regular expressions, and a backend keeps 32 compiled"),
        evidence: facts,
        cost: Some(evidence.cost_of(ns)),
        max_gain: Some(share),
        changes: vec![
            Change::manual("put cheap conditions (type = …) before the expression in predicates, so that few rows reach it; use LIKE where it is enough"),
            Change::manual("send the rows of one table to one connection, which then uses its expressions only"),
        ],
        risk: "a predicate of other words is another index: queries have to use the same; how many rows reach an expression \
               is not known, since the first condition that fails ends a predicate"
            .to_owned(),
    }])
}

/// Returns the constants after regular-expression operators, each with its operator.
fn regexes(definition: &str) -> Vec<String> {
    let mut found = Vec::new();
    for operator in [" ~ '", " ~* '", " !~ '", " !~* '"] {
        for (at, _) in definition.match_indices(operator) {
            let text = &definition[at + operator.len()..];
            let mut end = 0;
            let bytes = text.as_bytes();
            while end < bytes.len() {
                if bytes[end] == b'\'' {
                    if bytes.get(end + 1) != Some(&b'\'') {
                        break;
                    }
                    end += 1;
                }
                end += 1;
            }
            // Negation is applied after compiling; case sensitivity is part of the compiled
            // expression.
            let flag = if operator.contains('*') { "i" } else { "" };
            found.push(format!("{flag}/{}", &text[..end.min(text.len())]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn with(indexes: usize, different: usize) -> EvidenceBuilder {
        let mut made_up = EvidenceBuilder::new()
            .statement(statement(1, "insert into events (path) values ($1)").took(1_000, 5.0))
            .table(table("events", 1_000, &["path text"]));
        for number in 0..indexes {
            let pattern = number % different;
            made_up = made_up.index(&format!(
                "CREATE INDEX i{number} ON public.events USING btree (path) WHERE (path ~ '^a''{pattern}'::text)"
            ));
        }
        made_up
    }

    #[test]
    fn more_expressions_than_cached_are_found() {
        let found = with(40, 40).findings(&RULE);
        assert_eq!(found.len(), 1);
        assert!(found[0].title.contains("40 different"));
        let mut stacked = with(40, 40);
        stacked.evidence.statements[0].phases = vec![(Phase::IndexPredicate, 25), (Phase::Wal, 75)];
        assert_eq!(stacked.findings(&RULE)[0].max_gain, Some(0.25));
    }

    #[test]
    fn as_many_expressions_as_cached_are_no_finding() {
        assert_eq!(with(32, 32).findings(&RULE), []);
        assert_eq!(with(100, 20).findings(&RULE), []);
    }
}
