//! Checks of databases and of the objects in them.

use std::collections::HashSet;

use super::super::facts::part::{EXTENDED_STATISTICS, INDEXES, TABLES};
use super::super::facts::{DatabaseEntry, DatabaseFacts, Index};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::collations::reindex;
use super::{Sides, counterpart, finding, object, server_object};
use crate::environment::quote_identifier;

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        closed_databases(sides),
        missing_databases(sides),
        missing_tables(sides),
        missing_objects(sides),
        invalid_before(sides),
        invalid_after(sides),
        unvalidated(sides),
        prepared(sides),
        unlogged(sides),
        large_objects(sides),
        md5_passwords(sides),
    ]
}

fn closed_databases(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.is_pg_upgrade() {
        return None;
    }
    let wrong = sides.old.databases.iter();
    let wrong = wrong.filter(|one| one.allows_connections == (one.name == "template0"));
    let objects = wrong.map(|one| {
        let wanted = one.name != "template0";
        let name = quote_identifier(&one.name);
        let (detail, statement) = match (wanted, one.is_of_rehearsal) {
            (true, true) => (
                "allows no connections; a killed rehearsal left it",
                format!("DROP DATABASE {name}"),
            ),
            (true, false) => (
                "allows no connections",
                format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"),
            ),
            (false, _) => (
                "allows connections",
                format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
            ),
        };
        server_object(&one.name).detail(detail).statement(statement)
    });
    finding(
        (UpgradeCheck::Databases, UpgradeSeverity::Blocks),
        objects.collect(),
        "Databases do not allow connections as pg_upgrade needs",
        "pg_upgrade connects to each database except template0, and refuses others that allow no connections.",
        "Change them, or drop databases that are not needed.",
    )
}

fn missing_databases(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.is_upgraded() {
        return None;
    }
    let is_there = |name: &str| {
        let other = counterpart(sides.old, sides.new, name);
        other.is_some_and(|other| sides.new.databases.iter().any(|one| one.name == other))
    };
    let missing = sides.old.databases.iter();
    let is_kept = |one: &&DatabaseEntry| one.allows_connections && !one.is_of_rehearsal;
    let missing = missing.filter(|one| is_kept(one) && !is_there(&one.name));
    finding(
        (UpgradeCheck::Databases, UpgradeSeverity::MendAfter),
        missing.map(|one| server_object(&one.name)).collect(),
        "Databases are missing on the new server",
        "Their contents were not compared.",
        "Restore them. If the copy is to have a part only, drop them from the old copy, too. A database of the same name is \
         not compared if the URL of --target names it and that of --from another one.",
    )
}

/// Names of the kinds of relations in `pg_class`.
const KINDS: [(&str, &str); 6] = [
    ("r", "table"),
    ("p", "partitioned table"),
    ("m", "materialized view"),
    ("f", "foreign table"),
    ("v", "view"),
    ("S", "sequence"),
];

/// Kinds of relations that hold rows.
const KINDS_WITH_ROWS: [&str; 3] = ["r", "p", "m"];

fn missing_tables(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for (old, new) in sides.both() {
        objects.extend(missing_relations(old, new, true));
    }
    finding(
        (UpgradeCheck::MissingTables, UpgradeSeverity::MendAfter),
        objects,
        "Tables of the old server are missing on the new one, with their rows",
        "Statements that name them fail, and their rows are lost with the old server.",
        "Restore them with their rows, for example with `pg_dump --table`; the schema alone creates empty tables.",
    )
}

/// Returns the relations of the old database that the new one lacks: those with rows, or the others.
fn missing_relations(
    old: &DatabaseFacts,
    new: &DatabaseFacts,
    with_rows: bool,
) -> Vec<UpgradeObject> {
    if !new.was_read(TABLES) {
        return Vec::new();
    }
    let known = names(new);
    let relations = old.relations.iter();
    let relations =
        relations.filter(|one| KINDS_WITH_ROWS.contains(&one.kind.as_str()) == with_rows);
    // Those of an extension come with it.
    let missing = relations.filter(|one| one.is_own && !known.contains(one.name.as_str()));
    let kind = |kind: &str| {
        let mut kinds = KINDS.iter();
        kinds
            .find(|(short, _)| *short == kind)
            .map_or("relation", |(_, name)| name)
    };
    missing
        .map(|one| object(new, &one.name).detail(kind(&one.kind)))
        .collect()
}

