//! Judges the mean times of statements, with the error of both means and for the number of statements.
//!
//! A statement is slower if its mean is clear of the limit ([`SampleMean::p_value_above`]). Of all statements, those are slower that
//! keep the false discovery rate, as in a comparison.

use std::collections::HashMap;

use sql::Fingerprint;
use statistics::false_discovery_rate::rejection_level;
use statistics::{FALSE_DISCOVERY_RATE, SampleMean};
use time_breakdown::observed::StatementTotals;

use super::expectations::{ExpectedStatement, UpgradeExpectations};
use super::result::{TimeJudgement, VerifiedStatement};
use crate::upgrade_remedies::MeasuredFactor;

/// Executions of a statement from which its mean is judged.
pub(super) const CALLS_MIN: u64 = 20;
/// Factor above the expected interval from which a mean is longer. Another time of the day has other values.
const TOLERANCE: f64 = 1.25;
/// Difference that is none, in microseconds.
const NOISE_US: f64 = 50.0;

/// Compares the mean times of the observed statements with the expected ones: slower ones first, then by calls.
pub(super) fn verify_times(
    expected: &UpgradeExpectations,
    observed: &HashMap<Fingerprint, StatementTotals>,
) -> Vec<VerifiedStatement> {
    let mut all = Vec::new();
    for known in &expected.statements {
        let fingerprint = known.fingerprint();
        let Some(counted) = fingerprint.and_then(|one| observed.get(&one)) else {
            continue;
        };
        let square = counted.exec_square_us2.map(|square| square as f64);
        let sample = SampleMean::of_sums(counted.calls, counted.exec_ns as f64 / 1e3, square);
        let Some(mut sample) = sample else { continue };
        let total_ns = counted.plan_ns.unwrap_or(0) + counted.exec_ns;
        sample.mean = total_ns as f64 / counted.calls as f64 / 1e3;
        all.push(verify_time(known, sample));
    }
    judge_times(&mut all);
    all.sort_by_key(|one| {
        let order = match one.judgement {
            TimeJudgement::Slower => 0,
            TimeJudgement::Unclear => 1,
            _ => 2,
        };
        (order, std::cmp::Reverse(one.calls))
    });
    all
}

/// Returns the longest ratio to the captured mean that the rehearsal leads to expect: the upper end of its interval. A lower ratio
/// without an interval may be chance, and counts as 1.
fn longest_ratio(factor: &MeasuredFactor) -> f64 {
    factor.high.unwrap_or_else(|| factor.ratio.max(1.0))
}

/// Compares the mean of a statement with its limit. [`judge_times`] makes the judgement final.
fn verify_time(known: &ExpectedStatement, observed: SampleMean) -> VerifiedStatement {
    let captured = known.captured.filter(|captured| captured.mean > 0.0);
    let ratio = known.factor.as_ref().map(|one| one.ratio);
    let high = known.factor.as_ref().map(longest_ratio);
    let limit = captured.zip(high).map(|(captured, high)| {
        let limit_us = captured.mean * high * TOLERANCE + NOISE_US;
        (captured, limit_us)
    });
    let judgement = match limit {
        None => TimeJudgement::NoExpectation,
        Some((captured, _)) if observed.count.min(captured.count) < CALLS_MIN => {
            TimeJudgement::TooFew
        }
        Some((_, limit_us)) if observed.mean > limit_us => TimeJudgement::Unclear,
        Some(_) => TimeJudgement::AsExpected,
    };
    let is_judged = matches!(
        judgement,
        TimeJudgement::Unclear | TimeJudgement::AsExpected
    );
    let tested = limit.filter(|_| is_judged);
    VerifiedStatement {
        fingerprint: known.fingerprint.clone(),
        sql: known.sql.clone(),
        calls: observed.count,
        mean_us: observed.mean,
        expected_us: captured
            .zip(ratio)
            .map(|(captured, ratio)| captured.mean * ratio),
        limit_us: limit.map(|(_, limit_us)| limit_us),
        p_value: tested
            .and_then(|(captured, limit_us)| observed.p_value_above(limit_us, &captured)),
        judgement,
    }
}

