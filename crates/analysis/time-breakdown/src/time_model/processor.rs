//! Breaks down the server's processor time into parts that add up.
//!
//! ```text
//! processor time of the server's processes   measured: the kernel's count; else sampled: stacks
//! ├ clients' sessions, by phase              sampled: stacks; by statement if that is known
//! │   (without stacks: in one                measured: the kernel's count, by process)
//! ├ the server's own processes, by kind      sampled; without stacks measured
//! ├ our own queries                          sampled
//! └ unattributed                             inferred: the kernel's count less the others
//! ```
//!
//! A stack represents the time until the next one, times its weight
//! (`SampleTime` of `cpu-profile`). If stacks still find more than the kernel
//! counted, they are scaled down to that ([`ProcessorBreakdown::scale`]). Without stacks the time of a
//! statement is inferred: the clients' time, distributed by the samples of the activity that found
//! it running or runnable.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use super::{Basis, TimePart};

/// Factor between stacks and the kernel's count that chance explains; beyond it a remark is added.
const SCALE_NOTABLE: f64 = 1.05;

/// User of processor time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessorUser {
    /// A client's session, or a worker that helped it.
    Client,
    /// A query of this program.
    Own,
    /// A process of the server's own, of this kind (`checkpointer`).
    Server(String),
}

/// Number of stacks of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackCount {
    /// User of the processor.
    pub who: ProcessorUser,
    /// Statement, if known.
    pub fingerprint: Option<Fingerprint>,
    /// Phase of the server.
    pub phase: String,
    /// Number of stacks.
    pub samples: u64,
}

/// Inputs of the breakdown of processor time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessorEvidence {
    /// The kernel's count for the server's processes, including those that ended, in nanoseconds.
    pub kernel_ns: Option<f64>,
    /// Whether the count comes from task counters instead of the scheduler.
    pub by_tasks: bool,
    /// Stacks sampled in that time, if any were taken.
    pub stacks: Vec<StackCount>,
    /// Time between two samples, in nanoseconds.
    pub sample_ns: f64,
    /// Factor by which stacks add up to the task counters; `None` if these are unknown.
    pub weight: Option<f64>,
    /// The kernel's count by process, in nanoseconds; used without stacks.
    pub by_process: Vec<(ProcessorUser, f64)>,
    /// Time for which samples found each statement running or runnable, in nanoseconds; `None` is
    /// the key of statements that are not the run's. Used without stacks.
    pub running_ns: BTreeMap<Option<Fingerprint>, f64>,
}

impl ProcessorEvidence {
    fn counter(&self) -> CpuCounter {
        match self.by_tasks {
            true => CpuCounter::Tasks,
            false => CpuCounter::Scheduler,
        }
    }
}

/// Breakdown of the processor time of the server's processes; the parts add up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProcessorBreakdown {
    /// Total.
    pub whole: StatementCpuTime,
    /// Statements with known processor time, in descending order.
    pub statements: Vec<StatementCpuTime>,
    /// Time of clients' sessions without a known statement: between statements, session start and
    /// end, helper processes, other clients.
    pub unassigned: StatementCpuTime,
    /// Counter of the total.
    pub counted_by: CpuCounter,
    /// Number of stacks.
    pub samples: u64,
    /// Number of stacks times their distance; 0 without stacks.
    pub sampled_ns: f64,
    /// Factor by which stacks were scaled to add up to the total, or to fit into it.
    #[serde(skip)]
    pub scale: f64,
    /// Remarks on completeness.
    pub remarks: Vec<ProcessorRemark>,
}

impl ProcessorBreakdown {
    /// Returns the *processor share* of a statement: its time, of the processor time of all processes of the server. `show`,
    /// `cpu` and `diagnose` all have this share. It is 0 for a statement without processor time.
    pub fn processor_share(&self, fingerprint: Fingerprint) -> f64 {
        let is_it = |one: &&StatementCpuTime| one.fingerprint == Some(fingerprint);
        let own_ns = self
            .statements
            .iter()
            .find(is_it)
            .map_or(0.0, |one| one.cpu_ns);
        match self.whole.cpu_ns > 0.0 {
            true => own_ns / self.whole.cpu_ns,
            false => 0.0,
        }
    }
}

