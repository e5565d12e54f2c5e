//! Index advice and proved diagnoses through the command line, on the queue of a downloader. Its
//! claim query lacks an index, and the two possible indexes have different costs.

mod experiments;
mod settings_and_space;

use std::fmt::Write as _;
use std::path::Path;

use postgres::{Client, NoTls};
use serde_json::Value;

use super::proving::{Named, validated_as};
use super::rehearse;

/// Two links of five are due, and one of a hundred is due and still referenced; two of a hundred are referenced and not
/// due. Pages have room for one more version of each row, so that an update may be HOT.
fn schema(links: u32) -> String {
    format!(
        "
    CREATE TABLE image_links (id bigint PRIMARY KEY, image_link text NOT NULL, download_after timestamptz,
        queued_at timestamptz, referenced_at timestamptz NOT NULL) WITH (fillfactor = 45, autovacuum_enabled = off);
    INSERT INTO image_links SELECT i, 'https://images.example/' || i,
        CASE WHEN i % 5 > 1 THEN now() + i * interval '1 minute' ELSE now() - i * interval '1 second' END, NULL,
        now() - i * interval '1 second' - CASE WHEN i % 100 IN (0, 3, 4) THEN interval '0' ELSE interval '30 days' END
        FROM generate_series(1, {links}) i;
    CREATE INDEX image_links_due ON image_links (download_after);
    VACUUM ANALYZE image_links;
    CHECKPOINT"
    )
}

const CLAIM: &str = "UPDATE image_links SET queued_at = now() FROM (SELECT id FROM image_links \
    WHERE download_after < now() AND queued_at IS NULL AND referenced_at > now() - interval '36 hours' \
    ORDER BY download_after LIMIT 100 FOR UPDATE SKIP LOCKED) due \
    WHERE image_links.id = due.id RETURNING image_links.id, image_links.image_link";

/// Captures a log with the prefix `%m [%p] `. Returns the path of the workload.
fn captured(at: &dyn Fn(&str) -> String, name: &str, log: &str) -> String {
    let (file, workload) = (at(&format!("{name}.log")), at(&format!("{name}.workload")));
    std::fs::write(&file, log).unwrap();
    let command = [
        "capture", "log", &file, "--prefix", "%m [%p] ", "-o", &workload,
    ];
    let made = rehearse(&command);
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    workload
}

/// Creates three pollers that claim, and readers, within about a second.
fn workload(at: &dyn Fn(&str) -> String) -> String {
    let mut log = String::new();
    for session in 0..3 {
        writeln!(
            log,
            "2026-03-01 09:00:00.000 UTC [{}] LOG:  connection authorized: user=postgres database=postgres",
            100 + session
        )
        .unwrap();
    }
    for step in 0..45 {
        let statement = match step % 3 {
            2 => format!(
                "SELECT image_link FROM image_links WHERE id = {}",
                step * 7 + 1
            ),
            _ => CLAIM.to_owned(),
        };
        writeln!(
            log,
            "2026-03-01 09:00:00.{:03} UTC [{}] LOG:  statement: {statement}",
            20 + step * 20,
            100 + step % 3
        )
        .unwrap();
    }
    captured(at, "queue", &log)
}

fn queue(what: &str, links: u32) -> Named {
    let sandbox = Named::up(what);
    let mut client = Client::connect(&sandbox.url, NoTls).unwrap();
    for statement in schema(links).split(';') {
        client.batch_execute(statement).unwrap();
    }
    sandbox
}

fn as_it_was_found(sandbox: &Named) {
    let claimed = "SELECT count(*) FROM image_links WHERE queued_at IS NOT NULL";
    assert_eq!(sandbox.ask(claimed), 0);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = 'image_links'";
    assert_eq!(sandbox.ask(indexes), 2);
    let extensions =
        "SELECT count(*) FROM pg_extension WHERE extname IN ('hypopg', 'pg_stat_statements')";
    assert_eq!(sandbox.ask(extensions), 0);
}

fn by<'v>(all: &'v Value, field: &str, value: &str) -> &'v Value {
    let mut all_of = all.as_array().unwrap().iter();
    let found = all_of.find(|one| one[field] == value);
    found.unwrap_or_else(|| panic!("no {value} in {all:#}"))
}

const COMPOSITE: &str = "(download_after, referenced_at)";
const PARTIAL: &str = "(referenced_at, download_after) WHERE queued_at IS NULL";

