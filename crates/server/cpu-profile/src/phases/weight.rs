//! CPU time that a sample of a profile represents.
//!
//! Stacks show how the time is distributed. Its total is more accurate in the kernel's task counters: samples
//! that are due while the hypervisor suspends a processor are not taken, and a small number of samples varies
//! by chance. So if the same processes were counted, each sample represents the counted time divided by the
//! number of samples, and all phases add up to it. This assumes that missing samples would be distributed as
//! the others.
//!
//! Only samples within the counted time are shown, so that the phases of all processes add up to the count.

use run::ProfileInfo;

/// Valid weights. Outside of this range samples and counters are not of the same processes.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// CPU time that a sample represents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleTime {
    /// CPU time in nanoseconds.
    pub ns: f64,
    /// Factor applied to the sampling interval, so that all samples add up to the count. `None` if there is no exact
    /// count of the same processes.
    pub weight: Option<f64>,
}

impl SampleTime {
    /// Computes the time from a profile.
    pub fn of(info: &ProfileInfo) -> Self {
        let between_ns = 1e9 / info.frequency_hz.max(1) as f64;
        let sampled_ns = info.sampled_ns();
        let weight = info
            .task_clock_ns
            .filter(|_| info.same_as_counted && info.counted > 0)
            .map(|ns| ns as f64 / sampled_ns)
            .filter(|weight| WEIGHTS.contains(weight));
        SampleTime {
            ns: between_ns * weight.unwrap_or(1.0),
            weight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(counted: u64, task_clock_ns: Option<u64>) -> ProfileInfo {
        ProfileInfo {
            frequency_hz: 100,
            counted,
            task_clock_ns,
            same_as_counted: true,
            ..ProfileInfo::default()
        }
    }

    #[test]
    fn weighted_samples_add_up_to_the_count() {
        let of = |counted, task_clock_ns| SampleTime::of(&info(counted, task_clock_ns));
        // A fifth was not met, or a tenth too many.
        for (samples, weight) in [(80, 1.25), (100, 1.0), (110, 1.0 / 1.1)] {
            let time = of(samples, Some(1_000_000_000));
            assert!((time.ns * samples as f64 - 1e9).abs() < 1.0, "{time:?}");
            assert!((time.weight.unwrap() - weight).abs() < 1e-9, "{time:?}");
        }
    }

    #[test]
    fn samples_without_a_matching_count_have_no_weight() {
        let plain = SampleTime {
            ns: 1e7,
            weight: None,
        };
        let others = [
            info(100, None),
            info(0, Some(1_000_000_000)),
            info(100, Some(0)),
            info(100, Some(499_000_000)),
            info(100, Some(2_001_000_000)),
            ProfileInfo {
                same_as_counted: false,
                ..info(80, Some(1_000_000_000))
            },
        ];
        for one in others {
            assert_eq!(SampleTime::of(&one), plain, "{one:?}");
        }
    }
}
