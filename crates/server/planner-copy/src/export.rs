//! Export of a database: reads catalogues and index ends in one read-only transaction.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, Login};

use crate::document::{
    ColumnStatistics, DatabaseLocale, FORMAT, PlannerExport, RelationSize, SchemaObject,
};
use crate::error::PlannerCopyError;
use crate::exporter::{Exporter, parse_rows};
use crate::index_keys::{self, SizeRow};
use crate::mask_statistics::{ValueMask, mask_statistics};
use crate::metapages;
use crate::object_queries::object_queries;
use crate::restore_ranges::from_hex;
use crate::setting_queries;
use crate::statistics_queries;
use crate::visible_statistics;

/// Time limit of all queries.
const TIME_MAX: Duration = Duration::from_secs(600);

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL search_path = ''; SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '60s'; \
     SET LOCAL extra_float_digits = 3; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'postgres'; \
     SET LOCAL quote_all_identifiers = off; SET LOCAL standard_conforming_strings = on";

const SERVER_SQL: &str = "SELECT current_setting('server_version'), current_setting('server_version_num'), \
     current_database(), to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), \
     current_setting('block_size'), pg_encoding_to_char(encoding), datcollate, datctype, \
     coalesce(to_jsonb(d) ->> 'datlocprovider', 'c'), coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale') \
     FROM pg_database d WHERE datname = current_database()";

/// Libraries that replace or extend the planner.
const PLANNER_LIBRARIES: [&str; 6] = [
    "pg_hint_plan",
    "citus",
    "timescaledb",
    "pg_pathman",
    "sr_plan",
    "aqo",
];

const LIBRARIES_SQL: &str = "SELECT setting FROM pg_settings WHERE name IN ('shared_preload_libraries', \
     'session_preload_libraries', 'local_preload_libraries')";

const ROLES_SQL: &str = "SELECT row_to_json(x) FROM (SELECT rolname AS name, rolsuper AS superuser, \
     rolbypassrls AS bypass_rls, ARRAY(SELECT g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid \
     WHERE m.member = r.oid AND g.rolname !~ '^pg_') AS member_of FROM pg_roles r WHERE rolname !~ '^pg_' ORDER BY 1) x";

/// Reads what the planner reads of the login's database. With a mask, values in statistics are replaced.
///
/// # Errors
/// If the server cannot be reached, or refuses a query for a part without which no plan is right.
pub fn export(
    target: &Target,
    login: &Login,
    mask: Option<&ValueMask<'_>>,
) -> Result<PlannerExport, PlannerCopyError> {
    let dialer =
        Dialer::new(target).map_err(|error| PlannerCopyError::Failed(error.to_string()))?;
    let mut connection = dialer.open_query_connection(login).map_err(|error| {
        PlannerCopyError::Failed(format!(
            "cannot connect to the database {} of {}: {error}",
            login.database,
            target.address()
        ))
    })?;
    connection.limit(TIME_MAX);
    let mut exporter = Exporter {
        connection,
        export: PlannerExport::default(),
    };
    let settings = exporter.query("settings", setting_queries::OF_SESSION_SQL)?;
    exporter.query("transaction", BEGIN)?;
    exporter.read_server()?;
    exporter.read_settings(&settings)?;
    exporter.read_objects()?;
    let sizes: Vec<SizeRow> = exporter.read("sizes", &statistics_queries::sizes())?;
    exporter.read_tablespaces()?;
    exporter.note_libraries()?;
    let hidden = exporter.read_columns()?;
    let statistics = &exporter.export.statistics;
    exporter.export.relations = index_keys::with_key_widths(sizes, statistics);
    exporter.note_never_analyzed(&hidden);
    exporter.read_metapages()?;
    exporter.read_index_ends()?;
    exporter.read_extended()?;
    if let Some(mask) = mask {
        mask_statistics(&mut exporter, mask)?;
        exporter.export.mask_key = Some(mask.key.clone());
    }
    exporter.query("transaction", "ROLLBACK")?;
    Ok(exporter.export)
}

