//! Checks of replication slots, subscriptions and publications.

use super::super::facts::Slot;
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, finding, object, server_object};
use crate::environment::{quote_identifier, quote_literal};

/// First version of the old server whose logical slots and subscriptions `pg_upgrade` keeps. Source: release notes of
/// version 17.
const KEPT: u32 = 17;

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        lost_slots(sides),
        unusable_slots(sides),
        lost_subscriptions(sides),
        unsynchronised(sides),
        no_identity(sides),
    ]
}

/// Whether the upgrade keeps logical slots and subscriptions.
fn is_kept(sides: &Sides<'_>) -> bool {
    sides.is_pg_upgrade() && sides.old.identity.major() >= KEPT
}

fn lost_slots(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let is_new = |slot: &Slot| sides.new.slots.iter().any(|one| one.name == slot.name);
    let lost = sides
        .old
        .slots
        .iter()
        .filter(|slot| match sides.is_upgraded() {
            true => !is_new(slot),
            false => slot.kind != "logical" || !is_kept(sides),
        });
    let objects = lost.map(|slot| UpgradeObject {
        database: slot.database.clone(),
        statement: (slot.kind == "physical").then(|| {
            format!(
                "SELECT pg_create_physical_replication_slot({})",
                quote_literal(&slot.name)
            )
        }),
        ..server_object(&slot.name).detail(slot.kind.as_str())
    });
    let (message, remedy) = match sides.is_upgraded() {
        true => (
            "Replication slots are missing on the new server",
            "Create them before the traffic arrives.",
        ),
        false => (
            "Replication slots do not reach the new server",
            "Create them on the new server before the traffic arrives.",
        ),
    };
    finding(
        (UpgradeCheck::ReplicationSlots, UpgradeSeverity::MendAfter),
        objects.collect(),
        message,
        "Standbys have to be built anew for a new major version. A consumer of a logical slot misses the changes between \
         the last one that it confirmed and the creation of the new slot; pg_upgrade keeps logical slots if the old \
         server is version 17 or later.",
        format!(
            "{remedy} Have consumers of logical slots confirm everything before the old server stops."
        ),
    )
}

fn unusable_slots(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !is_kept(sides) {
        return None;
    }
    let objects = sides.old.slots.iter().filter_map(|slot| {
        let reason = slot.lost.as_ref().filter(|_| slot.kind == "logical")?;
        let statement = format!(
            "SELECT pg_drop_replication_slot({})",
            quote_literal(&slot.name)
        );
        Some(
            server_object(&slot.name)
                .detail(reason)
                .statement(statement),
        )
    });
    finding(
        (UpgradeCheck::ReplicationSlots, UpgradeSeverity::Blocks),
        objects.collect(),
        "Logical replication slots are unusable",
        "pg_upgrade refuses logical slots that are invalid or whose WAL was removed.",
        "Drop them.",
    )
}

fn lost_subscriptions(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if is_kept(sides) {
        return None;
    }
    let objects = sides.old.subscriptions.iter().map(|one| UpgradeObject {
        database: one.database.clone(),
        statement: Some(format!(
            "ALTER SUBSCRIPTION {} REFRESH PUBLICATION WITH (copy_data = false)",
            quote_identifier(&one.name)
        )),
        ..server_object(&one.name)
    });
    finding(
        (UpgradeCheck::Subscriptions, UpgradeSeverity::MendAfter),
        objects.collect(),
        "The state of subscriptions does not reach the new server",
        "They are created disabled, without their tables and without the position in the publisher's changes. pg_upgrade \
         keeps both if the old server is version 17 or later.",
        "Stop writes on the publisher until all changes are applied, enable the subscriptions, then refresh them.",
    )
}

fn unsynchronised(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !is_kept(sides) {
        return None;
    }
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        objects.extend(
            database
                .unsynchronised
                .iter()
                .map(|name| object(database, name)),
        );
    }
    finding(
        (UpgradeCheck::Subscriptions, UpgradeSeverity::Blocks),
        objects,
        "Tables of subscriptions are being synchronised",
        "pg_upgrade refuses tables that are neither initialised nor ready.",
        "Wait until pg_subscription_rel has no other state than i and r.",
    )
}

fn no_identity(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut objects = Vec::new();
    for database in &sides.old.contents {
        objects.extend(database.no_identity.iter().map(|one| {
            object(database, &one.name)
                .detail(format!("published by {}", one.publications))
                .statement(format!("ALTER TABLE {} REPLICA IDENTITY FULL", one.name))
        }));
    }
    finding(
        (UpgradeCheck::ReplicaIdentity, UpgradeSeverity::Note),
        objects,
        "Published tables have no replica identity",
        "UPDATE and DELETE fail on them while they are published, also during an upgrade by logical replication.",
        "Add a primary key, which costs less than the statement shown.",
    )
}
