//! The case, told: what was believed, what was measured, and the published numbers beside ours.

use lab::queue;
use lab::queue::{COMPOSITE, Index, Key, OBVIOUS, PARTIAL, Sample, SystemResult};
use report::{CaseChart, CaseLine, CaseNumber, CaseReport, quantity};
use statistics::Unit;
use study::proof::ProofNumber;

use super::super::proving;
use super::super::{file, new_report, number};
use super::{Seen, WORKLOAD, checks, diagnosed, proved, watched};

pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

pub fn bytes(count: u64) -> String {
    quantity(count as f64, Unit::Bytes)
}

pub fn ms(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

/// At how many of the looks nothing was claimed.
pub fn idle(samples: &[Sample]) -> f64 {
    let zeros = samples.iter().filter(|one| one.queued == 0).count();
    zeros as f64 / samples.len().max(1) as f64
}

/// Due and not claimed, at the first look and at the last.
pub fn stalled(samples: &[Sample]) -> (i64, i64) {
    let of = |one: Option<&Sample>| one.map_or(0, |one| one.stalled);
    (of(samples.first()), of(samples.last()))
}

/// Attempts to download, each second.
pub fn downloads_per_s(driven: &SystemResult) -> f64 {
    driven.served.requests as f64 / driven.took.as_secs_f64()
}

/// How long a claim took for its poller in the trouble, on average, in seconds.
pub fn claim_s(seen: &Seen) -> f64 {
    let pollers = seen.plan.instances as f64;
    seen.trouble.took.as_secs_f64() * pollers / seen.trouble.counts.claims.max(1) as f64
}

/// What a key costs.
pub fn costs_of(seen: &Seen, key: Key) -> Option<&queue::KeyCosts> {
    seen.keys.iter().find(|one| one.key == key)
}

/// How many times the WAL of a key that is counted up.
pub fn wal_ratio(seen: &Seen, key: Key) -> f64 {
    let of = |key: Key| costs_of(seen, key).map_or(f64::NAN, |one| one.wal_bytes as f64);
    of(key) / of(Key::Identity)
}

/// What came of an index, in a sentence's part.
pub fn verdict(seen: &Seen, index: &Index) -> String {
    proving::verdict(seen.proved.side(index))
}

fn wal_of<'s>(seen: &'s Seen, index: &Index) -> Option<&'s ProofNumber> {
    let side = seen.proved.side(index)?;
    side.numbers.iter().find(|one| one.name == "wal")
}

/// The page's contents.
pub fn view(seen: &Seen, done: Vec<String>) -> CaseReport {
    CaseReport {
        context: "An image downloader. Its instances claim links from a table, a thousand at once, fill a bounded channel, and have 64 workers each that fetch what comes out of it. In a stress test it did 1,000 downloads a second; live it did some 30. Links that were due piled up, and there was often nothing claimed: the workers starved.".to_owned(),
        hypothesis: "That it was the rate limiter, which writes to every link that it puts off (the snowplow). Raising its rate and widening its interval changed nothing; its updates, timed, cost hardly anything.".to_owned(),
        done,
        measured: measured(seen),
        cure: format!(
            "An index that serves all of the claim's condition: {} ({}). Its rival {} ({}) holds fewer rows, but they are not found in the order in which they are due, and each claim has to write to it. And {}, which comes to mind first ({}). For the key, a number that is counted up: {} of the WAL of a digest.",
            COMPOSITE.on,
            verdict(seen, &COMPOSITE),
            PARTIAL.on,
            verdict(seen, &PARTIAL),
            OBVIOUS.on,
            verdict(seen, &OBVIOUS),
            percent(1.0 / wal_ratio(seen, Key::Digest)),
        ),
        checks: checks::checks(seen),
        numbers: numbers(seen),
        charts: charts(seen),
        files: [
            (watched::RUN, "the system, watched while it worked"),
            ("postgresql.csv", "the server's log"),
            (WORKLOAD, "what was captured of it"),
            (diagnosed::RUN, "its replay, with everything looked at"),
            (diagnosed::TEXT, "the diagnosis of that replay, as a text"),
            (diagnosed::JSON, "the same, as JSON"),
            (proved::PART, "the part of the workload that the indexes were proved on"),
            (proved::PROOF, "the proof: every run, report.html and proof.json"),
            ("composite.sql", COMPOSITE.on),
            ("partial.sql", PARTIAL.on),
            ("obvious.sql", OBVIOUS.on),
        ]
        .map(|(name, what)| file(name, what))
        .into(),
        ..new_report(&queue::CASE, seen.scale, &seen.version)
    }
}

