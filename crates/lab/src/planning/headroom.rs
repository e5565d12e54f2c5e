//! Distance of a server's call rate from the rate at which counting statements could slow it down.

/// Factor between the ceiling and the call rate from which the ceiling is far. At this distance a diagnosis advises
/// to track planning (`planning-cliff-distance`).
pub const FAR: f64 = 5.0;
/// Factor below which the ceiling is near (`cliff-near`).
pub const NEAR: f64 = 2.0;

/// Advice on tracking planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Track planning.
    Count,
    /// Test it with the real traffic first.
    Try,
    /// Leave it off.
    Leave,
}

impl Advice {
    /// Returns the advice as text.
    pub fn text(self) -> &'static str {
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

/// Call rate of the most frequent statement, compared with the maximum rate of this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headroom {
    /// Calls a second of the most frequent statement.
    pub calls_per_s: f64,
    /// Maximum calls a second of one statement that were measured on this machine, with planning tracked.
    pub ceiling_per_s: f64,
}

impl Headroom {
    /// Returns the factor by which the call rate is below the ceiling.
    pub fn distance(&self) -> f64 {
        self.ceiling_per_s / self.calls_per_s.max(f64::MIN_POSITIVE)
    }

    /// Returns the advice for this distance.
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
    fn advice_is_more_careful_near_the_ceiling() {
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
