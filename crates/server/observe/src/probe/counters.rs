//! Reads the cumulative statistics views of the server: databases, tables, indexes, I/O, WAL, checkpoints,
//! and the progress of vacuums and the like.
//!
//! The views and columns of a version are read from its catalogue, and all numeric columns are recorded.
//! Columns move between versions (`pg_stat_checkpointer` in 17, I/O of WAL in 18; PostgreSQL documentation,
//! 28.2), so a fixed list would be wrong for the next version.

use std::collections::{HashMap, HashSet};

use run::{Counter, ProbeNote, ProbeState};

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_number, column_text};
use crate::probe_connection::{ProbeConnection, ProbeError};

const SECOND_NS: i64 = 1_000_000_000;
/// Maximum number of tables, and of indexes, to record: those with the highest counters.
const OBJECTS_MAX: usize = 5_000;
/// Fraction of the time that a query may take: one over this.
const SHARE: i64 = 500;

/// A view, the interval of its readings, the SQL expression that names its rows, and the SQL that follows
/// `FROM`.
struct View {
    name: &'static str,
    every_ns: i64,
    object: &'static str,
    rest: &'static str,
    /// Its columns rise and fall.
    gauges: bool,
    /// It has a row for each of many objects. Unchanged values are not recorded.
    many: bool,
}

const fn server_view(name: &'static str, seconds: i64, object: &'static str) -> View {
    View {
        name,
        every_ns: seconds * SECOND_NS,
        object,
        rest: "",
        gauges: false,
        many: false,
    }
}

const fn object_view(name: &'static str, object: &'static str, rest: &'static str) -> View {
    View {
        rest,
        many: true,
        ..server_view(name, 30, object)
    }
}

const fn progress_view(name: &'static str) -> View {
    View {
        gauges: true,
        ..server_view(
            name,
            5,
            "v.pid || ' ' || coalesce(v.datname || ' ', '') || coalesce(v.relid::regclass::text || ' ', '') || v.phase",
        )
    }
}

const TABLE: &str = "v.schemaname || '.' || v.relname";
const INDEX: &str = "v.schemaname || '.' || v.indexrelname || ' on ' || v.relname";

const VIEWS: [View; 17] = [
    server_view(
        "pg_stat_database",
        2,
        "coalesce(v.datname, 'shared objects')",
    ),
    server_view("pg_stat_bgwriter", 5, "''"),
    server_view("pg_stat_checkpointer", 5, "''"),
    server_view("pg_stat_wal", 5, "''"),
    server_view(
        "pg_stat_io",
        5,
        "v.backend_type || ', ' || v.object || ', ' || v.context",
    ),
    server_view("pg_stat_slru", 5, "v.name"),
    server_view("pg_stat_archiver", 5, "''"),
    object_view(
        "pg_stat_user_tables",
        TABLE,
        "ORDER BY coalesce(v.seq_tup_read, 0) + coalesce(v.idx_tup_fetch, 0) + v.n_tup_ins + v.n_tup_upd + v.n_tup_del DESC, v.relid",
    ),
    object_view(
        "pg_statio_user_tables",
        TABLE,
        "ORDER BY v.heap_blks_read + v.heap_blks_hit DESC, v.relid",
    ),
    object_view(
        "pg_stat_user_indexes",
        INDEX,
        "ORDER BY v.idx_scan DESC, v.indexrelid",
    ),
    object_view(
        "pg_statio_user_indexes",
        INDEX,
        "ORDER BY v.idx_blks_read + v.idx_blks_hit DESC, v.indexrelid",
    ),
    progress_view("pg_stat_progress_vacuum"),
    progress_view("pg_stat_progress_analyze"),
    progress_view("pg_stat_progress_create_index"),
    progress_view("pg_stat_progress_cluster"),
    View {
        object: "v.pid || ' ' || v.phase",
        ..progress_view("pg_stat_progress_basebackup")
    },
    View {
        object: "v.pid || ' ' || coalesce(v.datname || ' ', '') || coalesce(v.relid::regclass::text, '')",
        ..progress_view("pg_stat_progress_copy")
    },
];

