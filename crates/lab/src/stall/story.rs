//! Report of the case *stall*.

use compare::proof::Verdict;
use compare::{Comparison, Direction};
use report::{CaseChart, CaseCheck, CaseFile, CaseLine, CaseReport};
use study::proof::ProofSideReport;

use super::case::{DROPPED, MENDED, Measurements, PART, WINDOW_NS};
use super::{CASE, SendRates, Window};
use crate::case::Scale;
use crate::report_parts::{
    check, file, files, finding_text, new_report, number, percent, verdict_text,
};
use crate::stage::CaseProof;

/// Smallest share of the unrelated sessions' statements that is sent in time with a connection per session.
const KEPT_MIN: f64 = 0.98;
/// Largest share that is sent in time with one order for all sessions.
const STALLED_MAX: f64 = 0.5;
/// Smallest factor by which the proposed change makes the dropped index cheaper.
const CURE_MIN: f64 = 3.0;

/// Builds the report, without the steps.
pub(super) fn report(seen: &Measurements, scale: Scale, version: &str) -> CaseReport {
    CaseReport {
        context: "A load tester that replayed production's log against a new server, with one order for the statements of all sessions. The server was sent bursts, and silence between them.".to_owned(),
        hypothesis: "That the new server was slow: all of its statements came late.".to_owned(),
        measured: vec![
            format!(
                "A search takes {:.1} ms without its index, and one comes every {:.1} ms: the program that searches cannot keep up. The other {} have nothing to do with it.",
                seen.shop.slow.as_secs_f64() * 1e3,
                seen.plan.search_every.as_secs_f64() * 1e3,
                seen.plan.readers
            ),
            format!(
                "In one order for all sessions every statement waits until all that was due before it has been sent, and each search holds up everybody: of what the untouched sessions were to send, {} was sent in its time. With a session each it is {}.",
                percent(seen.global.share_in_time()),
                percent(seen.session.share_in_time())
            ),
            format!(
                "With a session each the run says what is wrong, and not only that all is late: the diagnosis begins with \"{}\", and suggests {}",
                seen.proof.first_finding().map_or("nothing was found", |one| one.title.as_str()),
                seen.proof.proposed_sql().unwrap_or("nothing to try")
            ),
            format!(
                "The change, proved before it ships: without the index, {}; without it and with what is suggested, {}.",
                verdict_text(seen.proof.side(0)),
                verdict_text(seen.proof.side(1))
            ),
        ],
        cure: "A session each, paced by the capture's times: a slow statement delays its own session, and no other. Users do not wait politely for each other. And for the server: the index that its search needs.".to_owned(),
        checks: checks(seen),
        numbers: vec![
            number(
                "the untouched sessions' send rate in one order for all",
                None,
                percent(seen.global.share_in_time()),
                "The write-up tells of bursts and silence, without a number. Here a search takes as many times its interval as was chosen, so that about a third is left.",
            ),
            number(
                "a replay for hours without a deadlock",
                Some("three hours"),
                match &seen.soak {
                    Some(info) => clock::duration_text(info.elapsed_ns),
                    None => "not at this scale".to_owned(),
                },
                match seen.soak {
                    Some(_) => "",
                    None => "--size full replays for three hours.",
                },
            ),
        ],
        charts: vec![chart(&seen.session, &seen.global)],
        files: case_files(seen),
        ..new_report(&CASE, scale, version)
    }
}

fn case_files(seen: &Measurements) -> Vec<CaseFile> {
    let mut all = files([
        ("postgresql.csv", "the server's log"),
        ("shop.workload", "what was captured of it"),
        ("control.run", "the replay with the index"),
        ("session.run", "the replay without it, a session each"),
        ("global.run", "the replay without it, in one order for all"),
        (PART, "the part of the workload on which was proved"),
        (
            "index.proof/report.html",
            "the proof: every run, and what came of it",
        ),
        (DROPPED, "the change"),
        (MENDED, "the change, and what the diagnosis suggests"),
    ]);
    if seen.soak.is_some() {
        all.push(file("soak.run", "the replay for hours"));
    }
    all
}

