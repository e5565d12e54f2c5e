//! Time breakdown before and after a change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Basis, ProcessorCategory, TimeBreakdown, TimeCategory, TimePart};

/// Components of response time and processor time, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimeChange {
    /// Response time (due → done) of all statements.
    pub response: PartsChange<TimeCategory>,
    /// The server's processor time; `null` unless all runs have it.
    pub processor: Option<PartsChange<ProcessorCategory>>,
}

/// Time and its parts before and after, averaged over the runs of each side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartsChange<C> {
    /// Total before.
    pub before_ns: f64,
    /// Total after.
    pub after_ns: f64,
    /// Parts by descending change.
    pub parts: Vec<PartChange<C>>,
}

/// Part of a time before and after.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartChange<C> {
    /// Category of the part.
    #[serde(flatten)]
    pub category: C,
    /// Time in a run before.
    pub before_ns: f64,
    /// Time in a run after.
    pub after_ns: f64,
    /// Basis of the value in the run in which it is least certain.
    #[serde(flatten)]
    pub basis: Basis,
}

impl TimeChange {
    /// Compares the runs of both sides; `None` if a side has none.
    pub fn new(before: &[TimeBreakdown], after: &[TimeBreakdown]) -> Option<Self> {
        if before.is_empty() || after.is_empty() {
            return None;
        }
        // Phases are distinguished only if all runs have them.
        let has_no_phases = |run: &TimeBreakdown| {
            let mut parts = run.whole.parts.iter();
            parts.any(|part| part.category == TimeCategory::Processor(None))
        };
        let in_one = before.iter().chain(after).any(has_no_phases);
        let names = wait_names(after.iter().chain(before));
        let category = |category: &TimeCategory| match category {
            TimeCategory::Processor(_) if in_one => TimeCategory::Processor(None),
            TimeCategory::Wait { kind, event } => names[&unversioned_name(kind, event)].clone(),
            other => other.clone(),
        };
        let side = |runs: &'_ [TimeBreakdown]| {
            let each = runs.iter().map(|run| &run.whole);
            each.map(|one| (one.response_ns, one.parts.clone()))
                .collect()
        };
        Some(Self {
            response: PartsChange::new([side(before), side(after)], category),
            processor: processor(before, after),
        })
    }
}

/// Returns a wait event's name without the spelling that differs between versions.
///
/// PostgreSQL 13 changed `buffer_content` to `BufferContent` and `ProcArrayLock` to `ProcArray`, PostgreSQL 17
/// changed `WALSync` to `WalSync`. PostgreSQL 19 changed the type `BufferPin` to `Buffer`, and its event to
/// `BufferCleanup`. Source: the tables of wait events in the manuals of 12, 13, 16, 17 and 19.
fn unversioned_name(kind: &str, event: &str) -> (String, String) {
    if (kind, event) == ("BufferPin", "BufferPin") {
        return ("Buffer".to_owned(), "buffercleanup".to_owned());
    }
    let mut name = event.replace('_', "").to_ascii_lowercase();
    if kind == "LWLock" && name.ends_with("lock") {
        name.truncate(name.len() - "lock".len());
    }
    (kind.to_owned(), name)
}

/// Maps the unversioned name of each wait event to its category in the first run that has it.
fn wait_names<'r>(
    runs: impl Iterator<Item = &'r TimeBreakdown>,
) -> BTreeMap<(String, String), TimeCategory> {
    let mut names = BTreeMap::new();
    for part in runs.flat_map(|run| &run.whole.parts) {
        if let TimeCategory::Wait { kind, event } = &part.category {
            names
                .entry(unversioned_name(kind, event))
                .or_insert_with(|| part.category.clone());
        }
    }
    names
}

fn processor(
    before: &[TimeBreakdown],
    after: &[TimeBreakdown],
) -> Option<PartsChange<ProcessorCategory>> {
    // Phases are distinguished only if all runs have stacks.
    let has_no_stacks =
        |run: &TimeBreakdown| run.processor.as_ref().is_some_and(|one| one.samples == 0);
    let in_one = before.iter().chain(after).any(has_no_stacks);
    let category = |category: &ProcessorCategory| match category {
        ProcessorCategory::Client(_) if in_one => ProcessorCategory::Client(None),
        other => other.clone(),
    };
    let side = |runs: &[TimeBreakdown]| -> Option<Vec<_>> {
        let each = runs.iter().map(|run| Some(&run.processor.as_ref()?.whole));
        each.map(|one| one.map(|one| (one.cpu_ns, one.parts.clone())))
            .collect()
    };
    Some(PartsChange::new([side(before)?, side(after)?], category))
}

