//! Measures the verdicts of comparisons on real servers with known truth: identical servers, and servers with
//! planted regressions, under a changing load of the machine.
//!
//! `cargo run --release -p lab --example planted_truth -- [RUNS] [APPLICATIONS] [LOAD] [SEED] [DIRECTORY]`: rounds of
//! four replays (default 6), generated applications (1), busy threads during the replays (2), and the first
//! application's seed (1). Rules must be measured with seeds that were not used to find them. A round replays twice on
//! the unchanged server, once with all plants and once with the first, in a random order. With a directory the runs
//! are kept there, and runs that it has are compared again without a replay. `docs/benchmarks/comparison.md` has the
//! numbers.

mod application;
mod load;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use ::compare::{CompareOptions, Comparison, Direction, Pairing};
use ::sandbox::{Dirs, Endpoint, Options as SandboxOptions, Sandbox, ServerRequirements, Stop};
use observe::{MonitorOptions, MonitorScope};
use postgres::{Client, NoTls};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use replay::{Options, Target};
use statistics::Interval;
use study::Interrupt;
use study::capture_log::capture_files;
use study::compare_runs::{ComparisonRequest, compare_runs};
use study::observed_replay::{ReplayDisplay, replay_observed};
use study::target_snapshot::ObservationPlan;
use workload::WorkloadReader;

use application::{Application, PLANTS, Plant};
use load::ChangingLoad;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Sessions at once.
const SESSIONS: u64 = 8;
/// Time of the traffic.
const TRAFFIC: Duration = Duration::from_secs(15);
/// Time between the statements of a session.
const THINK: Duration = Duration::from_millis(28);
const LOADED: &str = "loaded";

/// Returns the message of a failure.
fn message(failure: study::Failure) -> String {
    failure.message
}

struct Silent;

impl ReplayDisplay for Silent {}

/// Conditions of a round: a name, and the number of plants.
const CONDITIONS: [(&str, usize); 4] = [
    ("equal", 0),
    ("twin", 0),
    ("planted", PLANTS.len()),
    ("single", 1),
];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default| {
        arguments
            .next()
            .map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (runs, applications, load, first) = (next(6)?, next(1)?, next(2)?, next(1)?);
    let temporary = tempfile::tempdir()?;
    let directory = arguments
        .next()
        .map_or(temporary.path().to_owned(), PathBuf::from);
    let mut sums = Sums::default();
    for seed in first..first + applications {
        let directory = directory.join(format!("application-{seed}"));
        std::fs::create_dir_all(&directory)?;
        if !directory.join(COMPLETE).exists() {
            replay_rounds(seed, runs, load, &directory)?;
        }
        compare_all(runs, &directory, &mut sums)?;
    }
    sums.print();
    Ok(())
}

/// Name of the file that marks a complete directory of runs.
const COMPLETE: &str = "complete";

