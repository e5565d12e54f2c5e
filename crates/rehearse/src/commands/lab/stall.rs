//! `rehearse lab stall`.

mod proved;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analyse::Comparison;
use lab::stall::{self, Rates};
use lab::{LabError, Scale};
use replay::{Options, SendOrder};
use report::{
    CaseChartView, CaseCheckView, CaseFileView, CaseLineView, CaseNumberView, CaseView,
    ProofSideView,
};
use run::RunReader;
use workload::WorkloadReader;

use self::proved::Proved;
use super::proving::verdict;
use super::stage::Stage;
use crate::commands::compare;
use crate::ending::Failure;
use crate::options::lab::CaseArgs;

/// How many times as long as its interval a search takes without its index.
const SLOWER: u32 = 3;
const WINDOW_NS: i64 = 500_000_000;
/// What the issue of the case asks for: in one queue the untouched sessions lose more than half, with a
/// session each no more than this.
const HOLDS: f64 = 0.98;
const FALLS: f64 = 0.5;
/// What mends the change makes it so many times as cheap, at least.
const MENDS: f64 = 3.0;
/// How long the soak of the full scale takes.
const SOAK: Duration = Duration::from_secs(3 * 3_600);

/// Runs the case. Returns its folder, and what was seen.
pub fn run(args: &CaseArgs) -> Result<(PathBuf, CaseView), Failure> {
    let scale = Scale::from(args.scale);
    let mut stage = Stage::begin(stall::CASE, args)?;
    stage.step("A shop with its orders, and an index for those of a customer.".to_owned())?;
    let shop = stall::create(&mut stage.client()?, scale).map_err(Failure::could_not)?;
    let version = stage.version();
    stage.loaded()?;

    let duration = match scale {
        Scale::Small => Duration::from_secs(4),
        Scale::Full => Duration::from_secs(600),
    };
    let plan = stall::Plan::for_shop(&shop, SLOWER, duration);
    stage.step(format!(
        "For {} s {} programs read single orders, every {} ms each; one searches for a customer's, every {:.1} ms. The server logs it.",
        duration.as_secs(),
        plan.readers,
        plan.read_every.as_millis(),
        plan.search_every.as_secs_f64() * 1e3,
    ))?;
    let driven = stall::drive(&stage.connecting(), &shop, &plan).map_err(Failure::could_not)?;
    stage.step(format!(
        "The log of {} reads and {} searches becomes a workload.",
        driven.reads, driven.searches
    ))?;
    let workload = stage.captured("shop.workload")?;
    let touched = searchers(&workload)?;

    let one_each = Options::default();
    let in_one_queue = Options {
        order: SendOrder::Global,
        ..Options::default()
    };
    stage.step("Replayed with the index, a session each: the control.".to_owned())?;
    let (control, _) = stage.replay(&workload, "control.run", &one_each, stall::warm)?;
    let without = |client: &mut postgres::Client| -> Result<(), LabError> {
        stall::drop_index(client)?;
        stall::warm(client)
    };
    stage.step(format!(
        "Replayed without {}, a session each.",
        stall::INDEX
    ))?;
    let (session, _) = stage.replay(&workload, "session.run", &one_each, without)?;
    stage.step(format!(
        "Replayed without {}, in one order for all sessions (--order global).",
        stall::INDEX
    ))?;
    let (global, _) = stage.replay(&workload, "global.run", &in_one_queue, without)?;
    let soak = match scale {
        Scale::Small => None,
        Scale::Full => {
            stage.step("Replayed with the index again and again, for three hours.".to_owned())?;
            let options = Options {
                repeat: (SOAK.as_secs() / duration.as_secs()) as u32,
                ..Options::default()
            };
            Some(
                stage
                    .replay(&workload, "soak.run", &options, stall::warm)?
                    .1,
            )
        }
    };
    let (seconds, blocks) = match scale {
        Scale::Small => (1, 2),
        Scale::Full => (20, 6),
    };
    stage.step(format!(
        "The replay without it, a session each, is diagnosed without being told anything; on the first {seconds} s of the traffic are proved: the change, and the change with what the diagnosis suggests."
    ))?;
    let (stage, proved) = proved::prove(stage, &session, &workload, (seconds, blocks))?;
    let (directory, done) = stage.end()?;

    let rates = |run: &Path| rates_of(run, &touched);
    let (control_rates, session_rates, global_rates) =
        (rates(&control)?, rates(&session)?, rates(&global)?);
    let comparison = compare::compare(&compare::Request {
        before: vec![control],
        after: vec![session],
        ..compare::Request::default()
    })?;
    let slowest = slowest(&comparison);
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let kept = |rates: &Rates| {
        format!(
            "{} of {} statements were sent in their time: {}",
            rates.sent_in_time,
            rates.due,
            percent(rates.kept())
        )
    };
    let mut checks = vec![
        CaseCheckView {
            what: "with the index the untouched sessions send what they are to send".to_owned(),
            holds: control_rates.kept() >= HOLDS,
            measured: kept(&control_rates),
        },
        CaseCheckView {
            what: "in one order for all, without the index, they send less than half of it"
                .to_owned(),
            holds: global_rates.kept() < FALLS,
            measured: kept(&global_rates),
        },
        CaseCheckView {
            what: "with a session each, without the index, they send it within 2 %".to_owned(),
            holds: session_rates.kept() >= HOLDS,
            measured: kept(&session_rates),
        },
        CaseCheckView {
            what: "the comparison with the control names the search, without being told".to_owned(),
            holds: slowest
                .as_ref()
                .is_some_and(|(sql, _)| sql.contains("customer")),
            measured: match &slowest {
                Some((sql, ratio)) => format!("{sql}: {ratio:.0} times as long"),
                None => "no statement got slower".to_owned(),
            },
        },
    ];
    checks.extend(of_the_change(&proved));
    if let Some(info) = &soak {
        checks.push(CaseCheckView {
            what: "three hours without a deadlock, and every statement done".to_owned(),
            holds: info.done == info.statements,
            measured: format!(
                "{} of {} statements done in {}",
                info.done,
                info.statements,
                clock::duration_text(info.elapsed_ns)
            ),
        });
    }
    let view = CaseView {
        schema: "rehearse/lab/1",
        name: stall::CASE.name.to_owned(),
        title: stall::CASE.title.to_owned(),
        source: stall::CASE.source.to_owned(),
        scale: match scale {
            Scale::Small => "small",
            Scale::Full => "full",
        },
        server_version: version,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        had: "A load tester that replayed production's log against a new server, with one order for the statements of all sessions. The server was sent bursts, and silence between them.".to_owned(),
        believed: "That the new server was slow: all of its statements came late.".to_owned(),
        measured: vec![
            format!(
                "A search takes {:.1} ms without its index, and one comes every {:.1} ms: the program that searches cannot keep up. The other {} have nothing to do with it.",
                shop.slow.as_secs_f64() * 1e3,
                plan.search_every.as_secs_f64() * 1e3,
                plan.readers
            ),
            format!(
                "In one order for all sessions every statement waits until all that was due before it has been sent, and each search holds up everybody: of what the untouched sessions were to send, {} was sent in its time. With a session each it is {}.",
                percent(global_rates.kept()),
                percent(session_rates.kept())
            ),
            format!(
                "With a session each the run says what is wrong, and not only that all is late: the diagnosis begins with \"{}\", and suggests {}",
                proved.first().map_or("nothing was found", |one| one.title.as_str()),
                proved.suggested.as_deref().unwrap_or("nothing to try")
            ),
            format!(
                "The change, proved before it ships: without the index, {}; without it and with what is suggested, {}.",
                verdict(proved.dropped()),
                verdict(proved.mended())
            ),
        ],
        cure: "A session each, paced by the capture's times: a slow statement delays its own session, and no other. Users do not queue politely behind each other. And for the server: the index that its search needs.".to_owned(),
        checks,
        numbers: vec![
            CaseNumberView {
                what: "the untouched sessions' send rate in one order for all".to_owned(),
                published: None,
                here: percent(global_rates.kept()),
                why: "The write-up tells of bursts and silence, without a number. Here a search takes as many times its interval as was chosen, so that about a third is left.".to_owned(),
            },
            CaseNumberView {
                what: "a replay for hours without a deadlock".to_owned(),
                published: Some("three hours".to_owned()),
                here: match &soak {
                    Some(info) => clock::duration_text(info.elapsed_ns),
                    None => "not at this scale".to_owned(),
                },
                why: match soak {
                    Some(_) => String::new(),
                    None => "--scale full replays for three hours.".to_owned(),
                },
            },
        ],
        charts: vec![chart(&session_rates, &global_rates)],
        flames: Vec::new(),
        unseen: Vec::new(),
        done,
        files: [
            ("postgresql.csv", "the server's log"),
            ("shop.workload", "what was captured of it"),
            ("control.run", "the replay with the index"),
            ("session.run", "the replay without it, a session each"),
            ("global.run", "the replay without it, in one order for all"),
            (proved::PART, "the part of the workload on which was proved"),
            (proved::REPORT, "the proof: every run, and what came of it"),
            (proved::DROPPED, "the change"),
            (proved::MENDED, "the change, and what the diagnosis suggests"),
        ]
        .map(|(name, what)| CaseFileView {
            name: name.to_owned(),
            what: what.to_owned(),
        })
        .into(),
    };
    Ok((directory, view))
}

