//! Tests of the live page by HTTP and in a browser.

#[allow(dead_code)]
#[path = "../../../report/tests/pages/chromium.rs"]
mod chromium;
mod in_browser;
#[allow(dead_code)]
#[path = "../../../report/tests/pages/tab.rs"]
mod tab;

use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;

use crate::{PATIENCE, Running, rehearse, workload};
use test_support::server;

/// Request for the page or for one of its resources.
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    host: &'a str,
    more: &'a str,
}

/// Splits `http://ADDRESS/KEY/` in two.
pub fn parts(url: &str) -> (String, String) {
    let rest = url.trim().strip_prefix("http://").unwrap();
    let (address, key) = rest.split_once('/').unwrap();
    (address.to_owned(), format!("/{key}"))
}

fn send(address: &str, asked: &Asked<'_>) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Asked {
        method,
        path,
        host,
        more,
    } = asked;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n{more}\r\n"
    )
    .unwrap();
    stream
}

/// Returns status, headers and body.
fn ask(address: &str, asked: &Asked<'_>) -> (u16, String, String) {
    let mut answer = String::new();
    send(address, asked).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

fn get(address: &str, path: &str) -> (u16, String, String) {
    let asked = Asked {
        method: "GET",
        path,
        host: address,
        more: "",
    };
    ask(address, &asked)
}

/// Returns the data that the page embeds for its script.
fn page_data(address: &str, path: &str) -> Value {
    let (status, _, body) = get(address, path);
    assert_eq!(status, 200, "{body}");
    let from = body.split("id=\"data-page\">").nth(1).unwrap();
    serde_json::from_str(from.split("</script>").next().unwrap()).unwrap()
}

/// Viewer that reads events one by one.
struct Viewer {
    lines: BufReader<TcpStream>,
}

impl Viewer {
    fn come(address: &str, path: &str) -> Self {
        let path = format!("{path}events");
        let asked = Asked {
            method: "GET",
            path: &path,
            host: address,
            more: "",
        };
        let mut lines = BufReader::new(send(address, &asked));
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0);
            let is_status = line.starts_with("HTTP/1.1");
            assert!(!is_status || line.contains(" 200 "), "{line}");
        }
        Viewer { lines }
    }

    /// Returns the next event's name and data.
    fn next(&mut self) -> (String, Value) {
        let (mut name, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "the stream broke off");
            if let Some(text) = line.strip_prefix("event: ") {
                name = text.trim().to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(text).unwrap());
            }
        }
    }

    /// Reads to the end. Returns the points as a page has them, and the last state.
    fn follow(&mut self) -> (Vec<Value>, Value) {
        let (mut points, mut now) = (Vec::new(), Value::Null);
        loop {
            let (name, mut data) = self.next();
            match name.as_str() {
                "whole" => {
                    assert_eq!(data["schema"], "rehearse/live/1");
                    points.clear();
                }
                "step" => points.truncate(data["from"].as_u64().unwrap() as usize),
                "end" => return (points, now),
                other => panic!("an event {other}"),
            }
            points.extend(data["points"].as_array().unwrap().iter().cloned());
            now = data["now"].take();
        }
    }
}

/// Checks that as many viewers as allowed get each event, and that a further one is refused.
pub fn assert_many_viewers_are_served(address: &str, path: &str) {
    let mut viewers: Vec<Viewer> = (0..16).map(|_| Viewer::come(address, path)).collect();
    let events = format!("{path}events");
    assert_eq!(get(address, &events).0, 503);
    for _ in 0..3 {
        for viewer in &mut viewers {
            assert!(viewer.next().1["now"]["done"].is_u64());
        }
    }
    assert_eq!(get(address, path).0, 200);
}

