//! Report of the case *queue*.

use report::{CaseChart, CaseLine, CaseNumber, CaseReport, quantity};
use statistics::Unit;

use super::checks::checks;
use super::measurements::{Measurements, downloads_per_s, idle_share, stalled};
use super::{
    CASE, COMPOSITE, Key, OBVIOUS, PART, PARTIAL, PROOF, Sample, SystemResult, WORKLOAD, diagnosis,
};
use crate::case::Scale;
use crate::report_parts::{files, new_report, number, percent};

pub(super) fn bytes(count: u64) -> String {
    quantity(count as f64, Unit::Bytes)
}

fn ms(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

/// Builds the report, without the steps.
pub(super) fn report(seen: &Measurements, scale: Scale, version: &str) -> CaseReport {
    CaseReport {
        context: "An image downloader. Its instances claim links from a table, a thousand at once, fill a bounded channel, and have 64 workers each that fetch what comes out of it. In a stress test it did 1,000 downloads a second; live it did some 30. Links that were due piled up, and there was often nothing claimed: the workers starved.".to_owned(),
        hypothesis: "That it was the rate limiter, which writes to every link that it puts off (the snowplow). Raising its rate and widening its interval changed nothing; its updates, timed, cost hardly anything.".to_owned(),
        measured: [claims_measured(seen), rest_measured(seen)].concat(),
        cure: format!(
            "An index that serves all of the claim's condition: {} ({}). Its rival {} ({}) holds fewer rows, but they are not found in the order in which they are due, and each claim has to write to it. And {}, which comes to mind first ({}). For the key, a number that is counted up: {} of the WAL of a digest.",
            COMPOSITE.on,
            seen.verdict_text(&COMPOSITE),
            PARTIAL.on,
            seen.verdict_text(&PARTIAL),
            OBVIOUS.on,
            seen.verdict_text(&OBVIOUS),
            percent(1.0 / seen.key_wal_ratio(Key::Digest)),
        ),
        checks: checks(seen),
        numbers: numbers(seen),
        charts: charts(seen),
        files: files([
            (diagnosis::OBSERVATION, "the system, watched while it worked"),
            ("postgresql.csv", "the server's log"),
            (WORKLOAD, "what was captured of it"),
            (diagnosis::REPLAY, "its replay, with everything looked at"),
            (diagnosis::TEXT, "the diagnosis of that replay, as a text"),
            (diagnosis::JSON, "the same, as JSON"),
            (PART, "the part of the workload that the indexes were proved on"),
            (PROOF, "the proof: every run, report.html and proof.json"),
            ("composite.sql", COMPOSITE.on),
            ("partial.sql", PARTIAL.on),
            ("obvious.sql", OBVIOUS.on),
        ]),
        ..new_report(&CASE, scale, version)
    }
}

/// Describes the claims, the diagnosis and the cure.
fn claims_measured(seen: &Measurements) -> Vec<String> {
    let (from, to) = stalled(&seen.trouble.samples);
    let counts = &seen.trouble.counts;
    let mut measured = vec![format!(
        "A claim without an index reads all {} links: {} at least, and {} while {} instances claim. In {:.0} s {} links came in and {} were claimed, at {} of the looks nothing was claimed at all, and what was due and not claimed went from {from} to {to}.",
        seen.queue.links,
        ms(seen.queue.claim.as_secs_f64()),
        ms(seen.claim_s()),
        seen.plan.instances,
        seen.trouble.took.as_secs_f64(),
        counts.arrived,
        counts.claimed,
        percent(idle_share(&seen.trouble.samples)),
    )];
    if let Some(first) = seen.diagnosis.first_finding() {
        measured.push(format!(
            "The diagnosis of the replay begins with: {} ({}); at most {} to win; it suggests {}",
            first.title,
            first.rule,
            percent(first.max_gain.unwrap_or_default()),
            seen.diagnosis
                .proposal()
                .as_deref()
                .unwrap_or("nothing to try"),
        ));
    }
    if let Some(suspect) = seen.diagnosis.suspect() {
        measured.push(format!(
            "The limiter put off {} of the {} links that were claimed, with {} of all statements. Asked for it, the diagnosis says: {}, at most {} to win.",
            counts.postponed,
            counts.claimed,
            percent(suspect.calls_share),
            suspect.verdict.words(),
            percent(suspect.max_gain),
        ));
    }
    let (from, to) = stalled(&seen.cured.samples);
    measured.push(format!(
        "With {} the same system, with the same batch of {} and what it had left undone, went from {from} links that were due and not claimed to {to} within {:.0} s. {} links came in meanwhile, {} attempts to download were made, and the limiter put off {}.",
        COMPOSITE.on,
        seen.plan.batch,
        seen.cured.took.as_secs_f64(),
        seen.cured.counts.arrived,
        seen.cured.served.requests,
        seen.cured.counts.postponed,
    ));
    measured.push(format!(
        "The indexes have their price: {}.",
        [COMPOSITE, PARTIAL, OBVIOUS]
            .iter()
            .filter_map(|index| {
                let ratio = seen.proof_wal_ratio(index)?;
                Some(format!(
                    "with {} the same traffic writes × {ratio:.2} the WAL",
                    index.on
                ))
            })
            .collect::<Vec<_>>()
            .join(", ")
    ));
    measured
}

/// Describes the races, the kill, and the keys.
fn rest_measured(seen: &Measurements) -> Vec<String> {
    let keys: Vec<String> = seen
        .keys
        .iter()
        .map(|one| {
            format!(
                "{}: {} of WAL for {} rows, an index of {} ({} packed anew)",
                one.key.text(),
                bytes(one.wal_bytes),
                one.inserted,
                bytes(one.index_bytes),
                bytes(one.packed_bytes)
            )
        })
        .collect();
    let migration = &seen.migration;
    let amplified = &seen.amplification;
    vec![
        format!(
            "Of {} links that were due, four instances without FOR UPDATE SKIP LOCKED made {} of {} downloads once more than was due; with it {} of {}.",
            seen.unlocked.due,
            seen.unlocked.served.duplicates,
            seen.unlocked.served.requests,
            seen.locked.served.duplicates,
            seen.locked.served.requests
        ),
        format!(
            "An instance that was killed (SIGKILL) had {} links claimed, as far as it had said; the reaper took back {}, and {} of {} were lost.",
            seen.killed.held.unwrap_or_default(),
            seen.killed.counts.reaped,
            seen.killed.lost,
            seen.killed.due
        ),
        format!(
            "Inserts after a checkpoint, by the kind of key: {}.",
            keys.join("; ")
        ),
        format!(
            "{} images and {} references to each, from a digest to a number: {} before, {} when the statements were done, {} when the tables were packed anew (VACUUM FULL; on a live system pg_repack).",
            migration.images,
            migration.references_each,
            bytes(migration.before_bytes),
            bytes(migration.migrated_bytes),
            bytes(migration.packed_bytes)
        ),
        format!(
            "A unique index on the link: {} links write {} of WAL with it and {} without, and it takes {}, its table {}.",
            amplified.inserted,
            bytes(amplified.unique_wal_bytes),
            bytes(amplified.plain_wal_bytes),
            bytes(amplified.index_bytes),
            bytes(amplified.table_bytes)
        ),
    ]
}

fn numbers(seen: &Measurements) -> Vec<CaseNumber> {
    let fact = seen.diagnosis.fact("time a call");
    let claim_s = fact.map_or(seen.claim_s(), |ns| ns / 1e9);
    vec![
        number(
            "a claim without its index",
            Some("23 s 616 ms, for 1,000 links of some 13 million"),
            format!(
                "{}, for {} links of {}",
                ms(claim_s),
                seen.plan.batch,
                seen.queue.links
            ),
            "The table is smaller and lies in memory. A claim takes as many links as make the claims too slow: alone it would get out 0.7 of what comes in, with all else at the same time less.",
        ),
        number(
            "downloads a second, starved",
            Some("some 30"),
            format!("{:.0}", downloads_per_s(&seen.trouble)),
            "As many as the claims let through; how many that is was chosen with the batch.",
        ),
        number(
            "downloads a second, with the index",
            Some("1,000 (the stress test, before the condition was added)"),
            format!("{:.0}", downloads_per_s(&seen.cured)),
            "Links are as many as come in and were left over; programs, links' server and PostgreSQL share this machine's processors.",
        ),
        number(
            "the server's processor time with the composite index",
            None,
            seen.cpu_ratio(&COMPOSITE).map_or_else(
                || "not measured".to_owned(),
                |ratio| format!("× {ratio:.2}"),
            ),
            "Published is that the backlog dropped at once.",
        ),
        number(
            "the unique index on the link, compared with its table",
            Some("1,841 MB, and 2,336 MB: 79 %"),
            format!(
                "{}, and {}: {}",
                bytes(seen.queue.link_index_bytes),
                bytes(seen.queue.table_bytes),
                percent(seen.queue.link_index_bytes as f64 / seen.queue.table_bytes as f64)
            ),
            "How long links are, and what else is in a row.",
        ),
        number(
            "from a digest to a number, packed anew",
            Some("disk use and CPU fell at each key; 33 → 8 bytes in each foreign key"),
            format!(
                "{} → {}",
                bytes(seen.migration.before_bytes),
                bytes(seen.migration.packed_bytes)
            ),
            "Theirs has many more tables that refer to the key.",
        ),
    ]
}

fn charts(seen: &Measurements) -> Vec<CaseChart> {
    let line = |name: &str, driven: &SystemResult, of: &dyn Fn(&Sample) -> f64| CaseLine {
        name: name.to_owned(),
        points: driven
            .samples
            .iter()
            .map(|one| (one.at.as_secs_f64(), of(one)))
            .collect(),
    };
    let both = |of: &dyn Fn(&Sample) -> f64| {
        vec![
            line("without the index", &seen.trouble, of),
            line("with it, from where that was left", &seen.cured, of),
        ]
    };
    let (before, after) = (stalled(&seen.trouble.samples), stalled(&seen.cured.samples));
    vec![
        CaseChart {
            title: "Stalled: due and not claimed".to_owned(),
            unit: "links".to_owned(),
            alt_text: format!(
                "without the index from {} to {}, with it from {} to {}",
                before.0, before.1, after.0, after.1
            ),
            lines: both(&|one| one.stalled as f64),
            ..CaseChart::default()
        },
        CaseChart {
            title: "Queued: claimed and not done".to_owned(),
            unit: "links".to_owned(),
            alt_text: format!(
                "nothing at {} of the looks without the index, at {} with it",
                percent(idle_share(&seen.trouble.samples)),
                percent(idle_share(&seen.cured.samples))
            ),
            lines: both(&|one| one.queued as f64),
            ..CaseChart::default()
        },
        CaseChart {
            title: "What the limiters let through, after the rate of errors".to_owned(),
            unit: "links a second".to_owned(),
            alt_text: format!(
                "{:.0} at most, less in spells of errors",
                seen.plan.rate_per_s * seen.plan.instances as f64
            ),
            lines: both(&|one| one.target_per_s),
            ..CaseChart::default()
        },
    ]
}
