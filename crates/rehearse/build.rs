//! Tells the program which commit and system it is built from and for.

use std::path::Path;
use std::process::Command;

fn main() {
    // A package that is built from an archive of sources names the commit itself.
    println!("cargo::rerun-if-env-changed=REHEARSE_COMMIT");
    let given = std::env::var("REHEARSE_COMMIT").ok();
    let commit = given
        .or_else(commit)
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=REHEARSE_COMMIT={commit}");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=REHEARSE_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}

/// Returns the commit that is checked out, with its day; `None` without Git or its directory.
fn commit() -> Option<String> {
    for path in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", path])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["log", "-1", "--format=%h (%cs)"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
