//! What is told while a proof goes on.

use analyse::proof::Goal;
use experiment::proof::{ProofJournal, ProofTold, RunPlace};
use report::proof_text;
use workload::WorkloadReader;

use crate::terminal;

/// The plan, before anything is done.
pub fn plan(journal: &ProofJournal, whole: &WorkloadReader, restores: bool) {
    let plan = journal.plan();
    let done = journal.records().count();
    let before = match done {
        0 => String::new(),
        done => format!(" {done} runs are done already."),
    };
    let writes = match (whole.info().writes, restores) {
        (_, true) => "its data are brought to the same state before each",
        (0, false) => "nothing of it writes, as far as its first words tell",
        (_, false) => "it writes, and each finds what the one before it left",
    };
    terminal::note(&format!(
        "Replays of {}, and {writes}: {} of the unchanged to know the noise, then blocks of {} in an order of chance (seed {}), until each verdict is clear or {} are over.{before}",
        whole.path().display(),
        plan.noise_runs,
        2 * plan.sides.len(),
        plan.seed,
        clock::duration_text((plan.within_s * 1e9) as i64),
    ));
}

fn named(place: &RunPlace, names: &[String]) -> String {
    let side = match place.side {
        0 => "unchanged",
        side => &names[side],
    };
    match place.block {
        0 => format!("Run {}: {side}, to know the noise.", place.number),
        block => format!("Run {}: block {block}, {side}.", place.number),
    }
}

/// What goes on.
pub fn tell(told: &ProofTold<'_>, names: &[String], goal: Goal, statements: u64) {
    match told {
        ProofTold::Preparing => {
            terminal::note("Keeping the state, and carrying out each change once.");
        }
        ProofTold::Begins(place) => terminal::note(&named(place, names)),
        ProofTold::Over(record) => {
            let numbers = &record.numbers;
            let value = numbers.of(goal, statements).map_or_else(
                || "not measured".to_owned(),
                |value| {
                    proof_text::amount(super::view::unit(goal), super::view::in_unit(goal, value))
                },
            );
            let failed = match numbers.failures() {
                0 => String::new(),
                failed => format!(", {failed} failed"),
            };
            terminal::note(&format!(
                "  {} {value}; {} statements done{failed}; {} with all that belongs to it",
                goal.words(),
                numbers.done,
                clock::duration_text((record.took_s * 1e9) as i64),
            ));
        }
        ProofTold::Decided(decision) => {
            let noise = decision.deviation.map_or_else(String::new, |deviation| {
                format!(" Unchanged runs differ by {:.1} %.", 100.0 * deviation)
            });
            terminal::note(&format!(
                "There is time for {} blocks at most.{noise}",
                decision.blocks
            ));
        }
        ProofTold::Judged(side, effect, verdict) => terminal::note(&format!(
            "After {} blocks {} is {}: × {:.3} ({:.3} – {:.3}).",
            effect.blocks,
            names[*side],
            verdict.name(),
            effect.ratio,
            effect.low,
            effect.high
        )),
    }
}