#[test]
fn the_indexes_of_a_queue_are_found_among_their_permutations_and_measured() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sandbox = queue("advising", 24_000);
    let workload = workload(&at);
    let given = [
        "indexes",
        &workload,
        "--sandbox",
        &sandbox.name,
        "-o",
        &at("queue.proof"),
        "--max-candidates",
        "6",
        "--no-hypopg",
        "--goal",
        "cpu",
        "--blocks",
        "2",
        "--noise-runs",
        "1",
        "--time-budget",
        "30m",
        "--seed",
        "5",
        "--json",
    ];
    let done = rehearse(&given);
    let view = validated_as("prove", &done);
    let candidates = &view["candidates"];
    // Every order of both columns, whole and partial, was shown to the planner.
    for shape in [
        COMPOSITE,
        PARTIAL,
        "(referenced_at, download_after)",
        "(download_after, referenced_at) WHERE queued_at IS NULL",
    ] {
        let one = by(candidates, "shape", shape);
        assert_eq!(one["screened"], "built", "{one:#}");
        assert_eq!(one["refused"], Value::Null, "{one:#}");
        assert!(one["bytes"].as_u64().unwrap() > 0, "{one:#}");
    }
    let (composite, partial) = (
        by(candidates, "shape", COMPOSITE),
        by(candidates, "shape", PARTIAL),
    );
    assert_eq!(composite["updated"], serde_json::json!([]));
    assert_eq!(partial["updated"], serde_json::json!(["queued_at"]));
    assert_eq!(composite["is_classical"], true);
    assert_eq!(partial["is_classical"], false);

    let side = |candidate: &Value| -> &Value {
        let name = candidate["proved_as"].as_str();
        let name = name.unwrap_or_else(|| panic!("not measured: {candidates:#}"));
        by(&view["sides"], "name", name)
    };
    let (composite, partial) = (side(composite), side(partial));
    both_read_less(composite, partial);

    for file in ["candidates.json", "look.run", "report.html", "proof.json"] {
        assert!(Path::new(&at("queue.proof")).join(file).exists(), "{file}");
    }
    as_it_was_found(&sandbox);
    // Shown again, without a server.
    let shown = rehearse(&["indexes", &at("queue.proof")]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("8 candidates shown to the planner")
            && text.contains(PARTIAL)
            && text.contains("not HOT: queued_at"),
        "{text}"
    );
    assert_eq!(shown.status.code(), done.status.code(), "{text}");
    // One that is there already is not made again.
    let refused = rehearse(&given);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

/// Checks what was measured with each of the two indexes.
fn both_read_less(composite: &Value, partial: &Value) {
    let number = |side: &Value, name: &str, when: &str| -> f64 {
        by(&side["numbers"], "name", name)[when].as_f64().unwrap()
    };
    for side in [composite, partial] {
        assert!(["won", "lost", "same", "not_proven"].contains(&side["verdict"].as_str().unwrap()));
        for name in ["reads", "writes", "wal", "indexes"] {
            assert!(number(side, name, "after") > 0.0, "{name}: {side:#}");
        }
        // Reading less is what both are for.
        let (before, after) = (
            number(side, "blocks", "before"),
            number(side, "blocks", "after"),
        );
        assert!(after < before * 0.75, "{before} {after}");
        assert!(number(side, "indexes", "after") > number(side, "indexes", "before"));
    }
    let blocks = |side: &Value| number(side, "blocks", "after");
    assert!(
        blocks(partial) < blocks(composite),
        "{partial:#} {composite:#}"
    );
    // What the claim sets is in the condition of the one, and in nothing of the other.
    assert!(number(composite, "hot", "before") > 0.9, "{composite:#}");
    assert!(number(composite, "hot", "after") > 0.9, "{composite:#}");
    assert!(number(partial, "hot", "after") < 0.1, "{partial:#}");
    assert_eq!(by(&partial["numbers"], "name", "hot")["moved"], "worse");
}

#[test]
fn what_is_found_is_proved_and_what_cannot_be_tried_stays_a_belief() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    // Enough rows that the claim's useless reads are most of the server's work.
    let sandbox = queue("proving-findings", 96_000);
    let workload = workload(&at);
    let done = rehearse(&[
        "diagnose",
        &workload,
        "--prove",
        "--sandbox",
        &sandbox.name,
        "-o",
        &at("round"),
        "--goal",
        "cpu",
        "--blocks",
        "6",
        "--noise-runs",
        "1",
        "--time-budget",
        "30m",
        "--seed",
        "7",
        // Three sessions within a second are no churn here.
        "--threshold",
        "churn-connections-per-second=100",
        "--json",
    ]);
    let view = validated_as("diagnose", &done);
    assert_eq!(done.status.code(), Some(1), "{view:#}");
    let proofs = &view["proofs"];
    let found = by(proofs, "rule", "missing-index");
    assert_eq!(found["verdict"], "won", "{proofs:#}");
    let changes = found["changes"].as_array().unwrap();
    let won = changes.iter().find(|one| one["verdict"] == "won").unwrap();
    assert!(
        won["name"]
            .as_str()
            .unwrap()
            .starts_with("CREATE INDEX ON public.image_links"),
        "{won:#}"
    );
    assert!(won["effect"]["high"].as_f64().unwrap() < 1.0, "{won:#}");
    let proof = found["proof"].as_str().unwrap();
    assert!(Path::new(proof).join("report.html").exists(), "{proof}");
    // The claim reads much for a row, and the rule that says so leaves the index to the other.
    let believed = by(proofs, "rule", "claims");
    assert!(believed["verdict"].is_null(), "{proofs:#}");
    assert!(
        believed["not_measured_reason"]
            .as_str()
            .unwrap()
            .contains("by people"),
        "{believed:#}"
    );
    for file in ["look.run", "diagnosis.json"] {
        assert!(Path::new(&at("round")).join(file).exists(), "{file}");
    }
    as_it_was_found(&sandbox);
}

#[test]
fn what_makes_no_sense_of_an_advice_is_said_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let workload = workload(&at);
    let refused = |arguments: &[&str], sentence: &str| {
        let said = rehearse(arguments);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(text.contains(sentence), "{text}");
    };
    let output = at("a.proof");
    refused(
        &["indexes", &workload],
        "nothing says where the result goes",
    );
    refused(
        &["indexes", &workload, "-o", &output],
        "nothing says where it is measured",
    );
    refused(
        &["indexes", &workload, "-o", &output, "--threshold", "rows=1"],
        "there is none called 'rows'",
    );
    refused(&["diagnose", &workload, "--prove"], "--sandbox");
    assert!(!Path::new(&output).exists());
}
