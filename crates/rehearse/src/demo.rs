//! `rehearse demo`: shows the main commands in about a minute, on private servers.
//!
//! It creates a small shop and runs it, captures its log, replays the traffic twice, the second
//! time without an index that it needs, and compares the two runs. The demo calls the code of
//! the commands that it names at the end. No result is hard-coded.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::compare::Direction;
use ::sandbox::{Dirs, Endpoint, Options as SandboxOptions, Sandbox, Stop};
use observe::{MonitorOptions, MonitorScope};
use postgres::{Client, NoTls};
use replay::{Options, Target};
use report::inspect_text;
use report::inspect_text::InspectTextOptions;
use report::{compare_page, compare_text};
use workload::Literals;
use workload::WorkloadReader;

use lab::{LOGGING, server_settings, shop};

use crate::commands::{capture, inspect, sandbox};
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options::Demo;
use crate::terminal;
use report::output_file;
use study::Failure;
use study::Interrupt;
use study::compare_runs::{ComparisonRequest, compare_runs};
use study::observed_replay;
use study::target_snapshot::ObservationPlan;

/// Number of sessions: enough for visible contention, and fewer than the server's connections.
const SESSIONS: usize = 24;
const SEED: u64 = 20_260_301;
const LOADED: &str = "loaded";
/// Comparison page.
const PAGE: &str = "comparison.html";

/// Runs the demo.
pub fn run(options: &Demo) -> Result<ExitStatus, Failure> {
    let started = Instant::now();
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let directory = make_directory(&options.output)?;
    let places = Dirs::from_environment()?;
    step(1, "A private PostgreSQL, with logging on");
    let found = sandbox::find(&options.server.requirements(), &places)?;
    let server_options = SandboxOptions {
        statement_statistics: true,
        ..SandboxOptions::default()
    };
    let mut server = Sandbox::create(&found, server_options, &places)?;
    let endpoint = server.start()?;
    tell(&format!(
        "PostgreSQL {} listens on {}; it is deleted when the demo ends.",
        found.version,
        endpoint.url("shop")
    ));

    step(2, "A small shop");
    let sizes = load(&endpoint)?;
    tell(&format!("{sizes}"));
    server.stop(Stop::Fast)?;
    server.snapshot(LOADED)?;
    server.set(server_settings(&LOGGING))?;
    let endpoint = server.start()?;
    stop_if_asked(&interrupt)?;

    step(3, "Its customers");
    tell(&format!(
        "{SESSIONS} sessions at once for {} s: they browse, order, pay, make mistakes.",
        options.seconds
    ));
    let driven = drive(&endpoint, options.seconds)?;
    tell(&format!("{driven}"));
    server.stop(Stop::Fast)?;
    let log = directory.join("postgresql.csv");
    copy(&server.data_dir().join("log/postgresql.csv"), &log)?;
    stop_if_asked(&interrupt)?;

    step(
        4,
        "rehearse capture log: the server's log becomes a workload",
    );
    let workload = directory.join("shop.workload");
    capture::capture_files(&[log], &workload, &interrupt)?;
    let reader = WorkloadReader::open(&workload)?;

    step(5, "rehearse inspect: what is in it");
    let mut inspection = inspect::collect(&reader, Literals::Hidden)?;
    inspection.workload = workload.display().to_string();
    let shown = InspectTextOptions::default();
    terminal::say(&inspect_text::render_text(
        &inspection,
        shown,
        &terminal::style(),
    ));
    stop_if_asked(&interrupt)?;

    step(
        6,
        "rehearse replay: the same traffic against the shop as it was",
    );
    // The replays' server does not log: what that costs is not what is measured.
    server.set(Vec::new())?;
    let before = directory.join("before.run");
    replay_from_snapshot(&mut server, &reader, &before, None, &interrupt)?;
    stop_if_asked(&interrupt)?;

    step(7, "The same again, without an index that the traffic needs");
    let after = directory.join("after.run");
    let drop_index = format!("DROP INDEX {}", shop::INDEX_TO_DROP);
    tell(&format!("{drop_index};"));
    replay_from_snapshot(&mut server, &reader, &after, Some(&drop_index), &interrupt)?;
    stop_if_asked(&interrupt)?;
    server.close()?;

    step(8, "rehearse compare: what got slower, and how sure that is");
    let request = ComparisonRequest {
        before: vec![before],
        after: vec![after],
        ..ComparisonRequest::default()
    };
    let comparison = compare_runs(&request)?;
    terminal::say(&compare_text::render_text(&comparison, &terminal::style()));
    output_file::write(
        output_file::PAGE,
        &directory.join(PAGE),
        &compare_page::render_html(&comparison),
    )?;
    end(&directory, &comparison, started.elapsed());
    Ok(ExitStatus::Success)
}

fn step(number: u32, title: &str) {
    terminal::say_line(&format!("\n{number}. {title}"));
}

fn tell(text: &str) {
    terminal::say_line(&format!("   {text}"));
}

fn stop_if_asked(interrupt: &Interrupt) -> Result<(), Failure> {
    if interrupt.is_requested() {
        return Err(Failure::could_not(
            "the demo was stopped; its server is deleted, what it made so far is left",
        ));
    }
    Ok(())
}

