//! What `pg_stat_statements` counts, as differences between readings: before, each minute, and behind.
//! Short readings in between lose less where entries are evicted, and survive a kill.
//!
//! Which columns there are is asked, not known: `total_time` became `total_exec_time` in 1.8, beside
//! `total_plan_time`; `blk_read_time` became `shared_blk_read_time` in 1.11; `toplevel` came with 1.9
//! (PostgreSQL documentation, F.30, of the versions). Planning is counted with `track_planning` only, which
//! is off by default: then a statement's time is that of its execution alone, and nobody sees the rest.
//!
//! The text is put into our normal form, so that it has the fingerprint that it has in a workload.

use std::collections::{HashMap, HashSet};

use run::{Counter, ProbeNote, ProbeState, StatementStatistics};
use sql::Fingerprint;

use crate::asker::{Asker, MARK, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at, maybe, number};

/// How far apart the readings are.
const EVERY_NS: i64 = 60_000_000_000;
/// Readings take at most this part of the time.
const SHARE: i64 = 500;
/// What the extension shows instead of a text.
const HIDDEN: &str = "<insufficient privilege>";
/// What it shows of a list of values from version 18 on.
const SQUASHED: &str = "/*, ... */";

/// What is counted, and what it is called in the versions of the extension, the newest first.
const NUMBERS: [&[&str]; 20] = [
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
];
const CALLS: usize = 0;
const PLANS: usize = 1;
/// Of an entry: query id, database, role, whether a client sent it.
const KEY_COLUMNS: usize = 4;

/// Which entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    /// `None`: the role may not see it. All such entries of a role and database are one here.
    query_id: Option<i64>,
    database: String,
    user: String,
    top_level: Option<bool>,
}

/// What is counted of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    numbers: [f64; NUMBERS.len()],
    entries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Of ours, or none.
    LeftOut,
    Is(Fingerprint),
}

/// Reads the statistics of statements.
#[derive(Default)]
pub(crate) struct StatementsProbe {
    schema: String,
    /// Which of [`NUMBERS`] there are, as they are called here.
    columns: Vec<Option<String>>,
    has_top_level: bool,
    has_info: bool,
    tracks_planning: bool,
    tracks_nested: bool,
    names: HashMap<&'static str, HashMap<String, String>>,
    before: HashMap<Key, Counts>,
    /// By the clock, since it may be before the replay's time is known.
    read_clock_ns: i64,
    took_ns: i64,
    texts: HashMap<i64, Text>,
    info: Option<(f64, String)>,
    vanished: u64,
    begun: bool,
}

impl StatementsProbe {
    fn question(&self) -> String {
        let mut columns = vec![
            "s.queryid".to_owned(),
            "s.dbid".to_owned(),
            "s.userid".to_owned(),
            match self.has_top_level {
                true => "s.toplevel".to_owned(),
                false => "NULL".to_owned(),
            },
        ];
        columns.extend(self.columns.iter().map(|column| match column {
            Some(column) => format!("s.{column}"),
            None => "NULL".to_owned(),
        }));
        // Without texts, which are in a file that is read as a whole.
        format!(
            "SELECT {} FROM {}.pg_stat_statements(false) s",
            columns.join(", "),
            self.schema
        )
    }

    fn read(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) -> Result<Reading, Unable> {
        let before_ns = ledger.clock_ns();
        let rows = asker.ask_again("statements", "", "", &self.question())?;
        self.took_ns = ledger.clock_ns() - before_ns;
        let mut entries: HashMap<Key, Counts> = HashMap::new();
        for row in &rows {
            let key = Key {
                query_id: number(row, 0),
                database: self.name_of(asker, "database", at(row, 1)),
                user: self.name_of(asker, "role", at(row, 2)),
                top_level: maybe(row, 3).map(|value| value == "t"),
            };
            let counts = entries.entry(key).or_default();
            counts.entries += 1;
            for (place, sum) in counts.numbers.iter_mut().enumerate() {
                *sum += number::<f64>(row, KEY_COLUMNS + place).unwrap_or(0.0);
            }
        }
        Ok(Reading {
            clock_ns: before_ns,
            rows: rows.len() as u64,
            entries,
        })
    }

    /// The name of an object id, asked for once.
    fn name_of(&mut self, asker: &mut Asker<'_>, what: &'static str, oid: &str) -> String {
        let known = self.names.entry(what).or_default();
        if !known.contains_key(oid) {
            let question = match what {
                "database" => "SELECT oid, datname FROM pg_catalog.pg_database",
                _ => "SELECT oid, rolname FROM pg_catalog.pg_roles",
            };
            for row in asker.ask(question).unwrap_or_default() {
                known.insert(at(&row, 0).to_owned(), at(&row, 1).to_owned());
            }
            known
                .entry(oid.to_owned())
                .or_insert_with(|| oid.to_owned());
        }
        known[oid].clone()
    }

