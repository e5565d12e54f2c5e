//! What a client asked for and the server has not answered yet, in the order in which it was asked.
//!
//! Two queues. [`Step`]s are the messages that the server answers one by one. [`Pending`]s are the
//! events to be: one for each query, execution, fetch, and statement that was prepared and not executed
//! in the same group. A step knows the number of its event, if it has one.
//!
//! An event leaves when it is answered and what stood behind it is known: at the first answer that
//! belongs to another one, or when the server is ready.

use std::collections::VecDeque;
use std::rc::Rc;

use workload::{Boundary, FirstRow, PackedParameters, ResultFormat, Sqlstate, Unreplayable};

use super::names::Statement;

/// A message that the server answers.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Query(u64),
    /// Its own event, or that of the execution that it is part of.
    Parse(u64),
    Bind,
    Describe(Described),
    Execute(u64),
    Close,
    Function,
    Sync {
        /// Its group has an event, which is not done before it.
        ends_event: bool,
    },
}

impl Step {
    fn event(&self) -> Option<u64> {
        match self {
            Step::Query(number) | Step::Parse(number) | Step::Execute(number) => Some(*number),
            Step::Bind | Step::Describe(_) | Step::Close | Step::Function | Step::Sync { .. } => {
                None
            }
        }
    }

    fn is_sync(&self) -> bool {
        matches!(self, Step::Sync { .. })
    }

    fn ends_in_ready(&self) -> bool {
        self.is_sync() || matches!(self, Step::Query(_) | Step::Function)
    }

    /// Whether an event is not done before it is answered.
    fn is_owed(&self) -> bool {
        let ends_event = matches!(self, Step::Sync { ends_event: true });
        ends_event || self.event().is_some()
    }
}

/// What a Describe asks about.
#[derive(Debug, Clone)]
pub(super) enum Described {
    /// `None`: one that is not known.
    Statement(Option<Rc<Statement>>),
    Portal,
}

/// What an event will be.
#[derive(Debug)]
pub(super) enum Asked {
    Simple {
        sql: String,
    },
    Prepare {
        statement: Rc<Statement>,
    },
    Execute {
        statement: Rc<Statement>,
        portal: Rc<str>,
        parameters: Box<PackedParameters>,
    },
    Fetch {
        /// `None`: nobody knows whose rows these are.
        statement: Option<Rc<Statement>>,
        portal: Rc<str>,
    },
    Cancel,
}

impl Asked {
    pub(super) fn sql(&self) -> Option<&str> {
        match self {
            Asked::Simple { sql } => Some(sql),
            Asked::Prepare { statement } | Asked::Execute { statement, .. } => Some(&statement.sql),
            Asked::Fetch { statement, .. } => {
                Some(statement.as_ref().map_or("", |statement| &statement.sql))
            }
            Asked::Cancel => None,
        }
    }

    /// The prepared statement that it is about.
    pub(super) fn statement(&self) -> Option<&Rc<Statement>> {
        match self {
            Asked::Prepare { statement } | Asked::Execute { statement, .. } => Some(statement),
            Asked::Fetch { statement, .. } => statement.as_ref(),
            Asked::Simple { .. } | Asked::Cancel => None,
        }
    }
}

/// The data of `COPY … FROM STDIN`, as far as they came.
#[derive(Debug, Default)]
pub(super) struct CopyData {
    pub(super) data: Vec<u8>,
    pub(super) failed: Option<Box<str>>,
    /// Nobody will want to know them.
    pub(super) unwanted: bool,
    /// The client said that this was all, or that it gives up.
    pub(super) ended: bool,
    /// Some of them are not here.
    pub(super) cut: bool,
}

/// An event to be.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) asked: Asked,
    pub(super) due_us: i64,
    /// The packet in which it came.
    pub(super) place: u64,
    /// The answer to what was before was there.
    pub(super) awaited: bool,
    /// What stood behind it so far.
    pub(super) boundary: Boundary,
    /// The recording had begun when it was sent.
    pub(super) recorded: bool,
    /// It was recorded, as far as it went when the recording ended.
    pub(super) counted: bool,
    /// It is part of another event: a statement that was executed in the group that prepared it.
    pub(super) merged_into: Option<u64>,
    pub(super) unreplayable: Option<Unreplayable>,
    pub(super) result_formats: Option<Rc<[ResultFormat]>>,
    pub(super) rows_max: Option<u32>,
    /// When the server was done with it; `None`: it was not.
    pub(super) done_us: Option<i64>,
    /// The server will say no more of it.
    pub(super) answered: bool,
    pub(super) rows: Option<u64>,
    /// Rows since the last tag.
    pub(super) rows_came: u64,
    pub(super) bytes: u64,
    pub(super) sqlstate: Option<Sqlstate>,
    pub(super) copy: Option<Box<CopyData>>,
    /// Its first row may have something that the server made up.
    pub(super) wants_row: bool,
    pub(super) first_row: Option<Box<FirstRow>>,
    pub(super) digest: Option<u64>,
}

