//! Asks a target's catalogue for what a read-only transaction does not hold back: functions that reach outside of
//! the transaction, and what uses them.
//!
//! A built-in volatile function is held back only if it is known to be harmless or refused ([`HARMLESS`]), so that
//! functions of later versions are not. A volatile function in C is treated like that if it belongs to an extension;
//! others are not held back. A function in SQL or PL/pgSQL
//! is as harmless as the names in its body. One that assembles its statements or copies to a file, and one in another
//! language, is not held back. Views, policies, operators, aggregates and casts are followed to the functions that they use.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use connect::Target;
use sql::{UnrestrictedNames, UsedNames};
use workload::WorkloadReader;

use crate::connect::{ConnectError, Dialer, QueryConnection};
use crate::error::ReplayError;
use crate::login::Login;
use crate::options::{Options, ReadOnly};
use crate::read_only_role::check_rights;

/// Time limit for the questions to one database.
const LIMIT: Duration = Duration::from_secs(120);

/// Volatile functions, built-in and of extensions, that a read-only transaction may call: they change nothing outside
/// of their session, only take advisory locks or notify, or are refused there. A star stands for any end.
pub(crate) const HARMLESS: [&str; 59] = [
    "amvalidate",
    "bernoulli",
    "clock_timestamp",
    "current_query",
    "currtid*",
    "currval",
    "gen_random_*",
    "gen_salt",
    "lastval",
    "lo_close",
    "lo_get",
    "lo_lseek*",
    "lo_open",
    "lo_tell*",
    "loread",
    "nextval",
    "normal_rand",
    "pg_advisory_*",
    "pg_blocking_pids",
    "pg_buffercache_pages",
    "pg_buffercache_summary",
    "pg_buffercache_usage_counts",
    "pg_collation_actual_version",
    "pg_control_*",
    "pg_current_*",
    "pg_database_*",
    "pg_export_snapshot",
    "pg_get_*",
    "pg_indexes_size",
    "pg_is_*",
    "pg_jit_available",
    "pg_last_*",
    "pg_lock_status",
    "pg_ls_*",
    "pg_notif*",
    "pg_partition_*",
    "pg_prepared_xact",
    "pg_relation_size",
    "pg_safe_snapshot_blocking_pids",
    "pg_sequence_*",
    "pg_show_*",
    "pg_sleep*",
    "pg_stat_clear_snapshot",
    "pg_stat_get_*",
    "pg_stat_statements",
    "pg_stat_statements_info",
    "pg_table*_size",
    "pg_total_relation_size",
    "pg_try_advisory_*",
    "pg_xact_*",
    "pgp_*",
    "random*",
    "set_config",
    "set_limit",
    "setseed",
    "setval",
    "system",
    "timeofday",
    "uuid*",
];

/// Functions that run a statement given as text, though they are not volatile.
const RUN_TEXT: [&str; 8] = [
    "connectby",
    "crosstab*",
    "cursor_to_xml*",
    "database_to_xml*",
    "query_to_xml*",
    "schema_to_xml*",
    "table_to_xml*",
    "xpath_table",
];

/// Functions that may matter: identifier, name (of an internal function, its own), language, whether the language is
/// trusted, volatility, whether an extension has it, whether it may be called as an attribute, and body. The column `prokind` is missing before 11.
const FUNCTIONS_SQL: &str = "SELECT p.oid, \
     CASE WHEN l.lanname = 'internal' AND n.nspname <> 'pg_catalog' AND p.prosrc <> 'aggregate_dummy' \
         THEN p.prosrc ELSE p.proname END, \
     p.proname, l.lanname, l.lanpltrusted, p.provolatile, \
     EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::regclass \
         AND d.objid = p.oid AND d.deptype = 'e'), \
     EXISTS (SELECT FROM unnest(p.proargtypes::oid[]) argument \
         JOIN pg_catalog.pg_type t ON t.oid = argument WHERE t.typtype IN ('c', 'p')), \
     CASE WHEN l.lanname NOT IN ('sql', 'plpgsql') THEN '' WHEN p.prosrc <> '' THEN p.prosrc \
         ELSE pg_catalog.pg_get_functiondef(p.oid) END \
     FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
     JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
     WHERE p.prorettype NOT IN ('trigger'::regtype, 'internal'::regtype)";

