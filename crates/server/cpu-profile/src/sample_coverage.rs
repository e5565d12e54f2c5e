//! Compares samples with the kernel's count of the server's CPU time, and explains differences beyond chance.
//!
//! Samples are taken by the clock. The kernel counts from switch to switch, and its count can be wrong
//! (measurements are in docs/explanation/cpu-profiles.md). Time that the hypervisor takes is charged to no process, if the
//! kernel accounts for it. If a wake-up preempts the running process, the clock is not read when that one
//! leaves (`rq_clock_skip_update` of `kernel/sched/sched.h`, called by `wakeup_preempt`), so the woken
//! process is charged with time of the other. Task counters ([`task_clock`](super::task_clock)) read the
//! clock at each switch.

use crate::proc::processors;

/// Minimum difference to report, as a fraction.
const SHARE_MIN: f64 = 0.05;
/// Difference that the granularity of the kernel's count can cause (10 ms per process, at both ends), in
/// seconds.
const GRANULARITY_S: f64 = 0.2;
/// Difference that task counters can have because they begin before the samples and end after them, in
/// seconds.
const EDGES_S: f64 = 0.05;

/// CPU time of the machine, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineTime {
    all_s: f64,
    idle_s: f64,
    stolen_s: f64,
}

impl MachineTime {
    /// Reads the time since the start of the machine; `None` if it is not available.
    pub fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let modes = processors(&stat);
        let of = |name: &str| {
            let mut all = modes.iter();
            all.find(|(mode, _)| *mode == name).map(|(_, value)| *value)
        };
        let (idle_s, stolen_s) = (of("idle")? + of("iowait")?, of("steal")?);
        let used = ["user", "nice", "system", "irq", "softirq"];
        let used_s: f64 = used.iter().filter_map(|mode| of(mode)).sum();
        Some(MachineTime {
            all_s: used_s + idle_s + stolen_s,
            idle_s,
            stolen_s,
        })
    }

    /// Returns the time since `before`.
    pub fn since(self, before: Self) -> Self {
        MachineTime {
            all_s: self.all_s - before.all_s,
            idle_s: self.idle_s - before.idle_s,
            stolen_s: self.stolen_s - before.stolen_s,
        }
    }
}

/// Counts of a server's processes over one period.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Number of samples.
    pub samples: u64,
    /// Samples per second of CPU time.
    pub frequency_hz: u64,
    /// CPU time by the scheduler, from `/proc`.
    pub scheduler_ns: u64,
    /// CPU time by task counters, which read the clock at each switch.
    pub task_clock_ns: Option<u64>,
}

impl Counts {
    /// Describes their differences. Samples are compared only if they are complete (`are_all`).
    pub fn notes(self, meanwhile: MachineTime, are_all: bool) -> Vec<String> {
        let samples = match self.task_clock_ns {
            _ if !are_all => None,
            None => self.compare_with_scheduler(meanwhile),
            Some(ns) => self.compare_with_task_clock(ns, meanwhile),
        };
        let exact = self.task_clock_ns;
        let scheduler = exact.and_then(|ns| self.compare_counts(ns, meanwhile));
        [samples, scheduler].into_iter().flatten().collect()
    }

    /// Returns by how many percent the samples exceed a count, if that is more than chance and large enough
    /// to report.
    fn excess_percent(self, count_ns: u64, granularity_s: f64) -> Option<f64> {
        let hz = self.frequency_hz as f64;
        let expected = count_ns as f64 / 1e9 * hz;
        let more = self.samples as f64 - expected;
        // By chance alone, one of twenty recordings differs by two square roots of the expected number.
        let chance = 2.0 * expected.sqrt() + granularity_s * hz;
        (expected > 0.0 && more.abs() >= (SHARE_MIN * expected).max(chance))
            .then(|| 100.0 * more / expected)
    }

    fn compare_with_scheduler(self, meanwhile: MachineTime) -> Option<String> {
        let percent = self.excess_percent(self.scheduler_ns, GRANULARITY_S)?;
        Some(format!(
            "samples stand for {} than the kernel counted, more than chance: {}where client and server share a processor \
             ({:.0} % of all processors' time was idle), the kernel may charge one with some µs of the other's at each statement, so that it may \
             be its count that is off",
            more_or_less(percent),
            stolen(meanwhile),
            (100.0 * meanwhile.idle_s / meanwhile.all_s.max(0.01)).clamp(0.0, 100.0),
        ))
    }

