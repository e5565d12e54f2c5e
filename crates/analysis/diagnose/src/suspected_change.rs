//! Suspects that are no statements: an index or the value of a setting. Only an experiment can clear these.

use super::finding::Subject;
use super::suspect::{Suspect, SuspectVerdict};
use super::suspect_shares::SuspectShare;
use super::threshold::{CLEARED, Thresholds};

/// Index or setting that is suspected to cost time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspectedChange {
    /// `index:NAME`: an index, which the experiment drops.
    Index(String),
    /// `setting:NAME=VALUE`: a setting, which the experiment sets to this value.
    Setting(String, String),
}

impl SuspectedChange {
    /// Reads a suspect; `None` for a pattern of statements.
    pub fn parse(pattern: &str) -> Option<Self> {
        if let Some(name) = pattern.strip_prefix("index:") {
            return Some(SuspectedChange::Index(name.trim().to_owned()));
        }
        let (name, value) = pattern.strip_prefix("setting:")?.split_once('=')?;
        Some(SuspectedChange::Setting(
            name.trim().to_owned(),
            value.trim().to_owned(),
        ))
    }
}

/// Result of executing the statements without a suspect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SuspectExperiment {
    /// Statements that were clearly faster.
    pub faster: Vec<Subject>,
    /// Time that they would take less in the traffic, in nanoseconds.
    pub gain_ns: f64,
    /// The same as a share of the whole, from 0 to 1.
    pub gain_share: f64,
    /// Share of the whole of the statements that were executed.
    pub executed_share: f64,
    /// Share of those that could not be executed, although they were among the expensive ones.
    pub missing_share: f64,
}

impl Suspect {
    /// Creates a suspect of which nothing is known before an experiment.
    pub(super) fn of_change(pattern: &str, thresholds: &Thresholds) -> Self {
        let mut suspect = Suspect::not_seen(pattern, thresholds.of(&CLEARED));
        suspect.cannot_decide(
            "only an experiment can clear an index or a setting: diagnose a workload with --prove",
        );
        suspect
    }

    /// Leaves it suspected, for this reason.
    pub fn cannot_decide(&mut self, reason: impl Into<String>) {
        self.verdict = SuspectVerdict::CouldMatter;
        self.max_gain = 1.0;
        self.unknown = vec![reason.into()];
    }

    /// Decides by the experiment. What was not executed may have been slow by the suspect.
    pub fn decide(&mut self, experiment: SuspectExperiment) {
        self.set_max_gain(experiment.gain_share + experiment.missing_share);
        self.shares = vec![SuspectShare {
            of: "time of all statements",
            ns: Some(experiment.gain_ns),
            share: experiment.gain_share,
            counts: true,
            source: "statements that were clearly faster without it in the sandbox",
        }];
        self.unknown = vec![format!(
            "statements with {:.0} % of the time were executed without it; {:.0} % could not be, and what a statement loses beyond 85 % of \
             its time is not seen",
            experiment.executed_share * 100.0,
            experiment.missing_share * 100.0
        )];
        self.statements = experiment.faster;
    }

    /// Adds what a replay without the suspected statements showed: the time that other statements took less, if they were clearly
    /// faster, in nanoseconds and as a share of the whole.
    pub fn add_replay_without(&mut self, gain_ns: f64, gain_share: f64) {
        self.set_max_gain(self.max_gain + gain_share);
        self.shares.push(SuspectShare {
            of: "time of other statements, which were clearly faster without it",
            ns: Some(gain_ns),
            share: gain_share,
            counts: true,
            source: "a replay without it",
        });
    }

    fn set_max_gain(&mut self, share: f64) {
        self.max_gain = share.min(1.0);
        self.verdict = match self.max_gain < self.threshold {
            true => SuspectVerdict::Cleared,
            false => SuspectVerdict::CouldMatter,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_and_settings_are_told_from_patterns() {
        assert_eq!(
            SuspectedChange::parse("index:shop.orders_idx"),
            Some(SuspectedChange::Index("shop.orders_idx".to_owned()))
        );
        assert_eq!(
            SuspectedChange::parse("setting:work_mem=64MB"),
            Some(SuspectedChange::Setting(
                "work_mem".to_owned(),
                "64MB".to_owned()
            ))
        );
        assert_eq!(SuspectedChange::parse("update links set%"), None);
    }

    #[test]
    fn experiment_clears_only_what_was_executed() {
        let decided = |gain: f64, missing: f64| {
            let mut suspect = Suspect::of_change("index:a", &Thresholds::default());
            assert_eq!(suspect.verdict, SuspectVerdict::CouldMatter);
            suspect.decide(SuspectExperiment {
                gain_share: gain,
                missing_share: missing,
                ..SuspectExperiment::default()
            });
            suspect.verdict
        };
        assert_eq!(decided(0.01, 0.01), SuspectVerdict::Cleared);
        assert_eq!(decided(0.2, 0.0), SuspectVerdict::CouldMatter);
        assert_eq!(decided(0.0, 0.2), SuspectVerdict::CouldMatter);
    }

    #[test]
    fn what_others_gain_without_a_suspect_is_added_to_its_own_time() {
        let mut suspect = Suspect::not_seen("update links%", 0.05);
        suspect.max_gain = 0.02;
        suspect.add_replay_without(0.0, 0.0);
        assert_eq!(suspect.verdict, SuspectVerdict::Cleared);
        suspect.add_replay_without(4e6, 0.04);
        assert_eq!(suspect.verdict, SuspectVerdict::CouldMatter);
        assert!((suspect.max_gain - 0.06).abs() < 1e-9);
    }
}