/// Creates the output directory. One of an earlier demo is replaced; anything else is left
/// unchanged.
fn make_directory(wanted: &Path) -> Result<PathBuf, Failure> {
    const OURS: [&str; 5] = [
        "postgresql.csv",
        "shop.workload",
        "before.run",
        "after.run",
        PAGE,
    ];
    let failed = |error: std::io::Error| {
        Failure::could_not(format!("cannot make {}: {error}", wanted.display()))
    };
    if let Ok(listing) = std::fs::read_dir(wanted) {
        let foreign = listing.flatten().find(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            !OURS.contains(&name.trim_end_matches(".partial"))
        });
        if let Some(entry) = foreign {
            return Err(Failure::usage(format!(
                "{} holds {}, which is not the demo's; give another folder with --output",
                wanted.display(),
                entry.file_name().to_string_lossy()
            )));
        }
        std::fs::remove_dir_all(wanted).map_err(failed)?;
    }
    std::fs::create_dir_all(wanted).map_err(failed)?;
    Ok(wanted.to_owned())
}

fn failed(what: &str) -> impl Fn(postgres::Error) -> Failure {
    move |error| {
        let reason = match error.as_db_error() {
            Some(said) => said.message().to_owned(),
            None => error.to_string(),
        };
        Failure::could_not(format!("{what}: {reason}"))
    }
}

fn connect(
    endpoint: &Endpoint,
    database: &str,
    application: &str,
) -> Result<Client, postgres::Error> {
    let mut config: postgres::Config = endpoint.url(database).parse()?;
    config.application_name(application);
    config.connect(NoTls)
}

fn load(endpoint: &Endpoint) -> Result<shop::Sizes, Failure> {
    let mut admin = connect(endpoint, "postgres", "demo").map_err(failed("cannot connect"))?;
    admin
        .batch_execute("CREATE DATABASE shop")
        .map_err(failed("cannot create the shop's database"))?;
    let mut client = connect(endpoint, "shop", "demo").map_err(failed("cannot connect"))?;
    shop::create(&mut client).map_err(failed("cannot fill the shop"))
}

fn drive(endpoint: &Endpoint, seconds: u64) -> Result<shop::TrafficCounts, Failure> {
    let options = shop::TrafficOptions {
        sessions: SESSIONS,
        duration: Duration::from_secs(seconds),
        seed: SEED,
    };
    shop::run_traffic(
        &|application| connect(endpoint, "shop", application),
        options,
    )
    .map_err(|error| Failure::could_not(format!("the shop's traffic broke off: {error}")))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::copy(from, to).map_err(|error| {
        Failure::could_not(format!(
            "cannot copy the log {} to {}: {error}",
            from.display(),
            to.display()
        ))
    })?;
    Ok(())
}

/// Restores the snapshot, makes the change, and replays.
fn replay_from_snapshot(
    server: &mut Sandbox,
    reader: &WorkloadReader,
    output: &Path,
    change: Option<&str>,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    server.restore(LOADED)?;
    let endpoint = server.start()?;
    let mut client = connect(&endpoint, "shop", "demo").map_err(failed("cannot connect"))?;
    if let Some(change) = change {
        client
            .batch_execute(change)
            .map_err(failed("cannot make the change"))?;
    }
    // Both replays begin with the tables in memory, and none with the work of the loading.
    client
        .batch_execute("CHECKPOINT")
        .map_err(failed("cannot checkpoint"))?;
    shop::warm(&mut client).map_err(failed("cannot read the tables"))?;
    drop(client);
    let target = Target::parse(&endpoint.url("shop"), |_| None)?;
    let info = observed_replay::replay_observed(
        reader,
        &target,
        &Options::default(),
        ObservationPlan {
            facts: true,
            plans: Some(observe::PLANS_MAX),
            profile: None,
            watch: Some(MonitorOptions {
                scope: MonitorScope::Statistics,
                ..MonitorOptions::default()
            }),
        },
        output,
        interrupt,
        &mut Display::on_terminal(),
    )?;
    let failures: u64 = info.failed.values().sum();
    tell(&format!(
        "{} of {} statements done, {failures} failed (the customers' mistakes among them), in {}.",
        info.done,
        info.statements,
        clock::duration_text(info.elapsed_ns),
    ));
    server.stop(Stop::Fast)?;
    Ok(())
}

/// Names the statements that got slower independently. The comparison alone determines them.
fn end(directory: &Path, comparison: &::compare::Comparison, took: Duration) {
    let causes: Vec<&str> = comparison
        .causes(Direction::Slower)
        .map(|statement| {
            statement
                .sql
                .as_deref()
                .unwrap_or("a statement without text")
        })
        .collect();
    terminal::say_line("");
    if causes.is_empty() {
        terminal::say_line(
            "No cause was found, though an index was dropped: this machine may be too busy to tell.",
        );
    } else {
        terminal::say_line(&format!(
            "Rehearse was not told what had changed. After {} was dropped, these got slower by their own work:",
            shop::INDEX_TO_DROP
        ));
        for sql in causes {
            terminal::say_line(&format!("  {sql}"));
        }
        let along = comparison.along(Direction::Slower).count();
        if along > 0 {
            terminal::say_line(&format!(
                "({along} more took longer for the same work: they share the machine with these)"
            ));
        }
    }
    let directory = directory.display();
    terminal::say_line(&format!(
        "\nAll of it is in {directory}/. Open {directory}/{PAGE} in a browser. Continue with:\n  \
         rehearse inspect {directory}/shop.workload\n  \
         rehearse show {directory}/after.run\n  \
         rehearse compare {directory}/before.run {directory}/after.run --fail-on regression\n  \
         rehearse sandbox up, then rehearse replay {directory}/shop.workload --target URL -o mine.run\n\
         The demo took {:.0} s.",
        took.as_secs_f64()
    ));
}