/// Total of a run, and its parts.
type Parts<C> = (f64, Vec<TimePart<C>>);

impl<C: Clone + Ord> PartsChange<C> {
    /// Compares totals and parts of the runs of both sides.
    fn new(sides: [Vec<Parts<C>>; 2], category: impl Fn(&C) -> C) -> Self {
        let mut wholes = [0.0; 2];
        let mut parts: BTreeMap<C, PartChange<C>> = BTreeMap::new();
        for (side, runs) in sides.iter().enumerate() {
            let share = 1.0 / runs.len() as f64;
            for (whole_ns, run) in runs {
                wholes[side] += share * whole_ns;
                for part in run {
                    let category = category(&part.category);
                    let change = parts.entry(category.clone()).or_insert(PartChange {
                        category,
                        before_ns: 0.0,
                        after_ns: 0.0,
                        basis: part.basis,
                    });
                    match side {
                        0 => change.before_ns += share * part.ns,
                        _ => change.after_ns += share * part.ns,
                    }
                    change.basis = change.basis.weaker(part.basis);
                }
            }
        }
        let mut parts: Vec<PartChange<C>> = parts.into_values().collect();
        let changed_ns = |part: &PartChange<C>| (part.after_ns - part.before_ns).abs();
        parts.sort_by(|one, other| changed_ns(other).total_cmp(&changed_ns(one)));
        Self {
            before_ns: wholes[0],
            after_ns: wholes[1],
            parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_model::{CpuCounter, ProcessorBreakdown, StatementCpuTime, StatementTime};

    fn lock() -> TimeCategory {
        TimeCategory::Wait {
            kind: "Lock".to_owned(),
            event: "tuple".to_owned(),
        }
    }

    fn on(phase: Option<&str>) -> TimeCategory {
        TimeCategory::Processor(phase.map(str::to_owned))
    }

    fn client(phase: Option<&str>) -> ProcessorCategory {
        ProcessorCategory::Client(phase.map(str::to_owned))
    }

    fn run(parts: &[(TimeCategory, f64)]) -> TimeBreakdown {
        let parts = parts.iter().map(|(category, ns)| TimePart {
            category: category.clone(),
            ns: *ns,
            basis: match category {
                TimeCategory::Wait { .. } => Basis::Sampled { samples: 9 },
                _ => Basis::Measured,
            },
        });
        let parts: Vec<_> = parts.collect();
        TimeBreakdown {
            whole: StatementTime {
                fingerprint: None,
                sql: None,
                calls: 1,
                response_ns: parts.iter().map(|part| part.ns).sum(),
                service_ns: 0.0,
                parts,
                scale: 1.0,
            },
            statements: Vec::new(),
            others_ns: 0.0,
            others_running_ns: 0.0,
            planned_and_executed_ns: None,
            hidden_ns: 0.0,
            remarks: Vec::new(),
            planning: None,
            processor: None,
        }
    }

    /// Returns categories with their times before and after, and their basis.
    fn told<C: Clone>(change: &PartsChange<C>) -> Vec<(C, f64, f64, &'static str)> {
        let parts = change.parts.iter();
        parts
            .map(|part| {
                let (category, basis) = (part.category.clone(), part.basis.name());
                (category, part.before_ns, part.after_ns, basis)
            })
            .collect()
    }

    #[test]
    fn parts_are_averaged_over_runs_and_ordered_by_their_change() {
        let planning = TimeCategory::Planning;
        let before = [
            run(&[(planning.clone(), 10.0), (lock(), 4.0)]),
            run(&[(planning.clone(), 20.0)]),
        ];
        let after = [run(&[(planning.clone(), 16.0), (lock(), 50.0)])];
        let change = TimeChange::new(&before, &after).unwrap().response;
        assert_eq!((change.before_ns, change.after_ns), (17.0, 66.0));
        assert_eq!(
            told(&change),
            [
                (lock(), 2.0, 50.0, "sampled"),
                (planning, 15.0, 16.0, "measured")
            ]
        );
        assert_eq!(TimeChange::new(&before, &[]), None);
    }

    #[test]
    fn phases_are_distinguished_only_if_all_runs_have_them() {
        let phases = [(on(Some("scans")), 4.0), (on(Some("sort")), 2.0)];
        let change = TimeChange::new(&[run(&phases)], &[run(&[(on(None), 5.0)])]).unwrap();
        assert_eq!(told(&change.response), [(on(None), 6.0, 5.0, "measured")]);
        let change = TimeChange::new(&[run(&phases)], &[run(&phases[..1])]).unwrap();
        assert_eq!(change.response.parts.len(), 2);
    }

    #[test]
    fn wait_events_are_compared_under_the_name_of_the_version_after() {
        let wait = |kind: &str, event: &str| TimeCategory::Wait {
            kind: kind.to_owned(),
            event: event.to_owned(),
        };
        let before = run(&[
            (wait("IO", "WALSync"), 4.0),
            (wait("LWLock", "ProcArrayLock"), 3.0),
            (wait("Extension", "walsync"), 2.0),
            (wait("BufferPin", "BufferPin"), 1.0),
        ]);
        let after = run(&[
            (wait("IO", "WalSync"), 14.0),
            (wait("LWLock", "ProcArray"), 5.0),
            (wait("Buffer", "BufferCleanup"), 2.0),
        ]);
        let change = TimeChange::new(&[before], &[after]).unwrap().response;
        let expected = [
            (wait("IO", "WalSync"), 4.0, 14.0, "sampled"),
            (wait("Extension", "walsync"), 2.0, 0.0, "sampled"),
            (wait("LWLock", "ProcArray"), 3.0, 5.0, "sampled"),
            (wait("Buffer", "BufferCleanup"), 1.0, 2.0, "sampled"),
        ];
        assert_eq!(told(&change), expected);
    }

    #[test]
    fn processor_time_is_compared_if_all_runs_have_it() {
        let with = |samples, parts: &[(ProcessorCategory, f64)]| {
            let parts = parts.iter().map(|(category, ns)| TimePart {
                category: category.clone(),
                ns: *ns,
                basis: match category {
                    ProcessorCategory::Unattributed => Basis::Inferred,
                    _ => Basis::Sampled { samples: 9 },
                },
            });
            let parts: Vec<_> = parts.collect();
            TimeBreakdown {
                processor: Some(ProcessorBreakdown {
                    whole: StatementCpuTime {
                        cpu_ns: parts.iter().map(|part| part.ns).sum(),
                        parts,
                        ..StatementCpuTime::default()
                    },
                    statements: Vec::new(),
                    unassigned: StatementCpuTime::default(),
                    counted_by: CpuCounter::Scheduler,
                    samples,
                    sampled_ns: 0.0,
                    scale: 1.0,
                    remarks: Vec::new(),
                }),
                ..run(&[])
            }
        };
        let (scans, sort) = (client(Some("scans")), client(Some("sort")));
        let before = with(9, &[(scans.clone(), 4.0), (sort.clone(), 2.0)]);
        let rest = ProcessorCategory::Unattributed;
        let after = with(9, &[(scans.clone(), 5.0), (rest.clone(), 9.0)]);
        let change = |after: TimeBreakdown| {
            let change = TimeChange::new(std::slice::from_ref(&before), &[after]);
            let change = change.unwrap().processor?;
            Some(((change.before_ns, change.after_ns), told(&change)))
        };
        assert_eq!(
            change(after),
            Some((
                (6.0, 14.0),
                vec![
                    (rest, 0.0, 9.0, "inferred"),
                    (sort, 2.0, 0.0, "sampled"),
                    (scans, 4.0, 5.0, "sampled"),
                ]
            ))
        );
        // If a run has no stacks there are no phases.
        let none = with(0, &[(client(None), 7.0)]);
        let all = vec![(client(None), 6.0, 7.0, "sampled")];
        assert_eq!(change(none), Some(((6.0, 7.0), all)));
        assert_eq!(change(run(&[])), None);
    }
}