fn missing_objects(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for (old, new) in sides.both() {
        objects.extend(missing_relations(old, new, false));
        let known = names(new);
        // No method takes an invalid index along, except that of a partitioned table.
        let indexes = old.indexes.iter();
        let indexes = indexes.filter(|one| one.valid || one.partitioned);
        let indexes = indexes.map(|one| (INDEXES, &one.name, "index", one.definition.clone()));
        let statistics = old.statistics.iter();
        let statistics = statistics.map(|one| {
            let create = one.definition.as_ref();
            let create = create.map(|create| format!("{create}; ANALYZE {}", one.table));
            (
                EXTENDED_STATISTICS,
                &one.name,
                "extended statistics",
                create,
            )
        });
        for (part, name, kind, create) in indexes.chain(statistics) {
            if !new.was_read(part) || known.contains(name.as_str()) {
                continue;
            }
            let mut missing = object(new, name).detail(kind);
            missing.statement = create;
            objects.push(missing);
        }
    }
    finding(
        (UpgradeCheck::MissingObjects, UpgradeSeverity::MendAfter),
        objects,
        "Objects of the old server are missing on the new one",
        "Statements that name them fail, and those that use a missing index or extended statistics get other plans.",
        "Create them from the schema of the old server: `pg_dump --schema-only` has the definitions of all.",
    )
}

fn names(database: &DatabaseFacts) -> HashSet<&str> {
    let relations = database.relations.iter().map(|one| one.name.as_str());
    let indexes = database.indexes.iter().map(|one| one.name.as_str());
    let statistics = database.statistics.iter().map(|one| one.name.as_str());
    relations.chain(indexes).chain(statistics).collect()
}

fn invalid_before(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let invalid = database.indexes.iter().filter(|one| !one.valid);
        objects.extend(invalid.map(|one| invalid_index(database, one, reindex(sides.old, one))));
    }
    finding(
        (UpgradeCheck::InvalidIndexes, UpgradeSeverity::Note),
        objects,
        "Indexes of the old server are invalid",
        "No plan uses them. pg_dump and pg_upgrade leave them out, except those of partitioned tables, which stay invalid.",
        "Rebuild or drop them before the upgrade.",
    )
}

fn invalid_after(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for (_, new) in sides.both() {
        let invalid = new.indexes.iter().filter(|one| !one.valid);
        objects.extend(invalid.map(|one| invalid_index(new, one, reindex(sides.new, one))));
    }
    finding(
        (UpgradeCheck::InvalidIndexes, UpgradeSeverity::MendAfter),
        objects,
        "Indexes of the new server are invalid",
        "No plan uses them, while each write maintains them. pg_upgrade marks indexes invalid that have to be rebuilt.",
        "Rebuild them.",
    )
}

fn invalid_index(database: &DatabaseFacts, index: &Index, statement: String) -> UpgradeObject {
    let object = object(database, &index.name).detail(format!("on {}", index.table));
    match index.partitioned {
        // It becomes valid when each partition has an index that is attached.
        true => object,
        false => object.statement(statement),
    }
}

fn unvalidated(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        objects.extend(database.constraints.iter().map(|one| {
            object(database, &one.name)
                .detail(format!("on {}", one.table))
                .statement(format!(
                    "ALTER TABLE {} VALIDATE CONSTRAINT {}",
                    one.table, one.name
                ))
        }));
    }
    finding(
        (UpgradeCheck::UnvalidatedConstraints, UpgradeSeverity::Note),
        objects,
        "Constraints were never validated",
        "Rows may breach them. They stay NOT VALID on the new server, and a restore does not check them.",
        "Validate them before the upgrade, to learn of such rows in time.",
    )
}

