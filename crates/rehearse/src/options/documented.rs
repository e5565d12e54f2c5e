//! Every command of the README and of the guides has options that exist.
//!
//! Bash splits the lines, as a reader's shell does. All programs are stubs: `rehearse` writes its arguments to a file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Program;

/// Programs that the guides call in addition to this one.
const OTHERS: [&str; 23] = [
    "age",
    "apt",
    "cargo",
    "cat",
    "clients/run.sh",
    "curl",
    "dnf",
    "docker",
    "docs/ci/rehearse-migration.sh",
    "git",
    "kubectl",
    "otava",
    "pg_basebackup",
    "pg_dump",
    "pg_dumpall",
    "pg_restore",
    "psql",
    "rustup",
    "sh",
    "ssh",
    "sudo",
    "tcpdump",
    "zcat",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the README, the tutorial, the guides and the reference.
fn guides() -> Vec<PathBuf> {
    let mut guides = vec![root().join("README.md")];
    for directory in ["tutorial", "how-to", "reference"] {
        let entries = fs::read_dir(root().join("docs").join(directory)).unwrap();
        guides.extend(entries.map(|entry| entry.unwrap().path()));
    }
    guides.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    guides.sort();
    guides
}

/// Returns the code blocks of shell commands.
fn shell_blocks(guide: &str) -> Vec<&str> {
    let blocks = guide.split("```sh\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

fn write_stub(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a block with stubs. Returns the arguments of each call of this program.
fn calls(stubs: &Path, block: &str) -> Vec<Vec<String>> {
    let record = stubs.join("record");
    fs::write(&record, "").unwrap();
    let status = Command::new("/bin/bash")
        .args(["-c", block])
        .current_dir(stubs)
        .env_clear()
        .env("PATH", stubs)
        .env("HOME", stubs.join("home"))
        .env("RECORD", &record)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{block}");
    let recorded = fs::read_to_string(&record).unwrap();
    let calls = recorded.split_terminator('\x1e');
    let words = |call: &str| call.split_terminator('\x1f').map(str::to_owned).collect();
    calls.map(words).collect()
}

/// Checks the arguments of a call as the program does before it begins.
fn check(call: &[String]) -> Result<(), String> {
    match Program::command().try_get_matches_from(call) {
        Ok(matches) => super::find_without_effect(&matches).map_or(Ok(()), Err),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn documented_commands_have_options_that_exist() {
    let directory = tempfile::tempdir().unwrap();
    let stubs = directory.path();
    // One string: calls of a pipeline write at the same time.
    write_stub(
        &stubs.join("rehearse"),
        r#"printf -v call '%s\x1f' rehearse "$@"; printf '%s\x1e' "$call" >>"$RECORD""#,
    );
    // The guides write completions there.
    for place in [
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".config/fish/completions",
    ] {
        fs::create_dir_all(stubs.join("home").join(place)).unwrap();
    }
    for program in OTHERS {
        write_stub(&stubs.join(program), "exit 0");
    }
    let mut checked = 0;
    let mut wrong = Vec::new();
    for guide in guides() {
        let text = fs::read_to_string(&guide).unwrap();
        for block in shell_blocks(&text) {
            for call in calls(stubs, block) {
                checked += 1;
                if let Err(why) = check(&call) {
                    wrong.push(format!("{}: {call:?}: {why}", guide.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 100, "only {checked} commands were found");
}
