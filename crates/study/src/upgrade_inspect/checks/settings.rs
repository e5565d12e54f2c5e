//! Checks of settings.

use compare::targets::{SettingArea, SettingDifference, compare_targets};
use observe::may_be_secret;
use run::{Facts, SettingFact};

use super::super::facts::part::ROLE_SETTINGS;
use super::super::facts::{RoleSetting, ServerFacts, Setting};
use super::super::result::{UpgradeCheck, UpgradeFinding, UpgradeObject, UpgradeSeverity};
use super::io_method::asynchronous_reads;
use super::{Sides, counted, counterpart, finding, server_object};
use planner_copy::assigned_value;

use crate::environment::quote_identifier;

/// Replacements of removed settings. Source: the release notes of the versions 10 to 19.
const REPLACEMENTS: [(&str, &str); 17] = [
    ("backslash_quote", "removed"),
    ("db_user_namespace", "removed in 17 without a replacement"),
    ("default_with_oids", "removed in 12; only `off` was left"),
    (
        "escape_string_warning",
        "removed in 19 without a replacement",
    ),
    ("force_parallel_mode", "renamed debug_parallel_query in 16"),
    (
        "io_workers",
        "replaced by io_min_workers and io_max_workers in 19",
    ),
    (
        "lc_collate",
        "removed in 16; it is a property of each database",
    ),
    (
        "lc_ctype",
        "removed in 16; it is a property of each database",
    ),
    (
        "old_snapshot_threshold",
        "removed in 17 without a replacement",
    ),
    (
        "operator_precedence_warning",
        "removed in 14 without a replacement",
    ),
    (
        "promote_trigger_file",
        "removed in 16; use pg_promote() or `pg_ctl promote`",
    ),
    (
        "replacement_sort_tuples",
        "removed in 11 without a replacement",
    ),
    (
        "stats_temp_directory",
        "removed in 15; statistics are in shared memory",
    ),
    (
        "trace_recovery_messages",
        "removed in 17 without a replacement",
    ),
    (
        "vacuum_cleanup_index_scale_factor",
        "removed in 14 without a replacement",
    ),
    (
        "vacuum_defer_cleanup_age",
        "removed in 16; use hot_standby_feedback or slots",
    ),
    (
        "wal_keep_segments",
        "replaced by wal_keep_size in 13; a segment is 16 MB by default",
    ),
];

/// Properties of a data directory that `pg_upgrade` compares. Source: `pg_upgrade/controldata.c`.
const CLUSTER_PROPERTIES: [&str; 8] = [
    "block_size",
    "data_checksums",
    "integer_datetimes",
    "max_identifier_length",
    "max_index_keys",
    "segment_size",
    "wal_block_size",
    "wal_segment_size",
];

/// Settings whose default depends on the build, which a private server does not share with the new one.
const BUILD_DEFAULTS: [&str; 6] = [
    "dynamic_library_path",
    "jit_provider",
    "krb_server_keyfile",
    "ssl_library",
    "unix_socket_directories",
    "update_process_title",
];

pub(super) fn check(sides: &Sides<'_>) -> Vec<Option<UpgradeFinding>> {
    vec![
        removed(sides),
        refused_values(sides),
        cluster_properties(sides),
        differing(sides),
        changed_defaults(sides),
    ]
}

/// Returns the configured settings of the old server that the new one does not list. Settings of extensions are left out: a
/// server accepts any name with a dot.
pub(in super::super) fn unlisted_settings<'a>(
    old: &'a ServerFacts,
    new: &ServerFacts,
) -> Vec<&'a str> {
    let configured = old.settings.values().filter(|one| one.is_configured());
    let names = configured
        .map(|one| one.name.as_str())
        .chain(old.role_settings.iter().map(|one| one.name.as_str()));
    let is_plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_listed = |name: &str| {
        new.settings
            .keys()
            .any(|one| one.eq_ignore_ascii_case(name))
    };
    let mut unlisted: Vec<&str> = names
        .filter(is_plain)
        .filter(|name| !is_listed(name))
        .collect();
    unlisted.sort_unstable();
    unlisted.dedup();
    unlisted
}