/// Column whose first value is written even if it does not change: statistics may be stale from before.
const STALE_ROWS: &str = "n_mod_since_analyze";

/// Columns that rise and fall in views whose other columns are cumulative.
const GAUGES: [&str; 6] = [
    "numbackends",
    "n_live_tup",
    "n_dead_tup",
    "n_mod_since_analyze",
    "n_ins_since_vacuum",
    "op_bytes",
];

impl View {
    /// Maximum number of objects to read.
    fn objects_max(&self) -> usize {
        if self.many { OBJECTS_MAX } else { 1_000 }
    }
}

/// Reads all views.
#[derive(Default)]
pub(crate) struct CountersProbe {
    views: Vec<AvailableView>,
}

/// A view that this server has.
struct AvailableView {
    view: &'static View,
    columns: Vec<String>,
    question: String,
    /// LastReading values of each object, and whether they were written.
    last: HashMap<String, LastReading>,
    read_clock_ns: i64,
    due_clock_ns: i64,
    failures: u32,
    /// The last reading had all objects.
    read_whole: bool,
}

struct LastReading {
    values: Vec<Option<f64>>,
    written: Vec<bool>,
}

impl AvailableView {
    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError> {
        let clock_ns = log.clock_ns();
        let rows = connection.query_prepared(self.view.name, "", "", &self.question)?;
        let took_ns = log.clock_ns() - clock_ns;
        self.due_clock_ns = clock_ns + self.view.every_ns.max(took_ns * SHARE);
        let earlier_ns = log.run_time_of(self.read_clock_ns);
        let now_ns = log.run_time_of(clock_ns);
        self.read_clock_ns = clock_ns;
        let is_whole = rows.len() < self.view.objects_max();
        let names: HashSet<&str> = rows.iter().map(|row| column_text(row, 0)).collect();
        let known = self.last.len();
        if is_whole {
            self.last
                .retain(|object, _| names.contains(object.as_str()));
        }
        // An object that was created since the last reading starts at zero. If another disappeared at the
        // same time, it may be that one, renamed.
        let may_be_new = self.read_whole && is_whole && self.last.len() == known;
        self.read_whole = is_whole;
        for row in &rows {
            let object = column_text(row, 0);
            let values: Vec<Option<f64>> = (1..=self.columns.len())
                .map(|column| column_number(row, column))
                .collect();
            if may_be_new && !self.last.contains_key(object) {
                let nothing = self.zero_reading();
                self.last.insert(object.to_owned(), nothing);
            }
            self.write_changes(log, object, values, (earlier_ns, now_ns));
        }
        if self.view.gauges && rows.is_empty() {
            self.last.clear();
        }
        Ok(())
    }

    /// Returns the reading of a new object, whose counters are zero.
    fn zero_reading(&self) -> LastReading {
        let of = |name: &String| {
            let counts = !(self.view.gauges || GAUGES.contains(&name.as_str()));
            counts.then_some(0.0)
        };
        LastReading {
            written: vec![false; self.columns.len()],
            values: self.columns.iter().map(of).collect(),
        }
    }

    /// Writes changed values. For views of many objects it also writes the values before.
    fn write_changes(
        &mut self,
        log: &ObservationLog,
        object: &str,
        values: Vec<Option<f64>>,
        (earlier_ns, now_ns): (i64, i64),
    ) {
        let row = |name: &str, at_ns: i64, value: f64| Counter {
            at_ns,
            source: self.view.name.to_owned(),
            object: object.to_owned(),
            name: name.to_owned(),
            value,
            gauge: self.view.gauges || GAUGES.contains(&name),
        };
        let Some(last) = self.last.get_mut(object) else {
            let mut written = Vec::with_capacity(values.len());
            for (name, value) in self.columns.iter().zip(&values) {
                let is_stale = name == STALE_ROWS && value.is_some_and(|rows| rows > 0.0);
                let is_written = !self.view.many || is_stale;
                if let (true, Some(value)) = (is_written, value) {
                    log.add_counter(row(name, now_ns, *value));
                }
                written.push(is_written);
            }
            let last = LastReading { written, values };
            self.last.insert(object.to_owned(), last);
            return;
        };
        for (place, (name, value)) in self.columns.iter().zip(&values).enumerate() {
            let (Some(value), before) = (value, last.values[place]) else {
                continue;
            };
            if before == Some(*value) {
                continue;
            }
            if let (false, Some(before)) = (last.written[place], before) {
                log.add_counter(row(name, earlier_ns, before));
            }
            last.written[place] = true;
            log.add_counter(row(name, now_ns, *value));
        }
        last.values = values;
    }
}

