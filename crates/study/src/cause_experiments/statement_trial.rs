//! Executes a statement with an intervention, and rolls both back.

use std::collections::BTreeSet;
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::login::{Dialer, Login, LoginError, QueryConnection, Row};
pub(crate) use diagnose::PlanningMode;
use observe::Example;
use plans::{MeasuredTimes, Plan, read_measured_times, read_plan};
use serde_json::Value;
use sql::{classify, holds_several};
use workload::{Literals, Sqlstate, redact_message};

use super::trial_session::{TrialSession, apply_role_settings};
use crate::environment::quote_identifier;

/// Time limit of all queries of a trial.
const TRIAL_TIME: Duration = Duration::from_secs(300);
/// Begins a trial. A statement that waits is ended.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '5s'";
/// Time limit of each statement, if no other is set.
const STATEMENT_TIME: Duration = Duration::from_secs(60);
/// Executions after which the server may plan a prepared statement for any values (`plancache.c`).
const CUSTOM_PLANS: usize = 5;
/// First version in which `plan_cache_mode` exists, and `EXPLAIN` has `SETTINGS`.
const VERSION_12: u32 = 120_000;
/// First version in which `EXPLAIN` has `WAL`.
const VERSION_13: u32 = 130_000;

/// Whether a statement can be executed in a transaction and measured.
pub(crate) fn is_executable(example: &Example) -> bool {
    classify(&example.sql).is_planned() && !holds_several(&example.sql)
}

/// Connection of the trials. A closed one is opened again, so that a lost connection ends one trial only.
///
/// It is that of the sandbox's owner, who may make changes. Statements are executed as the role that sent them.
pub(crate) struct TrialConnection<'a> {
    dialer: &'a Dialer,
    session: TrialSession,
    open: Option<QueryConnection<'a>>,
    version: u32,
    clock: &'a SystemClock,
    /// Time of the clock at which all trials end.
    deadline_ns: i64,
    /// Time limit of each statement of the transaction.
    limit: Duration,
    /// Whether transactions are read only.
    is_read_only: bool,
    /// Whether messages of the server show values.
    literals: Literals,
}

impl<'a> TrialConnection<'a> {
    pub(crate) fn new(
        dialer: &'a Dialer,
        session: TrialSession,
        (clock, deadline_ns): (&'a SystemClock, i64),
    ) -> Self {
        TrialConnection {
            dialer,
            session,
            open: None,
            version: 0,
            clock,
            deadline_ns,
            limit: STATEMENT_TIME,
            is_read_only: false,
            literals: Literals::Shown,
        }
    }

    /// Makes its transactions read only, so that the server refuses to write and to advance sequences.
    pub(crate) fn read_only(self) -> Self {
        TrialConnection {
            is_read_only: true,
            ..self
        }
    }

    /// Sets whether messages of the server show values.
    pub(crate) fn with_literals(self, literals: Literals) -> Self {
        TrialConnection { literals, ..self }
    }

    /// Sets the time of the clock at which all trials end.
    pub(crate) fn set_deadline(&mut self, deadline_ns: i64) {
        self.deadline_ns = deadline_ns;
    }

    /// Whether the time of all trials is over.
    pub(crate) fn is_time_over(&self) -> bool {
        self.clock.now_ns() >= self.deadline_ns
    }

    /// Takes the database, the role and the settings of the session that sent an example.
    pub(crate) fn use_session(&mut self, session: TrialSession) {
        if self.session != session {
            self.session = session;
            self.open = None;
        }
    }

    /// Returns the login.
    pub(crate) fn login(&self) -> &Login {
        &self.session.owner
    }

    /// Returns the role that executes statements.
    pub(crate) fn role(&self) -> &str {
        let role = self.session.role.as_deref();
        role.unwrap_or(&self.session.owner.user)
    }

    /// Returns the server's version (`server_version_num`).
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub(crate) fn version(&mut self) -> Result<u32, String> {
        self.get()?;
        Ok(self.version)
    }

    /// Returns the open connection, or opens another one.
    fn get(&mut self) -> Result<&mut QueryConnection<'a>, String> {
        let literals = self.literals;
        let open = self.open.take().filter(|open| !open.is_closed());
        let open = match open {
            Some(open) => open,
            None => {
                let mut open = self
                    .dialer
                    .open_query_connection(&self.session.owner)
                    .map_err(message(literals))?;
                open.limit(TRIAL_TIME);
                let rows = open
                    .query("SHOW server_version_num")
                    .map_err(message(literals))?;
                let version = rows.into_iter().flatten().flatten().next();
                self.version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
                if let Some(role) = &self.session.role {
                    apply_role_settings(&mut open, role)?;
                }
                open
            }
        };
        Ok(self.open.insert(open))
    }