    fn compare_with_task_clock(self, ns: u64, meanwhile: MachineTime) -> Option<String> {
        let more = more_or_less(self.excess_percent(ns, EDGES_S)?);
        let stolen = match meanwhile.stolen_s {
            stolen_s if stolen_s >= 0.01 => {
                format!(
                    ": the hypervisor took {stolen_s:.2} s meanwhile, in which processors take no samples"
                )
            }
            _ => String::new(),
        };
        Some(format!(
            "samples stand for {more} than the kernel's counters of tasks counted, more than chance{stolen}"
        ))
    }

    fn compare_counts(self, ns: u64, meanwhile: MachineTime) -> Option<String> {
        let more_s = (self.scheduler_ns as f64 - ns as f64) / 1e9;
        let exact_s = ns as f64 / 1e9;
        (exact_s > 0.0 && more_s.abs() >= (SHARE_MIN * exact_s).max(GRANULARITY_S)).then(|| {
            let stolen = match meanwhile.stolen_s {
                stolen_s if stolen_s >= 0.01 => {
                    format!("it leaves out what the hypervisor took ({stolen_s:.2} s of all processors), and ")
                }
                _ => String::new(),
            };
            format!(
                "the scheduler's count, which ps and top show, is {} than that by counters of tasks, which read the clock at each switch: \
                 {stolen}it may charge who is woken with some of what others did",
                more_or_less(100.0 * more_s / exact_s)
            )
        })
    }
}

fn more_or_less(percent: f64) -> String {
    let word = if percent > 0.0 { "more" } else { "less" };
    format!("{:.1} % {word}", percent.abs())
}

fn stolen(meanwhile: MachineTime) -> String {
    match meanwhile.stolen_s {
        stolen_s if stolen_s >= 0.01 => format!(
            "the hypervisor took {stolen_s:.2} s meanwhile, which no process is charged for; "
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANWHILE: MachineTime = MachineTime {
        all_s: 20.0,
        idle_s: 5.0,
        stolen_s: 0.75,
    };

    fn counts(samples: u64, frequency_hz: u64, scheduler_ns: u64) -> Counts {
        Counts {
            samples,
            frequency_hz,
            scheduler_ns,
            task_clock_ns: None,
        }
    }

    #[test]
    fn difference_beyond_chance_is_reported_with_machine_time() {
        let more = &counts(1_100, 100, 10_000_000_000).notes(MEANWHILE, true)[0];
        assert!(more.contains("10.0 % more"), "{more}");
        assert!(
            more.contains("took 0.75 s") && more.contains("(25 % of"),
            "{more}"
        );
        let bare = MachineTime {
            stolen_s: 0.0,
            ..MEANWHILE
        };
        let less = &counts(900, 100, 10_000_000_000).notes(bare, true)[0];
        assert!(
            less.contains("10.0 % less") && !less.contains("hypervisor"),
            "{less}"
        );
    }

    #[test]
    fn small_differences_are_not_reported() {
        let none = |one: Counts| assert_eq!(one.notes(MEANWHILE, true), [""; 0]);
        none(counts(1_049, 100, 10_000_000_000));
        // A tenth of a hundred samples may be chance.
        none(counts(110, 100, 1_000_000_000));
        // 50 ms of half a second may be the granularity.
        none(counts(5_500, 10_000, 500_000_000));
        none(counts(10, 100, 0));
    }

    #[test]
    fn task_clock_is_compared_with_samples_and_scheduler() {
        let exact = |samples, task_clock_ns| Counts {
            task_clock_ns: Some(task_clock_ns),
            ..counts(samples, 100, 10_000_000_000)
        };
        // The scheduler's count is wrong, the samples are right.
        let notes = exact(1_100, 11_000_000_000).notes(MEANWHILE, true);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("scheduler's count") && notes[0].contains("is 9.1 % less than"),
            "{notes:?}"
        );
        // The samples are wrong, the scheduler's count is right.
        let notes = exact(1_100, 10_000_000_000).notes(MEANWHILE, true);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("samples stand for 10.0 % more")
                && notes[0].contains("took 0.75 s"),
            "{notes:?}"
        );
        // Incomplete samples are not compared, but the scheduler's count is.
        let notes = exact(500, 11_000_000_000).notes(MEANWHILE, false);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("leaves out what the hypervisor took (0.75 s"),
            "{notes:?}"
        );
        assert_eq!(exact(1_030, 10_300_000_000).notes(MEANWHILE, true), [""; 0]);
    }

    #[test]
    fn the_time_of_this_machine_is_read() {
        let now = MachineTime::now().unwrap();
        assert!(now.all_s > 0.0 && now.idle_s <= now.all_s && now.stolen_s <= now.all_s);
    }
}
