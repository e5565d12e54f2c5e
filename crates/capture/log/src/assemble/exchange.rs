//! Assembles the actions of a client from the lines that the server writes about them.
//!
//! ```text
//! log_statement = all, log_min_duration_statement = 0        durations only
//! LOG:  statement: …              ┐ one Simple               LOG:  duration: … statement: …
//! LOG:  duration: … ms            ┘
//! LOG:  duration: … parse S: …    ┐                          LOG:  duration: … parse S: …
//! LOG:  duration: … bind S: …     │ one Execute              LOG:  duration: … bind S: …
//! LOG:  execute S: …              │                          LOG:  duration: … execute S: …
//! LOG:  duration: … ms            ┘
//! ```
//!
//! Policy:
//! - An exchange is due when its first step began: for a line written at the end, that is its time
//!   minus its duration. A parse belongs to the first bind of its name, however much later. It
//!   dates the exchange only if the bind follows within [`SAME_MESSAGE_US`], since a client may
//!   prepare statements at its start and use them an hour later. The duration of the parse counts
//!   in any case: a replay prepares at the first execution, too.
//! - The duration is known if the execution's own is. A slow bind whose execution was faster than the
//!   threshold is an execution with the bind's duration: the execution's own was shorter than that.
//!   If the execution was logged at its start, its duration is unknown.
//! - A finished exchange is held until its session does something else: a deferred constraint may
//!   still make it fail. [`super::pipelines`] holds it longer if a later error may undo it.

use std::rc::Rc;

use workload::{PackedParameters, Sqlstate, Unreplayable};

use super::super::entry::Entry;
use super::super::parameters::{list_in_detail, parse_parameters};
use super::super::reconcile::{Location, SkipReason};
use super::Output;
use super::long_text::{BEGINNING_BYTES, LongText};

/// Maximum time between steps that were sent together: longer than a loaded server takes between
/// two messages of a pipeline, shorter than a pause that a replay should keep.
pub(super) const SAME_MESSAGE_US: i64 = 10_000;

/// A statement that took less is logged with its duration only if nearly all are.
const QUICK_US: u64 = 1_000;

/// Duration from which a bind was logged because it was slow. If durations are sampled, those of
/// quick binds are logged alone, too.
const SLOW_BIND_US: u64 = 10_000;

/// Progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Parsed,
    Bound,
    /// Its duration or failure may follow.
    Running,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Simple,
    Extended,
    /// A further fetch from a portal.
    Fetch,
}

/// A statement's text: shared if a name refers to it, otherwise owned by the exchange.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sql<'a> {
    Shared(&'a Rc<str>),
    Own(&'a str),
}

/// Origin of an exchange's parameter values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueSource {
    /// There are no values.
    None,
    /// The DETAIL of a statement's line.
    Detail,
    /// The CONTEXT of an error.
    Context,
}

/// Last statement of a session that pgAudit has logged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AuditPosition {
    /// Its statement_id; 0 if there is none.
    pub number: u64,
    /// Number of further commands of the same text.
    pub commands: usize,
}

/// Lines that log an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogLines {
    /// Those of `log_statement` and of durations.
    Statement,
    /// These, and those of pgAudit.
    StatementAndAudit,
    /// Those of pgAudit.
    AuditOnly,
    /// Those of its error.
    ErrorOnly,
}

/// One action of a client, as far as it was logged. It is large, so it is kept in a box; boxes are
/// reused ([`Output::exchange`]) together with their text buffers.
#[derive(Debug)]
pub(super) struct Exchange {
    pub protocol: Protocol,
    pub stage: Stage,
    pub statement: Rc<str>,
    pub portal: Rc<str>,
    pub shared_sql: Option<Rc<str>>,
    own_sql: String,
    /// `own_sql` is only the beginning of the text.
    pub long: Option<LongText>,
    /// Filled unless `value_source` is [`ValueSource::None`].
    pub parameters: PackedParameters,
    pub value_source: ValueSource,
    /// Reason why it cannot be replayed, if not its text and values decide that.
    pub unreplayable: Option<Unreplayable>,
    pub logged: LogLines,
    /// Virtual transaction of its last line; 0 if the log does not say.
    pub transaction: u64,
    /// The list in the bind's line.
    pub bound_list: String,
    /// Its start or its bind is logged too, not only its slow execution.
    pub in_full: bool,
    pub due_us: i64,
    /// Time of its last line.
    pub seen_us: i64,
    pub duration_us: u64,
    /// It includes the execution's own duration.
    pub timed: bool,
    pub sqlstate: Option<Sqlstate>,
    /// The log holds only a part of one of its lines.
    pub cut: bool,
    pub lines: u64,
    pub place: Location,
}

