//! Takes away triggers and check constraints that may take the time of written rows, to find the cause. It is never advice.

use diagnose::{Change, qualified_name};
use plans::PartKind;

use super::super::intervention::{Action, EXPENSIVE, Intervention, MeasuredStatement};
use super::super::statement_trial::TrialConnection;
use crate::environment::{quote_identifier, quote_literal};

/// Takes away the triggers that take a noticeable part of the time, and the check constraints of a table whose rows take long
/// to write.
pub(super) fn propose(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Vec<Intervention> {
    let Some(table) = statement.evidence.written_by(statement.statement) else {
        return Vec::new();
    };
    let name = qualified_name(&table.schema, &table.name);
    let total_ms = statement.total_ms().max(f64::MIN_POSITIVE);
    let mut all = Vec::new();
    for trigger in &statement.times().triggers {
        if trigger.constraint.is_some() || trigger.ms < EXPENSIVE * total_ms {
            continue;
        }
        let share = trigger.ms / total_ms * 100.0;
        all.push(Intervention {
            cause: format!(
                "the trigger {} of {name} takes {share:.0} % of the statement",
                trigger.name
            ),
            change: Change::manual(format!(
                "make the function of the trigger {} cheaper, or do its work once for many rows or after the transaction: without the \
                 trigger the statement is as fast as measured",
                trigger.name
            )),
            action: Action::Removal(vec![format!(
                "ALTER TABLE {name} DISABLE TRIGGER {}",
                quote_identifier(&trigger.name)
            )]),
            risk: "none; nothing is changed".to_owned(),
        });
    }
    let writing: f64 = {
        let parts = statement.parts.all();
        let own = parts.iter().filter(|one| one.kind == PartKind::Node);
        let own =
            own.filter(|one| one.name.starts_with("Insert") || one.name.starts_with("Update"));
        own.map(|one| one.own_ms).sum()
    };
    if writing >= EXPENSIVE * total_ms {
        all.extend(check_constraints(connection, &name));
    }
    all
}

/// Takes away each check constraint of a table.
fn check_constraints(connection: &mut TrialConnection<'_>, table: &str) -> Vec<Intervention> {
    let question = format!(
        "SELECT conname FROM pg_catalog.pg_constraint WHERE contype = 'c' AND conrelid = {}::regclass",
        quote_literal(table)
    );
    // A table that cannot be found has none.
    let rows = connection.query(&question).unwrap_or_default();
    let names = rows.into_iter().flatten().flatten();
    names
        .map(|name| Intervention {
            cause: format!("checking the constraint {name} of {table} takes most of the statement"),
            change: Change::manual(format!(
                "make the condition of the constraint {name} cheaper: without it the statement is as fast as measured"
            )),
            action: Action::Removal(vec![format!(
                "ALTER TABLE {table} DROP CONSTRAINT {}",
                quote_identifier(&name)
            )]),
            risk: "none; nothing is changed".to_owned(),
        })
        .collect()
}