impl Probe for CountersProbe {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn interval_ns(&self) -> i64 {
        SECOND_NS
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError> {
        if !self.views.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        let rows = connection.query(&format!(
            "SELECT c.relname, a.attname FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = 'pg_catalog' AND a.attnum > 0 AND a.attname NOT IN ('pid') \
             AND a.atttypid IN ('int4'::regtype, 'int8'::regtype, 'float4'::regtype, \
               'float8'::regtype, 'numeric'::regtype) \
             AND c.relname = ANY ('{{{}}}') ORDER BY c.relname, a.attnum",
            names.join(",")
        ))?;
        for view in &VIEWS {
            let columns: Vec<String> = rows
                .iter()
                .filter(|row| column_text(row, 0) == view.name)
                .map(|row| column_text(row, 1).to_owned())
                .collect();
            if columns.is_empty() {
                continue;
            }
            let list: Vec<String> = columns.iter().map(|column| format!("v.{column}")).collect();
            let limit = view.objects_max();
            let question = format!(
                "SELECT {}, {} FROM pg_catalog.{} v {} LIMIT {limit}",
                view.object,
                list.join(", "),
                view.name,
                view.rest,
            );
            let mut found = AvailableView {
                view,
                columns,
                question,
                last: HashMap::new(),
                read_clock_ns: log.clock_ns(),
                due_clock_ns: 0,
                failures: 0,
                read_whole: false,
            };
            match found.sample(connection, log) {
                Ok(()) => self.views.push(found),
                Err(ProbeError::Failed(why)) => log.add_note(ProbeNote {
                    probe: self.name().to_owned(),
                    state: ProbeState::Unseen,
                    text: format!("{}: {why}", view.name),
                    ..ProbeNote::default()
                }),
                Err(gone) => {
                    self.views.clear();
                    return Err(gone);
                }
            }
        }
        let full = self
            .views
            .iter()
            .filter(|found| found.last.len() >= OBJECTS_MAX);
        for found in full {
            log.add_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: format!(
                    "{}: what is beyond the {OBJECTS_MAX} with most to tell",
                    found.view.name
                ),
                ..ProbeNote::default()
            });
        }
        Ok(())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        context: SampleContext,
    ) -> Result<(), ProbeError> {
        let mut lost = None;
        for found in &mut self.views {
            if found.due_clock_ns > log.clock_ns() && !context.last {
                continue;
            }
            match found.sample(connection, log) {
                Ok(()) => found.failures = 0,
                Err(gone @ (ProbeError::ConnectionLost(_) | ProbeError::Unsupported { .. })) => {
                    return Err(gone);
                }
                // The failure of one view, such as by a timeout or a lock, does not affect the others.
                Err(ProbeError::Failed(why)) => {
                    found.failures += 1;
                    found.due_clock_ns = log.clock_ns() + found.view.every_ns;
                    if found.failures == 3 {
                        lost = Some((found.view.name, why));
                    }
                }
            }
        }
        if let Some((name, why)) = lost {
            self.views.retain(|found| found.failures < 3);
            log.add_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: format!("{name}, from here on: it failed three times, last with: {why}"),
                ..ProbeNote::default()
            });
        }
        Ok(())
    }
}
