//! Shares of the time that suspected statements account for.

use schemars::JsonSchema;
use serde::Serialize;

use super::evidence::{Basis, Evidence, StatementEvidence, Unavailable};
use super::rules::flush_ns;

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
    /// Whether it counts for the maximum gain. Times of clients include the way to them, and do not count if the server's are known.
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

/// Returns the shares of statements that match a pattern, and the reasons why others are unknown.
pub(super) fn suspect_shares(
    evidence: &Evidence,
    pattern: &str,
    statements: &[&StatementEvidence],
    response: Option<(f64, f64)>,
) -> (Vec<SuspectShare>, Vec<String>) {
    let mut all = Shares::default();
    all.add(Ok(own_share(evidence, statements)));
    all.add(response_share(response));
    all.add_known(server_share(evidence, statements));
    all.add(processor_share(evidence, statements));
    all.add(flush_share(evidence, statements));
    all.add(blocking_share(evidence, pattern));
    if is_server_time_known(evidence, &all.shares) {
        let is_of_clients =
            |one: &SuspectShare| one.of == evidence.basis.whole() || one.of == RESPONSE;
        for share in &mut all.shares {
            share.counts = !is_of_clients(share);
        }
    }
    (all.shares, all.unknown)
}

/// Known shares, and the reasons for unknown ones.
#[derive(Default)]
struct Shares {
    shares: Vec<SuspectShare>,
    unknown: Vec<String>,
}

impl Shares {
    fn add(&mut self, share: Result<SuspectShare, String>) {
        self.add_known(share.map(Some));
    }

    /// Adds a share, unless there is no time that it could be a share of.
    fn add_known(&mut self, share: Result<Option<SuspectShare>, String>) {
        match share {
            Ok(share) => self.shares.extend(share),
            Err(reason) => self.unknown.push(reason),
        }
    }
}

/// Name of the share of [`response_share`].
const RESPONSE: &str = "response time of all statements (due → done)";
/// Name of the share of [`server_share`].
const SERVER: &str = "planning and execution time in the server";
/// Name of the share of [`processor_share`].
const PROCESSOR: &str = "processor time of the server";
/// Name of the share of [`flush_share`].
const FLUSH: &str = "time in which it waited for the flush of its commits";
/// Name of the share of [`blocking_share`].
const BLOCKING: &str = "time that others waited for locks that it held";

/// Whether the shares include all of the statements' time in the server: execution, planning, and the flush of commits, which is
/// in no counted execution.
fn is_server_time_known(evidence: &Evidence, shares: &[SuspectShare]) -> bool {
    let has = |name: &str| shares.iter().any(|one| one.of == name);
    let mut counted = evidence.statements.iter().filter_map(|one| one.counted);
    let is_planning_counted = counted.any(|one| one.plan_ns.is_some());
    evidence.basis == Basis::Run
        && has(SERVER)
        && has(FLUSH)
        && (is_planning_counted || has(PROCESSOR))
}

/// Returns the statements' share of the whole.
fn own_share(evidence: &Evidence, statements: &[&StatementEvidence]) -> SuspectShare {
    let ns: f64 = statements.iter().map(|one| one.ns).sum();
    SuspectShare {
        of: evidence.basis.whole(),
        ns: Some(ns),
        share: evidence.share(ns),
        counts: true,
        source: match (evidence.basis, &evidence.counted) {
            // Without counted calls, the number comes from samples.
            (Basis::Observation, Err(_)) => "samples that met it",
            _ => "its own calls",
        },
    }
}

/// Returns the share of response time, given the suspects' and the total time.
fn response_share(response: Option<(f64, f64)>) -> Result<SuspectShare, String> {
    match response {
        Some((own_ns, all_ns)) if all_ns > 0.0 => Ok(SuspectShare {
            of: RESPONSE,
            ns: Some(own_ns),
            share: own_ns / all_ns,
            counts: true,
            source: "its own calls, and statements that waited for them in their sessions",
        }),
        _ => Err(
            "response time: only a run has it whose sessions waited for nothing else".to_owned(),
        ),
    }
}

