//! Notes during a sweep.

use study::Event;
use study::notes::note;
use study::sweep::{Load, Mode, Sweep, SweepDisplay, SweepJournal, Work};

use super::sweep_text::{numbers_text, trial_text};

/// Reports a running sweep as notes.
#[derive(Debug, Default)]
pub struct SweepNarrator {
    /// Unit of throughput.
    unit: &'static str,
}

impl SweepDisplay for SweepNarrator {
    fn begin(&mut self, journal: &SweepJournal, load: &Load, restores: bool) {
        self.unit = match &load.work {
            Work::Script(..) => "transactions",
            Work::Workload(pools) => {
                for (mode, pool) in pools.iter().filter(|(mode, _)| **mode != Mode::Captured) {
                    note(&format!(
                        "Mode {}: {} statements are converted. {} are sent as captured, because they are simple queries or have this form already.",
                        mode.name(),
                        pool.changed,
                        pool.unchanged
                    ));
                }
                "statements"
            }
        };
        note(&plan_text(journal, load, restores));
    }

    fn happened(&mut self, journal: &SweepJournal, event: &Event<'_, Sweep>) {
        match event {
            Event::Preparing => {}
            Event::Begin(trial, progress) => {
                let (all, done) = (
                    journal.plan().design.trials().len(),
                    journal.records().count(),
                );
                let left = progress.longest.map_or_else(String::new, |longest| {
                    let left = longest * (all - done) as u32;
                    format!(
                        "; about {} left",
                        clock::duration_text(left.as_nanos() as i64)
                    )
                });
                note(&format!(
                    "Trial {} of {all}: {}{left}.",
                    done + 1,
                    trial_text(trial, &journal.plan().design.variants)
                ));
            }
            Event::Repeat(stalls) => note(&format!(
                "  This program was stopped, starved or throttled for {:.0} % of the time. Repeating it.",
                stalls.share * 100.0
            )),
            Event::Over(record) => {
                let text = match (&record.numbers, &record.failed) {
                    (Some(numbers), _) => numbers_text(numbers, self.unit),
                    (None, failed) => format!(
                        "failed: {}",
                        failed.as_deref().unwrap_or("nobody knows why")
                    ),
                };
                note(&format!("  {text}"));
            }
        }
    }
}

fn plan_text(journal: &SweepJournal, load: &Load, restores: bool) -> String {
    let design = &journal.plan().design;
    let (all, done) = (design.trials().len(), journal.records().count());
    let writes = match (load.writes(), restores) {
        (false, _) => "its statements write nothing, judged by their first keywords",
        (true, true) => "it writes, and data are restored before each trial",
        (true, false) => "it writes, and each trial finds what the one before it left",
    };
    let before = match done {
        0 => String::new(),
        done => format!("; {done} are done already"),
    };
    format!(
        "{all} trials: {} combinations, {} of each{before}. The order is random (seed {}); {writes}.",
        design.cells().len(),
        design.repeat,
        design.seed
    )
}
