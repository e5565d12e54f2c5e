//! Differences of settings.

use std::collections::{BTreeMap, BTreeSet};

use run::{Facts, SettingFact};
use schemars::JsonSchema;
use serde::Serialize;

/// Area that a setting affects, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingArea {
    /// Choice of plans.
    Planner,
    /// Memory, disk, processes, WAL: the speed of execution.
    Resources,
    /// Anything else.
    Other,
    /// Logging and monitoring, which differ between servers anyway.
    Watching,
    /// Location and name of the server.
    Place,
}

impl SettingArea {
    fn of(setting: &SettingFact) -> SettingArea {
        const PLANNER: [&str; 7] = [
            "work_mem",
            "hash_mem_multiplier",
            "effective_io_concurrency",
            "max_parallel_workers",
            "jit",
            "constraint_exclusion",
            "default_statistics_target",
        ];
        const RESOURCES: [&str; 5] = [
            "Resource Usage",
            "Write-Ahead Log",
            "Autovacuum",
            "Vacuuming",
            "Lock Management",
        ];
        const PLACES: [&str; 20] = [
            "cluster_name",
            "config_file",
            "data_directory",
            "external_pid_file",
            "hba_file",
            "ident_file",
            "hosts_file",
            "listen_addresses",
            "port",
            "server_version",
            "server_version_num",
            "unix_socket_directories",
            "unix_socket_group",
            "ssl_cert_file",
            "ssl_key_file",
            "ssl_ca_file",
            "data_directory_mode",
            "debug_assertions",
            "shared_memory_size",
            "shared_memory_size_in_huge_pages",
        ];
        let name = setting.name.as_str();
        let category = setting.category.as_str();
        let is_under = |start: &str| category.starts_with(start);
        if PLACES.contains(&name) {
            SettingArea::Place
        } else if PLANNER.contains(&name)
            || name.starts_with("jit_")
            || name.starts_with("max_parallel_workers_per")
            || is_under("Query Tuning")
        {
            SettingArea::Planner
        } else if RESOURCES.iter().any(|start| is_under(start)) {
            SettingArea::Resources
        } else if is_under("Reporting and Logging")
            || is_under("Statistics")
            || is_under("Process Title")
        {
            SettingArea::Watching
        } else {
            SettingArea::Other
        }
    }
}

/// Setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingDifference {
    /// Name of the setting.
    pub name: String,
    /// Area that it affects.
    pub bearing: SettingArea,
    /// Value before; `None` if that server has no such setting, or the role may not see it.
    pub before: Option<SettingSide>,
    /// Value after.
    pub after: Option<SettingSide>,
    /// Whether both have default values that differ between versions.
    pub by_version: bool,
}

/// Setting on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingSide {
    /// Value in a readable unit; `None` if it was not recorded.
    pub value: Option<String>,
    /// Source of the value, as the server names it.
    pub source: String,
    /// Whether it has its default value.
    pub default: bool,
    /// Whether a change in a file waits for a restart.
    pub pending_restart: bool,
}

impl SettingSide {
    fn of(setting: &SettingFact) -> Self {
        SettingSide {
            value: setting
                .value
                .as_ref()
                .map(|value| readable(value, setting.unit.as_deref())),
            source: setting.source.clone(),
            default: is_default(setting),
            pending_restart: setting.pending_restart,
        }
    }
}

fn is_default(setting: &SettingFact) -> bool {
    setting.source == "default" || setting.value.is_some() && setting.value == setting.boot_value
}

/// Returns the differing settings, and the numbers of settings with default values that only one
/// side has.
pub(super) fn differences(before: &Facts, after: &Facts) -> (Vec<SettingDifference>, [usize; 2]) {
    let mut only = [0, 0];
    if before.settings.is_empty() || after.settings.is_empty() {
        return (Vec::new(), only);
    }
    let by_name = |facts: &'_ Facts| -> BTreeMap<String, SettingFact> {
        let all = facts.settings.iter();
        all.map(|one| (one.name.clone(), one.clone())).collect()
    };
    let (one, other) = (by_name(before), by_name(after));
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (was, is) = (one.get(name), other.get(name));
        match (was, is) {
            // Not recorded on either side, so it cannot be compared.
            (Some(was), Some(is)) if was.value == is.value && same_unit(was, is) => continue,
            (Some(was), Some(is)) if SettingSide::of(was).value == SettingSide::of(is).value => {
                continue;
            }
            (Some(lonely), None) if is_default(lonely) => {
                only[0] += 1;
                continue;
            }
            (None, Some(lonely)) if is_default(lonely) => {
                only[1] += 1;
                continue;
            }
            _ => {}
        }
        let Some(any) = was.or(is) else { continue };
        found.push(SettingDifference {
            name: name.clone(),
            bearing: SettingArea::of(any),
            before: was.map(SettingSide::of),
            after: is.map(SettingSide::of),
            by_version: was.is_some_and(is_default) && is.is_some_and(is_default),
        });
    }
    // Settings changed by a user come before changes of version defaults.
    found.sort_by_key(|one| (one.bearing, one.by_version, one.name.clone()));
    (found, only)
}

