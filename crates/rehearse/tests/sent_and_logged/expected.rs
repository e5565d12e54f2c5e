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

/// Lines of a statement that the log has, and the values in them.
struct Lines {
    /// Whether the text is logged as the statement begins.
    started: bool,
    /// Whether the duration is logged because it is long enough or sampled.
    ended: May,
    /// Whether the duration is logged for any reason.
    bare: May,
    /// Whether the duration of a step without the statement's waits is logged.
    step: May,
    parse: May,
    parse_us: i64,
    /// Values in the lines of steps.
    detail: Option<Values>,
    /// Values in the context of errors.
    context: Option<Values>,
}

impl Lines {
    fn new(sent: &Sent, mixture: &Mixture, format: LogFormat) -> Self {
        let elapsed_us = sent.after_us - sent.before_us;
        let parse_us = sent
            .prepared_us
            .map_or(0, |(before_us, after_us)| after_us - before_us);
        let ended = mixture.logs_end(sent.slept_us..=elapsed_us);
        let step = mixture.logs_end(0..=elapsed_us - sent.slept_us);
        let shown = |limit| match shows_more(mixture, format) {
            true => cut(&sent.parameters, limit),
            false => None,
        };
        Lines {
            started: mixture.logs_start(sent.class),
            ended,
            bare: match mixture.log_duration {
                true => May::Always,
                false => ended,
            },
            step,
            parse: match sent.how {
                How::Execute { name: None, .. } => step,
                _ if sent.prepared_us.is_some() => mixture.logs_end(0..=parse_us),
                _ => May::Never,
            },
            parse_us,
            detail: shown(mixture.parameter_bytes),
            context: shown(mixture.parameter_bytes_on_error),
        }
    }

    /// Returns how much earlier the statement may be due, and how much longer it may seem to take. If an
    /// execution was not sampled, its Parse goes to the next one with the same text.
    fn parse_tolerance_us(&self, sent: &Sent) -> (i64, i64) {
        match (sent.prepared_us, self.parse) {
            (Some((before_us, _)), _) if sent.first => (sent.before_us - before_us, self.parse_us),
            (Some((before_us, _)), May::Perhaps) => {
                let early_us = sent.before_us - before_us;
                (early_us.min(SAME_MESSAGE_US), self.parse_us)
            }
            (None, May::Perhaps) => (SAME_MESSAGE_US, SAME_MESSAGE_US),
            _ => (0, 0),
        }
    }
}

/// Returns the expected event of a statement in the log of a mixture in this format.
fn expected(sent: &Sent, mixture: &Mixture, format: LogFormat) -> Expected {
    let lines = Lines::new(sent, mixture, format);
    let mut expected = Expected::new(sent, mixture, &lines);
    match (&sent.how, sent.failed) {
        (How::Simple, None) => {
            (expected.event, expected.timed) = match lines.started {
                true => (May::Always, lines.bare),
                false => (lines.ended, May::Always),
            };
        }
        (How::Prepare { .. }, _) => {
            expected.event = lines.step;
            expected.timed = May::Always;
        }
        (How::Execute { .. } | How::Fetch { .. }, None | Some((_, Phase::Commit))) => {
            expected.set_executed(sent, &lines);
        }
        (How::Simple, Some(_)) => (),
        (How::Execute { .. } | How::Fetch { .. }, Some((_, phase))) => {
            expected.set_stopped(sent, phase, &lines);
        }
    }
    if let Some((failure, phase)) = sent.failed {
        expected.sqlstate = Some(code(mixture, format, failure));
        expected.canceled = phase == Phase::Canceled;
    }
    expected.set_commit_failure(sent, &lines);
    expected.set_unreplayable(sent);
    if expected.kind == Kind::Fetch {
        // A fetch carries no values of its own.
        expected.values = Values::None;
    }
    expected
}

