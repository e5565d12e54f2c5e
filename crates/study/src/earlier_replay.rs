//! Recognises a target on which an earlier replay wrote and which was not restored since.
//!
//! The evidence of a run has the counters of inserted, updated and deleted rows of each table before the first and after
//! the last statement. If the tables that a replay changed still have, at the start of a later one, the file and the
//! counters that it left, nothing was written to them since. A restored target does not look like that: a physical copy
//! starts with the counters of the copy or with none, a dump makes other tables, `TRUNCATE` another file, and rows that are
//! deleted or inserted again are counted. The reverse does not hold: after other writes, or after a crash that discards the
//! counters, an earlier replay is not recognised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use archive::ArchiveError;
use run::{Artefact, Moment, RunReader};
use serde::Deserialize;

/// Maximum number of earlier runs that are read, the latest first.
const RUNS_MAX: usize = 20;
/// Maximum number of tables that are named.
const TABLES_MAX: usize = 3;

/// Earlier replay whose writes the target still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierReplay {
    /// Path of its run.
    pub run: PathBuf,
    /// Number of tables that it changed.
    pub tables: usize,
    /// Names of the first ones.
    pub named: Vec<String>,
}

impl EarlierReplay {
    /// Describes it in a sentence.
    pub fn describe(&self) -> String {
        let (run, named) = (self.run.display(), self.named.join(", "));
        let more = match self.tables - self.named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "Warning: the target was not restored since the replay {run}, which wrote to {named}{more}: nothing has changed these tables since. Rows that the workload inserts may be there already, and rows that it deletes may be gone. Restore the target before each replay that writes."
        )
    }
}

/// Finds the latest of these runs whose writes are still there, by the evidence before a replay that starts at
/// `started_wall_us`.
///
/// # Errors
/// If evidence cannot be read.
pub fn find_among(
    runs: &[RunReader],
    evidence: &[Artefact],
    started_wall_us: i64,
) -> Result<Option<EarlierReplay>, ArchiveError> {
    let is_earlier = |run: &&RunReader| {
        let info = run.info();
        info.started_wall_us < started_wall_us && !info.is_observation()
    };
    let mut earlier: Vec<&RunReader> = runs.iter().filter(is_earlier).collect();
    earlier.sort_by_key(|run| std::cmp::Reverse(run.info().started_wall_us));
    let now = TargetState::read(evidence);
    for run in earlier.into_iter().take(RUNS_MAX) {
        let evidence = (run.evidence(Moment::Before)?, run.evidence(Moment::After)?);
        let (Some(before), Some(after)) = evidence else {
            continue;
        };
        let written = TargetState::read(&before).changed_tables(&TargetState::read(&after), &now);
        if let Some(tables) = written {
            return Ok(Some(EarlierReplay {
                run: run.path().to_owned(),
                tables: tables.len(),
                named: tables.into_iter().take(TABLES_MAX).collect(),
            }));
        }
    }
    Ok(None)
}

/// Finds the latest run next to `output` whose writes are still there, by the evidence before a replay that starts at
/// `started_wall_us`. Runs that cannot be read are ignored.
pub fn find_next_to(
    output: &Path,
    evidence: &[Artefact],
    started_wall_us: i64,
) -> Option<EarlierReplay> {
    let parent = match output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let paths = std::fs::read_dir(parent).ok()?;
    let paths = paths.filter_map(|entry| Some(entry.ok()?.path()));
    // A resumed shard has what other workers wrote in the same run.
    let is_run = |path: &PathBuf| {
        let is_own = path.file_name() == output.file_name();
        !is_own && path.extension().is_some_and(|one| one == "run")
    };
    let runs: Vec<RunReader> = paths
        .filter(is_run)
        .filter_map(|path| RunReader::open(&path).ok())
        .collect();
    find_among(&runs, evidence, started_wall_us).ok().flatten()
}

/// A row of the artefact `database/NAME/stat-tables`. Object identifiers are texts in the server's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct TableState {
    relid: String,
    schemaname: String,
    relname: String,
    #[serde(default)]
    filenode: Option<String>,
    n_tup_ins: u64,
    n_tup_upd: u64,
    n_tup_del: u64,
}

#[derive(Debug, Deserialize)]
struct ControlSystem {
    system_identifier: i64,
}

/// Tables of a target at one time, by database and object identifier.
#[derive(Debug, Default)]
struct TargetState {
    system_identifier: Option<i64>,
    tables: BTreeMap<(String, String), TableState>,
}

impl TargetState {
    fn read(evidence: &[Artefact]) -> Self {
        let mut state = TargetState::default();
        for artefact in evidence {
            let Some(content) = &artefact.content else {
                continue;
            };
            if artefact.name == "server/control-system" {
                let rows: Vec<ControlSystem> = serde_json::from_str(content).unwrap_or_default();
                state.system_identifier = rows.first().map(|row| row.system_identifier);
            }
            let database = artefact.name.strip_prefix("database/");
            let database = database.and_then(|name| name.strip_suffix("/stat-tables"));
            if let Some(database) = database {
                let tables: Vec<TableState> = serde_json::from_str(content).unwrap_or_default();
                let key = |table: &TableState| (database.to_owned(), table.relid.clone());
                let tables = tables.into_iter().map(|table| (key(&table), table));
                state.tables.extend(tables);
            }
        }
        state
    }