/// What the diagnosis and the proof must say.
fn of_the_change(proved: &Proved) -> [CaseCheckView; 3] {
    let ratio = |side: Option<&ProofSideView>| side?.effect.map(|effect| effect.ratio);
    let (dropped, mended) = (ratio(proved.dropped()), ratio(proved.mended()));
    [
        CaseCheckView {
            what: "the diagnosis's first finding is the search's index, without being told"
                .to_owned(),
            holds: proved
                .first()
                .is_some_and(|one| one.rule == "missing-index")
                && proved
                    .suggested
                    .as_ref()
                    .is_some_and(|sql| sql.contains("orders (customer)")),
            measured: match proved.first() {
                Some(one) => format!(
                    "{}: {}: {}",
                    one.rule,
                    one.title,
                    proved.suggested.as_deref().unwrap_or("nothing to try")
                ),
                None => "nothing was found".to_owned(),
            },
        },
        CaseCheckView {
            what: "dropping the index is proved to lose, before it ships".to_owned(),
            holds: proved.dropped().is_some_and(|side| side.verdict == "lost"),
            measured: verdict(proved.dropped()),
        },
        CaseCheckView {
            what: "what is suggested takes most of the loss back".to_owned(),
            holds: matches!((dropped, mended), (Some(dropped), Some(mended)) if mended < dropped / MENDS),
            measured: verdict(proved.mended()),
        },
    ]
}

