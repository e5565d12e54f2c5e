//! Invalid, duplicate and unused indexes, which every write maintains.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::index_shape::IndexShape;
use crate::threshold::{Threshold, Thresholds};
use run::{Facts, IndexFact};
use statistics::Unit;

const BYTES: Threshold = Threshold {
    name: "unused-index-bytes",
    value: 10_485_760.0,
    unit: "bytes",
    decides: "a smaller index that nobody used is not told",
    source: "ours: 10 MiB",
};

const WRITES: Threshold = Threshold {
    name: "unused-index-writes",
    value: 1_000.0,
    unit: "rows written into its table",
    decides: "an index of a table that is written less costs little",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "indexes",
    looks_at: "invalid, duplicate and unused indexes",
    thresholds: &[BYTES, WRITES],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let facts = evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut findings = Vec::new();
    for index in facts.indexes.iter().filter(|index| !index.valid) {
        findings.push(invalid(evidence, index));
    }
    findings.extend(duplicates(evidence, thresholds, facts));
    if evidence.observed.is_ok() {
        findings.extend(unused(evidence, thresholds, facts));
    }
    Ok(findings)
}

fn name(index: &IndexFact) -> String {
    format!("{}.{}", index.schema, index.name)
}

fn size(index: &IndexFact) -> Fact {
    let check = format!("SELECT pg_relation_size('{}'::regclass)", name(index));
    Fact::new(
        "its size",
        index.bytes.unwrap_or(0) as f64,
        Unit::Bytes,
        "pg_relation_size",
    )
    .check(check)
}

/// Returns the rows written into its table.
fn writes(evidence: &Evidence, index: &IndexFact) -> f64 {
    let table = format!("{}.{}", index.schema, index.table);
    let of = |counter: &str| evidence.increase("pg_stat_user_tables", &table, counter);
    of("n_tup_ins") + of("n_tup_upd") - of("n_tup_hot_upd") + of("n_tup_del")
}

fn written(evidence: &Evidence, index: &IndexFact) -> Fact {
    let writes = writes(evidence, index);
    Fact::new(
        "rows written into its table",
        writes,
        Unit::Count,
        "pg_stat_user_tables",
    )
}

fn drop(index: &IndexFact, words: &str) -> Change {
    Change::sql(words, format!("DROP INDEX {};", name(index)))
}

fn invalid(evidence: &Evidence, index: &IndexFact) -> Finding {
    let kept = match index.ready {
        true => "; every write keeps it up to date all the same",
        false => "",
    };
    Finding {
        rule: "",
        status: Default::default(),
        severity: Severity::Warning,
        subject: Subject::index(name(index)),
        title: format!("{} is invalid: no query may use it{kept}", name(index)),
        evidence: vec![
            size(index).check("SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid"),
            written(evidence, index),
        ],
        cost: None,
        max_gain: None,
        changes: vec![Change::sql(
            "build it again; what is left of a CREATE INDEX CONCURRENTLY that failed may be dropped instead",
            format!("REINDEX INDEX {};", name(index)),
        )],
        risk: "REINDEX locks the table against writes; CONCURRENTLY (from 12 on) does not"
            .to_owned(),
    }
}

/// Finds indexes that duplicate another one or are a prefix of it.
fn duplicates(evidence: &Evidence, thresholds: &Thresholds, facts: &Facts) -> Vec<Finding> {
    let all: Vec<(&IndexFact, IndexShape)> = facts
        .indexes
        .iter()
        .filter(|index| index.valid)
        .map(|index| (index, IndexShape::parse(index)))
        .collect();
    let mut findings = Vec::new();
    for (place, (index, shape)) in all.iter().enumerate() {
        if index.key.is_unique() {
            continue;
        }
        let is_covered = |(at, (other, wider)): &(usize, &(&IndexFact, IndexShape))| {
            let same_table = index.database == other.database
                && index.schema == other.schema
                && index.table == other.table;
            let same = shape.keys == wider.keys;
            let begins = shape.method == "btree" && wider.keys.starts_with(&shape.keys);
            *at != place
                && same_table
                && shape.method == wider.method
                && shape.predicate == wider.predicate
                && shape.include.iter().all(|column| wider.include.contains(column))
                // Of two equal indexes, the second is redundant.
                && (begins && !same || same && (other.key.is_unique() || *at < place))
        };
        let Some((_, (other, wider))) = all.iter().enumerate().find(is_covered) else {
            continue;
        };
        let same = shape.keys == wider.keys;
        let is_written = writes(evidence, index) >= thresholds.of(&WRITES);
        findings.push(Finding {
            rule: "",
            status: Default::default(),
            severity: match same && is_written {
                true => Severity::Warning,
                false => Severity::Note,
            },
            subject: Subject::index(name(index)),
            title: match same {
                true => format!("{} is the same as {}", name(index), name(other)),
                false => format!("{} is the beginning of {}, which serves its queries too", name(index), name(other)),
            },
            evidence: vec![
                size(index).check(format!(
                    "SELECT indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = '{}.{}'::regclass",
                    index.schema, index.table
                )),
                written(evidence, index),
            ],
            cost: None,
            max_gain: None,
            changes: vec![drop(index, "drop it")],
            risk: match same {
                true => "none that is known; build it again where a hint names it".to_owned(),
                false => "queries by its columns alone read a wider index".to_owned(),
            },
        });
    }
    findings
}

