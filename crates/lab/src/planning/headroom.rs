//! How far a server is from where counting statements could hurt.

/// Where the ceiling is so many times as high, it is far: the distance at which a diagnosis advises to count planning
/// (`planning-cliff-distance`).
pub const FAR: f64 = 5.0;
/// Nearer than that it is near (`cliff-near`).
pub const NEAR: f64 = 2.0;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Count planning.
    Count,
    /// Try it with the real traffic first.
    Try,
    /// Leave it off.
    Leave,
}

impl Advice {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Advice::Count => {
                "turn track_planning on: a reload is enough, and half of the time of simple queries is no longer unseen"
            }
            Advice::Try => {
                "try track_planning with this traffic first (`rehearse prove --set pg_stat_statements.track_planning=on`)"
            }
            Advice::Leave => {
                "leave track_planning off while this statement comes so often; prepare it, so that planning is no half of it"
            }
        }
    }
}

/// Calls a second of the most frequent statement beside the most that this machine can do of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headroom {
    /// Calls a second of the most frequent statement.
    pub calls_per_s: f64,
    /// The most calls a second of one statement that were measured on this machine, with planning counted.
    pub ceiling_per_s: f64,
}

impl Headroom {
    /// How many times as often it could come before it meets the ceiling.
    pub fn distance(&self) -> f64 {
        self.ceiling_per_s / self.calls_per_s.max(f64::MIN_POSITIVE)
    }

    /// What to do.
    pub fn advice(&self) -> Advice {
        match self.distance() {
            far if far >= FAR => Advice::Count,
            between if between >= NEAR => Advice::Try,
            _ => Advice::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_ceiling_the_more_careful() {
        let of = |calls_per_s: f64| Headroom {
            calls_per_s,
            ceiling_per_s: 200_000.0,
        };
        assert_eq!(of(4_000.0).distance(), 50.0);
        assert_eq!(of(40_000.0).advice(), Advice::Count);
        assert_eq!(of(41_000.0).advice(), Advice::Try);
        assert_eq!(of(101_000.0).advice(), Advice::Leave);
        assert_eq!(of(0.0).advice(), Advice::Count);
    }
}
