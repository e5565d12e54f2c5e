//! Hosts, lengths of sessions, and the steps of the extended protocol.

use inspect::{DurationBin, Inspection};

use super::listing;
use crate::text::line::listed;
use crate::text::units::{count, counted, duration, ratio};

/// Lists the hosts with their statements; empty if no host is known.
pub(super) fn hosts(view: &Inspection, width: usize) -> String {
    if view.hosts.iter().all(|host| host.host.is_empty()) {
        return String::new();
    }
    let hosts = view.hosts.iter();
    listing(hosts.map(|one| (one.host.as_str(), one.statements)), width)
}

/// Describes the lengths of sessions; empty if none is known.
pub(super) fn session_lengths(view: &Inspection, width: usize) -> String {
    let lengths = &view.session_lengths;
    if lengths.count() == 0 {
        return String::new();
    }
    let mean_us = lengths.total_us() as f64 / lengths.count() as f64;
    let text = format!("mean {}: ", duration(mean_us));
    let bins: Vec<String> = (lengths.bins().iter())
        .filter(|bin| bin.count > 0)
        .map(|bin| format!("{} {}", length_range(bin), count(bin.count)))
        .collect();
    let room = width.saturating_sub(text.chars().count());
    format!("{text}{}", listed(&bins, room))
}

/// Describes the range of a bin by its upper bound.
pub(crate) fn length_range(bin: &DurationBin) -> String {
    match bin.to_us {
        Some(to_us) => format!("under {}", duration(to_us as f64)),
        None => format!("from {} on", duration(bin.from_us as f64)),
    }
}

/// Describes how often a prepared statement was bound.
pub(super) fn protocol_steps(view: &Inspection) -> String {
    let Some(steps) = view.protocol_steps.filter(|steps| steps.parses > 0) else {
        return String::new();
    };
    format!(
        "{} and {} of {}: {} for each parse",
        counted(steps.parses, "parse"),
        counted(steps.binds, "bind"),
        counted(steps.executions, "execution"),
        ratio(steps.binds as f64 / steps.parses as f64)
    )
}
