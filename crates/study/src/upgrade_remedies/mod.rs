//! Search for remedies after a major upgrade: statements that are worse on the new server are executed alone on both, and on
//! the new one with each difference between the servers taken away.
//!
//! ```text
//! statements that got slower, plan that does more work, other answers
//!   ─► state of both servers ─► missing statistics and indexes are put in place, all together
//!   ─► other differences that may be the cause ─► each tried in a transaction that is rolled back
//!   ─► the first that restores the work of the old server
//! ```
//!
//! A rollback keeps used sequence values, dead rows, and the numbers of rows and changes that `ANALYZE` and `CREATE INDEX` note. So
//! the servers are copies, or their data are restored afterwards. Otherwise the transactions are read only, and only settings are
//! tried. Statements that reach outside of their transaction are not executed.

mod answers;
mod candidate_trials;
mod candidates;
mod coverage;
mod expected_plans;
mod missing_objects;
mod other_values;
mod plan_advice;
mod planning_state;
mod result;
mod sample_dependence;
mod setting_candidates;
mod statement_search;
#[cfg(test)]
mod tests;
mod trial;
mod work_of_both;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::login::Dialer;
use observe::Example;
use plans::Plan;
use replay::{LoginMap, Target};
use serde::{Deserialize, Serialize};
use sql::Fingerprint;
use workload::{Literals, StatementText, WorkloadReader};

use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use candidates::in_order;
pub use coverage::SearchCoverage;
use coverage::{Examination, SearchedStatement};
pub(crate) use planning_state::SettingScope;
pub use result::{
    MeasuredFactor, RegressionRemedy, RegressionSign, RemedyKind, RemedyStatus, SampleDependence,
    TrialWork, TriedRemedy, UpgradeRegression,
};
pub(crate) use setting_candidates::setting_statement;
use statement_search::{Side, StatementSearch};
pub(crate) use trial::{has_more_blocks, is_near, may_be_worse};
pub(crate) use work_of_both::{SeenAlone, WorkOfBoth};

/// Share of the time in which statements are measured before missing objects are put in place.
const MEASURING_SHARE: f64 = 0.35;
/// Share of the time for the expected plans.
const PLANS_SHARE: f64 = 0.15;

/// Parameters of a search.
pub(crate) struct RemedySearch<'a> {
    /// Old server.
    pub(crate) old: &'a Target,
    /// New server.
    pub(crate) new: &'a Target,
    /// Mapping of the captured roles, as the replays have it.
    pub(crate) logins: &'a LoginMap,
    /// Traces that the trials may leave.
    pub(crate) access: TrialAccess,
    /// Captured database. Statements of others are not examined, and remedies name it.
    pub(crate) captured: &'a str,
    /// Statements that the replays showed as slower, with the sign.
    pub(crate) slower: &'a HashMap<Fingerprint, RegressionSign>,
    /// Time for all executions.
    pub(crate) limit: Duration,
    /// Whether values are shown in messages of the servers.
    pub(crate) literals: Literals,
    /// Stop request.
    pub(crate) interrupt: &'a Interrupt,
}

/// Traces that trials may leave on the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialAccess {
    /// The data are copies, or are restored afterwards.
    Disposable,
    /// Nothing restores the data. Transactions are read only, and only settings are tried.
    ReadOnly,
}

/// Result of a search.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RemedySearchResult {
    /// Statements that are worse.
    pub(crate) regressions: Vec<UpgradeRegression>,
    /// Statistics and indexes that the new server lacks. They are put in place before the search.
    #[serde(default)]
    pub(crate) missing: Vec<RegressionRemedy>,
    /// Plans on the new server with the remedies.
    pub(crate) plans: Vec<ExpectedPlans>,
    /// Work of the statements that were compared alone, by fingerprint; `None` for those that were not executed, since their
    /// plans are the same on both servers.
    #[serde(default)]
    pub(crate) works: BTreeMap<String, Option<WorkOfBoth>>,
    /// Statements of the captured database.
    statements: Vec<SearchedStatement>,
    /// Limits that the examined statements have, in sentences.
    findings: Vec<String>,
    /// Limits of the search, in sentences.
    pub(crate) notes: Vec<String>,
}

