//! Refuses URLs of objects for arguments that need a path on this machine.

use std::path::{Path, PathBuf};

use archive::is_object_url;
use clap::ArgMatches;

/// Arguments with the workload or the runs that a command reads.
const READ: [&str; 8] = [
    "workload", "run", "runs", "before", "after", "noise", "resume", "of",
];

/// Commands whose `-o` is a workload or a run.
const WRITING: [&str; 7] = [
    "capture log",
    "capture proxy",
    "capture pcap",
    "slice",
    "mask workload",
    "rewrite",
    "replay",
];

/// Describes the first argument that is the URL of an object and must not be one; `None` if there is none.
pub fn find_refused_url(matches: &ArgMatches) -> Option<String> {
    let (mut command, mut matches) = (String::new(), matches);
    while let Some((name, inner)) = matches.subcommand() {
        if !command.is_empty() {
            command.push(' ');
        }
        command.push_str(name);
        matches = inner;
    }
    let mut paths = matches.ids().flat_map(|id| {
        let id = id.as_str();
        let given = matches.try_get_many::<PathBuf>(id).ok().flatten();
        given.into_iter().flatten().map(move |path| (id, path))
    });
    // Replays of pairs write a directory with several runs.
    let has_pairs = matches.try_contains_id("against").unwrap_or(false);
    let is_accepted =
        |id: &str, path: &Path| accepts(&command, id, path) && !(has_pairs && id == "output");
    let (_, path) = paths.find(|(id, path)| is_object_url(path) && !is_accepted(id, path))?;
    Some(format!(
        "{} cannot be used here: only workloads and runs can be in an object store; give a path on this machine",
        path.display()
    ))
}

fn accepts(command: &str, id: &str, path: &Path) -> bool {
    let is_artefact = |path: &Path| {
        let kind = path.extension().and_then(|kind| kind.to_str());
        matches!(kind, Some("workload" | "run"))
    };
    match id {
        "output" => WRITING.contains(&command) && is_artefact(path),
        id => READ.contains(&id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Program;
    use clap::CommandFactory;

    fn refused(arguments: &[&str]) -> bool {
        let program = std::iter::once("rehearse").chain(arguments.iter().copied());
        let matches = Program::command().try_get_matches_from(program);
        find_refused_url(&matches.expect("valid arguments")).is_some()
    }

    #[test]
    fn url_is_refused_where_a_path_is_needed() {
        assert!(!refused(&["inspect", "s3://b/a.workload"]));
        assert!(!refused(&["compare", "s3://b/a.run", "gs://b/b.run"]));
        assert!(!refused(&[
            "slice",
            "a.workload",
            "-o",
            "az://b/b.workload"
        ]));
        let masked = [
            "mask",
            "workload",
            "a.workload",
            "--mask",
            "k",
            "-o",
            "s3://b/m.workload",
        ];
        assert!(!refused(&masked));
        assert!(refused(&[
            "compare",
            "a.run",
            "b.run",
            "--html",
            "s3://b/c.html"
        ]));
        assert!(refused(&[
            "inspect",
            "a.workload",
            "--html",
            "s3://b/c.html"
        ]));
        let replay = |options: &[&'static str]| {
            let run = [
                "replay",
                "a.workload",
                "--target",
                "t",
                "-o",
                "s3://b/c.run",
            ];
            refused(&[&run, options].concat())
        };
        assert!(!replay(&[]));
        assert!(replay(&["--against", "u"]));
        assert!(refused(&[
            "export-evidence",
            "a.run",
            "-o",
            "s3://b/e.tar.gz"
        ]));
    }
}
