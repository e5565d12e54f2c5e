//! Findings that the old server had before the upgrade.

use std::collections::BTreeSet;

use connect::Target;
use serde::{Deserialize, Serialize};

use crate::environment::FindInstallation;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::upgrade_inspect::{
    NewServer, UncheckedPart, UpgradeCheck, UpgradeInspectRequest, UpgradeInspection,
    UpgradeMethod, UpgradeObject, UpgradeSeverity, inspect_upgrade,
};

/// Inspects a server as an upgraded one, without the old one: it is its own old side.
///
/// # Errors
/// If the server cannot be reached.
pub(crate) fn inspect_alone(
    target: &Target,
    find: FindInstallation,
    interrupt: &Interrupt,
) -> Result<UpgradeInspection, Failure> {
    let request = UpgradeInspectRequest {
        from: target,
        to: NewServer::Upgraded {
            target,
            major: None,
        },
        method: UpgradeMethod::PgUpgrade,
        find,
    };
    let mut inspection = inspect_upgrade(&request, interrupt)?;
    keep_one_side(&mut inspection);
    Ok(inspection)
}

/// Removes the unchecked parts of the old side, which is the same server. A database that the old side cannot read is not tried
/// again, so that only the old side names it.
fn keep_one_side(inspection: &mut UpgradeInspection) {
    let UpgradeInspection {
        databases,
        unchecked,
        ..
    } = inspection;
    let is_unread = |one: &UncheckedPart| {
        let name = one.database.as_ref();
        name.is_some_and(|name| !databases.contains(name))
    };
    unchecked.retain(|one| one.on_new_server || is_unread(one));
    for one in unchecked {
        one.on_new_server = true;
    }
}

/// Objects that were to be mended before the upgrade: check, database and name. The name of an object with other versions has
/// these, too: an upgrade may change them again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownFindings(BTreeSet<(String, Option<String>, String)>);

impl KnownFindings {
    /// Collects them from the inspection of the old server alone.
    pub(crate) fn new(inspection: &UpgradeInspection) -> Self {
        let all = inspection.findings.iter();
        let all = all.filter(|one| one.severity == UpgradeSeverity::MendAfter);
        let keys = all.flat_map(|one| one.objects.iter().map(|object| key(one.check, object)));
        KnownFindings(keys.collect())
    }

    /// Removes the known objects from the findings that are to be mended. Returns a note on them, if there are any.
    pub(super) fn remove_from(&self, inspection: &mut UpgradeInspection) -> Option<String> {
        let mut removed = Vec::new();
        for one in &mut inspection.findings {
            if one.severity == UpgradeSeverity::MendAfter {
                let check = one.check;
                let (old, new) = std::mem::take(&mut one.objects)
                    .into_iter()
                    .partition(|object| self.0.contains(&key(check, object)));
                one.objects = new;
                let old: Vec<UpgradeObject> = old;
                removed.extend(
                    old.iter()
                        .map(|object| format!("{} ({})", object.name, check.name())),
                );
            }
        }
        inspection
            .findings
            .retain(|one| one.severity != UpgradeSeverity::MendAfter || !one.objects.is_empty());
        (!removed.is_empty()).then(|| {
            format!(
                "the old server had {} findings of the inspection before the upgrade; they are no difference: {}",
                removed.len(),
                removed.join(", ")
            )
        })
    }
}

fn key(check: UpgradeCheck, object: &UpgradeObject) -> (String, Option<String>, String) {
    let name = match (check, &object.detail) {
        (UpgradeCheck::CollationVersions | UpgradeCheck::ExtensionVersions, Some(versions)) => {
            format!("{}, {versions}", object.name)
        }
        _ => object.name.clone(),
    };
    (check.name().to_owned(), object.database.clone(), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_inspect::{NewServerKind, UpgradeFinding};

    fn inspection(objects: &[&str]) -> UpgradeInspection {
        let objects = objects.iter().map(|name| UpgradeObject {
            database: Some("shop".to_owned()),
            name: (*name).to_owned(),
            ..UpgradeObject::default()
        });
        UpgradeInspection {
            from_version: String::new(),
            to_version: String::new(),
            new_server: NewServerKind::Upgraded,
            method: UpgradeMethod::PgUpgrade,
            databases: Vec::new(),
            findings: vec![UpgradeFinding {
                check: UpgradeCheck::InvalidIndexes,
                severity: UpgradeSeverity::MendAfter,
                message: String::new(),
                reason: String::new(),
                remedy: String::new(),
                objects: objects.collect(),
            }],
            unchecked: Vec::new(),
        }
    }

    #[test]
    fn finding_of_the_old_server_is_not_new() {
        let known = KnownFindings::new(&inspection(&["public.old"]));
        let mut now = inspection(&["public.new", "public.old"]);
        let note = known.remove_from(&mut now).unwrap();
        assert!(note.contains("public.old (invalid-indexes)"), "{note}");
        assert_eq!(now, inspection(&["public.new"]));
        let mut now = inspection(&["public.old"]);
        known.remove_from(&mut now).unwrap();
        assert_eq!(now.findings, []);
        let mut now = inspection(&["public.new"]);
        assert_eq!(known.remove_from(&mut now), None);
    }

    #[test]
    fn finding_on_versions_is_new_if_the_upgrade_changed_them_again() {
        let with = |check: UpgradeCheck, detail: &str| {
            let mut one = inspection(&["public.i"]);
            one.findings[0].check = check;
            one.findings[0].objects[0].detail = Some(detail.to_owned());
            one
        };
        for (check, [before, after], is_new) in [
            (
                UpgradeCheck::CollationVersions,
                [
                    "built with version 2.28, now 2.31",
                    "built with version 2.28, now 2.36",
                ],
                true,
            ),
            (
                UpgradeCheck::CollationVersions,
                ["built with version 2.28, now 2.31"; 2],
                false,
            ),
            (
                UpgradeCheck::ExtensionVersions,
                ["version 1.5, offered 1.6", "version 1.5, offered 1.9"],
                true,
            ),
            (
                UpgradeCheck::InvalidIndexes,
                ["on public.t", "on public.u"],
                false,
            ),
        ] {
            let known = KnownFindings::new(&with(check, before));
            let mut now = with(check, after);
            known.remove_from(&mut now);
            assert_eq!(!now.findings.is_empty(), is_new, "{check:?}: {after}");
        }
    }

    #[test]
    fn database_that_the_role_cannot_connect_to_is_unchecked_once() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = connect::login::Dialer::new(&target).unwrap();
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let mut connection = dialer.open_query_connection(&login).unwrap();
        for setup in [
            "CREATE ROLE reporting LOGIN",
            "CREATE DATABASE hidden",
            "REVOKE CONNECT ON DATABASE hidden FROM PUBLIC",
        ] {
            connection.query(setup).unwrap();
        }
        let target = Target {
            user: Some("reporting".to_owned()),
            ..target
        };
        let find: FindInstallation = |_, _| unreachable!("no server is created");
        let found = inspect_alone(&target, find, &Interrupt::default()).unwrap();
        let hidden = found.unchecked.iter();
        let hidden: Vec<&UncheckedPart> = hidden
            .filter(|one| one.database.as_deref() == Some("hidden"))
            .collect();
        assert_eq!(hidden.len(), 1, "{:?}", found.unchecked);
        assert!(hidden[0].on_new_server);
        assert!(!found.databases.contains(&"hidden".to_owned()));
    }
}
