//! Why samples and the kernel's count of the server's processor time differ, where they do by more than chance.
//!
//! Samples are taken by the clock. The kernel counts from switch to switch, and that count can be off (docs/profile.md has what
//! was measured): time that the hypervisor takes is charged to nobody, where the kernel accounts for it; and where a wake-up
//! has the running process give way, the clock is not read when that one leaves (`rq_clock_skip_update` of
//! `kernel/sched/sched.h`, called by `wakeup_preempt`), so that the woken one is charged with what the other did from then on.
//! Counters of tasks ([`counting`](super::counting)) read it at each switch.

use crate::proc::processors;

/// Differences that are less are not spoken of.
const SHARE_MIN: f64 = 0.05;
/// Nor are those that the steps of the kernel's count (10 ms a process, at both ends) can make.
const STEPS_S: f64 = 0.2;
/// Nor those that counters of tasks have since they begin before the samples that are held against them, and end later.
const EDGES_S: f64 = 0.05;

/// What all processors of the machine did, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineTime {
    all_s: f64,
    idle_s: f64,
    stolen_s: f64,
}

impl MachineTime {
    /// Since the machine was started; `None` where it does not say.
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

    /// What it did since `before`.
    pub fn since(self, before: Self) -> Self {
        MachineTime {
            all_s: self.all_s - before.all_s,
            idle_s: self.idle_s - before.idle_s,
            stolen_s: self.stolen_s - before.stolen_s,
        }
    }
}

/// What was counted of a server's processes in one time.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Samples of them.
    pub samples: u64,
    /// Samples a second of processor time.
    pub frequency_hz: u64,
    /// By the scheduler, as `/proc` tells it.
    pub scheduler_ns: u64,
    /// By counters of tasks, which read the clock at each switch.
    pub task_clock_ns: Option<u64>,
}

impl Counts {
    /// What is to be known of their differences; of the samples' where these are all (`are_all`).
    pub fn notes(self, meanwhile: MachineTime, are_all: bool) -> Vec<String> {
        let samples = match self.task_clock_ns {
            _ if !are_all => None,
            None => self.beside_scheduler(meanwhile),
            Some(ns) => self.beside_task_clock(ns, meanwhile),
        };
        let exact = self.task_clock_ns;
        let scheduler = exact.and_then(|ns| self.scheduler_is_off(ns, meanwhile));
        [samples, scheduler].into_iter().flatten().collect()
    }

    /// How much more than a count samples stand for, in percent of it, where that is more than chance and worth a word.
    fn more_percent(self, count_ns: u64, steps_s: f64) -> Option<f64> {
        let hz = self.frequency_hz as f64;
        let expected = count_ns as f64 / 1e9 * hz;
        let more = self.samples as f64 - expected;
        // Chance alone makes one of twenty recordings differ by two roots of what is expected.
        let chance = 2.0 * expected.sqrt() + steps_s * hz;
        (expected > 0.0 && more.abs() >= (SHARE_MIN * expected).max(chance))
            .then(|| 100.0 * more / expected)
    }

    fn beside_scheduler(self, meanwhile: MachineTime) -> Option<String> {
        let percent = self.more_percent(self.scheduler_ns, STEPS_S)?;
        Some(format!(
            "samples stand for {} than the kernel counted, more than chance: {}where client and server share a processor \
             ({:.0} % of all processors' time was idle), the kernel may charge one with some µs of the other's at each statement, so that it may \
             be its count that is off",
            more_or_less(percent),
            stolen(meanwhile),
            (100.0 * meanwhile.idle_s / meanwhile.all_s.max(0.01)).clamp(0.0, 100.0),
        ))
    }

    fn beside_task_clock(self, ns: u64, meanwhile: MachineTime) -> Option<String> {
        let more = more_or_less(self.more_percent(ns, EDGES_S)?);
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

    fn scheduler_is_off(self, ns: u64, meanwhile: MachineTime) -> Option<String> {
        let more_s = (self.scheduler_ns as f64 - ns as f64) / 1e9;
        let exact_s = ns as f64 / 1e9;
        (exact_s > 0.0 && more_s.abs() >= (SHARE_MIN * exact_s).max(STEPS_S)).then(|| {
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
    fn a_difference_beyond_chance_is_told_with_what_the_machine_did() {
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
    fn small_differences_chance_and_nothing_are_not_spoken_of() {
        let none = |one: Counts| assert_eq!(one.notes(MEANWHILE, true), [""; 0]);
        none(counts(1_049, 100, 10_000_000_000));
        // A tenth of a hundred samples may be chance.
        none(counts(110, 100, 1_000_000_000));
        // 50 ms of half a second may be steps.
        none(counts(5_500, 10_000, 500_000_000));
        none(counts(10, 100, 0));
    }

    #[test]
    fn where_tasks_were_counted_samples_are_held_against_that_and_the_scheduler_too() {
        let exact = |samples, task_clock_ns| Counts {
            task_clock_ns: Some(task_clock_ns),
            ..counts(samples, 100, 10_000_000_000)
        };
        // The scheduler is off, and samples are right.
        let notes = exact(1_100, 11_000_000_000).notes(MEANWHILE, true);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].contains("scheduler's count") && notes[0].contains("is 9.1 % less than"),
            "{notes:?}"
        );
        // Samples are off, and the scheduler is right.
        let notes = exact(1_100, 10_000_000_000).notes(MEANWHILE, true);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("samples stand for 10.0 % more")
                && notes[0].contains("took 0.75 s"),
            "{notes:?}"
        );
        // Samples that are not all say nothing, and the scheduler is off all the same.
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
