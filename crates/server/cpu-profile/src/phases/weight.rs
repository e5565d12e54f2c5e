//! How much processor time a sample of a profile stands for.
//!
//! Stacks say how the time is shared out. How much it is, the kernel's counters of tasks know better: samples that are due
//! while the hypervisor holds a processor up are not taken, and a few samples are off by chance. So where the same processes
//! were counted, each sample stands for what was counted, divided by the samples; all phases then add up to it. That the
//! samples which are missing would have been spread as those that are there is taken for granted.
//!
//! Only samples within the time that was counted are shown, so that the phases of all processes add up to the count.

use run::ProfileInfo;

/// Further apart, samples and counters are not of the same processes.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// How much processor time a sample stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleTime {
    /// In nanoseconds.
    pub ns: f64,
    /// What the time between two samples was multiplied by, so that all add up to what was counted; `None` where nothing
    /// was counted exactly, or not the same.
    pub weight: Option<f64>,
}

impl SampleTime {
    /// Of a profile.
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
    fn samples_add_up_to_what_was_counted() {
        let of = |counted, task_clock_ns| SampleTime::of(&info(counted, task_clock_ns));
        // A fifth was not met, or a tenth too many.
        for (samples, weight) in [(80, 1.25), (100, 1.0), (110, 1.0 / 1.1)] {
            let time = of(samples, Some(1_000_000_000));
            assert!((time.ns * samples as f64 - 1e9).abs() < 1.0, "{time:?}");
            assert!((time.weight.unwrap() - weight).abs() < 1e-9, "{time:?}");
        }
    }

    #[test]
    fn what_was_not_counted_or_is_not_the_same_is_not_weighed() {
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
