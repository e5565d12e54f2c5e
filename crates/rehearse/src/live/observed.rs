//! Latest values of an observation of the target, kept until the next sample.

use report::ObservedView;

/// Time for which the last values remain valid. Intervals and samples are both one second long,
/// but not synchronized.
const HOLDS_NS: i64 = 3_000_000_000;

/// Observation, or the reason why there is none.
#[derive(Debug)]
pub struct Observed {
    /// View to show.
    pub view: ObservedView,
    /// Values received since the last sample.
    said: Vec<Vec<(String, f64)>>,
    last_ns: i64,
}

impl Observed {
    /// Creates the state of something that is not observed, for this reason.
    pub fn not(why: &str) -> Self {
        Observed {
            view: ObservedView::not(why),
            said: Vec::new(),
            last_ns: 0,
        }
    }

    /// Adds the values of an interval that ended at this time.
    pub fn add(&mut self, source: &str, at_ns: i64, mut values: Vec<(String, f64)>) {
        values.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        self.view = ObservedView {
            why_not: None,
            source: Some(source.to_owned()),
            lately: values.clone(),
        };
        self.said.push(values);
        self.last_ns = at_ns;
    }

    /// Returns the average of the values since the last sample, or the previous values if there
    /// are none.
    pub fn take(&mut self, now_ns: i64) -> Vec<(String, f64)> {
        let said = std::mem::take(&mut self.said);
        if said.is_empty() {
            if self.view.why_not.is_none() && now_ns - self.last_ns > HOLDS_NS {
                // Nothing said is not nothing seen.
                self.view = ObservedView::not("nothing has come from the probe for some seconds");
            }
            return self.view.lately.clone();
        }
        let part = 1.0 / said.len() as f64;
        let mut mean: Vec<(String, f64)> = Vec::new();
        for (name, value) in said.into_iter().flatten() {
            match mean.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += value * part,
                None => mean.push((name, value * part)),
            }
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, f64)]) -> Vec<(String, f64)> {
        let named = pairs.iter().map(|(name, value)| (name.to_string(), *value));
        named.collect()
    }

    #[test]
    fn a_look_has_the_mean_of_what_was_said_and_bridges_a_gap() {
        let mut waits = Observed::not("nobody looks");
        assert_eq!(waits.take(0), values(&[]));
        assert_eq!(waits.view.why_not.as_deref(), Some("nobody looks"));
        waits.add(
            "samples",
            1_000_000_000,
            values(&[("IO", 1.0), ("Lock", 3.0)]),
        );
        waits.add("samples", 2_000_000_000, values(&[("Lock", 1.0)]));
        assert_eq!(waits.view.lately, values(&[("Lock", 1.0)]));
        assert_eq!(waits.view.why_not, None);
        assert_eq!(
            waits.take(2_100_000_000),
            values(&[("Lock", 2.0), ("IO", 0.5)])
        );
        // Nothing was said since: what was last holds, but not for long.
        assert_eq!(waits.take(3_100_000_000), values(&[("Lock", 1.0)]));
        assert_eq!(waits.take(5_100_000_000), values(&[]));
        assert!(waits.view.why_not.is_some());
        waits.add("samples", 6_000_000_000, values(&[]));
        assert_eq!(waits.view.why_not, None);
    }
}
