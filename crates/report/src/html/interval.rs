//! Intervals of ratios on one logarithmic axis, drawn without a script. Places are percent of the width.

/// Smallest reach of the axis on each side of 1, and the part of the margin that it has at least, as logarithms.
const REACH_MIN: f64 = 0.223;
const MARGIN_REACH: f64 = 2.2;
/// Space after the outermost value.
const SPACE: f64 = 1.06;
/// Distance of a label from that of 1, in percent.
const LABEL_DISTANCE: f64 = 9.0;

/// Ratios that may have a label, from 1 on. Their reciprocals may, too.
const LABELS: [f64; 12] = [
    1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0,
];

/// Axis of ratios, with a margin around 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RatioAxis {
    down: f64,
    up: f64,
    margin: f64,
}

/// Part of the width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) left: f64,
    pub(super) width: f64,
}

impl RatioAxis {
    /// Creates an axis on which these ratios, all above 0, and the margin have their places.
    pub(super) fn new(ratios: impl Iterator<Item = f64> + Clone, margin: f64) -> Self {
        let least = REACH_MIN.max(margin.ln_1p() * MARGIN_REACH);
        let reach = |side: f64| {
            let logarithms = ratios.clone().map(|ratio| side * ratio.ln() * SPACE);
            logarithms.fold(least, f64::max)
        };
        RatioAxis {
            down: reach(-1.0),
            up: reach(1.0),
            margin,
        }
    }

    /// Returns the place of a ratio.
    pub(super) fn place(&self, ratio: f64) -> f64 {
        100.0 * (ratio.ln() + self.down) / (self.down + self.up)
    }

    /// Returns the part between two ratios.
    pub(super) fn part(&self, low: f64, high: f64) -> Part {
        let left = self.place(low);
        Part {
            left,
            width: self.place(high) - left,
        }
    }

    /// Returns the part of the margin.
    pub(super) fn band(&self) -> Part {
        self.part(1.0 / (1.0 + self.margin), 1.0 + self.margin)
    }

    /// Returns the labels and their places.
    pub(super) fn labels(&self) -> Vec<(f64, String)> {
        let mut labels = vec![(self.place(1.0), "1×".to_owned())];
        let mut last = [self.place(1.0); 2];
        for ratio in LABELS {
            for (side, (at, text)) in [
                (ratio, format!("{ratio}×")),
                (1.0 / ratio, format!("1/{ratio}×")),
            ]
            .into_iter()
            .enumerate()
            {
                let place = self.place(at);
                let is_inside = (2.0..=98.0).contains(&place);
                if is_inside && (place - last[side]).abs() >= LABEL_DISTANCE {
                    last[side] = place;
                    labels.push((place, text));
                }
            }
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_holds_its_ratios_and_the_margin() {
        let axis = RatioAxis::new([0.9, 1.2, 46.0].into_iter(), 0.05);
        for ratio in [0.9, 1.2, 46.0, 1.05, 1.0 / 1.05] {
            assert!((0.0..=100.0).contains(&axis.place(ratio)), "{ratio}");
        }
        assert!(axis.place(46.0) > 90.0 && axis.place(1.0) < 20.0);
        let band = axis.band();
        assert!(band.left < axis.place(1.0) && band.left + band.width > axis.place(1.0));
        let labels = axis.labels();
        assert_eq!(labels[0].1, "1×");
        assert!(labels.iter().any(|(_, text)| text == "10×"), "{labels:?}");
    }

    #[test]
    fn axis_without_ratios_is_even() {
        let axis = RatioAxis::new(std::iter::empty(), 0.05);
        assert!((axis.place(1.0) - 50.0).abs() < 1e-9);
    }
}