/// Whether units are equal. Some units are named in later versions only
/// (`track_activity_query_size`: bytes, from version 13).
fn same_unit(one: &SettingFact, other: &SettingFact) -> bool {
    one.unit == other.unit || one.unit.is_none() || other.unit.is_none()
}

/// Formats a setting's value with a readable unit, as `SHOW` does: `16384` in units of `8kB` is
/// `128MB`. Values that are not amounts (0, -1, words) are unchanged.
pub fn readable(value: &str, unit: Option<&str>) -> String {
    const BYTES: [(&str, u64); 5] = [
        ("TB", 1 << 40),
        ("GB", 1 << 30),
        ("MB", 1 << 20),
        ("kB", 1 << 10),
        ("B", 1),
    ];
    const MICROSECONDS: [(&str, u64); 6] = [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
        ("us", 1),
    ];
    let Some(unit) = unit.filter(|unit| !unit.is_empty()) else {
        return value.to_owned();
    };
    let digits = unit.chars().take_while(char::is_ascii_digit).count();
    let (times, name) = unit.split_at(digits);
    let times: u64 = times.parse().unwrap_or(1);
    let of = |units: &[(&'static str, u64)]| {
        let found = units.iter().find(|(known, _)| *known == name);
        found.map(|(_, size)| (units.to_vec(), size * times))
    };
    let Some((units, size)) = of(&BYTES).or_else(|| of(&MICROSECONDS)) else {
        return format!("{value} {unit}");
    };
    let Ok(number) = value.parse::<u64>() else {
        return match value.parse::<f64>() {
            Ok(number) if number > 0.0 => format!("{value}{unit}"),
            _ => value.to_owned(),
        };
    };
    let Some(amount) = number.checked_mul(size).filter(|amount| *amount > 0) else {
        return value.to_owned();
    };
    let fitting = units.iter().find(|(_, size)| amount % size == 0);
    let (name, size) = fitting.expect("the smallest divides all");
    format!("{}{name}", amount / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_named_in_later_versions_is_no_difference() {
        let facts = |value: &str, unit: Option<&str>| Facts {
            settings: vec![SettingFact {
                name: "track_activity_query_size".to_owned(),
                value: Some(value.to_owned()),
                unit: unit.map(str::to_owned),
                ..SettingFact::default()
            }],
            ..Facts::default()
        };
        let count = |before, after| differences(&before, &after).0.len();
        assert_eq!(count(facts("1024", None), facts("1024", Some("B"))), 0);
        assert_eq!(count(facts("1024", None), facts("2048", Some("B"))), 1);
        assert_eq!(
            count(facts("1024", Some("kB")), facts("1024", Some("B"))),
            1
        );
    }

    #[test]
    fn readable_values_match_show() {
        for (value, unit, wanted) in [
            ("16384", Some("8kB"), "128MB"),
            ("4096", Some("kB"), "4MB"),
            ("4097", Some("kB"), "4097kB"),
            ("300", Some("s"), "5min"),
            ("1500", Some("ms"), "1500ms"),
            ("-1", Some("8kB"), "-1"),
            ("0", Some("ms"), "0"),
            ("2", Some("ms"), "2ms"),
            ("0.5", Some("ms"), "0.5ms"),
            ("1024", Some("MB"), "1GB"),
            ("on", None, "on"),
            ("4", None, "4"),
            ("18446744073709551615", Some("8kB"), "18446744073709551615"),
        ] {
            assert_eq!(readable(value, unit), wanted, "{value} {unit:?}");
        }
    }
}
