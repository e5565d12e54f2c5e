//! Text on what must be read before a verdict: targets that were not restored, forgotten statistics and unequal builds.

use compare::targets::Detail;
use compare::{Side, Warning};

use crate::text::units::counted;

/// Returns the warnings that come first, as sentences.
pub(crate) fn first_texts(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().filter_map(first_text).collect()
}

/// Describes a warning that comes first.
pub(crate) fn first_text(warning: &Warning) -> Option<String> {
    match warning {
        Warning::ForgottenStatistics {
            side,
            missing,
            outdated,
            tables,
        } => Some(forgotten_text(*side, *missing, *outdated, tables)),
        Warning::UnequalBuilds { differences } => Some(builds_text(differences)),
        Warning::TargetNotRestored {
            run,
            earlier,
            changed,
            tables,
        } => Some(format!(
            "the target of the run {run} was not restored: it still had what the replay {earlier} wrote to {} ({}{}). Rows \
             that the workload inserts may have been there, and rows that it deletes gone; restore the target before each \
             replay",
            counted(*changed as u64, "table"),
            tables.join(", "),
            match changed.saturating_sub(tables.len()) {
                0 => "",
                _ => ", …",
            },
        )),
        _ => None,
    }
}

/// Returns the other warnings.
pub(crate) fn later_warnings(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    warnings.iter().filter(|one| first_text(one).is_none())
}

/// Names tables without statistics, or with old ones.
fn forgotten_text(side: Side, missing: usize, outdated: usize, tables: &[String]) -> String {
    let of = |what: &str, number: usize| {
        let number = counted(number as u64, "table");
        format!(
            "{what} statistics on {number} of the target {}",
            side.name()
        )
    };
    let what = match (missing, outdated) {
        (missing, 0) => of("no", missing),
        (0, outdated) => of("old", outdated),
        (missing, outdated) => format!(
            "{}, and old ones on {}",
            of("no", missing),
            counted(outdated as u64, "table")
        ),
    };
    let more = match (missing + outdated).saturating_sub(tables.len()) {
        0 => "",
        _ => ", …",
    };
    format!(
        "{what}: run ANALYZE, and replay again ({}{more})",
        tables.join(", ")
    )
}

/// Names the differences of the builds.
fn builds_text(differences: &[Detail]) -> String {
    let one = |detail: &Detail| {
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "?".to_owned());
        format!(
            "{} {} → {}",
            detail.what,
            side(&detail.before),
            side(&detail.after)
        )
    };
    let all: Vec<String> = differences.iter().map(one).collect();
    format!(
        "UNEQUAL BUILDS: {}. Differences may come from the build and not from the change; use the same build on both \
         sides",
        all.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_statistics_are_counted_and_named() {
        let tables = ["public.a".to_owned(), "public.b".to_owned()];
        assert_eq!(
            forgotten_text(Side::After, 12, 0, &tables),
            "no statistics on 12 tables of the target after: run ANALYZE, and replay again (public.a, public.b, …)"
        );
        assert_eq!(
            forgotten_text(Side::Before, 1, 1, &tables),
            "no statistics on 1 table of the target before, and old ones on 1 table: run ANALYZE, and replay again \
             (public.a, public.b)"
        );
    }
}
