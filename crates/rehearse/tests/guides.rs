//! Runs the commands of the tutorial and of the guides, as a reader types them, on real servers.
//!
//! `guides/setting.sh` makes what the guides assume: a server with traffic in its log, a copy, workloads, runs. Names of
//! hosts and directories of other machines are replaced, and commands that cannot run here are left out; the tables
//! below list both. The unit test `documented` checks the options of these commands, too.
//!
//! The servers are loaded with psql. Without it, the test is reported as skipped; with REHEARSE_TEST_PSQL set, as in CI,
//! it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A guide and what its reader did before.
struct Guide {
    /// Below `docs`.
    file: &'static str,
    /// Commands of other guides that it assumes.
    before: &'static str,
    /// Variable of the tests that must be set for it.
    needs: Option<&'static str>,
}

impl Guide {
    const fn new(file: &'static str, before: &'static str) -> Self {
        Guide {
            file,
            before,
            needs: None,
        }
    }
}

const MONDAY: &str = "cp -r given.workload monday.workload";

const GUIDES: [Guide; 17] = [
    Guide::new("how-to/capture-from-logs.md", ""),
    Guide::new("how-to/compare-runs.md", MONDAY),
    Guide::new(
        "how-to/encrypt-a-workload.md",
        "cp -r given.workload old.workload",
    ),
    Guide::new("how-to/find-the-cause.md", MONDAY),
    Guide::new(
        "how-to/keep-a-history.md",
        "cp -r b1.run tonight.run; git init -q .
                 git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first",
    ),
    Guide::new("how-to/mask-data.md", "createdb masked"),
    Guide::new(
        "how-to/observe-a-server.md",
        "cp -r given.workload monday.workload; rm -r after.run",
    ),
    Guide::new(
        "how-to/rehearse-an-upgrade.md",
        "cp -r given.workload monday.workload
                 OLD=$URL_COPY; NEW=$URL_COPY",
    ),
    Guide::new(
        "how-to/replay-a-workload.md",
        "cp -r given.workload monday.workload; rm -r before.run",
    ),
    Guide::new("how-to/rewrite-a-workload.md", MONDAY),
    Guide::new("how-to/slice-a-workload.md", MONDAY),
    Guide::new("how-to/use-a-sandbox.md", ""),
    Guide::new(
        "tutorial/own-server.md",
        "rm -r before.run after.run shop.dump",
    ),
    Guide::new("how-to/prove-a-change.md", MONDAY),
    Guide::new("how-to/run-a-sweep.md", ""),
    Guide {
        file: "how-to/capture-packets.md",
        before: "tcpdump -i lo -s 0 -U -w shop.pcap tcp port $PGPORT & sleep 2
                 psql -qX -c 'SELECT count(*) FROM orders' shop; sleep 2; kill $!; wait
                 gzip -c shop.pcap >shop-1.pcap.gz",
        needs: Some("REHEARSE_TEST_PACKETS"),
    },
    Guide {
        file: "how-to/profile-cpu.md",
        before: "cp -r given.workload monday.workload; rm -r before.run after.run
                 rehearse replay monday.workload --target $URL_COPY -o after.run --profile",
        needs: Some("REHEARSE_TEST_PERF"),
    },
];

