//! What whoever observes the target says of it, kept until the next look.

use report::ObservedView;

/// What was said last holds for so long: stretches and looks are both a second, and not in step.
const HOLDS_NS: i64 = 3_000_000_000;

/// One thing that is observed, or why it is not.
#[derive(Debug)]
pub struct Observed {
    /// As it is shown.
    pub view: ObservedView,
    /// What was said since the last look.
    said: Vec<Vec<(String, f64)>>,
    last_ns: i64,
}

impl Observed {
    /// It is not, for this reason.
    pub fn not(why: &str) -> Self {
        Observed {
            view: ObservedView::not(why),
            said: Vec::new(),
            last_ns: 0,
        }
    }

    /// It is, in a stretch of time that ended then.
    pub fn saw(&mut self, source: &str, at_ns: i64, mut values: Vec<(String, f64)>) {
        values.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        self.view = ObservedView {
            why_not: None,
            source: Some(source.to_owned()),
            lately: values.clone(),
        };
        self.said.push(values);
        self.last_ns = at_ns;
    }

    /// What was seen since the last look, on average; what was seen before it, where nothing was since.
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
        waits.saw(
            "samples",
            1_000_000_000,
            values(&[("IO", 1.0), ("Lock", 3.0)]),
        );
        waits.saw("samples", 2_000_000_000, values(&[("Lock", 1.0)]));
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
        waits.saw("samples", 6_000_000_000, values(&[]));
        assert_eq!(waits.view.why_not, None);
    }
}
