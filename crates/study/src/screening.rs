//! Screening of index candidates by the planner: hypothetical indexes if the server has HypoPG, else each is built and
//! dropped, in a leased sandbox ([`crate::environment::SandboxLease`]).
//!
//! Costs are the planner's estimates. They serve to choose candidates for a replay, and do not include the cost of
//! maintaining an index.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use connect::login::{Dialer, Login, LoginError, QueryConnection};
use diagnose::{IndexCandidate, ScreeningMethod};
use observe::Example;
use plans::{Plan, read_plan};
use replay::{LoginMap, Target};
use sql::Fingerprint;

use crate::environment::{quote_identifier, quote_literal};
use crate::error::ExperimentError;

/// Time limit of all queries on a connection.
const TIME_MAX: Duration = Duration::from_secs(3_600);
/// Limit of indexes that are built if there is no HypoPG.
pub const BUILT_MAX: usize = 60;
/// The name of an index while it is built.
const BUILT: &str = "rehearse_candidate";

/// The planner's estimate of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostEstimate {
    /// The statement.
    pub fingerprint: Fingerprint,
    /// Cost without the candidate, in the planner's units.
    pub before: f64,
    /// Cost with the candidate.
    pub after: f64,
    /// Whether the plan uses the candidate.
    pub uses: bool,
}

/// The planner's estimates of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreeningResult {
    /// How the planner was made to consider the candidate.
    pub method: ScreeningMethod,
    /// Size in bytes; estimated, if it is hypothetical.
    pub bytes: Option<u64>,
    /// The estimate of each statement that has a plan.
    pub expected: Vec<CostEstimate>,
    /// Reason why the planner could not be asked.
    pub refusal_reason: Option<String>,
}

impl ScreeningResult {
    /// Reports whether any plan uses it.
    pub fn is_used(&self) -> bool {
        self.expected.iter().any(|one| one.uses)
    }
}

/// Inputs of a screening.
#[derive(Debug, Clone, Copy)]
pub struct Screening<'a> {
    /// The server. Indexes are created as its user.
    pub target: &'a Target,
    /// Maps the sessions of examples to logins.
    pub logins: &'a LoginMap,
    /// An example of each statement. Its values are used for planning.
    pub examples: &'a HashMap<Fingerprint, Example>,
    /// Whether candidates are built even if the server has HypoPG.
    pub built: bool,
}

impl Screening<'_> {
    /// Estimates the costs with each candidate, in their order. The result is `None` for candidates beyond
    /// [`BUILT_MAX`] that would have to be built, and for those after an interruption by the user.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn screen(
        &self,
        candidates: &[IndexCandidate],
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<ScreeningResult>>, ExperimentError> {
        let mut all = vec![None; candidates.len()];
        let mut by_database: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, candidate) in candidates.iter().enumerate() {
            by_database.entry(&candidate.database).or_default().push(at);
        }
        let mut built = 0;
        for (database, places) in by_database {
            let mut target = self.target.clone();
            target.database = Some(database.to_owned());
            let dialer = Dialer::new(&target)?;
            let login = LoginMap::default().login(&target, "", database, "rehearse");
            let mut owner = connect(&dialer, &login)?;
            let hypothetical = match self.built {
                true => None,
                false => hypopg_schema(&mut owner),
            };
            let mut planner = CostEstimator {
                dialer: &dialer,
                target: &target,
                logins: self.logins,
                open: Vec::new(),
                unchanged: HashMap::new(),
            };
            for at in places {
                if stop() {
                    return Ok(all);
                }
                let candidate = &candidates[at];
                let of: Vec<StatementExample<'_>> = candidate
                    .serves
                    .iter()
                    .filter_map(|one| Some((*one, self.examples.get(one)?)))
                    .collect();
                let one = match &hypothetical {
                    Some(schema) => planner.estimate_hypothetical(candidate, &of, schema)?,
                    None if built == BUILT_MAX => continue,
                    None => {
                        built += 1;
                        planner.estimate_built(&mut owner, candidate, &of)?
                    }
                };
                all[at] = Some(one);
            }
        }
        Ok(all)
    }
}

fn connect<'d>(dialer: &'d Dialer, login: &Login) -> Result<QueryConnection<'d>, ExperimentError> {
    let mut questions = dialer.open_query_connection(login).map_err(|error| {
        ExperimentError::Failed(format!(
            "cannot ask the planner as user \"{}\" on database \"{}\": {error}",
            login.user, login.database
        ))
    })?;
    questions.limit(TIME_MAX);
    Ok(questions)
}

/// Returns the schema of HypoPG. The extension is created if it is available.
fn hypopg_schema(owner: &mut QueryConnection<'_>) -> Option<String> {
    let _ = owner.query("CREATE EXTENSION IF NOT EXISTS hypopg");
    let place = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace \
                 WHERE extname = 'hypopg'";
    owner
        .query(place)
        .ok()?
        .into_iter()
        .next()?
        .into_iter()
        .next()?
}

/// A statement with its example.
type StatementExample<'e> = (Fingerprint, &'e Example);

/// Estimates costs with and without candidates, over a connection for each login.
struct CostEstimator<'a> {
    dialer: &'a Dialer,
    target: &'a Target,
    logins: &'a LoginMap,
    /// The connection of each login.
    open: Vec<(Login, QueryConnection<'a>)>,
    /// Costs without any candidate, by session and sequence of the example.
    unchanged: HashMap<(u64, u64), f64>,
}

