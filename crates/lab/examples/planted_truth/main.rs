//! Measures the verdicts of comparisons on real servers with known truth: identical servers, and servers with
//! planted regressions, under a changing load of the machine.
//!
//! `cargo run --release -p lab --example planted_truth -- [RUNS] [APPLICATIONS] [LOAD]`: runs a side (default 6),
//! generated applications (1), and busy threads during the replays (2). `docs/benchmarks/comparison.md` has the
//! numbers.

mod application;
mod load;

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use ::compare::{Comparison, Direction};
use ::sandbox::{Dirs, Endpoint, Options as SandboxOptions, Sandbox, ServerRequirements, Stop};
use observe::{MonitorOptions, MonitorScope};
use postgres::{Client, NoTls};
use replay::{Options, Target};
use study::Interrupt;
use study::capture_log::capture_files;
use study::compare_runs::{ComparisonRequest, compare_runs};
use study::observed_replay::{ReplayDisplay, replay_observed};
use study::target_snapshot::ObservationPlan;
use workload::WorkloadReader;

use application::{Application, PLANTS};
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

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (runs, applications, load) = (next(6)?, next(1)?, next(2)?);
    let mut sums = Sums::default();
    for seed in 1..=applications {
        measure(seed, runs, load, &mut sums)?;
    }
    sums.print();
    Ok(())
}

fn measure(seed: u64, runs: u64, load: u64, sums: &mut Sums) -> Outcome<()> {
    let directory = tempfile::tempdir()?;
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
    let log = directory.path().join("postgresql.csv");
    std::fs::copy(server.data_dir().join("log/postgresql.csv"), &log)?;
    server.set(Vec::new())?;
    let workload = directory.path().join("application.workload");
    capture_files(&[log], &workload, &Interrupt::default()).map_err(message)?;
    let reader = WorkloadReader::open(&workload)?;
    eprintln!("{application:?}: {} statements", reader.info().statements);

    let _load = ChangingLoad::start(load);
    let [mut equal, mut planted, mut single] = [(); 3].map(|()| Vec::<PathBuf>::new());
    let everything: Vec<&str> = PLANTS.iter().map(|plant| plant.sql).collect();
    let one = PLANTS[0].sql;
    for number in 0..runs {
        for (name, changes, paths) in [
            ("equal", &[][..], &mut equal),
            ("planted", &everything[..], &mut planted),
            ("single", &[one][..], &mut single),
        ] {
            let path = directory.path().join(format!("{name}{number}.run"));
            replay_once(&mut server, &reader, changes, &path)?;
            paths.push(path);
        }
    }
    let names = |plants: &[application::Plant]| -> Vec<&'static str> {
        plants
            .iter()
            .flat_map(|plant| plant.statements)
            .copied()
            .collect()
    };
    for side in [1, 2, 3] {
        sums.add_pairs("nothing", side, &equal, &equal, &[])?;
        sums.add_pairs("five", side, &equal, &planted, &names(&PLANTS))?;
        sums.add_pairs("one", side, &equal, &single, &names(&PLANTS[..1]))?;
    }
    server.close()?;
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
struct Sum {
    truth: &'static str,
    side: usize,
    comparisons: usize,
    planted: usize,
    found: usize,
    named: usize,
    accused: usize,
    exits: usize,
    inconclusive: usize,
    statements: usize,
}

impl Sums {
    /// Compares runs of both sides, each run with all others once, or in groups.
    fn add_pairs(
        &mut self,
        truth: &'static str,
        side: usize,
        before: &[PathBuf],
        after: &[PathBuf],
        planted: &[&str],
    ) -> Outcome<()> {
        let place = self
            .rows
            .iter()
            .position(|row| row.truth == truth && row.side == side);
        let place = place.unwrap_or_else(|| {
            self.rows.push(Sum::new(truth, side));
            self.rows.len() - 1
        });
        for (one, other) in groups(before, after, side) {
            let comparison = compare_runs(&ComparisonRequest {
                before: one,
                after: other,
                ..ComparisonRequest::default()
            })
            .map_err(message)?;
            self.rows[place].add(&comparison, planted);
        }
        Ok(())
    }

    fn print(&self) {
        println!(
            "| planted | runs a side | comparisons | found | named | innocent accused | exit 1 | inconclusive |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        for row in &self.rows {
            println!(
                "| {} | {} | {} | {} of {} | {} | {} of {} | {} | {} |",
                row.truth,
                row.side,
                row.comparisons,
                row.found,
                row.planted,
                row.named,
                row.accused,
                row.statements - row.planted,
                row.exits,
                row.inconclusive,
            );
        }
    }
}

/// Returns disjoint groups of runs of both sides, in all orders for one run a side.
fn groups(before: &[PathBuf], after: &[PathBuf], side: usize) -> Vec<(Vec<PathBuf>, Vec<PathBuf>)> {
    let is_same = before == after;
    let of = |runs: &[PathBuf], start: usize| -> Vec<PathBuf> {
        (0..side)
            .map(|at| runs[(start + at) % runs.len()].clone())
            .collect()
    };
    let mut groups = Vec::new();
    for one in 0..before.len() {
        for other in 0..after.len() {
            let pair = (of(before, one), of(after, other));
            let shared = pair.0.iter().any(|run| pair.1.contains(run));
            if !(is_same && shared) {
                groups.push(pair);
            }
        }
    }
    groups
}

impl Sum {
    fn new(truth: &'static str, side: usize) -> Self {
        Self {
            truth,
            side,
            comparisons: 0,
            planted: 0,
            found: 0,
            named: 0,
            accused: 0,
            exits: 0,
            inconclusive: 0,
            statements: 0,
        }
    }

    fn add(&mut self, comparison: &Comparison, planted: &[&str]) {
        self.comparisons += 1;
        self.planted += planted.len();
        self.statements += comparison.statements.len();
        let of = |sql: Option<&str>| {
            let sql = sql.unwrap_or_default().to_lowercase();
            planted.iter().position(|part| sql.contains(part))
        };
        let mut found = BTreeSet::new();
        for one in comparison.causes(Direction::Slower) {
            match of(one.sql.as_deref()) {
                Some(place) => drop(found.insert(place)),
                None => {
                    self.accused += 1;
                    eprintln!("accused ({}): {:?} {:?}", self.truth, one.sql, one.change);
                }
            }
        }
        self.found += found.len();
        let suspects = comparison
            .statements
            .iter()
            .filter(|one| one.change.is_suspected());
        let suspects: BTreeSet<_> = suspects.filter_map(|one| of(one.sql.as_deref())).collect();
        self.named += suspects.len();
        for (place, part) in planted.iter().enumerate() {
            if !found.contains(&place) {
                let is_it =
                    |one: &&::compare::StatementComparison| of(one.sql.as_deref()) == Some(place);
                let one = comparison.statements.iter().find(is_it);
                eprintln!(
                    "missed ({}): {part}: {:?}",
                    self.side,
                    one.map(|one| (&one.change, &one.work, one.service.mean_ratio))
                );
            }
        }
        self.exits += usize::from(comparison.has_regression());
        self.inconclusive += usize::from(matches!(
            comparison.verdict,
            ::compare::Verdict::Inconclusive { .. }
        ));
    }
}