/// Maximum size of a text buffer that is kept for reuse.
const SPARE_TEXT_BYTES_MAX: usize = 16 << 10;

impl Exchange {
    pub(super) fn empty(no_name: &Rc<str>) -> Self {
        Exchange {
            protocol: Protocol::Simple,
            stage: Stage::Running,
            statement: no_name.clone(),
            portal: no_name.clone(),
            shared_sql: None,
            own_sql: String::new(),
            long: None,
            parameters: PackedParameters::default(),
            value_source: ValueSource::None,
            unreplayable: None,
            logged: LogLines::Statement,
            transaction: 0,
            bound_list: String::new(),
            in_full: false,
            due_us: 0,
            seen_us: 0,
            duration_us: 0,
            timed: false,
            sqlstate: None,
            cut: false,
            lines: 0,
            place: Location::default(),
        }
    }

    #[inline]
    pub(super) fn sql(&self) -> &str {
        match &self.shared_sql {
            Some(shared) => shared,
            None => &self.own_sql,
        }
    }

    /// Returns whether this is its text.
    pub(super) fn is_text(&self, text: &str) -> bool {
        match self.long {
            None => self.sql() == text,
            Some(long) => long.matches(text),
        }
    }

    /// Replaces the text of a simple query.
    pub(super) fn replace_text(&mut self, text: &str) {
        (self.shared_sql, self.long) = (None, None);
        self.own_sql.clear();
        self.own_sql.push_str(text);
    }

    /// Keeps only the beginning of a long text.
    #[cold]
    fn take_long(&mut self, text: &str) {
        let (long, beginning) = LongText::split(text);
        self.long = Some(long);
        self.own_sql.push_str(beginning);
    }

    /// Takes the values of a list in an error's CONTEXT, unless it has some.
    pub(super) fn take_context_parameters(&mut self, list: Option<&str>) {
        if self.value_source == ValueSource::None {
            self.take_parameters(list);
            if self.value_source != ValueSource::None {
                self.value_source = ValueSource::Context;
            }
        }
    }

    /// Returns whether its lines show its protocol, which is otherwise guessed from its text.
    pub(super) fn shows_protocol(&self) -> bool {
        matches!(
            self.logged,
            LogLines::Statement | LogLines::StatementAndAudit
        )
    }

    /// Returns the size of its texts, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        self.own_sql.len() + self.parameters.capacity_bytes() + self.bound_list.len()
    }

    /// Takes the values of a list, unless it has some or the list is none.
    #[inline]
    pub(super) fn take_parameters(&mut self, list: Option<&str>) {
        if let Some(list) = list
            && self.value_source == ValueSource::None
            && parse_parameters(list, &mut self.parameters).is_ok()
        {
            self.value_source = ValueSource::Detail;
        }
    }

    /// Returns whether an execution with this list can belong to this bind.
    #[inline]
    pub(super) fn matches_list(&self, list: Option<&str>) -> bool {
        list.is_none_or(|list| self.bound_list.is_empty() || self.bound_list == list)
    }

    pub(super) fn add_step(&mut self, entry: &Entry<'_>, duration_us: Option<u64>) {
        self.lines += entry.lines;
        self.cut |= entry.cut;
        self.seen_us = entry.wall_us;
        self.transaction = self.transaction.max(entry.transaction);
        self.duration_us += duration_us.unwrap_or(0);
        self.take_parameters(list_in_detail(entry.detail));
    }

    /// Returns its duration, if that is known. An execution below the threshold is not logged: what is known of its exchange
    /// is the duration of its slow bind, and its own was shorter.
    pub(super) fn known_duration_us(&self) -> Option<u64> {
        let slow_bind = self.stage == Stage::Bound
            && self.duration_us >= SLOW_BIND_US
            && self.sqlstate.is_none();
        (self.timed || slow_bind).then_some(self.duration_us)
    }

    pub(super) fn mark_executed(&mut self, duration_us: Option<u64>) {
        self.timed = duration_us.is_some();
        self.stage = match self.timed {
            true => Stage::Done,
            false => Stage::Running,
        };
    }
}

