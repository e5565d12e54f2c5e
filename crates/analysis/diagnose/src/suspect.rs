//! Bounds the share of the time that a statement can account for, and so the gain of removing it.

use std::collections::{HashMap, HashSet, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use super::evidence::{Evidence, StatementEvidence};
use super::finding::Subject;
use super::history::SessionStep;
use super::suspect_shares::{max_gain, suspect_shares};
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

/// A suspect's share of a time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SuspectShare {
    /// Name of the time.
    #[serde(rename = "whole")]
    pub of: &'static str,
    /// The suspect's part in nanoseconds; `null` if only the share is known.
    pub ns: Option<f64>,
    /// Share from 0 to 1.
    pub share: f64,
    /// Whether it counts for the maximum gain. Times of clients include the way to them, and do not count where the server's are known.
    pub counts: bool,
    /// Origin of the numbers.
    pub source: &'static str,
}

/// Whether normalised SQL matches a LIKE pattern: `%` is any text, `_` any character, a backslash
/// escapes the next character. Case, lengths of white space and the numbers of parameters are
/// ignored.
pub fn matches_like_pattern(pattern: &str, normal: &str) -> bool {
    fn folded(text: &str) -> Vec<char> {
        let mut out = Vec::new();
        let mut after_dollar = false;
        for c in text.trim().chars() {
            if after_dollar && c.is_ascii_digit() {
                continue;
            }
            after_dollar = c == '$';
            if c.is_whitespace() {
                if out.last() != Some(&' ') {
                    out.push(' ');
                }
            } else {
                out.extend(c.to_lowercase());
            }
        }
        out
    }
    let (pattern, text) = (folded(pattern), folded(normal));
    // Greedy with backtracking to the last `%`; otherwise linear.
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        let (literal, width) = match pattern.get(p) {
            Some('\\') if p + 1 < pattern.len() => (Some(pattern[p + 1]), 2),
            Some('%') => {
                back = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some('_') => (Some(text[t]), 1),
            Some(c) => (Some(*c), 1),
            None => (None, 0),
        };
        if literal == Some(text[t]) {
            p += width;
            t += 1;
        } else if let Some((after, from)) = back {
            p = after;
            t = from + 1;
            back = Some((after, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '%')
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

    #[test]
    fn like_patterns_match_as_in_sql() {
        let normal = "update image_links set download_after = now() + random() * $1 where id = $2";
        assert!(matches_like_pattern(
            "update image_links set download_after%",
            normal
        ));
        assert!(matches_like_pattern(
            "UPDATE  image_links SET%where id = $7",
            normal
        ));
        assert!(matches_like_pattern("%random()%", normal));
        assert!(!matches_like_pattern("update image_links", normal));
        assert!(!matches_like_pattern("select%", normal));
        assert!(matches_like_pattern(r"100\%", "100%") && !matches_like_pattern(r"100\%", "1000"));
        assert!(
            matches_like_pattern("a%b%c", "a b b c") && !matches_like_pattern("a%b%c", "a b b")
        );
    }

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
}