impl Pending {
    pub(super) fn new(asked: Asked, due_us: i64, place: u64) -> Self {
        Pending {
            asked,
            due_us,
            place,
            awaited: true,
            boundary: Boundary::Nothing,
            recorded: false,
            counted: false,
            merged_into: None,
            unreplayable: None,
            result_formats: None,
            rows_max: None,
            done_us: None,
            answered: false,
            rows: None,
            rows_came: 0,
            bytes: 0,
            sqlstate: None,
            copy: None,
            wants_row: false,
            first_row: None,
            digest: None,
        }
    }

    fn is_statement(&self) -> bool {
        !matches!(self.asked, Asked::Cancel)
    }

    /// A portion of rows, a statement's end, or the like.
    pub(super) fn add_rows(&mut self, rows: Option<u64>) {
        self.rows_came = 0;
        if let Some(rows) = rows {
            self.rows = Some(self.rows.unwrap_or(0) + rows);
        }
    }
}

/// COPY data that came before the server asked for it: some clients do not wait.
#[derive(Debug)]
struct Early {
    /// What was asked for last then.
    number: u64,
    copy: CopyData,
    /// The client has sent all of it, behind so many steps.
    ended: Option<u64>,
}

/// What is under way on a connection.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    steps: VecDeque<Step>,
    pending: VecDeque<Pending>,
    /// The number of the first of `pending`.
    first: u64,
    /// The group of messages up to the next Sync.
    pub(super) group: u64,
    /// The server passes over everything up to the next Sync.
    passing_over: bool,
    /// It does so for this error, whose execution has not been asked for yet.
    error: Option<Sqlstate>,
    /// The event whose COPY data the server takes.
    copying: Option<u64>,
    /// Steps that events wait for.
    owed: usize,
    /// The group has an event.
    has_event: bool,
    /// Steps that were ever taken in.
    steps_taken: u64,
    /// COPY data that came before the server asked for it.
    early: Option<Early>,
    /// Answered last, and held back until it is known that no more is said of it.
    held_back: Option<u64>,
    /// Where the server could begin with what is next.
    free_us: i64,
}

impl Exchange {
    /// What the server's next words belong to.
    pub(super) fn front(&self) -> Option<&Step> {
        self.steps.front()
    }

    /// The next event that the server will answer.
    pub(super) fn upcoming(&mut self) -> Option<&mut Pending> {
        let number = self.steps.iter().find_map(Step::event)?;
        self.get(number)
    }

    /// Where the COPY data go that the client sends; nowhere, where nobody asked for any.
    pub(super) fn copy(&mut self) -> Option<&mut CopyData> {
        if let Some(number) = self.copying {
            return self.get(number)?.copy.as_deref_mut();
        }
        if self.steps.is_empty() {
            return None;
        }
        // For what was asked for last, if the server will want them.
        let number = (self.first + self.pending.len() as u64).checked_sub(1)?;
        let early = self.early.get_or_insert_with(|| Early {
            number,
            copy: CopyData {
                unwanted: !self.pending.back().is_some_and(|last| last.recorded),
                ..CopyData::default()
            },
            ended: None,
        });
        Some(&mut early.copy)
    }

