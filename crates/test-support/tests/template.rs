//! Template clusters: shared by tests and processes, complete or absent.
#![cfg(feature = "server")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use sandbox::Dirs;
use test_support::{connect, server};

/// Places that only one test uses.
fn places(top: &Path) -> Dirs {
    fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
    Dirs {
        cache: top.join("cache"),
        state: top.join("state"),
    }
}

fn templates(places: &Dirs) -> usize {
    fs::read_dir(places.state.join("templates")).map_or(0, Iterator::count)
}

#[test]
fn servers_of_one_template_are_independent() {
    let top = tempfile::tempdir_in("/tmp").unwrap();
    let places = places(top.path());
    let start = || server().places(places.clone()).start();
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(start);
        (start(), first.join().unwrap())
    });
    assert_eq!(templates(&places), 1);
    let create = "CREATE TABLE one (); ALTER SYSTEM SET work_mem = '9MB'";
    for statement in create.split("; ") {
        connect(&first.1).batch_execute(statement).unwrap();
    }
    connect(&second.1)
        .batch_execute(create.split(';').next().unwrap())
        .unwrap();
    let third = start();
    connect(&third.1)
        .batch_execute("CREATE TABLE one ()")
        .unwrap();
    assert_eq!(templates(&places), 1);
}

#[test]
fn server_with_a_password_refuses_others() {
    let (_sandbox, mut endpoint) = server().password("of template").start();
    connect(&endpoint);
    endpoint.password = Some("other".to_owned());
    let refused = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls);
    assert!(refused.is_err());
}

/// Variable with the directory in which a child process of a test creates a server.
const CHILD: &str = "TEMPLATE_TEST_CHILD";

#[test]
fn killed_process_leaves_no_partial_template() {
    if let Some(top) = std::env::var_os(CHILD) {
        drop(server().places(places(Path::new(&top))).create());
        return;
    }
    let top = tempfile::tempdir_in("/tmp").unwrap();
    let places = places(top.path());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_process_leaves_no_partial_template"])
        .env(CHILD, top.path())
        .spawn()
        .unwrap();
    let has_begun = || {
        let sandboxes = fs::read_dir(places.state.join("sandboxes"));
        let mut data = sandboxes.into_iter().flatten().flatten();
        data.any(|sandbox| sandbox.path().join("data/base").exists())
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    while !has_begun() {
        assert!(Instant::now() < deadline, "initdb has not begun");
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(templates(&places), 0);
    let (_sandbox, endpoint) = server().places(places.clone()).start();
    connect(&endpoint);
    assert_eq!(templates(&places), 1);
}