fn checks(seen: &Measurements) -> Vec<CaseCheck> {
    let (control, session, global) = (&seen.control, &seen.session, &seen.global);
    let slowest = slowest(&seen.comparison);
    let kept = |rates: &SendRates| {
        format!(
            "{} of {} statements were sent in their time: {}",
            rates.sent_in_time,
            rates.due,
            percent(rates.share_in_time())
        )
    };
    let mut checks = vec![
        check(
            "with the index the untouched sessions send what they are to send",
            control.share_in_time() >= KEPT_MIN,
            kept(control),
        ),
        check(
            "in one order for all, without the index, they send less than half of it",
            global.share_in_time() < STALLED_MAX,
            kept(global),
        ),
        check(
            "with a session each, without the index, they send it within 2 %",
            session.share_in_time() >= KEPT_MIN,
            kept(session),
        ),
        check(
            "the comparison with the control names the search, without being told",
            slowest
                .as_ref()
                .is_some_and(|(sql, _)| sql.contains("customer")),
            match &slowest {
                Some((sql, ratio)) => format!("{sql}: {ratio:.0} times as long"),
                None => "no statement got slower".to_owned(),
            },
        ),
    ];
    checks.extend(change_checks(&seen.proof));
    if let Some(info) = &seen.soak {
        checks.push(check(
            "three hours without a deadlock, and every statement done",
            info.done == info.statements,
            format!(
                "{} of {} statements done in {}",
                info.done,
                info.statements,
                clock::duration_text(info.elapsed_ns)
            ),
        ));
    }
    checks
}

/// Checks of the diagnosis and the proof.
fn change_checks(proof: &CaseProof) -> [CaseCheck; 3] {
    let ratio = |side: Option<&ProofSideReport>| side?.effect.map(|effect| effect.ratio);
    let (dropped, mended) = (proof.side(0), proof.side(1));
    let first = proof.first_finding();
    let sql = proof.proposed_sql();
    [
        check(
            "the diagnosis's first finding is the search's index, without being told",
            first.is_some_and(|finding| finding.rule == "missing-index")
                && sql.is_some_and(|sql| sql.contains("orders (customer)")),
            finding_text(first, |_| format!(": {}", sql.unwrap_or("nothing to try"))),
        ),
        check(
            "dropping the index is proved to lose, before it ships",
            dropped.is_some_and(|side| side.verdict == Verdict::Lost),
            verdict_text(dropped),
        ),
        check(
            "what is suggested takes most of the loss back",
            matches!((ratio(dropped), ratio(mended)), (Some(dropped), Some(mended)) if mended < dropped / CURE_MIN),
            verdict_text(mended),
        ),
    ]
}

/// Returns the regressed statement that added the most time, and the factor by which it became slower.
fn slowest(comparison: &Comparison) -> Option<(String, f64)> {
    let added = |ns: Option<f64>| ns.unwrap_or(0.0);
    let found = comparison
        .statements
        .iter()
        .filter(|statement| statement.change.is_cause(Direction::Slower))
        .max_by(|a, b| added(a.service.added_ns).total_cmp(&added(b.service.added_ns)))?;
    let ratio = found
        .service
        .median_ratio
        .map_or(f64::NAN, |ratio| ratio.value);
    Some((found.sql.clone()?, ratio))
}

fn chart(session: &SendRates, global: &SendRates) -> CaseChart {
    let seconds = WINDOW_NS as f64 / 1e9;
    let line = |name: &str, rates: &SendRates, of: &dyn Fn(&Window) -> u64| CaseLine {
        name: name.to_owned(),
        points: rates
            .windows
            .iter()
            .enumerate()
            .map(|(at, window)| ((at as f64 + 0.5) * seconds, of(window) as f64 / seconds))
            .collect(),
    };
    CaseChart {
        title: "What the untouched sessions send".to_owned(),
        unit: "statements a second".to_owned(),
        alt_text: format!(
            "with a session each {:.0} % is sent in its time, in one order for all {:.0} %",
            session.share_in_time() * 100.0,
            global.share_in_time() * 100.0
        ),
        lines: vec![
            line("sent with a session each", session, &|window| window.sent),
            line("sent in one order for all", global, &|window| window.sent),
        ],
        ..CaseChart::default()
    }
}
