//! Checks of collations and locales.

use std::collections::HashMap;

use super::super::facts::{DEFAULT_COLLATION, DatabaseEntry, DatabaseFacts, Index, ServerFacts};
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
pub(super) fn reindex(server: &ServerFacts, index: &Index) -> String {
    // Indexes of exclusion constraints cannot be rebuilt concurrently.
    match server.identity.major() >= CONCURRENT_REINDEX && !index.exclusion {
        true => format!("REINDEX INDEX CONCURRENTLY {}", index.name),
        false => format!("REINDEX INDEX {}", index.name),
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
                    .statement(reindex(server, index)),
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

/// Finds collations of which it is not known whether their indexes have to be rebuilt.
fn unknown(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.is_pg_upgrade() {
        return None;
    }
    let mut objects = Vec::new();
    match sides.is_upgraded() {
        true => {
            for (old, new) in sides.both() {
                add_collations(
                    sides.new,
                    new,
                    |used| !is_known(sides, old, used),
                    &mut objects,
                );
            }
        }
        false => {
            for database in &sides.old.contents {
                add_collations(sides.old, database, |_| true, &mut objects);
            }
        }
    }
    let (message, remedy) = match sides.is_upgraded() {
        true => (
            "The versions of collations with which indexes were built are not known",
            "Compare the versions of the C library of both hosts, such as by `ldd --version`. If they differ, or are not known, \
             rebuild the indexes.",
        ),
        false => (
            "Whether the new host has the same versions of collations is not known",
            "Run this command with --target after the upgrade of a copy on the new host.",
        ),
    };
    finding(
        (UpgradeCheck::UnknownCollations, UpgradeSeverity::Note),
        objects,
        message,
        "pg_upgrade keeps the indexes. On a host with another version of the C library or ICU, those over texts have to \
         be rebuilt.",
        remedy,
    )
}

/// Collation that indexes of a database use.
#[derive(Clone, Copy)]
enum UsedCollation<'a> {
    Default,
    Named(&'a str),
}

/// Whether the old server recorded the version with which indexes were built and pg_upgrade keeps it, or the old host
/// reports its version. What the old server does not record, the new one records at the creation on the new host.
fn is_known(sides: &Sides<'_>, old: &DatabaseFacts, used: UsedCollation<'_>) -> bool {
    match used {
        UsedCollation::Default => {
            let entry = entry(sides.old, &old.name);
            entry.is_some_and(|one| one.recorded.is_some()) || old.actual.is_some()
        }
        UsedCollation::Named(name) => {
            // initdb creates the collations of the system anew.
            let is_kept = !name.starts_with("pg_catalog.");
            let before = old.collations.iter().find(|one| one.name == name);
            before.is_some_and(|one| one.actual.is_some() || is_kept && one.recorded.is_some())
        }
    }
}

/// Adds the collations of a database that indexes use and whose order depends on the host.
fn add_collations(
    server: &ServerFacts,
    database: &DatabaseFacts,
    is_wanted: impl Fn(UsedCollation<'_>) -> bool,
    objects: &mut Vec<UpgradeObject>,
) {
    let mut add = |name: &str, oid: u32, version: &Option<String>| {
        let indexes = database.indexes.iter();
        let number = indexes.filter(|one| one.collations.contains(&oid)).count();
        if number > 0 {
            objects.push(object(database, name).detail(format!(
                "indexes: {number}, version here: {}",
                version.as_deref().unwrap_or("not reported by this version")
            )));
        }
    };
    let entry = entry(server, &database.name).filter(|one| !one.is_stable());
    if let Some(entry) = entry.filter(|_| is_wanted(UsedCollation::Default)) {
        let name = entry.locale.as_ref().or(entry.collate.as_ref());
        let name = name.map_or("the default collation", String::as_str);
        add(name, DEFAULT_COLLATION, &database.actual);
    }
    for one in &database.collations {
        if is_wanted(UsedCollation::Named(&one.name)) {
            add(&one.name, one.oid, &one.actual);
        }
    }
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
            indexes.map(|one| object(database, &one.name).statement(reindex(sides.new, one))),
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
            let statement = create_database(sides.new, &format!("{}_new", new.name), was);
            objects.push(object(new, &new.name).detail(detail).statement(statement));
        }
    }
    finding(
        (UpgradeCheck::DatabaseLocale, UpgradeSeverity::MendAfter),
        objects,
        "Databases of the new server have another encoding or locale",
        "ORDER BY, comparisons of texts, upper() and LIKE have other results, and indexes with text_pattern_ops are or are \
         not needed.",
        "Create the databases under another name with the locale of the old server, restore them, and rename them.",
    )
}

/// Returns the statement that creates a database with the locale of another one.
fn create_database(server: &ServerFacts, name: &str, like: &DatabaseEntry) -> String {
    let text = |text: &Option<String>| quote_literal(text.as_deref().unwrap_or_default());
    let provider = match like.provider.as_str() {
        "i" => format!(" LOCALE_PROVIDER icu ICU_LOCALE {}", text(&like.locale)),
        "b" => format!(
            " LOCALE_PROVIDER builtin BUILTIN_LOCALE {}",
            text(&like.locale)
        ),
        // A database copies the provider of its template.
        _ if server.identity.major() >= 15 => " LOCALE_PROVIDER libc".to_owned(),
        _ => String::new(),
    };
    format!(
        "CREATE DATABASE {} TEMPLATE template0 ENCODING {}{provider} LC_COLLATE {} LC_CTYPE {}",
        quote_identifier(name),
        quote_literal(&like.encoding),
        text(&like.collate),
        text(&like.ctype),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::facts::Identity;
    use super::super::super::result::{NewServerKind, UpgradeMethod};
    use super::*;

    /// Builds a server with one database whose index uses the default collation and another one.
    fn server(number: u32, recorded: Option<&str>, actual: Option<&str>) -> ServerFacts {
        let entry = json!({"name": "shop", "allows_connections": true, "encoding": "UTF8", "collate": "en_US.UTF-8",
            "ctype": "en_US.UTF-8", "provider": "c", "locale": null, "recorded": recorded});
        let index = json!({"name": "public.i", "table": "public.t", "valid": true, "partitioned": false,
            "exclusion": false, "classes": [], "collations": [100, 200]});
        let collation =
            json!({"oid": 200, "name": "public.swedish", "recorded": recorded, "actual": actual});
        ServerFacts {
            identity: Identity {
                number,
                ..Identity::default()
            },
            databases: vec![serde_json::from_value(entry).unwrap()],
            contents: vec![DatabaseFacts {
                name: "shop".to_owned(),
                actual: actual.map(str::to_owned),
                indexes: vec![serde_json::from_value(index).unwrap()],
                collations: vec![serde_json::from_value(collation).unwrap()],
                ..DatabaseFacts::default()
            }],
            ..ServerFacts::default()
        }
    }

    /// Returns the objects of both findings.
    fn names(old: &ServerFacts, new: &ServerFacts) -> [Vec<String>; 2] {
        let sides = Sides {
            old,
            new,
            kind: NewServerKind::Upgraded,
            method: UpgradeMethod::PgUpgrade,
            removed_types: &[],
            pairs: &[("shop".to_owned(), "shop".to_owned())],
        };
        [versions(&sides), unknown(&sides)].map(|found| {
            let objects = found.map_or_else(Vec::new, |found| found.objects);
            objects.into_iter().map(|one| one.name).collect()
        })
    }

    #[test]
    fn collations_whose_earlier_version_no_server_reports_are_unknown() {
        let new = server(180_000, Some("2.39"), Some("2.39"));
        let [mismatches, unknown] = names(&server(120_000, None, None), &new);
        assert_eq!(mismatches, Vec::<String>::new());
        assert_eq!(unknown, ["en_US.UTF-8", "public.swedish"]);
    }

    #[test]
    fn collations_of_version_13_are_compared_by_what_its_host_reports() {
        let new = server(180_000, Some("2.39"), Some("2.39"));
        let [mismatches, unknown] = names(&server(130_000, None, Some("2.36")), &new);
        assert!(
            mismatches.contains(&"public.i".to_owned()),
            "{mismatches:?}"
        );
        assert_eq!(unknown, Vec::<String>::new());
        let [mismatches, unknown] = names(&server(130_000, None, Some("2.39")), &new);
        assert_eq!([mismatches, unknown], [const { Vec::<String>::new() }; 2]);
    }
}
