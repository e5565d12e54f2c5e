//! Synthetic evidence for the tests of rules.

use std::collections::{BTreeMap, HashMap};

use run::{Facts, IndexFact, IndexKey, RelationFact, SettingFact};
use sql::{Fingerprint, StatementClass, classify};

use super::evidence::{Basis, Evidence, ServerLog, StackEvidence, StatementEvidence, Unavailable};
use super::finding::Finding;
use super::history::{Repetition, SessionAccount, TransactionAccount};
use super::rules::Rule;
use super::threshold::Thresholds;
use cpu_profile::phases::Phase;
use plans::read_plan;
use time_breakdown::observed::{
    Blocked, CounterChange, Locks, Observed, QueueSeries, StatementTotals, Wait,
};

/// Creates a statement.
pub(super) fn statement(id: u64, sql: &str) -> StatementEvidence {
    StatementEvidence {
        fingerprint: Fingerprint(id),
        sql: sql.to_owned(),
        class: classify(sql),
        calls: 0,
        ns: 0.0,
        response_ns: None,
        rows: None,
        by_many_sessions: None,
        failed: BTreeMap::new(),
        repetition: Repetition::default(),
        counted: None,
        waits: Vec::new(),
        plan: None,
        phases: Vec::new(),
    }
}

impl StatementEvidence {
    /// Sets the number of calls and their total time.
    pub(super) fn took(mut self, calls: u64, seconds: f64) -> Self {
        self.calls = calls;
        self.ns = seconds * 1e9;
        self
    }

    /// Sets the total number of rows.
    pub(super) fn with_rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    pub(super) fn with_counted(mut self, change: impl FnOnce(&mut StatementTotals)) -> Self {
        let mut counted = StatementTotals {
            calls: self.calls,
            exec_ns: self.ns as u64,
            rows: self.rows.unwrap_or(0),
            ..StatementTotals::default()
        };
        change(&mut counted);
        self.counted = Some(counted);
        self
    }

    pub(super) fn waiting(mut self, kind: &str, wait: &str, samples: u64) -> Self {
        self.waits.push(Wait {
            kind: (!kind.is_empty()).then(|| kind.to_owned()),
            wait: (!wait.is_empty()).then(|| wait.to_owned()),
            samples,
        });
        self
    }

    pub(super) fn with_plan(mut self, json: &str) -> Self {
        self.plan = Some(read_plan(json).unwrap());
        self
    }

    pub(super) fn with_phases(mut self, phases: &[(Phase, u64)]) -> Self {
        self.phases = phases.to_vec();
        self
    }
}

/// Creates a table with this many rows.
pub(super) fn table(name: &str, rows: u64, columns: &[&str]) -> RelationFact {
    RelationFact {
        database: "shop".to_owned(),
        schema: "public".to_owned(),
        name: name.to_owned(),
        kind: "table".to_owned(),
        persistence: "permanent".to_owned(),
        rows: Some(rows),
        bytes: Some(rows * 100),
        column_names: columns
            .iter()
            .map(|column| column.split(' ').next().unwrap().to_owned())
            .collect(),
        columns: columns
            .iter()
            .map(|column| column.split_once(' ').unwrap().1.to_owned())
            .collect(),
        ..RelationFact::default()
    }
}

/// Creates an index from its definition.
pub(super) fn index(definition: &str) -> IndexFact {
    let words: Vec<&str> = definition.split(' ').collect();
    let on = words.iter().position(|word| *word == "ON").unwrap();
    let (schema, table) = words[on + 1].split_once('.').unwrap();
    IndexFact {
        database: "shop".to_owned(),
        schema: schema.to_owned(),
        table: table.to_owned(),
        name: words[on - 1].to_owned(),
        definition: definition.to_owned(),
        bytes: Some(1 << 20),
        valid: true,
        ready: true,
        key: IndexKey::new(
            definition.contains("UNIQUE"),
            words[on - 1].ends_with("_pkey"),
        ),
        tablespace: None,
    }
}

