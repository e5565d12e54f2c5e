//! Time that a sample of the activity represents.

use std::collections::HashMap;

use run::SampleWindow;

/// Returns for each window, by its start, the time in nanoseconds that one of its samples
/// represents. Windows without samples have none.
///
/// A sample represents its part of the window. The first and the last window may be partial, so
/// their samples represent at most the usual time of the others.
pub fn sample_ns(windows: &[SampleWindow]) -> HashMap<i64, f64> {
    let looked: Vec<&SampleWindow> = windows.iter().filter(|one| one.samples > 0).collect();
    let own = |window: &SampleWindow| {
        (window.until_ns - window.at_ns).max(0) as f64 / window.samples as f64
    };
    let mut inner: Vec<f64> = match looked.len() {
        0..=2 => looked.iter().map(|one| own(one)).collect(),
        many => looked[1..many - 1].iter().map(|one| own(one)).collect(),
    };
    inner.sort_by(f64::total_cmp);
    // Both of two windows may be partial: the one with more samples is closer to the usual.
    let usual = match looked.len() {
        0..=2 => inner.first(),
        _ => inner.get(inner.len() / 2),
    };
    let usual = usual.copied().unwrap_or(0.0);
    let last = looked.len().saturating_sub(1);
    let of = |(at, window): (usize, &&SampleWindow)| {
        let ns = match at == 0 || at == last {
            true => own(window).min(usual),
            false => own(window),
        };
        (window.at_ns, ns)
    };
    looked.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_partial_windows_represent_no_more_than_others() {
        let windows = |samples: &[u64]| -> Vec<SampleWindow> {
            let of = |(at, samples): (usize, &u64)| SampleWindow {
                at_ns: at as i64 * 1_000,
                until_ns: (at as i64 + 1) * 1_000,
                samples: *samples,
                missed: 0,
            };
            samples.iter().enumerate().map(of).collect()
        };
        let of = |samples: &[u64]| {
            let mut all: Vec<_> = sample_ns(&windows(samples)).into_iter().collect();
            all.sort_by_key(|(at, _)| *at);
            all
        };
        // A window in the middle with few samples represents its whole second.
        assert_eq!(
            of(&[4, 20, 10, 20, 0, 5]),
            [
                (0, 50.0),
                (1_000, 50.0),
                (2_000, 100.0),
                (3_000, 50.0),
                (5_000, 50.0)
            ]
        );
        assert_eq!(of(&[4, 10]), [(0, 100.0), (1_000, 100.0)]);
        assert_eq!(of(&[4]), [(0, 250.0)]);
        assert_eq!(of(&[40, 20, 20]), [(0, 25.0), (1_000, 50.0), (2_000, 50.0)]);
        assert_eq!(of(&[]), []);
    }
}