    /// The fingerprints of entries that are met for the first time.
    fn learn(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        new: &HashSet<i64>,
    ) -> Result<(), Unable> {
        if new.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = new.iter().map(i64::to_string).collect();
        let rows = asker.ask(&format!(
            "SELECT s.queryid, s.query FROM {}.pg_stat_statements(true) s \
             WHERE s.queryid = ANY ('{{{}}}'::bigint[])",
            self.schema,
            ids.join(",")
        ))?;
        for row in &rows {
            let Some(id) = number(row, 0) else { continue };
            let text = match maybe(row, 1) {
                None => continue,
                Some(text) if text.contains(MARK) || text == HIDDEN => Text::LeftOut,
                Some(text) => Text::Is(ledger.fingerprint(&unsquashed(text), false)),
            };
            self.texts.insert(id, text);
        }
        Ok(())
    }

    fn write_differences(
        &mut self,
        asker: &mut Asker<'_>,
        ledger: &Ledger,
        reading: Reading,
    ) -> Result<(), Unable> {
        let mut changed: Vec<(Key, Counts, bool)> = Vec::new();
        for (key, now) in &reading.entries {
            let before = self.before.get(key);
            // Those that the role may not see share a key: where one of them is evicted, all the others are
            // still what they were.
            let anew =
                key.query_id.is_some() && before.is_some_and(|before| has_gone_back(before, now));
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
        self.learn(asker, ledger, &new)?;
        let span = (
            ledger.moment_of(self.read_clock_ns),
            ledger.moment_of(reading.clock_ns),
        );
        changed.sort_by(|(one, _, _), (other, _, _)| one.cmp(other));
        let rows: Vec<StatementStatistics> = changed
            .into_iter()
            .filter_map(|(key, gained, anew)| self.row(&key, &gained, anew, span))
            .collect();
        ledger.statistics(&rows);
        // What was evicted is asked for again when it comes back.
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
        key: &Key,
        gained: &Counts,
        anew: bool,
        (from_ns, until_ns): (i64, i64),
    ) -> Option<StatementStatistics> {
        let fingerprint = match key.query_id.map(|id| self.texts.get(&id)) {
            Some(Some(Text::LeftOut)) => return None,
            Some(Some(Text::Is(fingerprint))) => Some(*fingerprint),
            Some(None) | None => None,
        };
        let count = |place: usize| gained.numbers[place].round() as u64;
        let ns = |place: usize| (gained.numbers[place] * 1e6).round() as u64;
        let maybe = |place: usize| self.columns[place].is_some().then(|| count(place));
        Some(StatementStatistics {
            from_ns,
            until_ns,
            fingerprint,
            query_id: key.query_id,
            database: Some(key.database.clone()),
            user: Some(key.user.clone()),
            top_level: key.top_level,
            entries: gained.entries,
            anew,
            calls: count(CALLS),
            plans: self.tracks_planning.then(|| count(PLANS)),
            plan_ns: self.tracks_planning.then(|| ns(2)),
            exec_ns: ns(3),
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
            wal_records: maybe(17),
            wal_full_pages: maybe(18),
            wal_bytes: maybe(19),
        })
    }

    /// How full it is, and how often it made room.
    fn write_counters(&mut self, asker: &mut Asker<'_>, ledger: &Ledger, rows: u64) {
        let mut series = vec![
            ("entries", rows as f64, true),
            ("vanished", self.vanished as f64, false),
        ];
        if self.has_info {
            let question = format!(
                "SELECT i.dealloc, i.stats_reset FROM {}.pg_stat_statements_info() i",
                self.schema
            );
            let rows = asker.ask(&question).unwrap_or_default();
            if let Some(row) = rows.first() {
                let now = (number(row, 0).unwrap_or(0.0), at(row, 1).to_owned());
                series.push(("evictions", now.0, false));
                let before = self.info.replace(now.clone());
                if before.is_some_and(|(_, reset)| reset != now.1) {
                    ledger.note(
                        self.name(),
                        ProbeState::Remark,
                        "the statistics were reset meanwhile: what was counted before is lost",
                    );
                }
            }
        }
        for (name, value, gauge) in series {
            ledger.counter(Counter {
                at_ns: ledger.now_ns(),
                source: "pg_stat_statements".to_owned(),
                object: String::new(),
                name: name.to_owned(),
                value,
                gauge,
            });
        }
    }

    /// Where the extension is, and what it has.
    fn find(&mut self, asker: &mut Asker<'_>) -> Result<(), Unable> {
        let preloaded = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_settings s \
             WHERE s.name = 'pg_stat_statements.max'";
        let rows = asker.ask(
            "SELECT n.nspname, pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e \
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace \
             WHERE e.extname = 'pg_stat_statements'",
        )?;
        let loaded = asker.ask(preloaded)?;
        let loaded = loaded.first().is_some_and(|row| at(row, 0) != "0");
        let Some(row) = rows.first() else {
            let database = asker.known().database.clone();
            return Err(match loaded {
                true => Unable::never(
                    format!("the extension is loaded, and not created in the database {database}"),
                    "CREATE EXTENSION pg_stat_statements",
                ),
                false => Unable::never(
                    "the extension is not there",
                    "shared_preload_libraries = 'pg_stat_statements' (a restart), then CREATE EXTENSION pg_stat_statements",
                ),
            });
        };
        if !loaded
            && asker
                .ask(&format!(
                    "SELECT pg_catalog.count(*) FROM {}.pg_stat_statements(false)",
                    at(row, 1)
                ))
                .is_err()
        {
            return Err(Unable::never(
                "the extension is created, and its library is not loaded",
                "shared_preload_libraries = 'pg_stat_statements' (a restart)",
            ));
        }
        self.schema = at(row, 1).to_owned();
        let schema = at(row, 0).replace('\'', "''");
        let rows = asker.ask(&format!(
            "SELECT a.attname FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname = 'pg_stat_statements' AND n.nspname = '{schema}' AND a.attnum > 0"
        ))?;
        let there: Vec<&str> = rows.iter().map(|row| at(row, 0)).collect();
        self.has_top_level = there.contains(&"toplevel");
        self.columns = NUMBERS
            .iter()
            .map(|names| {
                let name = names.iter().find(|name| there.contains(name))?;
                Some((*name).to_owned())
            })
            .collect();
        if self.columns[CALLS].is_none() {
            return Err(Unable::never(
                "the extension has no columns that are known",
                "",
            ));
        }
        let rows = asker.ask(&format!(
            "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc p \
             JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             WHERE p.proname = 'pg_stat_statements_info' AND n.nspname = '{schema}'"
        ))?;
        self.has_info = rows.first().is_some_and(|row| at(row, 0) != "0");
        Ok(())
    }

    fn say_what_is_hidden(&self, asker: &mut Asker<'_>, ledger: &Ledger) {
        let unseen = |text: &str, remedy: &str, count| {
            ledger.full_note(ProbeNote {
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
        } else if !self.tracks_planning {
            unseen(
                "the time of planning, and how often a statement was planned: pg_stat_statements.track_planning is off, and times are those of execution alone",
                "pg_stat_statements.track_planning = on, where no single statement runs at some ten thousand calls a second",
                None,
            );
        }
        if self.tracks_nested && !self.has_top_level {
            unseen(
                "which statements ran within functions: pg_stat_statements.track is all, and this version counts them as if clients had sent them, beside the statements that called them; totals count their time twice",
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
            let remedy = format!("GRANT pg_read_all_stats TO {}", asker.known().user);
            unseen(
                "which statements other roles ran: their numbers are counted without texts",
                &remedy,
                Some(hidden),
            );
        }
    }
}

/// What was read at once.
struct Reading {
    clock_ns: i64,
    rows: u64,
    entries: HashMap<Key, Counts>,
}

impl Probe for StatementsProbe {
    fn name(&self) -> &'static str {
        "statements"
    }

    fn every_ns(&self) -> i64 {
        EVERY_NS.max(self.took_ns * SHARE)
    }

    fn begin(&mut self, asker: &mut Asker<'_>, ledger: &Ledger) -> Result<(), Unable> {
        self.find(asker)?;
        // Our own session may not be tracked: what others have is what it would be reset to.
        let settings = "SELECT s.name, s.reset_val FROM pg_catalog.pg_settings s \
             WHERE s.name IN ('pg_stat_statements.track_planning', 'pg_stat_statements.track')";
        let rows = asker.ask(settings)?;
        let is = |name: &str, value: &str| {
            let name = format!("pg_stat_statements.{name}");
            rows.iter()
                .any(|row| at(row, 0) == name && at(row, 1) == value)
        };
        self.tracks_planning = self.columns[PLANS].is_some() && is("track_planning", "on");
        self.tracks_nested = is("track", "all");
        let reading = self.read(asker, ledger)?;
        let rows = reading.rows;
        // Begun again after a loss, what was counted meanwhile is not lost.
        if !self.begun {
            self.before = reading.entries;
            self.read_clock_ns = reading.clock_ns;
            self.begun = true;
            self.say_what_is_hidden(asker, ledger);
            self.write_counters(asker, ledger, rows);
        }
        Ok(())
    }

    fn look(&mut self, asker: &mut Asker<'_>, ledger: &Ledger, _: Moment) -> Result<(), Unable> {
        let reading = self.read(asker, ledger)?;
        let rows = reading.rows;
        self.write_differences(asker, ledger, reading)?;
        self.write_counters(asker, ledger, rows);
        Ok(())
    }
}

/// It counted more before.
fn has_gone_back(before: &Counts, now: &Counts) -> bool {
    now.numbers[CALLS] < before.numbers[CALLS] || now.numbers[PLANS] < before.numbers[PLANS]
}

fn difference(before: &Counts, now: &Counts) -> Counts {
    let mut gained = *now;
    for (gained, before) in gained.numbers.iter_mut().zip(before.numbers) {
        *gained = (*gained - before).max(0.0);
    }
    gained
}

/// A list of values as a workload's normal form has it.
fn unsquashed(text: &str) -> String {
    // `IN ($1 /*, ... */)`: there were several, and a list of several keeps that it was one.
    text.replace(SQUASHED, ", $1")
}
