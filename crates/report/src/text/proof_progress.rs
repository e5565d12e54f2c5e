//! Notes during a proof.

use compare::proof::Goal;
use study::Event;
use study::notes::note;
use study::proof::{Look, Proof, ProofDisplay, ProofJournal, ProofReplays, ProofTrial, SideResult};

use super::proof_text::goal_advice;
use super::units::{counted, quantity, ratio};

/// Command that performs the proof, whose options advice names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NarratedCommand {
    /// `prove`, and others with its options
    #[default]
    Prove,
    /// `upgrade`
    Upgrade,
}

/// Reports a running proof as notes.
#[derive(Debug, Default)]
pub struct ProofNarrator {
    command: NarratedCommand,
    /// Goal, and number of statements, once the proof begins.
    of: Option<(Goal, u64)>,
    /// Results that were reported.
    results: Vec<SideResult>,
    /// Whether the decision was reported.
    decided: bool,
}

impl ProofDisplay for ProofNarrator {
    fn begin(&mut self, journal: &ProofJournal, replays: &ProofReplays<'_>) {
        note(&plan_text(journal, replays));
        let (goal, statements) = (replays.goal, replays.whole.info().statements);
        self.of = Some((goal, statements));
        self.results = journal.side_results(goal, statements);
    }

    fn happened(&mut self, journal: &ProofJournal, event: &Event<'_, Proof>) {
        let Some((goal, statements)) = self.of else {
            return;
        };
        match event {
            Event::Preparing => {
                note("Keeping the state, and carrying out each change once.");
            }
            Event::Begin(trial, _) => {
                self.tell_results(journal);
                note(&named(journal, trial));
            }
            Event::Repeat(stalls) => note(&format!(
                "  This program was stopped, starved or throttled for {:.0} % of the time. Repeating it.",
                stalls.share * 100.0
            )),
            Event::Over(record) => {
                let numbers = &record.numbers;
                let value = numbers.of(goal, statements);
                let value = value.map_or_else(
                    || "not measured".to_owned(),
                    |value| quantity(goal.in_unit(value), goal.unit()),
                );
                let failed = match numbers.failures() {
                    0 => String::new(),
                    failed => format!(", {failed} failed"),
                };
                note(&format!(
                    "  {} {value}; {} statements done{failed}; {} including restoring",
                    goal.words(),
                    numbers.done,
                    clock::duration_text((record.took_s * 1e9) as i64),
                ));
            }
        }
    }

    fn end(&mut self, journal: &ProofJournal) {
        self.tell_results(journal);
    }
}

impl ProofNarrator {
    /// Creates a narrator whose advice names options of `rehearse upgrade`.
    pub fn of_upgrade() -> Self {
        ProofNarrator {
            command: NarratedCommand::Upgrade,
            ..ProofNarrator::default()
        }
    }

    /// Reports the decision and verdicts that were not reported before.
    fn tell_results(&mut self, journal: &ProofJournal) {
        let Some((goal, statements)) = self.of else {
            return;
        };
        if let (Some(decision), false) = (journal.decision(), self.decided) {
            self.decided = true;
            let noise = decision.deviation.map_or_else(String::new, |deviation| {
                format!(" Unchanged runs differ by {:.1} %.", 100.0 * deviation)
            });
            note(&format!(
                "There is time for {} blocks at most.{noise}",
                decision.blocks
            ));
            note(&smallest_text(journal.smallest_ratio(goal), self.command));
            let advice = goal_advice(goal, &journal.goal_noise(statements));
            if let Some(text) = advice.filter(|_| self.command == NarratedCommand::Prove) {
                note(&text);
            }
        }
        let results = journal.side_results(goal, statements);
        let sides = &journal.plan().sides[1..];
        for ((side, before), now) in sides.iter().zip(&self.results).zip(&results) {
            for Look {
                effect, verdict, ..
            } in now.looks.iter().skip(before.looks.len())
            {
                if now.harmful_in.is_some() {
                    note(&format!(
                        "{} is lost after {}: × {:.3}, and every run is far worse than all unchanged ones. It has no further runs.",
                        side.name,
                        counted(now.blocks.into(), "block"),
                        effect.ratio
                    ));
                    continue;
                }
                note(&format!(
                    "After {} blocks {} is {}: × {:.3} ({:.3} – {:.3}).",
                    effect.blocks,
                    side.name,
                    verdict.name(),
                    effect.ratio,
                    effect.low,
                    effect.high
                ));
            }
        }
        self.results = results;
    }
}

/// Describes the smallest difference that a proof is expected to show.
fn smallest_text(smallest: Option<f64>, command: NarratedCommand) -> String {
    match smallest {
        Some(by) => format!(
            "With that, they show changes from about × {} or × {} on; a change of work shows earlier.",
            ratio(1.0 / by),
            ratio(by)
        ),
        None => format!(
            "They show a change only if a counter of work changes with it, or by far: too few blocks fit. {}.",
            match command {
                NarratedCommand::Prove => "Give more --time-budget",
                NarratedCommand::Upgrade => "The report advises a time for --within",
            }
        ),
    }
}

fn named(journal: &ProofJournal, trial: &ProofTrial) -> String {
    let side = match trial.side {
        0 => "unchanged",
        side => &journal.plan().sides[side].name,
    };
    match trial.block {
        0 => format!("Run {}: {side}, to measure the noise.", trial.number),
        block => format!("Run {}: block {block}, {side}.", trial.number),
    }
}

fn plan_text(journal: &ProofJournal, replays: &ProofReplays<'_>) -> String {
    let whole = replays.whole;
    let plan = journal.plan();
    let done = journal.records().count();
    let before = match done {
        0 => String::new(),
        1 => " 1 run is done already.".to_owned(),
        done => format!(" {done} runs are done already."),
    };
    let writes = match (whole.info().writes, replays.restores) {
        (_, true) => "its data are restored before each",
        (0, false) => "its statements write nothing, judged by their first keywords",
        (_, false) => "it writes, and each finds what the one before it left",
    };
    format!(
        "Replays of {}, and {writes}: {} of the unchanged to know the noise, then blocks of {} in random order (seed {}), until each verdict is clear or {} are over.{before}",
        whole.path().display(),
        plan.noise_runs,
        2 * plan.sides.len(),
        plan.seed,
        clock::duration_text((plan.within_s * 1e9) as i64),
    )
}