fn replay_rounds(seed: u64, runs: u64, load: u64, directory: &Path) -> Outcome<()> {
    let places = Dirs::from_environment()?;
    let found = ::sandbox::find(&ServerRequirements::default(), &places, &mut |_| {})?;
    let options = SandboxOptions {
        statement_statistics: true,
        ..SandboxOptions::default()
    };
    let mut server = Sandbox::create(&found, options, &places)?;
    let application = Application::generate(seed);
    let endpoint = server.start()?;
    application.load(&mut connect(&endpoint)?)?;
    server.stop(Stop::Fast)?;
    server.snapshot(LOADED)?;
    server.set(lab::server_settings(&lab::LOGGING))?;
    let endpoint = server.start()?;
    drive(&application, &endpoint)?;
    server.stop(Stop::Fast)?;
    let log = directory.join("postgresql.csv");
    std::fs::copy(server.data_dir().join("log/postgresql.csv"), &log)?;
    server.set(Vec::new())?;
    let workload = directory.join("application.workload");
    capture_files(&[log], &workload, &Interrupt::default()).map_err(message)?;
    let reader = WorkloadReader::open(&workload)?;
    eprintln!("{application:?}: {} statements", reader.info().statements);

    let _load = ChangingLoad::start(load, seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for number in 0..runs {
        let mut conditions = CONDITIONS;
        conditions.shuffle(&mut random);
        for (name, plants) in conditions {
            let changes: Vec<&str> = PLANTS[..plants].iter().map(|plant| plant.sql).collect();
            let path = run_path(directory, name, number);
            replay_once(&mut server, &reader, &changes, &path)?;
        }
    }
    server.close()?;
    std::fs::write(directory.join(COMPLETE), "")?;
    Ok(())
}

fn run_path(directory: &Path, name: &str, number: u64) -> PathBuf {
    directory.join(format!("{name}{number}.run"))
}

fn compare_all(runs: u64, directory: &Path, sums: &mut Sums) -> Outcome<()> {
    let paths = |name: &str| -> Vec<PathBuf> {
        let all = (0..runs).map(|number| run_path(directory, name, number));
        all.collect()
    };
    let [equal, twin, planted, single] = CONDITIONS.map(|(name, _)| paths(name));
    for (side, pairing) in [
        (1, Pairing::Ignored),
        (2, Pairing::Ignored),
        (2, Pairing::ByPlace),
        (3, Pairing::Ignored),
        (3, Pairing::ByPlace),
    ] {
        for (truth, before, after, plants) in [
            ("nothing", &equal, &twin, 0),
            ("nothing", &twin, &equal, 0),
            ("five", &equal, &planted, PLANTS.len()),
            ("one", &equal, &single, 1),
        ] {
            sums.add_pairs((truth, side, pairing), before, after, &PLANTS[..plants])?;
        }
    }
    Ok(())
}

fn connect(endpoint: &Endpoint) -> Result<Client, postgres::Error> {
    Client::connect(&endpoint.url("postgres"), NoTls)
}

/// Runs the sessions of the application.
fn drive(application: &Application, endpoint: &Endpoint) -> Outcome<()> {
    let end = Instant::now() + TRAFFIC;
    scope(|threads| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|number| {
                threads.spawn(move || -> Result<(), postgres::Error> {
                    let mut client = connect(endpoint)?;
                    let mut actions = application.session(number);
                    while Instant::now() < end {
                        actions.act(&mut client)?;
                        sleep(THINK);
                    }
                    Ok(())
                })
            })
            .collect();
        for session in sessions {
            session.join().expect("a session does not panic")?;
        }
        Ok(())
    })
}

/// Restores the data, makes the changes, and replays.
fn replay_once(
    server: &mut Sandbox,
    reader: &WorkloadReader,
    changes: &[&str],
    output: &Path,
) -> Outcome<()> {
    server.restore(LOADED)?;
    let endpoint = server.start()?;
    let mut client = connect(&endpoint)?;
    for change in changes {
        client.batch_execute(change)?;
    }
    client.batch_execute("CHECKPOINT")?;
    for table in ["client", "product", "orders", "item", "batch"] {
        client.batch_execute(&format!("SELECT count(*) FROM {table}"))?;
    }
    drop(client);
    replay_observed(
        reader,
        &Target::parse(&endpoint.url("postgres"), |_| None)?,
        &Options::default(),
        ObservationPlan {
            facts: false,
            plans: Some(observe::PLANS_MAX),
            profile: None,
            watch: Some(MonitorOptions {
                scope: MonitorScope::Statistics,
                ..MonitorOptions::default()
            }),
        },
        output,
        &Interrupt::default(),
        &mut Silent,
    )
    .map_err(message)?;
    server.stop(Stop::Fast)?;
    Ok(())
}

/// Results of many comparisons, by truth and runs a side.
#[derive(Default)]
struct Sums {
    rows: Vec<Sum>,
}

/// Results of the comparisons of one kind.
#[derive(Default)]
struct Sum {
    truth: &'static str,
    side: usize,
    pairing: Pairing,
    comparisons: usize,
    /// Planted statements that take twice as long, and those of them that were found or named.
    double: [usize; 3],
    /// The same of the other planted statements.
    lesser: [usize; 3],
    accused: usize,
    exits: usize,
    inconclusive: usize,
    innocents: usize,
    /// Half widths of the intervals of the medians, as logarithms.
    widths: Vec<f64>,
}

