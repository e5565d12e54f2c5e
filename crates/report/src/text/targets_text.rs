//! What is different between two targets, in a few lines.

use crate::text::amount::{count, counted};
use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::view::targets::{
    DetailView, IndexView, ObjectView, SettingSideView, SettingView, SizeView, TargetsView,
};

/// Differences of one kind that are shown; of the rest, how many they are.
const SHOWN_MAX: usize = 4;

/// The lines; none where nothing differs and all is known.
pub(crate) fn lines(view: &TargetsView, style: TextStyle) -> Vec<String> {
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
    found.push(("indexes", view.indexes.iter().map(index).collect()));
    let invalid = view.invalid_indexes.iter();
    let invalid = invalid.map(|one| format!("invalid {}: {} on {}", one.side, one.name, one.table));
    found.push(("indexes", invalid.collect()));
    found.push(("sizes", view.sizes.iter().map(size).collect()));
    // That secrets are not kept is so on either side, always.
    let notes = view.notes.iter().filter(|note| note.about != "secrets");
    let notes = notes.map(|note| {
        let counted = note
            .count
            .map_or_else(String::new, |left| format!(" ({})", count(left)));
        format!("{}: {}{counted}", note.side, note.text)
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

/// Where a server is and how it is watched differs anyhow.
fn is_aside(setting: &SettingView) -> bool {
    matches!(setting.bearing, "place" | "watching")
}

fn setting(one: &SettingView) -> String {
    let value = |side: &Option<SettingSideView>| match side {
        None => "not there".to_owned(),
        Some(side) => match &side.value {
            None => "not kept".to_owned(),
            Some(value) if value.is_empty() => "empty".to_owned(),
            Some(value) => value.clone(),
        },
    };
    let source = |side: &Option<SettingSideView>| {
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

fn details(details: &[DetailView]) -> String {
    let one = |detail: &DetailView| {
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

fn object(one: &ObjectView) -> String {
    match one.details.is_empty() {
        true => format!("{}: {}", one.presence, one.name),
        false => format!("{}: {}", one.name, details(&one.details)),
    }
}

fn index(one: &IndexView) -> String {
    match &one.renamed {
        Some(after) => format!(
            "the same under another name: {} → {after} on {}",
            one.name, one.table
        ),
        None if one.details.is_empty() => {
            format!("{}: {} on {}", one.presence, one.name, one.table)
        }
        None => format!("{}: {}", one.name, details(&one.details)),
    }
}

fn size(one: &SizeView) -> String {
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
