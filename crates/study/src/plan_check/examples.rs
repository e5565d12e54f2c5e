//! Statements of a workload that have a plan, and the executions whose values are planned.

use std::collections::{BTreeSet, HashMap, HashSet};

use observe::{Example, StatementExamples};
use planner_copy::PlannerExport;
use sql::{Fingerprint, holds_several};
use workload::{StatementText, WorkloadReader};

use super::explainable::{Explainable, SENT_WITH_OTHERS};
use super::result::{PlanValues, UncheckedStatement};
use crate::failure::Failure;

/// Statement to check.
pub(super) struct StatementToCheck {
    pub(super) fingerprint: Fingerprint,
    /// Normalised SQL.
    pub(super) sql: String,
    pub(super) executions: u64,
    pub(super) captured_us: u64,
    pub(super) tasks: Vec<PlanTask>,
}

/// One plan to ask both servers for.
pub(super) struct PlanTask {
    pub(super) example: Example,
    pub(super) is_generic: bool,
}

impl PlanTask {
    pub(super) fn values(&self) -> PlanValues {
        match self.is_generic {
            true => PlanValues::Generic,
            false => PlanValues::Captured {
                session: self.example.session,
                sequence: self.example.sequence,
            },
        }
    }
}

/// Statements of a workload, and those that are not checked.
pub(super) struct CheckedExamples {
    pub(super) statements: Vec<StatementToCheck>,
    pub(super) unchecked: Vec<UncheckedStatement>,
    /// Number of statements of kinds without a plan.
    pub(super) without_plan: u64,
    /// Note for the user on the database.
    pub(super) note: Option<String>,
}

impl CheckedExamples {
    /// Reads the workload once.
    pub(super) fn read(workload: &WorkloadReader, export: &PlannerExport) -> Result<Self, Failure> {
        let mut texts: Vec<(Explainable, StatementText)> = Vec::new();
        let mut without_plan = 0;
        for text in workload.statements()? {
            let text = text?;
            match Explainable::of(text.class, &text.sql) {
                Explainable::None => without_plan += 1,
                way => texts.push((way, text)),
            }
        }
        let wanted: HashSet<Fingerprint> = texts.iter().map(|(_, text)| text.fingerprint).collect();
        let mut found = observe::example_sets(workload, &wanted)?;
        let (database, note) = choose_database(&found, &export.database);
        let mut all = CheckedExamples {
            statements: Vec::new(),
            unchecked: Vec::new(),
            without_plan,
            note,
        };
        for (way, text) in texts {
            all.add((way, text), &mut found, &database);
        }
        Ok(all)
    }

    /// Returns a note on the users that the export does not have.
    pub(super) fn unknown_users(&self, export: &PlannerExport) -> Option<String> {
        let known: BTreeSet<&str> = export.roles.iter().map(|role| role.name.as_str()).collect();
        let tasks = self.statements.iter().flat_map(|one| &one.tasks);
        let users: BTreeSet<&str> = tasks.map(|task| &*task.example.user).collect();
        let unknown: Vec<&str> = users
            .difference(&known)
            .map(|name| {
                if name.is_empty() {
                    "(not captured)"
                } else {
                    *name
                }
            })
            .collect();
        (!unknown.is_empty()).then(|| {
            format!(
                "the export has no role {}; its statements are planned without policies of rows and without settings of roles",
                unknown.join(", ")
            )
        })
    }

    fn add(
        &mut self,
        (way, text): (Explainable, StatementText),
        found: &mut HashMap<Fingerprint, StatementExamples>,
        database: &str,
    ) {
        let mut found = found.remove(&text.fingerprint).unwrap_or_default();
        let is_there =
            |example: &Example| example.database.is_empty() || *example.database == *database;
        let (mut here, elsewhere): (Vec<_>, Vec<_>) = std::mem::take(&mut found.examples)
            .into_iter()
            .partition(is_there);
        let several = here.iter().any(|example| holds_several(&example.sql));
        let reason = match (here.is_empty(), elsewhere.first()) {
            (true, Some(other)) => {
                Some(format!("it is executed in the database {}", other.database))
            }
            (true, None) => Some("the workload has no execution with all values".to_owned()),
            (false, _) if several => Some(SENT_WITH_OTHERS.to_owned()),
            (false, _) => match way {
                Explainable::Hidden(reason) => Some(reason.to_owned()),
                way => to_explainable(way, &mut here).err(),
            },
        };
        if let Some(reason) = reason {
            self.unchecked.push(UncheckedStatement {
                fingerprint: text.fingerprint.to_string(),
                sql: text.sql,
                executions: found.executions,
                captured_us: found.captured_us,
                reason,
            });
            return;
        }
        // Only a statement that is prepared by name is executed often enough for a generic plan.
        let prepared = here
            .iter()
            .filter(|_| way == Explainable::Query)
            .find(|example| example.is_prepared && !example.parameters.is_empty())
            .cloned();
        let mut tasks: Vec<PlanTask> = here
            .into_iter()
            .map(|example| PlanTask {
                example,
                is_generic: false,
            })
            .collect();
        tasks.extend(prepared.map(|example| PlanTask {
            example,
            is_generic: true,
        }));
        self.statements.push(StatementToCheck {
            fingerprint: text.fingerprint,
            sql: text.sql,
            executions: found.executions,
            captured_us: found.captured_us,
            tasks,
        });
    }
}

/// Returns the captured database whose statements are planned: that of the export, or the only one of the workload.
fn choose_database(
    found: &HashMap<Fingerprint, StatementExamples>,
    exported: &str,
) -> (String, Option<String>) {
    let examples = found.values().flat_map(|one| &one.examples);
    let captured: BTreeSet<&str> = examples.map(|one| &*one.database).collect();
    let named: Vec<&&str> = captured.iter().filter(|name| !name.is_empty()).collect();
    match named[..] {
        [only] if **only != *exported => (
            (*only).to_string(),
            Some(format!(
                "the workload is of the database {only}, and the export of {exported}; they are taken for the same"
            )),
        ),
        _ => (exported.to_owned(), None),
    }
}

/// Replaces the texts of examples by those that `EXPLAIN` takes.
fn to_explainable(way: Explainable, examples: &mut [Example]) -> Result<(), String> {
    for example in examples {
        example.sql = way
            .text(&example.sql)
            .ok_or_else(|| "the query of the COPY cannot be found in its text".to_owned())?;
    }
    Ok(())
}