fn measured(seen: &Seen) -> Vec<String> {
    let (from, to) = stalled(&seen.trouble.samples);
    let counts = &seen.trouble.counts;
    let mut told = vec![format!(
        "A claim without an index reads all {} links: {} at least, and {} while {} instances claim. In {:.0} s {} links came in and {} were claimed, at {} of the looks nothing was claimed at all, and what was due and not claimed went from {from} to {to}.",
        seen.made.links,
        ms(seen.made.claim.as_secs_f64()),
        ms(claim_s(seen)),
        seen.plan.instances,
        seen.trouble.took.as_secs_f64(),
        counts.arrived,
        counts.claimed,
        percent(idle(&seen.trouble.samples)),
    )];
    if let Some(first) = seen.diagnosed.first() {
        let change = first.changes.first().and_then(|one| one.form.text());
        told.push(format!(
            "The diagnosis of the replay begins with: {} ({}); at most {} to win; it suggests {}",
            first.title,
            first.rule,
            percent(first.max_gain.unwrap_or_default()),
            change.as_deref().unwrap_or("nothing to try"),
        ));
    }
    if let Some(suspect) = seen.diagnosed.suspect() {
        told.push(format!(
            "The limiter put off {} of the {} links that were claimed, with {} of all statements. Asked for it, the diagnosis says: {}, at most {} to win.",
            counts.postponed,
            counts.claimed,
            percent(suspect.calls_share),
            suspect.verdict.words(),
            percent(suspect.max_gain),
        ));
    }
    let (from, to) = stalled(&seen.cured.samples);
    told.push(format!(
        "With {} the same system, with the same batch of {} and what it had left undone, went from {from} links that were due and not claimed to {to} within {:.0} s. {} links came in meanwhile, {} attempts to download were made, and the limiter put off {}.",
        COMPOSITE.on,
        seen.plan.batch,
        seen.cured.took.as_secs_f64(),
        seen.cured.counts.arrived,
        seen.cured.served.requests,
        seen.cured.counts.postponed,
    ));
    told.push(format!(
        "The indexes have their price: {}.",
        [COMPOSITE, PARTIAL, OBVIOUS]
            .iter()
            .filter_map(|index| {
                let wal = wal_of(seen, index)?;
                Some(format!(
                    "with {} the same traffic writes × {:.2} the WAL",
                    index.on,
                    wal.after / wal.before
                ))
            })
            .collect::<Vec<_>>()
            .join(", ")
    ));
    told.push(format!(
        "Of {} links that were due, four instances without FOR UPDATE SKIP LOCKED made {} of {} downloads once more than was due; with it {} of {}.",
        seen.unlocked.due,
        seen.unlocked.served.duplicates,
        seen.unlocked.served.requests,
        seen.locked.served.duplicates,
        seen.locked.served.requests
    ));
    told.push(format!(
        "An instance that was killed (SIGKILL) had {} links claimed, as far as it had said; the reaper took back {}, and {} of {} were lost.",
        seen.killed.held.unwrap_or_default(),
        seen.killed.counts.reaped,
        seen.killed.lost,
        seen.killed.due
    ));
    told.push(format!(
        "Inserts behind a checkpoint, by the kind of key: {}.",
        seen.keys
            .iter()
            .map(|one| format!(
                "{}: {} of WAL for {} rows, an index of {} ({} packed anew)",
                one.key.text(),
                bytes(one.wal_bytes),
                one.inserted,
                bytes(one.index_bytes),
                bytes(one.packed_bytes)
            ))
            .collect::<Vec<_>>()
            .join("; ")
    ));
    let migration = &seen.migration;
    told.push(format!(
        "{} images and {} references to each, from a digest to a number: {} before, {} when the statements were done, {} when the tables were packed anew (VACUUM FULL; on a live system pg_repack).",
        migration.images,
        migration.references_each,
        bytes(migration.before_bytes),
        bytes(migration.migrated_bytes),
        bytes(migration.packed_bytes)
    ));
    let amplified = &seen.amplification;
    told.push(format!(
        "A unique index on the link: {} links write {} of WAL with it and {} without, and it takes {} beside a table of {}.",
        amplified.inserted,
        bytes(amplified.unique_wal_bytes),
        bytes(amplified.plain_wal_bytes),
        bytes(amplified.index_bytes),
        bytes(amplified.table_bytes)
    ));
    told
}

fn numbers(seen: &Seen) -> Vec<CaseNumber> {
    let claim = seen
        .diagnosed
        .fact("time a call")
        .map_or(claim_s(seen), |ns| ns / 1e9);
    vec![
        number(
            "a claim without its index",
            Some("23 s 616 ms, for 1,000 links of some 13 million"),
            format!(
                "{}, for {} links of {}",
                ms(claim),
                seen.plan.batch,
                seen.made.links
            ),
            "The table is smaller and lies in memory. A claim takes as many links as make the claims fall behind by as much: alone it would get out 0.7 of what comes in, beside all else less.",
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
            seen.proved.ratio(&COMPOSITE).map_or_else(
                || "not measured".to_owned(),
                |ratio| format!("× {ratio:.2}"),
            ),
            "Published is that the backlog dropped at once.",
        ),
        number(
            "the unique index on the link beside its table",
            Some("1,841 MB beside 2,336 MB: 79 %"),
            format!(
                "{} beside {}: {}",
                bytes(seen.made.link_index_bytes),
                bytes(seen.made.table_bytes),
                percent(seen.made.link_index_bytes as f64 / seen.made.table_bytes as f64)
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

fn charts(seen: &Seen) -> Vec<CaseChart> {
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
            x_categories: None,
            durations: false,
            lines: both(&|one| one.stalled as f64),
        },
        CaseChart {
            title: "Queued: claimed and not done".to_owned(),
            unit: "links".to_owned(),
            alt_text: format!(
                "nothing at {} of the looks without the index, at {} with it",
                percent(idle(&seen.trouble.samples)),
                percent(idle(&seen.cured.samples))
            ),
            x_categories: None,
            durations: false,
            lines: both(&|one| one.queued as f64),
        },
        CaseChart {
            title: "What the limiters let through, after the rate of errors".to_owned(),
            unit: "links a second".to_owned(),
            alt_text: format!(
                "{:.0} at most, less in spells of errors",
                seen.plan.rate_per_s * seen.plan.instances as f64
            ),
            x_categories: None,
            durations: false,
            lines: both(&|one| one.target_per_s),
        },
    ]
}
