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

fn scenarios() -> Vec<Scenario> {
    let none = Truth::default();
    let one = |factor| Truth { factor, ..none };
    let tail = |tail| Truth { tail, ..none };
    let several = |runs, factor| Truth {
        runs,
        factor,
        between_runs: 0.05,
        ..none
    };
    vec![
        ("nothing differs", none, false, 0.1),
        ("nothing differs, margin 0", none, false, 0.0),
        (
            "… disturbances of seconds, ×3",
            Truth {
                disturbed: 3.0,
                ..none
            },
            false,
            0.1,
        ),
        (
            "… disturbances of seconds, ×3, margin 0",
            Truth {
                disturbed: 3.0,
                ..none
            },
            false,
            0.0,
        ),
        (
            "… all drift to ×2",
            Truth {
                all_grow_to: 2.0,
                ..none
            },
            false,
            0.1,
        ),
        (
            "… 20 to 39 calls a statement, margin 0",
            Truth {
                few_calls: true,
                ..none
            },
            false,
            0.0,
        ),
        (
            "… runs differ by 5 %, one a side",
            several(1, 1.0),
            false,
            0.1,
        ),
        (
            "… runs differ by 5 %, two a side",
            several(2, 1.0),
            false,
            0.1,
        ),
        (
            "… runs differ by 5 %, three a side, margin 0",
            several(3, 1.0),
            false,
            0.0,
        ),
        (
            "… one varies by half from run to run, two a side",
            Truth {
                unsteady: 0.5,
                ..several(2, 1.0)
            },
            false,
            0.1,
        ),
        (
            "… one varies by half from run to run, three a side",
            Truth {
                unsteady: 0.5,
                ..several(3, 1.0)
            },
            false,
            0.1,
        ),
        ("one of 200 is slower, ×1.3", one(1.3), true, 0.1),
        ("one of 200 is slower, ×1.5", one(1.5), true, 0.1),
        ("one of 200 is slower, ×2", one(2.0), true, 0.1),
        (
            "one in 50 of its calls is slower, ×10",
            tail(10.0),
            true,
            0.1,
        ),
        (
            "one in 50 of its calls is slower, ×50",
            tail(50.0),
            true,
            0.1,
        ),
        (
            "it gets slower, to ×2 at the end",
            Truth {
                grows_to: 2.0,
                ..none
            },
            true,
            0.1,
        ),
        (
            "it gets slower, to ×3 at the end",
            Truth {
                grows_to: 3.0,
                ..none
            },
            true,
            0.1,
        ),
        (
            "×2, of 37 calls",
            Truth {
                few_calls: true,
                factor: 2.0,
                ..none
            },
            true,
            0.1,
        ),
        (
            "×5, of 37 calls",
            Truth {
                few_calls: true,
                factor: 5.0,
                ..none
            },
            true,
            0.1,
        ),
        (
            "×1.5, disturbances ×3",
            Truth {
                factor: 1.5,
                disturbed: 3.0,
                ..none
            },
            true,
            0.1,
        ),
        (
            "×1.5, runs differ by 5 %, three a side",
            several(3, 1.5),
            true,
            0.1,
        ),
        (
            "×2, runs differ by 5 %, two a side",
            several(2, 2.0),
            true,
            0.1,
        ),
        (
            "×10, of 25 calls in ten stretches",
            Truth {
                clustered: true,
                ..one(10.0)
            },
            true,
            0.1,
        ),
    ]
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
    for (name, truth, differs, margin) in scenarios() {
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
