//! Plans the values of the rehearsal, each in the session that the rehearsal planned it in: role, its settings, row security.

use std::collections::{BTreeMap, HashMap, HashSet};

use clock::SystemClock;
use connect::login::Dialer;
use observe::Example;
use plans::Plan;
use replay::{LoginMap, Target};
use sql::Fingerprint;
use workload::{Literals, WorkloadReader};

use super::expectations::{ExpectedStatement, UpgradeExpectations};
use super::result::{DifferingPlan, UncomparedPlans};
use crate::cause_experiments::{PlanningMode, TrialConnection, TrialSession};
use crate::error::ExperimentError;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::upgrade_remedies::{ExpectedPlan, summary};

/// Plans that were compared with those of the rehearsal.
#[derive(Debug, Default)]
pub(super) struct VerifiedPlans {
    pub(super) checked: u64,
    pub(super) differing: Vec<DifferingPlan>,
    /// Whether plans were made under another role than the one that connected.
    pub(super) sets_role: bool,
    uncompared: BTreeMap<String, u64>,
}

impl VerifiedPlans {
    /// Adds a plan, or counts its value for an equal one of the statement.
    fn add_differing(&mut self, plan: DifferingPlan) {
        let key =
            |one: &DifferingPlan| [&one.fingerprint, &one.expected, &one.found].map(String::clone);
        let mut known = self.differing.iter_mut();
        match known.find(|one| key(one) == key(&plan)) {
            Some(known) => known.values += plan.values,
            None => self.differing.push(plan),
        }
    }

    /// Returns the reasons why plans were not compared, the most frequent first.
    pub(super) fn uncompared(&self) -> Vec<UncomparedPlans> {
        let all = self.uncompared.iter();
        let mut all: Vec<UncomparedPlans> = all
            .map(|(reason, plans)| UncomparedPlans {
                reason: reason.clone(),
                plans: *plans,
            })
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.plans));
        all
    }
}

/// Plans the values of the rehearsal on the server. A statement that the server does not plan is not compared.
///
/// # Errors
/// If the workload cannot be read, or the server's address is no valid one.
pub(super) fn verify_plans(
    (target, workload): (&Target, &WorkloadReader),
    expected: &UpgradeExpectations,
    interrupt: &Interrupt,
) -> Result<VerifiedPlans, Failure> {
    let wanted = expected.statements.iter();
    let wanted: HashSet<Fingerprint> = wanted
        .filter(|one| one.plans.is_some())
        .filter_map(|one| one.fingerprint())
        .collect();
    let mut examples: HashMap<(u64, u64), Example> = HashMap::new();
    for one in observe::example_sets(workload, &wanted)?.into_values() {
        for example in one.examples {
            examples.insert((example.session, example.sequence), example);
        }
    }
    compare_plans(target, &expected.statements, &examples, interrupt)
}

fn compare_plans(
    target: &Target,
    statements: &[ExpectedStatement],
    examples: &HashMap<(u64, u64), Example>,
    interrupt: &Interrupt,
) -> Result<VerifiedPlans, Failure> {
    let mut found = VerifiedPlans::default();
    let dialer = Dialer::new(target).map_err(ExperimentError::from)?;
    let clock = SystemClock::start();
    let session = TrialSession::of_owner(target, "");
    let mut connection = TrialConnection::new(&dialer, session, (&clock, i64::MAX))
        .read_only()
        .with_literals(Literals::Hidden);
    for statement in statements {
        for plan in statement.plans.iter().flat_map(|one| &one.plans) {
            let planned = match examples.get(&plan.execution) {
                _ if interrupt.is_requested() => Err("the verification was stopped".to_owned()),
                None => Err("the workload has no such execution".to_owned()),
                Some(example) => {
                    let session = session_of(target, example, plan);
                    found.sets_role |= session.role.is_some();
                    connection.use_session(session);
                    plan_in_session(&mut connection, example)
                }
            };
            let planned = match planned {
                Ok(planned) => planned,
                Err(reason) => {
                    *found.uncompared.entry(reason).or_default() += 1;
                    continue;
                }
            };
            found.checked += 1;
            if planned.lasting_shape().to_string() != plan.shape {
                found.add_differing(DifferingPlan {
                    fingerprint: statement.fingerprint.clone(),
                    sql: statement.sql.clone(),
                    session: plan.execution.0,
                    sequence: plan.execution.1,
                    values: 1,
                    expected: plan.summary.clone(),
                    found: summary(&planned),
                });
            }
        }
    }
    Ok(found)
}

/// Returns the session of an execution on the server, with the role that the rehearsal planned it as.
fn session_of(target: &Target, example: &Example, plan: &ExpectedPlan) -> TrialSession {
    let logins = LoginMap {
        database: target.database.clone(),
        user: plan.role.clone(),
        ..LoginMap::default()
    };
    TrialSession::of_example(&logins, target, example)
}

