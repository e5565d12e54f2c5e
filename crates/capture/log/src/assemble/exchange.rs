//! What a client does, put together from the lines that the server writes about it.
//!
//! ```text
//! log_statement = all, log_min_duration_statement = 0        durations only
//!   LOG:  statement: …              ┐ one Simple               LOG:  duration: … statement: …
//!   LOG:  duration: … ms            ┘
//!   LOG:  duration: … parse S: …    ┐                          LOG:  duration: … parse S: …
//!   LOG:  duration: … bind S: …     │ one Execute              LOG:  duration: … bind S: …
//!   LOG:  execute S: …              │                          LOG:  duration: … execute S: …
//!   LOG:  duration: … ms            ┘
//! ```
//!
//! Policy:
//! - An exchange is due when its first step began: for a line written at the end, that is its time
//!   less its duration. A parse belongs to the first bind of its name, however much later; but it
//!   dates the exchange only where the bind follows within [`SAME_MESSAGE_US`], since a client may
//!   prepare at its start what it uses an hour later. Its duration counts in any case: a replay
//!   prepares at the first execution, too.
//! - The duration is known where the execution's own is. A slow parse or bind whose execution fell
//!   under the threshold is an execution of unknown duration.
//! - A finished exchange is held until its session does something else: a deferred constraint may
//!   still fail it.

use std::rc::Rc;

use workload::{KindRef, Outcome, PackedParameters, Parameters, Sqlstate, Unreplayable};

use super::super::entry::{Entry, Place};
use super::super::message::Step;
use super::super::parameters::{list_in_detail, parse_parameters};
use super::super::reconcile::SkipReason;
use super::super::statement::{Named, copies_from_client, may_copy, placeholders};
use super::Output;
use super::long_text::{BEGINNING_BYTES, LongText};
use super::prepared::Shared;
use super::session::Live;
use capture_sink::SinkError;

/// Steps that are this near to each other were sent as one: longer than a server under load
/// takes between two messages of a pipeline, shorter than a pause that a replay should keep.
pub(super) const SAME_MESSAGE_US: i64 = 10_000;

/// How many bound and unexecuted portals of a session are held.
const BOUND_MAX: usize = 16;

/// How far an exchange has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Parsed,
    Bound,
    /// Its duration or failure may follow.
    Running,
    Done,
}

/// Where an exchange is behind each [`Step`].
const STAGES: [Stage; 4] = {
    let mut stages = [Stage::Running; 4];
    stages[Step::Parse as usize] = Stage::Parsed;
    stages[Step::Bind as usize] = Stage::Bound;
    stages
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Simple,
    Extended,
    /// A further fetch from a portal.
    Fetch,
}

