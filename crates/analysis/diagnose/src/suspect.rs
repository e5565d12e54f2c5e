//! Bounds the share of the time that a statement can account for, and so the gain of removing it.

use std::collections::{HashMap, HashSet, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use super::evidence::{Evidence, StatementEvidence};
use super::finding::Subject;
use super::history::SessionStep;
use super::suspect_shares::{SuspectShare, matches_like_pattern, max_gain, suspect_shares};
use super::suspected_change::SuspectedChange;
use super::threshold::{CLEARED, Thresholds};

/// Verdict on a suspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuspectVerdict {
    /// Every known share is below the threshold.
    Cleared,
    /// A share reaches the threshold.
    CouldMatter,
    /// No statement matches the pattern.
    NotSeen,
}

impl SuspectVerdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            SuspectVerdict::Cleared => "cleared",
            SuspectVerdict::CouldMatter => "could matter",
            SuspectVerdict::NotSeen => "not seen",
        }
    }
}

/// Suspect, and the shares that it can account for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Suspect {
    /// Pattern, as it was given.
    pub pattern: String,
    /// The verdict.
    pub verdict: SuspectVerdict,
    /// Matching statements by descending time.
    pub statements: Vec<Subject>,
    /// Their calls.
    pub calls: u64,
    /// Share of all calls, from 0 to 1.
    pub calls_share: f64,
    /// Shares that they can account for, each measured in a different way.
    pub shares: Vec<SuspectShare>,
    /// Greatest of these shares: the maximum gain of removing the statements, from 0 to 1.
    pub max_gain: f64,
    /// Share below which a suspect is cleared.
    pub threshold: f64,
    /// Shares that could not be computed, each with the reason.
    pub unknown: Vec<String>,
}

impl Suspect {
    /// Creates a suspect of which nothing was seen.
    pub(super) fn not_seen(pattern: &str, threshold: f64) -> Self {
        Suspect {
            pattern: pattern.to_owned(),
            verdict: SuspectVerdict::NotSeen,
            statements: Vec::new(),
            calls: 0,
            calls_share: 0.0,
            shares: Vec::new(),
            max_gain: 0.0,
            threshold,
            unknown: Vec::new(),
        }
    }
}

/// Sums the response time of suspect statements and the time that others waited for them in their
/// sessions. For each session it keeps the suspects that precede a pending due time.
#[derive(Debug, Default)]
pub struct SuspectResponseTime {
    suspects: HashSet<Fingerprint>,
    ran: HashMap<u64, VecDeque<(i64, i64)>>,
    own_ns: f64,
    all_ns: f64,
}

impl SuspectResponseTime {
    /// Creates the sum for these statements.
    pub fn new(suspects: impl IntoIterator<Item = Fingerprint>) -> Self {
        SuspectResponseTime {
            suspects: suspects.into_iter().collect(),
            ..SuspectResponseTime::default()
        }
    }

    /// Adds an execution. Executions of a session must come in order.
    pub fn add(&mut self, step: &SessionStep) {
        if step.disconnect {
            self.ran.remove(&step.session);
        }
        if step.connect || step.disconnect {
            return;
        }
        let response_ns = (step.done_ns - step.due_ns).max(0) as f64;
        self.all_ns += response_ns;
        let is_suspect = step
            .fingerprint
            .is_some_and(|one| self.suspects.contains(&one));
        if !is_suspect && !self.ran.contains_key(&step.session) {
            return;
        }
        let ran = self.ran.entry(step.session).or_default();
        // Due times only increase within a session.
        while ran
            .front()
            .is_some_and(|(_, until_ns)| *until_ns <= step.due_ns)
        {
            ran.pop_front();
        }
        if is_suspect {
            self.own_ns += response_ns;
            ran.push_back((step.sent_ns, step.done_ns));
        } else {
            let response_times = ran.iter().map(|(from_ns, until_ns)| {
                let from_ns = (*from_ns).max(step.due_ns);
                ((*until_ns).min(step.sent_ns) - from_ns).max(0) as f64
            });
            self.own_ns += response_times.sum::<f64>();
        }
    }

    /// Returns the suspects' time and the total time, in nanoseconds.
    pub fn finish(self) -> (f64, f64) {
        (self.own_ns, self.all_ns)
    }
}

