//! What had to be seen.

use compare::proof::Verdict;
use diagnose::SuspectVerdict;
use lab::queue::{COMPOSITE, Key, OBVIOUS, SystemResult};
use report::CaseCheck;

use super::super::check;
use super::Seen;
use super::story::{bytes, costs_of, idle, percent, stalled, verdict, wal_ratio};

/// Nothing is claimed at this share of the looks or more: what the diagnosis goes by, too (`queue-idle-share`).
const IDLE: f64 = 0.2;
/// So many times as many downloads a second are attempted, at least, where the claim was what held them up.
const MORE: f64 = 1.5;
/// What the issue of the case asks for.
const WAL_TIMES: f64 = 4.0;

/// All of it.
pub fn checks(seen: &Seen) -> Vec<CaseCheck> {
    let mut all = of_the_queue(seen);
    all.extend(of_the_index(seen));
    all.extend(of_claims(seen));
    all.extend(of_keys(seen));
    all
}

fn of_the_queue(seen: &Seen) -> Vec<CaseCheck> {
    let (from, to) = stalled(&seen.trouble.samples);
    let share = idle(&seen.trouble.samples);
    vec![check(
        "without the index nothing is claimed, again and again, while what is due grows",
        share >= IDLE && to > from,
        format!(
            "queued is 0 at {} of {} looks; stalled goes from {from} to {to}",
            percent(share),
            seen.trouble.samples.len()
        ),
    )]
}

fn of_the_index(seen: &Seen) -> Vec<CaseCheck> {
    let diagnosed = &seen.diagnosed;
    let first = diagnosed.first();
    let change = first
        .and_then(|one| one.changes.first())
        .and_then(|one| one.form.text())
        .unwrap_or_default();
    let suspect = diagnosed.suspect();
    let (before, after) = stalled(&seen.cured.samples);
    let per_s = |driven: &SystemResult| driven.served.requests as f64 / driven.took.as_secs_f64();
    let (slow, fast) = (per_s(&seen.trouble), per_s(&seen.cured));
    let ratio = |index| seen.proved.ratio(index).unwrap_or(f64::NAN);
    vec![
        check(
            "the diagnosis's first finding is the claim's index, without being told",
            first.is_some_and(|one| {
                one.rule == "missing-index"
                    && one
                        .subject
                        .name
                        .starts_with("update image_links set queued_at = now() from")
            }) && change.contains(COMPOSITE.on),
            match first {
                Some(one) => format!("{}: {}: {change}", one.rule, one.title),
                None => "nothing was found".to_owned(),
            },
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
                && seen.trouble.counts.postponed > 0,
            match suspect {
                Some(one) => format!(
                    "it put off {} of {} links that were claimed; {}: at most {} to win",
                    seen.trouble.counts.postponed,
                    seen.trouble.counts.claimed,
                    one.verdict.words(),
                    percent(one.max_gain)
                ),
                None => "it was not asked for".to_owned(),
            },
        ),
        check(
            "the composite index is proved",
            seen.proved
                .side(&COMPOSITE)
                .is_some_and(|side| side.verdict == Verdict::Won),
            verdict(seen, &COMPOSITE),
        ),
        check(
            "the index that comes to mind first does not do what the composite one does",
            ratio(&OBVIOUS) > ratio(&COMPOSITE),
            verdict(seen, &OBVIOUS),
        ),
        check(
            "with the composite index the backlog falls, at the same batch and with the same limiter",
            after * 2 < before && fast > slow * MORE,
            format!(
                "stalled goes from {before} to {after}; {fast:.0} attempts a second beside {slow:.0} without it, while {} links came in and {} were put off",
                seen.cured.counts.arrived, seen.cured.counts.postponed
            ),
        ),
    ]
}

fn of_claims(seen: &Seen) -> Vec<CaseCheck> {
    let twice = [
        &seen.trouble.served,
        &seen.cured.served,
        &seen.locked.served,
    ]
    .map(|served| served.duplicates);
    let killed = &seen.killed;
    let expected = seen.made.links / 1_000;
    vec![
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

fn of_keys(seen: &Seen) -> Vec<CaseCheck> {
    let digest = wal_ratio(seen, Key::Digest);
    let timed = wal_ratio(seen, Key::TimeOrdered);
    let index = |key| costs_of(seen, key).map_or(0, |one| one.index_bytes);
    let migration = &seen.migration;
    let amplified = &seen.amplification;
    vec![
        check(
            "random keys write at least 4 times the WAL of those that are counted up",
            digest >= WAL_TIMES && index(Key::Digest) > index(Key::Identity),
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
                "{} of WAL beside {}",
                bytes(amplified.unique_wal_bytes),
                bytes(amplified.plain_wal_bytes)
            ),
        ),
    ]
}
