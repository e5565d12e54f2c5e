//! Checks of types, and of objects that a version refuses.

use super::super::facts::{RefusedObject, TypedColumn};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, finding, object, server_object};

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
        nullable_children(sides),
        system_views(sides),
    ]
}

fn columns(sides: &Sides<'_>, is_removed: bool) -> Vec<UpgradeObject> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let columns = database.typed_columns.iter();
        // pg_upgrade checks stored values only, while no kind of column can be created with a removed type.
        let is_stored = |one: &TypedColumn| matches!(one.kind.as_str(), "r" | "m" | "i");
        let wanted = columns.filter(|one| {
            sides.removed_types.contains(&one.type_name) == is_removed
                && (is_removed || is_stored(one))
        });
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
    let TypedColumn { table, column, .. } = one;
    match one.kind.as_str() {
        "m" => format!("DROP MATERIALIZED VIEW {table}"),
        "i" => format!("DROP INDEX {table}"),
        "v" => format!("DROP VIEW {table}"),
        "c" => format!("ALTER TYPE {table} ALTER ATTRIBUTE {column} TYPE {instead}"),
        "f" => format!("ALTER FOREIGN TABLE {table} ALTER COLUMN {column} TYPE {instead}"),
        _ => format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE {instead}"),
    }
}

fn removed(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    finding(
        (UpgradeCheck::RemovedTypes, UpgradeSeverity::Blocks),
        columns(sides, true),
        format!("Columns have types that {} does not have", sides.new_name()),
        "The relations cannot be created on the new server, by any method.",
        "Change the columns before the upgrade. It rewrites tables; the statement may need USING. Create dropped views and \
         indexes again with another type.",
    )
}

fn unstable(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let severity = sides.for_pg_upgrade(UpgradeSeverity::Blocks, UpgradeSeverity::Note);
    finding(
        (UpgradeCheck::UnstableTypes, severity),
        columns(sides, false),
        "Columns have types whose stored values are not valid in another cluster",
        "pg_upgrade refuses them: types such as regproc store OIDs that it does not keep, row types of system relations \
         change with the version, and aclitem and sql_identifier changed their form. A dump has their text.",
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

/// Kind of [`RefusedObject`] that version 18 refuses.
const NULLABLE_CHILD: &str = "column without the parent's NOT NULL";
/// Kind of [`RefusedObject`] that `pg_upgrade` to 19 refuses.
const ADDRESS_INDEX: &str = "index of btree_gist over inet or cidr";

fn refused_objects(sides: &Sides<'_>, is_wanted: impl Fn(&str) -> bool) -> Vec<UpgradeObject> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let found = database.refused.iter().filter(|one| is_wanted(&one.kind));
        objects.extend(found.map(|one| describe(object(database, &one.name), one)));
    }
    objects
}

fn describe(object: UpgradeObject, refused: &RefusedObject) -> UpgradeObject {
    let object = object.detail(&refused.kind);
    match &refused.statement {
        Some(statement) => object.statement(statement),
        None => object,
    }
}

fn refused(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = refused_objects(sides, |kind| match kind {
        NULLABLE_CHILD => sides.passes(18) && sides.is_pg_upgrade(),
        ADDRESS_INDEX => sides.passes(19) && sides.is_pg_upgrade(),
        _ => sides.passes(14),
    });
    let of_server = sides.old.refused.iter();
    objects.extend(of_server.map(|one| describe(server_object(&one.name), one)));
    finding(
        (UpgradeCheck::RefusedObjects, UpgradeSeverity::Blocks),
        objects,
        format!(
            "Objects of the old server are refused by {}",
            sides.new_name()
        ),
        "Version 14 has no postfix operators, and functions such as array_append take anycompatiblearray; user-defined \
         conversions have another signature. pg_upgrade to 18 requires that children repeat NOT NULL of the parent. \
         Version 19 refuses line breaks in names, the encoding MULE_INTERNAL and RADIUS, and its pg_upgrade refuses indexes of \
         btree_gist over inet and cidr.",
        "Drop or change them before the upgrade, and create those that can be created again afterwards. GiST's own inet_ops \
         replaces the classes of btree_gist; the comment of each statement has the definition to create again.",
    )
}

/// A dump creates the children with NOT NULL of the parent.
fn nullable_children(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if sides.is_pg_upgrade() {
        return None;
    }
    finding(
        (UpgradeCheck::RefusedObjects, UpgradeSeverity::Note),
        refused_objects(sides, |kind| kind == NULLABLE_CHILD && sides.passes(18)),
        "Columns allow NULL although those of the parent table do not",
        "A restore fails if such a column has NULL in a row.",
        "Find and change such rows, then set NOT NULL.",
    )
}

fn system_views(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let known = &sides.new.system_columns;
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        let mut gone: Vec<(&str, String, &str)> = Vec::new();
        for one in &database.view_columns {
            let name = match &one.column {
                Some(column) if known.contains(&one.relation) => {
                    format!("{}.{column}", one.relation)
                }
                _ => one.relation.clone(),
            };
            if !known.contains(&name) {
                gone.push((&one.view, name, &one.statement));
            }
        }
        gone.sort();
        gone.dedup();
        objects.extend(gone.into_iter().map(|(view, name, statement)| {
            object(database, view)
                .detail(format!("reads {name}"))
                .statement(statement)
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
