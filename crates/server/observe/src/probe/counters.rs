//! The cumulative statistics of the server, view by view: databases, tables, indexes, I/O, WAL,
//! checkpoints, and the progress of vacuums and the like.
//!
//! Which views and columns a version has is asked of its catalogue, and all that are numbers are taken:
//! columns move between versions (`pg_stat_checkpointer` in 17, I/O of WAL in 18; PostgreSQL
//! documentation, 28.2), and a list of ours would be wrong with the next.

use std::collections::{HashMap, HashSet};

use run::{Counter, ProbeNote, ProbeState};

use crate::asker::{Asker, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at, number};

const SECOND_NS: i64 = 1_000_000_000;
/// The most tables, and the most indexes, that are kept: those with most to tell.
const OBJECTS_MAX: usize = 5_000;
/// A question that takes long is asked seldom: at most this part of the time.
const SHARE: i64 = 500;

/// A view, how often it is read, what its rows are of, and what is to be said behind `FROM`.
struct View {
    name: &'static str,
    every_ns: i64,
    object: &'static str,
    rest: &'static str,
    /// Its columns go up and down.
    gauges: bool,
    /// It has a row for each of many objects: what does not change is not kept.
    many: bool,
}

const fn view(name: &'static str, seconds: i64, object: &'static str) -> View {
    View {
        name,
        every_ns: seconds * SECOND_NS,
        object,
        rest: "",
        gauges: false,
        many: false,
    }
}

const fn of_objects(name: &'static str, object: &'static str, rest: &'static str) -> View {
    View {
        rest,
        many: true,
        ..view(name, 30, object)
    }
}

const fn progress(name: &'static str) -> View {
    View {
        gauges: true,
        ..view(
            name,
            5,
            "v.pid || ' ' || coalesce(v.datname || ' ', '') || coalesce(v.relid::regclass::text || ' ', '') || v.phase",
        )
    }
}

const TABLE: &str = "v.schemaname || '.' || v.relname";
const INDEX: &str = "v.schemaname || '.' || v.indexrelname || ' on ' || v.relname";

const VIEWS: [View; 17] = [
    view(
        "pg_stat_database",
        2,
        "coalesce(v.datname, 'shared objects')",
    ),
    view("pg_stat_bgwriter", 5, "''"),
    view("pg_stat_checkpointer", 5, "''"),
    view("pg_stat_wal", 5, "''"),
    view(
        "pg_stat_io",
        5,
        "v.backend_type || ', ' || v.object || ', ' || v.context",
    ),
    view("pg_stat_slru", 5, "v.name"),
    view("pg_stat_archiver", 5, "''"),
    of_objects(
        "pg_stat_user_tables",
        TABLE,
        "ORDER BY coalesce(v.seq_tup_read, 0) + coalesce(v.idx_tup_fetch, 0) + v.n_tup_ins + v.n_tup_upd + v.n_tup_del DESC, v.relid",
    ),
    of_objects(
        "pg_statio_user_tables",
        TABLE,
        "ORDER BY v.heap_blks_read + v.heap_blks_hit DESC, v.relid",
    ),
    of_objects(
        "pg_stat_user_indexes",
        INDEX,
        "ORDER BY v.idx_scan DESC, v.indexrelid",
    ),
    of_objects(
        "pg_statio_user_indexes",
        INDEX,
        "ORDER BY v.idx_blks_read + v.idx_blks_hit DESC, v.indexrelid",
    ),
    progress("pg_stat_progress_vacuum"),
    progress("pg_stat_progress_analyze"),
    progress("pg_stat_progress_create_index"),
    progress("pg_stat_progress_cluster"),
    View {
        object: "v.pid || ' ' || v.phase",
        ..progress("pg_stat_progress_basebackup")
    },
    View {
        object: "v.pid || ' ' || coalesce(v.datname || ' ', '') || coalesce(v.relid::regclass::text, '')",
        ..progress("pg_stat_progress_copy")
    },
];

/// Columns that go up and down, in views whose others only grow.
const GAUGES: [&str; 6] = [
    "numbackends",
    "n_live_tup",
    "n_dead_tup",
    "n_mod_since_analyze",
    "n_ins_since_vacuum",
    "op_bytes",
];

impl View {
    /// The most objects that are read of it.
    fn objects_max(&self) -> usize {
        if self.many { OBJECTS_MAX } else { 1_000 }
    }
}

/// Reads all views.
#[derive(Default)]
pub(crate) struct CountersProbe {
    views: Vec<Found>,
}