impl Sums {
    /// Compares runs of both sides: all combinations with one run a side, and the same rounds with several.
    fn add_pairs(
        &mut self,
        (truth, side, pairing): (&'static str, usize, Pairing),
        before: &[PathBuf],
        after: &[PathBuf],
        planted: &[Plant],
    ) -> Outcome<()> {
        let is_it = |row: &Sum| (row.truth, row.side, row.pairing) == (truth, side, pairing);
        let place = self.rows.iter().position(is_it);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Sum {
                truth,
                side,
                pairing,
                ..Sum::default()
            });
            self.rows.len() - 1
        });
        for (one, other) in groups(before, after, side) {
            let comparison = compare_runs(&ComparisonRequest {
                before: one,
                after: other,
                options: CompareOptions {
                    pairing,
                    ..CompareOptions::default()
                },
                ..ComparisonRequest::default()
            })
            .map_err(message)?;
            self.rows[place].add(&comparison, planted);
        }
        Ok(())
    }

    fn print(&self) {
        println!(
            "| planted | runs a side, unit | comparisons | twice as long: found | named | less: found | named | innocent accused | exit 1 | inconclusive | interval |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
        for row in &self.rows {
            let unit = match (row.side, row.pairing) {
                (1, _) => "",
                (_, Pairing::ByPlace) => ", pair",
                _ => ", run",
            };
            let [double, lesser] = [row.double, row.lesser]
                .map(|[all, found, named]| format!("{found} of {all} | {named}"));
            println!(
                "| {} | {}{unit} | {} | {double} | {lesser} | {} of {} | {} | {} | × {:.2} |",
                row.truth,
                row.side,
                row.comparisons,
                row.accused,
                row.innocents,
                row.exits,
                row.inconclusive,
                middle(&row.widths).exp(),
            );
        }
    }
}

/// Returns the median; 0 for none.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Returns groups of runs of both sides. One run a side: all combinations. Several: consecutive rounds, the same of both
/// sides.
fn groups(before: &[PathBuf], after: &[PathBuf], side: usize) -> Vec<(Vec<PathBuf>, Vec<PathBuf>)> {
    let of = |runs: &[PathBuf], start: usize| -> Vec<PathBuf> {
        (0..side)
            .map(|at| runs[(start + at) % runs.len()].clone())
            .collect()
    };
    let mut groups = Vec::new();
    for one in 0..before.len() {
        for other in 0..after.len() {
            if side == 1 || one == other {
                groups.push((of(before, one), of(after, other)));
            }
        }
    }
    groups
}

impl Sum {
    fn add(&mut self, comparison: &Comparison, plants: &[Plant]) {
        self.comparisons += 1;
        let find = |sql: Option<&str>, parts: &dyn Fn(&Plant) -> &'static [&'static str]| {
            let sql = sql.unwrap_or_default().to_lowercase();
            plants
                .iter()
                .position(|plant| parts(plant).iter().any(|part| sql.contains(part)))
        };
        for one in &comparison.statements {
            let interval = one.service.median_ratio.and_then(|ratio| ratio.interval);
            let half_width = |one: Interval| (one.high / one.low).ln() / 2.0;
            self.widths.extend(interval.map(half_width));
            let sql = one.sql.as_deref();
            let is_found = one.change.is_cause(Direction::Slower);
            let Some(plant) = find(sql, &|plant| plant.statements) else {
                if find(sql, &|plant| plant.may_change).is_none() {
                    self.innocents += 1;
                    self.accused += usize::from(is_found);
                    if is_found {
                        eprintln!(
                            "accused ({}, {}): {sql:?} {:?}",
                            self.truth, self.side, one.change
                        );
                    }
                }
                continue;
            };
            let counts = match plants[plant].is_double {
                true => &mut self.double,
                false => &mut self.lesser,
            };
            let is_named = one.change.is_suspected();
            for (count, is_counted) in counts.iter_mut().zip([true, is_found, is_named]) {
                *count += usize::from(is_counted);
            }
            if !is_found && plants[plant].is_double {
                let work = one.work.as_ref();
                let execution = work.and_then(|work| work.execution_ratio());
                let error = work.and_then(|work| work.execution_error());
                eprintln!(
                    "missed ({}, {:?}): {sql:?}: {:?} {execution:?} {error:?} {:?}",
                    self.side, self.pairing, one.change, one.service.mean_ratio
                );
            }
        }
        eprintln!("{} {} {:?}", self.truth, self.side, comparison.verdict);
        self.exits += usize::from(comparison.has_regression());
        self.inconclusive += usize::from(matches!(
            comparison.verdict,
            ::compare::Verdict::Inconclusive { .. }
        ));
    }
}
