//! Handles the statements, steps and durations of a session, and emits its exchanges as events.

use std::rc::Rc;

use workload::{KindRef, Outcome, Parameters, Unreplayable};

use super::super::entry::Entry;
use super::super::message::Step;
use super::super::parameters::list_in_detail;
use super::super::reconcile::{Location, SkipReason};
use super::super::statement::{NamedStatement, copies_from_client, count_placeholders, may_copy};
use super::Output;
use super::exchange::{
    BareDuration, Exchange, LogLines, PendingDurations, Protocol, SAME_MESSAGE_US, Sql, Stage,
    ValueSource, start_time_us,
};
use super::prepared::SharedStatement;
use super::session::LiveSession;
use capture_sink::SinkError;

/// Maximum number of bound and unexecuted portals held for a session.
const BOUND_MAX: usize = 16;

/// Stage of an exchange after each [`Step`].
const STAGES: [Stage; 4] = {
    let mut stages = [Stage::Running; 4];
    stages[Step::Parse as usize] = Stage::Parsed;
    stages[Step::Bind as usize] = Stage::Bound;
    stages
};

impl LiveSession {
    /// Handles a simple query.
    pub(super) fn handle_simple(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        sql: &str,
        duration_us: Option<u64>,
    ) -> Result<(), SinkError> {
        self.open(output, entry, start_time_us(entry, duration_us))?;
        self.drop_audited(output, sql, duration_us);
        self.finish_pending(output)?;
        self.skip_pending_durations(output);
        self.follow_application(sql);
        self.follow_cursors(sql, "");
        let no_name = output.no_name.clone();
        let names = (&no_name, &no_name, Sql::Own(sql));
        let kind = (Protocol::Simple, Stage::Running);
        let mut exchange = output.exchange(kind, names, entry, duration_us);
        exchange.mark_executed(duration_us);
        self.pending = Some(exchange);
        Ok(())
    }

    /// Handles a bare duration, of the running statement or of a step that has no line of its own.
    pub(super) fn handle_duration(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        duration_us: u64,
    ) {
        match &mut self.pending {
            Some(pending) if pending.stage == Stage::Running => {
                if pending.logged != LogLines::AuditOnly {
                    output.account.tallies.count_start(pending.sql());
                }
                let cut = pending.cut;
                pending.add_step(entry, Some(duration_us));
                // Lines lost after a bare duration are no part of its statement.
                pending.cut = cut;
                pending.mark_executed(Some(duration_us));
            }
            _ => {
                let last = BareDuration {
                    began_us: start_time_us(entry, Some(duration_us)),
                    seen_us: entry.wall_us,
                    duration_us,
                    lines: entry.lines,
                    place: entry.place,
                };
                let before = self.pending_durations.take();
                if let Some(PendingDurations {
                    before: Some(oldest),
                    ..
                }) = before
                {
                    output.skip_bare_duration(oldest);
                }
                let before = before.map(|loose| loose.last);
                self.pending_durations = Some(PendingDurations { last, before });
            }
        }
    }