/// A view that this server has.
struct Found {
    view: &'static View,
    columns: Vec<String>,
    question: String,
    /// The values last read of each object, and whether they were written.
    last: HashMap<String, Last>,
    read_clock_ns: i64,
    due_clock_ns: i64,
    failures: u32,
    /// All of its objects were read the last time.
    read_whole: bool,
}

struct Last {
    values: Vec<Option<f64>>,
    written: Vec<bool>,
}

impl Found {
    fn look(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) -> Result<(), Unable> {
        let clock_ns = ledger.clock_ns();
        let rows = asker.ask_again(self.view.name, "", "", &self.question)?;
        let took_ns = ledger.clock_ns() - clock_ns;
        self.due_clock_ns = clock_ns + self.view.every_ns.max(took_ns * SHARE);
        let earlier_ns = ledger.moment_of(self.read_clock_ns);
        let now_ns = ledger.moment_of(clock_ns);
        self.read_clock_ns = clock_ns;
        let is_whole = rows.len() < self.view.objects_max();
        let names: HashSet<&str> = rows.iter().map(|row| at(row, 0)).collect();
        let known = self.last.len();
        if is_whole {
            self.last
                .retain(|object, _| names.contains(object.as_str()));
        }
        // What was made since the last reading has counted from nothing; where something went at the same
        // time, it may be the same by another name.
        let may_be_new = self.read_whole && is_whole && self.last.len() == known;
        self.read_whole = is_whole;
        for row in &rows {
            let object = at(row, 0);
            let values: Vec<Option<f64>> = (1..=self.columns.len())
                .map(|column| number(row, column))
                .collect();
            if may_be_new && !self.last.contains_key(object) {
                let nothing = self.nothing();
                self.last.insert(object.to_owned(), nothing);
            }
            self.keep(ledger, object, values, (earlier_ns, now_ns));
        }
        if self.view.gauges && rows.is_empty() {
            self.last.clear();
        }
        Ok(())
    }

    /// What has just been made: its counters are at nothing.
    fn nothing(&self) -> Last {
        let of = |name: &String| {
            let counts = !(self.view.gauges || GAUGES.contains(&name.as_str()));
            counts.then_some(0.0)
        };
        Last {
            written: vec![false; self.columns.len()],
            values: self.columns.iter().map(of).collect(),
        }
    }

    /// Writes what changed; of many objects also what it was before.
    fn keep(
        &mut self,
        ledger: &Ledger,
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
            let written = !self.view.many;
            if written {
                for (name, value) in self.columns.iter().zip(&values) {
                    if let Some(value) = value {
                        ledger.counter(row(name, now_ns, *value));
                    }
                }
            }
            let last = Last {
                written: vec![written; values.len()],
                values,
            };
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
                ledger.counter(row(name, earlier_ns, before));
            }
            last.written[place] = true;
            ledger.counter(row(name, now_ns, *value));
        }
        last.values = values;
    }
}

impl Probe for CountersProbe {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn every_ns(&self) -> i64 {
        SECOND_NS
    }

    fn begin(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) -> Result<(), Unable> {
        if !self.views.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        let rows = asker.ask(&format!(
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
                .filter(|row| at(row, 0) == view.name)
                .map(|row| at(row, 1).to_owned())
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
            let mut found = Found {
                view,
                columns,
                question,
                last: HashMap::new(),
                read_clock_ns: ledger.clock_ns(),
                due_clock_ns: 0,
                failures: 0,
                read_whole: false,
            };
            match found.look(asker, ledger) {
                Ok(()) => self.views.push(found),
                Err(Unable::Failed(why)) => ledger.full_note(ProbeNote {
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
            ledger.full_note(ProbeNote {
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

    fn look(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Unable> {
        let mut lost = None;
        for found in &mut self.views {
            if found.due_clock_ns > ledger.clock_ns() && !moment.last {
                continue;
            }
            match found.look(asker, ledger) {
                Ok(()) => found.failures = 0,
                Err(gone @ (Unable::Gone(_) | Unable::Never { .. })) => return Err(gone),
                // One view that is slow, or locked, is not all of them.
                Err(Unable::Failed(why)) => {
                    found.failures += 1;
                    found.due_clock_ns = ledger.clock_ns() + found.view.every_ns;
                    if found.failures == 3 {
                        lost = Some((found.view.name, why));
                    }
                }
            }
        }
        if let Some((name, why)) = lost {
            self.views.retain(|found| found.failures < 3);
            ledger.full_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: format!("{name}, from here on: it failed three times, last with: {why}"),
                ..ProbeNote::default()
            });
        }
        Ok(())
    }
}
