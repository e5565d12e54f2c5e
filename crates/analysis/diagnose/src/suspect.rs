//! How much of the time a statement can account for at all, and so the most that removing it could bring.

use std::collections::{HashMap, HashSet, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use super::evidence::{Basis, Evidence, StatementEvidence};
use super::finding::Subject;
use super::history::Step;
use super::threshold::{CLEARED, Thresholds};

/// Verdict on a suspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuspectVerdict {
    /// Every share that is known is below the threshold.
    Cleared,
    /// A share is at the threshold or above it.
    CouldMatter,
    /// No statement matches the pattern.
    NotSeen,
}

impl SuspectVerdict {
    /// Returns it in words.
    pub fn words(self) -> &'static str {
        match self {
            SuspectVerdict::Cleared => "cleared",
            SuspectVerdict::CouldMatter => "could matter",
            SuspectVerdict::NotSeen => "not seen",
        }
    }
}

/// A suspect, and what it can account for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Suspect {
    /// The pattern as it was given.
    pub pattern: String,
    /// The verdict.
    pub verdict: SuspectVerdict,
    /// The statements that match the pattern, the most time first.
    pub statements: Vec<Subject>,
    /// Their calls.
    pub calls: u64,
    /// Share of all calls, from 0 to 1.
    pub calls_share: f64,
    /// What they can account for, each measured in its own way.
    pub shares: Vec<SuspectShare>,
    /// The greatest of these shares: the most that removing the statements could gain, from 0 to 1.
    pub max_gain: f64,
    /// The share below which a suspect is cleared.
    pub threshold: f64,
    /// What could not be looked at, each with the reason.
    pub unknown: Vec<String>,
}

/// Share of a time that a suspect has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SuspectShare {
    /// Name of the time.
    #[serde(rename = "whole")]
    pub of: &'static str,
    /// The suspect's part of it, in nanoseconds; `null` if only the share is known.
    pub ns: Option<f64>,
    /// Share from 0 to 1.
    pub share: f64,
    /// Origin of the numbers.
    pub source: &'static str,
}

/// Whether a normal form is like a pattern of SQL: `%` is any text, `_` any character, a backslash takes
/// the next as it is. Cases of letters, lengths of white space and the numbers of values do not count.
pub fn like(pattern: &str, normal: &str) -> bool {
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
    // Greedy, going back to the last `%`: linear but for that.
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

/// What of the response times is some statements' own, and what others waited behind them in their
/// sessions. Holds of each session what still stands before something that was due.
#[derive(Debug, Default)]
pub struct Behind {
    suspects: HashSet<Fingerprint>,
    ran: HashMap<u64, VecDeque<(i64, i64)>>,
    own_ns: f64,
    all_ns: f64,
}

impl Behind {
    /// Of these statements.
    pub fn new(suspects: impl IntoIterator<Item = Fingerprint>) -> Self {
        Behind {
            suspects: suspects.into_iter().collect(),
            ..Behind::default()
        }
    }

    /// Takes one execution; those of a session in their order.
    pub fn add(&mut self, step: &Step) {
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
        // Dues only grow within a session.
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
            let behind = ran.iter().map(|(from_ns, until_ns)| {
                let from_ns = (*from_ns).max(step.due_ns);
                ((*until_ns).min(step.sent_ns) - from_ns).max(0) as f64
            });
            self.own_ns += behind.sum::<f64>();
        }
    }

    /// Theirs, and all of it, in nanoseconds.
    pub fn finish(self) -> (f64, f64) {
        (self.own_ns, self.all_ns)
    }
}

