//! Checks of planner statistics.

use std::collections::HashMap;

use super::super::facts::{DatabaseFacts, Relation};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, counted, finding, object, server_object};

/// First version whose `pg_upgrade` keeps the statistics of columns. Source: release notes of version 18.
const KEPT: u32 = 18;

/// Reason why missing statistics matter.
const REASON: &str = "Without statistics the planner guesses numbers of rows, and chooses slow plans. Autovacuum analyzes \
     tables only after enough of their rows changed, and never partitioned tables.";

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    match sides.is_upgraded() {
        true => vec![missing(sides), extended_missing(sides)],
        false => vec![
            not_carried(sides),
            extended_not_carried(sides),
            never_analyzed(sides),
        ],
    }
}

fn analyze(database: &DatabaseFacts, table: &str) -> UpgradeObject {
    object(database, table).statement(format!("ANALYZE {table}"))
}

fn missing(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    let mut tables = 0;
    for (old, new) in sides.both() {
        let before: HashMap<&str, &Relation> = old
            .relations
            .iter()
            .map(|one| (one.name.as_str(), one))
            .collect();
        for one in new.relations.iter().filter(|one| has_statistics(one)) {
            let was = before.get(one.name.as_str());
            let is_expected = match one.kind.as_str() {
                "r" | "m" => one.has_rows,
                _ => was.is_some_and(|was| was.has_statistics == Some(true)),
            };
            tables += usize::from(is_expected);
            if is_expected && one.has_statistics == Some(false) {
                objects.push(analyze(new, &one.name));
            }
        }
    }
    let number = objects.len();
    finding(
        (UpgradeCheck::Statistics, UpgradeSeverity::MendAfter),
        objects,
        format!(
            "{} of {tables} on the new server {} no planner statistics",
            counted(number, "table", "tables"),
            if number == 1 { "has" } else { "have" },
        ),
        REASON,
        "Run ANALYZE in each database before the traffic arrives. `vacuumdb --all --analyze-in-stages` leaves out partitioned tables before version 19.",
    )
}

/// Whether the planner keeps statistics for this kind of relation.
fn has_statistics(one: &Relation) -> bool {
    matches!(one.kind.as_str(), "r" | "m" | "p" | "f")
}

fn extended_missing(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for (_, new) in sides.both() {
        let empty = new.statistics.iter();
        let empty = empty.filter(|one| one.has_data == Some(false) && one.table_has_rows);
        objects.extend(empty.map(|one| {
            object(new, &one.name)
                .detail(format!("of {}", one.table))
                .statement(format!("ANALYZE {}", one.table))
        }));
    }
    finding(
        (UpgradeCheck::ExtendedStatistics, UpgradeSeverity::MendAfter),
        objects,
        "Extended statistics of the new server have no data",
        "No method of an upgrade copies their data. Until the next ANALYZE the planner takes the columns as independent.",
        "Run ANALYZE on their tables.",
    )
}

fn not_carried(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let is_kept = sides.is_pg_upgrade() && sides.new.identity.major() >= KEPT;
    let mut objects = match is_kept {
        // The catalogue has them; the counters that autovacuum uses are empty.
        true => Vec::new(),
        false => vec![server_object("all tables").statement("vacuumdb --all --analyze-in-stages")],
    };
    for database in sides.old.contents.iter().filter(|_| !is_kept) {
        let parents = database.relations.iter();
        let parents = parents.filter(|one| one.kind == "p" && one.has_statistics == Some(true));
        objects.extend(parents.map(|one| analyze(database, &one.name).detail("partitioned")));
    }
    let how = match sides.is_pg_upgrade() {
        true => "pg_upgrade keeps no planner statistics before version 18",
        false => {
            "A dump has no planner statistics, unless pg_dump 18 or later is called with --statistics"
        }
    };
    finding(
        (UpgradeCheck::Statistics, UpgradeSeverity::MendAfter),
        objects,
        how,
        REASON,
        "Analyze all databases before the traffic arrives.",
    )
}

fn extended_not_carried(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        objects.extend(database.statistics.iter().map(|one| {
            object(database, &one.name)
                .detail(format!("of {}", one.table))
                .statement(format!("ANALYZE {}", one.table))
        }));
    }
    finding(
        (UpgradeCheck::ExtendedStatistics, UpgradeSeverity::MendAfter),
        objects,
        "Extended statistics will have no data on the new server",
        "No method of an upgrade copies their data. Until the next ANALYZE the planner takes the columns as independent.",
        "Run ANALYZE on their tables after the upgrade.",
    )
}

fn never_analyzed(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let never = database.relations.iter();
        let never = never.filter(|one| one.has_rows && one.has_statistics == Some(false));
        objects.extend(never.map(|one| analyze(database, &one.name)));
    }
    finding(
        (UpgradeCheck::Statistics, UpgradeSeverity::Note),
        objects,
        "Tables of the old server have no planner statistics",
        "Plans of the old server were made without statistics. After ANALYZE on the new one they may differ.",
        "Analyze them on the old server before plans are compared.",
    )
}
