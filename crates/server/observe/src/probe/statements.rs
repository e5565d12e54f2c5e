//! Records the counts of `pg_stat_statements` as differences between readings: before the replay, each
//! minute, and after it. Frequent readings lose less if entries are evicted, and survive a kill.
//!
//! Columns are queried, since they differ between versions: `total_time` became `total_exec_time` in 1.8,
//! with a new `total_plan_time`; `blk_read_time` became `shared_blk_read_time` in 1.11; `toplevel` was added
//! in 1.9, `jit_*` in 1.10 (PostgreSQL 15), `parallel_workers_*` in 1.12 (18) (PostgreSQL documentation, F.30, of the
//! versions). Planning is counted with `track_planning` only,
//! which is off by default. Then a statement's time is its execution time, and its planning time is unknown.
//!
//! Texts are normalised, so that their fingerprints are those of the workload.

use std::collections::{HashMap, HashSet};

use connect::login::Row;
use run::{Counter, ProbeNote, ProbeState, StatementStatistics};
use sql::Fingerprint;

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_number, column_text, optional_text};
use crate::probe_connection::{MARK, ProbeConnection, ProbeError};

/// Name of the probe.
pub(crate) const STATISTICS: &str = run::STATISTICS_PROBE;

/// Reports whether the connected database has the extension.
pub(crate) fn has_extension(connection: &mut ProbeConnection<'_>) -> bool {
    let question = "SELECT 1 FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_stat_statements'";
    connection
        .query(question)
        .is_ok_and(|rows| !rows.is_empty())
}

/// Interval between readings.
const EVERY_NS: i64 = 60_000_000_000;
/// Fraction of the time that readings may take: one over this.
const SHARE: i64 = 500;
/// EntryText that the extension shows instead of a hidden one.
const HIDDEN: &str = "<insufficient privilege>";
/// EntryText that the extension shows for a list of values, from version 18 on.
const SQUASHED: &str = "/*, ... */";

/// Counters, with their column names in the versions of the extension, the newest first.
const NUMBERS: [&[&str]; 28] = [
    &["calls"],
    &["plans"],
    &["total_plan_time"],
    &["total_exec_time", "total_time"],
    &["rows"],
    &["shared_blks_hit"],
    &["shared_blks_read"],
    &["shared_blks_dirtied"],
    &["shared_blks_written"],
    &["local_blks_hit"],
    &["local_blks_read"],
    &["local_blks_dirtied"],
    &["local_blks_written"],
    &["temp_blks_read"],
    &["temp_blks_written"],
    &["shared_blk_read_time", "blk_read_time"],
    &["shared_blk_write_time", "blk_write_time"],
    &["wal_records"],
    &["wal_fpi"],
    &["wal_bytes"],
    &["jit_functions"],
    &["jit_generation_time"],
    &["jit_inlining_time"],
    &["jit_optimization_time"],
    &["jit_emission_time"],
    &["parallel_workers_to_launch"],
    &["parallel_workers_launched"],
    &["stddev_exec_time", "stddev_time"],
];
const CALLS: usize = 0;
const PLANS: usize = 1;
/// Number of compiled functions. The times of the four steps of compilation follow: generation (which includes the
/// deforming of tuples), inlining, optimisation and emission.
const JIT_FUNCTIONS: usize = 20;
/// Number of planned parallel workers. That of the launched ones follows.
const WORKERS: usize = 25;
/// Standard deviation of the execution time. Readings hold the sum of its squares instead, which adds up.
const DEVIATION: usize = 27;
/// Time of execution.
const EXECUTION: usize = 3;
/// Number of key columns of an entry: query id, database, role, top level.
const KEY_COLUMNS: usize = 4;

/// EntryKey of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct EntryKey {
    /// `None` if the role may not see it. All such entries of a role and database share one key.
    query_id: Option<i64>,
    database: String,
    user: String,
    top_level: Option<bool>,
}

/// Counters of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    numbers: [f64; NUMBERS.len()],
    entries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryText {
    /// EntryText of this program, or no text.
    Ignored,
    Known(Fingerprint),
}

/// Features of the extension's version.
#[derive(Debug, Clone, Copy, Default)]
struct ExtensionFeatures {
    /// Entries have the column `toplevel`.
    has_top_level: bool,
    /// The function `pg_stat_statements_info` exists.
    has_info: bool,
}

