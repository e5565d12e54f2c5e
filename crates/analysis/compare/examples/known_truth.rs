//! Measures the accuracy of the comparison by repeatedly comparing pairs of synthetic runs with
//! known differences. Prints how often an unchanged statement was called slower or faster, and how
//! often the changed one was found. `cargo run --release -p compare --example known_truth --
//! [REPETITIONS]`
//!
//! `docs/benchmarks/comparison.md` has the numbers of 200 repetitions.

#[path = "../tests/known_differences/mod.rs"]
mod known_differences;
#[path = "../tests/made_up/mod.rs"]
mod made_up;

use known_differences::{CallCounts, STATEMENTS, Truth, compared, count_calls};

/// Name, truth, whether one statement differs, and the margin.
type Scenario = (&'static str, Truth, bool, f64);

/// One of the statements becomes slower by `factor`.
fn slower_by(factor: f64) -> Truth {
    Truth {
        factor,
        ..Truth::default()
    }
}

/// Several runs a side, which differ by 5 %.
fn several(runs: usize, factor: f64) -> Truth {
    Truth {
        runs,
        between_runs: 0.05,
        ..slower_by(factor)
    }
}

/// No statement differs.
fn unchanged() -> Vec<Scenario> {
    let none = Truth::default();
    let disturbed = Truth {
        disturbed: 3.0,
        ..none
    };
    let drifting = Truth {
        all_grow_to: 2.0,
        ..none
    };
    let few_calls = Truth {
        few_calls: true,
        ..none
    };
    let unsteady = |runs| Truth {
        unsteady: 0.5,
        ..several(runs, 1.0)
    };
    [
        ("nothing differs", none, 0.1),
        ("nothing differs, margin 0", none, 0.0),
        ("… disturbances of seconds, ×3", disturbed, 0.1),
        ("… disturbances of seconds, ×3, margin 0", disturbed, 0.0),
        ("… all drift to ×2", drifting, 0.1),
        ("… 20 to 39 calls a statement, margin 0", few_calls, 0.0),
        ("… runs differ by 5 %, one a side", several(1, 1.0), 0.1),
        ("… runs differ by 5 %, two a side", several(2, 1.0), 0.1),
        (
            "… runs differ by 5 %, three a side, margin 0",
            several(3, 1.0),
            0.0,
        ),
        (
            "… one varies by half from run to run, two a side",
            unsteady(2),
            0.1,
        ),
        (
            "… one varies by half from run to run, three a side",
            unsteady(3),
            0.1,
        ),
    ]
    .map(|(name, truth, margin)| (name, truth, false, margin))
    .into()
}

/// One statement differs. The margin is 0.1.
fn one_changed() -> Vec<Scenario> {
    let none = Truth::default();
    let tail = |tail| Truth { tail, ..none };
    let growing = |grows_to| Truth { grows_to, ..none };
    let few_calls = |factor| Truth {
        few_calls: true,
        ..slower_by(factor)
    };
    let disturbed = Truth {
        disturbed: 3.0,
        ..slower_by(1.5)
    };
    let clustered = Truth {
        clustered: true,
        ..slower_by(10.0)
    };
    [
        ("one of 200 is slower, ×1.3", slower_by(1.3)),
        ("one of 200 is slower, ×1.5", slower_by(1.5)),
        ("one of 200 is slower, ×2", slower_by(2.0)),
        ("one in 50 of its calls is slower, ×10", tail(10.0)),
        ("one in 50 of its calls is slower, ×50", tail(50.0)),
        ("it gets slower, to ×2 at the end", growing(2.0)),
        ("it gets slower, to ×3 at the end", growing(3.0)),
        ("×2, of 37 calls", few_calls(2.0)),
        ("×5, of 37 calls", few_calls(5.0)),
        ("×1.5, disturbances ×3", disturbed),
        ("×1.5, runs differ by 5 %, three a side", several(3, 1.5)),
        ("×2, runs differ by 5 %, two a side", several(2, 2.0)),
        ("×10, of 25 calls in ten stretches", clustered),
    ]
    .map(|(name, truth)| (name, truth, true, 0.1))
    .into()
}

fn main() {
    let repetitions = std::env::args()
        .nth(1)
        .map_or(Ok(200), |text| text.parse::<u64>());
    let Ok(repetitions) = repetitions else {
        eprintln!("give the number of repetitions");
        std::process::exit(2);
    };
    println!("{repetitions} repetitions, {STATEMENTS} statements, 60 s");
    println!("comparisons with a false alarm | false findings of all findings | found");
    for (name, truth, differs, margin) in unchanged().into_iter().chain(one_changed()) {
        let all: Vec<CallCounts> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|half| {
                    scope.spawn(move || {
                        let mine = (0..repetitions).filter(move |at| at % 2 == half);
                        mine.map(|at| count_calls(&compared(&truth, at, margin)))
                            .collect::<Vec<CallCounts>>()
                    })
                })
                .collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            joined.flatten().collect()
        });
        let alarms = all
            .iter()
            .filter(|one| one.wrong > 0 || one.as_a_whole && !differs);
        let wrong: usize = all.iter().map(|one| one.wrong).sum();
        let found = all.iter().filter(|one| one.found).count();
        let findings = wrong + found;
        let power = if differs {
            format!("{:.1} %", 100.0 * found as f64 / repetitions as f64)
        } else {
            "–".to_owned()
        };
        println!(
            "{:.1} % | {wrong} of {findings} | {power} | {name}",
            100.0 * alarms.count() as f64 / repetitions as f64
        );
    }
}
