//! Replays on two servers in pairs, before and after a change.

use std::path::Path;

use postgres::{Client, NoTls};

use super::super::webhook_receiver::Receiver;
use super::{Fixture, ITEMS, Named, command, rehearse, validated_as};

#[test]
fn replays_in_pairs_restore_both_sandboxes_and_compare_their_runs() {
    let fixture = Fixture::new("pairs-before");
    let after = Named::up("pairs-after");
    Client::connect(&after.url, NoTls)
        .unwrap()
        .batch_execute(ITEMS)
        .unwrap();
    let output = fixture.at("pairs");
    let [before_side, after_side] =
        [&fixture.sandbox, &after].map(|one| format!("sandbox:{}", one.name));
    let sides = ["--against", &before_side, "--against", &after_side];
    let given = [
        &["replay", &fixture.workload, "--as-database", "postgres"][..],
        &sides,
        &["--runs", "2", "--seed", "1", "--json", "-o", &output],
    ];
    let receiver = Receiver::start(&["200 OK"]);
    let done = command(&given.concat())
        .args(["--notify", &receiver.origin])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let view = validated_as("compare", &done);
    let message = receiver.requests()[0].json();
    assert_eq!(message["sources"].as_array().unwrap().len(), 4);
    for side in ["before", "after"] {
        let runs = view[side]["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2, "{view:#}");
        for (run, number) in runs.iter().zip(1..) {
            assert_eq!(run["done"], 100, "{run:#}");
            assert!(Path::new(&format!("{output}/{side}-{number}.run")).is_dir());
        }
    }
    // Each replay found the same state, and left nothing.
    assert_eq!(view["errors"], serde_json::json!([]));
    for sandbox in [&fixture.sandbox, &after] {
        assert_eq!(sandbox.ask("SELECT count(*) FROM events"), 0);
    }
    let notes = String::from_utf8(done.stderr).unwrap();
    assert!(notes.contains("seed 1"), "{notes}");
    let command =
        format!("rehearse compare --before {output}/before-1.run {output}/before-2.run --after");
    assert!(notes.contains(&command), "{notes}");
    // The order is random within each pair: no side came first in both.
    let turns: Vec<&str> = notes
        .lines()
        .filter(|line| line.starts_with("Pair "))
        .collect();
    assert_eq!(turns.len(), 4, "{notes}");
    for pair in turns.chunks(2) {
        assert_ne!(pair[0], pair[1]);
    }
    assert_interrupted_pairs_are_continued(&given.concat(), &output);
    assert_pairs_without_sense_are_refused(&fixture);
}

/// Removes a run of the second pair, and continues with a third one and a condition that holds.
fn assert_interrupted_pairs_are_continued(command: &[&str], output: &str) {
    let run = |side: &str, pair: u32| format!("{output}/{side}-{pair}.run");
    let changed = |side: &str, pair: u32| {
        let manifest = Path::new(&run(side, pair)).join("manifest.json");
        std::fs::metadata(manifest).unwrap().modified().unwrap()
    };
    let again = rehearse(command);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("--continue"));
    std::fs::remove_dir_all(run("before", 2)).unwrap();
    let times = [changed("after", 1), changed("after", 2)];
    let more: Vec<&str> = command
        .iter()
        .map(|word| if *word == "2" { "3" } else { *word })
        .collect();
    let continued = [&more[..], &["--continue", "--fail-on", "calls > 0"]].concat();
    let refused = [&continued[..], &["--fail-on", "nonsense > 0"]].concat();
    assert_eq!(rehearse(&refused).status.code(), Some(2));
    let done = rehearse(&continued);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let view = validated_as("compare", &done);
    assert_eq!(view["unit"], "pair");
    assert_eq!(view["before"]["runs"].as_array().unwrap().len(), 3);
    // Both sides of the pair that was not complete are replayed anew.
    let notes = String::from_utf8_lossy(&done.stderr);
    assert!(notes.contains("Complete already: pair 1."), "{notes}");
    assert_eq!(changed("after", 1), times[0]);
    assert_ne!(changed("after", 2), times[1]);
    let other = [&more[..], &["--continue", "--spin-us", "7"]].concat();
    let other = rehearse(&other);
    let message = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{message}");
    assert!(message.contains("spin_us"), "{message}");
}

fn assert_pairs_without_sense_are_refused(fixture: &Fixture) {
    let sandbox = format!("sandbox:{}", fixture.sandbox.name);
    let url = &fixture.sandbox.url;
    // Another text for the same database.
    let separator = if url.contains('?') { '&' } else { '?' };
    let same = &format!("{url}{separator}application_name=other");
    let output = fixture.at("refused");
    for (sides, why) in [
        (vec!["--against", &sandbox], "two servers"),
        (
            vec!["--against", &sandbox, "--against", &sandbox],
            "rehearse prove",
        ),
        (vec!["--against", url, "--against", url], "give two copies"),
        (
            vec!["--against", url, "--against", same],
            "are one database",
        ),
        (
            vec!["--target", url, "--against", &sandbox],
            "are one server",
        ),
        (
            vec![
                "--set-role",
                "--target",
                "postgres://localhost:1/shop",
                "--against",
                &sandbox,
            ],
            "--as-user",
        ),
    ] {
        let given = [
            &["replay", &*fixture.workload][..],
            &sides,
            &["-o", &output],
        ];
        let refused = rehearse(&given.concat());
        let message = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.contains(why), "{why}: {message}");
        assert!(!Path::new(&output).exists());
    }
}