    /// Handles a step of the extended protocol.
    pub(super) fn handle_step(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        step: Step,
        named: &str,
        duration_us: Option<u64>,
    ) -> Result<(), SinkError> {
        let Some((named, known)) = self.split_named(named, step != Step::Parse) else {
            output.skip(SkipReason::ServerMessage, entry);
            return Ok(());
        };
        self.open(output, entry, start_time_us(entry, duration_us))?;
        if duration_us.is_some() {
            let tallies = &mut output.account.tallies;
            match step {
                Step::Parse => tallies.parses += 1,
                Step::Bind => tallies.binds += 1,
                Step::Execute => tallies.executions += 1,
                Step::Fetch => (),
            }
        }
        match step {
            Step::Execute => {
                self.drop_audited(output, named.sql, duration_us);
                self.follow_cursors(named.sql, named.portal);
            }
            _ => self.skip_pending_durations(output),
        }
        // A table instead of a match: no branch predictor foresees which step comes next.
        let stage = STAGES[step as usize];
        let list = list_in_detail(entry.detail);
        if self.continues(&named, known.as_ref(), step, list) {
            let exchange = self.pending.as_mut().expect("it continues");
            let pause_us = start_time_us(entry, duration_us) - exchange.seen_us;
            if exchange.stage == Stage::Parsed && pause_us > SAME_MESSAGE_US {
                exchange.due_us = start_time_us(entry, duration_us);
            }
            if exchange.stage == Stage::Parsed {
                exchange.portal = shared_portal_name(output, named.portal);
            }
            exchange.stage = stage;
            if step == Step::Bind {
                exchange.bound_list.push_str(list.unwrap_or_default());
            }
            exchange.add_step(entry, duration_us);
            if step == Step::Execute {
                exchange.mark_executed(duration_us);
            }
            return Ok(());
        }
        self.finish_pending(output)?;
        if step == Step::Execute
            && !self.bound.is_empty()
            && let Some(at) = self
                .bound
                .iter()
                .position(|bound| names_match(bound, &named) && bound.matches_list(list))
        {
            let mut exchange = self.bound.remove(at);
            exchange.add_step(entry, duration_us);
            exchange.mark_executed(duration_us);
            self.pending = Some(exchange);
            return Ok(());
        }
        // The parse of a known name came before; the unnamed statement is parsed each time.
        let steps_before = match (step, known.is_some() && !named.statement.is_empty()) {
            (Step::Fetch, _) => 0,
            (_, true) => 1,
            (_, false) => 2,
        };
        let (statement, sql) = match known {
            Some(known) => known,
            None => self.remember_statement(output, named.statement, named.sql)?,
        };
        let portal = shared_portal_name(output, named.portal);
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
        if step == Step::Execute {
            self.follow_application(named.sql);
        }
        if matches!(step, Step::Execute | Step::Fetch) {
            exchange.mark_executed(duration_us);
            self.use_pending_durations(output, &mut exchange, steps_before);
        }
        self.pending = Some(exchange);
        Ok(())
    }

    /// Returns whether a step continues the pending exchange. If steps are sampled individually,
    /// the bind of one execution may directly precede the execution of the next bind; their lists
    /// of values differ.
    fn continues(
        &self,
        named: &NamedStatement<'_>,
        known: Option<&SharedStatement>,
        step: Step,
        list: Option<&str>,
    ) -> bool {
        let Some(pending) = &self.pending else {
            return false;
        };
        let may_continue = pending.protocol == Protocol::Extended
            && matches!(step, Step::Bind | Step::Execute)
            && (pending.stage == Stage::Parsed
                || step == Step::Execute
                    && pending.stage == Stage::Bound
                    && *pending.portal == *named.portal
                    && pending.matches_list(list));
        may_continue
            && *pending.statement == *named.statement
            && match (&pending.shared_sql, known) {
                (Some(pending), Some((_, known))) if Rc::ptr_eq(pending, known) => true,
                _ => pending.sql() == named.sql,
            }
    }

