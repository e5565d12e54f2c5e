//! Differences of the two targets, as table cells.

use std::collections::BTreeSet;

use compare::targets::{
    Detail, IndexDifference, ObjectDifference, Presence, SettingArea, SettingDifference,
    SettingSide, SizeDifference, StatisticsGap, TargetsComparison,
};
use compare::{Comparison, Side};

use super::CHANGES_MAX;
use crate::text::line::one_line;
use crate::text::targets_text::{is_aside, statistics_gap};
use crate::text::units::{bytes, count, counted};

pub(super) struct Targets {
    /// Number of differences by kind.
    pub(super) summary: String,
    pub(super) note: String,
    pub(super) groups: Vec<Group>,
    /// Facts that are unknown.
    pub(super) unknown: Vec<String>,
}

pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Row>,
    pub(super) more: usize,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
}

impl Row {
    fn new(name: &str, before: &str, after: &str) -> Self {
        Self {
            name: one_line(name, 300),
            before: one_line(before, 600),
            after: one_line(after, 600),
        }
    }
}

pub(super) fn targets(view: &Comparison) -> Option<Targets> {
    let targets = view.targets.as_ref()?;
    let aside = |one: &&SettingDifference| is_aside(one);
    let settings = |wanted: &dyn Fn(&&SettingDifference) -> bool| {
        let found = targets.settings.iter().filter(wanted);
        found.map(setting).collect::<Vec<_>>()
    };
    let groups = [
        (
            "Settings that somebody set",
            settings(&|one| !one.by_version && !aside(one)),
        ),
        (
            "Settings whose default changed with the version",
            settings(&|one| one.by_version && !aside(one)),
        ),
        (
            "Indexes",
            targets
                .indexes
                .iter()
                .flat_map(index)
                .chain(invalid(targets))
                .collect(),
        ),
        ("Tables and the like", objects(&targets.relations)),
        ("Functions", objects(&targets.functions)),
        ("Triggers", objects(&targets.triggers)),
        (
            "Statistics of tables",
            targets.statistics_gaps.iter().map(gap).collect(),
        ),
        (
            "Build",
            rows_of("server", Presence::Differs, "", &targets.build),
        ),
        ("Extensions", objects(&targets.extensions)),
        ("Databases", objects(&targets.databases)),
        ("Sizes", targets.sizes.iter().map(size).collect()),
        (
            "Where they are and how they are watched, as it is with servers",
            settings(&aside),
        ),
    ];
    let groups = groups.into_iter().filter(|(_, rows)| !rows.is_empty());
    let unknown = targets.notes.iter().map(|one| {
        let left = one
            .note
            .count
            .map_or_else(String::new, |count| format!(" ({})", self::count(count)));
        format!("{}: {}{left}", one.side.name(), one.note.text)
    });
    Some(Targets {
        summary: summary(targets),
        note: note(targets),
        groups: groups
            .map(|(title, mut rows)| {
                let more = rows.len().saturating_sub(CHANGES_MAX);
                rows.truncate(CHANGES_MAX);
                Group { title, rows, more }
            })
            .collect(),
        unknown: unknown.collect(),
    })
}

fn summary(targets: &TargetsComparison) -> String {
    let version = usize::from(targets.version_before != targets.version_after);
    let settings = |wanted: fn(&&SettingDifference) -> bool| {
        let matter = targets.settings.iter();
        let matter = matter.filter(|one| one.bearing != SettingArea::Place);
        matter.filter(wanted).count()
    };
    let kinds = [
        ("version", version),
        (
            "setting",
            settings(|one| !one.by_version && one.bearing != SettingArea::Watching),
        ),
        (
            "setting of how they are watched|settings of how they are watched",
            settings(|one| !one.by_version && one.bearing == SettingArea::Watching),
        ),
        // Default values of another version are expected to differ.
        ("default", (1 - version) * settings(|one| one.by_version)),
        ("index|indexes", indexes(targets)),
        ("table", targets.relations.len()),
        ("function", targets.functions.len()),
        ("trigger", targets.triggers.len()),
        (
            "table's statistics|tables' statistics",
            targets.statistics_gaps.len(),
        ),
        (
            "property of the build|properties of the build",
            targets.build.len(),
        ),
        ("extension", targets.extensions.len()),
        ("database", targets.databases.len()),
    ];
    let kinds = kinds.into_iter().filter(|(_, number)| *number > 0);
    let parts: Vec<String> = kinds
        .map(|(kind, number)| match (kind, kind.split_once('|')) {
            ("version", _) => "the version".to_owned(),
            (_, Some((one, many))) => match number {
                1 => format!("1 {one}"),
                number => format!("{} {many}", count(number as u64)),
            },
            (kind, None) => counted(number as u64, kind),
        })
        .collect();
    match parts.is_empty() {
        true => "do not differ in version, settings, indexes, tables or extensions.".to_owned(),
        false => format!("differ in {}.", parts.join(", ")),
    }
}

/// Counts the indexes that differ, or that queries can use on one side only, without repetition.
fn indexes(targets: &TargetsComparison) -> usize {
    let mut all: BTreeSet<(&str, &str)> = targets
        .indexes
        .iter()
        .map(|one| (&*one.table, &*one.name))
        .collect();
    let invalid = |side: Side| -> BTreeSet<(&str, &str)> {
        let invalid = targets.invalid_indexes.iter();
        invalid
            .filter(|one| one.side == side)
            .map(|one| (&*one.table, &*one.name))
            .collect()
    };
    all.extend(invalid(Side::Before).symmetric_difference(&invalid(Side::After)));
    all.len()
}

