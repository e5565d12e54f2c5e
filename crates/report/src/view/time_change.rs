//! Where the time went before and after a change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::view::processor::ProcessorView;
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
    /// The server's processor time; `null` where it is not known of all runs.
    pub processor: Option<ProcessorChangeView>,
}

/// What processor time was made of, before and after; of several runs a side, the mean of a run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProcessorChangeView {
    /// Of a run before, in microseconds.
    pub before_us: f64,
    /// After, in microseconds.
    pub after_us: f64,
    /// Its parts, those that changed most first.
    pub parts: Vec<ProcessorPartChangeView>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProcessorPartChangeView {
    /// As in the summary of a run: `client`, `server`, `own` or `not_met`.
    pub what: &'static str,
    /// The phase of `client`, or the kind of `server`.
    pub of: Option<String>,
    /// In a run before, in microseconds.
    pub before_us: f64,
    /// In a run after, in microseconds.
    pub after_us: f64,
    /// How it is known where it is known least: `measured`, `sampled` or `inferred`.
    pub known: &'static str,
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
            processor: processor(before, after),
        })
    }
}

/// From what is known best to what is known least.
fn rank(known: &str) -> u8 {
    match known {
        "measured" => 0,
        "sampled" => 1,
        _ => 2,
    }
}

fn processor(before: &[TimeView], after: &[TimeView]) -> Option<ProcessorChangeView> {
    let sides = [before, after].map(|runs| -> Option<Vec<&ProcessorView>> {
        runs.iter().map(|run| run.processor.as_ref()).collect()
    });
    let [Some(before), Some(after)] = sides else {
        return None;
    };
    // Phases are told apart where all runs have stacks.
    let in_one = before.iter().chain(&after).any(|run| run.samples == 0);
    let mut parts: BTreeMap<(&'static str, Option<&str>), ProcessorPartChangeView> =
        BTreeMap::new();
    let mut wholes = [0.0; 2];
    for (side, runs) in [&before, &after].into_iter().enumerate() {
        let share = 1.0 / runs.len() as f64;
        for run in runs {
            wholes[side] += share * run.cpu_us;
            for part in &run.parts {
                let of = part.of.as_deref();
                let of = of.filter(|_| !(in_one && part.what == "client"));
                let change =
                    parts
                        .entry((part.what, of))
                        .or_insert_with(|| ProcessorPartChangeView {
                            what: part.what,
                            of: of.map(str::to_owned),
                            before_us: 0.0,
                            after_us: 0.0,
                            known: part.known,
                        });
                match side {
                    0 => change.before_us += share * part.us,
                    _ => change.after_us += share * part.us,
                }
                if rank(part.known) > rank(change.known) {
                    change.known = part.known;
                }
            }
        }
    }
    let mut parts: Vec<ProcessorPartChangeView> = parts.into_values().collect();
    let by = |part: &ProcessorPartChangeView| (part.after_us - part.before_us).abs();
    parts.sort_by(|one, other| by(other).total_cmp(&by(one)));
    Some(ProcessorChangeView {
        before_us: wholes[0],
        after_us: wholes[1],
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::processor::ProcessorPartView;
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
            planning: None,
            processor: None,
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

    #[test]
    fn processor_time_is_set_side_by_side_where_all_runs_have_it() {
        let with = |samples, parts: &[(&'static str, Option<&str>, f64)]| {
            let parts: Vec<ProcessorPartView> = parts
                .iter()
                .map(|(what, of, us)| ProcessorPartView {
                    what,
                    of: of.map(str::to_owned),
                    us: *us,
                    share: 0.0,
                    known: if *what == "not_met" {
                        "inferred"
                    } else {
                        "sampled"
                    },
                    error: None,
                })
                .collect();
            TimeView {
                processor: Some(ProcessorView {
                    cpu_us: parts.iter().map(|part| part.us).sum(),
                    counted_by: "kernel",
                    samples,
                    sampled_us: 0.0,
                    parts,
                    statements: Vec::new(),
                    statements_count: 0,
                    unassigned_us: 0.0,
                    remarks: Vec::new(),
                }),
                ..run(&[])
            }
        };
        let before = with(
            9,
            &[
                ("client", Some("scans"), 4.0),
                ("client", Some("sort"), 2.0),
            ],
        );
        let after = with(9, &[("client", Some("scans"), 5.0), ("not_met", None, 9.0)]);
        let change = |after: TimeView| {
            let change = TimeChangeView::new(std::slice::from_ref(&before), &[after]);
            let processor = change.unwrap().processor?;
            let parts = processor.parts.into_iter();
            let parts: Vec<_> = parts
                .map(|part| {
                    (
                        part.what,
                        part.of,
                        part.before_us,
                        part.after_us,
                        part.known,
                    )
                })
                .collect();
            Some(((processor.before_us, processor.after_us), parts))
        };
        let sort = Some("sort".to_owned());
        let scans = Some("scans".to_owned());
        assert_eq!(
            change(after),
            Some((
                (6.0, 14.0),
                vec![
                    ("not_met", None, 0.0, 9.0, "inferred"),
                    ("client", sort, 2.0, 0.0, "sampled"),
                    ("client", scans, 4.0, 5.0, "sampled"),
                ]
            ))
        );
        // Where a run has no stacks there are no phases.
        let none = with(0, &[("client", None, 7.0)]);
        let all = vec![("client", None, 6.0, 7.0, "sampled")];
        assert_eq!(change(none), Some(((6.0, 7.0), all)));
        assert_eq!(change(run(&[])), None);
    }
}