/// Text of the guides, with its replacement here. Variables are those of the setting.
const REPLACED: [(&str, &str); 32] = [
    (
        "/var/log/postgresql/postgresql-*.log",
        "log/postgresql-*.log",
    ),
    ("/var/log/postgresql/db.log", "log/postgresql-1.log"),
    ("/var/lib/postgresql/data/log", "log"),
    ("/var/log/postgresql", "log"),
    ("postgresql-2026-04-*.log.gz", "../*.log.gz"),
    ("--duration 10m", "--duration 2s"),
    ("--duration 60s", "--duration 2s"),
    ("--duration 5m", "--duration 2s"),
    ("--duration 30s", "--duration 2s"),
    ("postgres://monitor@db:5432/shop", "$URL_DB"),
    ("postgres://copy:5432", "$URL_COPY"),
    ("--target URL", "--target $URL_COPY"),
    ("--target …", "--target $URL_COPY"),
    ("age1…", "$(sed -n 's/.*public key: //p' rehearse.key)"),
    (
        "--from '2026-03-02 09:30' --to '2026-03-02 10:00'",
        "--from +0s --to +10m",
    ),
    ("--from +3h --to +4h", "--from +0s"),
    ("--from +1h --to +1h30m", "--from +0s --to +30m"),
    ("-d masked ", "-d masked -q "),
    ("pg_dump shop ", "pg_dump -U postgres shop "),
    ("pg_dump -Fc shop", "pg_dump -U postgres -Fc shop"),
    ("1GB", "64MB"),
    (
        "rehearse sandbox up shop --postgres-version 17",
        "rehearse sandbox up shop && load shop",
    ),
    (
        "--change index.sql -o index.proof",
        "--change index.sql --speed max --blocks 2 -o index.proof",
    ),
    ("--clients 1,2,4,8,16,32", "--clients 1,2"),
    ("--clients 1,10,20,40,80,160", "--clients 1,2"),
    ("--mode simple,prepared", "--mode prepared"),
    ("--time-budget 20m", "--time 1s"),
    ("--time 30s", "--time 1s"),
    ("--pgbench-scale 100 ", ""),
    ("postgres://localhost:5432", "$URL_COPY"),
    (
        "capture pcap shop.pcap ",
        "capture pcap shop.pcap --port $PGPORT ",
    ),
    ("--port 5432 --port 5433", "--port $PGPORT"),
];

