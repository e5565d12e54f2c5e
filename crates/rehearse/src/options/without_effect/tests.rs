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
        (
            &["capture", "settings", "--format", "json", "--undo"],
            "--undo",
        ),
        (
            &["inspect", "a.workload", "--json", "--by", "route"],
            "--by",
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
        &["inspect", "a.workload", "--by", "route"],
        &["inspect", "a.workload", "--json", "--sort", "calls"],
    ] {
        assert_eq!(found(arguments), None, "{arguments:?}");
    }
}

/// Splits a command line at blanks.
fn told(line: &str) -> Option<String> {
    found(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn option_without_effect_in_a_capture_is_named() {
    for (line, option) in [
        ("log a --dry-run --encrypt age1x", "--encrypt"),
        ("log a -o a.workload --format csv --prefix %m", "--prefix"),
        (
            "pcap a --dry-run --checksum-results rows",
            "--checksum-results",
        ),
        (
            "proxy --listen 0 --upstream h -o a --allow-host h",
            "--allow-host",
        ),
        (
            "proxy --listen 0 --upstream h -o a --admin-token-file f",
            "--admin-token-file",
        ),
        (
            "proxy --listen 0 --upstream h -o a --tls-cert c --tls-key k --tls-required --without-io-uring",
            "--without-io-uring",
        ),
    ] {
        let told = told(&format!("capture {line}")).unwrap_or_default();
        assert!(
            told.starts_with(&format!("{option} has no effect")),
            "{line}: {told}"
        );
    }
    for line in [
        "log a -o a.workload --format stderr --prefix %m",
        "log a --dry-run --mask random",
        "proxy --listen 0 --upstream h -o a --admin-listen 0 --allow-host h --admin-token-file f",
        "settings --format sql --undo",
    ] {
        assert_eq!(told(&format!("capture {line}")), None, "{line}");
    }
}

#[test]
fn option_without_effect_in_a_replay_is_named() {
    for (line, option) in [
        ("--dry-run --metrics 0", "--metrics"),
        ("--dry-run --observe", "--observe"),
        ("-o a.run --allow-host h", "--allow-host"),
        ("-o a.run --sample-rate 5", "--sample-rate"),
        ("-o a.run --notify https://h/x", "--notify"),
        ("-o a --against h --notify-format slack", "--notify-format"),
        ("-o a.run --profile-frequency 5", "--profile-frequency"),
        (
            "-o a.run --profile-no-task-clock",
            "--profile-no-task-clock",
        ),
        ("-o a.run --copy-delay 1s", "--copy-delay"),
        ("-o a.run --speed max --spin-us 5", "--spin-us"),
        ("-o a.run --without-io-uring", "--without-io-uring"),
        ("-o a.run --read-only --read-only-role r", "--read-only"),
        ("-o a --against h --read-only --no-restore", "--no-restore"),
    ] {
        let told = told(&format!("replay a.workload --target h {line}")).unwrap_or_default();
        assert!(
            told.starts_with(&format!("{option} has no effect")),
            "{line}: {told}"
        );
    }
    for line in [
        "--dry-run -o a.run --speed max --json",
        "-o a.run --metrics 0 --allow-host h",
        "-o a.run --observe --sample-rate 5",
        "-o a.run --profile --profile-frequency 5",
        "-o a.run --copies 2x --copy-delay 1s",
        "-o a.run --speed max --without-io-uring",
        "-o a.run --spin-us 5",
        "-o a --against h --notify https://h/x --notify-timeout 5s",
    ] {
        assert_eq!(
            told(&format!("replay a.workload --target h {line}")),
            None,
            "{line}"
        );
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
    let told = found(&["indexes", proof, "--max-candidates", "2"]).unwrap();
    assert!(told.starts_with("--max-candidates has no effect"), "{told}");
    assert_eq!(found(&["indexes", proof, "--show-literals"]), None);
    let told = found(&["sweep", sweep, "--trials", "4"]).unwrap();
    assert!(told.starts_with("--trials has no effect"), "{told}");
    assert_eq!(found(&["sweep", sweep]), None);
}