/// Returns the share of planning and execution time that the server counted; `None` if it counted no
/// time.
fn server_share(
    evidence: &Evidence,
    statements: &[&StatementEvidence],
) -> Result<Option<SuspectShare>, String> {
    if let Err(missing) = &evidence.counted {
        return Err(format!("time in the server: {missing}"));
    }
    let time = |one: &StatementEvidence| {
        one.counted
            .map_or(0.0, |one| (one.exec_ns + one.plan_ns.unwrap_or(0)) as f64)
    };
    let own_ns: f64 = statements.iter().map(|one| time(one)).sum();
    let all_ns: f64 = evidence.statements.iter().map(time).sum();
    Ok((all_ns > 0.0).then(|| SuspectShare {
        of: SERVER,
        ns: Some(own_ns),
        share: own_ns / all_ns,
        counts: true,
        source: "pg_stat_statements",
    }))
}

/// Returns the share of processor time.
fn processor_share(
    evidence: &Evidence,
    statements: &[&StatementEvidence],
) -> Result<SuspectShare, String> {
    let share: Option<f64> = statements.iter().map(|one| evidence.cpu_share(one)).sum();
    let share =
        share.ok_or("processor time: no stacks were taken, and no samples or too few of them")?;
    Ok(SuspectShare {
        of: PROCESSOR,
        ns: None,
        share,
        counts: true,
        source: match evidence.stacks {
            Ok(_) => "stacks",
            Err(_) => "samples that met a backend not waiting",
        },
    })
}

/// Returns the share of the whole in which the statements waited for the flush of the write-ahead log.
fn flush_share(
    evidence: &Evidence,
    statements: &[&StatementEvidence],
) -> Result<SuspectShare, String> {
    let unknown = |missing: &Unavailable| format!("flushes of its commits: {missing}");
    evidence.sample_ns.as_ref().map_err(unknown)?;
    let each = statements.iter().map(|one| flush_ns(evidence, one));
    let ns = each.fold(0.0, |sum, ns| sum + ns);
    Ok(SuspectShare {
        of: FLUSH,
        ns: Some(ns),
        share: evidence.share(ns),
        counts: true,
        source: "samples",
    })
}

/// Returns the time for which the suspects blocked other statements, relative to the whole.
fn blocking_share(evidence: &Evidence, pattern: &str) -> Result<SuspectShare, String> {
    let unknown = |missing: &Unavailable| format!("locks that it held: {missing}");
    evidence.sample_ns.as_ref().map_err(unknown)?;
    let observed = evidence.observed.as_ref().map_err(unknown)?;
    // Blocking sessions are attributed by their last statement.
    let held: u64 = observed
        .blocking
        .iter()
        .filter(|one| {
            let blocker = one.blocker.as_deref();
            let is_other = |sql: &str| !matches_like_pattern(pattern, sql);
            blocker.is_some_and(|sql| matches_like_pattern(pattern, sql))
                && one.blocked.as_deref().is_none_or(is_other)
        })
        .map(|one| one.samples)
        .sum();
    // Blocking is sampled once a second.
    let ns = held as f64 * 1e9;
    Ok(SuspectShare {
        of: BLOCKING,
        ns: Some(ns),
        share: evidence.share(ns),
        counts: true,
        source: "pg_blocking_pids, looked at once a second",
    })
}

/// Returns the maximum gain of removing the statements: the greatest share that counts. The waits of others end with them, so that
/// these are added to times that do not include them, as is the flush of commits to the time in the server.
pub(super) fn max_gain(shares: &[SuspectShare]) -> f64 {
    let of = |names: &[&str]| -> f64 {
        let named = shares.iter().filter(|one| names.contains(&one.of));
        named.map(|one| one.share).sum()
    };
    let gains = shares.iter().filter(|one| one.counts).map(|one| {
        one.share
            + match one.of {
                RESPONSE => 0.0,
                FLUSH | BLOCKING => of(&[FLUSH, BLOCKING]) - one.share,
                SERVER | PROCESSOR => of(&[FLUSH, BLOCKING]),
                _ => of(&[BLOCKING]),
            }
    });
    gains.fold(0.0, f64::max).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