/// Settings of the extension that decide which statements it counts.
#[derive(Debug, Clone, Copy, Default)]
struct Tracking {
    planning: bool,
    /// Statements within functions.
    nested: bool,
}

/// Returns the sum of squares of executions, in square milliseconds, of their number, their total time and the standard
/// deviation of the population, as the extension counts it (Welford's method in `pgss_store`).
fn sum_of_squares(calls: f64, total_ms: f64, deviation_ms: f64) -> f64 {
    match calls > 0.0 {
        true => calls * deviation_ms.powi(2) + total_ms.powi(2) / calls,
        false => 0.0,
    }
}

/// Reads `pg_stat_statements`.
#[derive(Default)]
pub(crate) struct StatementsProbe {
    schema: String,
    /// Column names of [`NUMBERS`] in this version, if they exist.
    columns: Vec<Option<String>>,
    features: ExtensionFeatures,
    tracking: Tracking,
    names: HashMap<&'static str, HashMap<String, String>>,
    before: HashMap<EntryKey, Counts>,
    /// Time of the reading by the clock, since the time of the replay may not be known yet.
    read_clock_ns: i64,
    took_ns: i64,
    texts: HashMap<i64, EntryText>,
    info: Option<(f64, String)>,
    vanished: u64,
    begun: bool,
}

impl StatementsProbe {
    fn select_query(&self) -> String {
        let mut columns = vec![
            "s.queryid".to_owned(),
            "s.dbid".to_owned(),
            "s.userid".to_owned(),
            match self.features.has_top_level {
                true => "s.toplevel".to_owned(),
                false => "NULL".to_owned(),
            },
        ];
        columns.extend(self.columns.iter().map(|column| match column {
            Some(column) => format!("s.{column}"),
            None => "NULL".to_owned(),
        }));
        // The texts are omitted, since the server reads them from one large file.
        format!(
            "SELECT {} FROM {}.pg_stat_statements(false) s",
            columns.join(", "),
            self.schema
        )
    }

