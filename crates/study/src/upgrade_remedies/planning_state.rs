//! State of a database that affects plans: settings, statistics, indexes and collations.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cause_experiments::{STATEMENT_RESOURCES, TrialConnection};
use crate::environment::quote_literal;

/// First version with the view `pg_stats_ext`.
const VERSION_12: u32 = 120_000;

/// State of one server, as a session of a statement sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PlanningState {
    pub(super) database: String,
    /// Role of the statement.
    pub(super) role: String,
    pub(super) settings: BTreeMap<String, SettingState>,
    pub(super) tables: Vec<TableState>,
    pub(super) statistics: Vec<StatisticsState>,
    pub(super) indexes: Vec<IndexState>,
    pub(super) collation: CollationState,
    /// Whether advice can be given to the planner.
    pub(super) has_plan_advice: bool,
}

/// Setting of a session that acts on plans or executions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct SettingState {
    pub(super) name: String,
    /// Value without unit.
    pub(super) setting: String,
    /// Value with its unit.
    pub(super) text: String,
    pub(super) vartype: String,
    pub(super) source: String,
    /// Strongest `ALTER … SET` of it that holds for the statement's role.
    pub(super) scope: SettingScope,
}

/// Sessions that a stored setting is for, from the weakest to the strongest (`process_settings` in `postinit.c`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettingScope {
    /// All sessions: the configuration, the default, or the settings of all roles.
    #[default]
    Server,
    /// Sessions of the database.
    Database,
    /// Sessions of the role.
    Role,
    /// Sessions of the role in the database.
    RoleInDatabase,
}

/// Table, partitioned table or materialised view.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct TableState {
    /// Name with its schema, quoted.
    pub(super) name: String,
    /// Schema as `EXPLAIN (VERBOSE)` prints it.
    pub(super) schema: String,
    /// Name as `EXPLAIN` prints it.
    pub(super) plain: String,
    /// Estimated rows; -1 if they are not known.
    pub(super) rows: f64,
    pub(super) has_data: bool,
    pub(super) has_statistics: bool,
    /// Whether the server counted an ANALYZE since its statistics were reset.
    pub(super) is_analyzed: bool,
    pub(super) storage: Storage,
    /// Partitioned tables that it is a partition of, at any level, quoted with their schemas.
    pub(super) parents: Vec<String>,
}

/// Extended statistics object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct StatisticsState {
    pub(super) name: String,
    pub(super) table: String,
    pub(super) definition: String,
    pub(super) has_data: bool,
}

/// Index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct IndexState {
    pub(super) name: String,
    /// Name as `EXPLAIN` prints it.
    pub(super) plain: String,
    pub(super) table: String,
    pub(super) definition: String,
    pub(super) valid: bool,
    /// Whether the order of its keys depends on a collation that has a version.
    pub(super) is_collated: bool,
    /// Whether a constraint has it.
    pub(super) has_constraint: bool,
    /// That of its table.
    pub(super) storage: Storage,
}

/// Storage of a table or index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Storage {
    /// It has rows of its own.
    #[default]
    Plain,
    /// Its partitions have the rows.
    Partitioned,
}

/// Default collation of the database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct CollationState {
    pub(super) provider: String,
    pub(super) locale: Option<String>,
    pub(super) recorded: Option<String>,
    pub(super) actual: Option<String>,
}

impl CollationState {
    /// Describes it for a sentence.
    pub(super) fn description(&self) -> String {
        let provider = match self.provider.as_str() {
            "i" => "ICU",
            "b" => "builtin",
            _ => "libc",
        };
        let locale = self.locale.as_deref().unwrap_or("?");
        match &self.actual {
            Some(version) => format!("{locale} of {provider}, version {version}"),
            None => format!("{locale} of {provider}"),
        }
    }

    /// Whether texts may be in another order than with the other collation.
    pub(super) fn differs(&self, other: &CollationState) -> bool {
        let normal = |one: &CollationState| {
            let locale = one.locale.as_deref().unwrap_or_default();
            locale.to_lowercase().replace('-', "")
        };
        let versions = (&self.actual, &other.actual);
        self.provider != other.provider
            || normal(self) != normal(other)
            || matches!(versions, (Some(one), Some(other)) if one != other)
    }
}