    /// Attributes the bare durations directly before an execution to the steps before it, at most
    /// `steps` of them; others have another cause.
    #[inline]
    fn use_pending_durations(
        &mut self,
        output: &mut Output<'_>,
        exchange: &mut Exchange,
        mut steps: u32,
    ) {
        let Some(PendingDurations { last, before }) = self.pending_durations.take() else {
            return;
        };
        let mut next_us = exchange.due_us;
        for bare in std::iter::once(last).chain(before) {
            if steps == 0 || next_us - bare.seen_us > SAME_MESSAGE_US {
                steps = 0;
                output.skip_bare_duration(bare);
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
    pub(super) fn skip_pending_durations(&mut self, output: &mut Output<'_>) {
        if let Some(PendingDurations { last, before }) = self.pending_durations.take() {
            before
                .into_iter()
                .for_each(|bare| output.skip_bare_duration(bare));
            output.skip_bare_duration(last);
        }
    }

    /// Finishes the pending exchange because another begins: it becomes an event, or waits for its
    /// use.
    #[inline]
    pub(super) fn finish_pending(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        let Some(exchange) = self.pending.take() else {
            return Ok(());
        };
        match exchange.stage {
            Stage::Parsed if exchange.sqlstate.is_none() => self.keep_parse(output, exchange),
            Stage::Bound if !exchange.portal.is_empty() => {
                let oldest = (self.bound.len() == BOUND_MAX).then(|| self.bound.remove(0));
                self.bound.push(exchange);
                oldest.map_or(Ok(()), |oldest| self.emit_exchange(output, oldest))
            }
            _ => self.emit_exchange(output, exchange),
        }
    }

    /// Emits all held exchanges at the session's end.
    pub(super) fn emit_held(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        self.finish_pending(output)?;
        for exchange in std::mem::take(&mut self.bound) {
            self.emit_exchange(output, exchange)?;
        }
        self.commit_pipeline(output)?;
        self.forget_statements(output)?;
        self.skip_pending_durations(output);
        Ok(())
    }

    /// Emits an exchange as an event, once no later error can undo it.
    #[inline]
    pub(super) fn emit_exchange(
        &mut self,
        output: &mut Output<'_>,
        exchange: Box<Exchange>,
    ) -> Result<(), SinkError> {
        match self.uncommitted.is_empty() && !self.may_be_undone(&exchange) {
            true => self.emit_settled(output, exchange),
            false => self.emit_in_pipeline(output, exchange),
        }
    }

    /// Emits an exchange as an event.
    #[inline]
    pub(super) fn emit_settled(
        &mut self,
        output: &mut Output<'_>,
        exchange: Box<Exchange>,
    ) -> Result<(), SinkError> {
        output.account.lines_in_events += exchange.lines;
        if exchange.stage == Stage::Running && exchange.logged != LogLines::AuditOnly {
            output.account.tallies.count_start(exchange.sql());
        }
        let outcome = Outcome {
            duration_us: exchange.known_duration_us(),
            sqlstate: exchange.sqlstate,
            ..Outcome::default()
        };
        let (statement, portal, sql) = (&*exchange.statement, &*exchange.portal, exchange.sql());
        let copies = match exchange.protocol {
            Protocol::Simple => match exchange.long {
                Some(long) => long.copies,
                None => copies_from_client(sql),
            },
            // A single statement.
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
                if exchange.value_source != ValueSource::None {
                    parameters = exchange.parameters.borrowed();
                    let of_context = usize::from(exchange.value_source == ValueSource::Context);
                    if output.truncation[of_context].has_truncated(&exchange.parameters) {
                        unreplayable = Some(Unreplayable::ParametersCut);
                    }
                } else if count_placeholders(sql) > 0 {
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
        if exchange.cut {
            unreplayable = Some(Unreplayable::StatementCut);
        }
        self.emit(
            output,
            kind,
            outcome,
            exchange.unreplayable.or(unreplayable),
            exchange.due_us,
            exchange.place,
        )?;
        output.recycle(exchange);
        Ok(())
    }

    /// Takes the pending exchange back because a late line shows that it is forged. Returns its
    /// number of lines and its place.
    pub(super) fn retract_pending(&mut self) -> Option<(u64, Location)> {
        if self.wrote_unrelated {
            // The line belongs to a later message of the process.
            return None;
        }
        let forged = self.pending.take_if(|pending| {
            matches!(pending.stage, Stage::Running | Stage::Done) && pending.sqlstate.is_none()
        })?;
        Some((forged.lines, forged.place))
    }
}

fn shared_portal_name(output: &Output<'_>, name: &str) -> Rc<str> {
    match name {
        "" => output.no_name.clone(),
        name => name.into(),
    }
}

fn names_match(exchange: &Exchange, named: &NamedStatement<'_>) -> bool {
    *exchange.statement == *named.statement
        && *exchange.portal == *named.portal
        && exchange.sql() == named.sql
}