fn unused(evidence: &Evidence, thresholds: &Thresholds, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for index in facts
        .indexes
        .iter()
        .filter(|index| index.valid && !index.key.is_unique())
    {
        let object = format!("{}.{} on {}", index.schema, index.name, index.table);
        let scanned = evidence.increase("pg_stat_user_indexes", &object, "idx_scan") > 0.0;
        let bytes = index.bytes.unwrap_or(0) as f64;
        if scanned
            || bytes < thresholds.of(&BYTES)
            || writes(evidence, index) < thresholds.of(&WRITES)
        {
            continue;
        }
        findings.push(Finding {
            rule: "",
            status: Default::default(),
            severity: Severity::Note,
            subject: Subject::index(name(index)),
            title: format!("{} was not used while it was looked, and its table was written", name(index)),
            evidence: vec![
                size(index),
                written(evidence, index),
                Fact::new("scans of it", 0.0, Unit::Count, "pg_stat_user_indexes").check(format!(
                    "SELECT idx_scan, last_idx_scan FROM pg_stat_user_indexes WHERE indexrelid = '{}'::regclass",
                    name(index)
                )),
            ],
            cost: None,
            max_gain: None,
            changes: vec![drop(index, "drop it, if nobody uses it at other times either")],
            risk: "what runs once a month, or on a replica, was not seen here; see idx_scan of all servers since \
                   their statistics began"
                .to_owned(),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, table};

    fn with(definitions: &[&str], used: &str) -> EvidenceBuilder {
        let mut made_up = EvidenceBuilder::new()
            .table(table("t", 100_000, &["a int", "b int"]))
            .counter("pg_stat_user_tables", "public.t", "n_tup_ins", 0.0, 5_000.0)
            .counter(
                "pg_stat_user_indexes",
                &format!("public.{used} on t"),
                "idx_scan",
                0.0,
                50.0,
            );
        for definition in definitions {
            made_up = made_up.index(definition);
        }
        for index in &mut made_up.facts().indexes {
            index.bytes = Some(20 << 20);
        }
        made_up
    }

    fn titles(made_up: &EvidenceBuilder) -> Vec<(Severity, String)> {
        let found = made_up.findings(&RULE);
        found
            .into_iter()
            .map(|one| (one.severity, one.title))
            .collect()
    }

    #[test]
    fn invalid_duplicate_and_unused_indexes_are_found() {
        let mut broken = with(&["CREATE INDEX i ON public.t USING btree (a)"], "i");
        broken.facts().indexes[0].valid = false;
        assert_eq!(titles(&broken)[0].0, Severity::Warning);
        let twice = with(
            &[
                "CREATE INDEX i ON public.t USING btree (a)",
                "CREATE INDEX j ON public.t USING btree (a)",
            ],
            "i",
        );
        let found = titles(&twice);
        assert_eq!(
            found[0],
            (
                Severity::Warning,
                "public.j is the same as public.i".to_owned()
            )
        );
        // It was not used either.
        assert_eq!(found.len(), 2);
        let begins = with(
            &[
                "CREATE INDEX i ON public.t USING btree (a)",
                "CREATE INDEX j ON public.t USING btree (a, b)",
            ],
            "j",
        );
        assert!(
            titles(&begins)[0]
                .1
                .starts_with("public.i is the beginning of public.j")
        );
    }

    #[test]
    fn distinct_used_indexes_are_no_finding() {
        let used = with(&["CREATE INDEX i ON public.t USING btree (a)"], "i");
        assert_eq!(titles(&used), []);
        let partial = with(
            &[
                "CREATE INDEX i ON public.t USING btree (a)",
                "CREATE UNIQUE INDEX j ON public.t USING btree (a) WHERE (b > 5)",
            ],
            "i",
        );
        assert_eq!(titles(&partial), []);
        let unique = with(
            &[
                "CREATE INDEX i ON public.t USING btree (a, b)",
                "CREATE UNIQUE INDEX t_pkey ON public.t USING btree (a)",
            ],
            "i",
        );
        assert_eq!(titles(&unique), []);
    }
}
