//! Checks of replication slots, subscriptions and publications.

use super::super::facts::part::{SLOTS, SUBSCRIPTION_TABLES, SUBSCRIPTIONS};
use super::super::facts::{ServerFacts, Slot, Subscription};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::{Sides, counterpart, finding, object, server_object};
use crate::environment::{quote_identifier, quote_literal};

/// First version of the old server whose logical slots and subscriptions `pg_upgrade` keeps. Source: release notes of
/// version 17.
const KEPT: u32 = 17;

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        lost_slots(sides),
        unusable_slots(sides),
        needed_settings(sides),
        lost_subscriptions(sides),
        without_origin(sides),
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
            true => sides.new.was_read(SLOTS) && !is_new(slot),
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
    let lost = sides.old.subscriptions.iter().filter_map(|one| {
        let lack = match sides.is_upgraded() {
            true => Some(lack(sides, one)?),
            false => None,
        };
        let statement = format!(
            "ALTER SUBSCRIPTION {} REFRESH PUBLICATION WITH (copy_data = false)",
            quote_identifier(&one.name)
        );
        Some(UpgradeObject {
            database: one.database.clone(),
            name: one.name.clone(),
            detail: lack.map(str::to_owned),
            statement: (lack != Some(MISSING)).then_some(statement),
        })
    });
    finding(
        (UpgradeCheck::Subscriptions, UpgradeSeverity::MendAfter),
        lost.collect(),
        match sides.is_upgraded() {
            true => "Subscriptions of the new server lack their state",
            false => "The state of subscriptions does not reach the new server",
        },
        "They are created disabled, without their tables and without the position in the publisher's changes. pg_upgrade \
         keeps both if the old server is version 17 or later.",
        "Stop writes on the publisher until all changes are applied, enable the subscriptions, then refresh them.",
    )
}

/// State of a subscription that the new server does not have.
const MISSING: &str = "missing";

/// Returns what a subscription lacks on the new server. `None` if it is complete, or was not read.
fn lack(sides: &Sides<'_>, old: &Subscription) -> Option<&'static str> {
    if !sides.new.was_read(SUBSCRIPTIONS) {
        return None;
    }
    let database = counterpart(sides.old, sides.new, old.database.as_deref()?)?;
    let same =
        |one: &&Subscription| one.name == old.name && one.database.as_deref() == Some(database);
    let Some(new) = sides.new.subscriptions.iter().find(same) else {
        return Some(MISSING);
    };
    let has_tables = |server: &ServerFacts, database: &str| {
        let contents = server.contents.iter().find(|one| one.name == database)?;
        let is_read = contents.was_read(SUBSCRIPTION_TABLES);
        is_read.then(|| contents.subscription_tables.contains(&old.name))
    };
    let had_tables = has_tables(sides.old, old.database.as_deref()?) == Some(true);
    match (old.enabled, new.enabled) {
        (true, false) => Some("disabled"),
        _ if had_tables && has_tables(sides.new, database) == Some(false) => Some("without tables"),
        _ => None,
    }
}

/// Subscriptions that `pg_upgrade` refuses. Source: `check_old_cluster_subscription_state` in `pg_upgrade/check.c`.
fn without_origin(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !is_kept(sides) {
        return None;
    }
    let without = sides.old.subscriptions.iter().filter(|one| !one.has_origin);
    let objects = without.map(|one| UpgradeObject {
        database: one.database.clone(),
        ..server_object(&one.name)
    });
    finding(
        (UpgradeCheck::Subscriptions, UpgradeSeverity::Blocks),
        objects.collect(),
        "Subscriptions have no replication origin",
        "pg_upgrade refuses them.",
        "Create the subscriptions again.",
    )
}

/// Settings that `pg_upgrade` requires of the new data directory. Source: `pg_upgrade/check.c`.
fn needed_settings(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !is_kept(sides) || sides.is_upgraded() {
        return None;
    }
    let slots = sides.old.slots.iter();
    let slots = slots.filter(|one| one.kind == "logical").count();
    let subscriptions = sides.old.subscriptions.len();
    let mut objects = Vec::new();
    if slots > 0 {
        objects.push(server_object("wal_level").detail("logical"));
        objects.push(server_object("max_replication_slots").detail(format!("at least {slots}")));
    }
    if subscriptions > 0 {
        let name = match sides.new.identity.major() >= 18 {
            true => "max_active_replication_origins",
            false => "max_replication_slots",
        };
        objects.push(server_object(name).detail(format!("at least {subscriptions}")));
    }
    finding(
        (UpgradeCheck::ReplicationSlots, UpgradeSeverity::Note),
        objects,
        "pg_upgrade keeps logical slots and subscriptions only if the new data directory has these settings",
        "It refuses slots with changes that are not confirmed when the old server is stopped.",
        "Put the settings into the configuration of the new data directory, and have consumers confirm everything.",
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
