//! Recognises a prefix from lines alone.
//!
//! Common prefixes are tried, and those that the lines' beginnings suggest ([`super::shape`]). Each
//! is judged by what it yields ([`super::evidence`]): a candidate that makes a client's statement
//! one of a background process, or that contradicts a connection line, does not match that line. If
//! two candidates fit equally and read different names, none is chosen.

use super::evidence::{LabelledLine, LineFacts, Verdict};
use super::shape::{escape_of_key, key_before, list_shapes};
use super::{Escape, NameOrder, Prefix};
use crate::severity::{Label, find_label, label};
use crate::timestamp::TimestampParser;

/// A candidate prefix that matches.
#[derive(Debug, Clone)]
pub(crate) struct InferredPrefix {
    pub prefix: Prefix,
    /// Number of lines that it matches.
    pub lines: usize,
    /// Number of those lines whose names look like names. A short prefix of names swallows what a
    /// longer one would separate.
    clean: usize,
    /// Number of lines that it matches and that contradict it.
    contradicted: usize,
    /// Time of the first line.
    pub first_us: i64,
    /// Nothing in the lines confirms which name is the user's.
    is_convention: bool,
}

/// Result of an inference.
#[derive(Debug, Clone)]
pub(crate) enum Inference {
    Found(Box<InferredPrefix>),
    /// Two prefixes fit equally, and read different names.
    Undecided([String; 2]),
    /// The lines fit the prefix, which has neither time nor a place for it.
    NoTime(String),
    Nothing,
}

impl Inference {
    /// Rejects a prefix that makes the lines look structured; see [`is_structured`].
    pub(crate) fn without_structured(self) -> Self {
        match &self {
            Inference::Found(found) if is_structured(found.prefix.text()) => Inference::Nothing,
            Inference::Undecided(prefixes) if prefixes.iter().any(|text| is_structured(text)) => {
                Inference::Nothing
            }
            Inference::NoTime(text) if is_structured(text) => Inference::Nothing,
            _ => self,
        }
    }
}

/// Returns whether a prefix begins like JSON or a quoted line, as no server's does.
pub(crate) fn is_structured(prefix: &str) -> bool {
    prefix.starts_with(['{', '"'])
}

/// Prefixes of servers, distributions, clouds and pgBadger's manual, the simpler first. Of two that
/// fit equally the first is taken.
const COMMON: &[&str] = &[
    "%m [%p] ",
    "%t [%p] ",
    // The prefix that `rehearse capture settings` recommends.
    "%m [%p] %c %l %e %q%r ",
    "%m [%p] %q%u@%d ",
    "%m [%p] %c %l %e %q%u@%d %r %a ",
    "%t [%p] %q%u@%d ",
    "%m [%p] %u@%d ",
    "%t [%p] %u@%d ",
    "%t [%p]: ",
    "%m [%p]: ",
    "%t [%p]: [%l-1] ",
    "%m [%p]: [%l-1] ",
    "%m [%p] %q%u@%d/%a ",
    "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "%m [%p] %q[user=%u,db=%d,app=%a,host=%h] ",
    "%m [%p] %quser=%u,db=%d,app=%a,client=%h ",
    "%m [%p] %quser=%u,db=%d,app=%a ",
    "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] %quser=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] %quser=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%m [%p]: [%l-1] user=%u,db=%d ",
    "%t [%p]: [%l-1] %quser=%u,db=%d ",
    "%m [%p]: user=%u,db=%d ",
    "%t [%p]: user=%u,db=%d ",
    "%t:%r:%u@%d:[%p]:",
    "%t:%r:%u@%d:[%p]: ",
    "%m:%r:%u@%d:[%p]: ",
    "%m:%r:%u@%d:[%p]:",
    "%t:%h:%u@%d:[%p]:",
    "%t:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%t [%p]: [%l-1] db=%d,user=%u ",
    "%m [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "%t [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "%t-%c-",
    "%m-%c-",
    "%m %c ",
    "%m [%c] ",
    "%n [%p] ",
];

/// Percentage of the lines with a severity that must match.
const MATCHED_PERCENT: usize = 80;

/// Percentage of the matched lines whose names must look like names.
const CLEAN_PERCENT: usize = 50;

/// Number of lines in a row that a prefix may not match before it ends.
const MISSES_MAX: usize = 3;

/// Minimum number of lines from which a prefix that does not fit all lines is inferred.
const RUN_MIN: usize = 2;

/// Infers the prefix of these lines. If it was changed among them, infers that of the first lines.
pub(crate) fn infer<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone) -> Inference {
    infer_with(lines.clone(), &announced_prefixes(lines))
}