impl RemedySearchResult {
    /// Returns the statements of all remedies, in an order in which they can be executed.
    pub(crate) fn script(&self) -> Vec<String> {
        remedy_script(&self.missing, self.remedies())
    }

    /// Returns the statements that replays with all remedies execute. Plan advice is of a session, and the sessions of the replays
    /// do not have it.
    pub(crate) fn replayed_script(&self) -> Vec<String> {
        let remedies = self.remedies();
        let replayed = remedies.filter(|one| one.kind != RemedyKind::PlanAdvice);
        remedy_script(&self.missing, replayed)
    }

    fn remedies(&self) -> impl Iterator<Item = &RegressionRemedy> {
        self.regressions
            .iter()
            .filter_map(|one| one.remedy.as_ref())
    }

    /// Returns the extent of the search.
    pub(crate) fn coverage(&self) -> SearchCoverage {
        let planned: HashSet<&str> = self.plans.iter().map(|one| &*one.fingerprint).collect();
        SearchCoverage::of(&self.statements, |one| planned.contains(&*one.fingerprint))
    }

    /// Forgets the statements with these fingerprints, so that a search that continues examines them again.
    pub(crate) fn forget(&mut self, is_stale: impl Fn(&str) -> bool) {
        self.statements.retain(|one| !is_stale(&one.fingerprint));
        self.works.retain(|fingerprint, _| !is_stale(fingerprint));
    }

    /// Returns what was seen of a statement alone.
    pub(crate) fn seen_alone(&self, fingerprint: &str) -> SeenAlone<'_> {
        let mut statements = self.statements.iter();
        let known = statements.find(|one| one.fingerprint == fingerprint);
        let reason = match known {
            None => Some("no planner plans it, or it is one of another database".to_owned()),
            Some(known) => known.examination.reason(),
        };
        match (reason, self.works.get(fingerprint)) {
            (Some(reason), _) => SeenAlone::Not(reason),
            (None, Some(Some(work))) => SeenAlone::Executed(work),
            (None, Some(None)) => SeenAlone::SamePlans,
            (None, None) => SeenAlone::Not("an earlier version of Rehearse searched".to_owned()),
        }
    }

    /// Whether there are remedies that were not put in place before the statements were compared.
    pub(crate) fn has_other_remedies(&self) -> bool {
        let in_place = remedy_script(&self.missing, std::iter::empty());
        let mut replayed = self.replayed_script().into_iter();
        replayed.any(|one| !in_place.contains(&one))
    }

    /// Whether more time would examine more statements.
    pub(crate) fn lacks_time(&self) -> bool {
        let mut statements = self.statements.iter();
        statements.any(|one| one.examination == Examination::NoTime)
    }
}

/// Plans of a statement on the new server, with its remedy and with all settings of remedies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedPlans {
    pub(crate) fingerprint: String,
    pub(crate) sql: String,
    pub(crate) plans: Vec<ExpectedPlan>,
}

/// Plan for the values of one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedPlan {
    /// Session and sequence of the execution in the workload.
    pub(crate) execution: (u64, u64),
    /// Role of its session; `None` if the capture does not know it.
    pub(crate) role: Option<String>,
    /// Hash of its operations ([`Plan::lasting_shape`]).
    pub(crate) shape: String,
    /// Its scans and joins.
    pub(crate) summary: String,
}

