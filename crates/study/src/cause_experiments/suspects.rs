//! Clears suspected indexes and settings by experiment: the expensive statements are executed with and without them.

use diagnose::{
    Change, StatementAccount, Subject, Suspect, SuspectExperiment, SuspectedChange, TrialOutcome,
};

use super::Experiments;
use super::intervention::{Action, Intervention, acts_on_statement};
use super::screen::try_intervention;
use super::statement_trial::TrialConnection;
use crate::environment::quote_literal;

/// Largest number of statements that are executed without a suspect.
const STATEMENTS_MAX: usize = 20;

/// Decides the suspects that are an index or a setting, until a time of the clock. `database` is that of the indexes.
pub(super) fn examine_suspects(
    experiments: &mut Experiments<'_>,
    accounts: &[StatementAccount],
    (database, until_ns): (&str, i64),
    suspects: &mut [Suspect],
) {
    for suspect in suspects {
        let Some(change) = SuspectedChange::parse(&suspect.pattern) else {
            continue;
        };
        experiments
            .place
            .enter_as_owner(&mut experiments.connection, database);
        match without(&mut experiments.connection, &change) {
            Ok(intervention) => {
                suspect.decide(execute_without(
                    experiments,
                    accounts,
                    until_ns,
                    &intervention,
                ));
            }
            Err(reason) => suspect.cannot_decide(reason),
        }
    }
}

/// Returns the intervention that takes a suspect away, or the reason why none can.
fn without(
    connection: &mut TrialConnection<'_>,
    change: &SuspectedChange,
) -> Result<Intervention, String> {
    let made = |change: Change, setup: String| Intervention {
        cause: String::new(),
        change,
        action: Action::Removal(vec![setup]),
        risk: String::new(),
    };
    match change {
        SuspectedChange::Setting(name, value) => {
            let setup = format!("SET LOCAL {name} = {}", quote_literal(value));
            let one = made(Change::setting("", name, value), setup);
            match acts_on_statement(connection, &one) {
                true => Ok(one),
                false => Err(format!(
                    "{name} does not act on the execution of single statements: compare two replays"
                )),
            }
        }
        SuspectedChange::Index(name) => {
            let question = format!(
                "SELECT i.indexrelid::pg_catalog.regclass::text, (SELECT min(c.conname) FROM pg_catalog.pg_constraint c \
                   WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x')) \
                 FROM pg_catalog.pg_index i WHERE i.indexrelid = pg_catalog.to_regclass({})",
                quote_literal(name)
            );
            let row = connection.query(&question)?.into_iter().next();
            match row.as_deref() {
                Some([Some(index), None]) => {
                    let setup = format!("DROP INDEX {index}");
                    Ok(made(Change::sql("", format!("{setup};")), setup))
                }
                Some([_, Some(constraint)]) => Err(format!(
                    "{name} belongs to the constraint {constraint} and cannot be dropped alone"
                )),
                _ => Err(format!("the sandbox has no index {name}")),
            }
        }
    }
}

/// Executes the expensive statements with and without a suspect.
fn execute_without(
    experiments: &mut Experiments<'_>,
    accounts: &[StatementAccount],
    until_ns: i64,
    intervention: &Intervention,
) -> SuspectExperiment {
    let mut found = SuspectExperiment::default();
    for account in accounts.iter().take(STATEMENTS_MAX) {
        let clock = experiments.clock;
        let sets = experiments.executable_sets(account.fingerprint);
        let measured = sets.and_then(|sets| experiments.measure(account.fingerprint, sets));
        let trial = measured.ok().and_then(|statement| {
            try_intervention(
                &mut experiments.connection,
                &statement,
                intervention,
                (clock, until_ns),
            )
        });
        let trial = trial.filter(|trial| trial.outcome != TrialOutcome::Failed);
        let Some(trial) = trial else {
            found.missing_share += account.share;
            continue;
        };
        found.executed_share += account.share;
        if trial.outcome.is_gain() {
            let won = (1.0 - trial.left()).max(0.0);
            found.gain_ns += account.ns * won;
            found.gain_share += account.share * won;
            found
                .faster
                .push(Subject::statement(account.fingerprint, account.sql.clone()));
        }
    }
    found
}