/// Returns the prefixes that lines announce.
pub(crate) fn announced_prefixes<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<&'a str> {
    let mut lines = lines.peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        found.extend(announced_prefix(line, lines.peek().copied()));
    }
    found
}

/// Returns whether a line continues the entry before it with more than its place in the source, as no
/// line does after a changed setting. The server writes the lines of an entry at once, so that no other
/// process's are between.
fn continues_entry(line: &[u8]) -> bool {
    let found = find_label(line).and_then(|label_at| label(&line[label_at..]));
    let continues = matches!(
        found,
        Some((
            Label::Context | Label::Statement | Label::Detail | Label::Aside,
            _
        ))
    );
    continues || line.starts_with(b"\t")
}

/// Returns the prefix that a line announces: the postmaster reports changed settings, with the new
/// prefix. A client may write the same message, but another label is before it, or names, or its
/// STATEMENT or CONTEXT is in the next line.
pub(crate) fn announced_prefix<'a>(line: &'a [u8], next: Option<&[u8]>) -> Option<&'a str> {
    const START: &str = "LOG:  parameter \"log_line_prefix\" changed to \"";
    let label_at = find_label(line)?;
    let value = line[label_at..].strip_prefix(START.as_bytes())?;
    let value = std::str::from_utf8(value).ok()?.strip_suffix('"')?;
    if next.is_some_and(continues_entry) {
        return None;
    }
    let found = Prefix::compile(value).matches(line, &mut TimestampParser::default())?;
    let text = std::str::from_utf8(line).ok()?;
    let is_nameless = |name: &str| matches!(name, "" | "[unknown]");
    let fields = &found.fields;
    let names = [fields.user.of(text), fields.database.of(text)];
    (fields.quit || names.iter().all(|name| is_nameless(name))).then_some(value)
}

/// Infers the prefix of these lines. Known prefixes are preferred to others that fit equally.
pub(crate) fn infer_with<'a>(lines: impl Iterator<Item = &'a [u8]>, known: &[&str]) -> Inference {
    let lines: Vec<LabelledLine<'_>> = lines
        .filter(|line| !line.starts_with(b"\t"))
        .filter_map(|line| Some((line, find_label(line)?)))
        .collect();
    let facts = LineFacts::of_all(&lines);
    let shapes = list_shapes(&lines, &facts);
    let texts = known.iter().chain(COMMON).copied();
    let texts: Vec<&str> = texts.chain(shapes.iter().map(String::as_str)).collect();
    let candidates: Vec<Prefix> = texts.iter().map(|text| Prefix::compile(text)).collect();
    let scored = candidates
        .iter()
        .filter_map(|prefix| score_prefix(prefix, &lines, &facts));
    let scored: Vec<InferredPrefix> = scored.collect();
    let fits = |one: &InferredPrefix| {
        one.contradicted == 0
            && one.lines * 100 >= lines.len() * MATCHED_PERCENT
            && one.clean * 100 >= one.lines * CLEAN_PERCENT
    };
    let fitting = scored.into_iter().filter(|one| fits(one));
    let (timed, untimed): (Vec<_>, Vec<_>) = fitting.partition(|one| one.prefix.has_time());
    match choose(timed, &lines, known) {
        Inference::Nothing => {}
        found => return found,
    }
    match infer_first_run(&candidates, &lines, &facts, known) {
        Inference::Nothing => match untimed.first() {
            Some(untimed) => Inference::NoTime(untimed.prefix.text().to_owned()),
            None => Inference::Nothing,
        },
        found => found,
    }
}

