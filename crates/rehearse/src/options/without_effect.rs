//! Refuses options that have no effect together with the others, which the parser cannot know: a result that is only shown
//! again, or a diagnosis without a server or a proof.

use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use study::proof::ProofJournal;
use study::sweep::SweepJournal;

use super::Program;

/// Options of every command.
const GLOBAL: [&str; 3] = ["log_format", "log_level", "key"];
/// Options of a diagnosis that only its proofs use.
const OF_PROOFS: [&str; 12] = [
    "sandbox",
    "as_user",
    "as_database",
    "statement_timeout",
    "workers",
    "goal",
    "margin",
    "time_budget",
    "blocks",
    "noise_runs",
    "seed",
    "speed",
];
/// Options of a diagnosis that only the observation of a server uses.
const OF_OBSERVATION: [&str; 4] = [
    "duration",
    "sample_rate",
    "custom_query",
    "custom_query_every",
];

/// Describes an option that has no effect with the others; `None` if all have one.
pub fn find_without_effect(matches: &ArgMatches) -> Option<String> {
    let (command, given) = matches.subcommand()?;
    let is_given = |id: &str| {
        given.try_contains_id(id).unwrap_or(false)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let path = |id: &str| given.try_get_one::<std::path::PathBuf>(id).ok().flatten();
    let is_result = |is_at: fn(&Path) -> bool| path("workload").is_some_and(|path| is_at(path));
    let others = |kept: &[&str]| {
        let program = Program::command();
        let arguments = program.find_subcommand(command).into_iter();
        let mut ids = arguments.flat_map(|command| command.get_arguments());
        let other = ids.find(|argument| {
            let id = argument.get_id().as_str();
            is_given(id) && !kept.contains(&id) && !GLOBAL.contains(&id)
        });
        other.map(|argument| match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => argument.get_id().to_string(),
        })
    };
    let first_of = |ids: &[&str]| {
        let first = ids.iter().find(|id| is_given(id));
        first.map(|id| format!("--{}", id.replace('_', "-")))
    };
    let (option, reason) = match command {
        "prove" if is_result(ProofJournal::is_at) => (
            others(&["workload", "json", "show_literals"]),
            "when a finished proof is shown; give a workload to prove something, or leave it out",
        ),
        "sweep" if is_result(SweepJournal::is_at) => (
            others(&["workload", "json"]),
            "when a finished sweep is shown; give a workload to measure something, or leave it out",
        ),
        "sweep" if !is_given("script") => (
            first_of(&["pgbench_scale"]),
            "without --script; add it, or leave the option out",
        ),
        "compare" if is_given("dry_run") => (
            others(&[
                "runs", "before", "after", "noise", "dry_run", "fail_on", "json",
            ]),
            "with --dry-run, which only checks --fail-on; leave one of them out",
        ),
        "diagnose" if is_given("thresholds") => (
            others(&["thresholds", "threshold", "json"]),
            "with --thresholds, which diagnoses nothing; leave one of them out",
        ),
        "diagnose" if !is_given("prove") && first_of(&OF_PROOFS).is_some() => (
            first_of(&OF_PROOFS),
            "without --prove; add it, or leave the option out",
        ),
        "diagnose" if !is_given("target") => (
            first_of(&OF_OBSERVATION),
            "without --target; give a server to observe, or leave the option out",
        ),
        _ => return None,
    };
    Some(format!("{} has no effect {reason}", option?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(arguments: &[&str]) -> Option<String> {
        let arguments = ["rehearse"].iter().chain(arguments);
        find_without_effect(&Program::command().try_get_matches_from(arguments).unwrap())
    }

    #[test]
    fn option_without_effect_is_named_with_its_reason() {
        for (arguments, option) in [
            (&["diagnose", "a.run", "--sandbox", "s"][..], "--sandbox"),
            (&["diagnose", "a.run", "--goal", "cpu"], "--goal"),
            (&["diagnose", "a.run", "--workers", "2"], "--workers"),
            (&["diagnose", "a.run", "--duration", "5s"], "--duration"),
            (
                &["diagnose", "a.run", "--sample-rate", "2"],
                "--sample-rate",
            ),
            (&["diagnose", "--thresholds", "a.run"], "of"),
            (&["diagnose", "--thresholds", "--verbose"], "--verbose"),
            (
                &["sweep", "a.workload", "--pgbench-scale", "5"],
                "--pgbench-scale",
            ),
            (
                &["compare", "a.run", "b.run", "--dry-run", "--html", "x"],
                "--html",
            ),
        ] {
            let told = found(arguments);
            let names = |told: &String| told.starts_with(&format!("{option} has no effect"));
            assert!(told.as_ref().is_some_and(names), "{arguments:?}: {told:?}");
        }
        for arguments in [
            &["diagnose", "a.run"][..],
            &["diagnose", "--target", "postgres://h/d", "--duration", "5s"],
            &["diagnose", "a.run", "--log-level", "info"],
            &["diagnose", "--thresholds", "--threshold", "a=1", "--json"],
            &[
                "diagnose",
                "a.workload",
                "--prove",
                "--sandbox",
                "s",
                "-o",
                "d",
                "--goal",
                "cpu",
            ],
            &["sweep", "--script", "simple-update", "--pgbench-scale", "5"],
            &["compare", "--dry-run", "--fail-on", "regression"],
            &["prove", "a.workload", "--set", "a=b"],
        ] {
            assert_eq!(found(arguments), None, "{arguments:?}");
        }
    }

    #[test]
    fn result_that_is_shown_again_takes_no_options_of_measuring() {
        let directory = tempfile::tempdir().unwrap();
        let proof = directory.path().join("a.proof");
        std::fs::create_dir(&proof).unwrap();
        std::fs::write(proof.join("manifest.json"), r#"{"kind":"proof"}"#).unwrap();
        let sweep = directory.path().join("a.sweep");
        std::fs::create_dir(&sweep).unwrap();
        std::fs::write(sweep.join("manifest.json"), r#"{"kind":"sweep"}"#).unwrap();
        let (proof, sweep) = (proof.to_str().unwrap(), sweep.to_str().unwrap());
        let told = found(&["prove", proof, "--set", "a=b"]).unwrap();
        assert!(told.starts_with("--set has no effect"), "{told}");
        assert_eq!(found(&["prove", proof, "--json"]), None);
        let told = found(&["sweep", sweep, "--trials", "4"]).unwrap();
        assert!(told.starts_with("--trials has no effect"), "{told}");
        assert_eq!(found(&["sweep", sweep]), None);
    }
}
