//! Text on the differences of two targets.

use compare::targets::{
    Detail, IndexDifference, ObjectDifference, SettingArea, SettingDifference, SettingSide,
    SizeDifference, StatisticsGap, StatisticsGapKind, TargetsComparison,
};

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::units::{count, counted, duration_ns};

/// Maximum number of differences of one kind; the rest is counted.
const SHOWN_MAX: usize = 4;

/// Returns the lines; none if nothing differs and everything is known.
pub(crate) fn lines(view: &TargetsComparison, style: TextStyle) -> Vec<String> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    let by_hand = view.settings.iter().filter(|one| !one.by_version);
    let (places, set): (Vec<_>, Vec<_>) = by_hand.partition(|one| is_aside(one));
    found.push(("settings", set.into_iter().map(setting).collect()));
    let by_version = view.settings.iter().filter(|one| one.by_version);
    found.push((
        "defaults",
        by_version
            .filter(|one| !is_aside(one))
            .map(setting)
            .collect(),
    ));
    found.push(("databases", view.databases.iter().map(object).collect()));
    found.push(("extensions", view.extensions.iter().map(object).collect()));
    found.push(("tables", view.relations.iter().map(object).collect()));
    found.push(("functions", view.functions.iter().map(object).collect()));
    found.push(("triggers", view.triggers.iter().map(object).collect()));
    found.push((
        "build",
        view.build
            .iter()
            .map(|one| details(std::slice::from_ref(one)))
            .collect(),
    ));
    found.push((
        "statistics",
        view.statistics_gaps.iter().map(statistics_gap).collect(),
    ));
    found.push(("indexes", view.indexes.iter().map(index).collect()));
    let invalid = view.invalid_indexes.iter();
    let invalid =
        invalid.map(|one| format!("invalid {}: {} on {}", one.side.name(), one.name, one.table));
    found.push(("indexes", invalid.collect()));
    found.push(("sizes", view.sizes.iter().map(size).collect()));
    // Secrets are never recorded, so this note is on both sides.
    let notes = view.notes.iter().filter(|one| one.note.about != "secrets");
    let notes = notes.map(|one| {
        let counted = one
            .note
            .count
            .map_or_else(String::new, |left| format!(" ({})", count(left)));
        format!("{}: {}{counted}", one.side.name(), one.note.text)
    });
    found.push(("unknown", notes.collect()));

    let mut lines = Vec::new();
    for (what, all) in found {
        for (place, one) in all.iter().take(SHOWN_MAX).enumerate() {
            let what = if place == 0 { what } else { "" };
            let one = one_line(one, style.columns().saturating_sub(14));
            lines.push(format!("  {what:<10}  {one}"));
        }
        if all.len() > SHOWN_MAX {
            lines.push(format!(
                "  {:<10}  and {} more",
                "",
                count((all.len() - SHOWN_MAX) as u64)
            ));
        }
    }
    if view.settings_gone + view.settings_new > 0 {
        lines.push(format!(
            "  {:<10}  {} of one version only ({} before, {} after)",
            "",
            counted((view.settings_gone + view.settings_new) as u64, "setting"),
            view.settings_gone,
            view.settings_new
        ));
    }
    if !places.is_empty() && !lines.is_empty() {
        let names: Vec<&str> = places.iter().map(|one| one.name.as_str()).collect();
        let names = one_line(&names.join(", "), style.columns().saturating_sub(30));
        lines.push(format!("  {:<10}  and, as servers do: {names}", ""));
    }
    if lines.is_empty() {
        return lines;
    }
    let title = "Targets, before → after";
    let mut all = vec![String::new(), style.paint(Tone::Heading, title)];
    all.extend(lines);
    all
}

/// Whether a setting concerns the server's location or monitoring, which differ anyway.
pub(crate) fn is_aside(setting: &SettingDifference) -> bool {
    matches!(setting.bearing, SettingArea::Place | SettingArea::Watching)
}

fn setting(one: &SettingDifference) -> String {
    let value = |side: &Option<SettingSide>| match side {
        None => "not there".to_owned(),
        Some(side) => match &side.value {
            None => "not kept".to_owned(),
            Some(value) if value.is_empty() => "empty".to_owned(),
            Some(value) => value.clone(),
        },
    };
    let source = |side: &Option<SettingSide>| {
        let side = side.as_ref()?;
        let restart = if side.pending_restart {
            ", restart pending"
        } else {
            ""
        };
        Some(format!("{}{restart}", side.source))
    };
    let (was, is) = (source(&one.before), source(&one.after));
    let sources = match (was, is) {
        (Some(was), Some(is)) if was == is => format!(" ({was})"),
        (Some(was), Some(is)) => format!(" ({was} → {is})"),
        (Some(one), None) | (None, Some(one)) => format!(" ({one})"),
        (None, None) => String::new(),
    };
    format!(
        "{} {} → {}{sources}",
        one.name,
        value(&one.before),
        value(&one.after)
    )
}

