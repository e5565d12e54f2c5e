//! `rehearse upgrade --clone-command`: refusals, failures, interrupts, and a rehearsal on clones.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::super::{PATIENCE, command, rehearse};
use super::upgrading::{can_rehearse, old_server, workload};

/// File that is locked while clones are made and used.
const LOCK: &str = "x.upgrade.clones.lock";

/// Returns the arguments of a rehearsal with a workload, an old server and an output, on clones that these commands make and
/// drop.
fn arguments<'a>(
    [workload, from, output]: [&'a str; 3],
    [clone, drop]: [&'a str; 2],
) -> Vec<&'a str> {
    let servers = [
        "upgrade", workload, "--from", from, "--to", "15", "-o", output,
    ];
    let commands = ["--clone-command", clone, "--drop-command", drop];
    [&servers[..], &commands].concat()
}

/// Runs a rehearsal with this clone command and options. Returns the exit code, the messages, and what the drop command
/// wrote.
fn attempt(
    directory: &Path,
    from: &str,
    clone: &str,
    options: &[&str],
) -> (Option<i32>, String, String) {
    let at = |name: &str| directory.join(name).display().to_string();
    let _ = std::fs::remove_file(at("dropped"));
    let drop = format!(
        "echo \"$REHEARSE_SIDE '$REHEARSE_URL' ${{PGHOST-unset}}\" >>{}",
        at("dropped")
    );
    let (workload, output) = (at("a.workload"), at("x.upgrade"));
    let common = arguments([&workload, from, &output], [clone, &drop]);
    let done = rehearse(&[&common[..], options].concat());
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    let dropped = std::fs::read_to_string(at("dropped")).unwrap_or_default();
    (done.status.code(), text, dropped)
}

/// Starts a rehearsal whose clone command does not end, and waits until this has written its process into the file `begun`.
/// Returns the rehearsal and that process. The drop command writes the names of clones into the file `released`.
fn start_cloning(directory: &Path, workload: &str, from: &str) -> (Child, String) {
    let at = |name: &str| directory.join(name).display().to_string();
    let clone = format!("echo $$ >{}; exec sleep 600", at("begun"));
    let drop = format!("echo $REHEARSE_CLONE >>{}", at("released"));
    let output = at("x.upgrade");
    let mut arguments = arguments([workload, from, &output], [&clone, &drop]);
    arguments.push("--no-restore");
    // After a failed test it must not keep a pipe of the tests open.
    let mut started = command(&arguments);
    started.stdout(Stdio::null()).stderr(Stdio::null());
    (started.spawn().unwrap(), written_line(&at("begun")))
}

/// Waits until a file has a line, and returns this.
fn written_line(path: &str) -> String {
    let begun = Instant::now();
    loop {
        let written = std::fs::read_to_string(path).unwrap_or_default();
        if let Some(line) = written.strip_suffix('\n') {
            return line.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(signal: &str, process: &str) {
    let mut kill = std::process::Command::new("kill");
    let ended = kill.args([signal, process]).status().unwrap();
    assert!(ended.success());
}

#[test]
fn clone_command_that_fails_or_prints_no_clone_is_reported_and_its_clone_dropped() {
    let directory = tempfile::tempdir().unwrap();
    workload(directory.path(), "SELECT 1");
    let (_server, from) = old_server("");
    let alias = from.replace("%2Fsocket", "%2F%2Fsocket");
    let with_password = "postgres://a:geheim@127.0.0.1:1/b";
    let same = format!("echo '{alias}'");
    let unreachable = format!("echo cloning; echo '{with_password}'");
    let failing = format!("echo cannot clone '{with_password}' >&2; exit 7");
    let begun = "old '' unset\n";
    let cases: [(&str, &[&str], &str, &str); 6] = [
        ("true", &[], "printed nothing", begun),
        ("echo password=geheim", &[], "is no URL", begun),
        (&failing, &[], "exit status: 7): cannot clone", begun),
        (
            "sleep 600",
            &["--clone-time-limit", "1s"],
            "did not end within 1 s",
            begun,
        ),
        (&same, &[], "the server of --from", begun),
        (&unreachable, &[], "cannot connect", begun),
    ];
    for (clone, options, message, expected) in cases {
        let options = [&["--no-restore"], options].concat();
        let (code, text, dropped) = attempt(directory.path(), &from, clone, &options);
        assert_eq!(code, Some(3), "{clone}: {text}");
        assert!(text.contains(message), "{clone}: {text}");
        assert!(!text.contains("geheim"), "{clone}: {text}");
        assert_eq!(dropped, expected, "{clone}");
        assert!(!directory.path().join("x.upgrade").exists(), "{text}");
        assert!(!directory.path().join(LOCK).exists(), "{text}");
    }
}

#[test]
fn clone_that_others_use_is_refused_before_another_command_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    workload(directory.path(), "SELECT 1");
    let (_server, from) = old_server("");
    let (_busy_server, busy) = old_server("");
    let _session = Client::connect(&busy, NoTls).unwrap();
    let upgraded = directory.path().join("upgraded");
    let upgrade = format!("touch {}", upgraded.display());
    let clone = format!("echo '{busy}'");
    let options = ["--no-restore", "--upgrade-command", &upgrade];
    let (code, text, dropped) = attempt(directory.path(), &from, &clone, &options);
    assert!(code != Some(0) && text.contains("is in use"), "{text}");
    assert_eq!(dropped, "old '' unset\n", "{text}");
    assert!(!upgraded.exists(), "{text}");
}

#[test]
fn rehearsal_that_is_refused_makes_no_clone_and_drops_none() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    workload(directory.path(), "SELECT 1");
    let (_server, from) = old_server("");
    let clone = format!("touch {}", at("made"));
    let refused = |options: &[&str], exit: i32, message: &str| {
        let (code, text, dropped) = attempt(directory.path(), &from, &clone, options);
        assert!(text.contains(message), "{text}");
        assert_eq!((code, dropped.as_str()), (Some(exit), ""), "{text}");
        assert!(!Path::new(&at("made")).exists(), "{text}");
        assert!(!Path::new(&at(LOCK)).exists(), "{text}");
    };
    let short = ["--no-restore", "--within", "1s"];
    refused(&short, 2, "--within 1.00s is too short");
    refused(&[], 2, "give --restore 'COMMAND'");
    // The clones of a rehearsal that runs are not removed.
    std::fs::create_dir(at("x.upgrade")).unwrap();
    let running = std::fs::File::open(at("x.upgrade")).unwrap();
    running.lock().unwrap();
    refused(&["--no-restore", "--resume"], 3, "another process does so");
}

#[test]
fn rehearsal_that_is_interrupted_while_it_clones_ends_the_command_and_drops_the_clone() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "SELECT 1");
    let (_server, from) = old_server("");
    let (mut child, process) = start_cloning(directory.path(), &workload, &from);
    kill("-TERM", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(!Path::new("/proc").join(process).exists());
    let name = std::fs::read_to_string(directory.path().join("released")).unwrap();
    assert!(
        name.starts_with("rehearse-x-") && name.ends_with("-old\n"),
        "{name}"
    );
    assert!(!directory.path().join(LOCK).exists());
}