/// Counter of processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpuCounter {
    /// The kernel's task counters.
    Tasks,
    /// The kernel's scheduler statistics.
    Scheduler,
    /// Stacks, because the kernel's count could not be read.
    Stacks,
}

/// Processor time and its parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct StatementCpuTime {
    /// Statement; `null` for all, or for none.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised SQL, if known. [`super::TimeBreakdown::name_statements`] adds it.
    pub sql: Option<String>,
    /// Sum of the parts.
    pub cpu_ns: f64,
    /// Parts in descending order.
    pub parts: Vec<TimePart<ProcessorCategory>>,
}

/// Categories of processor time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "category", content = "detail", rename_all = "snake_case")]
pub enum ProcessorCategory {
    /// Clients' sessions, in this phase of the server; `null` without stacks.
    Client(Option<String>),
    /// A process of the server's own, of this kind.
    Server(String),
    /// Queries of this program.
    Own,
    /// Counted, but not found in stacks or processes.
    Unattributed,
}

/// Remark on the completeness of a processor model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "remark", rename_all = "snake_case")]
pub enum ProcessorRemark {
    /// The kernel's count could not be read, so the total is the time that stacks represent.
    NotCounted,
    /// No stacks were taken: the parts of statements are inferred, and there are no phases.
    NoStacks,
    /// Stacks represented more time than the kernel counted, and were scaled down.
    MoreThanCounted {
        /// Ratio of the two, more than 1.
        factor: f64,
    },
    /// Stacks represented less time than the kernel counted, and were scaled up.
    FewerThanCounted {
        /// Ratio of the two, less than 1.
        factor: f64,
    },
}

/// Parts while they are summed.
#[derive(Default)]
struct Parts(BTreeMap<ProcessorCategory, (f64, u64)>);

impl Parts {
    fn add(&mut self, category: ProcessorCategory, ns: f64, samples: u64) {
        let part = self.0.entry(category).or_default();
        part.0 += ns;
        part.1 += samples;
    }

    fn finish(
        self,
        fingerprint: Option<Fingerprint>,
        basis: impl Fn(&ProcessorCategory, u64) -> Basis,
    ) -> StatementCpuTime {
        let with_time = self.0.into_iter().filter(|(_, (ns, _))| *ns > 0.0);
        let mut parts: Vec<TimePart<ProcessorCategory>> = with_time
            .map(|(category, (ns, samples))| TimePart {
                basis: basis(&category, samples),
                category,
                ns,
            })
            .collect();
        parts.sort_by(|one, other| other.ns.total_cmp(&one.ns));
        StatementCpuTime {
            fingerprint,
            sql: None,
            cpu_ns: parts.iter().map(|part| part.ns).sum(),
            parts,
        }
    }
}

/// Breaks down the processor time; `None` without a count and without stacks.
pub fn break_down_processor_time(evidence: &ProcessorEvidence) -> Option<ProcessorBreakdown> {
    let samples: u64 = evidence.stacks.iter().map(|one| one.samples).sum();
    match (samples, evidence.kernel_ns) {
        (0, None) => None,
        (0, Some(kernel_ns)) => Some(without_stacks(evidence, kernel_ns)),
        (samples, kernel_ns) => Some(of_stacks(evidence, samples, kernel_ns)),
    }
}

fn category_of(who: &ProcessorUser, phase: Option<&str>) -> ProcessorCategory {
    match who {
        ProcessorUser::Client => ProcessorCategory::Client(phase.map(str::to_owned)),
        ProcessorUser::Own => ProcessorCategory::Own,
        ProcessorUser::Server(kind) => ProcessorCategory::Server(kind.clone()),
    }
}