const TABLES: &str = "WITH RECURSIVE up AS (SELECT i.inhrelid AS child, i.inhparent AS parent FROM pg_catalog.pg_inherits i \
     UNION SELECT up.child, i.inhparent FROM up JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.parent) \
     SELECT row_to_json(x) FROM (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name, \
     n.nspname AS schema, c.relname AS plain, c.reltuples::float8 AS rows, \
     pg_catalog.pg_relation_size(c.oid) > 0 OR c.relkind = 'p' AND EXISTS \
       (SELECT FROM up WHERE up.parent = c.oid AND pg_catalog.pg_relation_size(up.child) > 0) AS has_data, \
     EXISTS (SELECT FROM pg_catalog.pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname) AS has_statistics, \
     coalesce(t.last_analyze, t.last_autoanalyze) IS NOT NULL AS is_analyzed, CASE c.relkind WHEN 'p' THEN 'partitioned' ELSE 'plain' END AS storage, \
     ARRAY(SELECT quote_ident(pn.nspname) || '.' || quote_ident(p.relname) FROM up JOIN pg_catalog.pg_class p ON p.oid = up.parent \
       JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace WHERE up.child = c.oid AND p.relkind = 'p' ORDER BY 1) AS parents \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN pg_catalog.pg_stat_all_tables t ON t.relid = c.oid \
     WHERE c.relkind IN ('r', 'm', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
     AND n.nspname !~ '^pg_(toast_)?temp_' ORDER BY 1) x";

const STATISTICS: &str = "SELECT row_to_json(x) FROM (SELECT quote_ident(sn.nspname) || '.' || quote_ident(s.stxname) AS name, \
     quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS table, \
     pg_catalog.pg_get_statisticsobjdef(s.oid) AS definition, \
     EXISTS (SELECT FROM pg_catalog.pg_stats_ext v WHERE v.statistics_schemaname = sn.nspname \
       AND v.statistics_name = s.stxname AND (v.n_distinct IS NOT NULL OR v.dependencies IS NOT NULL \
       OR v.most_common_vals IS NOT NULL)) AS has_data \
     FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_class c ON c.oid = s.stxrelid \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     JOIN pg_catalog.pg_namespace sn ON sn.oid = s.stxnamespace ORDER BY 1) x";

/// The collation 100 is the default one.
const INDEXES: &str = "SELECT row_to_json(x) FROM (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name, \
     c.relname AS plain, quote_ident(tn.nspname) || '.' || quote_ident(t.relname) AS table, \
     CASE c.relkind WHEN 'I' THEN regexp_replace(pg_catalog.pg_get_indexdef(c.oid), ' ON ONLY ', ' ON ') \
       ELSE pg_catalog.pg_get_indexdef(c.oid) END AS definition, \
     CASE c.relkind WHEN 'I' THEN 'partitioned' ELSE 'plain' END AS storage, i.indisvalid AS valid, \
     EXISTS (SELECT FROM unnest(i.indcollation) k JOIN pg_catalog.pg_collation o ON o.oid = k \
       WHERE k = 100 OR o.collprovider IN ('c', 'i') AND coalesce(o.collcollate, '') NOT IN ('C', 'POSIX')) AS is_collated, \
     EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u', 'x')) AS has_constraint \
     FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_class t ON t.oid = i.indrelid \
     JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace \
     WHERE c.relkind IN ('i', 'I') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
     AND n.nspname !~ '^pg_(toast_)?temp_' ORDER BY 1) x";

