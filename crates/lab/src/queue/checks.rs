//! Checks of the case *queue*.

use compare::proof::Verdict;
use diagnose::SuspectVerdict;
use report::CaseCheck;

use super::measurements::{Measurements, downloads_per_s, idle_share, stalled};
use super::story::bytes;
use super::{COMPOSITE, Key, OBVIOUS};
use crate::report_parts::{check, finding_text, percent};

/// Smallest share of samples without claimed links, as in the diagnosis (`queue-idle-share`).
const IDLE_MIN: f64 = 0.2;
/// Smallest factor by which the index increases downloads.
const DOWNLOADS_MIN: f64 = 1.5;
/// Smallest factor by which random keys write more WAL than sequential keys.
const RANDOM_KEY_WAL_MIN: f64 = 4.0;

/// Returns the checks.
pub(super) fn checks(seen: &Measurements) -> Vec<CaseCheck> {
    let mut all = vec![queue_check(seen)];
    all.extend(diagnosis_checks(seen));
    all.extend(index_checks(seen));
    all.extend(claim_checks(seen));
    all.extend(key_checks(seen));
    all
}

fn queue_check(seen: &Measurements) -> CaseCheck {
    let samples = &seen.trouble.samples;
    let (from, to) = stalled(samples);
    let share = idle_share(samples);
    check(
        "without the index nothing is claimed, again and again, while what is due grows",
        share >= IDLE_MIN && to > from,
        format!(
            "queued is 0 at {} of {} looks; stalled goes from {from} to {to}",
            percent(share),
            samples.len()
        ),
    )
}

fn diagnosis_checks(seen: &Measurements) -> [CaseCheck; 3] {
    let first = seen.diagnosis.first_finding();
    let proposal = seen.diagnosis.proposal().unwrap_or_default();
    let suspect = seen.diagnosis.suspect();
    let counts = &seen.trouble.counts;
    [
        check(
            "the diagnosis's first finding is the claim's index, without being told",
            first.is_some_and(|one| {
                one.rule == "missing-index"
                    && one
                        .subject
                        .name
                        .starts_with("update image_links set queued_at = now() from")
            }) && proposal.contains(COMPOSITE.on),
            finding_text(first, |_| format!(": {proposal}")),
        ),
        check(
            "the diagnosis of the system itself, watched while it works, says that its workers starve",
            seen.starved.is_some(),
            seen.starved
                .clone()
                .unwrap_or_else(|| "not found".to_owned()),
        ),
        check(
            "the limiter, whom everybody suspected, is cleared",
            suspect.is_some_and(|one| one.verdict == SuspectVerdict::Cleared)
                && counts.postponed > 0,
            match suspect {
                Some(one) => format!(
                    "it put off {} of {} links that were claimed; {}: at most {} to win",
                    counts.postponed,
                    counts.claimed,
                    one.verdict.words(),
                    percent(one.max_gain)
                ),
                None => "it was not asked for".to_owned(),
            },
        ),
    ]
}

fn index_checks(seen: &Measurements) -> [CaseCheck; 3] {
    let (before, after) = stalled(&seen.cured.samples);
    let (slow, fast) = (downloads_per_s(&seen.trouble), downloads_per_s(&seen.cured));
    let ratio = |index| seen.cpu_ratio(index).unwrap_or(f64::NAN);
    [
        check(
            "the composite index is proved",
            seen.side(&COMPOSITE)
                .is_some_and(|side| side.verdict == Verdict::Won),
            seen.verdict_text(&COMPOSITE),
        ),
        check(
            "the index that comes to mind first does not do what the composite one does",
            ratio(&OBVIOUS) > ratio(&COMPOSITE),
            seen.verdict_text(&OBVIOUS),
        ),
        check(
            "with the composite index the backlog falls, at the same batch and with the same limiter",
            after * 2 < before && fast > slow * DOWNLOADS_MIN,
            format!(
                "stalled goes from {before} to {after}; {fast:.0} attempts a second compared with {slow:.0} without it, while {} links came in and {} were put off",
                seen.cured.counts.arrived, seen.cured.counts.postponed
            ),
        ),
    ]
}

fn claim_checks(seen: &Measurements) -> [CaseCheck; 4] {
    let twice = [
        &seen.trouble.served,
        &seen.cured.served,
        &seen.locked.served,
    ]
    .map(|served| served.duplicates);
    let killed = &seen.killed;
    let expected = seen.queue.links / 1_000;
    [
        check(
            "with SKIP LOCKED no link is downloaded twice",
            twice == [0; 3] && seen.locked.lost == 0,
            format!(
                "{} of {} requests",
                twice.iter().sum::<u64>(),
                seen.trouble.served.requests
                    + seen.cured.served.requests
                    + seen.locked.served.requests
            ),
        ),
        check(
            "without it some are",
            seen.unlocked.served.duplicates > 0,
            format!(
                "{} of {} requests",
                seen.unlocked.served.duplicates, seen.unlocked.served.requests
            ),
        ),
        check(
            "no link is lost when an instance is killed",
            killed.lost == 0
                && killed.held.is_some_and(|held| held > 0)
                && killed.counts.reaped > 0,
            format!(
                "{} of {} lost; it had claimed {}, and {} were taken back",
                killed.lost,
                killed.due,
                killed.held.unwrap_or_default(),
                killed.counts.reaped
            ),
        ),
        check(
            "what nobody referenced for a week is deleted",
            seen.trouble.counts.expired == u64::from(expected),
            format!("{} of {expected} links", seen.trouble.counts.expired),
        ),
    ]
}

fn key_checks(seen: &Measurements) -> [CaseCheck; 4] {
    let digest = seen.key_wal_ratio(Key::Digest);
    let timed = seen.key_wal_ratio(Key::TimeOrdered);
    let index = |key| seen.key_costs(key).map_or(0, |one| one.index_bytes);
    let migration = &seen.migration;
    let amplified = &seen.amplification;
    [
        check(
            "random keys write at least 4 times the WAL of those that are counted up",
            digest >= RANDOM_KEY_WAL_MIN && index(Key::Digest) > index(Key::Identity),
            format!(
                "{digest:.1} times; indexes of {} and {}",
                bytes(index(Key::Digest)),
                bytes(index(Key::Identity))
            ),
        ),
        check(
            "keys that are ordered by time do not",
            timed < digest / 2.0,
            format!(
                "{timed:.1} times; an index of {}",
                bytes(index(Key::TimeOrdered))
            ),
        ),
        check(
            "the new key gives its room back only when the tables are packed anew",
            migration.packed_bytes < migration.before_bytes
                && migration.migrated_bytes > migration.packed_bytes,
            format!(
                "{} → {} → {}",
                bytes(migration.before_bytes),
                bytes(migration.migrated_bytes),
                bytes(migration.packed_bytes)
            ),
        ),
        check(
            "a unique index on the link multiplies what a row writes",
            amplified.unique_wal_bytes > 2 * amplified.plain_wal_bytes,
            format!(
                "{} of WAL compared with {}",
                bytes(amplified.unique_wal_bytes),
                bytes(amplified.plain_wal_bytes)
            ),
        ),
    ]
}