fn of_stacks(
    evidence: &ProcessorEvidence,
    samples: u64,
    kernel_ns: Option<f64>,
) -> ProcessorBreakdown {
    let sampled_ns = samples as f64 * evidence.sample_ns;
    let weight = evidence.weight.unwrap_or(1.0);
    let scale = kernel_ns.map_or(weight, |kernel_ns| weight.min(kernel_ns / sampled_ns));
    let mut whole = Parts::default();
    let mut unassigned = Parts::default();
    let mut by_statement: BTreeMap<Fingerprint, Parts> = BTreeMap::new();
    for met in &evidence.stacks {
        let ns = met.samples as f64 * evidence.sample_ns * scale;
        let category = category_of(&met.who, Some(&met.phase));
        whole.add(category.clone(), ns, met.samples);
        match (&met.who, met.fingerprint) {
            (ProcessorUser::Client, Some(fingerprint)) => {
                let of = by_statement.entry(fingerprint).or_default();
                of.add(category, ns, met.samples);
            }
            (ProcessorUser::Client, None) => unassigned.add(category, ns, met.samples),
            (ProcessorUser::Own | ProcessorUser::Server(_), _) => {}
        }
    }
    if let Some(kernel_ns) = kernel_ns {
        let rest_ns = (kernel_ns - sampled_ns * scale).max(0.0);
        whole.add(ProcessorCategory::Unattributed, rest_ns, 0);
    }
    let basis = |category: &ProcessorCategory, samples| match category {
        ProcessorCategory::Unattributed => Basis::Inferred,
        _ => Basis::Sampled { samples },
    };
    let mut remarks = Vec::new();
    if kernel_ns.is_none() {
        remarks.push(ProcessorRemark::NotCounted);
    }
    let factor = 1.0 / scale;
    if factor > SCALE_NOTABLE {
        remarks.push(ProcessorRemark::MoreThanCounted { factor });
    } else if scale > SCALE_NOTABLE {
        remarks.push(ProcessorRemark::FewerThanCounted { factor });
    }
    let of = |(fingerprint, parts): (Fingerprint, Parts)| parts.finish(Some(fingerprint), basis);
    ProcessorBreakdown {
        whole: whole.finish(None, basis),
        statements: largest_first(by_statement.into_iter().map(of).collect()),
        unassigned: unassigned.finish(None, basis),
        counted_by: match kernel_ns {
            Some(_) => evidence.counter(),
            None => CpuCounter::Stacks,
        },
        samples,
        sampled_ns,
        scale,
        remarks,
    }
}

fn without_stacks(evidence: &ProcessorEvidence, kernel_ns: f64) -> ProcessorBreakdown {
    // Processes are read one after the other, each slightly later than the total.
    let by_process = evidence.by_process.iter().map(|(_, ns)| ns);
    let all_ns: f64 = by_process.sum();
    let fit = if all_ns > kernel_ns {
        kernel_ns / all_ns
    } else {
        1.0
    };
    let mut whole = Parts::default();
    let mut clients_ns = 0.0;
    for (who, ns) in &evidence.by_process {
        whole.add(category_of(who, None), ns * fit, 0);
        clients_ns += if *who == ProcessorUser::Client {
            ns * fit
        } else {
            0.0
        };
    }
    whole.add(ProcessorCategory::Unattributed, kernel_ns - all_ns * fit, 0);
    let basis = |category: &ProcessorCategory, _| match category {
        ProcessorCategory::Unattributed => Basis::Inferred,
        _ => Basis::Measured,
    };
    let inferred = |fingerprint, ns| {
        let mut parts = Parts::default();
        parts.add(ProcessorCategory::Client(None), ns, 0);
        parts.finish(fingerprint, |_, _| Basis::Inferred)
    };
    let running_ns: f64 = evidence.running_ns.values().sum();
    let of = |ns: f64| match running_ns > 0.0 {
        true => clients_ns * ns / running_ns,
        false => 0.0,
    };
    let statements = evidence.running_ns.iter().filter_map(|(fingerprint, ns)| {
        let fingerprint = (*fingerprint)?;
        Some(inferred(Some(fingerprint), of(*ns)))
    });
    let statements: Vec<StatementCpuTime> = statements.filter(|one| one.cpu_ns > 0.0).collect();
    let assigned_ns: f64 = statements.iter().map(|one| one.cpu_ns).sum();
    ProcessorBreakdown {
        whole: whole.finish(None, basis),
        statements: largest_first(statements),
        unassigned: inferred(None, (clients_ns - assigned_ns).max(0.0)),
        counted_by: evidence.counter(),
        samples: 0,
        sampled_ns: 0.0,
        scale: 1.0,
        remarks: vec![ProcessorRemark::NoStacks],
    }
}

