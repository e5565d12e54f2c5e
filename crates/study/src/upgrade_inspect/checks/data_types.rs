//! Checks of types, and of objects that a version refuses.

use super::super::facts::TypedColumn;
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, finding, object};

/// Types in place of those that a version removed or whose stored form is not kept.
const INSTEAD: [(&str, &str); 6] = [
    ("abstime", "timestamp with time zone"),
    ("reltime", "interval"),
    ("tinterval", "tstzrange"),
    ("aclitem", "text"),
    ("sql_identifier", "text"),
    ("unknown", "text"),
];

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        removed(sides),
        unstable(sides),
        with_oids(sides),
        refused(sides),
        system_views(sides),
    ]
}

fn columns(sides: &Sides<'_>, is_removed: bool) -> Vec<UpgradeObject> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let columns = database.typed_columns.iter();
        let wanted =
            columns.filter(|one| sides.removed_types.contains(&one.type_name) == is_removed);
        objects.extend(wanted.map(|one| {
            object(database, format!("{}.{}", one.table, one.column))
                .detail(format!("type {}", one.type_name))
                .statement(alter(one))
        }));
    }
    objects
}

fn alter(one: &TypedColumn) -> String {
    let known = INSTEAD.iter().find(|(name, _)| *name == one.type_name);
    let instead = known.map_or("text", |(_, instead)| instead);
    format!(
        "ALTER TABLE {} ALTER COLUMN {} TYPE {instead}",
        one.table, one.column
    )
}

fn removed(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    finding(
        (UpgradeCheck::RemovedTypes, UpgradeSeverity::Blocks),
        columns(sides, true),
        format!("Columns have types that {} does not have", sides.new_name()),
        "The tables cannot be created on the new server, by any method.",
        "Change the columns before the upgrade. It rewrites the tables; the statement may need USING.",
    )
}

fn unstable(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let severity = sides.for_pg_upgrade(UpgradeSeverity::Blocks, UpgradeSeverity::Note);
    finding(
        (UpgradeCheck::UnstableTypes, severity),
        columns(sides, false),
        "Columns have types whose stored values are not valid in another cluster",
        "pg_upgrade refuses them: types such as regproc store OIDs that it does not keep, and aclitem and \
         sql_identifier changed their form. A dump has their text.",
        "Change the columns before the upgrade, or use a dump. The change rewrites the tables.",
    )
}

fn with_oids(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.passes(12) {
        return None;
    }
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let tables = database.relations.iter().filter(|one| one.has_oids);
        objects.extend(tables.map(|one| {
            object(database, &one.name)
                .statement(format!("ALTER TABLE {} SET WITHOUT OIDS", one.name))
        }));
    }
    let severity = sides.for_pg_upgrade(UpgradeSeverity::Blocks, UpgradeSeverity::Note);
    finding(
        (UpgradeCheck::TablesWithOids, severity),
        objects,
        "Tables were created WITH OIDS, which version 12 removed",
        "pg_upgrade refuses them. A dump loses the column oid.",
        "If the application reads oid, add a column first. The statement rewrites the table.",
    )
}

fn refused(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let found = database
            .refused
            .iter()
            .filter(|one| match one.kind.as_str() {
                "column without the parent's NOT NULL" => sides.passes(18),
                _ => sides.passes(14),
            });
        objects.extend(found.map(|one| {
            let object = object(database, &one.name).detail(&one.kind);
            match &one.statement {
                Some(statement) => object.statement(statement),
                None => object,
            }
        }));
    }
    finding(
        (UpgradeCheck::RefusedObjects, UpgradeSeverity::Blocks),
        objects,
        format!(
            "{} cannot create objects of the old server",
            sides.new_name()
        ),
        "Version 14 has no postfix operators, and functions such as array_append take anycompatiblearray; user-defined \
         conversions have another signature. Version 18 requires that children repeat NOT NULL of the parent.",
        "Drop or change them before the upgrade, and create those that can be created again afterwards.",
    )
}

fn system_views(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let known = &sides.new.system_columns;
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let mut gone: Vec<(&str, String)> = Vec::new();
        for one in &database.view_columns {
            let name = match &one.column {
                Some(column) if known.contains(&one.relation) => {
                    format!("{}.{column}", one.relation)
                }
                _ => one.relation.clone(),
            };
            if !known.contains(&name) {
                gone.push((&one.view, name));
            }
        }
        gone.sort();
        gone.dedup();
        objects.extend(gone.into_iter().map(|(view, name)| {
            object(database, view)
                .detail(format!("reads {name}"))
                .statement(format!("DROP VIEW {view}"))
        }));
    }
    finding(
        (UpgradeCheck::SystemViews, UpgradeSeverity::Blocks),
        objects,
        format!(
            "Views read columns of system views that {} does not have",
            sides.new_name()
        ),
        "The views cannot be created on the new server, and the restore of the schema stops.",
        "Drop the views before the upgrade, and create them for the new version afterwards.",
    )
}