/// A statement's text: one that a name stands for is shared; any other is the exchange's own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sql<'a> {
    Shared(&'a Rc<str>),
    Own(&'a str),
}

/// One thing that a client does, as far as it was told. It is large, so it is moved in a box; and
/// boxes are used again ([`Output::exchange`]), with the space for text that they have.
#[derive(Debug)]
pub(super) struct Exchange {
    pub protocol: Protocol,
    pub stage: Stage,
    pub statement: Rc<str>,
    pub portal: Rc<str>,
    shared_sql: Option<Rc<str>>,
    own_sql: String,
    /// `own_sql` is only the beginning.
    long: Option<LongText>,
    /// Filled where `has_parameters`.
    parameters: PackedParameters,
    pub has_parameters: bool,
    /// They stood in an error's CONTEXT.
    list_of_context: bool,
    /// The list that the bind's line has.
    bound_list: String,
    /// Its start or its bind is logged too, not only that its execution took long.
    pub in_full: bool,
    pub due_us: i64,
    /// When its last line was written.
    pub seen_us: i64,
    pub duration_us: u64,
    /// The execution's own duration is in it.
    pub timed: bool,
    pub sqlstate: Option<Sqlstate>,
    pub lines: u64,
    pub place: Place,
}

/// Space for a longer text than this is not kept.
const SPARE_TEXT_BYTES_MAX: usize = 16 << 10;

impl Exchange {
    fn empty(no_name: &Rc<str>) -> Self {
        Exchange {
            protocol: Protocol::Simple,
            stage: Stage::Running,
            statement: no_name.clone(),
            portal: no_name.clone(),
            shared_sql: None,
            own_sql: String::new(),
            long: None,
            parameters: PackedParameters::default(),
            has_parameters: false,
            list_of_context: false,
            bound_list: String::new(),
            in_full: false,
            due_us: 0,
            seen_us: 0,
            duration_us: 0,
            timed: false,
            sqlstate: None,
            lines: 0,
            place: Place::default(),
        }
    }

    #[inline]
    pub(super) fn sql(&self) -> &str {
        match &self.shared_sql {
            Some(shared) => shared,
            None => &self.own_sql,
        }
    }

    /// Whether this is its text.
    pub(super) fn is_text(&self, text: &str) -> bool {
        match self.long {
            None => self.sql() == text,
            Some(long) => long.is(text),
        }
    }

    /// Takes only the beginning of a long text.
    #[cold]
    fn take_long(&mut self, text: &str) {
        let (long, beginning) = LongText::of(text);
        self.long = Some(long);
        self.own_sql.push_str(beginning);
    }

    /// As [`Self::take_parameters`], of an error's CONTEXT.
    pub(super) fn take_context_parameters(&mut self, list: Option<&str>) {
        let had = self.has_parameters;
        self.take_parameters(list);
        self.list_of_context = !had && self.has_parameters;
    }

    /// Takes the values of a list, unless it has some or the list is none.
    #[inline]
    pub(super) fn take_parameters(&mut self, list: Option<&str>) {
        if let Some(list) = list
            && !self.has_parameters
        {
            self.has_parameters = parse_parameters(list, &mut self.parameters).is_ok();
        }
    }

    /// Whether an execution with this list can be of what was bound.
    #[inline]
    fn has_list(&self, list: Option<&str>) -> bool {
        list.is_none_or(|list| self.bound_list.is_empty() || self.bound_list == list)
    }

    fn add(&mut self, entry: &Entry<'_>, duration_us: Option<u64>) {
        self.lines += entry.lines;
        self.seen_us = entry.wall_us;
        self.duration_us += duration_us.unwrap_or(0);
        self.take_parameters(list_in_detail(entry.detail));
    }

    fn ran(&mut self, duration_us: Option<u64>) {
        self.timed = duration_us.is_some();
        self.stage = match self.timed {
            true => Stage::Done,
            false => Stage::Running,
        };
    }
}

/// A bare duration that nothing explains yet.
#[derive(Debug, Clone, Copy)]
struct Bare {
    began_us: i64,
    seen_us: i64,
    duration_us: u64,
    lines: u64,
    place: Place,
}

/// The last bare durations: `log_duration` times parse and bind before the line of the execution
/// comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loose {
    last: Bare,
    before: Option<Bare>,
}

fn began(entry: &Entry<'_>, duration_us: Option<u64>) -> i64 {
    let duration_us = i64::try_from(duration_us.unwrap_or(0)).unwrap_or(i64::MAX);
    entry.wall_us.saturating_sub(duration_us)
}

impl Output<'_> {
    /// An exchange that begins with this entry, in a box that was used before.
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
        one.in_full = stage != Stage::Running || duration_us.is_none();
        one.due_us = began(entry, duration_us);
        one.seen_us = entry.wall_us;
        one.duration_us = duration_us.unwrap_or(0);
        one.lines = entry.lines;
        one.place = entry.place;
        exchange
    }

    fn unexplained(&mut self, bare: Bare) {
        let reason = SkipReason::DurationWithoutStatement;
        self.account.skip(reason, bare.lines, bare.place);
    }

    /// Takes an exchange's box back.
    #[inline]
    pub(super) fn take_back(&mut self, mut exchange: Box<Exchange>) {
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
        one.has_parameters = false;
        one.list_of_context = false;
        one.timed = false;
        one.sqlstate = None;
        self.spare.push(exchange);
    }
}

/// Most often it is the same text again.
#[inline]
fn replace(old: &mut Rc<str>, new: &Rc<str>) {
    if !Rc::ptr_eq(old, new) {
        *old = new.clone();
    }
}

impl Live {
    /// A simple query.
    pub(super) fn simple(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        sql: &str,
        duration_us: Option<u64>,
    ) -> Result<(), SinkError> {
        self.open(output, entry, began(entry, duration_us))?;
        self.displace(output)?;
        self.drop_loose(output);
        let no_name = output.no_name.clone();
        let names = (&no_name, &no_name, Sql::Own(sql));
        let kind = (Protocol::Simple, Stage::Running);
        let mut exchange = output.exchange(kind, names, entry, duration_us);
        exchange.ran(duration_us);
        self.pending = Some(exchange);
        Ok(())
    }

    /// A bare duration: of what is running, or of a step that is not logged itself.
    pub(super) fn duration(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        duration_us: u64,
    ) {
        match &mut self.pending {
            Some(pending) if pending.stage == Stage::Running => {
                output.account.tallies.at_start(pending.sql());
                pending.add(entry, Some(duration_us));
                pending.ran(Some(duration_us));
            }
            _ => {
                let last = Bare {
                    began_us: began(entry, Some(duration_us)),
                    seen_us: entry.wall_us,
                    duration_us,
                    lines: entry.lines,
                    place: entry.place,
                };
                let before = self.loose.take();
                if let Some(Loose {
                    before: Some(oldest),
                    ..
                }) = before
                {
                    output.unexplained(oldest);
                }
                let before = before.map(|loose| loose.last);
                self.loose = Some(Loose { last, before });
            }
        }
    }

