//! Expected log entries of the sent statements for given settings: a small model of the server
//! (`postgres.c`: `exec_simple_query`, `exec_parse_message`, `exec_bind_message`,
//! `exec_execute_message`, `check_log_statement`, `check_log_duration`; `elog.c`).

use capture_log::LogFormat;
use workload::{Sqlstate, Unreplayable};

use super::mixture::{May, Mixture};
use super::sent::{How, Phase, Sent};

/// Kinds that an event may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Simple,
    Prepare,
    Execute,
    Fetch,
}

/// Values that the log shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// The statement has none.
    None,
    /// These, some of them cut.
    Known {
        values: Vec<Option<String>>,
        cut: bool,
    },
    /// It has, but the log does not show them.
    Missing,
}

/// Expected event of one sent statement.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Whether there is an event of it.
    pub event: May,
    pub kind: Kind,
    /// The event is a Prepare if only its Parse was sampled.
    pub perhaps_prepare: bool,
    pub values: Values,
    /// Values that only the line of a sampled bind has.
    pub perhaps_values: Option<Values>,
    pub timed: May,
    pub sqlstate: Option<Sqlstate>,
    /// A failure at the end of an implicit transaction names no statement. Where statements are
    /// sampled it may be taken for the one's before it, or for nobody's: `None`.
    pub perhaps_sqlstate: Option<Option<Sqlstate>>,
    pub unreplayable: Option<Unreplayable>,
    /// Reasons that it may have because the log lacks a `BEGIN` or savepoint before it, so that an
    /// error seems to undo it.
    pub perhaps_undone: &'static [Unreplayable],
    /// Whether the log has an error of it that names no statement, and nothing else.
    pub nameless_error: May,
    /// A `Cancel` follows.
    pub canceled: bool,
    /// Earliest and latest due time.
    pub due_us: (i64, i64),
    /// Shortest and longest duration.
    pub duration_us: (i64, i64),
    /// Number of the statement; `None` for the unnamed one.
    pub name: Option<usize>,
    /// The log need not show the name.
    pub name_perhaps_hidden: bool,
    pub portal: bool,
    /// The event may follow a later one.
    pub perhaps_late: bool,
    /// The failure may be attributed to the previous execution of the same statement. If steps
    /// are sampled separately, a bind may be logged without its execution, and then nothing
    /// distinguishes the two.
    pub perhaps_merged: bool,
}

/// Returns whether this log shows DETAIL and CONTEXT. Terse stderr logs do not.
fn shows_more(mixture: &Mixture, format: LogFormat) -> bool {
    format != LogFormat::Stderr || mixture.verbosity != "terse"
}

const IN_FAILED_TRANSACTION: &str = "25P02";

fn code(mixture: &Mixture, format: LogFormat, code: &str) -> Sqlstate {
    let shown = format != LogFormat::Stderr
        || mixture.verbosity == "verbose"
        || mixture.prefix.contains("%e")
        // Its message has always this code.
        || code == IN_FAILED_TRANSACTION;
    match shown {
        true => Sqlstate::parse(code).unwrap(),
        false => Sqlstate::UNKNOWN,
    }
}

/// Truncates values to a limit (`appendStringInfoStringQuoted`, `pg_mbcliplen`).
fn cut(values: &[Option<String>], limit: i64) -> Option<Values> {
    let Ok(limit) = usize::try_from(limit) else {
        let values = values.to_vec();
        return Some(Values::Known { values, cut: false });
    };
    if limit == 0 {
        return None;
    }
    let mut any = false;
    let short = |value: &String| {
        if value.len() <= limit {
            return value.clone();
        }
        any = true;
        let end = (0..=limit).rev().find(|end| value.is_char_boundary(*end));
        format!("{}...", &value[..end.unwrap()])
    };
    let mut short = short;
    let values = values
        .iter()
        .map(|value| value.as_ref().map(&mut short))
        .collect();
    Some(Values::Known { values, cut: any })
}

/// How near to each other steps are taken to be of one message.
const SAME_MESSAGE_US: i64 = 10_000;