impl Expected {
    /// Returns the event before its statement's steps and failure are considered.
    fn new(sent: &Sent, mixture: &Mixture, lines: &Lines) -> Self {
        let (early_us, longer_us) = lines.parse_tolerance_us(sent);
        let (kind, name, portal) = match sent.how {
            How::Simple => (Kind::Simple, None, false),
            How::Prepare { name } => (Kind::Prepare, Some(name), false),
            How::Execute { name, portal } => (Kind::Execute, name, portal),
            How::Fetch { name } => (Kind::Fetch, Some(name), true),
        };
        Expected {
            event: May::Always,
            kind,
            perhaps_prepare: false,
            values: match has_values(sent) {
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
            duration_us: (sent.slept_us, sent.after_us - sent.before_us + longer_us),
            name,
            name_perhaps_hidden: sent.failed.is_some(),
            portal,
            perhaps_late: false,
            perhaps_merged: false,
        }
    }

    /// Sets what is expected of an execution that succeeds, or that fails at its transaction's end.
    fn set_executed(&mut self, sent: &Sent, lines: &Lines) {
        let steps = match sent.how {
            How::Fetch { .. } => May::Never,
            _ => lines.step.or(lines.parse),
        };
        (self.event, self.timed) = match lines.started {
            true => (May::Always, lines.bare),
            false => (lines.ended.or(steps), lines.ended),
        };
        self.perhaps_prepare = !lines.started && lines.parse == May::Perhaps;
        if has_values(sent) {
            self.values = lines.detail.clone().unwrap_or(Values::Missing);
        }
        if sent.failed.is_some() && self.perhaps_prepare {
            // Of its lines only its Parse's may be there, and then its failure.
            self.perhaps_values = Some(Values::Missing);
            self.timed = May::Perhaps;
        }
        // Of a portal whose bind alone is there, it becomes certain at the session's end that
        // nothing follows.
        self.perhaps_late = self.portal && self.event == May::Perhaps;
    }

    /// Sets what is expected of an execution that fails in this phase.
    fn set_stopped(&mut self, sent: &Sent, phase: Phase, lines: &Lines) {
        let context = lines.context.clone();
        match phase {
            // The log does not say that it was the extended protocol, or which step failed,
            // but by the text's parameters and the error's place.
            Phase::Syntax | Phase::Analysis { .. } => {
                self.kind = match (sent.sql.contains("$1"), phase) {
                    (false, _) => Kind::Simple,
                    (true, Phase::Analysis { positioned: false }) => Kind::Execute,
                    (true, _) => Kind::Prepare,
                };
                self.values = match self.kind {
                    Kind::Execute => Values::Missing,
                    _ => Values::None,
                };
            }
            Phase::Bind { values_read } => {
                let context = context.filter(|_| values_read);
                self.values = context.unwrap_or(Values::Missing);
            }
            Phase::Execution | Phase::Canceled | Phase::Commit => {
                let logged = lines.started || lines.step == May::Always;
                if !logged && lines.step == May::Perhaps {
                    self.perhaps_values.clone_from(&lines.detail);
                }
                let detail = lines.detail.clone().filter(|_| logged);
                self.values = detail.or(context).unwrap_or(Values::Missing);
            }
        }
    }

    /// Sets how the log shows a failure at the end of an implicit transaction, which names no
    /// statement.
    fn set_commit_failure(&mut self, sent: &Sent, lines: &Lines) {
        if !matches!(sent.failed, Some((_, Phase::Commit))) || sent.how == How::Simple {
            return;
        }
        if !lines.started && lines.ended == May::Perhaps {
            self.perhaps_sqlstate = Some(None);
        }
        self.nameless_error = match self.event {
            May::Always => May::Never,
            May::Perhaps => May::Perhaps,
            May::Never => May::Always,
        };
    }

    fn set_unreplayable(&mut self, sent: &Sent) {
        self.unreplayable = unreplayable(self.kind, &self.values);
        match sent.failed {
            Some((code, Phase::Bind { values_read: false })) if code != IN_FAILED_TRANSACTION => {
                self.unreplayable = Some(Unreplayable::BindFailed);
            }
            _ => (),
        }
        if self.unreplayable.is_none()
            && self.kind != Kind::Prepare
            && sent.sql.contains("FROM STDIN")
        {
            self.unreplayable = Some(Unreplayable::CopyDataMissing);
        }
    }
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

/// Returns whether a statement has values. A text with `$1` has, unless it is a simple query, as SQL's
/// own PREPARE is.
fn has_values(sent: &Sent) -> bool {
    sent.sql.contains("$1") && !sent.sql.contains("$$") && sent.how != How::Simple
}