    /// A step of the extended protocol.
    pub(super) fn extended(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        step: Step,
        named: &str,
        duration_us: Option<u64>,
    ) -> Result<(), SinkError> {
        let Some((named, known)) = self.named(named, step != Step::Parse) else {
            output.skip(SkipReason::ServerMessage, entry);
            return Ok(());
        };
        self.open(output, entry, began(entry, duration_us))?;
        if step != Step::Execute {
            self.drop_loose(output);
        }
        // A table, not a match: no processor foresees which step comes next.
        let stage = STAGES[step as usize];
        let list = list_in_detail(entry.detail);
        if self.continues(&named, known.as_ref(), step, list) {
            let exchange = self.pending.as_mut().expect("it continues");
            let pause_us = began(entry, duration_us) - exchange.seen_us;
            if exchange.stage == Stage::Parsed && pause_us > SAME_MESSAGE_US {
                exchange.due_us = began(entry, duration_us);
            }
            if exchange.stage == Stage::Parsed {
                exchange.portal = portal(output, named.portal);
            }
            exchange.stage = stage;
            if step == Step::Bind {
                exchange.bound_list.push_str(list.unwrap_or_default());
            }
            exchange.add(entry, duration_us);
            if step == Step::Execute {
                exchange.ran(duration_us);
            }
            return Ok(());
        }
        self.displace(output)?;
        if step == Step::Execute
            && !self.bound.is_empty()
            && let Some(at) = self
                .bound
                .iter()
                .position(|bound| is_of(bound, &named) && bound.has_list(list))
        {
            let mut exchange = self.bound.remove(at);
            exchange.add(entry, duration_us);
            exchange.ran(duration_us);
            self.pending = Some(exchange);
            return Ok(());
        }
        // The parse of a name that is known came before; the unnamed statement has one each time.
        let steps_before = match (step, known.is_some() && !named.statement.is_empty()) {
            (Step::Fetch, _) => 0,
            (_, true) => 1,
            (_, false) => 2,
        };
        let (statement, sql) = match known {
            Some(known) => known,
            None => self.learn(output, named.statement, named.sql)?,
        };
        let portal = portal(output, named.portal);
        let protocol = match step {
            Step::Fetch => Protocol::Fetch,
            _ => Protocol::Extended,
        };
        let names = (&statement, &portal, Sql::Shared(&sql));
        let mut exchange = output.exchange((protocol, stage), names, entry, duration_us);
        exchange.take_parameters(list);
        if step == Step::Bind {
            exchange.bound_list.push_str(list.unwrap_or_default());
        }
        if matches!(step, Step::Bind | Step::Execute) {
            self.use_parse(&mut exchange);
        }
        if matches!(step, Step::Execute | Step::Fetch) {
            exchange.ran(duration_us);
            self.use_loose(output, &mut exchange, steps_before);
        }
        self.pending = Some(exchange);
        Ok(())
    }

    /// Whether a step goes on with what is pending. Where steps are sampled one by one, the bind
    /// of one execution and the execution behind the next bind stand together: their lists of
    /// values tell them apart.
    fn continues(
        &self,
        named: &Named<'_>,
        known: Option<&Shared>,
        step: Step,
        list: Option<&str>,
    ) -> bool {
        let Some(pending) = &self.pending else {
            return false;
        };
        let goes_on = pending.protocol == Protocol::Extended
            && matches!(step, Step::Bind | Step::Execute)
            && (pending.stage == Stage::Parsed
                || step == Step::Execute
                    && pending.stage == Stage::Bound
                    && *pending.portal == *named.portal
                    && pending.has_list(list));
        goes_on
            && *pending.statement == *named.statement
            && match (&pending.shared_sql, known) {
                (Some(pending), Some((_, known))) if Rc::ptr_eq(pending, known) => true,
                _ => pending.sql() == named.sql,
            }
    }

    /// Takes the bare durations right before an execution as those of the steps before it, at most
    /// so many; further ones are of something else.
    #[inline]
    fn use_loose(&mut self, output: &mut Output<'_>, exchange: &mut Exchange, mut steps: u32) {
        let Some(Loose { last, before }) = self.loose.take() else {
            return;
        };
        let mut next_us = exchange.due_us;
        for bare in std::iter::once(last).chain(before) {
            if steps == 0 || next_us - bare.seen_us > SAME_MESSAGE_US {
                steps = 0;
                output.unexplained(bare);
                continue;
            }
            steps -= 1;
            exchange.lines += bare.lines;
            exchange.duration_us += bare.duration_us;
            exchange.due_us = exchange.due_us.min(bare.began_us);
            next_us = bare.began_us;
        }
    }