#[test]
fn second_start_while_clones_are_made_is_refused_and_neither_makes_nor_drops_any() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let workload = workload(directory.path(), "SELECT 1");
    let (_server, from) = old_server("");
    let (mut child, _) = start_cloning(directory.path(), &workload, &from);
    assert!(at(LOCK).exists());
    let clone = format!("touch {}", at("made").display());
    for options in [&["--no-restore"][..], &["--no-restore", "--resume"]] {
        let (code, text, dropped) = attempt(directory.path(), &from, &clone, options);
        assert_eq!((code, dropped.as_str()), (Some(3), ""), "{text}");
        for part in [
            &format!(
                "process {} makes or uses its clones rehearse-x-",
                child.id()
            ),
            "wait for its end, or stop it, or give another -o",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!at("made").exists() && at(LOCK).exists(), "{text}");
    }
    assert!(!at("released").exists());
    kill("-TERM", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(at("released").exists() && !at(LOCK).exists());
}

#[test]
fn lock_of_a_rehearsal_that_was_killed_while_it_cloned_refuses_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "SELECT 1");
    let (_server, from) = old_server("");
    let (mut child, process) = start_cloning(directory.path(), &workload, &from);
    child.kill().unwrap();
    child.wait().unwrap();
    kill("-KILL", &process);
    assert!(directory.path().join(LOCK).exists());
    let options = ["--no-restore", "--resume"];
    let (code, text, dropped) = attempt(directory.path(), &from, "exit 7", &options);
    assert!(text.contains("exit status: 7"), "{text}");
    assert_eq!(code, Some(3), "{text}");
    assert_eq!(dropped, "old '' unset\nnew '' unset\nold '' unset\n");
    assert!(!directory.path().join(LOCK).exists());
}

#[test]
fn rehearsal_on_clones_upgrades_the_new_one_reports_the_commands_and_drops_both() {
    if !can_rehearse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let workload = workload(directory.path(), "SELECT 1");
    let (_production, from) = old_server("");
    let (_old, old) = old_server("");
    let (_new, new) = old_server("DROP INDEX items_owner");
    let (output, dropped) = (at("x.upgrade"), at("dropped"));
    let clone = format!(
        "test $REHEARSE_VERSION = 15 && PGPASSWORD=geheim && echo cloning && case $REHEARSE_SIDE in old) echo '{old}' ;; new) echo '{new}' ;; esac"
    );
    let upgrade = "psql -q \"$REHEARSE_URL\" -c 'DROP TABLE events'";
    let drop = format!("echo \"$REHEARSE_SIDE $REHEARSE_URL\" >>{dropped}");
    let common = arguments([&workload, &from, &output], [&clone, &drop]);
    let timed = ["--no-restore", "--within", "60s"];
    let options = ["--upgrade-command", upgrade, "--json"];
    let done = rehearse(&[&common[..], &timed, &options].concat());
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["decision"], "no_go");
    let notes = report["notes"].to_string();
    assert!(notes.contains("DROP TABLE events"), "{notes}");
    assert!(
        notes.contains("PGPASSWORD=…") && !notes.contains("geheim"),
        "{notes}"
    );
    assert!(report["inspection"].to_string().contains("public.events"));
    let dropped = std::fs::read_to_string(&dropped).unwrap();
    assert_eq!(dropped, format!("old {old}\nnew {new}\n"));
    assert!(!Path::new(&at(LOCK)).exists());
}