    /// Returns the rows of a query.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Row>, String> {
        let literals = self.literals;
        self.get()?.query(sql).map_err(message(literals))
    }

    /// Returns the first column of the first row of a query.
    pub(crate) fn value(&mut self, sql: &str) -> Result<Option<String>, String> {
        Ok(self.query(sql)?.into_iter().flatten().next().flatten())
    }

    /// Begins a transaction. [`Self::roll_back`] ends it.
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        let literals = self.literals;
        let connection = self.get()?;
        connection.limit(TRIAL_TIME);
        connection.query(BEGIN).map_err(message(literals))?;
        if self.is_read_only {
            self.query("SET TRANSACTION READ ONLY")?;
        }
        self.limit(STATEMENT_TIME)
    }

    /// Executes the statements of an intervention in the transaction. Their only limit is the time that is left for all trials.
    pub(crate) fn set_up(&mut self, statements: &[String]) -> Result<(), String> {
        let left_ns = (self.deadline_ns - self.clock.now_ns()).max(0) as u64;
        let left = Duration::from_nanos(left_ns);
        self.get()?.limit(left.max(TRIAL_TIME));
        self.limit(left)?;
        for statement in statements {
            self.query(statement)?;
        }
        self.get()?.limit(TRIAL_TIME);
        self.limit(STATEMENT_TIME)
    }

    /// Executes statements that stay, all or none.
    ///
    /// # Errors
    /// With the message of the server. A connection that only reads is refused by it.
    pub(crate) fn execute_lasting(&mut self, statements: &[String]) -> Result<(), String> {
        self.begin()?;
        let executed = self
            .set_up(statements)
            .and_then(|()| self.query("COMMIT").map(drop));
        if executed.is_err() {
            self.roll_back()?;
        }
        executed
    }

    /// Ends the transaction and all that was done in it.
    pub(crate) fn roll_back(&mut self) -> Result<(), String> {
        let literals = self.literals;
        match &mut self.open {
            Some(open) if !open.is_closed() => {
                open.query("ROLLBACK").map(drop).map_err(message(literals))
            }
            _ => Ok(()),
        }
    }

    /// Limits the time of each following statement of the transaction. None is longer than the time that is left for all trials.
    pub(crate) fn limit(&mut self, time: Duration) -> Result<(), String> {
        self.limit = time;
        self.set_statement_timeout()
    }

    fn set_statement_timeout(&mut self) -> Result<(), String> {
        let left_ns = (self.deadline_ns - self.clock.now_ns()).max(0);
        let time = self.limit.min(Duration::from_nanos(left_ns as u64));
        // 0 is no limit.
        let ms = time.as_millis().max(1);
        self.query(&format!("SET LOCAL statement_timeout = {ms}"))
            .map(drop)
    }

    /// Executes a statement in the transaction, and rolls it back.
    pub(crate) fn execute(
        &mut self,
        example: &Example,
        mode: PlanningMode,
    ) -> Result<MeasuredTimes, String> {
        let options = match self.version {
            version if version >= VERSION_13 => "ANALYZE, BUFFERS, WAL, SETTINGS",
            version if version >= VERSION_12 => "ANALYZE, BUFFERS, SETTINGS",
            _ => "ANALYZE, BUFFERS",
        };
        let text = self.explain(options, example, mode)?;
        read_measured_times(&text)
            .map_err(|error| format!("its times cannot be read: {}", error.explanation()))
    }

    /// Plans a statement in the transaction, without executing it.
    pub(crate) fn plan(&mut self, example: &Example, mode: PlanningMode) -> Result<Plan, String> {
        let text = self.explain("COSTS", example, mode)?;
        read_plan(&text).map_err(|error| error.explanation().to_owned())
    }

    /// Returns the tables that a statement reads or writes with its values, in a transaction of its own.
    pub(crate) fn plan_tables(&mut self, example: &Example) -> Result<PlanTables, String> {
        self.begin()?;
        let text = self.explain("VERBOSE", example, PlanningMode::Custom);
        self.roll_back()?;
        let plan = serde_json::from_str(&text?).map_err(|error| error.to_string())?;
        let mut tables = PlanTables::new();
        collect_tables(&plan, &mut tables);
        Ok(tables)
    }

    /// Returns the number of a query's rows and the sum of their hashes, which does not depend on their order.
    pub(crate) fn checksum_rows(&mut self, example: &Example) -> Result<Vec<Row>, String> {
        let sql = example.sql.trim_end().trim_end_matches(';');
        let question = format!(
            "SELECT count(*), sum(pg_catalog.hashtext(answer::text)::bigint) FROM (\n{sql}\n) answer"
        );
        self.query_as(&question, example)
    }

    /// Returns the rows of a query with the values of an example, as the role of its statement.
    pub(crate) fn query_as(&mut self, sql: &str, example: &Example) -> Result<Vec<Row>, String> {
        let literals = self.literals;
        self.enter_savepoint()?;
        let connection = self.get()?;
        let rows = connection.query_with(sql, &example.types, &example.values());
        if !connection.is_closed() {
            connection
                .query("ROLLBACK TO rehearse_trial")
                .map_err(message(literals))?;
        }
        rows.map_err(message(literals))
    }

    /// Begins what is rolled back to `rehearse_trial`, as the role of the statement.
    fn enter_savepoint(&mut self) -> Result<(), String> {
        self.set_statement_timeout()?;
        let mut prelude = "SAVEPOINT rehearse_trial".to_owned();
        if let Some(role) = &self.session.role {
            prelude.push_str(&format!("; SET LOCAL ROLE {}", quote_identifier(role)));
        }
        self.query(&prelude).map(drop)
    }

    fn explain(
        &mut self,
        options: &str,
        example: &Example,
        mode: PlanningMode,
    ) -> Result<String, String> {
        self.enter_savepoint()?;
        let (version, literals) = (self.version, self.literals);
        let connection = self.get()?;
        let rows = match mode {
            PlanningMode::Custom => {
                let question = format!("EXPLAIN ({options}, FORMAT JSON)\n{}", example.sql);
                connection.query_with(&question, &example.types, &example.values())
            }
            PlanningMode::Prepared | PlanningMode::Generic => {
                let rows = explain_prepared(connection, options, example, mode, version);
                if !connection.is_closed() {
                    // A prepared statement outlives the transaction.
                    let _ = connection.query("ROLLBACK TO rehearse_trial");
                    let _ = connection.query("DEALLOCATE ALL");
                }
                rows
            }
        };
        if !connection.is_closed() {
            connection
                .query("ROLLBACK TO rehearse_trial")
                .map_err(message(literals))?;
        }
        let lines: Vec<String> = rows
            .map_err(message(literals))?
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        Ok(lines.join("\n"))
    }
}