/// Searches the remedies. `known` is the result of a search that ended before all statements: its statements are not executed
/// again.
///
/// # Errors
/// If a server cannot be reached, or the workload cannot be read.
pub(crate) fn search_remedies(
    request: &RemedySearch<'_>,
    workload: &WorkloadReader,
    known: RemedySearchResult,
) -> Result<RemedySearchResult, Failure> {
    let captured = captured_statements(request, workload)?;
    let clock = SystemClock::start();
    let begun_ns = clock.now_ns();
    let after = |time: Duration| {
        begun_ns.saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
    };
    let dialers = [Dialer::new(request.old), Dialer::new(request.new)];
    let [old_dialer, new_dialer] = dialers.map(|one| one.map_err(ExperimentError::from));
    let (old_dialer, new_dialer) = (old_dialer?, new_dialer?);
    let [old_logins, new_logins] = [request.old, request.new].map(|target| LoginMap {
        database: target.database.clone(),
        ..request.logins.clone()
    });
    let time = (&clock, after(request.limit.mul_f64(MEASURING_SHARE)));
    let old = Side::new(request, &old_dialer, (request.old, &old_logins), time);
    let new = Side::new(request, &new_dialer, (request.new, &new_logins), time);
    let mut servers = StatementSearch::new(request, (old, new), known);
    let search_end = after(request.limit.mul_f64(1.0 - PLANS_SHARE));
    servers.put_in_place(&captured, search_end);
    for one in &captured {
        servers.examine(one);
    }
    servers.extend_time(after(request.limit));
    Ok(servers.finish(&captured))
}

/// Statement of the captured database, with some of its executions.
struct CapturedStatement {
    text: StatementText,
    sets: Vec<Example>,
    /// Further executions, for statements whose plan depends on the values.
    others: Vec<Example>,
    captured_us: u64,
    /// Sign that the replays showed.
    sign: Option<RegressionSign>,
}

/// Returns the statements that are planned: those that the replays showed as slower first, then by captured time.
fn captured_statements(
    request: &RemedySearch<'_>,
    workload: &WorkloadReader,
) -> Result<Vec<CapturedStatement>, Failure> {
    let mut texts: Vec<StatementText> = Vec::new();
    for text in workload.statements()? {
        let text = text?;
        if text.class.is_planned() {
            texts.push(text);
        }
    }
    let wanted: HashSet<Fingerprint> = texts.iter().map(|text| text.fingerprint).collect();
    let mut examples = observe::example_sets(workload, &wanted)?;
    let captured = texts.into_iter().filter_map(|text| {
        let found = examples.remove(&text.fingerprint).unwrap_or_default();
        let is_captured = |database: &str| database.is_empty() || database == request.captured;
        // A statement of other databases is not rehearsed.
        let is_rehearsed = found.databases.iter().any(|one| is_captured(one));
        let is_captured = |one: &Example| is_captured(&one.database);
        let sets: Vec<Example> = found.examples.into_iter().filter(is_captured).collect();
        let others = found.others.into_iter().filter(is_captured).collect();
        is_rehearsed.then(|| CapturedStatement {
            sign: request.slower.get(&text.fingerprint).copied(),
            captured_us: found.captured_us,
            text,
            sets,
            others,
        })
    });
    let mut captured: Vec<CapturedStatement> = captured.collect();
    captured.sort_by_key(|one| (one.sign.is_none(), std::cmp::Reverse(one.captured_us)));
    Ok(captured)
}

/// Names the scans and joins of a plan, the outermost first.
pub(crate) fn summary(plan: &Plan) -> String {
    let mut nodes = Vec::new();
    plan.root.each(&mut |node, _| {
        if node.is_join() || node.relation.is_some() || node.index.is_some() {
            nodes.push(node.label());
        }
    });
    match nodes.is_empty() {
        true => plan.root.label(),
        false => nodes.join(", "),
    }
}

/// Returns the statements of what was put in place first and of all remedies, in an order in which they can be executed.
fn remedy_script<'a>(
    missing: &'a [RegressionRemedy],
    remedies: impl Iterator<Item = &'a RegressionRemedy>,
) -> Vec<String> {
    let all = missing.iter().chain(remedies);
    in_order(all.flat_map(|remedy| remedy.statements.iter().cloned()))
}