/// Plans an execution in a transaction that is rolled back.
fn plan_in_session(
    connection: &mut TrialConnection<'_>,
    example: &Example,
) -> Result<Plan, String> {
    connection.begin()?;
    let planned = connection.plan(example, PlanningMode::Custom);
    connection.roll_back()?;
    planned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_remedies::ExpectedPlans;

    /// Row security and the search path of the role decide the plan, and another user verifies.
    #[test]
    fn plan_is_made_in_the_session_of_the_captured_role_and_growth_is_no_difference() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let clock = SystemClock::start();
        let owner = TrialSession::of_owner(&target, "postgres");
        let mut connection = TrialConnection::new(&dialer, owner, (&clock, i64::MAX));
        let setup = "CREATE ROLE app; CREATE SCHEMA app; ALTER ROLE app SET search_path = app; \
             GRANT USAGE ON SCHEMA app TO app; CREATE TABLE app.t (id int, tenant text); \
             INSERT INTO app.t SELECT i, 'x' FROM generate_series(1, 1000) i; ANALYZE app.t; \
             ALTER TABLE app.t ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON app.t USING (tenant = 'x'); \
             GRANT SELECT ON app.t TO app; CREATE TABLE app.secret (id int); CREATE SEQUENCE ids; \
             CREATE FUNCTION f() RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT nextval(''ids'')'";
        connection.query(setup).unwrap();
        let example = |sequence: u64, user: &str, sql: &str| Example {
            session: 1,
            sequence,
            database: "postgres".into(),
            user: user.into(),
            settings: [].into(),
            sql: sql.into(),
            parameters: Vec::new(),
            types: Vec::new(),
            is_prepared: false,
            captured_us: None,
        };
        let rehearsed = example(1, "app", "SELECT count(*) FROM t");
        let logins = LoginMap::default();
        connection.use_session(TrialSession::of_example(&logins, &target, &rehearsed));
        let plan = plan_in_session(&mut connection, &rehearsed).unwrap();
        assert!(plan.root.children[0].conditions[0].text.contains("tenant"));
        let expected = |sequence: u64, role: &str| ExpectedPlan {
            execution: (1, sequence),
            role: Some(role.to_owned()),
            shape: plan.lasting_shape().to_string(),
            summary: summary(&plan),
        };
        let statements = [ExpectedStatement {
            plans: Some(ExpectedPlans {
                fingerprint: String::new(),
                sql: String::new(),
                plans: vec![
                    expected(1, "app"),
                    expected(2, "app"),
                    expected(3, "nobody"),
                    expected(4, "postgres"),
                    expected(5, "app"),
                    expected(6, "postgres"),
                    expected(7, "app"),
                    expected(8, "postgres"),
                ],
            }),
            ..ExpectedStatement::default()
        }];
        let examples = [
            rehearsed,
            example(2, "app", "SELECT count(*) FROM secret"),
            example(3, "nobody", "SELECT count(*) FROM t"),
            // It has no policy.
            example(4, "postgres", "SELECT count(*) FROM app.t"),
            example(6, "postgres", "SELECT count(*) FROM app.t"),
            example(7, "app", "SELECT 'geheim'::uuid"),
            // The planner executes a function that is declared immutable.
            example(8, "postgres", "SELECT f()"),
        ];
        let examples: HashMap<(u64, u64), Example> = examples
            .into_iter()
            .map(|one| ((one.session, one.sequence), one))
            .collect();
        let grow =
            "INSERT INTO app.t SELECT i, 'x' FROM generate_series(1, 400000) i; ANALYZE app.t";
        connection.use_session(TrialSession::of_owner(&target, "postgres"));
        connection.query(grow).unwrap();
        let interrupt = Interrupt::default();
        let found = compare_plans(&target, &statements, &examples, &interrupt).unwrap();
        assert_eq!(found.checked, 3, "{found:?}");
        assert!(found.sets_role);
        let differing = found.differing.iter();
        let differing: Vec<(u64, u64)> = differing.map(|one| (one.sequence, one.values)).collect();
        assert_eq!(differing, [(4, 2)]);
        let reasons: Vec<String> = (found.uncompared().into_iter())
            .map(|one| one.reason)
            .collect();
        assert_eq!(
            reasons,
            [
                "cannot execute nextval() in a read-only transaction",
                "invalid input syntax for type uuid: \"…\"",
                "permission denied for table secret",
                "the server has no role nobody",
                "the workload has no such execution",
            ]
        );
        let called = connection.value("SELECT is_called FROM ids").unwrap();
        assert_eq!(called.as_deref(), Some("f"));
    }
}