impl Exporter<'_> {
    fn read_server(&mut self) -> Result<(), PlannerCopyError> {
        let rows = self.query("version and locale", SERVER_SQL)?;
        let mut row = rows.into_iter().next().unwrap_or_default().into_iter();
        let mut text = || row.next().flatten();
        let export = &mut self.export;
        export.format = FORMAT.to_owned();
        export.server_version = text().unwrap_or_default();
        export.version_number = text().and_then(|text| text.parse().ok()).unwrap_or(0);
        export.database = text().unwrap_or_default();
        export.exported_at = text().unwrap_or_default();
        export.block_size = text().and_then(|text| text.parse().ok()).unwrap_or(8_192);
        export.locale = DatabaseLocale {
            encoding: text().unwrap_or_default(),
            collate: text().unwrap_or_default(),
            ctype: text().unwrap_or_default(),
            provider: text().unwrap_or_default(),
            provider_locale: text(),
        };
        self.export.roles = self.read("roles", ROLES_SQL)?;
        Ok(())
    }

    fn read_objects(&mut self) -> Result<(), PlannerCopyError> {
        for query in object_queries(self.export.version_number) {
            let rows = self.query(&format!("objects ({})", query.kind), &query.sql)?;
            for row in rows {
                let mut row = row.into_iter();
                let name = row.next().flatten().unwrap_or_default();
                match row.next().flatten() {
                    Some(sql) => self.export.objects.push(SchemaObject {
                        kind: query.kind.to_owned(),
                        name,
                        sql,
                    }),
                    None => self.not_exported(
                        format!("{} {name}", query.kind),
                        "no statement that creates it is known to this program, or it is invalid",
                    ),
                }
            }
        }
        Ok(())
    }

    fn read_tablespaces(&mut self) -> Result<(), PlannerCopyError> {
        for row in self.query("tablespaces", &statistics_queries::tablespaces())? {
            if let [Some(name), Some(options), Some(relations)] = &row[..] {
                self.not_exported(
                    format!("costs of the tablespace {name} ({options})"),
                    format!("its {relations} tables and indexes are planned with the costs of the server"),
                );
            }
        }
        Ok(())
    }

    /// Notes libraries that change plans, as far as the role may read their names.
    fn note_libraries(&mut self) -> Result<(), PlannerCopyError> {
        let rows = self.query("libraries", LIBRARIES_SQL)?;
        let lists: Vec<String> = rows.into_iter().flatten().flatten().collect();
        for library in PLANNER_LIBRARIES {
            if lists.iter().any(|list| list.contains(library)) {
                self.not_exported(
                    format!("library {library}"),
                    "it changes plans, and private servers do not load it; its hints and plans have no effect there",
                );
            }
        }
        Ok(())
    }

    fn read_metapages(&mut self) -> Result<(), PlannerCopyError> {
        match self.attempt(&statistics_queries::metapages())? {
            Ok(rows) => {
                let mut pages: HashMap<(String, String), String> = HashMap::new();
                for row in rows {
                    if let [Some(schema), Some(name), Some(page)] = &row[..] {
                        pages.insert((schema.clone(), name.clone()), page.clone());
                    }
                }
                for relation in &mut self.export.relations {
                    let key = (relation.schema.clone(), relation.name.clone());
                    relation.metapage = pages.remove(&key);
                }
                self.remove_unwritten_metapages();
            }
            Err(error) => self.not_exported(
                "heights of indexes",
                format!(
                    "they are estimated from sizes and widths, since the role may not read them ({error}); export as a superuser, or \
                     from version 11 on GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) to the role, \
                     which lets it read all files of the data directory"
                ),
            ),
        }
        Ok(())
    }

    /// Removes the metapages that no checkpoint has written yet, and notes their indexes.
    fn remove_unwritten_metapages(&mut self) {
        let mut unwritten = Vec::new();
        for relation in &mut self.export.relations {
            let method = relation.method.as_deref().unwrap_or_default();
            let page = relation.metapage.as_deref().and_then(from_hex);
            if page.is_some_and(|page| !metapages::is_written(method, &page)) {
                relation.metapage = None;
                unwritten.push(format!("{}.{}", relation.schema, relation.name));
            }
        }
        if !unwritten.is_empty() {
            self.not_exported(
                format!("first blocks of indexes: {}", unwritten.join(", ")),
                "they are not in the files yet; run CHECKPOINT, and export again",
            );
        }
    }

    /// Reads the statistics of columns. Returns the relations whose statistics the role may not read.
    fn read_columns(&mut self) -> Result<HashSet<(String, String)>, PlannerCopyError> {
        let mut hidden = HashSet::new();
        let mut columns: Vec<ColumnStatistics> =
            match self.attempt(&statistics_queries::columns())? {
                Ok(rows) => parse_rows("statistics", rows)?,
                Err(_) => {
                    hidden = self.read_unreadable()?;
                    self.note_hidden_kinds()?;
                    let sql = visible_statistics::columns(self.export.version_number);
                    self.read("statistics", &sql)?
                }
            };
        for column in &mut columns {
            column.slots.retain(|slot| slot.kind != 0);
        }
        self.export.statistics = columns;
        Ok(hidden)
    }

    /// Notes the tables without statistics that the role may read.
    fn note_never_analyzed(&mut self, hidden: &HashSet<(String, String)>) {
        let analyzed: HashSet<(&str, &str)> = self
            .export
            .statistics
            .iter()
            .map(|one| (one.schema.as_str(), one.relation.as_str()))
            .collect();
        let missing = |one: &&RelationSize| {
            matches!(one.kind.as_str(), "r" | "m")
                && one.pages > 0
                && !analyzed.contains(&(one.schema.as_str(), one.name.as_str()))
                && !hidden.contains(&(one.schema.clone(), one.name.clone()))
        };
        let never: Vec<String> = self
            .export
            .relations
            .iter()
            .filter(missing)
            .map(|one| format!("{}.{}", one.schema, one.name))
            .collect();
        for name in never {
            self.not_exported(
                format!("statistics of {name}"),
                "the server has none, since the table was never analyzed",
            );
        }
    }

    /// Notes the columns whose statistics the role may not read, with what to grant. Returns their relations.
    fn read_unreadable(&mut self) -> Result<HashSet<(String, String)>, PlannerCopyError> {
        let rows = self.query("unreadable columns", &visible_statistics::unreadable())?;
        let mut hidden = HashSet::new();
        for row in rows {
            let [
                Some(schema),
                Some(relation),
                is_secured,
                Some(columns),
                is_index,
            ] = &row[..]
            else {
                continue;
            };
            let reason = match (is_secured.as_deref(), is_index.as_deref()) {
                (Some("t"), _) => {
                    "row security applies to the role; export as the owner, or as a role with BYPASSRLS".to_owned()
                }
                (_, Some("t")) => {
                    "the role may not read the expressions of the index; export as the owner of the table, or as a member \
                     of pg_read_all_data"
                        .to_owned()
                }
                _ => format!(
                    "the role may not read {columns}; grant SELECT on them, or membership of pg_read_all_data (from version 14 on)"
                ),
            };
            self.not_exported(format!("statistics of {schema}.{relation}"), reason);
            hidden.insert((schema.clone(), relation.clone()));
        }
        Ok(hidden)
    }

    /// Notes the columns of which the role may read only a part of the statistics.
    fn note_hidden_kinds(&mut self) -> Result<(), PlannerCopyError> {
        let sql = visible_statistics::hidden_kinds(self.export.version_number);
        for row in self.query("types of statistics", &sql)? {
            let [
                Some(schema),
                Some(relation),
                Some(column),
                Some(value_type),
                is_range,
            ] = &row[..]
            else {
                continue;
            };
            let since = match is_range.as_deref() {
                Some("t") => " before version 17",
                _ => "",
            };
            self.not_exported(
                format!("statistics of {schema}.{relation}.{column}"),
                format!(
                    "pg_stats does not show the values of the type {value_type}{since}; export as a superuser"
                ),
            );
        }
        Ok(())
    }

    fn read_extended(&mut self) -> Result<(), PlannerCopyError> {
        let sql = statistics_queries::extended(self.export.version_number);
        match self.attempt(&sql)? {
            Ok(rows) => self.export.extended_statistics = parse_rows("extended statistics", rows)?,
            Err(error) => self.not_exported(
                "data of extended statistics",
                format!("the role may not read them ({error})"),
            ),
        }
        if self.export.version_number >= statistics_queries::EXTENDED_VIEW_VERSION {
            let sql = visible_statistics::extended_without_data();
            for row in self.query("extended statistics", &sql)? {
                let name = row.into_iter().next().flatten().unwrap_or_default();
                self.not_exported(
                    format!("data of the extended statistics {name}"),
                    "the table was never analyzed with them, or the role may not read them; export as the owner of the table",
                );
            }
        }
        for row in self.query(
            "extended statistics",
            statistics_queries::EXTENDED_EXPRESSIONS,
        )? {
            let name = row.into_iter().next().flatten().unwrap_or_default();
            self.not_exported(
                format!("data of the extended statistics {name} on expressions"),
                "their format depends on the version of the server",
            );
        }
        Ok(())
    }
}