/// Commands that this test does not run: their beginning, and the reason.
const LEFT_OUT: [(&str, &str); 22] = [
    (
        "rehearse upgrade monday.workload",
        "tests of rehearsals run it, for minutes",
    ),
    (
        "rehearse upgrade inspect",
        "tests of inspections run it, with planted faults",
    ),
    (
        "rehearse upgrade verify",
        "it needs the directory of a rehearsal",
    ),
    ("kubectl", "no cluster"),
    ("age ", "the program age is another test's"),
    ("OTAVA_CONFIG", "another project's program"),
    (
        "rehearse prove monday.workload --sandbox shop --set",
        "an hour; tests of proofs run it",
    ),
    (
        "rehearse prove monday.workload --sandbox shop --rewrite",
        "tests of proofs run it, for minutes",
    ),
    (
        "rehearse prove monday.workload --sandbox old",
        "tests of proofs run it, for minutes",
    ),
    (
        "rehearse prove monday.workload --target",
        "tests of proofs run it, for minutes",
    ),
    ("sudo tcpdump", "the packets of the setting stand for these"),
    ("ssh ", "no other machine"),
    (
        "rehearse flame before.run --off-cpu",
        "the run before it has no samples of --observe",
    ),
    (
        "rehearse diagnose monday.workload --prove",
        "tests of diagnoses run it, for minutes",
    ),
    (
        "rehearse diagnose monday.run --workload",
        "tests of diagnoses run it, for minutes",
    ),
    (
        "rehearse replay monday.workload --against sandbox:old",
        "tests of pairs run it, with servers of two versions",
    ),
    (
        "rehearse replay monday.workload --target postgres://copy-a",
        "tests of pairs run it",
    ),
    (
        "rehearse replay monday.workload --target … --resume",
        "it needs an interrupted replay",
    ),
    (
        "rehearse compare --before old-1.run",
        "it needs three replays of each version",
    ),
    (
        "rehearse sandbox up old",
        "the copy stands for both versions",
    ),
    (
        "rehearse sandbox up new",
        "the copy stands for both versions",
    ),
    (
        "rehearse sandbox start second",
        "it is running: started by restart",
    ),
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the commands of a guide's shell blocks, with what this machine lacks replaced, and the number that is left out.
fn script(guide: &str) -> (String, usize) {
    let blocks = guide.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let mut left_out = 0;
    let mut script = String::new();
    let joined = blocks
        .map(|block| block.replace("\\\n", " "))
        .collect::<String>();
    for command in joined.lines().map(str::to_owned) {
        if let Some((start, why)) = LEFT_OUT
            .iter()
            .find(|(start, _)| command.starts_with(start))
        {
            left_out += 1;
            script.push_str(&format!("# left out: {start}: {why}\n"));
            continue;
        }
        let replaced = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        let command = REPLACED.iter().fold(command, replaced);
        script.push_str(&command);
        // Exit codes 1 and 4 are answers: a condition holds, a problem was found, a change is not proven.
        let verdicts = ["rehearse diagnose", "rehearse prove"];
        if command.contains("--fail-on") || verdicts.iter().any(|one| command.starts_with(one)) {
            script.insert_str(script.len() - command.len(), "finds ");
        }
        script.push('\n');
    }
    (script, left_out)
}

/// Runs bash in a directory, with this program first on the path, and the server of the setting as that of psql.
fn bash(directory: &Path, state: &Path, script: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_rehearse"));
    let path = std::env::var("PATH").unwrap();
    Command::new("timeout")
        .args(["--kill-after", "5", "300", "bash", "-c", script])
        .current_dir(directory)
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .env("REHEARSE_STATE_DIR", state)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn has_psql() -> bool {
    let found = Command::new("psql").arg("--version").output().is_ok();
    assert!(
        found || std::env::var_os("REHEARSE_TEST_PSQL").is_none(),
        "REHEARSE_TEST_PSQL is set, and psql is not found"
    );
    found
}

/// Defines `finds`, a failure's message, and the environment of psql from the URLs that the setting wrote.
const PRELUDE: &str = r#"
set -euo pipefail
trap 'echo "failed: line $LINENO: $BASH_COMMAND" >&2' ERR
finds() { "$@" || case $? in 1 | 4) ;; *) false ;; esac; }
load() { # NAME: the setting's data into a private server
    psql -qX -c 'CREATE ROLE app LOGIN' -c 'CREATE ROLE monitor LOGIN' "$(rehearse sandbox url $1)"
    pg_restore --create --dbname "$(rehearse sandbox url $1)" shop.dump
}
{ read -r URL_DB; read -r URL_COPY; } <urls
server=${URL_DB#*@}
export PGHOST=${server%%:*} PGUSER=postgres
server=${server#*:}
export PGPORT=${server%%/*}
PGPASSFILE=${server#*passfile=}
export PGPASSFILE=${PGPASSFILE//%2F//}
"#;

#[test]
fn commands_of_the_guides_run_first_third() {
    run_guides(0);
}

#[test]
fn commands_of_the_guides_run_second_third() {
    run_guides(1);
}

#[test]
fn commands_of_the_guides_run_last_third() {
    run_guides(2);
}

/// Number of tests that share the guides. Each has its own servers, so that they run at the same time.
const TESTS: usize = 3;

/// Runs every guide whose position in the list has this remainder.
fn run_guides(remainder: usize) {
    if test_support::skip_in_fast_tier() {
        return;
    }
    if !has_psql() {
        return test_support::report_skipped("psql is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let setting = directory.path().join("setting");
    fs::create_dir(&setting).unwrap();
    let made = bash(&setting, &state, include_str!("guides/setting.sh"));
    let mut wrong = Vec::new();
    if made.status.success() {
        let is_possible = |guide: &&Guide| {
            let is = guide
                .needs
                .is_none_or(|name| std::env::var_os(name).is_some());
            if !is {
                test_support::report_skipped(&format!("{} needs {:?}", guide.file, guide.needs));
            }
            is
        };
        wrong.extend(
            GUIDES
                .iter()
                .skip(remainder)
                .step_by(TESTS)
                .filter(is_possible)
                .filter_map(|guide| run(guide, directory.path(), &state).err()),
        );
    } else {
        wrong.push(format!(
            "the setting: {}",
            String::from_utf8_lossy(&made.stderr)
        ));
    }
    let down = "for name in $(rehearse sandbox list | awk 'NR > 1 { print $1 }'); do rehearse sandbox down $name; done";
    let removed = bash(directory.path(), &state, down);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(removed.status.success(), "{removed:?}");
}

fn run(guide: &Guide, directory: &Path, state: &Path) -> Result<(), String> {
    let text = fs::read_to_string(docs().join(guide.file)).unwrap();
    let (commands, left_out) = script(&text);
    let place = directory.join(Path::new(guide.file).file_stem().unwrap());
    let copied = Command::new("cp")
        .arg("-r")
        .arg(directory.join("setting"))
        .arg(&place)
        .status();
    assert!(copied.unwrap().success());
    let output = bash(
        &place,
        state,
        &format!("{PRELUDE}{}\n{commands}", guide.before),
    );
    let run = commands
        .lines()
        .filter(|line| line.contains("rehearse ") && !line.starts_with('#'))
        .count();
    println!("{}: {run} commands run, {left_out} left out", guide.file);
    match output.status.success() && run > 0 {
        true => Ok(()),
        false => Err(format!(
            "{}: {}",
            guide.file,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
