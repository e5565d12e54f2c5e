//! Settings that differ.

use std::collections::{BTreeMap, BTreeSet};

use run::{Facts, SettingFact};
use schemars::JsonSchema;
use serde::Serialize;

/// What a setting bears on. In the order in which differences are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bearing {
    /// Which plans are chosen.
    Planner,
    /// Memory, disk, processes, the log of changes: how fast plans are carried out.
    Resources,
    /// Anything else.
    Other,
    /// Logging and the like, which every server has in its own way.
    Watching,
    /// Where the server is and what it is called.
    Place,
}

impl Bearing {
    fn of(setting: &SettingFact) -> Bearing {
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
            Bearing::Place
        } else if PLANNER.contains(&name)
            || name.starts_with("jit_")
            || name.starts_with("max_parallel_workers_per")
            || is_under("Query Tuning")
        {
            Bearing::Planner
        } else if RESOURCES.iter().any(|start| is_under(start)) {
            Bearing::Resources
        } else if is_under("Reporting and Logging")
            || is_under("Statistics")
            || is_under("Process Title")
        {
            Bearing::Watching
        } else {
            Bearing::Other
        }
    }
}

/// A setting that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingDifference {
    /// Which.
    pub name: String,
    /// What it bears on.
    pub bearing: Bearing,
    /// Before; `None` where that server has no such setting, or it may not be seen.
    pub before: Option<SettingSide>,
    /// After.
    pub after: Option<SettingSide>,
    /// Both are as by default: it is the versions that differ.
    pub by_version: bool,
}

/// A setting on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingSide {
    /// Its value in a unit that can be read; `None` where it was not kept.
    pub value: Option<String>,
    /// Where it comes from, in the server's words.
    pub source: String,
    /// It is as by default.
    pub default: bool,
    /// A change in a file waits for a restart.
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

/// What differs, and how many settings in their default only the one and the other side has.
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
            // Not kept on either side: nobody can tell.
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
            bearing: Bearing::of(any),
            before: was.map(SettingSide::of),
            after: is.map(SettingSide::of),
            by_version: was.is_some_and(is_default) && is.is_some_and(is_default),
        });
    }
    // What somebody set before what versions brought.
    found.sort_by_key(|one| (one.bearing, one.by_version, one.name.clone()));
    (found, only)
}

/// Some units have a name in later versions only (`track_activity_query_size`: bytes, from 13 on).
fn same_unit(one: &SettingFact, other: &SettingFact) -> bool {
    one.unit == other.unit || one.unit.is_none() || other.unit.is_none()
}

/// A setting's value in a unit that can be read, as `SHOW` has it: `16384` in units of `8kB` is `128MB`.
/// Values that are no amounts (0, -1, words) stay as they are.
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
    fn a_unit_that_got_its_name_later_is_no_difference() {
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
    fn amounts_are_as_show_has_them() {
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