fn note(targets: &TargetsComparison) -> String {
    let mut note = match targets.same {
        true => "They do not differ in what was asked for: version, settings, extensions, tables and indexes.".to_owned(),
        false => "What differs of version, settings, extensions, tables and indexes; what was asked for and is not here is alike.".to_owned(),
    };
    let known = |version: &Option<String>| version.clone().unwrap_or_else(|| "?".to_owned());
    if targets.version_before != targets.version_after {
        note.push_str(&format!(
            " PostgreSQL {} → {}.",
            known(&targets.version_before),
            known(&targets.version_after)
        ));
    }
    if targets.settings_gone + targets.settings_new > 0 {
        note.push_str(&format!(
            " {} settings are of the version before only, {} of the one after only.",
            targets.settings_gone, targets.settings_new
        ));
    }
    note
}

fn gap(one: &StatisticsGap) -> Row {
    let text = statistics_gap(one);
    let text = text.split_once(": ").map_or(&*text, |(_, text)| text);
    match one.side {
        Side::Before => Row::new(&one.table, text, ""),
        Side::After => Row::new(&one.table, "", text),
    }
}

fn setting(one: &SettingDifference) -> Row {
    let side = |side: &Option<SettingSide>| {
        let Some(side) = side else {
            return "not there".to_owned();
        };
        let value = match side.value.as_deref() {
            None => "not kept",
            Some("") => "empty",
            Some(value) => value,
        };
        let restart = match side.pending_restart {
            true => ", waits for a restart",
            false => "",
        };
        format!("{value} ({}{restart})", side.source)
    };
    Row::new(&one.name, &side(&one.before), &side(&one.after))
}

/// Returns a row for each detail; an object of only one side has none.
fn rows_of(name: &str, presence: Presence, what: &str, details: &[Detail]) -> Vec<Row> {
    match presence {
        Presence::OnlyBefore => return vec![Row::new(name, what, "–")],
        Presence::OnlyAfter => return vec![Row::new(name, "–", what)],
        Presence::Differs => {}
    }
    let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "none".to_owned());
    let details = details.iter();
    details
        .map(|detail| {
            let name = format!("{name}: {}", detail.what);
            Row::new(&name, &text(&detail.before), &text(&detail.after))
        })
        .collect()
}

fn objects(objects: &[ObjectDifference]) -> Vec<Row> {
    let of = |one: &ObjectDifference| rows_of(&one.name, one.presence, "there", &one.details);
    objects.iter().flat_map(of).collect()
}

fn index(one: &IndexDifference) -> Vec<Row> {
    match &one.renamed {
        Some(after) => vec![Row::new(
            &format!("on {}, the same under another name", one.table),
            &one.name,
            after,
        )],
        None => {
            let name = format!("{} on {}", one.name, one.table);
            rows_of(&name, one.presence, &one.definition, &one.details)
        }
    }
}

fn invalid(targets: &TargetsComparison) -> impl Iterator<Item = Row> {
    targets.invalid_indexes.iter().map(|one| {
        let name = format!("{} on {}", one.name, one.table);
        let invalid = "invalid: queries do not use it";
        match one.side {
            Side::Before => Row::new(&name, invalid, ""),
            Side::After => Row::new(&name, "", invalid),
        }
    })
}

fn size(one: &SizeDifference) -> Row {
    let side = |rows: Option<u64>, size: Option<u64>| {
        let size = size.map(bytes);
        let rows = match rows {
            Some(rows) => Some(format!("about {} rows", count(rows))),
            None if !one.index => Some("never analysed".to_owned()),
            None => None,
        };
        let both: Vec<String> = [size, rows].into_iter().flatten().collect();
        match both.is_empty() {
            true => "not known".to_owned(),
            false => both.join(", "),
        }
    };
    Row::new(
        &one.name,
        &side(one.rows_before, one.bytes_before),
        &side(one.rows_after, one.bytes_after),
    )
}

#[cfg(test)]
mod tests {
    use compare::targets::compare_targets;
    use run::{Facts, IndexFact, SettingFact};

    use super::*;

    fn setting(name: &str, category: &str, boot: &str, value: &str) -> SettingFact {
        SettingFact {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            category: category.to_owned(),
            source: "configuration file".to_owned(),
            boot_value: Some(boot.to_owned()),
            ..SettingFact::default()
        }
    }

    fn index(valid: bool) -> IndexFact {
        IndexFact {
            table: "orders".to_owned(),
            name: "orders_customer".to_owned(),
            valid,
            ready: true,
            ..IndexFact::default()
        }
    }

    /// The summary lists differences exactly if the section does.
    #[test]
    fn summary_and_section_agree() {
        let none = Facts::default;
        let with = |setting: SettingFact| Facts {
            settings: vec![setting],
            ..none()
        };
        let logging = |value: &str| {
            let category = "Reporting and Logging / What to Log";
            with(setting("log_statement", category, "none", value))
        };
        let port = |value: &str| {
            let category = "Connections and Authentication / Connection Settings";
            with(setting("port", category, "5432", value))
        };
        let default = |value: &str| with(setting("jit", "Query Tuning", value, value));
        let indexed = |valid: bool| Facts {
            indexes: vec![index(valid)],
            ..none()
        };
        for (before, after, said) in [
            (none(), none(), "do not differ"),
            (port("5432"), port("6000"), "do not differ"),
            (
                logging("none"),
                logging("all"),
                "differ in 1 setting of how they are watched.",
            ),
            (default("on"), default("off"), "differ in 1 default."),
            (indexed(true), indexed(false), "differ in 1 index."),
            (indexed(false), indexed(false), "do not differ"),
        ] {
            let view = compare_targets(&before, &after);
            assert!(summary(&view).starts_with(said), "{}", summary(&view));
            let alike = note(&view).starts_with("They do not differ");
            assert_eq!(alike, said == "do not differ", "{}", note(&view));
            assert_eq!(view.same, alike);
        }
    }
}