    fn read(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<Reading, ProbeError> {
        let before_ns = log.clock_ns();
        let rows = connection.query_prepared("statements", "", "", &self.select_query())?;
        self.took_ns = log.clock_ns() - before_ns;
        let mut entries: HashMap<EntryKey, Counts> = HashMap::new();
        for row in &rows {
            let key = EntryKey {
                query_id: column_number(row, 0),
                database: self.name_of(connection, "database", column_text(row, 1)),
                user: self.name_of(connection, "role", column_text(row, 2)),
                top_level: optional_text(row, 3).map(|value| value == "t"),
            };
            let counts = entries.entry(key).or_default();
            counts.entries += 1;
            let number = |place: usize| column_number(row, KEY_COLUMNS + place).unwrap_or(0.0);
            for (place, sum) in counts.numbers.iter_mut().enumerate() {
                *sum += match place {
                    DEVIATION => {
                        sum_of_squares(number(CALLS), number(EXECUTION), number(DEVIATION))
                    }
                    _ => number(place),
                };
            }
        }
        Ok(Reading {
            clock_ns: before_ns,
            rows: rows.len() as u64,
            entries,
        })
    }

    /// Returns the name of an object id, from a cache.
    fn name_of(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        what: &'static str,
        oid: &str,
    ) -> String {
        let known = self.names.entry(what).or_default();
        if !known.contains_key(oid) {
            let question = match what {
                "database" => "SELECT oid, datname FROM pg_catalog.pg_database",
                _ => "SELECT oid, rolname FROM pg_catalog.pg_roles",
            };
            for row in connection.query(question).unwrap_or_default() {
                known.insert(
                    column_text(&row, 0).to_owned(),
                    column_text(&row, 1).to_owned(),
                );
            }
            known
                .entry(oid.to_owned())
                .or_insert_with(|| oid.to_owned());
        }
        known[oid].clone()
    }

    /// Reads the fingerprints of new entries.
    fn read_fingerprints(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        new: &HashSet<i64>,
    ) -> Result<(), ProbeError> {
        if new.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = new.iter().map(i64::to_string).collect();
        let rows = connection.query(&format!(
            "SELECT s.queryid, s.query FROM {}.pg_stat_statements(true) s \
             WHERE s.queryid = ANY ('{{{}}}'::bigint[])",
            self.schema,
            ids.join(",")
        ))?;
        for row in &rows {
            let Some(id) = column_number(row, 0) else {
                continue;
            };
            let text = match optional_text(row, 1) {
                None => continue,
                Some(text) if text.contains(MARK) || text == HIDDEN => EntryText::Ignored,
                Some(text) => EntryText::Known(log.fingerprint(&unsquash(text), false)),
            };
            self.texts.insert(id, text);
        }
        Ok(())
    }

    fn write_differences(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        reading: Reading,
    ) -> Result<(), ProbeError> {
        let mut changed: Vec<(EntryKey, Counts, bool)> = Vec::new();
        for (key, now) in &reading.entries {
            let before = self.before.get(key);
            // Entries that the role may not see share a key. If one of them is evicted, the others continue.
            let anew =
                key.query_id.is_some() && before.is_some_and(|before| was_reset(before, now));
            let gained = match before.filter(|_| !anew) {
                None => *now,
                Some(before) => difference(before, now),
            };
            if gained.numbers[CALLS] > 0.0 || gained.numbers[PLANS] > 0.0 {
                changed.push((key.clone(), gained, anew));
            }
        }
        let gone = self
            .before
            .keys()
            .filter(|key| !reading.entries.contains_key(key));
        self.vanished += gone.count() as u64;
        let new: HashSet<i64> = changed
            .iter()
            .filter_map(|(key, _, _)| key.query_id)
            .filter(|id| !self.texts.contains_key(id))
            .collect();
        self.read_fingerprints(connection, log, &new)?;
        let span = (
            log.run_time_of(self.read_clock_ns),
            log.run_time_of(reading.clock_ns),
        );
        changed.sort_by(|(one, _, _), (other, _, _)| one.cmp(other));
        let rows: Vec<StatementStatistics> = changed
            .into_iter()
            .filter_map(|(key, gained, anew)| self.row(&key, &gained, anew, span))
            .collect();
        log.add_statistics(&rows);
        // Texts of evicted entries are dropped, and read again if the entry returns.
        let kept: HashSet<i64> = reading
            .entries
            .keys()
            .filter_map(|key| key.query_id)
            .collect();
        self.texts.retain(|id, _| kept.contains(id));
        self.before = reading.entries;
        self.read_clock_ns = reading.clock_ns;
        Ok(())
    }

    fn row(
        &self,
        key: &EntryKey,
        gained: &Counts,
        anew: bool,
        (from_ns, until_ns): (i64, i64),
    ) -> Option<StatementStatistics> {
        let fingerprint = match key.query_id.map(|id| self.texts.get(&id)) {
            Some(Some(EntryText::Ignored)) => return None,
            Some(Some(EntryText::Known(fingerprint))) => Some(*fingerprint),
            Some(None) | None => None,
        };
        let count = |place: usize| gained.numbers[place].round() as u64;
        let ns = |place: usize| (gained.numbers[place] * 1e6).round() as u64;
        let optional = |place: usize| self.columns[place].is_some().then(|| count(place));
        Some(StatementStatistics {
            from_ns,
            until_ns,
            fingerprint,
            query_id: key.query_id,
            database: Some(key.database.clone()),
            user: Some(key.user.clone()),
            top_level: key.top_level,
            entries: gained.entries,
            counts_from_zero: anew,
            calls: count(CALLS),
            plans: self.tracking.planning.then(|| count(PLANS)),
            plan_ns: self.tracking.planning.then(|| ns(2)),
            exec_ns: ns(EXECUTION),
            exec_square_us2: optional(DEVIATION).map(|_| (gained.numbers[DEVIATION] * 1e6) as u64),
            rows: count(4),
            shared_hit: count(5),
            shared_read: count(6),
            shared_dirtied: count(7),
            shared_written: count(8),
            local_blocks: (9..=12).map(count).sum(),
            temp_read: count(13),
            temp_written: count(14),
            read_ns: ns(15),
            write_ns: ns(16),
            wal_records: optional(17),
            wal_full_pages: optional(18),
            wal_bytes: optional(19),
            jit_functions: optional(JIT_FUNCTIONS),
            jit_ns: self.columns[JIT_FUNCTIONS]
                .is_some()
                .then(|| (JIT_FUNCTIONS + 1..=JIT_FUNCTIONS + 4).map(ns).sum()),
            workers_planned: optional(WORKERS),
            workers_launched: optional(WORKERS + 1),
        })
    }

    /// Writes the number of entries, and the number of evictions.
    fn write_counters(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        rows: u64,
    ) {
        let mut series = vec![
            ("entries", rows as f64, true),
            ("vanished", self.vanished as f64, false),
        ];
        if self.features.has_info {
            let question = format!(
                "SELECT i.dealloc, i.stats_reset FROM {}.pg_stat_statements_info() i",
                self.schema
            );
            let rows = connection.query(&question).unwrap_or_default();
            if let Some(row) = rows.first() {
                let now = (
                    column_number(row, 0).unwrap_or(0.0),
                    column_text(row, 1).to_owned(),
                );
                series.push(("evictions", now.0, false));
                let before = self.info.replace(now.clone());
                if before.is_some_and(|(_, reset)| reset != now.1) {
                    log.note(
                        self.name(),
                        ProbeState::Remark,
                        "the statistics were reset meanwhile: what was counted before is lost",
                    );
                }
            }
        }
        for (name, value, gauge) in series {
            log.add_counter(Counter {
                at_ns: log.now_ns(),
                source: "pg_stat_statements".to_owned(),
                object: String::new(),
                name: name.to_owned(),
                value,
                gauge,
            });
        }
    }

    /// Finds the schema, the columns and the functions of the extension.
    fn find_extension(&mut self, connection: &mut ProbeConnection<'_>) -> Result<(), ProbeError> {
        let preloaded = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_settings s \
             WHERE s.name = 'pg_stat_statements.max'";
        let rows = connection.query(
            "SELECT n.nspname, pg_catalog.quote_ident(n.nspname), \
             pg_catalog.has_schema_privilege(n.oid, 'USAGE'), \
             (SELECT pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) \
             FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid AND p.proname = 'pg_stat_statements'), \
             pg_catalog.quote_ident(current_user) FROM pg_catalog.pg_extension e \
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace \
             WHERE e.extname = 'pg_stat_statements'",
        )?;
        let loaded = connection.query(preloaded)?;
        let loaded = loaded.first().is_some_and(|row| column_text(row, 0) != "0");
        let Some(row) = rows.first() else {
            let database = connection.server().database.clone();
            return Err(match loaded {
                true => ProbeError::unsupported(
                    format!("the extension is loaded, and not created in the database {database}"),
                    "CREATE EXTENSION pg_stat_statements",
                ),
                false => ProbeError::unsupported(
                    format!(
                        "the extension pg_stat_statements is not loaded, and not created in the database {database}"
                    ),
                    "shared_preload_libraries = 'pg_stat_statements' (a restart), then CREATE EXTENSION pg_stat_statements",
                ),
            });
        };
        check_privileges(row)?;
        if !loaded
            && connection
                .query(&format!(
                    "SELECT pg_catalog.count(*) FROM {}.pg_stat_statements(false)",
                    column_text(row, 1)
                ))
                .is_err()
        {
            return Err(ProbeError::unsupported(
                "the extension is created, and its library is not loaded",
                "shared_preload_libraries = 'pg_stat_statements' (a restart)",
            ));
        }
        self.schema = column_text(row, 1).to_owned();
        let schema = column_text(row, 0).replace('\'', "''");
        let rows = connection.query(&format!(
            "SELECT a.attname FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname = 'pg_stat_statements' AND n.nspname = '{schema}' AND a.attnum > 0"
        ))?;
        let there: Vec<&str> = rows.iter().map(|row| column_text(row, 0)).collect();
        self.features.has_top_level = there.contains(&"toplevel");
        self.columns = NUMBERS
            .iter()
            .map(|names| {
                let name = names.iter().find(|name| there.contains(name))?;
                Some((*name).to_owned())
            })
            .collect();
        if self.columns[CALLS].is_none() {
            return Err(ProbeError::unsupported(
                "the extension has no columns that are known",
                "",
            ));
        }
        let rows = connection.query(&format!(
            "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc p \
             JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             WHERE p.proname = 'pg_stat_statements_info' AND n.nspname = '{schema}'"
        ))?;
        self.features.has_info = rows.first().is_some_and(|row| column_text(row, 0) != "0");
        Ok(())
    }

    fn note_unavailable_statistics(
        &self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) {
        let unseen = |text: &str, remedy: &str, count| {
            log.add_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: text.to_owned(),
                remedy: Some(remedy.to_owned()),
                count,
                ..ProbeNote::default()
            });
        };
        if self.columns[PLANS].is_none() {
            unseen(
                "the time of planning: this version of the extension does not count it",
                "PostgreSQL 13 or newer, and ALTER EXTENSION pg_stat_statements UPDATE",
                None,
            );
        } else if !self.tracking.planning {
            unseen(
                "the time of planning, and how often a statement was planned: pg_stat_statements.track_planning is off, and times are those of execution alone",
                "pg_stat_statements.track_planning = on, where no single statement runs at some ten thousand calls a second",
                None,
            );
        }
        if self.tracking.nested && !self.features.has_top_level {
            unseen(
                "which statements ran within functions: pg_stat_statements.track is all, and this version counts them as if clients had sent them, in addition to the statements that called them; totals count their time twice",
                "pg_stat_statements.track = top, or PostgreSQL 14 or newer, and ALTER EXTENSION pg_stat_statements UPDATE",
                None,
            );
        }
        let hidden: u64 = self
            .before
            .iter()
            .filter(|(key, _)| key.query_id.is_none())
            .map(|(_, counts)| counts.entries)
            .sum();
        if hidden > 0 {
            let remedy = format!("GRANT pg_read_all_stats TO {}", connection.server().user);
            unseen(
                "which statements other roles ran: their numbers are counted without texts",
                &remedy,
                Some(hidden),
            );
        }
    }
}

