//! A replay, a proof and a sweep refuse the server that the workload was captured on, by whatever way the target
//! names it.

use std::path::Path;
use std::process::{Command, Output};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox};
use test_support::CaptureProxy;

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

fn proxy(upstream: &Endpoint, output: &str) -> CaptureProxy {
    CaptureProxy::start(
        env!("CARGO_BIN_EXE_rehearse"),
        upstream,
        Path::new(output),
        &[],
    )
}

/// Captures a few statements through a proxy, which still runs.
fn proxied(upstream: &Endpoint, output: &str) -> CaptureProxy {
    let proxy = proxy(upstream, output);
    let mut client = Client::connect(&proxy.endpoint.url("postgres"), NoTls).unwrap();
    client.batch_execute("SELECT 1; SELECT 2").unwrap();
    client.batch_execute("CREATE TABLE written ()").unwrap();
    client.batch_execute("DROP TABLE written").unwrap();
    proxy
}

/// Returns URLs of all ways to a server: by address, by name, by its socket, and by a proxy as a role with no rights.
fn ways(server: &Endpoint, proxy: &CaptureProxy) -> Vec<String> {
    let role = Endpoint {
        user: "nobody_special".to_owned(),
        ..proxy.endpoint.clone()
    };
    let by_name = server.url("postgres").replace("127.0.0.1", "localhost");
    vec![
        server.url("postgres"),
        by_name,
        server.socket_url("postgres").unwrap(),
        proxy.endpoint.url("postgres"),
        role.url("postgres"),
    ]
}

fn server() -> (Sandbox, Endpoint) {
    let (sandbox, endpoint) = test_support::server().password("captured").start();
    test_support::connect(&endpoint)
        .batch_execute("CREATE ROLE nobody_special LOGIN PASSWORD 'captured'")
        .unwrap();
    (sandbox, endpoint)
}

#[track_caller]
fn assert_refused(output: &Output, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {said}");
    assert!(
        said.contains("is the server that the workload was captured on"),
        "{what}: {said}"
    );
    assert!(
        said.contains("--allow-captured-server") && !said.contains(":captured@"),
        "{what}: {said}"
    );
}

#[test]
fn server_captured_by_proxy_is_refused_by_every_way_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = server();
    let workload = path("w.workload");
    proxied(&endpoint, &workload).interrupt();
    let other_proxy = proxy(&endpoint, &path("other.workload"));

    let run = path("a.run");
    for url in ways(&endpoint, &other_proxy) {
        let replay = ["replay", &workload, "--target", &url, "-o", &run];
        assert_refused(&rehearse(&replay), &url);
    }
    let url = endpoint.url("postgres");
    let target = ["--target", &url];
    let proof = path("a.proof");
    let change = ["--set", "work_mem=9MB", "--no-restore", "-o", &proof];
    let prove = [&["prove", &workload][..], &target, &change].concat();
    assert_refused(&rehearse(&prove), "prove");
    let sweep = path("a.sweep");
    let levels = ["--clients", "1,2", "--no-restore", "-o", &sweep];
    let sweep = [&["sweep", &workload][..], &target, &levels].concat();
    assert_refused(&rehearse(&sweep), "sweep");
    assert!(!Path::new(&run).exists() && !Path::new(&proof).exists());

    // What only reads is warned of, and done.
    let reading = [
        &["replay", &workload][..],
        &target,
        &["--read-only", "-o", &run],
    ]
    .concat();
    let output = rehearse(&reading);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Warning: the target"), "{said}");

    // A copy of it is not the captured server, though it has the same system identifier.
    let (_copy, copy) = server();
    let url = copy.url("postgres");
    let output = rehearse(&["replay", &workload, "--target", &url, "--dry-run"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn server_of_killed_proxy_is_refused_after_recovery() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = server();
    let workload = path("w.workload");
    let proxy = proxied(&endpoint, &workload);
    // Events are written once a second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    // Its own address leads to the server as well, if another proxy listens there.
    let own_port = proxy.endpoint.port;
    drop(proxy);
    let partial = path("w.workload.partial");
    let output = rehearse(&["recover", &partial]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let url = endpoint.url("postgres");
    let replay = ["replay", &workload, "--target", &url, "--dry-run"];
    assert_refused(&rehearse(&replay), "recovered");
    let reader = workload::WorkloadReader::open(Path::new(&workload)).unwrap();
    let servers = &reader.info().provenance.servers;
    assert!(
        servers.iter().any(|server| server.port == own_port),
        "{servers:?}"
    );
}

#[test]
fn masked_and_sliced_workloads_are_still_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = server();
    let workload = path("w.workload");
    proxied(&endpoint, &workload).interrupt();
    let (masked, sliced) = (path("masked.workload"), path("sliced.workload"));
    let key = ["--mask", "random"];
    let mask = [&["mask", "workload", &workload, "-o", &masked][..], &key].concat();
    let slice = ["slice", &masked, "--to", "+1h", "-o", &sliced];
    for arguments in [&mask[..], &slice] {
        let output = rehearse(arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let url = endpoint.url("postgres");
    let replay = ["replay", &sliced, "--target", &url, "--dry-run"];
    assert_refused(&rehearse(&replay), "sliced");
}

#[test]
fn captured_sandbox_is_refused_as_a_side_that_is_not_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (made, endpoint) = test_support::server().start();
    let workload = path("w.workload");
    proxied(&endpoint, &workload).interrupt();
    let places = sandbox::Dirs::from_environment().unwrap();
    let name = format!("captured-side-{}", std::process::id());
    made.keep(&name, &places).unwrap();
    let side = format!("sandbox:{name}");
    let output = path("pairs");
    // The other side is not looked at.
    let other = "postgres://postgres@127.0.0.1:1/postgres";
    let pairs = [
        "replay",
        &workload,
        "--against",
        &side,
        "--against",
        other,
        "--no-restore",
        "--runs",
        "1",
        "-o",
        &output,
    ];
    let replayed = rehearse(&pairs);
    sandbox::down(&name, &places).unwrap();
    assert_refused(&replayed, &side);
}
