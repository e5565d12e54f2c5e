//! Where the time went before and after a change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::view::time::TimeView;

/// What response times were made of, before and after; of several runs a side, the mean of a run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimeChangeView {
    /// Response time (due → done) of all statements of a run before, in microseconds.
    pub before_us: f64,
    /// After, in microseconds.
    pub after_us: f64,
    /// Its parts, those that changed most first.
    pub parts: Vec<TimePartChangeView>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimePartChangeView {
    /// As in the summary of a run: `tool_lag`, `session_lag`, `way`, `planning`, `processor`, `wait`,
    /// `execution` or `unlooked`.
    pub what: &'static str,
    /// The phase of `processor`, or the wait (`Lock transactionid`).
    pub of: Option<String>,
    /// In a run before, in microseconds.
    pub before_us: f64,
    /// In a run after, in microseconds.
    pub after_us: f64,
    /// How it is known where it is known least: `measured`, `sampled` or `inferred`.
    pub known: &'static str,
}

impl TimeChangeView {
    /// Of the runs of both sides. Nothing where a side has none.
    pub fn new(before: &[TimeView], after: &[TimeView]) -> Option<Self> {
        if before.is_empty() || after.is_empty() {
            return None;
        }
        // Phases are told apart where all runs have them.
        let in_one = |run: &TimeView| {
            let mut parts = run.whole.parts.iter();
            parts.any(|part| part.what == "processor" && part.of.is_none())
        };
        let in_one = before.iter().chain(after).any(in_one);
        let mut parts: BTreeMap<(&'static str, Option<String>), TimePartChangeView> =
            BTreeMap::new();
        let mut wholes = [0.0; 2];
        for (side, runs) in [before, after].into_iter().enumerate() {
            let share = 1.0 / runs.len() as f64;
            for run in runs {
                wholes[side] += share * run.whole.response_us;
                for part in &run.whole.parts {
                    let whole = in_one && part.what == "processor";
                    let of = part.of.clone().filter(|_| !whole);
                    let key = (part.what, of.clone());
                    let change = parts.entry(key).or_insert_with(|| TimePartChangeView {
                        what: part.what,
                        of,
                        before_us: 0.0,
                        after_us: 0.0,
                        known: part.known,
                    });
                    match side {
                        0 => change.before_us += share * part.us,
                        _ => change.after_us += share * part.us,
                    }
                    // By their names: inferred, measured, sampled.
                    let rank = |known| match known {
                        "measured" => 0,
                        "sampled" => 1,
                        _ => 2,
                    };
                    if rank(part.known) > rank(change.known) {
                        change.known = part.known;
                    }
                }
            }
        }
        let mut parts: Vec<TimePartChangeView> = parts.into_values().collect();
        let by = |part: &TimePartChangeView| (part.after_us - part.before_us).abs();
        parts.sort_by(|one, other| by(other).total_cmp(&by(one)));
        Some(Self {
            before_us: wholes[0],
            after_us: wholes[1],
            parts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::time::{TimeOfView, TimePartView};

    fn run(parts: &[(&'static str, Option<&str>, f64)]) -> TimeView {
        let parts: Vec<TimePartView> = parts
            .iter()
            .map(|(what, of, us)| TimePartView {
                what,
                of: of.map(str::to_owned),
                us: *us,
                share: 0.0,
                known: if *what == "wait" {
                    "sampled"
                } else {
                    "measured"
                },
                error: None,
            })
            .collect();
        TimeView {
            whole: TimeOfView {
                fingerprint: None,
                sql: None,
                calls: 1,
                response_us: parts.iter().map(|part| part.us).sum(),
                service_us: 0.0,
                parts,
            },
            statements: Vec::new(),
            statements_count: 0,
            others_us: 0.0,
            hidden_us: 0.0,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn what_changed_most_comes_first_and_runs_are_averaged() {
        let before = [
            run(&[("planning", None, 10.0), ("wait", Some("Lock tuple"), 4.0)]),
            run(&[("planning", None, 20.0)]),
        ];
        let after = [run(&[
            ("planning", None, 16.0),
            ("wait", Some("Lock tuple"), 50.0),
        ])];
        let change = TimeChangeView::new(&before, &after).unwrap();
        assert_eq!((change.before_us, change.after_us), (17.0, 66.0));
        let parts: Vec<_> = change
            .parts
            .iter()
            .map(|part| (part.what, part.before_us, part.after_us, part.known))
            .collect();
        assert_eq!(
            parts,
            [
                ("wait", 2.0, 50.0, "sampled"),
                ("planning", 15.0, 16.0, "measured")
            ]
        );
        assert_eq!(TimeChangeView::new(&before, &[]), None);
    }

    #[test]
    fn phases_are_one_part_where_a_run_has_none() {
        let phases = [
            ("processor", Some("scans"), 3.0),
            ("processor", Some("sorting"), 2.0),
        ];
        let change = TimeChangeView::new(&[run(&phases)], &[run(&[("processor", None, 4.0)])]);
        let parts = change.unwrap().parts;
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].before_us, parts[0].after_us), (5.0, 4.0));
        assert_eq!(parts[0].of, None);
        let change = TimeChangeView::new(&[run(&phases)], &[run(&phases[..1])]);
        assert_eq!(change.unwrap().parts.len(), 2);
    }
}