/// Finds the slower ones of the statements that look slower.
fn judge_times(statements: &mut [VerifiedStatement]) {
    let p_values: Vec<f64> = statements.iter().filter_map(|one| one.p_value).collect();
    let tests = (p_values.len(), 0);
    let level = rejection_level(&p_values, tests, FALSE_DISCOVERY_RATE);
    for one in statements {
        let is_clear = one.p_value.zip(level).is_some_and(|(p, level)| p <= level);
        if is_clear && one.judgement == TimeJudgement::Unclear {
            one.judgement = TimeJudgement::Slower;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::SplitMix64;

    fn statement(captured: SampleMean) -> ExpectedStatement {
        ExpectedStatement {
            captured: Some(captured),
            factor: Some(MeasuredFactor {
                ratio: 1.0,
                ..MeasuredFactor::default()
            }),
            ..ExpectedStatement::default()
        }
    }

    fn judge(observed: SampleMean, captured: SampleMean) -> TimeJudgement {
        let mut all = [verify_time(&statement(captured), observed)];
        judge_times(&mut all);
        all[0].judgement
    }

    fn sample(calls: u64, mean_us: f64, variation: Option<f64>) -> SampleMean {
        SampleMean {
            count: calls,
            mean: mean_us,
            variation,
        }
    }

    #[test]
    fn mean_is_slower_only_if_chance_is_ruled_out() {
        let captured = sample(1_000, 10_000.0, Some(1.0));
        for (calls, mean_us, variation, judgement) in [
            (1_000, 12_000.0, Some(1.0), TimeJudgement::AsExpected),
            (1_000, 16_000.0, Some(1.0), TimeJudgement::Slower),
            (20, 16_000.0, Some(1.0), TimeJudgement::Unclear),
            (20, 40_000.0, Some(1.0), TimeJudgement::Slower),
            (20, 40_000.0, Some(3.0), TimeJudgement::Unclear),
            (19, 90_000.0, Some(1.0), TimeJudgement::TooFew),
        ] {
            let found = judge(sample(calls, mean_us, variation), captured);
            assert_eq!(found, judgement, "{calls} calls of {mean_us} us");
        }
        let unknown = sample(1_000, 10_000.0, None);
        let slow = sample(1_000, 90_000.0, None);
        assert_eq!(judge(slow, unknown), TimeJudgement::Unclear);
        assert_eq!(judge(slow, captured), TimeJudgement::Slower);
        let few = sample(19, 10_000.0, Some(1.0));
        assert_eq!(judge(slow, few), TimeJudgement::TooFew);
    }

    #[test]
    fn improvement_that_did_not_arrive_is_slower_if_the_rehearsal_has_its_interval() {
        let captured = sample(1_000, 100_000.0, Some(1.0));
        for (ratio, high, mean_us, judgement) in [
            (0.1, Some(0.12), 15_000.0, TimeJudgement::AsExpected),
            (0.1, Some(0.12), 100_000.0, TimeJudgement::Slower),
            // Chance is not ruled out that it was not faster.
            (0.1, Some(1.0), 100_000.0, TimeJudgement::AsExpected),
            (0.1, None, 100_000.0, TimeJudgement::AsExpected),
            (0.1, None, 200_000.0, TimeJudgement::Slower),
            (1.5, None, 150_000.0, TimeJudgement::AsExpected),
        ] {
            let mut known = statement(captured);
            let factor = known.factor.as_mut().unwrap();
            (factor.ratio, factor.high) = (ratio, high);
            let mut all = [verify_time(&known, sample(1_000, mean_us, Some(1.0)))];
            judge_times(&mut all);
            let found = all[0].judgement;
            assert_eq!(found, judgement, "{ratio}, {high:?}: {mean_us} us");
        }
    }

    #[test]
    fn observed_statements_are_judged_by_their_fingerprint() {
        let known = ExpectedStatement {
            fingerprint: Fingerprint(255).to_string(),
            ..statement(sample(1_000, 10_000.0, Some(1.0)))
        };
        let expected = UpgradeExpectations {
            statements: vec![known],
            ..UpgradeExpectations::default()
        };
        let totals = StatementTotals {
            calls: 100,
            plan_ns: Some(100_000_000),
            exec_ns: 900_000_000,
            ..StatementTotals::default()
        };
        let observed = [255, 1].map(|one| (Fingerprint(one), totals));
        let found = verify_times(&expected, &HashMap::from(observed));
        let found: Vec<(u64, f64)> = found.iter().map(|one| (one.calls, one.mean_us)).collect();
        assert_eq!(found, [(100, 10_000.0)]);
    }

    #[test]
    fn statement_without_captured_times_has_no_expectation() {
        let unknown = ExpectedStatement {
            captured: None,
            ..statement(sample(100, 1.0, None))
        };
        let found = verify_time(&unknown, sample(100, 1.0, None));
        assert_eq!(found.judgement, TimeJudgement::NoExpectation);
    }

    /// Returns a number from 0 to below 1.
    fn uniform(random: &mut SplitMix64) -> f64 {
        (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the mean and the spread of times with mean 10 ms and this coefficient of variation.
    fn draw(random: &mut SplitMix64, calls: u64, variation: f64, shape: Shape) -> SampleMean {
        let (mut sum, mut square) = (0.0, 0.0);
        for _ in 0..calls {
            let time = 10_000.0
                * match shape {
                    Shape::LogNormal => {
                        let spread = variation.powi(2).ln_1p().sqrt();
                        let (one, other): (f64, f64) = (uniform(random), uniform(random));
                        let normal = (-2.0 * (1.0 - one).ln()).sqrt()
                            * (std::f64::consts::TAU * other).cos();
                        (spread * normal - spread * spread / 2.0).exp()
                    }
                    // Some values take longer: 1 of 1 + v² executions takes all the time.
                    Shape::RareSlow => {
                        let share = 1.0 / (1.0 + variation.powi(2));
                        match uniform(random) < share {
                            true => 1.0 / share,
                            false => 0.01,
                        }
                    }
                };
            sum += time;
            square += time * time;
        }
        SampleMean::of_sums(calls, sum, Some(square)).unwrap()
    }

    #[derive(Debug, Clone, Copy)]
    enum Shape {
        LogNormal,
        RareSlow,
    }

    #[test]
    fn healthy_verification_of_100_statements_is_accused_in_at_most_5_percent() {
        const VERIFICATIONS: u32 = 200;
        for shape in [Shape::LogNormal, Shape::RareSlow] {
            let mut random = SplitMix64::new(1);
            let mut accused = 0;
            for _ in 0..VERIFICATIONS {
                let mut all: Vec<VerifiedStatement> = (0..100)
                    .map(|_| {
                        let variation = 1.0 + 2.0 * uniform(&mut random);
                        // 20 to 300, most of them few.
                        let mut calls = || (20.0 * 15.0_f64.powf(uniform(&mut random))) as u64;
                        let (n, m) = (calls(), calls());
                        let captured = draw(&mut random, m, variation, shape);
                        let observed = draw(&mut random, n, variation, shape);
                        verify_time(&statement(captured), observed)
                    })
                    .collect();
                judge_times(&mut all);
                let is_slower = |one: &VerifiedStatement| one.judgement == TimeJudgement::Slower;
                accused += u32::from(all.iter().any(is_slower));
            }
            assert!(
                accused * 20 <= VERIFICATIONS,
                "{shape:?}: {accused} of {VERIFICATIONS}"
            );
        }
    }
}