fn largest_first(mut statements: Vec<StatementCpuTime>) -> Vec<StatementCpuTime> {
    statements.sort_by(|one, other| {
        let most = other.cpu_ns.total_cmp(&one.cpu_ns);
        most.then(one.fingerprint.cmp(&other.fingerprint))
    });
    statements
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn met(who: ProcessorUser, fingerprint: Option<u64>, phase: &str, samples: u64) -> StackCount {
        StackCount {
            who,
            fingerprint: fingerprint.map(Fingerprint),
            phase: phase.to_owned(),
            samples,
        }
    }

    fn client(phase: &str) -> ProcessorCategory {
        ProcessorCategory::Client(Some(phase.to_owned()))
    }

    fn parts(of: &StatementCpuTime) -> Vec<(ProcessorCategory, f64, &'static str)> {
        let part =
            |one: &TimePart<ProcessorCategory>| (one.category.clone(), one.ns, one.basis.name());
        of.parts.iter().map(part).collect()
    }

    fn evidence(kernel_ns: Option<f64>) -> ProcessorEvidence {
        ProcessorEvidence {
            kernel_ns,
            sample_ns: 10.0,
            weight: None,
            stacks: vec![
                met(ProcessorUser::Client, Some(1), "scans", 40),
                met(ProcessorUser::Client, Some(2), "scans", 20),
                met(ProcessorUser::Client, Some(2), "planning", 10),
                met(ProcessorUser::Client, None, "network", 10),
                met(
                    ProcessorUser::Server("checkpointer".to_owned()),
                    None,
                    "io",
                    15,
                ),
                met(ProcessorUser::Own, Some(1), "scans", 5),
            ],
            ..ProcessorEvidence::default()
        }
    }

    #[test]
    fn stacks_divide_the_kernel_count_with_an_unattributed_rest() {
        let model = break_down_processor_time(&evidence(Some(1_250.0))).unwrap();
        let checkpointer = ProcessorCategory::Server("checkpointer".to_owned());
        assert_eq!(
            parts(&model.whole),
            [
                (client("scans"), 600.0, "sampled"),
                (ProcessorCategory::Unattributed, 250.0, "inferred"),
                (checkpointer, 150.0, "sampled"),
                (client("network"), 100.0, "sampled"),
                (client("planning"), 100.0, "sampled"),
                (ProcessorCategory::Own, 50.0, "sampled"),
            ]
        );
        let statements: Vec<_> = model
            .statements
            .iter()
            .map(|one| (one.fingerprint.unwrap().0, one.cpu_ns))
            .collect();
        assert_eq!(statements, [(1, 400.0), (2, 300.0)]);
        let shares = [1, 2, 3].map(|one| model.processor_share(Fingerprint(one)));
        assert_eq!(shares, [400.0 / 1_250.0, 300.0 / 1_250.0, 0.0]);
        assert_eq!(model.unassigned.cpu_ns, 100.0);
        assert_eq!(
            (model.counted_by, model.samples),
            (CpuCounter::Scheduler, 100)
        );
        assert_eq!(model.remarks, []);
    }

    #[test]
    fn excess_stacks_are_scaled_down_and_missing_counts_remarked() {
        let model = break_down_processor_time(&evidence(Some(500.0))).unwrap();
        assert_eq!((model.whole.cpu_ns, model.scale), (500.0, 0.5));
        assert_eq!(parts(&model.whole)[0], (client("scans"), 300.0, "sampled"));
        assert_eq!(
            model.remarks,
            [ProcessorRemark::MoreThanCounted { factor: 2.0 }]
        );
        let model = break_down_processor_time(&evidence(None)).unwrap();
        assert_eq!(
            (model.whole.cpu_ns, model.counted_by),
            (1_000.0, CpuCounter::Stacks)
        );
        assert_eq!(model.remarks, [ProcessorRemark::NotCounted]);
        assert_eq!(
            break_down_processor_time(&ProcessorEvidence::default()),
            None
        );
    }

    #[test]
    fn stacks_below_task_counters_are_scaled_up_without_rest() {
        let evidence = ProcessorEvidence {
            weight: Some(1.25),
            ..evidence(Some(1_250.0))
        };
        let model = break_down_processor_time(&evidence).unwrap();
        assert_eq!((model.whole.cpu_ns, model.sampled_ns), (1_250.0, 1_000.0));
        assert_eq!(parts(&model.whole)[0], (client("scans"), 750.0, "sampled"));
        let unmet =
            |one: &TimePart<ProcessorCategory>| one.category == ProcessorCategory::Unattributed;
        assert!(!model.whole.parts.iter().any(unmet), "{model:?}");
        assert_eq!(
            model.remarks,
            [ProcessorRemark::FewerThanCounted { factor: 0.8 }]
        );
    }

    #[test]
    fn without_stacks_processes_are_counted_and_statements_inferred() {
        let evidence = ProcessorEvidence {
            kernel_ns: Some(1_000.0),
            by_process: vec![
                (ProcessorUser::Client, 300.0),
                (ProcessorUser::Client, 500.0),
                (ProcessorUser::Server("walwriter".to_owned()), 50.0),
            ],
            running_ns: BTreeMap::from([
                (Some(Fingerprint(1)), 30.0),
                (Some(Fingerprint(2)), 60.0),
                (None, 10.0),
            ]),
            ..ProcessorEvidence::default()
        };
        let model = break_down_processor_time(&evidence).unwrap();
        assert_eq!(
            parts(&model.whole),
            [
                (ProcessorCategory::Client(None), 800.0, "measured"),
                (ProcessorCategory::Unattributed, 150.0, "inferred"),
                (
                    ProcessorCategory::Server("walwriter".to_owned()),
                    50.0,
                    "measured"
                ),
            ]
        );
        let statements = model.statements.iter().map(parts).collect::<Vec<_>>();
        let of = |ns| vec![(ProcessorCategory::Client(None), ns, "inferred")];
        assert_eq!(statements, [of(480.0), of(240.0)]);
        assert!((model.unassigned.cpu_ns - 80.0).abs() < 1e-9);
        assert_eq!(model.remarks, [ProcessorRemark::NoStacks]);
    }

    fn who() -> impl Strategy<Value = ProcessorUser> {
        prop_oneof![
            3 => Just(ProcessorUser::Client),
            1 => Just(ProcessorUser::Own),
            1 => Just(ProcessorUser::Server("checkpointer".to_owned())),
            1 => Just(ProcessorUser::Server("walwriter".to_owned())),
        ]
    }

    proptest! {
        #[test]
        fn parts_are_never_negative_and_add_up(
            stacks in prop::collection::vec((who(), prop::option::of(0..4u64), 0..4u8, 0..50u64), 0..12),
            kernel_ns in prop::option::of(0.0..3e9f64),
            weight in prop::option::of(0.5..2.0f64),
            by_process in prop::collection::vec((who(), 0.0..1e9f64), 0..6),
            met_running in prop::collection::btree_map(prop::option::of((0..4u64).prop_map(Fingerprint)), 0.0..1e9f64, 0..4),
        ) {
            let stacks: Vec<StackCount> = stacks
                .into_iter()
                .map(|(who, of, phase, samples)| met(who, of, &phase.to_string(), samples))
                .collect();
            let evidence = ProcessorEvidence { kernel_ns, by_tasks: weight.is_some(), stacks, sample_ns: 1e7, weight, by_process, running_ns: met_running };
            let Some(model) = break_down_processor_time(&evidence) else {
                prop_assert!(evidence.kernel_ns.is_none());
                return Ok(());
            };
            let whole_ns = evidence.kernel_ns.unwrap_or(model.sampled_ns * weight.unwrap_or(1.0));
            prop_assert!((model.whole.cpu_ns - whole_ns).abs() <= 1.0, "{model:?}");
            for one in model.statements.iter().chain([&model.whole, &model.unassigned]) {
                let total: f64 = one.parts.iter().map(|part| part.ns).sum();
                prop_assert!((total - one.cpu_ns).abs() <= 1.0);
                prop_assert!(one.parts.iter().all(|part| part.ns > 0.0), "{model:?}");
            }
            // Clients' time is that of all statements and that of none.
            let is_client = |part: &&TimePart<ProcessorCategory>| matches!(part.category, ProcessorCategory::Client(_));
            let clients: f64 = model.whole.parts.iter().filter(is_client).map(|part| part.ns).sum();
            let apart: f64 = model.statements.iter().chain([&model.unassigned]).map(|one| one.cpu_ns).sum();
            prop_assert!((clients - apart).abs() <= 1.0, "{clients} {apart} {model:?}");
        }
    }
}