/// Computes the shares of the statements that match a pattern. `response` is their response time
/// including the waits that they caused, and the total response time, in nanoseconds, if known.
pub fn suspect(
    evidence: &Evidence,
    pattern: &str,
    response: Option<(f64, f64)>,
    thresholds: &Thresholds,
) -> Suspect {
    if SuspectedChange::parse(pattern).is_some() {
        return Suspect::of_change(pattern, thresholds);
    }
    let is = |one: &&StatementEvidence| matches_like_pattern(pattern, &one.sql);
    let statements: Vec<&StatementEvidence> = evidence.statements.iter().filter(is).collect();
    let threshold = thresholds.of(&CLEARED);
    if statements.is_empty() {
        return Suspect::not_seen(pattern, threshold);
    }
    let (shares, unknown) = suspect_shares(evidence, pattern, &statements, response);
    let max_gain = max_gain(&shares);
    let calls: u64 = statements.iter().map(|one| one.calls).sum();
    let all_calls: u64 = evidence.statements.iter().map(|one| one.calls).sum();
    Suspect {
        pattern: pattern.to_owned(),
        verdict: match max_gain < threshold {
            true => SuspectVerdict::Cleared,
            false => SuspectVerdict::CouldMatter,
        },
        statements: statements
            .iter()
            .map(|one| Subject::statement(one.fingerprint, one.sql.clone()))
            .collect(),
        calls,
        calls_share: calls as f64 / all_calls.max(1) as f64,
        shares,
        max_gain,
        threshold,
        unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Basis, Unavailable};
    use crate::synthetic::{EvidenceBuilder, statement};
    use time_breakdown::observed::StatementTotals;

    #[test]
    fn waits_for_a_suspect_are_counted_with_it() {
        let step = |id: u64, due_ns: i64, sent_ns: i64, done_ns: i64| SessionStep {
            session: 1,
            fingerprint: Some(Fingerprint(id)),
            connect: false,
            disconnect: false,
            due_ns,
            sent_ns,
            done_ns,
            rows: None,
            failed: None,
        };
        let mut response_times = SuspectResponseTime::new([Fingerprint(1)]);
        response_times.add(&step(1, 0, 0, 100));
        // It was due while the suspect ran, and waited 90 for it.
        response_times.add(&step(2, 10, 100, 150));
        // It only waited for its predecessor.
        response_times.add(&step(2, 120, 150, 160));
        assert_eq!(response_times.finish(), (190.0, 280.0));
    }

    #[test]
    fn suspect_is_cleared_below_the_threshold() {
        let made_up = EvidenceBuilder::new()
            .statement(statement(1, "update links set download_after = $1").took(1_000, 1.0))
            .statement(statement(2, "update links set queued_at = now()").took(10, 99.0));
        let evidence = made_up.evidence();
        let thresholds = Thresholds::default();
        let of = |pattern: &str| suspect(&evidence, pattern, None, &thresholds);
        let small = of("update links set download_after%");
        assert_eq!(small.verdict, SuspectVerdict::Cleared, "{small:?}");
        assert!((small.max_gain - 0.01).abs() < 1e-9);
        assert!(small.calls_share > 0.9);
        assert_eq!(of("update links%").verdict, SuspectVerdict::CouldMatter);
        assert_eq!(of("nothing%").verdict, SuspectVerdict::NotSeen);
        assert_eq!(small.shares[0].source, "its own calls");
        // Without counted calls, shares come from samples.
        let mut watched = evidence;
        watched.basis = Basis::Observation;
        watched.counted = Err(Unavailable::because("it is not loaded"));
        let watched = suspect(&watched, "update links%", None, &thresholds);
        assert_eq!(watched.shares[0].source, "samples that met it");
        // Waits that it caused are not its own time, but count as well.
        let held = EvidenceBuilder::new()
            .statement(statement(1, "update links set download_after = $1").took(1_000, 1.0))
            .statement(statement(2, "update links set queued_at = now()").took(10, 99.0))
            .blocking(
                "update links set queued_at = now()",
                "update links set download_after = $1",
                40,
            )
            .evidence();
        let held = suspect(&held, "update links set download_after%", None, &thresholds);
        assert_eq!(held.verdict, SuspectVerdict::CouldMatter);
        assert!(held.max_gain > 0.3, "{held:?}");
    }

    #[test]
    fn time_on_the_way_to_the_client_does_not_count_if_the_server_counted_its_own() {
        let touch = "update links set download_after = $1";
        let made_up = EvidenceBuilder::new()
            .statement(statement(1, touch).took(10, 10.0))
            .statement(statement(2, "select $1").took(90, 90.0));
        let mut evidence = made_up.evidence();
        let of = |evidence: &Evidence| suspect(evidence, touch, None, &Thresholds::default());
        assert_eq!(of(&evidence).verdict, SuspectVerdict::CouldMatter);
        for one in &mut evidence.statements {
            one.counted = Some(StatementTotals {
                calls: one.calls,
                exec_ns: if one.sql == touch { 10_000 } else { 2_000_000 },
                plan_ns: Some(0),
                ..StatementTotals::default()
            });
        }
        evidence.counted = Ok(());
        evidence.sample_ns = Err(Unavailable::because("nobody looked"));
        // Its commits may have waited for their flush.
        assert_eq!(of(&evidence).verdict, SuspectVerdict::CouldMatter);
        evidence.sample_ns = Ok(1e7);
        let cleared = of(&evidence);
        assert_eq!(cleared.verdict, SuspectVerdict::Cleared, "{cleared:?}");
        assert!((cleared.max_gain - 10.0 / 2_010.0).abs() < 1e-9);
        assert!((cleared.shares[0].share - 0.1).abs() < 1e-9 && !cleared.shares[0].counts);
    }
}
