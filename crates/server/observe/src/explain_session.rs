//! Custom and generic plans of examples over one connection.

use std::time::Duration;

use connect::login::{Dialer, Login, LoginError, QueryConnection};
use workload::FIRST_USER_OID;

use crate::examples::Example;
use crate::generic_plans::{PLAN_CACHE_MODE_VERSION, explain_prepared};
use crate::plans::{BEGIN, END, query_plan};

/// Time limit of all queries of a session.
const TIME: Duration = Duration::from_secs(3_600);

/// Session that plans examples of one login. No statement is executed: see [`crate::plans()`].
pub struct ExplainSession<'d> {
    connection: QueryConnection<'d>,
    version: u32,
    jit_above_cost: Option<f64>,
}

impl<'d> ExplainSession<'d> {
    /// Connects.
    ///
    /// # Errors
    /// If the server refuses the login.
    pub fn open(dialer: &'d Dialer, login: &Login) -> Result<Self, LoginError> {
        let mut connection = dialer.open_query_connection(login)?;
        connection.limit(TIME);
        let rows = connection.query(
            "SELECT pg_catalog.current_setting('server_version_num'), \
             CASE WHEN pg_catalog.current_setting('jit', true) = 'on' \
             THEN pg_catalog.current_setting('jit_above_cost', true) END",
        )?;
        let mut row = rows.into_iter().next().unwrap_or_default().into_iter();
        let mut number = || row.next().flatten()?.parse::<f64>().ok();
        Ok(ExplainSession {
            version: number().unwrap_or(0.0) as u32,
            jit_above_cost: number().filter(|cost| *cost >= 0.0),
            connection,
        })
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Whether a plan with this total cost would be JIT-compiled (`standard_planner`). A server without its library
    /// does not show it in plans.
    pub fn is_jit_cost(&self, cost: f64) -> bool {
        self.jit_above_cost.is_some_and(|above| cost > above)
    }

    /// Returns the plan for the example's values, as JSON.
    ///
    /// # Errors
    /// If the server refuses the statement.
    pub fn custom_plan(&mut self, example: &Example) -> Result<String, LoginError> {
        let mut example = example.clone();
        example.types = known_types(&example);
        query_plan(&mut self.connection, self.version, &example)
    }

    /// Returns the generic plan, as a session may use it after five executions of the prepared statement, without the
    /// partitions that the example's values exclude. `None` before version 12, which offers no way.
    ///
    /// # Errors
    /// If the server refuses the statement.
    pub fn generic_plan(&mut self, example: &Example) -> Option<Result<String, LoginError>> {
        if self.version < PLAN_CACHE_MODE_VERSION {
            return None;
        }
        let answer = self.connection.query(BEGIN).and_then(|_| {
            let types = known_types(example);
            explain_prepared(
                &mut self.connection,
                &example.sql,
                &types,
                &example.values(),
            )
        });
        if !self.connection.is_closed() {
            // It ends anything that is still open, except prepared statements.
            let _ = self.connection.query(END);
            let _ = self.connection.query("DEALLOCATE ALL");
        }
        Some(answer.map(|rows| {
            let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
            lines.join("\n")
        }))
    }
}

/// Returns the types that the client specified. Numbers of types of users differ between servers, so that the server
/// infers those.
fn known_types(example: &Example) -> Vec<u32> {
    let types = example.types.iter();
    types
        .map(|oid| if *oid >= FIRST_USER_OID { 0 } else { *oid })
        .collect()
}
