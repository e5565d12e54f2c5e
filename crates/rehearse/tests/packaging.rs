//! Manual pages and completion scripts that a package installs, and the check of a machine.

use std::path::Path;
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

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn files_below(directory: &Path) -> usize {
    let listed = succeeds(Command::new("find").arg(directory).args(["-type", "f"]));
    listed
        .lines()
        .filter(|file| !file.contains("/var/"))
        .count()
}

/// Packages are built from the program under test, and installed into an empty root directory.
#[test]
fn packages_have_the_program_its_pages_and_completions() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return test_support::report_skipped("dpkg-deb is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let packages = directory.path().join("dist");
    let mut dist = Command::new(env!("CARGO"));
    dist.args([
        "xtask",
        "dist",
        "--program",
        env!("CARGO_BIN_EXE_rehearse"),
        "--output",
    ]);
    succeeds(dist.arg(&packages));
    let check = ["--check", "--quiet", "SHA256SUMS"];
    succeeds(Command::new("sha256sum").args(check).current_dir(&packages));
    let listed = succeeds(Command::new("ls").arg(&packages));
    let package = listed.lines().find(|file| file.ends_with(".deb")).unwrap();
    let package = packages.join(package);
    let depends = succeeds(
        Command::new("dpkg-deb")
            .arg("-f")
            .arg(&package)
            .arg("Depends"),
    );
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");

    let root = directory.path().join("root");
    succeeds(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root));
    let version = succeeds(Command::new(root.join("usr/bin/rehearse")).arg("-V"));
    assert_eq!(version, printed(&["-V"]));
    for installed in [
        "share/man/man1/rehearse-replay.1.gz",
        "share/bash-completion/completions/rehearse",
        "share/zsh/vendor-completions/_rehearse",
        "share/fish/vendor_completions.d/rehearse.fish",
        "share/doc/rehearse/LICENSE-MIT",
    ] {
        assert!(root.join("usr").join(installed).is_file(), "{installed}");
    }
    let contained = files_below(&root);
    // Installing needs root, as everywhere.
    if succeeds(Command::new("id").arg("-u")).trim() != "0" {
        return;
    }
    let root = directory.path().join("installed");
    std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    std::fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |arguments: &[&std::ffi::OsStr]| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--root")
            .arg(&root)
            .arg("--force-depends")
            .args(arguments);
        succeeds(&mut dpkg)
    };
    dpkg(&["--install".as_ref(), package.as_os_str()]);
    assert_eq!(files_below(&root), contained);
    dpkg(&["--purge".as_ref(), "rehearse".as_ref()]);
    assert_eq!(files_below(&root), 0);
}
