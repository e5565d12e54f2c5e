//! Tests with stacks of real servers: the 300 most frequent of each version. They were recorded from
//! pgbench's read-write mix, its selects by the simple, the extended and the prepared protocol, and
//! single-row inserts into a table with 300 partial indexes, over two permanent connections and over a new
//! one for each. 15 is Debian's build, which has the names of exported functions only.
//!
//! Each line is a frame, indented by its depth, followed by a tab and the number of samples that ended there.
//! Below a program's frames one frame of the kernel is retained.

use super::Phase::*;
use super::*;

const RECORDED: [(&str, &str); 6] = [
    ("13", include_str!("recorded/postgresql-13.txt")),
    ("14", include_str!("recorded/postgresql-14.txt")),
    ("15", include_str!("recorded/postgresql-15.txt")),
    ("16", include_str!("recorded/postgresql-16.txt")),
    ("17", include_str!("recorded/postgresql-17.txt")),
    ("18", include_str!("recorded/postgresql-18.txt")),
];

/// Returns the folded stacks of a recording, each with its samples.
fn stacks(recorded: &str) -> Vec<(String, u64)> {
    let mut above: Vec<&str> = Vec::new();
    let mut stacks = Vec::new();
    for line in recorded.lines() {
        let depth = line.len() - line.trim_start_matches(' ').len();
        let (frame, samples) = match line.trim_start_matches(' ').split_once('\t') {
            Some((frame, samples)) => (frame, samples.parse().unwrap()),
            None => (line.trim_start_matches(' '), 0),
        };
        above.truncate(depth);
        above.push(frame);
        if samples > 0 {
            stacks.push((above.join(";"), samples));
        }
    }
    stacks
}

/// Returns the samples by phase.
fn sums(recorded: &str) -> PhaseSums {
    let rules = Rules::new();
    let mut sums = PhaseSums::default();
    for (stack, samples) in stacks(recorded) {
        let phase = rules.place(&stack).phase;
        (0..samples).for_each(|_| sums.add(phase));
    }
    sums
}

#[test]
fn stacks_of_six_versions_have_the_expected_phases() {
    for (version, recorded) in RECORDED {
        let sums = sums(recorded);
        let percent = |phase| sums.samples(phase) as f64 * 100.0 / sums.total() as f64;
        let told = || format!("{version}: {:?}", sums.largest_first());
        assert!(sums.total() > 1_500, "{}", told());
        assert!(percent(Unplaced) < 3.0, "{}", told());
        // Each known activity of these loads has a similar share in each version. An activity that is spread
        // over many stacks, such as planning, has a smaller share of the most frequent stacks.
        for (phase, least, most) in [
            (OpenIndexes, 10.0, 45.0),
            (IndexPredicate, 4.0, 25.0),
            (Plan, 1.0, 12.0),
            (Network, 8.0, 40.0),
            (Parse, 1.0, 8.0),
            (Analyse, 0.1, 6.0),
            (Scan, 2.0, 15.0),
            (Wal, 2.0, 20.0),
            (Backend, 1.0, 20.0),
        ] {
            let share = percent(phase);
            assert!(
                (least..=most).contains(&share),
                "{phase:?} {share:.1} %, {}",
                told()
            );
        }
    }
}
