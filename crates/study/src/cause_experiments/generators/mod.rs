//! Generators of interventions, each in its own file. A generator looks at the expensive parts of a statement and proposes
//! what could remove them; the trials decide.

mod bloat;
mod compilation;
mod cost_settings;
mod exclusion;
mod foreign_keys;
mod hidden_scans;
mod indexes;
mod materialization;
mod memory;
mod parallelism;
mod plan_cache;
mod plan_choice;
mod statistics;
mod volatility;
mod written_rows;

use super::intervention::{Intervention, MeasuredStatement};
use super::statement_trial::TrialConnection;

/// Returns the interventions of all generators, those first that explain the most expensive parts.
pub(super) fn propose_all(
    connection: &mut TrialConnection<'_>,
    statement: &MeasuredStatement<'_>,
) -> Vec<Intervention> {
    let mut all = foreign_keys::propose(connection, statement);
    all.extend(bloat::propose(connection, statement));
    all.extend(compilation::propose(statement));
    all.extend(volatility::propose(connection, statement));
    all.extend(plan_cache::propose(statement));
    all.extend(memory::propose(statement));
    all.extend(statistics::propose(statement));
    all.extend(materialization::propose(statement));
    all.extend(exclusion::propose(statement));
    all.extend(parallelism::propose(statement));
    // A setting that was made worse than PostgreSQL's own comes before new indexes, which would only hide it.
    let (worsened, usual) = cost_settings::propose(statement);
    all.extend(worsened);
    all.extend(indexes::propose(statement));
    all.extend(hidden_scans::propose(connection, statement));
    all.extend(usual);
    all.extend(written_rows::propose(connection, statement));
    all.extend(plan_choice::propose(statement));
    all
}