/// Returns the expected events of a session in the log of a mixture in this format.
pub fn all_expected<'a>(
    sent: &'a [Sent],
    mixture: &Mixture,
    format: LogFormat,
) -> Vec<(&'a Sent, Expected)> {
    let mut all: Vec<_> = sent
        .iter()
        .map(|sent| (sent, expected(sent, mixture, format)))
        .collect();
    let sampled = mixture.min_duration_sample_us.is_some() || mixture.transaction_sample_rate > 0.0;
    for next in 1..all.len() {
        let nameless = matches!(all[next].0.failed, Some((_, Phase::Commit)));
        if sampled && nameless && all[next].1.event == May::Perhaps {
            let sqlstate = all[next].1.sqlstate;
            all[next - 1].1.perhaps_sqlstate = Some(sqlstate);
        }
        let stepwise = mixture.min_duration_sample_us.is_some();
        let extended = all[next].1.kind == Kind::Execute && all[next].1.sqlstate.is_some();
        let last = (0..next)
            .rev()
            .find(|at| all[*at].1.kind == Kind::Execute && all[*at].1.event != May::Never);
        if let Some(last) = last
            && stepwise
            && extended
            && all[last].0.sql == all[next].0.sql
            && all[last].1.event == May::Perhaps
        {
            all[last].1.perhaps_sqlstate = Some(all[next].1.sqlstate);
            all[next].1.perhaps_merged = true;
        }
    }
    all
}