/// Computes what the statements that match a pattern can account for.
/// `response` is what of the response times is theirs, waiting behind them included, and all of it, where
/// that was counted, in nanoseconds.
pub fn suspect(
    evidence: &Evidence,
    pattern: &str,
    response: Option<(f64, f64)>,
    thresholds: &Thresholds,
) -> Suspect {
    let is = |one: &&StatementEvidence| like(pattern, &one.sql);
    let statements: Vec<&StatementEvidence> = evidence.statements.iter().filter(is).collect();
    let threshold = thresholds.of(&CLEARED);
    if statements.is_empty() {
        return Suspect {
            pattern: pattern.to_owned(),
            verdict: SuspectVerdict::NotSeen,
            statements: Vec::new(),
            calls: 0,
            calls_share: 0.0,
            shares: Vec::new(),
            max_gain: 0.0,
            threshold,
            unknown: Vec::new(),
        };
    }
    let mut shares = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    let calls: u64 = statements.iter().map(|one| one.calls).sum();
    let all_calls: u64 = evidence.statements.iter().map(|one| one.calls).sum();
    let ns: f64 = statements.iter().map(|one| one.ns).sum();
    shares.push(SuspectShare {
        of: evidence.basis.whole(),
        ns: Some(ns),
        share: evidence.share(ns),
        source: match (evidence.basis, &evidence.counted) {
            // Nobody counted calls: it is what samples say.
            (Basis::Observation, Err(_)) => "samples that met it",
            _ => "its own calls",
        },
    });
    match response {
        Some((own_ns, all_ns)) if all_ns > 0.0 => shares.push(SuspectShare {
            of: "response time of all statements (due → done)",
            ns: Some(own_ns),
            share: own_ns / all_ns,
            source: "its own calls, and what waited behind them in their sessions",
        }),
        _ => unknown.push(
            "response time: only a run has it whose sessions waited for nothing else".to_owned(),
        ),
    }
    match &evidence.counted {
        Ok(()) => {
            let time = |one: &StatementEvidence| {
                one.counted
                    .map_or(0.0, |one| (one.exec_ns + one.plan_ns.unwrap_or(0)) as f64)
            };
            let own_ns: f64 = statements.iter().map(|one| time(one)).sum();
            let all_ns: f64 = evidence.statements.iter().map(time).sum();
            if all_ns > 0.0 {
                shares.push(SuspectShare {
                    of: "planning and execution time in the server",
                    ns: Some(own_ns),
                    share: own_ns / all_ns,
                    source: "pg_stat_statements",
                });
            }
        }
        Err(missing) => unknown.push(format!("time in the server: {missing}")),
    }
    let cpu: Option<f64> = statements.iter().map(|one| evidence.cpu_share(one)).sum();
    match cpu {
        Some(share) => shares.push(SuspectShare {
            of: "processor time of clients' backends",
            ns: None,
            share,
            source: match evidence.stacks {
                Ok(_) => "stacks",
                Err(_) => "samples that met a backend not waiting",
            },
        }),
        None => unknown.push(
            "processor time: no stacks were taken, and no samples or too few of them".to_owned(),
        ),
    }
    match (&evidence.observed, &evidence.sample_ns) {
        (Ok(observed), Ok(_)) => {
            // Who held the lock, as far as its last statement tells.
            let held: u64 = observed
                .blocking
                .iter()
                .filter(|one| {
                    let blocker = one.blocker.as_deref();
                    let is_other = |sql: &str| !like(pattern, sql);
                    blocker.is_some_and(|sql| like(pattern, sql))
                        && one.blocked.as_deref().is_none_or(is_other)
                })
                .map(|one| one.samples)
                .sum();
            // Who holds up whom is looked at once a second.
            let ns = held as f64 * 1e9;
            shares.push(SuspectShare {
                of: "time that others waited for locks that it held",
                ns: Some(ns),
                share: evidence.share(ns),
                source: "pg_blocking_pids, looked at once a second",
            });
        }
        (_, Err(missing)) | (Err(missing), _) => {
            unknown.push(format!("locks that it held: {missing}"));
        }
    }
    // What others waited for goes with it, so that both count.
    let of = |what: &str| {
        let found = shares.iter().find(|one| one.of.starts_with(what));
        found.map_or(0.0, |one| one.share)
    };
    let held = of("time that others waited");
    let max_gain = shares
        .iter()
        .filter(|one| !one.of.starts_with("time that others waited"))
        .map(|one| one.share)
        .fold(evidence.share(ns) + held, f64::max)
        .min(1.0);
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
    use crate::evidence::Missing;
    use crate::made_up::{MadeUp, statement};

    #[test]
    fn patterns_are_those_of_sql() {
        let normal = "update image_links set download_after = now() + random() * $1 where id = $2";
        assert!(like("update image_links set download_after%", normal));
        assert!(like("UPDATE  image_links SET%where id = $7", normal));
        assert!(like("%random()%", normal));
        assert!(!like("update image_links", normal));
        assert!(!like("select%", normal));
        assert!(like(r"100\%", "100%") && !like(r"100\%", "1000"));
        assert!(like("a%b%c", "a b b c") && !like("a%b%c", "a b b"));
    }

    #[test]
    fn what_waits_behind_a_suspect_is_counted_with_it() {
        let step = |id: u64, due_ns: i64, sent_ns: i64, done_ns: i64| Step {
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
        let mut behind = Behind::new([Fingerprint(1)]);
        behind.add(&step(1, 0, 0, 100));
        // It was due while the suspect ran, and waited 90 for it.
        behind.add(&step(2, 10, 100, 150));
        // It waited for the one before only.
        behind.add(&step(2, 120, 150, 160));
        assert_eq!(behind.finish(), (190.0, 280.0));
    }

    #[test]
    fn a_suspect_with_little_time_is_cleared_and_one_with_much_is_not() {
        let made_up = MadeUp::new()
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
        // Where nobody counted calls, it is known from samples.
        let mut watched = evidence;
        watched.basis = Basis::Observation;
        watched.counted = Err(Missing::because("it is not loaded"));
        let watched = suspect(&watched, "update links%", None, &thresholds);
        assert_eq!(watched.shares[0].source, "samples that met it");
        // What others waited for because of it is not its own time, and counts all the same.
        let held = MadeUp::new()
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