fn removed(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let objects: Vec<UpgradeObject> = unlisted_settings(sides.old, sides.new)
        .into_iter()
        .filter(|name| !sides.new.aliases.contains(*name))
        .flat_map(|name| removed_objects(sides.old, name))
        .collect();
    finding(
        (UpgradeCheck::RemovedSettings, UpgradeSeverity::Blocks),
        objects,
        format!(
            "Settings of the old server do not exist in {}",
            sides.new_name()
        ),
        "A server with an unknown name in its configuration file does not start. The same name in ALTER ROLE or ALTER \
         DATABASE fails while roles and databases are restored.",
        "Remove them from the configuration of the new server, and reset those of roles and databases.",
    )
}

/// Returns each place that sets a removed setting.
fn removed_objects(old: &ServerFacts, name: &str) -> Vec<UpgradeObject> {
    let replacement = REPLACEMENTS.iter().find(|(known, _)| *known == name);
    let describe = |place: &str| match replacement {
        Some((_, text)) => format!("{place}; {text}"),
        None => place.to_owned(),
    };
    let mut objects = Vec::new();
    if old.settings.get(name).is_some_and(Setting::is_configured) {
        objects.push(
            server_object(name)
                .detail(describe("in the configuration"))
                .statement(format!("ALTER SYSTEM RESET {name}")),
        );
    }
    for one in old.role_settings.iter().filter(|one| one.name == name) {
        let whose = owner(one);
        objects.push(
            server_object(name)
                .detail(describe(&format!("set by ALTER {whose}")))
                .statement(format!("ALTER {whose} RESET {name}")),
        );
    }
    objects
}

/// Names the role, the database or both that a setting belongs to, as `ALTER` does.
fn owner(one: &RoleSetting) -> String {
    match (&one.role, &one.database) {
        (Some(role), Some(database)) => format!(
            "ROLE {} IN DATABASE {}",
            quote_identifier(role),
            quote_identifier(database)
        ),
        (Some(role), None) => format!("ROLE {}", quote_identifier(role)),
        (None, Some(database)) => format!("DATABASE {}", quote_identifier(database)),
        (None, None) => "ROLE ALL".to_owned(),
    }
}

fn refused_values(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let mut configured: Vec<&Setting> = sides
        .old
        .settings
        .values()
        .filter(|one| one.is_configured() && one.context != "internal")
        .collect();
    configured.sort_by(|one, other| one.name.cmp(&other.name));
    let object = |name: &str, value: &str, place: &str| {
        let (was, is) = (sides.old.settings.get(name)?, sides.new.settings.get(name)?);
        let allowed = match name {
            ALWAYS_ON if sides.passes(19) => is_off(value).then(|| "on".to_owned())?,
            _ => refusal(was, value, is)?,
        };
        let detail = format!("{value}{place}; the new version accepts {allowed}");
        Some(server_object(name).detail(detail))
    };
    let of_server = configured.into_iter();
    let of_server = of_server.filter_map(|one| object(&one.name, one.setting.as_deref()?, ""));
    let of_roles = sides.old.role_settings.iter().filter_map(|one| {
        let owner = owner(one);
        let found = object(&one.name, &one.value, &format!(" by ALTER {owner}"))?;
        Some(found.statement(format!("ALTER {owner} RESET {}", one.name)))
    });
    finding(
        (UpgradeCheck::RefusedValues, UpgradeSeverity::Blocks),
        of_server.chain(of_roles).collect(),
        format!(
            "Values of settings are not accepted by {}",
            sides.new_name()
        ),
        "A server with a value that it does not accept in its configuration file does not start. The same value in ALTER \
         ROLE or ALTER DATABASE fails while roles and databases are restored; `pg_upgrade --check` does not find it.",
        "Choose an accepted value in the configuration of the new server, and reset those of roles and databases.",
    )
}

