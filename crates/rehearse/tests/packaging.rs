//! Manual pages and completion scripts that a package installs, and the check of a machine.

use std::process::{Command, Output};

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of the commands that the help lists.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = listed.take_while(|line| !line.is_empty());
    let names = rows.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("share/man");
    printed(&["man", pages.to_str().unwrap()]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} lacks {command}");
        }
    }
    for command in &commands {
        let page = std::fs::read_to_string(pages.join(format!("rehearse-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let into_file = rehearse(&["man", "/dev/null/man"]);
    assert_eq!(into_file.status.code(), Some(3), "{into_file:?}");
}

#[test]
fn doctor_says_what_is_missing_and_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("doctor")
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let tcpdump = lines.find(|line| line.contains("tcpdump is not found"));
    assert!(
        tcpdump.is_some_and(|line| line.starts_with("missing")),
        "{text}"
    );
    assert!(lines.next().unwrap().contains("Install"), "{text}");
}

#[test]
fn version_names_the_commit_and_the_system() {
    let text = printed(&["--version"]);
    assert!(
        text.contains("\ncommit ") && text.contains("\nbuilt for "),
        "{text}"
    );
    assert_eq!(printed(&["-V"]).lines().count(), 1);
}
