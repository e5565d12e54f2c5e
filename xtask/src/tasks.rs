//! The commands of `cargo xtask` that run other programs: checks, tests, benchmarks, documentation.

use std::path::Path;
use std::process::Command;

use crate::dist::{dist, installers};

/// A command, with its line of `cargo xtask --help`.
#[derive(Debug)]
pub struct Task {
    /// Name on the command line.
    pub name: &'static str,
    /// Imperative sentence.
    pub help: &'static str,
    /// Duration on two cores, after the first build.
    pub duration: &'static str,
}

/// All commands.
pub const TASKS: [Task; 8] = [
    Task {
        name: "check",
        help: "Check format, lints, links in doc comments, and the rules of the sources",
        duration: "3 min",
    },
    Task {
        name: "test",
        help: "Run the fast tier of the tests; further arguments go to cargo test",
        duration: "5 min",
    },
    Task {
        name: "test-full",
        help: "Run all tests: every server version, browser, perf, lab, long simulations",
        duration: "15 min",
    },
    Task {
        name: "bench",
        help: "Run a benchmark of benches/ with its arguments, or list them",
        duration: "1 min to 1 h",
    },
    Task {
        name: "docs",
        help: "Build the guides (mdBook, if installed) and the documentation of the crates",
        duration: "1 min",
    },
    Task {
        name: "dist",
        help: "Build archive, packages, image and their checksums in target/dist, --target TRIPLE for a static program",
        duration: "5 min",
    },
    Task {
        name: "installers",
        help: "Write the install script and the Homebrew formula for archives: DIRECTORY OWNER/REPOSITORY",
        duration: "1 s",
    },
    Task {
        name: "tidy",
        help: "Print the breaches of the rules of the sources, below these paths or everywhere",
        duration: "10 s",
    },
];

/// Returns the text of `cargo xtask --help`.
pub fn help() -> String {
    let lines = TASKS
        .iter()
        .map(|task| format!("  {:<10} {} [{}]\n", task.name, task.help, task.duration));
    let lines: String = lines.collect();
    format!(
        "Usage: cargo xtask COMMAND [ARGUMENT…]\n\nCommands [duration on two cores, after the build]:\n{lines}"
    )
}

/// Runs a command with the workspace at `root` as the current directory. Returns whether it succeeded, or
/// `None` if the command is unknown or runs no other program.
pub fn run(root: &Path, name: &str, arguments: &[String]) -> Option<bool> {
    let succeeded = match name {
        "check" => check(root),
        "test" => execute(&mut cargo_test(root, arguments)),
        "test-full" => execute(cargo_test(root, arguments).env("REHEARSE_TEST_FULL", "1")),
        "bench" => bench(root, arguments),
        "docs" => docs(root),
        "dist" => reported(dist(root, arguments)),
        "installers" => reported(installers(root, arguments)),
        _ => return None,
    };
    Some(succeeded)
}

fn reported(result: Result<(), String>) -> bool {
    result.inspect_err(|why| eprintln!("{why}")).is_ok()
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

/// Most tests wait for a server more than they compute, so one more runs than there are processors.
fn cargo_test(root: &Path, arguments: &[String]) -> Command {
    let mut command = cargo(root, &["test", "--workspace"]);
    command.args(arguments);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env("RUST_TEST_THREADS", (processors + 1).to_string());
    }
    command
}

fn check(root: &Path) -> bool {
    let clippy = "clippy --workspace --all-targets --locked -- -D warnings";
    let doc = "doc --quiet --workspace --no-deps --document-private-items --locked";
    let rules = "test --quiet --package xtask --locked";
    let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
    execute(&mut cargo(root, &["fmt", "--all", "--check"]))
        && execute(&mut cargo(root, &words(clippy)))
        && execute(cargo(root, &words(doc)).env(
            "RUSTDOCFLAGS",
            "-D rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links",
        ))
        && execute(&mut cargo(root, &words(rules)))
}

fn docs(root: &Path) -> bool {
    let has_mdbook = Command::new("mdbook").arg("--version").output();
    let book = if has_mdbook.is_ok_and(|output| output.status.success()) {
        let mut mdbook = Command::new("mdbook");
        execute(mdbook.args(["build", "docs"]).current_dir(root))
    } else {
        eprintln!("skipped: the guides (mdbook is not installed; cargo install mdbook)");
        true
    };
    let crates = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    book && execute(&mut cargo(root, &crates))
}

fn bench(root: &Path, arguments: &[String]) -> bool {
    let folder = root.join("benches");
    if let Some((name, rest)) = arguments.split_first() {
        let path = folder.join(name);
        if path.is_file() {
            return execute(Command::new(path).args(rest).current_dir(root));
        }
        eprintln!("there is no benches/{name}; choose one of these:");
    }
    for (name, purpose) in benchmarks(&folder) {
        println!("{name:<26} {purpose}");
    }
    arguments.is_empty()
}

/// Returns the name of each script, and the first sentence of its comment.
fn benchmarks(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).expect("the folder benches");
    let mut found: Vec<(String, String)> = entries
        .map(|entry| entry.expect("a readable folder"))
        // Python keeps compiled modules in a folder.
        .filter(|entry| entry.path().is_file())
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).expect("a readable script");
            let second = text.lines().nth(1).unwrap_or_default();
            let purpose = second.trim_start_matches(['#', '"', ' ']).to_owned();
            (entry.file_name().to_string_lossy().into_owned(), purpose)
        })
        .collect();
    found.sort();
    found
}

/// Runs a program and reports its command line. Returns whether it succeeded.
fn execute(command: &mut Command) -> bool {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    eprintln!("$ {line}");
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run `{line}`: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_command_with_its_duration() {
        let help = help();
        for task in &TASKS {
            assert!(help.contains(&format!("  {} ", task.name)), "{help}");
            assert!(help.contains(&format!("[{}]", task.duration)), "{help}");
        }
    }

    #[test]
    fn every_benchmark_has_a_purpose() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = benchmarks(&root.join("benches"));
        assert!(found.len() >= 8);
        assert!(
            found.iter().all(|(_, purpose)| purpose.len() > 10),
            "{found:?}"
        );
    }

    #[test]
    fn unknown_command_runs_nothing() {
        assert_eq!(run(Path::new("/"), "chekc", &[]), None);
    }
}
