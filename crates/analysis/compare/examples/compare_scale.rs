//! Compares two runs of 10 million executions, and prints time and memory. `cargo run --release -p
//! compare --example compare_scale -- DIRECTORY [EXECUTIONS] [FINGERPRINTS]`
//!
//! The synthetic runs are written to the directory if it does not have them yet. Run it a second
//! time with the same directory to measure only reading and comparing.
//!
//! Target: at most 20 s and 500 MiB on two cores, including reading the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use compare::{CompareOptions, RunStats, Runs, compare};
use run::{
    ArchiveError, Captured, Execution, Outcome, RunInfo, RunReader, RunStatus, RunWriter,
    StatementKind, TargetInfo, WorkloadRef,
};
use sql::{Fingerprint, StatementClass};
use workload::StatementText;

/// An hour of traffic.
const SPAN_NS: u64 = 3_600_000_000_000;

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn execution(number: u64, count: u64, fingerprints: u64, seed: u64) -> Execution {
    let random = mixed(number + 1);
    let noise = mixed(random ^ seed);
    // Half of the calls are spread over all statements, the other half over the first few.
    let which = if random & 1 == 0 {
        (random >> 1) % fingerprints
    } else {
        (random >> 1) % fingerprints.min(50)
    };
    let due_ns = (u128::from(number) * u128::from(SPAN_NS) / u128::from(count)) as i64;
    let uniform = (noise >> 11) as f64 / (1u64 << 53) as f64;
    let service_ns = 100_000.0 * (1 + which % 30) as f64 * (0.5 + 1.5 * uniform * uniform);
    let sent_ns = due_ns + 60_000;
    Execution {
        session: number % 500,
        sequence: number / 500,
        fingerprint: Some(Fingerprint(mixed(which))),
        kind: StatementKind::Execute,
        outcome: Outcome::Done,
        due_ns,
        sent_ns: Some(sent_ns),
        first_byte_ns: None,
        done_ns: Some(sent_ns + service_ns as i64),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 1,
        bytes: 100,
        digest: None,
        message: None,
        captured: Captured {
            duration_us: Some(service_ns as u64 / 1_000),
            ..Captured::default()
        },
    }
}

fn write(path: &Path, count: u64, fingerprints: u64, seed: u64) -> Result<(), ArchiveError> {
    let info = RunInfo {
        status: RunStatus::Complete,
        workload: WorkloadRef::default(),
        target: TargetInfo::default(),
        options: BTreeMap::new(),
        started_wall_us: 0,
        elapsed_ns: SPAN_NS as i64,
        span_due_ns: SPAN_NS as i64,
        span_sent_ns: SPAN_NS as i64,
        statements: count,
        done: count,
        failed: BTreeMap::new(),
        skipped: BTreeMap::new(),
        connections_failed: BTreeMap::new(),
        connections_lost: BTreeMap::new(),
        connections_reopened: 0,
        given_up: None,
        tool_stalls: Vec::new(),
        series_gaps: Vec::new(),
        machine: None,
    };
    let texts = (0..fingerprints).map(|which| {
        Ok(StatementText {
            fingerprint: Fingerprint(mixed(which)),
            sql: format!("select * from table_{which} where id = $1 and other = $2 order by third"),
            class: StatementClass::Select,
        })
    });
    let mut writer = RunWriter::create(path, &info, texts)?;
    for number in 0..count {
        writer.execution(&execution(number, count, fingerprints, seed))?;
    }
    writer.finish(info, 0)?;
    Ok(())
}

fn profile(path: &Path) -> Result<RunStats, ArchiveError> {
    let reader = RunReader::open(path)?;
    RunStats::collect(
        reader.info().clone(),
        reader.executions()?,
        reader.statements()?,
    )
}

fn main() -> Result<(), ArchiveError> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map(PathBuf::from);
    let mut arguments = arguments.map(|text| text.parse::<u64>());
    let mut number = |default| arguments.next().map_or(Ok(default), |number| number);
    let (Some(directory), Ok(count), Ok(fingerprints)) =
        (directory, number(10_000_000), number(10_000))
    else {
        eprintln!("give a directory and two numbers: executions in a run, fingerprints");
        std::process::exit(2);
    };
    let paths =
        [(1, "before.run"), (2, "after.run")].map(|(seed, name)| (seed, directory.join(name)));
    let mut written = false;
    for (seed, path) in &paths {
        if !path.exists() {
            write(path, count, fingerprints, *seed)?;
            written = true;
        }
    }
    if written {
        println!("the runs are written; call this again, so that writing is not measured");
        return Ok(());
    }
    let [(_, before), (_, after)] = paths;
    let start = Instant::now();
    let (before, after) = std::thread::scope(|scope| {
        let before = scope.spawn(|| profile(&before));
        let after = profile(&after);
        (before.join().expect("no panic"), after)
    });
    let read = start.elapsed();
    let options = CompareOptions {
        threads: 2,
        ..CompareOptions::default()
    };
    let runs = Runs {
        before: vec![before?],
        after: vec![after?],
        noise: Vec::new(),
    };
    let comparison = compare(runs, options);
    let all = start.elapsed();
    let found = |name: &str| {
        let statements = comparison.statements.iter();
        statements
            .filter(|one| one.service.finding.name() == name)
            .count()
    };
    let names = ["slower", "faster", "same", "too noisy", "not enough data"];
    let findings = names.map(|name| (name, found(name)));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "2 × {count} executions, {} fingerprints: profiles {:.2} s, comparison {:.2} s, {}; {:?}; {findings:?}",
        comparison.statements.len(),
        read.as_secs_f64(),
        (all - read).as_secs_f64(),
        peak.unwrap_or("memory unknown"),
        comparison.verdict,
    );
    Ok(())
}