    /// Whether nothing waits to become an event.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut Pending> {
        let index = number.checked_sub(self.first)?;
        self.pending.get_mut(index as usize)
    }

    /// The event that the server's next words belong to.
    pub(super) fn answering(&mut self) -> Option<&mut Pending> {
        let number = self.steps.front()?.event()?;
        self.get(number)
    }

    /// Takes in an event to be; the step behind it comes next. Returns its number.
    pub(super) fn ask(&mut self, mut pending: Pending, step: fn(u64) -> Step) -> u64 {
        let number = self.first + self.pending.len() as u64;
        pending.awaited = self.owed == 0 && !self.passing_over;
        // A Query is done without a Sync.
        self.has_event |= !matches!(step(number), Step::Query(_));
        if self.passing_over {
            pending.answered = true;
            pending.sqlstate = self.error.take();
        } else {
            self.push(step(number));
        }
        self.pending.push_back(pending);
        number
    }

    /// Takes in a cancel, which nothing answers.
    pub(super) fn cancel(&mut self, mut pending: Pending) {
        pending.answered = true;
        pending.boundary = Boundary::Sync;
        self.pending.push_back(pending);
    }

    /// A message that is no event.
    pub(super) fn step(&mut self, step: Step) {
        if !self.passing_over {
            self.push(step);
        }
    }

    fn push(&mut self, step: Step) {
        self.owed += usize::from(step.is_owed());
        self.steps.push_back(step);
        self.steps_taken += 1;
    }

    fn pop(&mut self) -> Option<Step> {
        let step = self.steps.pop_front()?;
        self.owed -= usize::from(step.is_owed());
        Some(step)
    }

    /// The statement that `number` prepared is part of what executes it.
    pub(super) fn merge(&mut self, number: u64, into: u64) {
        let Some(prepared) = self.get(number) else {
            return;
        };
        if prepared.merged_into.is_some() {
            return;
        }
        prepared.merged_into = Some(into);
        let (awaited, sqlstate) = (prepared.awaited, prepared.sqlstate);
        if let Some(into) = self.get(into) {
            into.awaited = awaited;
            into.sqlstate = into.sqlstate.or(sqlstate);
        }
    }

    /// A Sync or Flush.
    pub(super) fn boundary(&mut self, boundary: Boundary) {
        if self.copying.is_some() {
            // The server takes no notice of it (54.2.6, COPY Operations).
            return;
        }
        let last = self.pending.iter_mut().rev();
        let mut last = last.filter(|pending| pending.is_statement());
        if let Some(pending) = last.find(|pending| pending.merged_into.is_none())
            && pending.boundary != Boundary::Sync
        {
            pending.boundary = boundary;
        }
        if boundary == Boundary::Sync {
            self.group += 1;
            self.passing_over = false;
            self.error = None;
            let ends_event = std::mem::take(&mut self.has_event);
            self.push(Step::Sync { ends_event });
        }
    }

    /// The step that `is` says, which the server has answered; what stood before it was not heard of.
    pub(super) fn answered(&mut self, is: fn(&Step) -> bool) -> Option<Step> {
        let index = self.steps.iter().position(is)?;
        // What the server did not mention it has nevertheless done: it answers in order.
        self.pass(index);
        self.pop()
    }

    /// The server says nothing of the first so many steps.
    fn pass(&mut self, steps: usize) {
        for _ in 0..steps {
            let number = self.pop().and_then(|step| step.event());
            if let Some(pending) = number.and_then(|number| self.get(number)) {
                pending.answered = true;
            }
        }
    }

    /// The event `number` has all of its answer.
    pub(super) fn done(&mut self, number: u64, at_us: i64) {
        if let Some(pending) = self.get(number) {
            pending.answered = true;
            pending.done_us = Some(at_us);
            self.held_back = Some(number);
        }
    }

    /// The server has prepared a statement.
    pub(super) fn parsed(&mut self, at_us: i64) {
        let Some(Step::Parse(number)) = self.answered(|step| matches!(step, Step::Parse(_))) else {
            return;
        };
        match self.get(number) {
            Some(pending) if pending.merged_into.is_some() => {
                pending.answered = true;
                self.held_back = None;
            }
            _ => self.done(number, at_us),
        }
    }

    /// The server is ready: everything up to here is answered.
    pub(super) fn ready(&mut self, at_us: i64) {
        let last = match self.answered(Step::ends_in_ready) {
            Some(Step::Query(number)) => Some(number),
            Some(Step::Sync { .. }) => self.held_back,
            _ => None,
        };
        if let Some(number) = last {
            self.done(number, at_us);
        }
        self.held_back = None;
        self.copying = None;
        self.forget_early();
    }

    /// COPY data that came before the server asked for it are not wanted any more, once what would have
    /// wanted them is answered.
    fn forget_early(&mut self) {
        let number = self.early.as_ref().map(|early| early.number);
        if let Some(number) = number
            && self.get(number).is_none_or(|pending| pending.answered)
        {
            self.early = None;
        }
    }

    /// An error: whose, and nothing up to the next Sync is done any more.
    pub(super) fn failed(&mut self, sqlstate: Sqlstate, at_us: i64) -> bool {
        self.copying = None;
        let Some(step) = self.steps.front() else {
            return false;
        };
        let own = match step {
            Step::Sync { .. } => self.held_back,
            step => step.event(),
        };
        // A Bind or Describe belongs to the next execution of its group.
        let group = self.steps.iter().take_while(|step| !step.is_sync());
        let number = own.or_else(|| group.filter_map(Step::event).next());
        let number = number.map(|number| match self.get(number) {
            Some(pending) => pending.merged_into.unwrap_or(number),
            None => number,
        });
        if let Some(number) = number
            && let Some(pending) = self.get(number)
        {
            pending.sqlstate.get_or_insert(sqlstate);
        }
        if self.steps.front().is_some_and(Step::ends_in_ready) {
            return number.is_some();
        }
        if let Some(number) = number {
            self.done(number, at_us);
        }
        let passed = self.steps.iter().position(Step::is_sync);
        self.passing_over = passed.is_none();
        self.error = (number.is_none() && self.passing_over).then_some(sqlstate);
        self.pass(passed.unwrap_or(self.steps.len()));
        self.forget_early();
        number.is_some()
    }

    /// The server wants COPY data for what it is answering.
    pub(super) fn copies(&mut self) {
        let Some(number) = self.steps.front().and_then(Step::event) else {
            return;
        };
        let early = self.early.take().filter(|early| early.number == number);
        let ended = early.as_ref().and_then(|early| early.ended);
        if matches!(self.steps.front(), Some(Step::Execute(_))) {
            // A Sync before the end of the data is read while the server takes them, and ignored.
            let behind = ended.map_or(0, |ended| self.steps_taken - ended);
            let before = self.steps.len().saturating_sub(behind as usize);
            let mut at = 0;
            self.steps.retain(|step| {
                at += 1;
                at == 1 || at > before || !step.is_sync()
            });
            self.owed = self.steps.iter().filter(|step| step.is_owed()).count();
            let mut next = self.steps.iter().skip(1);
            let boundary = match next.find(|step| step.is_sync() || step.event().is_some()) {
                Some(Step::Sync { .. }) => Boundary::Sync,
                _ => Boundary::Nothing,
            };
            if let Some(pending) = self.get(number) {
                pending.boundary = boundary;
            }
        }
        if ended.is_none() {
            self.copying = Some(number);
        }
        if let Some(pending) = self.get(number)
            && pending.copy.is_none()
        {
            let unwanted = !pending.recorded;
            pending.copy = Some(Box::new(early.map_or_else(
                || CopyData {
                    unwanted,
                    ..CopyData::default()
                },
                |early| early.copy,
            )));
        }
    }

    /// The client has no more COPY data.
    pub(super) fn copied(&mut self) {
        if let Some(copy) = self.copy() {
            copy.ended = true;
        }
        if self.copying.take().is_none()
            && let Some(early) = &mut self.early
        {
            early.ended.get_or_insert(self.steps_taken);
        }
    }

    /// The next event that is ready to leave, with the time from which the server could work on it.
    pub(super) fn leaving(&mut self) -> Option<(Pending, i64)> {
        loop {
            let front = self.pending.front()?;
            if !front.answered || self.held_back == Some(self.first) {
                return None;
            }
            if front.merged_into.is_none() && self.is_awaiting_boundary() {
                return None;
            }
            let pending = self.leave()?;
            if pending.0.merged_into.is_none() {
                return Some(pending);
            }
        }
    }

    /// Nothing stood behind the first event yet, and something still may.
    fn is_awaiting_boundary(&self) -> bool {
        let front = &self.pending[0];
        let later = self.pending.iter().skip(1).any(Pending::is_statement);
        front.boundary == Boundary::Nothing && front.is_statement() && !later
    }

    fn leave(&mut self) -> Option<(Pending, i64)> {
        let pending = self.pending.pop_front()?;
        self.first += 1;
        let begun_us = pending.due_us.max(self.free_us);
        if let Some(done_us) = pending.done_us {
            self.free_us = done_us;
        }
        Some((pending, begun_us))
    }

    /// All that is under way, with the time from which the server could work on it.
    /// The server has answered the start-up at this time; what was asked before begins only now.
    pub(super) fn free_since(&mut self, at_us: i64) {
        self.free_us = self.free_us.max(at_us);
    }

    pub(super) fn under_way(&mut self) -> impl Iterator<Item = (&mut Pending, i64)> {
        let free_us = self.free_us;
        self.pending
            .iter_mut()
            .filter(|pending| pending.merged_into.is_none())
            .map(move |pending| {
                let begun_us = pending.due_us.max(free_us);
                (pending, begun_us)
            })
    }

    /// What is under way, as far as it is known: no more will be heard of it.
    pub(super) fn give_up(&mut self) -> Option<(Pending, i64)> {
        self.steps.clear();
        self.early = None;
        self.copying = None;
        self.held_back = None;
        self.passing_over = false;
        (self.owed, self.has_event) = (0, false);
        loop {
            let pending = self.leave()?;
            if pending.0.merged_into.is_none() {
                return Some(pending);
            }
        }
    }
}