/// Names of relations and texts of what is executed if they are read: views and policies.
const RELATIONS_SQL: &str = "SELECT c.relname, pg_catalog.pg_get_viewdef(c.oid) \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
     UNION ALL SELECT c.relname, pg_catalog.pg_get_expr(p.polqual, p.polrelid) \
     FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid";

/// Foreign tables, and tables of which they are a part.
const FOREIGN_TABLES_SQL: &str = "WITH RECURSIVE found AS ( \
     SELECT oid FROM pg_catalog.pg_class WHERE relkind = 'f' \
     UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN found ON found.oid = i.inhrelid) \
     SELECT c.relname FROM found JOIN pg_catalog.pg_class c ON c.oid = found.oid";

/// Uses of functions other than by their names: kind, name, identifier of the function.
const USES_SQL: &str = "SELECT 'operator', oprname, oprcode::oid FROM pg_catalog.pg_operator WHERE oid >= 16384 \
     UNION ALL SELECT 'aggregate', aggfnoid::oid::text, f FROM pg_catalog.pg_aggregate, \
         unnest(ARRAY[aggtransfn::oid, aggfinalfn::oid, aggcombinefn::oid]) f WHERE aggfnoid >= 16384 \
     UNION ALL SELECT 'type', t.typname, c.castfunc FROM pg_catalog.pg_cast c \
         JOIN pg_catalog.pg_type t ON t.oid IN (c.castsource, c.casttarget) WHERE c.oid >= 16384 \
     UNION ALL SELECT 'type', t.typname, d.refobjid FROM pg_catalog.pg_constraint c \
         JOIN pg_catalog.pg_type t ON t.oid = c.contypid \
         JOIN pg_catalog.pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid \
             AND d.refclassid = 'pg_proc'::regclass";

/// Returns the names of all databases of a workload that a read-only transaction does not hold back; none if the
/// replay may write.
///
/// # Errors
/// If a database refuses the login or a question.
pub(crate) fn unrestricted_names(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
) -> Result<UnrestrictedNames, ReplayError> {
    if !options.read_only.is_on() {
        return Ok(UnrestrictedNames::default());
    }
    let dialer = Dialer::new(&options.target_with_settings(target))?;
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut checked: BTreeSet<(Arc<str>, Arc<str>)> = BTreeSet::new();
    let mut names = UnrestrictedNames::default();
    for used in reader.logins()? {
        let login = options.logins.login(target, &used.user, &used.database, "");
        let refused = |source| ReplayError::Refused {
            address: target.address(),
            user: login.user.to_string(),
            database: login.database.to_string(),
            source,
        };
        let pair = (login.user.clone(), login.database.clone());
        if options.read_only == ReadOnly::Role && checked.insert(pair) {
            let mut connection = open(&dialer, &login).map_err(refused)?;
            check_rights(&mut connection, &login.user).map_err(refused)?;
        }
        if known.insert(login.database.to_string()) {
            add_database(&dialer, &login, &mut names).map_err(refused)?;
        }
    }
    Ok(names)
}

/// Returns the names of a database whose use reaches outside of a transaction: they act although it is rolled back.
///
/// # Errors
/// If the database refuses the login or a question.
pub fn names_with_outside_effects(
    target: &Target,
    login: &Login,
) -> Result<UnrestrictedNames, ReplayError> {
    let mut names = UnrestrictedNames::default();
    let added = add_database(&Dialer::new(target)?, login, &mut names);
    added.map_err(|source| ReplayError::Refused {
        address: target.address(),
        user: login.user.to_string(),
        database: login.database.to_string(),
        source,
    })?;
    Ok(names)
}

fn add_database(
    dialer: &Dialer,
    login: &Login,
    names: &mut UnrestrictedNames,
) -> Result<(), ConnectError> {
    let mut catalogue = Catalogue::read(&mut open(dialer, login)?)?;
    while catalogue.propagate(names) {}
    Ok(())
}

/// Opens a connection for questions to the catalogue. No object of the database can stand for one of the catalogue.
fn open<'d>(dialer: &'d Dialer, login: &Login) -> Result<QueryConnection<'d>, ConnectError> {
    let mut connection = dialer.questions(login)?;
    connection.limit(LIMIT);
    connection.query("SET search_path TO pg_catalog, pg_temp")?;
    Ok(connection)
}

/// A function of the catalogue.
struct Function {
    oid: String,
    name: String,
    may_be_attribute: bool,
    /// Names in its body, if that is read.
    body: Option<UsedNames>,
    is_restricted: bool,
}

