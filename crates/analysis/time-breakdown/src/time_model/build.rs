//! Combines the times of clients, the server's statistics, samples and stacks.

use std::collections::{BTreeMap, HashMap};

use run::{Activity, SampleWindow, StatementStatistics};
use sql::Fingerprint;

use crate::sampling::sample_ns;

use super::{
    Basis, ProcessorTime, ResponseSums, ResponseTotals, StatementTime, TimeBreakdown, TimeCategory,
    TimePart, TimeRemark,
};

/// Factor of samples over clients' times that chance explains.
const SCALE_NOTABLE: f64 = 1.1;
/// Share of missed samples, or of time without samples, above which a remark is added.
const MISSED_NOTABLE: f64 = 0.05;
/// Ratio of all calls to this run's calls above which a remark is added.
const OTHERS_NOTABLE: f64 = 1.02;

/// Type of backends that serve clients in `pg_stat_activity` (from version 10).
const CLIENT: &str = "client backend";
/// State of a backend that executes a statement.
const ACTIVE: &str = "active";

/// Samples of a statement.
#[derive(Debug, Clone, Default)]
struct StatementSamples {
    /// Samples without a wait event: time in nanoseconds, and number.
    processor: (f64, u64),
    waits: BTreeMap<(String, String), (f64, u64)>,
}

impl StatementSamples {
    fn total_ns(&self) -> f64 {
        self.processor.0 + self.waits.values().map(|(ns, _)| ns).sum::<f64>()
    }
}

/// The server's statistics of a statement.
#[derive(Debug, Clone, Copy, Default)]
struct StatementCounts {
    calls: u64,
    plan_ns: Option<f64>,
    exec_ns: f64,
}

impl StatementCounts {
    /// Scales the statistics to the calls of this run, because others may have sent the statement
    /// as well.
    fn scale_to_run(self, sums: &ResponseSums) -> Option<StatementCounts> {
        if self.calls == 0 {
            return None;
        }
        let share = (sums.calls as f64 / self.calls as f64).min(1.0);
        Some(StatementCounts {
            plan_ns: self.plan_ns.map(|ns| ns * share),
            exec_ns: self.exec_ns * share,
            ..self
        })
    }
}

/// Observations of a run's server. Empty parts were not observed: no windows, no sampling; no
/// stacks, no phases.
#[derive(Debug, Clone, Copy)]
pub struct ServerObservations<'s> {
    /// Windows in which samples were taken.
    pub windows: &'s [SampleWindow],
    /// Processor time by phase, from stacks.
    pub stacks: &'s [ProcessorTime],
    /// Full statement of the run for each truncated one
    /// ([`whole_statements`](super::match_truncated_queries)).
    pub whole: &'s HashMap<Fingerprint, Fingerprint>,
}

/// Breaks down the response time. Statistics and samples are read once.
///
/// # Errors
/// If either iterator fails; the first error is returned.
pub fn break_down_time<E>(
    sums: &ResponseTotals,
    seen: ServerObservations<'_>,
    statistics: impl IntoIterator<Item = Result<StatementStatistics, E>>,
    activity: impl IntoIterator<Item = Result<Activity, E>>,
) -> Result<TimeBreakdown, E> {
    let ServerObservations {
        windows, stacks, ..
    } = seen;
    let Samples {
        by_statement: found,
        others_ns,
        others_running_ns,
        hidden_ns,
    } = collect_samples(sums, seen, activity)?;
    let counted = collect_statistics(statistics)?;
    let sampled = windows.iter().any(|window| window.samples > 0);
    let evidence = Sources {
        sampled,
        hidden: hidden_ns > 0.0,
        stacks: Stacks::new(stacks),
    };
    let mut statements: Vec<StatementTime> = Vec::new();
    let mut whole = PartTotals::default();
    let mut ours = 0u64;
    let mut theirs = 0u64;
    for (fingerprint, sums) in &sums.by_statement {
        let counted = counted.get(fingerprint);
        if let Some(counted) = counted {
            ours += sums.calls;
            theirs += counted.calls.max(sums.calls);
        }
        let one = evidence.split(
            Some(*fingerprint),
            sums,
            counted.copied(),
            found.get(fingerprint),
        );
        whole.add(&one);
        statements.push(one);
    }
    // Statements without a fingerprint were only seen by clients.
    let known = statements.iter().map(|one| one.response_ns).sum::<f64>();
    let rest_ns = (sums.all.response_ns() - known).max(0.0);
    statements.sort_by(|one, other| {
        let longest = other.service_ns.total_cmp(&one.service_ns);
        longest.then(one.fingerprint.cmp(&other.fingerprint))
    });
    let whole = whole.finish(sums.all.calls, rest_ns);
    let mut remarks = remarks(&evidence, windows, &counted, &whole, (ours, theirs));
    let share = sums.all.unwatched_ns / sums.all.service_ns.max(1.0);
    if sampled && share > MISSED_NOTABLE {
        remarks.push(TimeRemark::Unwatched { share });
    }
    Ok(TimeBreakdown {
        whole,
        statements,
        others_ns,
        others_running_ns,
        planned_and_executed_ns: planned_and_executed(sums, &counted),
        hidden_ns,
        remarks,
        planning: None,
        processor: None,
    })
}