impl PlanningState {
    /// Reads the state in the session of the connection.
    ///
    /// # Errors
    /// If the server refuses a query.
    pub(super) fn read(connection: &mut TrialConnection<'_>) -> Result<Self, String> {
        let version = connection.version()?;
        let actual = match version {
            150_000.. => "pg_catalog.pg_database_collation_actual_version(d.oid)",
            _ => {
                "(SELECT pg_catalog.pg_collation_actual_version(o.oid) FROM pg_catalog.pg_collation o \
                 WHERE o.collprovider = 'c' AND o.collnamespace = 'pg_catalog'::regnamespace \
                 AND lower(replace(o.collcollate, '-', '')) = lower(replace(d.datcollate, '-', '')) ORDER BY o.oid LIMIT 1)"
            }
        };
        let collation: Vec<CollationState> = rows(
            connection,
            &format!(
                "SELECT row_to_json(x) FROM (SELECT coalesce(j ->> 'datlocprovider', 'c') AS provider, \
                 coalesce(j ->> 'datlocale', j ->> 'daticulocale', j ->> 'datcollate') AS locale, \
                 j ->> 'datcollversion' AS recorded, {actual} AS actual FROM pg_catalog.pg_database d, to_jsonb(d) j \
                 WHERE d.datname = current_database()) x"
            ),
        )?;
        let (statistics, indexes) = read_definitions(connection, version)?;
        Ok(PlanningState {
            database: connection.login().database.to_string(),
            role: connection.role().to_owned(),
            settings: read_settings(connection)?,
            tables: rows(connection, TABLES)?,
            statistics,
            indexes,
            collation: collation.into_iter().next().unwrap_or_default(),
            has_plan_advice: connection.query("LOAD 'pg_plan_advice'").is_ok(),
        })
    }

    /// Returns a table by its quoted name.
    pub(super) fn table(&self, name: &str) -> Option<&TableState> {
        self.tables.iter().find(|one| one.name == name)
    }
}

/// Reads extended statistics and indexes. In a search path of a session, the server would print names without their schema.
fn read_definitions(
    connection: &mut TrialConnection<'_>,
    version: u32,
) -> Result<(Vec<StatisticsState>, Vec<IndexState>), String> {
    connection.begin()?;
    let mut read = || {
        connection.query("SET LOCAL search_path = pg_catalog")?;
        let statistics = match version {
            VERSION_12.. => rows(connection, STATISTICS)?,
            _ => Vec::new(),
        };
        Ok((statistics, rows(connection, INDEXES)?))
    };
    let definitions = read();
    connection.roll_back()?;
    definitions
}

/// Reads the settings of the session, by name.
///
/// # Errors
/// If the server refuses the query.
pub(super) fn read_settings(
    connection: &mut TrialConnection<'_>,
) -> Result<BTreeMap<String, SettingState>, String> {
    let role = quote_literal(connection.role());
    let settings: Vec<SettingState> = rows(
        connection,
        &format!(
            "SELECT row_to_json(x) FROM (SELECT g.name, g.setting, pg_catalog.current_setting(g.name) AS text, g.vartype, g.source, \
             (ARRAY['server', 'database', 'role', 'role_in_database'])[1 + coalesce((SELECT max( \
               CASE WHEN s.setrole <> 0 THEN 2 ELSE 0 END + CASE WHEN s.setdatabase <> 0 THEN 1 ELSE 0 END) \
               FROM pg_catalog.pg_db_role_setting s CROSS JOIN pg_catalog.unnest(s.setconfig) k \
               WHERE pg_catalog.lower(pg_catalog.split_part(k, '=', 1)) = pg_catalog.lower(g.name) \
               AND (s.setrole = 0 OR s.setrole = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = {role})) \
               AND (s.setdatabase = 0 OR s.setdatabase = (SELECT d.oid FROM pg_catalog.pg_database d \
                 WHERE d.datname = current_database()))), 0)] AS scope \
             FROM pg_catalog.pg_settings g WHERE g.context IN ('user', 'superuser') AND g.setting IS NOT NULL \
             AND (g.category LIKE 'Query Tuning%' OR g.category IN ({STATEMENT_RESOURCES})) ORDER BY g.name) x"
        ),
    )?;
    Ok((settings.into_iter())
        .map(|one| (one.name.clone(), one))
        .collect())
}

fn rows<T: DeserializeOwned>(
    connection: &mut TrialConnection<'_>,
    sql: &str,
) -> Result<Vec<T>, String> {
    let rows = connection.query(sql)?;
    let texts = rows.into_iter().filter_map(|row| row.into_iter().next());
    texts
        .map(|text| {
            serde_json::from_str(text.as_deref().unwrap_or("null"))
                .map_err(|error| format!("the answer has an unexpected form ({error})"))
        })
        .collect()
}