fn details(details: &[Detail]) -> String {
    let one = |detail: &Detail| {
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "none".to_owned());
        format!(
            "{} {} → {}",
            detail.what,
            side(&detail.before),
            side(&detail.after)
        )
    };
    details.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn object(one: &ObjectDifference) -> String {
    match one.details.is_empty() {
        true => format!("{}: {}", one.presence.name(), one.name),
        false => format!("{}: {}", one.name, details(&one.details)),
    }
}

fn index(one: &IndexDifference) -> String {
    match &one.renamed {
        Some(after) => format!(
            "the same under another name: {} → {after} on {}",
            one.name, one.table
        ),
        None if one.details.is_empty() => {
            format!("{}: {} on {}", one.presence.name(), one.name, one.table)
        }
        None => format!("{}: {}", one.name, details(&one.details)),
    }
}

/// Describes the gap in the statistics of a table.
pub(crate) fn statistics_gap(one: &StatisticsGap) -> String {
    let side = one.side.name();
    match one.kind {
        StatisticsGapKind::Missing => format!("{}: none {side}", one.table),
        StatisticsGapKind::Outdated {
            analysed_ago_s,
            analysed_ago_other_s,
            changed,
        } => {
            let age = |age_s: Option<u64>| {
                age_s.map_or_else(
                    || "an unknown time".to_owned(),
                    |age_s| duration_ns(age_s as f64 * 1e9),
                )
            };
            format!(
                "{}: old {side}, analysed {} before the replay (other side {}), {} changed since",
                one.table,
                age(analysed_ago_s),
                age(analysed_ago_other_s),
                counted(changed.unwrap_or(0), "row")
            )
        }
    }
}

fn size(one: &SizeDifference) -> String {
    let change = |before: Option<u64>, after: Option<u64>, none: &str| {
        let side = |side: Option<u64>| side.map_or_else(|| none.to_owned(), count);
        format!("{} → {}", side(before), side(after))
    };
    let mut parts = Vec::new();
    if one.rows_before != one.rows_after {
        let rows = change(one.rows_before, one.rows_after, "never analysed");
        parts.push(format!("{rows} rows estimated"));
    }
    if one.bytes_before != one.bytes_after {
        let bytes = change(one.bytes_before, one.bytes_after, "?");
        parts.push(format!("{bytes} bytes"));
    }
    format!("{}: {}", one.name, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::targets::compare_targets;
    use run::{DatabaseFact, FactNote, Facts, IndexFact, SettingFact};

    const PLAIN: TextStyle = TextStyle {
        width: 100,
        colour: false,
    };

    fn facts(work_mem: &str, indexes: &[&str]) -> Facts {
        let setting = |name: &str, value: &str, source: &str| SettingFact {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            unit: (name == "work_mem").then(|| "kB".to_owned()),
            source: source.to_owned(),
            boot_value: Some("4096".to_owned()),
            ..SettingFact::default()
        };
        let index = |name: &&str| IndexFact {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            table: "orders".to_owned(),
            name: (*name).to_owned(),
            definition: format!("CREATE INDEX {name} ON orders USING btree (\"{name}\")"),
            valid: true,
            ..IndexFact::default()
        };
        let note = |about: &str, text: &str| FactNote {
            about: about.to_owned(),
            text: text.to_owned(),
            count: Some(3),
            database: None,
        };
        Facts {
            settings: vec![
                setting("port", work_mem, "command line"),
                setting("work_mem", work_mem, "configuration file"),
            ],
            databases: vec![DatabaseFact {
                name: "shop".to_owned(),
                ..DatabaseFact::default()
            }],
            indexes: indexes.iter().map(index).collect(),
            notes: vec![
                note("target", "asked"),
                note("secrets", "not kept"),
                note("settings", "some may not be seen"),
            ],
            ..Facts::default()
        }
    }

    #[test]
    fn differences_are_listed_and_many_are_counted() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let found = compare_targets(&facts("65536", &names), &facts("4096", &[]));
        let text = lines(&found, PLAIN).join("\n");
        assert_eq!(
            text,
            "
Targets, before → after
  settings    work_mem 64MB → 4MB (configuration file)
  indexes     only before: a on public.orders
              only before: b on public.orders
              only before: c on public.orders
              only before: d on public.orders
              and 2 more
  unknown     before: some may not be seen (3)
              after: some may not be seen (3)
              and, as servers do: port"
        );
    }

    #[test]
    fn equal_targets_give_no_lines() {
        let mut one = facts("4096", &["a"]);
        one.notes.truncate(2);
        let found = compare_targets(&one, &one);
        assert_eq!(lines(&found, PLAIN), [""; 0]);
    }
}
