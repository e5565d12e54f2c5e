//! `cargo xtask COMMAND`: tools of the project.
//!
//! - `tidy [PATH…]` prints the breaches of the rules of ARCHITECTURE.md and of the language rules.

use std::path::Path;
use std::process::ExitCode;

use xtask::tidy;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    match arguments.split_first() {
        Some((command, paths)) if command == "tidy" => tidy_paths(root, paths),
        _ => {
            eprintln!("usage: cargo xtask tidy [PATH…]");
            ExitCode::from(2)
        }
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
