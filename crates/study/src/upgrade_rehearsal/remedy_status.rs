//! Rules of what replays with all remedies show of a statement that is worse.

use super::MARGIN;
use crate::proof::ProofSideReport;
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedyKind, RemedyStatus, TrialWork, UpgradeRegression,
    has_more_blocks, is_near, may_be_worse,
};

/// Largest part of a slowdown of a statement alone that a remedy may leave, on the scale of logarithms.
const LEFT_ALONE_MAX: f64 = 0.25;

/// Returns what the replays with all remedies show of a statement.
pub(super) fn status(
    regression: &UpgradeRegression,
    side: &ProofSideReport,
    other_rows: u64,
) -> RemedyStatus {
    let mut slower = side.slower.iter().chain(&side.suspected);
    let is_slower = slower.any(|one| one.fingerprint.to_string() == regression.fingerprint);
    match side.blocks {
        0 if regression.remedy.is_some() => RemedyStatus::Screened,
        0 => regression.status,
        _ => replayed_status(regression, is_slower, other_rows > 0),
    }
}

/// Returns the status after replays. That a statement was not found slower proves nothing.
fn replayed_status(
    regression: &UpgradeRegression,
    is_slower: bool,
    has_other_rows: bool,
) -> RemedyStatus {
    let was_slower = matches!(
        regression.sign,
        RegressionSign::Slower | RegressionSign::Suspected
    );
    let limit = 1.0 + MARGIN;
    let is_undone = |after: MeasuredFactor| match regression.remedy {
        Some(_) => after.undoes(regression.before, limit),
        None => after.is_within(limit),
    };
    let excludes_half = |after: MeasuredFactor| match (regression.sign, &regression.remedy) {
        // No slowdown was shown that could be halved.
        (RegressionSign::Suspected, Some(_)) => after.is_bounded(regression.before),
        (sign, None) => after.refutes(regression.before, limit, sign == RegressionSign::Slower),
        _ => after.halves(regression.before, limit),
    };
    // A statement that is rare in each run is not found slower, although its interval may show it.
    let is_clearly_slower = regression.after.is_some_and(|after| after.exceeds(limit));
    let was_of_slowest = (regression.before).is_some_and(|before| before.is_of_slowest());
    let is_gone = !is_slower
        && !is_clearly_slower
        && (regression.after.is_some_and(is_undone)
            || does_old_work(regression) && regression.after.is_some_and(excludes_half));
    let is_judged = was_slower || regression.sign == RegressionSign::Work;
    let Some(remedy) = &regression.remedy else {
        return match was_slower && is_gone && !was_of_slowest {
            true => RemedyStatus::Resolved,
            false => regression.status,
        };
    };
    // The sessions of the replays do not have advice.
    if remedy.kind == RemedyKind::PlanAdvice {
        let is_fast = regression.after.is_some_and(|after| after.is_within(limit));
        return match was_slower && !is_slower && is_fast && !was_of_slowest {
            true => RemedyStatus::Resolved,
            false => RemedyStatus::Screened,
        };
    }
    if is_slower || (regression.sign == RegressionSign::OtherRows && has_other_rows) {
        return RemedyStatus::Refuted;
    }
    let is_shown = is_gone || has_old_blocks(regression);
    match (is_shown && !is_clearly_slower) || !is_judged {
        true => RemedyStatus::Proved,
        false => RemedyStatus::Screened,
    }
}

/// Whether a statement alone does what it did on the old server: with its remedy, or on the new server as it is if it has none. A
/// few executions alone show no equality of times, so with the plan of the old server they need not be equal.
fn does_old_work(regression: &UpgradeRegression) -> bool {
    let (old, new) = (regression.old_work, regression.new_work);
    let is_equal =
        |old, now| !may_be_worse(old, now) || regression.has_old_plan && is_near(old, now);
    match regression.remedy {
        None => old.zip(new).is_some_and(|(old, new)| is_equal(old, new)),
        Some(_) => (old.zip(regression.remedied_work)).is_some_and(|(old, remedied)| {
            is_equal(old, remedied) || is_mended(old, new, remedied)
        }),
    }
}