/// Setting of which version 19 accepts only `on`, although its type is still boolean. Source: the release notes of 19.
const ALWAYS_ON: &str = "standard_conforming_strings";

/// Whether a boolean setting has the value false. Source: `parse_bool` in `bool.c`.
fn is_off(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, at_least: usize| value.len() >= at_least && word.starts_with(&value);
    value == "0" || begins("off", 2) || begins("false", 1) || begins("no", 1)
}

/// Returns the accepted values, if the value is not one of them.
fn refusal(was: &Setting, value: &str, is: &Setting) -> Option<String> {
    match is.vartype.as_str() {
        "enum" => {
            let values = is.enumvals.as_ref().filter(|_| was.vartype == "enum")?;
            let is_accepted = values.iter().any(|one| one.eq_ignore_ascii_case(value));
            (!is_accepted).then(|| values.join(", "))
        }
        "integer" | "real" if was.unit == is.unit => {
            // Permissions are shown in octal, and bounded in decimal.
            let is_octal = value.len() > 1 && value.starts_with('0') && !value.contains('.');
            let number: f64 = value.parse().ok().filter(|_| !is_octal)?;
            let bound = |text: &Option<String>| text.as_deref()?.parse::<f64>().ok();
            let (low, high) = (bound(&is.min_val)?, bound(&is.max_val)?);
            (number < low || number > high).then(|| format!("{low} to {high}"))
        }
        _ => None,
    }
}

fn cluster_properties(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.is_pg_upgrade() {
        return None;
    }
    let objects = CLUSTER_PROPERTIES.iter().filter_map(|name| {
        let (was, is) = (
            sides.old.settings.get(*name)?,
            sides.new.settings.get(*name)?,
        );
        let (before, after) = (amount(was)?, amount(is)?);
        let object = server_object(*name).detail(format!(
            "{} on the old server, {} on the new one",
            before, after
        ));
        let statement = match (*name, before.as_str()) {
            _ if sides.is_upgraded() => None,
            ("data_checksums", "off") => Some("initdb --no-data-checksums"),
            ("data_checksums", _) => Some("initdb --data-checksums"),
            ("wal_segment_size", _) => Some("initdb --wal-segsize=MEGABYTES"),
            _ => None,
        };
        (before != after).then(|| match statement {
            Some(text) => object.statement(text),
            None => object,
        })
    });
    if sides.is_upgraded() {
        return finding(
            (UpgradeCheck::ClusterProperties, UpgradeSeverity::Note),
            objects.collect(),
            "Properties of the data directory differ",
            "pg_upgrade refuses other properties, so they were changed since, or the server was not created by pg_upgrade.",
            "Nothing, if they differ on purpose.",
        );
    }
    finding(
        (UpgradeCheck::ClusterProperties, UpgradeSeverity::Blocks),
        objects.collect(),
        "Properties of the data directory differ",
        "pg_upgrade refuses a new data directory with other properties than the old one. From version 18 on, initdb \
         enables data checksums unless it is called with --no-data-checksums.",
        "Create the new data directory with the properties of the old one.",
    )
}

/// Returns the value of a property in bytes, or as it is.
fn amount(setting: &Setting) -> Option<String> {
    let value = setting.setting.clone()?;
    let factor = match setting.unit.as_deref() {
        Some("8kB") => 8_192,
        Some("kB") => 1_024,
        Some("MB") => 1 << 20,
        _ => return Some(value),
    };
    let number: u64 = value.parse().ok()?;
    Some((number * factor).to_string())
}

