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
}

const MONDAY: &str = "cp -r given.workload monday.workload";

const GUIDES: [Guide; 13] = [
    Guide {
        file: "how-to/capture-from-logs.md",
        before: "",
    },
    Guide {
        file: "how-to/compare-runs.md",
        before: MONDAY,
    },
    Guide {
        file: "how-to/encrypt-a-workload.md",
        before: "cp -r given.workload old.workload",
    },
    Guide {
        file: "how-to/find-the-cause.md",
        before: MONDAY,
    },
    Guide {
        file: "how-to/keep-a-history.md",
        before: "cp -r b1.run tonight.run; git init -q .
                 git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first",
    },
    Guide {
        file: "how-to/mask-data.md",
        before: "createdb masked",
    },
    Guide {
        file: "how-to/observe-a-server.md",
        before: "cp -r given.workload monday.workload; rm -r after.run",
    },
    Guide {
        file: "how-to/rehearse-an-upgrade.md",
        before: "cp -r given.workload monday.workload
                 OLD=$URL_COPY; NEW=$URL_COPY",
    },
    Guide {
        file: "how-to/replay-a-workload.md",
        before: "cp -r given.workload monday.workload; rm -r before.run",
    },
    Guide {
        file: "how-to/rewrite-a-workload.md",
        before: MONDAY,
    },
    Guide {
        file: "how-to/slice-a-workload.md",
        before: MONDAY,
    },
    Guide {
        file: "how-to/use-a-sandbox.md",
        before: "",
    },
    Guide {
        file: "tutorial/own-server.md",
        before: "rm -r before.run after.run shop.dump",
    },
];

/// Text of the guides, with its replacement here. Variables are those of the setting.
const REPLACED: [(&str, &str); 20] = [
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
];

/// Commands that this test does not run: their beginning, and the reason.
const LEFT_OUT: [(&str, &str); 13] = [
    ("kubectl", "no cluster"),
    ("age ", "the program age is another test's"),
    ("OTAVA_CONFIG", "another project's program"),
    ("rehearse prove", "tests of proofs run it, for minutes"),
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
        // Exit code 1 is an answer: a condition holds, a problem was found.
        if command.contains("--fail-on") || command.starts_with("rehearse diagnose") {
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
finds() { "$@" || [ $? -eq 1 ]; }
{ read -r URL_DB; read -r URL_COPY; } <urls
server=${URL_DB#*@}
export PGHOST=${server%%:*} PGUSER=postgres
server=${server#*:}
export PGPORT=${server%%/*}
PGPASSFILE=${server#*passfile=}
export PGPASSFILE=${PGPASSFILE//%2F//}
"#;

#[test]
fn commands_of_the_guides_run() {
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
        wrong.extend(
            GUIDES
                .iter()
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
