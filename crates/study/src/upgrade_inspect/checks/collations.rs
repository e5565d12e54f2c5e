//! Checks of collations and locales.

use std::collections::HashMap;

use super::super::facts::{DEFAULT_COLLATION, DatabaseEntry, DatabaseFacts, ServerFacts};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, finding, object};
use crate::environment::{quote_identifier, quote_literal};

/// Operator classes of full-text search and of `pg_trgm`.
const SEARCH_CLASSES: [&str; 3] = ["tsvector_ops", "gin_trgm_ops", "gist_trgm_ops"];

/// First version with `REINDEX CONCURRENTLY`.
const CONCURRENT_REINDEX: u32 = 12;

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        versions(sides),
        other_order(sides),
        unknown(sides),
        search_indexes(sides),
        locales(sides),
    ]
}

fn entry<'a>(server: &'a ServerFacts, name: &str) -> Option<&'a DatabaseEntry> {
    server.databases.iter().find(|one| one.name == name)
}

/// Returns the statement that rebuilds an index.
pub(super) fn reindex(server: &ServerFacts, index: &str) -> String {
    match server.identity.major() >= CONCURRENT_REINDEX {
        true => format!("REINDEX INDEX CONCURRENTLY {index}"),
        false => format!("REINDEX INDEX {index}"),
    }
}

/// Returns the databases of the server whose indexes are used after the upgrade, each with its counterpart on the other
/// side.
fn checked<'a>(
    sides: &Sides<'a>,
) -> (
    &'a ServerFacts,
    Vec<(&'a DatabaseFacts, Option<&'a DatabaseFacts>)>,
) {
    match sides.is_upgraded() {
        true => (
            sides.new,
            sides.both().map(|(old, new)| (new, Some(old))).collect(),
        ),
        false => (
            sides.old,
            sides.old.contents.iter().map(|one| (one, None)).collect(),
        ),
    }
}

/// Collation whose version differs from that with which indexes were built.
struct Mismatch {
    name: String,
    built: String,
    actual: String,
}

/// Returns the mismatches of a database by OID of the collation. If `before` is given, its indexes were built with the
/// versions that it offers.
fn mismatches(
    server: &ServerFacts,
    database: &DatabaseFacts,
    before: Option<&DatabaseFacts>,
) -> HashMap<u32, Mismatch> {
    let mut found = HashMap::new();
    let mut add = |oid: u32, name: &str, built: [Option<&String>; 2], actual: Option<&String>| {
        let Some(actual) = actual else { return };
        if let Some(built) = built.into_iter().flatten().find(|built| *built != actual) {
            found.insert(
                oid,
                Mismatch {
                    name: name.to_owned(),
                    built: built.clone(),
                    actual: actual.clone(),
                },
            );
        }
    };
    if let Some(entry) = entry(server, &database.name)
        && !entry.is_stable()
    {
        let earlier = before.and_then(|before| before.actual.as_ref());
        add(
            DEFAULT_COLLATION,
            "the default collation",
            [entry.recorded.as_ref(), earlier],
            database.actual.as_ref(),
        );
    }
    for one in &database.collations {
        let all = before.map_or(&[][..], |before| &before.collations);
        let earlier = all.iter().find(|other| other.name == one.name);
        add(
            one.oid,
            &one.name,
            [
                one.recorded.as_ref(),
                earlier.and_then(|other| other.actual.as_ref()),
            ],
            one.actual.as_ref(),
        );
    }
    found
}

fn versions(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let (server, databases) = checked(sides);
    let mut objects: Vec<UpgradeObject> = Vec::new();
    for (database, before) in databases {
        // A dump builds all indexes anew.
        let before = before.filter(|_| sides.is_pg_upgrade());
        let found = mismatches(server, database, before);
        for index in database.indexes.iter().filter(|one| !one.partitioned) {
            let Some(one) = index.collations.iter().find_map(|oid| found.get(oid)) else {
                continue;
            };
            objects.push(
                object(database, &index.name)
                    .detail(format!(
                        "{}: built with version {}, now {}",
                        one.name, one.built, one.actual
                    ))
                    .statement(reindex(server, &index.name)),
            );
        }
        let mut refreshed: Vec<(&u32, &Mismatch)> = found.iter().collect();
        refreshed.sort_by_key(|(oid, _)| **oid);
        for (oid, one) in refreshed {
            let statement = match *oid == DEFAULT_COLLATION {
                true if server.identity.major() < 15 => continue,
                true => format!(
                    "ALTER DATABASE {} REFRESH COLLATION VERSION",
                    quote_identifier(&database.name)
                ),
                false => format!("ALTER COLLATION {} REFRESH VERSION", one.name),
            };
            objects.push(
                object(database, &one.name)
                    .detail("after its indexes are rebuilt")
                    .statement(statement),
            );
        }
    }
    finding(
        (UpgradeCheck::CollationVersions, UpgradeSeverity::MendAfter),
        objects,
        "The host offers another version of collations than indexes were built with",
        "The order of texts may differ. An index in the old order returns wrong rows and misses duplicates. CHECK \
         constraints and range partitions over texts can be affected, too.",
        "Rebuild the indexes, then refresh the recorded versions.",
    )
}