/// Builder of synthetic evidence.
pub(super) struct EvidenceBuilder {
    pub(super) evidence: Evidence,
}

impl EvidenceBuilder {
    /// Starts with a run of one minute on version 15, sampled at 20 Hz, with empty facts and plans.
    pub(super) fn new() -> Self {
        EvidenceBuilder {
            evidence: Evidence {
                basis: Basis::Run,
                elapsed_s: 60.0,
                server_major: Some(15),
                whole_ns: 0.0,
                response_ns: None,
                statements: Vec::new(),
                observed: Ok(Observed {
                    samples: 1_200,
                    sampled_ns: 60_000_000_000,
                    ..Observed::default()
                }),
                counted: Ok(()),
                sample_ns: Ok(50e6),
                facts: Ok(Facts::default()),
                plans: Ok(()),
                stacks: Err(Unavailable::because("no profile was taken")),
                processor: None,
                log: Err(Unavailable::because("only a workload from a log has it")),
                transactions: Ok(TransactionAccount::default()),
                sessions: Ok(SessionAccount::default()),
                orders: Ok(HashMap::new()),
            },
        }
    }

    pub(super) fn statement(mut self, statement: StatementEvidence) -> Self {
        self.evidence.whole_ns += statement.ns;
        let observed = self.evidence.observed.as_mut().unwrap();
        observed.active_samples += statement.waits.iter().map(|wait| wait.samples).sum::<u64>();
        for wait in &statement.waits {
            observed.waits.push(wait.clone());
        }
        self.evidence.statements.push(statement);
        self
    }

    pub(super) fn table(mut self, table: RelationFact) -> Self {
        self.facts().relations.push(table);
        self
    }

    pub(super) fn index(mut self, definition: &str) -> Self {
        self.facts().indexes.push(index(definition));
        self
    }

    pub(super) fn setting(mut self, name: &str, value: &str) -> Self {
        self.facts().settings.push(SettingFact {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..SettingFact::default()
        });
        self
    }

    pub(super) fn facts(&mut self) -> &mut Facts {
        self.evidence.facts.as_mut().unwrap()
    }

    pub(super) fn observed(&mut self) -> &mut Observed {
        self.evidence.observed.as_mut().unwrap()
    }

    pub(super) fn counter(
        mut self,
        source: &str,
        object: &str,
        name: &str,
        first: f64,
        last: f64,
    ) -> Self {
        self.observed().counters.push(CounterChange {
            source: source.to_owned(),
            object: object.to_owned(),
            name: name.to_owned(),
            first,
            last,
            min: first.min(last),
            max: first.max(last),
            delta: last - first,
            gauge: false,
        });
        self
    }

    pub(super) fn blocking(mut self, blocked: &str, blocker: &str, samples: u64) -> Self {
        self.observed().blocking.push(Blocked {
            blocked: Some(blocked.to_owned()),
            blocker: Some(blocker.to_owned()),
            blocker_state: "active".to_owned(),
            wait: "transactionid".to_owned(),
            samples,
        });
        self
    }

    pub(super) fn queue(mut self, series: QueueSeries) -> Self {
        self.observed().queue.push(series);
        self
    }

    pub(super) fn locks(mut self, locks: Locks) -> Self {
        self.observed().locks = Some(locks);
        self
    }

    pub(super) fn stacks(mut self, stacks: StackEvidence) -> Self {
        self.evidence.stacks = Ok(stacks);
        self
    }

    pub(super) fn log(mut self, log: ServerLog) -> Self {
        self.evidence.log = Ok(log);
        self
    }

    pub(super) fn evidence(self) -> Evidence {
        self.evidence
    }

    /// Returns the findings of a rule.
    pub(super) fn findings(&self, rule: &Rule) -> Vec<Finding> {
        (rule.evaluate)(&self.evidence, &Thresholds::default()).unwrap()
    }
}

/// Derives the class from the text.
#[test]
fn classes_are_derived_from_texts() {
    assert_eq!(
        statement(1, "insert into t values ($1)").class,
        StatementClass::Insert
    );
}
