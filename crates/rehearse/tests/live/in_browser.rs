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
    wait(
        &mut tab,
        "document.querySelectorAll('#top tbody tr').length > 1",
    );
    assert!(
        tab.text("#state").contains("running"),
        "{}",
        tab.text("#state")
    );

    // Values move, and so do charts.
    let line = "document.querySelector('.plot path.line').getAttribute('d')";
    let (before, drawn) = (tab.number("state.now.done"), tab.eval(line));
    wait(
        &mut tab,
        &format!("state.now.done > {before} && {line} !== {drawn}"),
    );
    let width = "parseFloat(document.querySelector('#position i').style.width)";
    assert!(tab.is(&format!("{width} > 0")));
    assert!(
        tab.text("#charts")
            .contains("Not observed: this replay does not")
    );
    assert!(tab.is("document.title.includes('%')"));

    // By keys alone: help and back, the charts, a value, the statements, the range, the pause.
    let focus = "document.activeElement.id || document.activeElement.className";
    tab.press("?");
    assert!(tab.is("document.getElementById('help').open"));
    tab.assert_readable();
    tab.press("Escape");
    wait(&mut tab, "!document.getElementById('help').open");
    tab.press("c");
    assert_eq!(tab.eval(focus), "plot");
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
    assert_eq!(tab.eval(focus), "statements");
    tab.press("3");
    let pressed = "document.querySelector('[data-range][aria-pressed=true]').innerText";
    assert_eq!(tab.eval(pressed), "last minute");
    tab.press("p");
    let held = tab.text("#top");
    let before = tab.number("state.now.done");
    wait(&mut tab, &format!("state.now.done > {before} + 20"));
    assert_eq!(tab.text("#top"), held);
    tab.press("p");
    wait(
        &mut tab,
        &format!(
            "document.getElementById('top').innerText !== {}",
            json!(held)
        ),
    );
    // The live region announces the state once: running.
    assert_eq!(tab.text("#said"), "running");
    tab.press("s");
    assert!(tab.is("document.getElementById('stopping').open"));
    assert_eq!(tab.eval(focus), "stop-not");
    tab.press("Enter");
    wait(&mut tab, "!document.getElementById('stopping').open");

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

    // The end, by the button; the page stays.
    tab.size(1_280, 900);
    tab.click("#stop");
    tab.click("#stop-now");
    wait(&mut tab, "state.over");
    let (code, said) = running.end();
    assert_eq!(code, Some(1), "{said:#?}");
    wait(
        &mut tab,
        "document.getElementById('state').dataset.state === 'stopped'",
    );
    assert!(tab.text("#note").contains("has what was done until then"));
    assert!(tab.is("document.getElementById('stop').disabled"));
    assert!(tab.text("#said").starts_with("stopped before its end"));
    tab.press("1");
    assert_eq!(tab.eval(pressed), "from the start");
    tab.press("c");
    tab.press("ArrowLeft");
    assert!(tab.text(".reading").contains("answered "));
    assert!(tab.is("document.querySelectorAll('#top tbody tr').length > 1"));

    // What is observed of the target is drawn on each other, by name: here something made up.
    tab.eval(
        "state.points.forEach((point, at) => { point.waits = [['Lock transactionid', 1 + at % 3], ['IO DataFileRead', 0.5]]; });
        state.now.waits = {why_not: null, source: 'made up', lately: []}; draw(); 1",
    );
    let areas = "[...document.querySelectorAll('#charts figure')].find((one) => one.innerText.includes('Lock transactionid'))?.querySelectorAll('path.area').length";
    wait(&mut tab, &format!("{areas} === 2"));
    let shown = tab.text("#charts");
    assert!(
        shown.contains("made up") && shown.contains("does not profile"),
        "{shown}"
    );
    tab.picture("live-over", true);

    // No request left the page but those to the program.
    let elsewhere: Vec<String> = tab.requests();
    assert!(
        elsewhere
            .iter()
            .all(|url| url.starts_with(&address) || url == "about:blank"),
        "{elsewhere:?}"
    );
    tab.assert_clean();
}
