//! State of a database that affects plans: settings, statistics, indexes and collations.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cause_experiments::{STATEMENT_RESOURCES, TrialConnection};

/// First version with the view `pg_stats_ext`.
const VERSION_12: u32 = 120_000;

/// State of one server, as a session of a statement sees it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PlanningState {
    pub(super) database: String,
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
}

/// Table or materialised view.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct TableState {
    /// Name with its schema, quoted.
    pub(super) name: String,
    /// Name as `EXPLAIN` prints it.
    pub(super) plain: String,
    /// Estimated rows; -1 if they are not known.
    pub(super) rows: f64,
    pub(super) has_data: bool,
    pub(super) has_statistics: bool,
    /// Whether the server counted an ANALYZE since its statistics were reset.
    pub(super) is_analyzed: bool,
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

const TABLES: &str = "SELECT row_to_json(x) FROM (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name, \
     c.relname AS plain, c.reltuples::float8 AS rows, pg_catalog.pg_relation_size(c.oid) > 0 AS has_data, \
     EXISTS (SELECT FROM pg_catalog.pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname) AS has_statistics, \
     coalesce(t.last_analyze, t.last_autoanalyze) IS NOT NULL AS is_analyzed \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN pg_catalog.pg_stat_all_tables t ON t.relid = c.oid \
     WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
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
     pg_catalog.pg_get_indexdef(c.oid) AS definition, i.indisvalid AS valid, \
     EXISTS (SELECT FROM unnest(i.indcollation) k JOIN pg_catalog.pg_collation o ON o.oid = k \
       WHERE k = 100 OR o.collprovider IN ('c', 'i') AND coalesce(o.collcollate, '') NOT IN ('C', 'POSIX')) AS is_collated, \
     EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u', 'x')) AS has_constraint \
     FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_class t ON t.oid = i.indrelid \
     JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace \
     WHERE c.relkind = 'i' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
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
            settings: read_settings(connection)?,
            tables: rows(connection, TABLES)?,
            statistics,
            indexes,
            collation: collation.into_iter().next().unwrap_or_default(),
            has_plan_advice: connection.query("LOAD 'pg_plan_advice'").is_ok(),
        })
    }

    /// Returns the tables that a plan names so.
    pub(super) fn tables_named(&self, plain: &str) -> impl Iterator<Item = &TableState> {
        self.tables.iter().filter(move |one| one.plain == plain)
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
    let settings: Vec<SettingState> = rows(
        connection,
        &format!(
            "SELECT row_to_json(x) FROM (SELECT name, setting, pg_catalog.current_setting(name) AS text, vartype, source \
             FROM pg_catalog.pg_settings WHERE context IN ('user', 'superuser') AND setting IS NOT NULL \
             AND (category LIKE 'Query Tuning%' OR category IN ({STATEMENT_RESOURCES})) ORDER BY name) x"
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