fn remarks(
    evidence: &Sources<'_>,
    windows: &[SampleWindow],
    counted: &HashMap<Fingerprint, StatementCounts>,
    whole: &StatementTime,
    (ours, theirs): (u64, u64),
) -> Vec<TimeRemark> {
    let mut remarks = Vec::new();
    if !evidence.sampled {
        remarks.push(TimeRemark::NotSampled);
    }
    let planned = counted.values().any(|one| one.plan_ns.is_some());
    if !planned && evidence.stacks.is_empty() {
        remarks.push(TimeRemark::PlanningUnknown);
    }
    if whole.scale * SCALE_NOTABLE < 1.0 {
        remarks.push(TimeRemark::MoreThanSeen {
            factor: 1.0 / whole.scale,
        });
    }
    let samples: u64 = windows.iter().map(|window| window.samples).sum();
    let missed: u64 = windows.iter().map(|window| window.missed).sum();
    let share = missed as f64 / (samples + missed).max(1) as f64;
    if share > MISSED_NOTABLE {
        remarks.push(TimeRemark::SamplesMissed { share });
    }
    let factor = theirs as f64 / ours.max(1) as f64;
    if factor > OTHERS_NOTABLE {
        remarks.push(TimeRemark::OthersCalls { factor });
    }
    remarks
}

/// Samples by statement, and those of other statements.
#[derive(Default)]
struct Samples {
    by_statement: HashMap<Fingerprint, StatementSamples>,
    others_ns: f64,
    others_running_ns: f64,
    hidden_ns: f64,
}

fn collect_samples<E>(
    sums: &ResponseTotals,
    seen: ServerObservations<'_>,
    activity: impl IntoIterator<Item = Result<Activity, E>>,
) -> Result<Samples, E> {
    let ServerObservations { windows, whole, .. } = seen;
    let each_ns = sample_ns(windows);
    let mut samples = Samples::default();
    for seen in activity {
        let seen = seen?;
        let Some(each_ns) = each_ns.get(&seen.at_ns) else {
            continue;
        };
        let ns = each_ns * seen.count as f64;
        // The activity of hidden sessions is unknown.
        if seen.state == "hidden" {
            samples.hidden_ns += ns;
            continue;
        }
        if seen.backend != CLIENT {
            continue;
        }
        if seen.state != ACTIVE {
            continue;
        }
        let of_run = seen
            .fingerprint
            .map(|fingerprint| *whole.get(&fingerprint).unwrap_or(&fingerprint))
            .filter(|fingerprint| sums.by_statement.contains_key(fingerprint));
        let Some(fingerprint) = of_run else {
            samples.others_ns += ns;
            if seen.wait_type.is_none() {
                samples.others_running_ns += ns;
            }
            continue;
        };
        let found = samples.by_statement.entry(fingerprint).or_default();
        let place = match (&seen.wait_type, &seen.wait) {
            (None, _) => &mut found.processor,
            (Some(kind), event) => {
                let event = event.clone().unwrap_or_default();
                found.waits.entry((kind.clone(), event)).or_default()
            }
        };
        place.0 += ns;
        place.1 += seen.count;
    }
    Ok(samples)
}

/// Returns planning and execution time of the run's statements whose planning is tracked, scaled to
/// the run.
fn planned_and_executed(
    sums: &ResponseTotals,
    counted: &HashMap<Fingerprint, StatementCounts>,
) -> Option<(f64, f64)> {
    let of_run = sums.by_statement.iter().filter_map(|(fingerprint, sums)| {
        let counted = counted.get(fingerprint)?.scale_to_run(sums)?;
        Some((counted.plan_ns?, counted.exec_ns))
    });
    let both = of_run.reduce(|one, other| (one.0 + other.0, one.1 + other.1));
    both.filter(|(plan_ns, exec_ns)| plan_ns + exec_ns > 0.0)
}

/// Sums statistics by statement. Statements of functions are included in those that called them.
fn collect_statistics<E>(
    statistics: impl IntoIterator<Item = Result<StatementStatistics, E>>,
) -> Result<HashMap<Fingerprint, StatementCounts>, E> {
    let mut by_statement: HashMap<Fingerprint, StatementCounts> = HashMap::new();
    for one in statistics {
        let one = one?;
        let Some(fingerprint) = one.fingerprint.filter(|_| one.top_level != Some(false)) else {
            continue;
        };
        let counted = by_statement.entry(fingerprint).or_default();
        counted.calls += one.calls;
        counted.exec_ns += one.exec_ns as f64;
        if let Some(plan_ns) = one.plan_ns {
            *counted.plan_ns.get_or_insert(0.0) += plan_ns as f64;
        }
    }
    Ok(by_statement)
}