fn prepared(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let objects = sides.old.prepared.iter().map(|one| UpgradeObject {
        database: Some(one.database.clone()),
        name: one.gid.clone(),
        detail: Some(format!("prepared {}", one.prepared)),
        // Which of COMMIT PREPARED and ROLLBACK PREPARED is right is known to the coordinator only.
        statement: None,
    });
    finding(
        (UpgradeCheck::PreparedTransactions, UpgradeSeverity::Blocks),
        objects.collect(),
        "The old server has prepared transactions",
        "pg_upgrade refuses them, and a dump does not have their changes.",
        "Commit or roll back each one, as its coordinator decides.",
    )
}

fn unlogged(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let tables = database.relations.iter();
        let tables =
            tables.filter(|one| one.persistence == "u" && matches!(one.kind.as_str(), "r" | "m"));
        objects.extend(tables.map(|one| object(database, &one.name)));
    }
    finding(
        (UpgradeCheck::UnloggedTables, UpgradeSeverity::Note),
        objects,
        "Tables are unlogged",
        "Standbys, base backups and replication have no rows of theirs, so they are empty after an upgrade by one of these. \
         pg_upgrade and dumps of the primary have the rows.",
        "If the rows matter, copy them from the primary.",
    )
}

fn large_objects(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let with = sides
        .old
        .contents
        .iter()
        .filter(|one| one.large_objects > 0);
    let objects = with
        .map(|one| object(one, "large objects").detail(format!("number: {}", one.large_objects)));
    finding(
        (UpgradeCheck::LargeObjects, UpgradeSeverity::Note),
        objects.collect(),
        "Databases have large objects",
        "Logical replication does not copy them. A dump of chosen tables or schemas leaves them out unless pg_dump is called \
         with --large-objects (--blobs before 16). Millions of them make an upgrade long.",
        "Remove those that nothing refers to with vacuumlo, and measure the duration on a copy.",
    )
}

fn md5_passwords(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.passes(18) {
        return None;
    }
    let objects = sides
        .old
        .md5_roles
        .iter()
        .map(|name| server_object(name).detail("MD5 password"));
    finding(
        (UpgradeCheck::Md5Passwords, UpgradeSeverity::Note),
        objects.collect(),
        "Roles have MD5 passwords, which version 18 deprecates",
        "They work in version 18, with a warning when they are set. A later version will refuse them.",
        "Set password_encryption to scram-sha-256, and have each role set its password again (\\password in psql).",
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::{Relation, ServerFacts};
    use super::super::super::result::{NewServerKind, UpgradeMethod};
    use super::*;

    fn server(relations: &[(&str, &str)]) -> ServerFacts {
        let relation = |&(name, kind): &(&str, &str)| Relation {
            name: name.to_owned(),
            kind: kind.to_owned(),
            is_own: true,
            ..Relation::default()
        };
        let shop = DatabaseFacts {
            name: "shop".to_owned(),
            relations: relations.iter().map(relation).collect(),
            ..DatabaseFacts::default()
        };
        ServerFacts {
            contents: vec![shop],
            ..ServerFacts::default()
        }
    }

    #[test]
    fn missing_relations_with_rows_are_found_separately_from_those_without() {
        let relations = [
            ("public.t", "r"),
            ("public.m", "m"),
            ("public.v", "v"),
            ("public.kept", "r"),
        ];
        let old = server(&relations);
        let new = server(&relations[3..]);
        let sides = Sides {
            old: &old,
            new: &new,
            kind: NewServerKind::Upgraded,
            method: UpgradeMethod::PgUpgrade,
            removed_types: &[],
            pairs: &[("shop".to_owned(), "shop".to_owned())],
        };
        let found = check(&sides);
        let names = |wanted: UpgradeCheck| -> Vec<&str> {
            let findings = found.iter().flatten();
            let objects = findings
                .filter(|one| one.check == wanted)
                .flat_map(|one| &one.objects);
            objects.map(|object| object.name.as_str()).collect()
        };
        assert_eq!(names(UpgradeCheck::MissingTables), ["public.t", "public.m"]);
        assert_eq!(names(UpgradeCheck::MissingObjects), ["public.v"]);
    }
}