    #[inline]
    pub(super) fn drop_loose(&mut self, output: &mut Output<'_>) {
        if let Some(Loose { last, before }) = self.loose.take() {
            before.into_iter().for_each(|bare| output.unexplained(bare));
            output.unexplained(last);
        }
    }

    /// Something else begins: what was pending is an event, or waits for its use.
    #[inline]
    pub(super) fn displace(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        let Some(exchange) = self.pending.take() else {
            return Ok(());
        };
        match exchange.stage {
            Stage::Parsed if exchange.sqlstate.is_none() => self.park_parse(output, exchange),
            Stage::Bound if !exchange.portal.is_empty() => {
                let oldest = (self.bound.len() == BOUND_MAX).then(|| self.bound.remove(0));
                self.bound.push(exchange);
                oldest.map_or(Ok(()), |oldest| self.done(output, oldest))
            }
            _ => self.done(output, exchange),
        }
    }

    /// All that is held becomes events: the session ends.
    pub(super) fn settle(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        self.displace(output)?;
        for exchange in std::mem::take(&mut self.bound) {
            self.done(output, exchange)?;
        }
        self.forget_statements(output)?;
        self.drop_loose(output);
        Ok(())
    }

    /// An exchange becomes an event.
    #[inline]
    pub(super) fn done(
        &mut self,
        output: &mut Output<'_>,
        exchange: Box<Exchange>,
    ) -> Result<(), SinkError> {
        output.account.lines_in_events += exchange.lines;
        if exchange.stage == Stage::Running {
            output.account.tallies.at_start(exchange.sql());
        }
        let outcome = Outcome {
            duration_us: exchange.timed.then_some(exchange.duration_us),
            sqlstate: exchange.sqlstate,
            ..Outcome::default()
        };
        let (statement, portal, sql) = (&*exchange.statement, &*exchange.portal, exchange.sql());
        let copies = match exchange.protocol {
            Protocol::Simple => match exchange.long {
                Some(long) => long.copies,
                None => copies_from_client(sql),
            },
            // One statement.
            _ => may_copy(sql) && copies_from_client(sql),
        };
        let mut unreplayable = copies.then_some(Unreplayable::CopyDataMissing);
        let kind = match (exchange.protocol, exchange.stage) {
            (Protocol::Simple, _) => KindRef::Simple { sql },
            (Protocol::Fetch, _) => {
                unreplayable = Some(Unreplayable::PortalFetch);
                KindRef::Fetch {
                    statement,
                    portal,
                    sql,
                }
            }
            (Protocol::Extended, Stage::Parsed) => {
                unreplayable = None;
                KindRef::Prepare { statement, sql }
            }
            (Protocol::Extended, _) => {
                let mut parameters = Parameters::NONE;
                if exchange.has_parameters {
                    parameters = exchange.parameters.borrowed();
                    let of_context = usize::from(exchange.list_of_context);
                    if output.cuts[of_context].any(&exchange.parameters) {
                        unreplayable = Some(Unreplayable::ParametersCut);
                    }
                } else if placeholders(sql) > 0 {
                    unreplayable = Some(Unreplayable::ParametersMissing);
                }
                KindRef::Execute {
                    statement,
                    portal,
                    sql,
                    parameters,
                }
            }
        };
        self.emit(
            output,
            kind,
            outcome,
            unreplayable,
            exchange.due_us,
            exchange.place,
        )?;
        output.take_back(exchange);
        Ok(())
    }

    /// A line that shows the pending exchange to be forged came late: takes it back, and returns
    /// how many lines it had and where.
    pub(super) fn take_back(&mut self) -> Option<(u64, Place)> {
        if self.spoke_aside {
            // The line belongs to what the process said since.
            return None;
        }
        let forged = self.pending.take_if(|pending| {
            matches!(pending.stage, Stage::Running | Stage::Done) && pending.sqlstate.is_none()
        })?;
        Some((forged.lines, forged.place))
    }
}

fn portal(output: &Output<'_>, name: &str) -> Rc<str> {
    match name {
        "" => output.no_name.clone(),
        name => name.into(),
    }
}

fn is_of(exchange: &Exchange, named: &Named<'_>) -> bool {
    *exchange.statement == *named.statement
        && *exchange.portal == *named.portal
        && exchange.sql() == named.sql
}