/// Returns the expected event of a statement in the log of a mixture in this format.
fn expected(sent: &Sent, mixture: &Mixture, format: LogFormat) -> Expected {
    let elapsed_us = sent.after_us - sent.before_us;
    let parse_us = sent
        .prepared_us
        .map_or(0, |(before_us, after_us)| after_us - before_us);
    let started = mixture.logs_start(sent.class);
    let ended = mixture.logs_end(sent.slept_us..=elapsed_us);
    let step = mixture.logs_end(0..=elapsed_us - sent.slept_us);
    let parse = match sent.how {
        How::Execute { name: None, .. } => step,
        _ if sent.prepared_us.is_some() => mixture.logs_end(0..=parse_us),
        _ => May::Never,
    };
    // Where an execution was not sampled, its Parse goes to the next one with the same text.
    let (early_us, longer_us) = match (sent.prepared_us, parse) {
        (Some((before_us, _)), _) if sent.first => (sent.before_us - before_us, parse_us),
        (Some((before_us, _)), May::Perhaps) => {
            ((sent.before_us - before_us).min(SAME_MESSAGE_US), parse_us)
        }
        (None, May::Perhaps) => (SAME_MESSAGE_US, SAME_MESSAGE_US),
        _ => (0, 0),
    };
    let bare = match mixture.log_duration {
        true => May::Always,
        false => ended,
    };
    let (name, portal) = match sent.how {
        How::Simple => (None, false),
        How::Prepare { name } => (Some(name), false),
        How::Execute { name, portal } => (name, portal),
        How::Fetch { name } => (Some(name), true),
    };
    let has_values = sent.sql.contains("$1") && !sent.sql.contains("$$") && name_or_values(sent);
    let mut expected = Expected {
        event: May::Always,
        kind: match sent.how {
            How::Simple => Kind::Simple,
            How::Prepare { .. } => Kind::Prepare,
            How::Execute { .. } => Kind::Execute,
            How::Fetch { .. } => Kind::Fetch,
        },
        perhaps_prepare: false,
        values: match has_values {
            true => Values::Missing,
            false => Values::None,
        },
        perhaps_values: None,
        timed: May::Never,
        sqlstate: None,
        perhaps_sqlstate: None,
        unreplayable: None,
        perhaps_undone: perhaps_undone(mixture),
        nameless_error: May::Never,
        canceled: false,
        due_us: (sent.before_us - early_us, sent.after_us),
        duration_us: (sent.slept_us, elapsed_us + longer_us),
        name,
        name_perhaps_hidden: sent.failed.is_some(),
        portal,
        perhaps_late: false,
        perhaps_merged: false,
    };
    let detail = match shows_more(mixture, format) {
        true => cut(&sent.parameters, mixture.parameter_bytes),
        false => None,
    };
    let context = match shows_more(mixture, format) {
        true => cut(&sent.parameters, mixture.parameter_bytes_on_error),
        false => None,
    };
    match (&sent.how, sent.failed) {
        (How::Simple, None) => {
            (expected.event, expected.timed) = match started {
                true => (May::Always, bare),
                false => (ended, May::Always),
            };
        }
        (How::Prepare { .. }, _) => {
            expected.event = step;
            expected.timed = May::Always;
        }
        (How::Execute { .. } | How::Fetch { .. }, None | Some((_, Phase::Commit))) => {
            let steps = match sent.how {
                How::Fetch { .. } => May::Never,
                _ => step.or(parse),
            };
            (expected.event, expected.timed) = match started {
                true => (May::Always, bare),
                false => (ended.or(steps), ended),
            };
            expected.perhaps_prepare = !started && parse == May::Perhaps;
            if has_values {
                expected.values = detail.unwrap_or(Values::Missing);
            }
            if sent.failed.is_some() && expected.perhaps_prepare {
                // Of its lines only its Parse's may be there, and then its failure.
                expected.perhaps_values = Some(Values::Missing);
                expected.timed = May::Perhaps;
            }
            // Of a portal whose bind alone is there, it becomes certain at the session's end that
            // nothing follows.
            expected.perhaps_late = portal && expected.event == May::Perhaps;
        }
        (How::Simple, Some(_)) => (),
        (How::Execute { .. } | How::Fetch { .. }, Some((_, phase))) => match phase {
            // The log does not say that it was the extended protocol, or which step failed,
            // but by the text's parameters and the error's place.
            Phase::Syntax | Phase::Analysis { .. } => {
                expected.kind = match (sent.sql.contains("$1"), phase) {
                    (false, _) => Kind::Simple,
                    (true, Phase::Analysis { positioned: false }) => Kind::Execute,
                    (true, _) => Kind::Prepare,
                };
                expected.values = match expected.kind {
                    Kind::Execute => Values::Missing,
                    _ => Values::None,
                };
            }
            Phase::Bind { values_read } => {
                let context = context.filter(|_| values_read);
                expected.values = context.unwrap_or(Values::Missing);
            }
            Phase::Execution | Phase::Canceled | Phase::Commit => {
                let logged = started || step == May::Always;
                if !logged && step == May::Perhaps {
                    expected.perhaps_values.clone_from(&detail);
                }
                expected.values = detail
                    .filter(|_| logged)
                    .or(context)
                    .unwrap_or(Values::Missing);
            }
        },
    }
    if let Some((failure, phase)) = sent.failed {
        expected.sqlstate = Some(code(mixture, format, failure));
        expected.canceled = phase == Phase::Canceled;
        if phase == Phase::Commit && sent.how != How::Simple && !started && ended == May::Perhaps {
            expected.perhaps_sqlstate = Some(None);
        }
    }
    expected.unreplayable = unreplayable(expected.kind, &expected.values);
    match sent.failed {
        Some((code, Phase::Bind { values_read: false })) if code != IN_FAILED_TRANSACTION => {
            expected.unreplayable = Some(Unreplayable::BindFailed);
        }
        Some((_, Phase::Commit)) if sent.how != How::Simple => {
            expected.nameless_error = match expected.event {
                May::Always => May::Never,
                May::Perhaps => May::Perhaps,
                May::Never => May::Always,
            };
        }
        _ => (),
    }
    if expected.unreplayable.is_none()
        && expected.kind != Kind::Prepare
        && sent.sql.contains("FROM STDIN")
    {
        expected.unreplayable = Some(Unreplayable::CopyDataMissing);
    }
    if expected.kind == Kind::Fetch {
        // A fetch carries no values of its own.
        expected.values = Values::None;
    }
    expected
}

/// Returns the reasons for which an error may seem to undo a statement. Only sampling, which takes
/// statements of all kinds, makes it seem certain.
fn perhaps_undone(mixture: &Mixture) -> &'static [Unreplayable] {
    match (mixture.logs_everything(), mixture.logs_end(0..=0)) {
        (true, _) => &[],
        (false, May::Perhaps) => &[Unreplayable::FateUnknown, Unreplayable::RolledBack],
        (false, _) => &[Unreplayable::FateUnknown],
    }
}

/// Returns why a replay cannot send the statement as it was.
pub fn unreplayable(kind: Kind, values: &Values) -> Option<Unreplayable> {
    match (kind, values) {
        (Kind::Prepare, _) => None,
        (Kind::Fetch, _) => Some(Unreplayable::PortalFetch),
        (_, Values::Missing) => Some(Unreplayable::ParametersMissing),
        (_, Values::Known { cut: true, .. }) => Some(Unreplayable::ParametersCut),
        _ => None,
    }
}

/// A text with `$1` has values unless it is a simple query, as SQL's own PREPARE is.
fn name_or_values(sent: &Sent) -> bool {
    sent.how != How::Simple
}