fn differing(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    if !sides.is_upgraded() {
        return None;
    }
    let (before, after) = facts_of_both(sides);
    let settings = compare_targets(&before, &after).settings;
    let mut differing: Vec<SettingDifference> = settings;
    differing.retain(|one| {
        let is_configured = |server: &ServerFacts| {
            server
                .settings
                .get(&one.name)
                .is_some_and(Setting::is_configured)
        };
        !one.by_version
            && is_of_statements(one)
            && (is_configured(sides.old) || is_configured(sides.new))
            && [sides.old, sides.new]
                .iter()
                .all(|server| server.settings.contains_key(&one.name))
    });
    let major = sides.new.identity.major();
    // A text report lists the first ones only.
    differing.sort_by_key(|one| one.bearing);
    let of_server = differing.iter().map(|one| differing_object(one, major));
    let objects = lost_role_settings(sides).chain(of_server).collect();
    finding(
        (UpgradeCheck::DifferingSettings, UpgradeSeverity::MendAfter),
        objects,
        "Settings of the new server differ from those of the old one",
        "An upgrade does not copy the configuration files.",
        "Set those that you did not change on purpose, then reload or restart the server.",
    )
}

/// Whether a setting can act on statements: those of sockets and of the log cannot.
fn is_of_statements(one: &SettingDifference) -> bool {
    one.bearing != SettingArea::Place
        && !one.name.starts_with("unix_socket_")
        && !one.name.starts_with("log_")
}

/// Settings without which a crash can lose or damage data. Their value `off` is never advised.
const SAFETY: [&str; 2] = ["fsync", "full_page_writes"];

/// Describes a difference; the statement is for a server of the major version.
fn differing_object(one: &SettingDifference, major: u32) -> UpgradeObject {
    let text = |side: &Option<compare::targets::SettingSide>| {
        let value = side.as_ref().and_then(|side| side.value.clone());
        value.unwrap_or_else(|| "unknown".to_owned())
    };
    let was = text(&one.before);
    let shown = |value: &str| match value {
        "" => "empty".to_owned(),
        value => value.to_owned(),
    };
    let (before, after) = (shown(&was), shown(&text(&one.after)));
    let object = server_object(&one.name).detail(format!("{before} → {after}"));
    let value = assigned_value(&one.name, &was, major);
    let is_unsafe = SAFETY.contains(&one.name.as_str()) && is_off(&was);
    match value.filter(|_| one.before.is_some() && !is_hidden(&was) && !is_unsafe) {
        Some(value) => object.statement(format!("ALTER SYSTEM SET {} = {value}", one.name)),
        None => object,
    }
}

fn lost_role_settings<'a>(sides: &'a Sides<'_>) -> impl Iterator<Item = UpgradeObject> + 'a {
    let wanted = sides.old.role_settings.iter().filter_map(|one| {
        let database = match &one.database {
            Some(name) => Some(counterpart(sides.old, sides.new, name)?.to_owned()),
            None => None,
        };
        Some(RoleSetting {
            database,
            ..one.clone()
        })
    });
    let lost = wanted.filter(|one| {
        sides.new.was_read(ROLE_SETTINGS)
            && !sides.new.role_settings.contains(one)
            && sides.new.settings.contains_key(&one.name)
    });
    lost.map(|one| {
        let whose = owner(&one);
        let object = server_object(&one.name).detail(format!("set by ALTER {whose}"));
        let value = assigned_value(&one.name, &one.value, sides.new.identity.major());
        match value.filter(|_| !may_be_secret(&one.name, &one.value)) {
            Some(value) => object.statement(format!("ALTER {whose} SET {} = {value}", one.name)),
            None => object,
        }
    })
}