/// Finds collations whose order may differ although all indexes were built anew.
fn other_order(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if sides.is_pg_upgrade() {
        return None;
    }
    let objects = sides.both().flat_map(|(old, new)| {
        let found = mismatches(sides.new, new, Some(old));
        let mut names: Vec<Mismatch> = found.into_values().collect();
        names.sort_by(|one, other| one.name.cmp(&other.name));
        names.into_iter().map(|one| {
            object(new, one.name)
                .detail(format!("version {} before, {} now", one.built, one.actual))
        })
    });
    finding(
        (UpgradeCheck::CollationVersions, UpgradeSeverity::Note),
        objects.collect(),
        "The new server's host offers other versions of collations",
        "ORDER BY, comparisons and ranges of texts may have other results.",
        "Compare the answers of a replay with result checksums.",
    )
}

fn unknown(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if sides.is_upgraded() || !sides.is_pg_upgrade() {
        return None;
    }
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let entry = entry(sides.old, &database.name).filter(|one| !one.is_stable());
        let used = |oid: u32| {
            let indexes = database.indexes.iter();
            indexes.filter(|one| one.collations.contains(&oid)).count()
        };
        let mut add = |name: &str, number: usize, version: &Option<String>| {
            if number > 0 {
                objects.push(object(database, name).detail(format!(
                    "indexes: {number}, version here: {}",
                    version.as_deref().unwrap_or("not reported by this version")
                )));
            }
        };
        if let Some(entry) = entry {
            let name = entry.locale.as_ref().or(entry.collate.as_ref());
            let name = name.map_or("the default collation", String::as_str);
            add(name, used(DEFAULT_COLLATION), &database.actual);
        }
        for one in &database.collations {
            add(&one.name, used(one.oid), &one.actual);
        }
    }
    finding(
        (UpgradeCheck::UnknownCollations, UpgradeSeverity::Note),
        objects,
        "Whether the new host has the same versions of collations is not known",
        "pg_upgrade keeps the indexes. On a host with another version of the C library or ICU, those over texts have to \
         be rebuilt.",
        "Run this command with --target after the upgrade of a copy on the new host.",
    )
}

fn search_indexes(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.passes(18) || !sides.is_pg_upgrade() {
        return None;
    }
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        if entry(sides.old, &database.name).is_none_or(|one| one.provider == "c") {
            continue;
        }
        let uses = |classes: &[String]| {
            classes
                .iter()
                .any(|one| SEARCH_CLASSES.contains(&one.as_str()))
        };
        let indexes = database.indexes.iter();
        let indexes = indexes.filter(|one| !one.partitioned && uses(&one.classes));
        objects.extend(
            indexes.map(|one| object(database, &one.name).statement(reindex(sides.new, &one.name))),
        );
    }
    finding(
        (UpgradeCheck::SearchIndexes, UpgradeSeverity::MendAfter),
        objects,
        "Indexes of full-text search and pg_trgm are in databases whose provider is not libc",
        "Version 18 uses the database's own provider for text search, and libc before. The release notes recommend to \
         rebuild these indexes after pg_upgrade.",
        "Rebuild the indexes.",
    )
}

fn locales(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for (old, new) in sides.both() {
        let (Some(was), Some(is)) = (entry(sides.old, &old.name), entry(sides.new, &new.name))
        else {
            continue;
        };
        let text = |one: &DatabaseEntry| {
            let parts = [&one.collate, &one.ctype, &one.locale]
                .map(|part| part.clone().unwrap_or_default());
            format!("{} {} {}", one.encoding, one.provider, parts.join(" "))
        };
        // Systems spell the encoding in a locale's name differently.
        let key = |one: &DatabaseEntry| text(one).to_lowercase().replace('-', "");
        if key(was) != key(is) {
            let detail = format!("{} → {}", text(was).trim(), text(is).trim());
            objects.push(object(new, &new.name).detail(detail).statement(format!(
                "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}",
                quote_identifier(&new.name),
                quote_literal(&was.encoding),
                quote_literal(was.collate.as_deref().unwrap_or_default()),
                quote_literal(was.ctype.as_deref().unwrap_or_default()),
            )));
        }
    }
    finding(
        (UpgradeCheck::DatabaseLocale, UpgradeSeverity::MendAfter),
        objects,
        "Databases of the new server have another encoding or locale",
        "ORDER BY, comparisons of texts, upper() and LIKE have other results, and indexes with text_pattern_ops are or are \
         not needed.",
        "Create the databases again with the locale of the old server, and restore them.",
    )
}