/// The sessions of the program that searches.
fn searchers(workload: &WorkloadReader) -> Result<HashSet<u64>, Failure> {
    let mut found = HashSet::new();
    for session in workload.sessions()? {
        let session = session?;
        if &*session.application == stall::SEARCHER {
            found.insert(session.id);
        }
    }
    Ok(found)
}

fn rates_of(run: &Path, touched: &HashSet<u64>) -> Result<Rates, Failure> {
    let executions: Vec<_> = RunReader::open(run)?
        .executions()?
        .collect::<Result<_, _>>()?;
    Ok(Rates::of(executions.iter(), touched, WINDOW_NS))
}

/// The statement that added the most time of those that got slower, and how many times as long it takes.
fn slowest(comparison: &Comparison) -> Option<(String, f64)> {
    let added = |ns: Option<f64>| ns.unwrap_or(0.0);
    let found = comparison
        .statements
        .iter()
        .filter(|statement| statement.regression)
        .max_by(|a, b| added(a.times.added_ns).total_cmp(&added(b.times.added_ns)))?;
    let ratio = found.times.median.map_or(f64::NAN, |ratio| ratio.value);
    Some((found.sql.clone()?, ratio))
}

fn chart(session: &Rates, global: &Rates) -> CaseChartView {
    let seconds = WINDOW_NS as f64 / 1e9;
    let line = |name: &str, rates: &Rates, of: &dyn Fn(&stall::Window) -> u64| CaseLineView {
        name: name.to_owned(),
        points: rates
            .windows
            .iter()
            .enumerate()
            .map(|(at, window)| ((at as f64 + 0.5) * seconds, of(window) as f64 / seconds))
            .collect(),
    };
    CaseChartView {
        title: "What the untouched sessions send".to_owned(),
        unit: "statements a second".to_owned(),
        spoken: format!(
            "with a session each {:.0} % is sent in its time, in one order for all {:.0} %",
            session.kept() * 100.0,
            global.kept() * 100.0
        ),
        across: None,
        durations: false,
        lines: vec![
            line("sent with a session each", session, &|window| window.sent),
            line("sent in one order for all", global, &|window| window.sent),
        ],
    }
}
