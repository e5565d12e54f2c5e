//! Checks of extensions and libraries.

use super::super::facts::part::{EXTENSIONS, OFFERED};
use super::super::facts::{DatabaseFacts, Extension};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, finding, object, server_object};
use crate::environment::quote_identifier;

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        not_offered(sides),
        not_offered_without_library(sides),
        not_created(sides),
        versions(sides),
        libraries(sides),
    ]
}

fn installed<'a>(
    sides: &Sides<'a>,
) -> impl Iterator<Item = (&'a DatabaseFacts, &'a Extension)> + use<'a> {
    let databases = sides.old.contents.iter();
    databases.flat_map(|database| database.extensions.iter().map(move |one| (database, one)))
}

/// Returns the extensions that the new server does not offer: those without which the upgrade fails, or the others.
fn missing(sides: &Sides<'_>, blocks: bool) -> Vec<UpgradeObject> {
    if !sides.new.was_read(OFFERED) {
        return Vec::new();
    }
    let missing = installed(sides).filter(|(_, one)| {
        // pg_upgrade creates an extension from the catalogue, without the files of its SQL.
        let is_needed = one.has_library || !sides.is_pg_upgrade();
        !sides.new.offered.contains_key(&one.name) && is_needed == blocks
    });
    let describe = |(database, one): (&DatabaseFacts, &Extension)| {
        object(database, &one.name).detail(format!("version {}", one.version))
    };
    missing.map(describe).collect()
}

fn not_offered_without_library(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    finding(
        (UpgradeCheck::MissingExtensions, UpgradeSeverity::Note),
        missing(sides, false),
        format!(
            "Extensions without a library are not offered by {}",
            sides.new_name()
        ),
        "pg_upgrade keeps them. CREATE EXTENSION and ALTER EXTENSION UPDATE fail on the new server, and so does the restore \
         of a dump.",
        "Install their packages for the new version on the new server.",
    )
}

fn not_offered(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    finding(
        (UpgradeCheck::MissingExtensions, UpgradeSeverity::Blocks),
        missing(sides, true),
        format!("Extensions are not offered by {}", sides.new_name()),
        "CREATE EXTENSION fails on the new server, and pg_upgrade stops if a library is missing.",
        "Install their packages for the new version on the new server, or drop the extensions first.",
    )
}

fn not_created(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    let both = sides.both();
    for (old, new) in both.filter(|(_, new)| new.was_read(EXTENSIONS)) {
        let lost = old.extensions.iter().filter(|one| {
            sides.new.offered.contains_key(&one.name)
                && !new.extensions.iter().any(|other| other.name == one.name)
        });
        objects.extend(lost.map(|one| {
            object(new, &one.name)
                .detail(format!("version {} on the old server", one.version))
                .statement(format!("CREATE EXTENSION {}", quote_identifier(&one.name)))
        }));
    }
    finding(
        (UpgradeCheck::MissingExtensions, UpgradeSeverity::MendAfter),
        objects,
        "Extensions of the old server are missing in databases of the new one",
        "Statements that use them fail.",
        "Create them.",
    )
}

fn versions(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let other = |one: &Extension| {
        let offered = sides.new.offered.get(&one.name)?;
        (*offered != one.version).then(|| offered.clone())
    };
    let describe = |database: &DatabaseFacts, one: &Extension, offered: String| -> UpgradeObject {
        object(database, &one.name)
            .detail(format!("version {}, offered {offered}", one.version))
            .statement(format!(
                "ALTER EXTENSION {} UPDATE",
                quote_identifier(&one.name)
            ))
    };
    let objects: Vec<UpgradeObject> = match sides.is_upgraded() {
        true => {
            let databases = sides.new.contents.iter();
            let all =
                databases.flat_map(|facts| facts.extensions.iter().map(move |one| (facts, one)));
            all.filter_map(|(facts, one)| Some(describe(facts, one, other(one)?)))
                .collect()
        }
        // A dump creates extensions in the offered version.
        false if !sides.is_pg_upgrade() => Vec::new(),
        false => installed(sides)
            .filter_map(|(facts, one)| Some(describe(facts, one, other(one)?)))
            .collect(),
    };
    finding(
        (UpgradeCheck::ExtensionVersions, UpgradeSeverity::MendAfter),
        objects,
        "Extensions have another version than the new server offers",
        "pg_upgrade keeps the SQL objects of the old version, while the library is the new one.",
        "Update them after the upgrade, in each database.",
    )
}

fn libraries(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects: Vec<UpgradeObject> = Vec::new();
    for database in &sides.old.contents {
        let names = database.libraries.iter();
        objects.extend(
            names.map(|name| {
                object(database, name).detail("of functions in C without an extension")
            }),
        );
    }
    for name in [
        "shared_preload_libraries",
        "session_preload_libraries",
        "local_preload_libraries",
    ] {
        let Some(setting) = sides
            .old
            .settings
            .get(name)
            .filter(|one| one.is_configured())
        else {
            continue;
        };
        let libraries = setting.setting.as_deref().unwrap_or_default().split(',');
        let libraries = libraries
            .map(str::trim)
            .filter(|library| !library.is_empty());
        objects
            .extend(libraries.map(|library| server_object(library).detail(format!("in {name}"))));
    }
    finding(
        (UpgradeCheck::Libraries, UpgradeSeverity::Note),
        objects,
        "The new server needs libraries",
        "A server does not start if a library in shared_preload_libraries is missing, and pg_upgrade stops if one of a \
         function is. Whether the new server has them cannot be asked over a connection.",
        "Install them for the new version on the new server.",
    )
}