/// Checks that the role may call the extension's function, and names the missing grants.
fn check_privileges(row: &Row) -> Result<(), ProbeError> {
    let (schema, role) = (column_text(row, 1), column_text(row, 4));
    let mut missing = Vec::new();
    let mut grants = Vec::new();
    if column_text(row, 2) == "f" {
        missing.push(format!("use its schema {schema}"));
        grants.push(format!("GRANT USAGE ON SCHEMA {schema} TO {role}"));
    }
    if column_text(row, 3) == "f" {
        missing.push("call its function".to_owned());
        grants.push(format!(
            "GRANT EXECUTE ON FUNCTION {schema}.pg_stat_statements(boolean) TO {role}"
        ));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(ProbeError::unsupported(
        format!(
            "the extension pg_stat_statements is there, and the role {role} may not {}",
            missing.join(" or ")
        ),
        &grants.join("; "),
    ))
}

/// One reading of all entries.
struct Reading {
    clock_ns: i64,
    rows: u64,
    entries: HashMap<EntryKey, Counts>,
}

impl Probe for StatementsProbe {
    fn name(&self) -> &'static str {
        STATISTICS
    }

    fn interval_ns(&self) -> i64 {
        EVERY_NS.max(self.took_ns * SHARE)
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError> {
        self.find_extension(connection)?;
        // Tracking may be disabled for our own session. Other sessions have the reset value.
        let settings = "SELECT s.name, s.reset_val FROM pg_catalog.pg_settings s \
             WHERE s.name IN ('pg_stat_statements.track_planning', 'pg_stat_statements.track')";
        let rows = connection.query(settings)?;
        let is = |name: &str, value: &str| {
            let name = format!("pg_stat_statements.{name}");
            rows.iter()
                .any(|row| column_text(row, 0) == name && column_text(row, 1) == value)
        };
        self.tracking.planning = self.columns[PLANS].is_some() && is("track_planning", "on");
        self.tracking.nested = is("track", "all");
        let reading = self.read(connection, log)?;
        let rows = reading.rows;
        // After a reconnection, counts since the last reading are still valid.
        if !self.begun {
            self.before = reading.entries;
            self.read_clock_ns = reading.clock_ns;
            self.begun = true;
            self.note_unavailable_statistics(connection, log);
            self.write_counters(connection, log, rows);
        }
        Ok(())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        _: SampleContext,
    ) -> Result<(), ProbeError> {
        let reading = self.read(connection, log)?;
        let rows = reading.rows;
        self.write_differences(connection, log, reading)?;
        self.write_counters(connection, log, rows);
        Ok(())
    }
}

/// Whether a counter decreased.
fn was_reset(before: &Counts, now: &Counts) -> bool {
    now.numbers[CALLS] < before.numbers[CALLS] || now.numbers[PLANS] < before.numbers[PLANS]
}

fn difference(before: &Counts, now: &Counts) -> Counts {
    let mut gained = *now;
    for (gained, before) in gained.numbers.iter_mut().zip(before.numbers) {
        *gained = (*gained - before).max(0.0);
    }
    gained
}

/// Converts a squashed list of values to the normal form of a workload.
fn unsquash(text: &str) -> String {
    // `IN ($1 /*, ... */)` had several values. The normal form distinguishes a list of several from one
    // value.
    text.replace(SQUASHED, ", $1")
}