/// Shares of processor time by phase.
struct Stacks<'s> {
    by_statement: HashMap<Fingerprint, Vec<&'s ProcessorTime>>,
    all: Vec<&'s ProcessorTime>,
}

impl<'s> Stacks<'s> {
    fn new(stacks: &'s [ProcessorTime]) -> Self {
        let mut by_statement: HashMap<Fingerprint, Vec<&ProcessorTime>> = HashMap::new();
        let mut all = Vec::new();
        for one in stacks {
            match one.fingerprint {
                Some(fingerprint) => by_statement.entry(fingerprint).or_default().push(one),
                None => all.push(one),
            }
        }
        Stacks { by_statement, all }
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty() && self.by_statement.is_empty()
    }

    /// Returns planning's share, and the shares of the other phases among themselves. A statement
    /// without stacks has the shares of all statements. `None` without stacks.
    fn shares(&self, fingerprint: Option<Fingerprint>) -> Option<(f64, BTreeMap<&'s str, f64>)> {
        let own = fingerprint.and_then(|fingerprint| self.by_statement.get(&fingerprint));
        let rows = own.unwrap_or(&self.all);
        let total: f64 = rows.iter().map(|row| row.time).sum();
        if total <= 0.0 {
            return None;
        }
        let planning = rows.iter().filter(|row| row.is_planning);
        let planning: f64 = planning.map(|row| row.time).sum();
        let mut others: BTreeMap<&str, f64> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.is_planning) {
            *others.entry(row.phase.as_str()).or_default() += row.time;
        }
        let rest = total - planning;
        others.values_mut().for_each(|time| *time /= rest);
        Some((planning / total, others))
    }
}

struct Sources<'s> {
    sampled: bool,
    /// Whether samples found sessions that the role may not inspect, idle or not.
    hidden: bool,
    stacks: Stacks<'s>,
}

impl Sources<'_> {
    fn split(
        &self,
        fingerprint: Option<Fingerprint>,
        sums: &ResponseSums,
        counted: Option<StatementCounts>,
        found: Option<&StatementSamples>,
    ) -> StatementTime {
        let mut parts = vec![
            part(TimeCategory::ToolLag, sums.tool_lag_ns, Basis::Measured),
            part(
                TimeCategory::SessionLag,
                sums.session_lag_ns,
                Basis::Measured,
            ),
        ];
        let mut scale = 1.0;
        let counted = counted.and_then(|counted| counted.scale_to_run(sums));
        if self.sampled {
            let nothing = StatementSamples::default();
            let found = found.unwrap_or(&nothing);
            let total_ns = found.total_ns();
            if total_ns > sums.service_ns {
                scale = sums.service_ns / total_ns;
            }
            self.split_samples(&mut parts, fingerprint, counted, found, scale);
            let outside_ns = (sums.service_ns - total_ns).max(0.0);
            // Time in the statistics that samples missed was spent in the server as well.
            let server_ns = counted.map_or(0.0, |one| one.exec_ns + one.plan_ns.unwrap_or(0.0));
            let missed_ns = (server_ns - total_ns).clamp(0.0, outside_ns);
            parts.push(part(TimeCategory::Execution, missed_ns, Basis::Inferred));
            let rest_ns = outside_ns - missed_ns;
            let unobserved_ns = match self.hidden && total_ns == 0.0 {
                // A statement without samples may belong to a session that could not be inspected.
                true => rest_ns,
                // A sampler that was killed or could not reach the server took no samples
                // meanwhile.
                false => sums.unwatched_ns.min(rest_ns),
            };
            parts.push(part(
                TimeCategory::Unobserved,
                unobserved_ns,
                Basis::Inferred,
            ));
            parts.push(part(
                TimeCategory::OutsideServer,
                rest_ns - unobserved_ns,
                Basis::Inferred,
            ));
        } else {
            split_statistics(&mut parts, sums.service_ns, counted);
        }
        parts.retain(|part| part.ns > 0.0);
        parts.sort_by(|one, other| one.category.cmp(&other.category));
        StatementTime {
            fingerprint,
            sql: None,
            calls: sums.calls,
            response_ns: sums.response_ns(),
            service_ns: sums.service_ns,
            parts,
            scale,
        }
    }

    fn split_samples(
        &self,
        parts: &mut Vec<TimePart<TimeCategory>>,
        fingerprint: Option<Fingerprint>,
        counted: Option<StatementCounts>,
        found: &StatementSamples,
        scale: f64,
    ) {
        let sampled = |samples| Basis::Sampled { samples };
        for ((kind, event), (ns, samples)) in &found.waits {
            let wait = TimeCategory::Wait {
                kind: kind.clone(),
                event: event.clone(),
            };
            parts.push(part(wait, ns * scale, sampled(*samples)));
        }
        let (ns, samples) = found.processor;
        let processor_ns = ns * scale;
        let shares = self.stacks.shares(fingerprint);
        let planning = match (counted.and_then(|counted| counted.plan_ns), &shares) {
            // More planning than processor time in samples: the rest of it was waiting.
            (Some(plan_ns), _) => Some((plan_ns.min(processor_ns), Basis::Measured)),
            (None, Some((share, _))) => {
                let samples = (samples as f64 * share).round() as u64;
                Some((processor_ns * share, sampled(samples)))
            }
            (None, None) => None,
        };
        let planning_ns = planning.map_or(0.0, |(ns, _)| ns);
        if let Some((ns, basis)) = planning {
            parts.push(part(TimeCategory::Planning, ns, basis));
        }
        let rest_ns = processor_ns - planning_ns;
        let phases = shares.map(|(_, phases)| phases).unwrap_or_default();
        if phases.is_empty() {
            parts.push(part(
                TimeCategory::Processor(None),
                rest_ns,
                sampled(samples),
            ));
        }
        for (phase, share) in phases {
            let samples = (samples as f64 * share).round() as u64;
            let phase = TimeCategory::Processor(Some(phase.to_owned()));
            parts.push(part(phase, rest_ns * share, sampled(samples)));
        }
    }
}