/// Chooses the best of candidates that fit.
fn choose(
    candidates: Vec<InferredPrefix>,
    lines: &[LabelledLine<'_>],
    known: &[&str],
) -> Inference {
    let rank = |one: &InferredPrefix| (one.clean, one.lines);
    let Some(best) = candidates.iter().map(rank).max() else {
        return Inference::Nothing;
    };
    let mut best: Vec<InferredPrefix> = candidates
        .into_iter()
        .filter(|one| rank(one) == best)
        .collect();
    let is_known = known.contains(&best[0].prefix.text());
    let rival = best[1..]
        .iter()
        .filter(|_| !is_known)
        .find(|other| reads_differently(&best[0].prefix, &other.prefix, lines));
    if let Some(rival) = rival {
        let texts = [best[0].prefix.text(), rival.prefix.text()];
        return Inference::Undecided(texts.map(str::to_owned));
    }
    let mut best = best.swap_remove(0);
    if best.is_convention && !is_known {
        best.prefix.names = NameOrder::Usual;
    }
    Inference::Found(Box::new(InferredPrefix {
        prefix: best.prefix.into_recognised(),
        ..best
    }))
}

/// Returns whether two prefixes read different users, databases, processes or messages.
fn reads_differently(one: &Prefix, other: &Prefix, lines: &[LabelledLine<'_>]) -> bool {
    let mut times = TimestampParser::default();
    lines.iter().any(|(line, _)| {
        let mut read = |prefix: &Prefix| {
            let found = prefix.matches(line, &mut times)?;
            let fields = found.fields;
            let text = |range: std::ops::Range<usize>| line.get(range).unwrap_or_default();
            Some((
                text(fields.user.range()),
                text(fields.database.range()),
                fields.pid,
                found.text,
            ))
        };
        match (read(one), read(other)) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        }
    })
}

/// Infers the prefix of the first lines, up to the line at which it was changed.
fn infer_first_run(
    candidates: &[Prefix],
    lines: &[LabelledLine<'_>],
    facts: &[LineFacts<'_>],
    known: &[&str],
) -> Inference {
    let mut runs: Vec<(usize, &Prefix)> = candidates
        .iter()
        .map(|prefix| (run_length(prefix, lines, facts), prefix))
        .filter(|(length, prefix)| *length >= RUN_MIN && *length < lines.len() && prefix.has_time())
        .collect();
    let Some(longest) = runs.iter().map(|(length, _)| *length).max() else {
        return Inference::Nothing;
    };
    runs.retain(|(length, _)| *length == longest);
    let (lines, facts) = (&lines[..longest], &facts[..longest]);
    let scored = runs
        .iter()
        .filter_map(|(_, prefix)| score_prefix(prefix, lines, facts));
    let fitting =
        scored.filter(|one| one.contradicted == 0 && one.clean * 100 >= one.lines * CLEAN_PERCENT);
    choose(fitting.collect(), lines, known)
}

/// Returns the number of lines from the first on that a prefix fits, apart from a few in between.
fn run_length(prefix: &Prefix, lines: &[LabelledLine<'_>], facts: &[LineFacts<'_>]) -> usize {
    let mut times = TimestampParser::default();
    let (mut length, mut misses, mut fitting) = (0, 0, 0);
    for (index, ((line, _), facts)) in lines.iter().zip(facts).enumerate() {
        let verdict = facts.judge(prefix, line, &mut times);
        match verdict {
            Verdict::Fits { .. } => {
                (length, misses) = (index + 1, 0);
                fitting += 1;
            }
            _ if index == 0 => return 0,
            // A background process's line fits nearly any prefix that ends before it.
            Verdict::Contradicts => break,
            Verdict::NoMatch => {
                misses += 1;
                if misses == MISSES_MAX {
                    break;
                }
            }
        }
    }
    let is_most = fitting * 100 >= length * MATCHED_PERCENT;
    match is_most && (fitting >= RUN_MIN || fitting == lines.len()) {
        true => length,
        false => 0,
    }
}

fn score_prefix(
    prefix: &Prefix,
    lines: &[LabelledLine<'_>],
    facts: &[LineFacts<'_>],
) -> Option<InferredPrefix> {
    let mut times = TimestampParser::default();
    let (mut matched, mut clean, mut contradicted, mut confirmed) = (0, 0, 0, 0);
    let mut first_us = None;
    let mut may_miss = lines.len() * (100 - MATCHED_PERCENT) / 100;
    for ((line, _), facts) in lines.iter().zip(facts) {
        match facts.judge(prefix, line, &mut times) {
            Verdict::Fits {
                wall_us,
                is_clean,
                is_confirmed,
            } => {
                matched += 1;
                clean += usize::from(is_clean);
                confirmed += usize::from(is_confirmed);
                first_us = first_us.or(wall_us);
            }
            verdict => {
                contradicted += usize::from(matches!(verdict, Verdict::Contradicts));
                // A candidate that matches fewer lines is rejected without trying the rest.
                may_miss = may_miss.checked_sub(1)?;
            }
        }
    }
    let named = prefix.has(&[Escape::User, Escape::Database]);
    Some(InferredPrefix {
        lines: matched,
        clean,
        contradicted,
        first_us: first_us.or((!prefix.has_time()).then_some(0))?,
        is_convention: named && confirmed == 0 && !prefix.names_its_names(),
        prefix: prefix.clone(),
    })
}

impl Prefix {
    /// Returns whether the text before each name in it says what it is: `user=`, `db=`.
    pub(super) fn names_its_names(&self) -> bool {
        let text = self.text();
        ["%u", "%d"].iter().all(|escape| {
            let Some(at) = text.find(escape) else {
                return true;
            };
            let key = key_before(&text[..at]);
            escape_of_key(&key).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(log: &str) -> Vec<&str> {
        announced_prefixes(log.lines().map(str::as_bytes))
    }

    #[test]
    fn prefix_is_announced_by_the_postmaster_alone() {
        const TIME: &str = "2026-03-01 09:30:05.123 UTC [7]";
        const MESSAGE: &str = "LOG:  parameter \"log_line_prefix\" changed to";
        for (names, prefix) in [
            ("", "%m [%p] %q%u@%d "),
            ("@ ", "%m [%p] %u@%d "),
            ("[unknown] [unknown] ", "%m [%p] %u %d "),
            ("", "%m [%p] "),
        ] {
            let log = format!("{TIME} {names}{MESSAGE} \"{prefix}\"\n{TIME} LOG:  statement: x");
            assert_eq!(announced(&log), [prefix]);
        }
        for forged in [
            // A session has names.
            format!("{TIME} bob@shop {MESSAGE} \"%m [%p] %d@%u \""),
            format!("{TIME} bob@ {MESSAGE} \"%m [%p] %u@%d \""),
            // The text is that of a statement.
            format!("{TIME} STATEMENT:  {MESSAGE} \"%m [%p] STATEMENT:  \""),
            format!("{TIME} LOG:  statement: {MESSAGE} \"%m [%p] %q%d@%u \""),
            format!("{TIME} ERROR:  x {MESSAGE} \"%m [%p] ERROR:  x \""),
            // Its line does not have it.
            format!("{TIME} {MESSAGE} \"%m [%p]: \""),
            // RAISE LOG.
            format!(
                "{TIME} {MESSAGE} \"%m [%p] %q%d@%u \"\n{TIME} CONTEXT:  PL/pgSQL function f() line 1 at RAISE"
            ),
            format!("{TIME} {MESSAGE} \"%m [%p] %q%d@%u \"\n{TIME} STATEMENT:  select f()"),
        ] {
            assert_eq!(announced(&forged), [""; 0], "{forged}");
        }
    }
}