fn changed_defaults(sides: &Sides<'_>) -> Option<UpgradeFinding> {
    let (before, after) = (built_in(sides.old), built_in(sides.new));
    let settings = compare_targets(&before, &after).settings;
    let is_default = |server: &ServerFacts, name: &str| {
        let known = server.settings.get(name);
        known.is_some_and(|one| one.source == "default" && one.context != "internal")
    };
    let changed = settings.into_iter().filter(|one| {
        one.bearing != SettingArea::Place
            && is_default(sides.old, &one.name)
            // The private server has settings of its own.
            && (!sides.is_upgraded() || is_default(sides.new, &one.name))
            && (sides.is_upgraded() || !BUILD_DEFAULTS.contains(&one.name.as_str()))
    });
    let major = sides.new.identity.major();
    let changed = changed.map(|one| differing_object(&one, major));
    let objects: Vec<UpgradeObject> = changed.chain(asynchronous_reads(sides)).collect();
    let number = objects.len();
    finding(
        (UpgradeCheck::ChangedDefaults, UpgradeSeverity::Note),
        objects,
        format!(
            "{} that the old server does not set changed with the version, or came with it",
            counted(number, "default", "defaults")
        ),
        "The new server uses the new default. It may change plans or durations.",
        "To keep a value, set it. `rehearse prove --set` measures the effect.",
    )
}

/// Returns the settings of a server with the values that the program has without a configuration.
fn built_in(server: &ServerFacts) -> Facts {
    let settings = server.settings.values().map(|one| SettingFact {
        name: one.name.clone(),
        value: one.boot_val.clone(),
        unit: one.unit.clone(),
        category: one.category.clone(),
        source: "default".to_owned(),
        boot_value: one.boot_val.clone(),
        pending_restart: false,
    });
    Facts {
        settings: settings.collect(),
        ..Facts::default()
    }
}

/// Returns the settings of both servers for a comparison. Secrets are replaced by a text that is equal for equal values.
fn facts_of_both(sides: &Sides<'_>) -> (Facts, Facts) {
    (
        facts(sides.old, sides.new, HIDDEN[0]),
        facts(sides.new, sides.old, HIDDEN[1]),
    )
}

/// Texts in place of differing secrets, before and after.
const HIDDEN: [&str; 2] = ["a value that is not shown", "another value"];

fn is_hidden(text: &str) -> bool {
    HIDDEN.contains(&text)
}

fn facts(server: &ServerFacts, other: &ServerFacts, hidden: &str) -> Facts {
    let settings = server
        .settings
        .values()
        .filter(|one| one.source != "client");
    let settings = settings.map(|one| {
        let value = one.setting.clone();
        let is_secret = may_be_secret(&one.name, value.as_deref().unwrap_or_default());
        let is_equal = other
            .settings
            .get(&one.name)
            .is_some_and(|other| other.setting == one.setting);
        SettingFact {
            name: one.name.clone(),
            value: match (is_secret, is_equal) {
                (false, _) => value,
                (true, true) => Some(HIDDEN[0].to_owned()),
                (true, false) => Some(hidden.to_owned()),
            },
            unit: one.unit.clone(),
            category: one.category.clone(),
            source: one.source.clone(),
            boot_value: one.boot_val.clone(),
            pending_restart: false,
        }
    });
    Facts {
        settings: settings.collect(),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use compare::targets::SettingSide;

    use super::*;

    fn difference(name: &str, bearing: SettingArea) -> SettingDifference {
        let side = |value: &str| {
            Some(SettingSide {
                value: Some(value.to_owned()),
                source: "configuration file".to_owned(),
                default: false,
                pending_restart: false,
            })
        };
        SettingDifference {
            name: name.to_owned(),
            before: side("off"),
            after: side("on"),
            bearing,
            by_version: false,
        }
    }

    #[test]
    fn unsafe_value_is_named_and_never_advised() {
        let unsafe_one = differing_object(&difference("fsync", SettingArea::Resources), 18);
        assert_eq!(unsafe_one.statement, None);
        assert_eq!(unsafe_one.detail.as_deref(), Some("off → on"));
        let other = differing_object(&difference("jit", SettingArea::Planner), 18);
        assert!(other.statement.is_some());
    }

    #[test]
    fn settings_of_logs_and_sockets_do_not_act_on_statements() {
        let acts = |name, area| is_of_statements(&difference(name, area));
        assert!(acts("random_page_cost", SettingArea::Planner));
        assert!(!acts("log_filename", SettingArea::Watching));
        assert!(!acts("unix_socket_permissions", SettingArea::Other));
    }
}
