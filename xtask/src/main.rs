//! `cargo xtask COMMAND`: tools of the project. `cargo xtask --help` lists them.
//!
//! `tidy [PATH…]` checks the sources itself; the other commands run cargo and scripts.

use std::path::Path;
use std::process::ExitCode;

use xtask::{tasks, tidy};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let Some((command, arguments)) = arguments.split_first() else {
        eprint!("{}", tasks::help());
        return ExitCode::from(2);
    };
    match command.as_str() {
        "--help" | "-h" | "help" => {
            print!("{}", tasks::help());
            ExitCode::SUCCESS
        }
        "tidy" => tidy_paths(root, arguments),
        name => match tasks::run(root, name, arguments) {
            Some(succeeded) => ExitCode::from(u8::from(!succeeded)),
            None => {
                eprint!("unknown command '{name}'\n\n{}", tasks::help());
                ExitCode::from(2)
            }
        },
    }
}

fn tidy_paths(root: &Path, paths: &[String]) -> ExitCode {
    let mut breaches = tidy::check_workspace(root);
    breaches.retain(|breach| {
        paths.is_empty()
            || paths
                .iter()
                .any(|path| breach.path.starts_with(path.as_str()))
    });
    for breach in &breaches {
        println!("{breach}");
    }
    eprintln!("{} breaches", breaches.len());
    ExitCode::from(u8::from(!breaches.is_empty()))
}