    /// Returns the names of the tables that changed from this state to `after`, if all of them are as `after` in `now`, too.
    /// Returns `None` if there are none, or if one differs.
    fn changed_tables(&self, after: &TargetState, now: &TargetState) -> Option<Vec<String>> {
        // The identifier is read before a replay only.
        let identifiers = (self.system_identifier, now.system_identifier);
        if matches!(identifiers, (Some(one), Some(other)) if one != other) {
            return None;
        }
        let changed = after
            .tables
            .iter()
            .filter(|(key, table)| table.filenode.is_some() && self.tables.get(key) != Some(table));
        let changed: Vec<_> = changed.collect();
        let is_unchanged =
            |(key, table): &(&(String, String), &TableState)| now.tables.get(*key) == Some(*table);
        let name = |(_, table): &(&(String, String), &TableState)| {
            format!("{}.{}", table.schemaname, table.relname)
        };
        (!changed.is_empty() && changed.iter().all(is_unchanged))
            .then(|| changed.iter().map(name).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(relid: &str, filenode: u32, counters: [u64; 3]) -> String {
        let [inserted, updated, deleted] = counters;
        format!(
            r#"{{"relid": "{relid}", "schemaname": "public", "relname": "t{relid}", "filenode": "{filenode}",
            "n_tup_ins": {inserted}, "n_tup_upd": {updated}, "n_tup_del": {deleted}, "n_live_tup": 5}}"#
        )
    }

    fn state(identifier: i64, tables: &[String]) -> TargetState {
        let artefact = |name: &str, content: String| Artefact {
            name: name.to_owned(),
            content: Some(content),
            ..Artefact::default()
        };
        let control =
            format!(r#"[{{"pg_control_version": 1300, "system_identifier": {identifier}}}]"#);
        TargetState::read(&[
            artefact("server/control-system", control),
            artefact(
                "database/shop/stat-tables",
                format!("[{}]", tables.join(",")),
            ),
        ])
    }

    #[test]
    fn writes_are_recognised_until_a_table_changes() {
        let kept = table("7", 7, [9, 9, 9]);
        let before = state(
            1,
            &[
                table("5", 5, [10, 0, 0]),
                table("6", 6, [0; 3]),
                kept.clone(),
            ],
        );
        let after = state(
            1,
            &[
                table("5", 5, [10, 4, 0]),
                table("6", 6, [3, 0, 0]),
                kept.clone(),
            ],
        );
        let read = table("7", 7, [9, 9, 9]);
        let left = state(
            1,
            &[table("5", 5, [10, 4, 0]), table("6", 6, [3, 0, 0]), read],
        );
        let found = before.changed_tables(&after, &left).unwrap();
        assert_eq!(found, ["public.t5", "public.t6"]);
        // What no replay wrote to may change.
        let other = table("7", 8, [10, 9, 9]);
        let left = state(
            1,
            &[table("5", 5, [10, 4, 0]), table("6", 6, [3, 0, 0]), other],
        );
        assert!(before.changed_tables(&after, &left).is_some());
    }

    #[test]
    fn restored_target_is_not_accused() {
        let before = state(1, &[table("5", 5, [10, 0, 0]), table("6", 6, [0; 3])]);
        let after = state(1, &[table("5", 5, [10, 4, 0]), table("6", 6, [3, 0, 0])]);
        let [unchanged, written] = [table("5", 5, [10, 4, 0]), table("6", 6, [3, 0, 0])];
        let restored = [
            (
                "a copy of before",
                1,
                [table("5", 5, [10, 0, 0]), table("6", 6, [0; 3])],
            ),
            (
                "counters were discarded",
                1,
                [table("5", 5, [0; 3]), table("6", 6, [0; 3])],
            ),
            (
                "a dump",
                1,
                [table("15", 15, [10, 0, 0]), table("16", 16, [0; 3])],
            ),
            (
                "truncated",
                1,
                [unchanged.clone(), table("6", 9, [3, 0, 0])],
            ),
            ("deleted", 1, [unchanged.clone(), table("6", 6, [3, 0, 3])]),
            ("another server", 2, [unchanged, written]),
        ];
        for (how, identifier, tables) in restored {
            let now = state(identifier, &tables);
            assert_eq!(before.changed_tables(&after, &now), None, "{how}");
        }
    }

    #[test]
    fn replay_without_writes_is_no_earlier_writer() {
        let before = state(1, &[table("5", 5, [10, 0, 0])]);
        let same = state(1, &[table("5", 5, [10, 0, 0])]);
        assert_eq!(before.changed_tables(&same, &same), None);
    }
}