/// Objects of a database whose restriction is not known yet.
struct Catalogue {
    functions: Vec<Function>,
    /// Relations and the names in their definitions.
    relations: Vec<(String, UsedNames)>,
    foreign_tables: Vec<String>,
    uses: Vec<(String, String, String)>,
    /// Identifiers of functions that are not held back.
    unrestricted: HashSet<String>,
}

impl Catalogue {
    fn read(connection: &mut QueryConnection<'_>) -> Result<Self, ConnectError> {
        let mut rows = |sql: &str| -> Result<Vec<Vec<String>>, ConnectError> {
            let rows = connection.query(sql)?.into_iter();
            let text = |column: Option<String>| column.unwrap_or_default();
            Ok(rows
                .map(|row| row.into_iter().map(text).collect())
                .collect())
        };
        let functions = rows(FUNCTIONS_SQL)?;
        let relations = rows(RELATIONS_SQL)?.into_iter();
        let uses = rows(USES_SQL)?.into_iter();
        let foreign_tables = rows(FOREIGN_TABLES_SQL)?.into_iter().flatten().collect();
        Ok(Catalogue {
            functions: functions.iter().map(|row| Function::of(row)).collect(),
            relations: relations
                .map(|row| (row[0].clone(), UsedNames::of(&row[1])))
                .collect(),
            foreign_tables,
            uses: uses
                .map(|row| (row[0].clone(), row[1].clone(), row[2].clone()))
                .collect(),
            unrestricted: HashSet::new(),
        })
    }

    /// Adds the names of objects that use a known name or function. Returns whether there were any.
    fn propagate(&mut self, names: &mut UnrestrictedNames) -> bool {
        let known = self.unrestricted.len() + names.count();
        for table in self.foreign_tables.drain(..) {
            names.add_mentioned(&table);
        }
        for function in &mut self.functions {
            let uses_one = |body: &UsedNames| names.are_in(body);
            if function.is_restricted && !function.body.as_ref().is_some_and(uses_one) {
                continue;
            }
            function.is_restricted = false;
            if self.unrestricted.insert(function.oid.clone()) {
                names.add_called(&function.name);
                if function.may_be_attribute {
                    names.add_mentioned(&function.name);
                }
            }
        }
        for (kind, name, function) in &self.uses {
            if !self.unrestricted.contains(function) {
                continue;
            }
            match &**kind {
                "operator" => names.add_operator(name),
                "type" => names.add_mentioned(name),
                _ => {
                    let aggregates = self.functions.iter_mut();
                    for aggregate in aggregates.filter(|function| function.oid == *name) {
                        aggregate.is_restricted = false;
                    }
                }
            }
        }
        for (name, definition) in &self.relations {
            if names.are_in(definition) {
                names.add_mentioned(name);
            }
        }
        let aggregates = self
            .functions
            .iter()
            .any(|function| !function.is_restricted && !self.unrestricted.contains(&function.oid));
        let now = self.unrestricted.len() + names.count();
        aggregates || now > known
    }
}

impl Function {
    /// Reads a row of [`FUNCTIONS_SQL`].
    fn of(row: &[String]) -> Self {
        let [
            oid,
            source,
            name,
            language,
            trusted,
            volatility,
            extension,
            attribute,
            text,
        ] = row
        else {
            unreachable!("the query has nine columns");
        };
        let is_volatile = volatility == "v";
        let mut body = None;
        let is_restricted = match (&**language, &**trusted) {
            _ if is_any(&RUN_TEXT, source) => false,
            ("internal", _) => !is_volatile || is_any(&HARMLESS, source),
            // Anyone may give a function of a library such a name.
            ("c", _) => !is_volatile || extension == "t" && is_any(&HARMLESS, name),
            ("sql" | "plpgsql", _) => {
                let used = UsedNames::of(text);
                let assembles = language == "plpgsql" && used.mention("execute");
                // COPY may write a file, or start a program.
                let copies = used.mention("copy");
                body = Some(used);
                !assembles && !copies
            }
            // Code in other languages is not read.
            _ => false,
        };
        Function {
            oid: oid.clone(),
            name: name.clone(),
            may_be_attribute: attribute == "t" && !matches!(&**language, "internal" | "c"),
            body,
            is_restricted,
        }
    }
}

/// Whether a name is one of the patterns, in which a star stands for any text.
fn is_any(patterns: &[&str], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.split_once('*') {
            None => *pattern == name,
            Some((start, end)) => {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
            }
        })
}