/// Whether a statement alone reads with its remedy no more than on the old server, and has at most a quarter of its slowdown left,
/// on the scale of logarithms. A few executions alone show no equality of times.
fn is_mended(old: TrialWork, new: Option<TrialWork>, remedied: TrialWork) -> bool {
    let left = |new: TrialWork| (new.ms / old.ms).max(1.0).powf(LEFT_ALONE_MAX);
    !has_more_blocks(old, remedied) && new.is_some_and(|new| remedied.ms <= old.ms * left(new))
}

/// Whether a remedy removes all that a statement alone read more than on the old server.
fn has_old_blocks(regression: &UpgradeRegression) -> bool {
    let (old, new) = (regression.old_work, regression.new_work);
    match (old, new, regression.remedied_work) {
        (Some(old), Some(new), Some(remedied)) => {
            has_more_blocks(old, new) && !has_more_blocks(old, remedied)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use statistics::Measure;

    use super::*;
    use crate::upgrade_remedies::RegressionRemedy;

    fn work(ms: f64, blocks: f64) -> Option<TrialWork> {
        Some(TrialWork { ms, blocks })
    }

    /// Returns ratios of replays, with the upper end of the interval of the median.
    fn within(high: f64) -> Option<MeasuredFactor> {
        Some(MeasuredFactor {
            ratio: 0.9,
            low: Some(0.8),
            high: Some(high),
            mean: Some(1.0),
            mean_high: Some(1.2),
            ..MeasuredFactor::default()
        })
    }

    /// Returns a statement that was twice as slow and does its old work with a remedy.
    fn mended() -> UpgradeRegression {
        UpgradeRegression {
            before: within(2.2).map(|known| MeasuredFactor {
                ratio: 2.0,
                low: Some(1.8),
                mean: Some(2.0),
                ..known
            }),
            after: within(1.02),
            old_work: work(1.0, 100.0),
            new_work: work(1.0, 110.0),
            remedied_work: work(1.0, 100.0),
            remedy: Some(RegressionRemedy {
                kind: RemedyKind::Setting,
                cause: String::new(),
                statements: Vec::new(),
                setting: None,
                role: None,
                risk: String::new(),
            }),
            status: RemedyStatus::Screened,
            ..UpgradeRegression::new("", "", RegressionSign::Slower)
        }
    }

    fn status_of(one: &UpgradeRegression) -> RemedyStatus {
        replayed_status(one, false, false)
    }

    #[test]
    fn remedy_is_proved_only_if_the_replays_or_the_blocks_show_it() {
        let mut one = mended();
        assert_eq!(status_of(&one), RemedyStatus::Proved);
        assert_eq!(replayed_status(&one, true, false), RemedyStatus::Refuted);
        // Rare values may still be slow.
        let (before, alone) = (one.before.take(), one.remedied_work.take());
        assert_eq!(status_of(&one), RemedyStatus::Screened);
        (one.before, one.remedied_work) = (before, alone);
        for (high, shown) in [(1.3, RemedyStatus::Proved), (1.6, RemedyStatus::Screened)] {
            one.after = within(high);
            assert_eq!(status_of(&one), shown, "{high}");
        }
        one.new_work = work(1.0, 5_000.0);
        assert_eq!(status_of(&one), RemedyStatus::Proved);
        (one.remedied_work, one.after) = (work(1.0, 4_000.0), within(1.2));
        assert_eq!(status_of(&one), RemedyStatus::Screened);
        one.after = within(1.0);
        if let Some(remedy) = &mut one.remedy {
            remedy.kind = RemedyKind::PlanAdvice;
        }
        // The mean exceeds the margin. Within it, the statement is fast without the advice.
        assert_eq!(status_of(&one), RemedyStatus::Screened);
        if let Some(after) = &mut one.after {
            after.mean_high = Some(1.04);
        }
        assert_eq!(status_of(&one), RemedyStatus::Resolved);
        assert_eq!(replayed_status(&one, true, false), RemedyStatus::Screened);
    }

    #[test]
    fn remedy_is_not_proved_if_the_interval_of_a_rare_statement_shows_it_slower() {
        let mut one = mended();
        (one.new_work, one.after) = (work(1.0, 5_000.0), within(1.5));
        assert_eq!(status_of(&one), RemedyStatus::Proved);
        if let Some(after) = &mut one.after {
            after.mean_low = Some(1.2);
        }
        assert_eq!(status_of(&one), RemedyStatus::Screened);
    }

    #[test]
    fn remedy_may_leave_a_quarter_of_the_slowdown_alone_if_the_replays_bound_the_rest() {
        let mut one = mended();
        for (ms, after, shown) in [
            (1.3, 1.3, RemedyStatus::Proved),
            (1.3, 1.6, RemedyStatus::Screened),
            (2.0, 1.3, RemedyStatus::Screened),
        ] {
            (one.new_work, one.after) = (work(8.0, 100.0), within(after));
            one.remedied_work = work(ms, 100.0);
            assert_eq!(status_of(&one), shown, "{ms} {after}");
        }
    }

    #[test]
    fn statement_that_only_looked_slower_has_no_slowdown_to_halve() {
        let mut one = mended();
        one.before = within(1.3);
        for (sign, after, shown) in [
            (RegressionSign::Suspected, 1.3, RemedyStatus::Proved),
            (RegressionSign::Suspected, 1.6, RemedyStatus::Screened),
            (RegressionSign::Slower, 1.3, RemedyStatus::Screened),
        ] {
            (one.sign, one.after) = (sign, within(after));
            assert_eq!(status_of(&one), shown, "{sign:?} {after}");
        }
    }

    #[test]
    fn statement_without_a_remedy_is_resolved_if_it_waited_for_others() {
        let mut one = UpgradeRegression {
            remedy: None,
            remedied_work: None,
            new_work: work(1.0, 5_000.0),
            after: within(1.0),
            ..mended()
        };
        assert_eq!(status_of(&one), RemedyStatus::Screened);
        if let Some(after) = &mut one.after {
            after.mean_high = Some(1.04);
        }
        assert_eq!(status_of(&one), RemedyStatus::Resolved);
        (one.new_work, one.after) = (work(1.0, 100.0), within(1.3));
        assert_eq!(status_of(&one), RemedyStatus::Resolved);
        // The earlier interval, from 1.2 on, is not excluded, or the ratio is not within the margin.
        for change in [
            |one: &mut UpgradeRegression| one.before.iter_mut().for_each(|one| one.low = Some(1.2)),
            |one: &mut UpgradeRegression| one.after.iter_mut().for_each(|one| one.ratio = 1.1),
        ] {
            let mut open = one.clone();
            change(&mut open);
            assert_eq!(status_of(&open), RemedyStatus::Screened);
        }
        // The time alone is noise if the plan is the old one.
        one.new_work = work(1.4, 100.0);
        assert_eq!(status_of(&one), RemedyStatus::Screened);
        one.has_old_plan = true;
        assert_eq!(status_of(&one), RemedyStatus::Resolved);
        // Neither shows that the slowest executions are no longer slower.
        for (measure, shown) in [
            (Measure::P99, RemedyStatus::Screened),
            (Measure::Mean, RemedyStatus::Resolved),
        ] {
            if let Some(before) = &mut one.before {
                before.measure = Some(measure);
            }
            assert_eq!(status_of(&one), shown, "{measure:?}");
        }
        one.after = within(1.6);
        for found in [RemedyStatus::NotFound, RemedyStatus::Untried] {
            one.status = found;
            assert_eq!(status_of(&one), found);
        }
    }
}