impl<'a> CostEstimator<'a> {
    /// Returns the connection for an example.
    fn connection(
        &mut self,
        example: &Example,
    ) -> Result<&mut QueryConnection<'a>, ExperimentError> {
        let mut login = self
            .logins
            .login(self.target, &example.user, &example.database, "");
        login.settings = example.settings.clone();
        let at = match self.open.iter().position(|(open, _)| *open == login) {
            Some(at) => at,
            None => {
                let questions = connect(self.dialer, &login)?;
                self.open.push((login, questions));
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[at].1)
    }

    fn cost_without_candidate(
        &mut self,
        example: &Example,
    ) -> Result<Option<f64>, ExperimentError> {
        let key = (example.session, example.sequence);
        if let Some(cost) = self.unchanged.get(&key) {
            return Ok(Some(*cost));
        }
        let plan = plan_statement(self.connection(example)?, example).ok();
        let cost = plan.map(|plan| plan.root.cost);
        if let Some(cost) = cost {
            self.unchanged.insert(key, cost);
        }
        Ok(cost)
    }

    /// Estimates costs with HypoPG, whose hypothetical indexes belong to one session.
    fn estimate_hypothetical(
        &mut self,
        candidate: &IndexCandidate,
        examples: &[StatementExample<'_>],
        schema: &str,
    ) -> Result<ScreeningResult, ExperimentError> {
        let mut screened = ScreeningResult {
            method: ScreeningMethod::Hypopg,
            bytes: None,
            expected: Vec::new(),
            refusal_reason: None,
        };
        for (fingerprint, example) in examples {
            let Some(before) = self.cost_without_candidate(example)? else {
                continue;
            };
            let questions = self.connection(example)?;
            let make = format!(
                "SELECT indexrelid, indexname, {schema}.hypopg_relation_size(indexrelid) \
                 FROM {schema}.hypopg_create_index({})",
                quote_literal(&candidate.sql())
            );
            let made = questions.query(&make).and_then(|rows| {
                let row = rows.into_iter().next().unwrap_or_default();
                let plan = plan_statement(questions, example);
                let _ = questions.query(&format!("SELECT {schema}.hypopg_reset()"));
                Ok((row, plan?))
            });
            match made {
                Ok((row, plan)) => {
                    let text = |column: usize| row.get(column).cloned().flatten();
                    let name = text(1).unwrap_or_default();
                    screened.bytes = text(2).and_then(|bytes| bytes.parse().ok());
                    screened
                        .expected
                        .push(expected_costs(*fingerprint, before, &plan, &name));
                }
                Err(error) => screened.refusal_reason = Some(error.message),
            }
        }
        Ok(screened)
    }

    /// Estimates costs with an index that is built and dropped. Each statement commits, since an index over rows with
    /// HOT updates may be used only by later transactions (`indcheckxmin`).
    fn estimate_built(
        &mut self,
        owner: &mut QueryConnection<'_>,
        candidate: &IndexCandidate,
        examples: &[StatementExample<'_>],
    ) -> Result<ScreeningResult, ExperimentError> {
        let mut screened = ScreeningResult {
            method: ScreeningMethod::Built,
            bytes: None,
            expected: Vec::new(),
            refusal_reason: None,
        };
        let mut before = Vec::new();
        for (_, example) in examples {
            before.push(self.cost_without_candidate(example)?);
        }
        let make = format!(
            "CREATE INDEX {BUILT} ON {} {}",
            candidate.table_name(),
            candidate.shape()
        );
        if let Err(error) = owner.query(&make) {
            screened.refusal_reason = Some(error.message);
            return Ok(screened);
        }
        let place = format!("{}.{BUILT}", quote_identifier(&candidate.schema));
        let size = owner.query(&format!(
            "SELECT pg_relation_size({})",
            quote_literal(&place)
        ));
        let size = size
            .ok()
            .and_then(|rows| rows.into_iter().next()?.into_iter().next()?);
        screened.bytes = size.and_then(|bytes| bytes.parse().ok());
        for ((fingerprint, example), before) in examples.iter().zip(before) {
            let Some(before) = before else { continue };
            match plan_statement(self.connection(example)?, example) {
                Ok(plan) => {
                    screened
                        .expected
                        .push(expected_costs(*fingerprint, before, &plan, BUILT));
                }
                Err(error) => screened.refusal_reason = Some(error.message),
            }
        }
        owner
            .query(&format!("DROP INDEX {place}"))
            .map_err(|error| {
                ExperimentError::Failed(format!(
                    "an index that was built to be tried cannot be dropped: {error}"
                ))
            })?;
        Ok(screened)
    }
}

fn expected_costs(fingerprint: Fingerprint, before: f64, plan: &Plan, name: &str) -> CostEstimate {
    let mut uses = false;
    plan.root.each(&mut |node, _| {
        uses |= node.index.as_deref() == Some(name);
    });
    CostEstimate {
        fingerprint,
        before,
        after: plan.root.cost,
        uses,
    }
}

/// Plans a statement in a read-only transaction, without executing it.
fn plan_statement(
    questions: &mut QueryConnection<'_>,
    example: &Example,
) -> Result<Plan, LoginError> {
    let values = example.values();
    questions.query("BEGIN TRANSACTION READ ONLY")?;
    let question = format!("EXPLAIN (FORMAT JSON)\n{}", example.sql);
    let answer = questions.query_with(&question, &example.types, &values);
    if !questions.is_closed() {
        questions.query("ROLLBACK")?;
    }
    let lines: Vec<String> = answer?.into_iter().flatten().flatten().collect();
    read_plan(&lines.join("\n")).map_err(|error| LoginError {
        sqlstate: *b"XX000",
        message: error.explanation().to_owned(),
    })
}
