//! Live page in a browser, during a replay and after it.

use std::time::{Duration, Instant};

use serde_json::json;

use super::parts;
use super::tab::Tab;
use crate::{PATIENCE, Running, workload};
use test_support::server;

/// Waits until an expression is true.
#[track_caller]
fn wait(tab: &mut Tab, expression: &str) {
    let since = Instant::now();
    while !tab.is(expression) {
        let words = tab.text("#state");
        assert!(since.elapsed() < PATIENCE, "never: {expression}; {words}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Expression for the element that has the keyboard's focus.
const FOCUS: &str = "document.activeElement.id || document.activeElement.className";
/// Expression for the range that is chosen.
const RANGE: &str = "document.querySelector('[data-range][aria-pressed=true]').innerText";

#[test]
fn the_page_moves_while_a_replay_runs_and_is_of_use_when_it_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = server().start();
    // Longer than it takes to look at it: the stop ends it.
    let workload = workload(directory.path(), 3_000);
    let run = directory.path().join("a.run").display().to_string();
    let url = endpoint.url("postgres");
    let mut running = Running::start(&["replay", &workload, "--target", &url, "-o", &run, "--ui"]);
    let line = running.until("can be watched at http://");
    let address = line.split(" at ").last().unwrap().trim().to_owned();
    assert!(parts(&address).0.starts_with("127.0.0.1:"));
    let Some(mut tab) = Tab::visit(&address) else {
        running.signal();
        running.end();
        return;
    };
    assert_values_and_charts_move(&mut tab);
    assert_keys_reach_help_charts_and_statements(&mut tab);
    assert_pause_holds_the_statements(&mut tab);
    assert_stop_can_be_declined(&mut tab);
    assert_readable_in_every_size_and_scheme(&mut tab);

    stop_by_button(&mut tab);
    let (code, said) = running.end();
    assert_eq!(code, Some(1), "{said:#?}");
    assert_stopped_page_is_of_use(&mut tab);
    assert_waits_are_drawn_by_name(&mut tab);
    assert_requests_go_to_the_program_only(&mut tab, &address);
    tab.assert_clean();
}

fn assert_values_and_charts_move(tab: &mut Tab) {
    wait(tab, "document.querySelectorAll('#top tbody tr').length > 1");
    assert!(
        tab.text("#state").contains("running"),
        "{}",
        tab.text("#state")
    );
    let line = "document.querySelector('.plot path.line').getAttribute('d')";
    let (before, drawn) = (tab.number("state.now.done"), tab.eval(line));
    wait(
        tab,
        &format!("state.now.done > {before} && {line} !== {drawn}"),
    );
    let width = "parseFloat(document.querySelector('#position i').style.width)";
    assert!(tab.is(&format!("{width} > 0")));
    assert!(
        tab.text("#charts")
            .contains("Not observed: this replay does not")
    );
    assert!(tab.is("document.title.includes('%')"));
}

/// Opens the help and closes it, reads a value of a chart, and chooses a range, by keys alone.
fn assert_keys_reach_help_charts_and_statements(tab: &mut Tab) {
    tab.press("?");
    assert!(tab.is("document.getElementById('help').open"));
    tab.assert_readable();
    tab.press("Escape");
    wait(tab, "!document.getElementById('help').open");
    tab.press("c");
    assert_eq!(tab.eval(FOCUS), "plot");
    tab.press("ArrowLeft");
    let read = tab.text(".reading");
    assert!(
        read.starts_with("At ")
            && read.contains(" since the start: ")
            && read.contains("answered "),
        "{read}"
    );
    assert_eq!(
        tab.eval("document.querySelector('.reading').ariaLive"),
        "polite"
    );
    tab.press("Escape");
    tab.press("t");
    assert_eq!(tab.eval(FOCUS), "statements");
    tab.press("3");
    assert_eq!(tab.eval(RANGE), "last minute");
}

/// Pauses the page, not the replay, and resumes it.
fn assert_pause_holds_the_statements(tab: &mut Tab) {
    tab.press("p");
    let held = tab.text("#top");
    let before = tab.number("state.now.done");
    wait(tab, &format!("state.now.done > {before} + 20"));
    assert_eq!(tab.text("#top"), held);
    tab.press("p");
    wait(
        tab,
        &format!(
            "document.getElementById('top').innerText !== {}",
            json!(held)
        ),
    );
    // The live region announces the state once: running.
    assert_eq!(tab.text("#said"), "running");
}

fn assert_stop_can_be_declined(tab: &mut Tab) {
    tab.press("s");
    assert!(tab.is("document.getElementById('stopping').open"));
    assert_eq!(tab.eval(FOCUS), "stop-not");
    tab.press("Enter");
    wait(tab, "!document.getElementById('stopping').open");
}

fn assert_readable_in_every_size_and_scheme(tab: &mut Tab) {
    for (name, width, scheme) in [
        ("light", 1_280, "light"),
        ("dark", 1_280, "dark"),
        ("narrow", 390, "light"),
    ] {
        tab.size(width, 900);
        tab.colours(scheme);
        tab.assert_no_sideways_scrolling();
        tab.assert_readable();
        tab.picture(&format!("live-{name}"), true);
    }
    tab.without_motion();
    let moves = "getComputedStyle(document.querySelector('#position i')).transitionDuration";
    assert_eq!(tab.eval(moves), "0s");
}

fn stop_by_button(tab: &mut Tab) {
    tab.size(1_280, 900);
    tab.click("#stop");
    tab.click("#stop-now");
    wait(tab, "state.over");
}

/// Checks that the page stays after the end, reports the stop, and answers to keys.
fn assert_stopped_page_is_of_use(tab: &mut Tab) {
    wait(
        tab,
        "document.getElementById('state').dataset.state === 'stopped'",
    );
    assert!(tab.text("#note").contains("has what was done until then"));
    assert!(tab.is("document.getElementById('stop').disabled"));
    assert!(tab.text("#said").starts_with("stopped before its end"));
    tab.press("1");
    assert_eq!(tab.eval(RANGE), "from the start");
    tab.press("c");
    tab.press("ArrowLeft");
    assert!(tab.text(".reading").contains("answered "));
    assert!(tab.is("document.querySelectorAll('#top tbody tr').length > 1"));
}

/// Checks that waits of the target are stacked in one chart, by name. The waits are made up here.
fn assert_waits_are_drawn_by_name(tab: &mut Tab) {
    tab.eval(
        "state.points.forEach((point, at) => { point.waits = [['Lock transactionid', 1 + at % 3], ['IO DataFileRead', 0.5]]; });
        state.now.waits = {why_not: null, source: 'made up', lately: []}; draw(); 1",
    );
    let areas = "[...document.querySelectorAll('#charts figure')].find((one) => one.innerText.includes('Lock transactionid'))?.querySelectorAll('path.area').length";
    wait(tab, &format!("{areas} === 2"));
    let shown = tab.text("#charts");
    assert!(
        shown.contains("made up") && shown.contains("does not profile"),
        "{shown}"
    );
    tab.picture("live-over", true);
}

fn assert_requests_go_to_the_program_only(tab: &mut Tab, address: &str) {
    let requests: Vec<String> = tab.requests();
    assert!(
        requests
            .iter()
            .all(|url| url.starts_with(address) || url == "about:blank"),
        "{requests:?}"
    );
}