/// Schemas and names of tables.
pub(crate) type PlanTables = BTreeSet<(String, String)>;

/// Collects the tables in the output of `EXPLAIN (VERBOSE, FORMAT JSON)`.
fn collect_tables(value: &Value, tables: &mut PlanTables) {
    if let Value::Object(node) = value {
        let text = |name: &str| node.get(name).and_then(Value::as_str);
        if let (Some(schema), Some(table)) = (text("Schema"), text("Relation Name")) {
            tables.insert((schema.to_owned(), table.to_owned()));
        }
    }
    let children = match value {
        Value::Object(node) => node.values().collect(),
        Value::Array(all) => all.iter().collect(),
        _ => Vec::new(),
    };
    children
        .into_iter()
        .for_each(|child| collect_tables(child, tables));
}

/// Returns a function that describes an error. Messages of servers may have values; those on connections have none.
fn message(literals: Literals) -> impl Fn(LoginError) -> String {
    move |error| match error.sqlstate.starts_with(b"08") {
        true => error.message,
        false => redact_message(Sqlstate(error.sqlstate), &error.message, literals),
    }
}

/// Explains a statement as the server plans it if it was prepared and executed often, or for any values.
fn explain_prepared(
    connection: &mut QueryConnection<'_>,
    options: &str,
    example: &Example,
    mode: PlanningMode,
    version: u32,
) -> Result<Vec<Row>, LoginError> {
    let sql = example.sql.trim_end().trim_end_matches(';');
    connection.query(&format!("PREPARE rehearse_statement AS\n{sql}"))?;
    let call = observe::prepared_call(connection, "rehearse_statement", &example.values())?;
    let is_generic = mode == PlanningMode::Generic;
    if is_generic && version >= VERSION_12 {
        connection.query("SET LOCAL plan_cache_mode = force_generic_plan")?;
    } else {
        for _ in 0..CUSTOM_PLANS {
            connection.query(&format!("EXPLAIN {call}"))?;
        }
    }
    connection.query(&format!("EXPLAIN ({options}, FORMAT JSON) {call}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::Target;
    use workload::Parameter;

    fn example(sql: &str, parameters: &[&str]) -> Example {
        Example {
            session: 1,
            sequence: 1,
            database: "postgres".into(),
            user: "postgres".into(),
            settings: [].into(),
            sql: sql.into(),
            parameters: parameters
                .iter()
                .map(|text| Some(Parameter::Text((*text).into())))
                .collect(),
            types: Vec::new(),
            is_prepared: true,
            captured_us: None,
        }
    }

    #[test]
    fn closed_connection_fails_one_trial_and_the_next_one_has_another() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let clock = SystemClock::start();
        let session = TrialSession::of_owner(&target, "postgres");
        let mut connection = TrialConnection::new(&dialer, session, (&clock, i64::MAX));
        let example = example("SELECT 1", &[]);
        connection.begin().unwrap();
        let end = "SELECT pg_terminate_backend(pg_backend_pid())";
        connection.query(end).unwrap_err();
        connection.roll_back().unwrap();
        connection.begin().unwrap();
        connection.execute(&example, PlanningMode::Custom).unwrap();
        connection.roll_back().unwrap();
    }

    #[test]
    fn prepared_statement_is_planned_for_any_values_after_five_plans() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let clock = SystemClock::start();
        let session = TrialSession::of_owner(&target, "postgres");
        let mut connection = TrialConnection::new(&dialer, session, (&clock, i64::MAX));
        connection.begin().unwrap();
        connection
            .query("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000); ANALYZE t")
            .unwrap();
        let example = example("SELECT * FROM t WHERE id = $1;", &["5"]);
        let condition = |plan: &Plan| plan.root.conditions[0].text.clone();
        let custom = connection.execute(&example, PlanningMode::Custom).unwrap();
        assert_eq!(condition(&custom.plan), "(id = 5)");
        for mode in [PlanningMode::Prepared, PlanningMode::Generic] {
            let generic = connection.execute(&example, mode).unwrap();
            assert_eq!(condition(&generic.plan), "(id = $1)", "{mode:?}");
            let planned = connection.plan(&example, mode).unwrap();
            assert_eq!(planned.shape(), generic.plan.shape());
        }
        connection.roll_back().unwrap();
        assert_eq!(
            connection.value("SELECT to_regclass('t')::text").unwrap(),
            None
        );
    }

    #[test]
    fn read_only_connection_advances_no_sequence_and_hides_values_of_messages() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let clock = SystemClock::start();
        let session = TrialSession::of_owner(&target, "postgres");
        let connect = || TrialConnection::new(&dialer, session.clone(), (&clock, i64::MAX));
        connect().query("CREATE SEQUENCE ids").unwrap();
        let mut connection = connect().read_only().with_literals(Literals::Hidden);
        for (sql, refused) in [
            ("SELECT nextval('ids')", "read-only transaction"),
            ("SELECT 'secret'::uuid", "invalid input syntax"),
        ] {
            connection.begin().unwrap();
            let message = connection
                .execute(&example(sql, &[]), PlanningMode::Custom)
                .unwrap_err();
            connection.roll_back().unwrap();
            assert!(message.contains(refused), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
        let value = connection.value("SELECT is_called::text FROM ids").unwrap();
        assert_eq!(value.as_deref(), Some("false"));
    }
}