/// A bare duration that is not attributed yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct BareDuration {
    pub began_us: i64,
    pub seen_us: i64,
    pub duration_us: u64,
    pub lines: u64,
    pub place: Location,
}

/// The last bare durations: `log_duration` logs those of parse and bind before the execution's
/// line.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingDurations {
    pub last: BareDuration,
    pub before: Option<BareDuration>,
}

/// Returns the time at which the duration of an entry began.
pub(super) fn start_time_us(entry: &Entry<'_>, duration_us: Option<u64>) -> i64 {
    let duration_us = i64::try_from(duration_us.unwrap_or(0)).unwrap_or(i64::MAX);
    entry.wall_us.saturating_sub(duration_us)
}

impl Output<'_> {
    /// Creates an exchange that begins with this entry, in a reused box.
    #[inline]
    pub(super) fn exchange(
        &mut self,
        (protocol, stage): (Protocol, Stage),
        (statement, portal, sql): (&Rc<str>, &Rc<str>, Sql<'_>),
        entry: &Entry<'_>,
        duration_us: Option<u64>,
    ) -> Box<Exchange> {
        let mut exchange = match self.spare.pop() {
            Some(exchange) => exchange,
            None => Box::new(Exchange::empty(&self.no_name)),
        };
        let one = &mut *exchange;
        (one.protocol, one.stage) = (protocol, stage);
        replace(&mut one.statement, statement);
        replace(&mut one.portal, portal);
        match sql {
            Sql::Own(text)
                if text.len() > BEGINNING_BYTES
                    && self.only_counts
                    && protocol == Protocol::Simple =>
            {
                one.take_long(text);
            }
            Sql::Own(text) => one.own_sql.push_str(text),
            Sql::Shared(text) => one.shared_sql = Some(text.clone()),
        }
        self.logs_quick_statements |= duration_us.is_some_and(|duration| duration < QUICK_US);
        one.in_full = stage != Stage::Running || duration_us.is_none();
        one.due_us = start_time_us(entry, duration_us);
        one.seen_us = entry.wall_us;
        one.duration_us = duration_us.unwrap_or(0);
        one.cut = entry.cut;
        one.lines = entry.lines;
        one.place = entry.place;
        one.transaction = entry.transaction;
        exchange
    }

    pub(super) fn skip_bare_duration(&mut self, bare: BareDuration) {
        let reason = SkipReason::DurationWithoutStatement;
        self.account.skip(reason, bare.lines, bare.place);
    }

    /// Takes an exchange's box back.
    #[inline]
    pub(super) fn recycle(&mut self, mut exchange: Box<Exchange>) {
        let one = &mut *exchange;
        let kept_bytes =
            one.own_sql.capacity() + one.parameters.capacity_bytes() + one.bound_list.capacity();
        if kept_bytes > SPARE_TEXT_BYTES_MAX {
            return;
        }
        one.own_sql.clear();
        one.bound_list.clear();
        one.shared_sql = None;
        one.long = None;
        one.value_source = ValueSource::None;
        one.timed = false;
        one.sqlstate = None;
        one.unreplayable = None;
        one.logged = LogLines::Statement;
        self.spare.push(exchange);
    }
}

/// Replaces a shared text; most often it is the same again.
#[inline]
fn replace(old: &mut Rc<str>, new: &Rc<str>) {
    if !Rc::ptr_eq(old, new) {
        *old = new.clone();
    }
}
