//! Sandboxes that outlive a process, and those that must not.

mod support;

use sandbox::{Dirs, Error, Options, Sandbox};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{ask, connect, eventually, is_alive, other_process, places, server};

struct Victim {
    process: Child,
    server: i32,
    watchdog: i32,
    root: PathBuf,
}

/// Another process with a running sandbox, in a process group of its own.
fn victim(top: &Path) -> Victim {
    let mut another = other_process("hold", top);
    another.stdout(Stdio::null()).process_group(0);
    // Who is begun in a shell's background inherits that Ctrl-C is ignored.
    // SAFETY: signal is async-signal-safe, and the default handler touches no memory of ours.
    unsafe {
        another.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let process = another.spawn().unwrap();
    eventually("the other process has started its sandbox", || {
        top.join("server").exists()
    });
    let said = std::fs::read_to_string(top.join("server")).unwrap();
    let (server, root) = said.split_once('\n').unwrap();
    let marker = std::fs::read_to_string(Path::new(root).join("sandbox.json")).unwrap();
    let marker: serde_json::Value = serde_json::from_str(&marker).unwrap();
    let victim = Victim {
        process,
        server: server.parse().unwrap(),
        watchdog: marker["watchdog"].as_i64().unwrap() as i32,
        root: root.into(),
    };
    assert!(is_alive(victim.server) && is_alive(victim.watchdog));
    victim
}

fn signal(target: i32, signal: i32) {
    // SAFETY: no memory is involved; the targets are processes of this test.
    assert_eq!(unsafe { libc::kill(target, signal) }, 0);
}

#[test]
fn the_watchdog_cleans_up_after_a_kill() {
    let (top, places) = places();
    let mut victim = victim(top.path());
    assert_eq!(
        sandbox::reap(&places),
        [""; 0].map(PathBuf::from),
        "its owner lives"
    );
    assert!(is_alive(victim.server));
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
    eventually("the server has stopped", || !is_alive(victim.server));
    eventually("the directory is gone", || !victim.root.exists());
    eventually("the watchdog is gone", || !is_alive(victim.watchdog));
}

#[test]
fn the_watchdog_cleans_up_after_control_c() {
    let (top, _) = places();
    let mut victim = victim(top.path());
    // As a terminal does: to the whole group.
    signal(-(victim.process.id() as i32), libc::SIGINT);
    victim.process.wait().unwrap();
    eventually("the server has stopped", || !is_alive(victim.server));
    eventually("the directory is gone", || !victim.root.exists());
}

#[test]
fn the_next_process_cleans_up_if_the_watchdog_is_dead_too() {
    let (top, places) = places();
    let mut victim = victim(top.path());
    signal(victim.watchdog, libc::SIGKILL);
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
    assert!(is_alive(victim.server), "nobody was left to stop it");
    assert_eq!(sandbox::reap(&places), [victim.root.as_path()]);
    assert!(!is_alive(victim.server));
    assert!(!victim.root.exists());
}

#[test]
fn bystanders_are_left_alone() {
    let (_top, places) = places();
    let sandboxes = places.state.join("sandboxes");
    // Not ours: no marker.
    let foreign = sandboxes.join("foreign");
    std::fs::create_dir_all(&foreign).unwrap();
    std::fs::write(foreign.join("precious"), "x").unwrap();
    // Ours and abandoned, with a process number that is somebody else's by now.
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    sandbox.start().unwrap();
    let abandoned = sandboxes.join("abandoned");
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    std::fs::create_dir_all(abandoned.join("data")).unwrap();
    std::fs::copy(
        sandbox.root().join("sandbox.json"),
        abandoned.join("sandbox.json"),
    )
    .unwrap();
    let data = abandoned.join("data").canonicalize().unwrap();
    for pid in [bystander.id() as i32, sandbox.pid().unwrap()] {
        let text = format!("{pid}\n{}\n0\n0\n\n\n\nready\n", data.display());
        std::fs::create_dir_all(&data).unwrap();
        std::fs::copy(
            sandbox.root().join("sandbox.json"),
            abandoned.join("sandbox.json"),
        )
        .unwrap();
        std::fs::write(data.join("postmaster.pid"), text).unwrap();
        assert_eq!(sandbox::reap(&places), [abandoned.as_path()]);
        assert!(!abandoned.exists());
    }
    let alive = is_alive(bystander.id() as i32);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(alive);
    assert!(foreign.join("precious").exists());
    connect(&sandbox.endpoint().url("postgres"));
}

/// Takes down what a failed test would leave running.
struct TakenDown<'a>(&'a Dirs);

impl Drop for TakenDown<'_> {
    fn drop(&mut self) {
        for named in sandbox::list(self.0) {
            let _ = sandbox::down(&named.name, self.0);
        }
    }
}

#[test]
fn a_named_one_outlives_its_process_until_it_is_taken_down() {
    let (top, places) = places();
    let _end = TakenDown(&places);
    assert!(sandbox::list(&places).is_empty());
    let status = other_process("up", top.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());

    assert!(sandbox::reap(&places).is_empty());
    let [named] = sandbox::list(&places).try_into().unwrap();
    assert_eq!((named.name.as_str(), named.major), ("steady", 17));
    assert!(named.is_running());
    let url = named.endpoint.url("postgres");
    assert_eq!(ask(&mut connect(&url), "show work_mem"), "7MB");

    let error = sandbox::up("steady", &server(17), Options::default(), &places).unwrap_err();
    assert!(
        error.to_string().contains(&named.endpoint.port.to_string()),
        "{error}"
    );
    let error = sandbox::down("other", &places).unwrap_err();
    assert!(error.to_string().contains("steady"), "{error}");
    let error = sandbox::up("../x", &server(17), Options::default(), &places).unwrap_err();
    assert!(matches!(error, Error::Name { .. }), "{error}");

    // It can be worked on, by one process at a time.
    let mut held = sandbox::open("steady", &places).unwrap();
    assert!(matches!(
        sandbox::down("steady", &places),
        Err(Error::Busy { .. })
    ));
    assert_eq!(held.pid(), named.pid);
    connect(&url).batch_execute("create table t ()").unwrap();
    held.snapshot("one").unwrap();
    connect(&held.endpoint().url("postgres"))
        .batch_execute("drop table t")
        .unwrap();
    held.restore("one").unwrap();
    connect(&held.endpoint().url("postgres"))
        .batch_execute("drop table t")
        .unwrap();
    drop(held);

    let [named] = sandbox::list(&places).try_into().unwrap();
    let pid = named.pid.expect("letting go of it leaves it running");
    sandbox::down("steady", &places).unwrap();
    assert!(!is_alive(pid));
    assert!(!named.root.exists());
    assert!(sandbox::list(&places).is_empty());
}

#[test]
fn a_private_one_can_be_kept() {
    let (_top, places) = places();
    let _end = TakenDown(&places);
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    sandbox.start().unwrap();
    let named = sandbox.keep("kept", &places).unwrap();
    connect(&named.endpoint.url("postgres"));
    assert!(sandbox::reap(&places).is_empty());
    sandbox::down("kept", &places).unwrap();
    assert!(!named.root.exists());
}