fn manifest(run: &str) -> Value {
    let manifest = std::fs::read(Path::new(run).join("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["body"].take()
}

/// Checks that the last event equals the run's manifest.
#[track_caller]
fn assert_is_of_the_run(now: &Value, run: &str) {
    let body = manifest(run);
    let sum = |counts: &Value| -> u64 {
        let counts = counts.as_object().unwrap().values();
        counts.map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!(now["done"], body["done"]);
    assert_eq!(now["failed"].as_u64(), Some(sum(&body["failed"])));
    assert_eq!(now["skipped"].as_u64(), Some(sum(&body["skipped"])));
    for error in now["errors"].as_array().unwrap() {
        let code = error["sqlstate"].as_str().unwrap();
        assert_eq!(error["count"], body["failed"][code], "{code}");
    }
    let calls = |one: &Value| one["calls"].as_u64().unwrap();
    let mut shown: u64 = now["top"].as_array().unwrap().iter().map(calls).sum();
    if !now["others"].is_null() {
        shown += calls(&now["others"]);
    }
    let answered = now["done"].as_u64().unwrap() + now["failed"].as_u64().unwrap();
    assert_eq!(shown, answered);
}

/// Live page of a running replay.
struct Page {
    address: String,
    path: String,
}

impl Page {
    /// Waits until a replay reports the page.
    fn of(running: &mut Running) -> Self {
        let line = running.until("can be watched at http://");
        let (address, path) = parts(line.split(" at ").last().unwrap());
        Page { address, path }
    }

    fn viewer(&self) -> Viewer {
        Viewer::come(&self.address, &self.path)
    }

    /// Opens a stream of events and reads nothing of it.
    fn viewer_that_reads_nothing(&self) -> TcpStream {
        let asked = Asked {
            method: "GET",
            path: &format!("{}events", self.path),
            host: &self.address,
            more: "",
        };
        send(&self.address, &asked)
    }

    /// Returns the secret that a request to stop has to carry.
    fn secret(&self) -> String {
        page_data(&self.address, &self.path)["secret"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Stops the replay, as the page's own script does. Returns the status.
    fn stop(&self) -> u16 {
        let Page { address, path } = self;
        let secret = self.secret();
        let own = format!("Origin: http://{address}\r\nX-Rehearse-Secret: {secret}\r\n");
        let asked = Asked {
            method: "POST",
            path: &format!("{path}stop"),
            host: address,
            more: &own,
        };
        ask(address, &asked).0
    }
}

#[test]
fn viewers_see_the_replay_and_its_end_and_nobody_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = server().start();
    let workload = workload(directory.path(), 60);
    let run = directory.path().join("a.run").display().to_string();
    let url = endpoint.url("postgres");
    let mut running = Running::start(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--ui",
        "--ui-linger",
        "50s",
        "--observe",
    ]);
    let page = Page::of(&mut running);
    assert!(page.address.starts_with("127.0.0.1:"), "{}", page.address);
    assert_eq!(page.path.len(), 34, "{}", page.path);

    let mut first = page.viewer();
    let _deaf = page.viewer_that_reads_nothing();
    assert_page_is_private(&page);
    assert_page_is_found_without_its_last_slash(&page);
    assert_strangers_are_refused(&page);
    assert_stops_from_elsewhere_are_refused(&page);
    assert_page_is_served_at_the_end_of_a_tunnel(&page);

    let points_before = watch_until_running(&mut first);
    // One that comes later is given what was.
    let mut second = page.viewer();
    let (points, now) = second.follow();
    assert!(
        points.len() as u64 > points_before,
        "{points_before} of {}",
        points.len()
    );
    let (_, of_first) = first.follow();
    assert_eq!(now, of_first);
    // The last state is sent when the run is complete.
    assert_is_of_the_run(&now, &run);
    assert_end_is_complete(&now);
    assert_points_add_up(&points);
    assert_statements_are_shown_without_values(&now);

    // And after the end, for as long as it was asked for.
    let mut late = page.viewer();
    assert_eq!(late.follow(), (points, now));
    running.signal();
    let (code, said) = running.end();
    assert_eq!(code, Some(0), "{said:#?}");
    assert!(TcpStream::connect(&page.address).is_err());
}

/// Checks that no other site can embed, keep or read the page, and that it loads nothing from elsewhere.
fn assert_page_is_private(page: &Page) {
    let (status, head, body) = get(&page.address, &page.path);
    assert_eq!(status, 200);
    for header in [
        "Content-Security-Policy: default-src 'none'",
        "frame-ancestors 'none'",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
    ] {
        assert!(head.contains(header), "no '{header}': {head}");
    }
    assert!(!head.contains("Access-Control"), "{head}");
    assert!(
        !body.contains("http://") && body.contains("<h1>"),
        "a page names no address"
    );
}

fn assert_page_is_found_without_its_last_slash(page: &Page) {
    let bare = get(&page.address, page.path.trim_end_matches('/'));
    assert!(
        bare.0 == 308 && bare.1.contains(&format!("Location: {}", page.path)),
        "{bare:?}"
    );
}

/// Sends a request that is refused. Returns the status.
fn refused(page: &Page, method: &str, path: &str, host: &str, more: &str) -> u16 {
    let asked = Asked {
        method,
        path,
        host,
        more,
    };
    let (status, head, body) = ask(&page.address, &asked);
    assert!(!body.contains("data-page") && !head.contains("Access-Control"));
    status
}

/// Checks requests with another key, another name of the host, or another method.
fn assert_strangers_are_refused(page: &Page) {
    let Page { address, path } = page;
    let other_key = format!("/{}/", "0".repeat(32));
    let unknown = format!("{path}more");
    let events = format!("{path}events");
    let rebound = format!("attacker.example:{}", address.rsplit(':').next().unwrap());
    for (method, path, host, status) in [
        ("GET", "/", address.as_str(), 404),
        ("GET", &other_key, address, 404),
        ("GET", &unknown, address, 404),
        ("GET", path, "attacker.example", 403),
        ("GET", &events, &rebound, 403),
        ("POST", path, address, 405),
    ] {
        assert_eq!(
            refused(page, method, path, host, ""),
            status,
            "{method} {path} of {host}"
        );
    }
}

/// Checks stops by GET, without the secret, with another one, and from another origin.
fn assert_stops_from_elsewhere_are_refused(page: &Page) {
    let stop = format!("{}stop", page.path);
    let secret = page.secret();
    let foreign = format!("Origin: http://attacker.example\r\nX-Rehearse-Secret: {secret}\r\n");
    for (method, headers, status) in [
        ("GET", "", 405),
        ("POST", "", 403),
        ("POST", "X-Rehearse-Secret: 00\r\n", 403),
        ("POST", &foreign, 403),
    ] {
        assert_eq!(
            refused(page, method, &stop, &page.address, headers),
            status,
            "{method} {headers}"
        );
    }
}

/// Checks that the page is the same at another port, the end of a tunnel.
fn assert_page_is_served_at_the_end_of_a_tunnel(page: &Page) {
    let by_tunnel = Asked {
        method: "GET",
        path: &page.path,
        host: "localhost:4711",
        more: "",
    };
    assert_eq!(ask(&page.address, &by_tunnel).0, 200);
}

/// Reads events until more than 100 statements are done. Returns the number of points before the last event.
fn watch_until_running(viewer: &mut Viewer) -> u64 {
    loop {
        let (name, data) = viewer.next();
        let now = &data["now"];
        if name == "step" && now["done"].as_u64() > Some(100) {
            assert!(
                now["sessions_open"] == 6 && now["state"] == "running",
                "{now}"
            );
            assert!(now["left_us"].as_f64() > Some(0.0) && now["position"].as_f64() < Some(1.0));
            return data["from"].as_u64().unwrap();
        }
    }
}

/// Checks the last state: done, with response times, waits and failures.
fn assert_end_is_complete(now: &Value) {
    assert_eq!(
        (&now["state"], &now["position"]),
        (&"done".into(), &1.0.into())
    );
    assert!(now["whole"]["response"].is_object());
    let waits = &now["waits"];
    assert!(waits["why_not"].is_null(), "{waits}");
    assert!(
        waits["source"]
            .as_str()
            .unwrap()
            .contains("samples a second"),
        "{waits}"
    );
    assert_eq!(now["failed"], 36);
}

/// Checks that the rates of all points, each over its time, are the 360 answers.
fn assert_points_add_up(points: &[Value]) {
    let answered: f64 = points
        .iter()
        .scan(0.0, |before, point| {
            let at = point["at_s"].as_f64().unwrap();
            let seconds = at - std::mem::replace(before, at);
            Some(point["answered_per_s"].as_f64().unwrap() * seconds)
        })
        .sum();
    assert!((answered - 360.0).abs() < 0.01, "{answered}");
}

fn assert_statements_are_shown_without_values(now: &Value) {
    let texts: Vec<&str> = now["top"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["sql"].as_str())
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("generate_series($")),
        "{texts:?}"
    );
    assert!(texts.iter().all(|text| !text.contains("1, 3")), "{texts:?}");
}

#[test]
fn a_stop_and_ctrl_c_end_it_while_viewers_hang() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = server().start();
    let workload = workload(directory.path(), 1_000);
    let url = endpoint.url("postgres");
    for by_page in [true, false] {
        let run = directory.path().join(format!("{by_page}.run"));
        let run = run.display().to_string();
        let mut running = Running::start(&[
            "replay",
            &workload,
            "--target",
            &url,
            "-o",
            &run,
            "--ui=127.0.0.1:0",
        ]);
        let page = Page::of(&mut running);
        let hanging: Vec<TcpStream> = (0..3).map(|_| page.viewer_that_reads_nothing()).collect();
        let mut viewer = page.viewer();
        while viewer.next().1["now"]["done"].as_u64() < Some(10) {}
        if by_page {
            assert_eq!(page.stop(), 202);
        } else {
            running.signal();
        }
        let (_, now) = viewer.follow();
        let (code, said) = running.end();
        assert_eq!(code, Some(1), "{said:#?}");
        assert_eq!(now["state"], "stopped");
        assert_is_of_the_run(&now, &run);
        assert_eq!(manifest(&run)["status"], "stopped");
        assert!(now["skipped"].as_u64() > Some(0));
        let how = match by_page {
            true => "as asked on the live page",
            false => "once more to stop at once",
        };
        assert!(said.iter().any(|line| line.contains(how)), "{said:#?}");
        drop(hanging);
    }
}

#[test]
fn a_page_that_cannot_be_served_ends_the_command_before_anything_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), 1);
    let run = directory.path().join("a.run").display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let url = "postgres://postgres@127.0.0.1:1/postgres";
    let replay = ["replay", &workload, "--target", url, "-o", &run];
    let said = |more: &[&str], code: i32| {
        let output = rehearse(&[&replay[..], more].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let busy = said(&[&format!("--ui={address}")], 3);
    assert!(
        busy.contains(&format!("cannot serve the live page at {address}")),
        "{busy}"
    );
    assert!(busy.contains("give another --ui=ADDRESS"), "{busy}");
    let wrong = said(&["--ui=somewhere"], 2);
    assert!(wrong.contains("give a port such as 9187"), "{wrong}");
    said(&["--ui-linger", "5s"], 2);
    assert!(!Path::new(&run).exists());
}