/// Breaks down a statement without samples by statistics.
fn split_statistics(
    parts: &mut Vec<TimePart<TimeCategory>>,
    service_ns: f64,
    counted: Option<StatementCounts>,
) {
    let Some(counted) = counted else {
        parts.push(part(TimeCategory::Unobserved, service_ns, Basis::Inferred));
        return;
    };
    let plan_ns = counted.plan_ns.unwrap_or(0.0).min(service_ns);
    let exec_ns = counted.exec_ns.min(service_ns - plan_ns);
    parts.push(part(TimeCategory::Planning, plan_ns, Basis::Measured));
    parts.push(part(TimeCategory::Execution, exec_ns, Basis::Measured));
    let rest_ns = service_ns - plan_ns - exec_ns;
    parts.push(part(TimeCategory::Unobserved, rest_ns, Basis::Inferred));
}

fn part(category: TimeCategory, ns: f64, basis: Basis) -> TimePart<TimeCategory> {
    TimePart {
        category,
        ns,
        basis,
    }
}

/// Totals of the parts over all statements.
#[derive(Default)]
struct PartTotals {
    parts: BTreeMap<TimeCategory, (f64, u64, Option<Basis>)>,
    samples_ns: f64,
    fitted_ns: f64,
}

impl PartTotals {
    fn add(&mut self, one: &StatementTime) {
        for part in &one.parts {
            let (ns, samples, basis) = self.parts.entry(part.category.clone()).or_default();
            *ns += part.ns;
            if let Basis::Sampled { samples: more } = part.basis {
                *samples += more;
                self.samples_ns += part.ns / one.scale;
                self.fitted_ns += part.ns;
            }
            *basis = Some(basis.map_or(part.basis, |basis| basis.weaker(part.basis)));
        }
    }

    fn finish(self, calls: u64, rest_ns: f64) -> StatementTime {
        let mut parts: Vec<TimePart<TimeCategory>> = self
            .parts
            .into_iter()
            .map(|(category, (ns, samples, basis))| {
                let basis = match basis.unwrap_or(Basis::Inferred) {
                    Basis::Sampled { .. } => Basis::Sampled { samples },
                    other => other,
                };
                part(category, ns, basis)
            })
            .collect();
        if rest_ns > 0.0 {
            match parts
                .iter_mut()
                .find(|part| part.category == TimeCategory::Unobserved)
            {
                Some(unlooked) => unlooked.ns += rest_ns,
                None => parts.push(part(TimeCategory::Unobserved, rest_ns, Basis::Inferred)),
            }
        }
        let is_lag = |part: &&TimePart<TimeCategory>| {
            matches!(
                part.category,
                TimeCategory::ToolLag | TimeCategory::SessionLag
            )
        };
        let lag_ns: f64 = parts.iter().filter(is_lag).map(|part| part.ns).sum();
        let response_ns: f64 = parts.iter().map(|part| part.ns).sum();
        StatementTime {
            fingerprint: None,
            sql: None,
            calls,
            response_ns,
            service_ns: response_ns - lag_ns,
            parts,
            scale: match self.samples_ns > 0.0 {
                true => self.fitted_ns / self.samples_ns,
                false => 1.0,
            },
        }
    }
}
