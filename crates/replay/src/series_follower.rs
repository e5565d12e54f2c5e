//! Reads a series that is still being written: part after part, each when it is complete.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::utc_text;
use sql::Fingerprint;
use workload::series::{Series, SeriesMember, SeriesState, SessionJoiner};
use workload::{
    ArchiveError, ContextId, ContextText, DirectoryLock, Event, EventKind, Keyring, Outcome,
    StatementText, WorkloadReader,
};

/// Options of a replay that follows a series.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// Path of the series.
    pub series: PathBuf,
    /// Identity of the series.
    pub uuid: String,
    /// Keys for encrypted parts.
    pub keyring: Keyring,
    /// Number of the first part.
    pub first_part: u64,
    /// Time from the captured time of an event to the time at which it is due.
    pub delay: Duration,
    /// Greatest lag of a session. A session that lags more skips what is overdue.
    pub lag_max: Duration,
    /// Time after which the replay ends. Without one, it ends with the series.
    pub duration: Option<Duration>,
}

impl PartialEq for FollowOptions {
    /// Ignores the keys, which have no equality.
    fn eq(&self, other: &Self) -> bool {
        let fields = |options: &Self| {
            (
                options.first_part,
                options.delay,
                options.lag_max,
                options.duration,
            )
        };
        fields(self) == fields(other) && self.series == other.series && self.uuid == other.uuid
    }
}

impl Eq for FollowOptions {}

/// Statements and contexts of parts that were opened, for the run.
#[derive(Debug, Default)]
pub(crate) struct NewTexts(Mutex<(Vec<StatementText>, Vec<ContextText>)>);

impl NewTexts {
    /// Takes what was added since the last call.
    pub(crate) fn take(&self) -> (Vec<StatementText>, Vec<ContextText>) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, statements: Vec<StatementText>, contexts: Vec<ContextText>) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.0.extend(statements);
        texts.1.extend(contexts);
    }
}

/// Next step of a series.
pub(crate) enum SeriesStep {
    /// Event; its time is microseconds since 1970-01-01 UTC.
    Event(Box<Event>, Option<Fingerprint>),
    /// Something that the user should know.
    Note(String),
    /// No part is complete that was not read yet.
    Wait,
    /// The series is complete, and was read.
    End,
}

type Rows = Box<dyn Iterator<Item = Result<(Event, Option<Fingerprint>), ArchiveError>>>;

/// Part that is being read.
struct CurrentPart {
    number: u64,
    rows: Rows,
    /// Start of its times, in microseconds since 1970-01-01 UTC.
    start_wall_us: i64,
    /// Whether its sources are those of the first part, so that locations in them hold.
    has_known_sources: bool,
    /// Keeps the retention from removing it.
    _lock: DirectoryLock,
}

/// Reader of a series that grows.
pub(crate) struct SeriesFollower<'f> {
    options: &'f FollowOptions,
    texts: Arc<NewTexts>,
    seen: HashSet<Fingerprint>,
    seen_contexts: HashSet<ContextId>,
    sources: Vec<String>,
    joiner: SessionJoiner,
    current: Option<CurrentPart>,
    /// File name and place of the last part that was opened.
    last: Option<(String, SeriesMember)>,
    pending: VecDeque<SeriesStep>,
    /// Whether the user knows that nothing captures the series.
    idle_noted: bool,
    /// Databases of the first part.
    databases: BTreeSet<Arc<str>>,
}

impl<'f> SeriesFollower<'f> {
    /// Creates a reader. `first` is the first part, whose statements and contexts the run has.
    ///
    /// # Errors
    /// If the first part cannot be read.
    pub(crate) fn new(
        options: &'f FollowOptions,
        first: &WorkloadReader,
        texts: Arc<NewTexts>,
    ) -> Result<Self, ArchiveError> {
        let statements = first.statements()?.map(|text| Ok(text?.fingerprint));
        let contexts = first.contexts()?.map(|text| Ok(text?.id));
        let databases = first.sessions()?.map(|session| Ok(session?.database));
        Ok(SeriesFollower {
            options,
            texts,
            seen: statements.collect::<Result<_, ArchiveError>>()?,
            seen_contexts: contexts.collect::<Result<_, ArchiveError>>()?,
            databases: databases.collect::<Result<_, ArchiveError>>()?,
            sources: source_names(first),
            joiner: SessionJoiner::default(),
            current: None,
            last: None,
            pending: VecDeque::new(),
            idle_noted: false,
        })
    }

    /// Whether the first part has sessions of a database.
    pub(crate) fn has_database(&self, database: &str) -> bool {
        self.databases.contains(database)
    }

    /// Returns the next step. Reads files only, and never waits.
    ///
    /// # Errors
    /// If a part cannot be read.
    pub(crate) fn next(&mut self) -> Result<SeriesStep, ArchiveError> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Ok(step);
            }
            let Some(part) = &mut self.current else {
                match self.open_next()? {
                    Some(step) => return Ok(step),
                    None => continue,
                }
            };
            let Some(item) = part.rows.next() else {
                self.current = None;
                continue;
            };
            let (mut event, fingerprint) = item?;
            event.due_us = event.due_us.saturating_add(part.start_wall_us);
            if !part.has_known_sources {
                event.line = 0;
            }
            if let Some(event) = self.joiner.join(part.number, event) {
                return Ok(SeriesStep::Event(Box::new(event), fingerprint));
            }
        }
    }

    /// Opens the next complete part. Returns a step if there is none, or the user should know something first.
    fn open_next(&mut self) -> Result<Option<SeriesStep>, ArchiveError> {
        let after = self.last.as_ref().map_or("", |(name, _)| name);
        let series = Series::open_after(&self.options.series, after)?;
        let first = match &self.last {
            None => self.options.first_part,
            Some((_, member)) => member.number + 1,
        };
        let next = series.parts.iter().find(|part| part.member.number >= first);
        let Some(next) = next else {
            if series.info.state == SeriesState::Complete && !series.is_being_captured() {
                return Ok(Some(SeriesStep::End));
            }
            return Ok(Some(self.note_idle(&series)));
        };
        let Ok(Some(lock)) = DirectoryLock::try_shared(&next.path) else {
            // The retention removes it.
            return Ok(Some(SeriesStep::Wait));
        };
        let reader = match WorkloadReader::open_with(&next.path, &self.options.keyring) {
            Err(_) if !next.path.exists() => return Ok(Some(SeriesStep::Wait)),
            opened => opened?,
        };
        self.idle_noted = false;
        self.note_gap(&series, first, &next.member);
        self.add_texts(&reader)?;
        let name = next.path.file_name().unwrap_or_default();
        self.last = Some((name.to_string_lossy().into_owned(), next.member.clone()));
        self.current = Some(CurrentPart {
            number: next.member.number,
            start_wall_us: reader.info().provenance.start_wall_us,
            has_known_sources: source_names(&reader) == self.sources,
            rows: Box::new(reader.events()?),
            _lock: lock,
        });
        Ok(None)
    }

    fn note_idle(&mut self, series: &Series) -> SeriesStep {
        if self.idle_noted || series.is_being_captured() {
            return SeriesStep::Wait;
        }
        self.idle_noted = true;
        SeriesStep::Note(format!(
            "No process captures {} now. The replay continues when a capture continues it; Ctrl-C ends the replay.",
            series.path.display()
        ))
    }

    /// Ends the sessions that a gap before this part cut off, and notes the gap.
    fn note_gap(&mut self, series: &Series, expected: u64, member: &SeriesMember) {
        let Some((_, last)) = &self.last else {
            return;
        };
        let captured = (series.info.gaps.iter())
            .find(|gap| last.number < gap.before_part && gap.before_part <= member.number);
        let reason = match captured {
            Some(gap) => format!("nothing was captured then ({})", gap.reason),
            None if member.number > expected => format!(
                "{} were removed before they were replayed",
                match member.number - expected {
                    1 => "one part of the series".to_owned(),
                    parts => format!("{parts} parts of the series"),
                }
            ),
            None => return,
        };
        for session in self.joiner.end_sessions_before(u64::MAX) {
            let end = Event {
                session,
                sequence: u64::MAX >> 1,
                due_us: last.to_us,
                kind: EventKind::Disconnect,
                outcome: Outcome::default(),
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            };
            self.pending
                .push_back(SeriesStep::Event(Box::new(end), None));
        }
        self.pending.push_back(SeriesStep::Note(format!(
            "Gap from {} to {}: {reason}.",
            utc_text(last.to_us),
            utc_text(member.from_us)
        )));
    }

    /// Adds the statements and contexts of a part to the run.
    fn add_texts(&mut self, reader: &WorkloadReader) -> Result<(), ArchiveError> {
        let (mut statements, mut contexts) = (Vec::new(), Vec::new());
        for statement in reader.statements()? {
            let statement = statement?;
            if self.seen.insert(statement.fingerprint) {
                statements.push(statement);
            }
        }
        for context in reader.contexts()? {
            let context = context?;
            if self.seen_contexts.insert(context.id) {
                contexts.push(context);
            }
        }
        self.texts.add(statements, contexts);
        Ok(())
    }
}

fn source_names(reader: &WorkloadReader) -> Vec<String> {
    let sources = reader.info().provenance.sources.iter();
    sources.map(|source| source.name.clone()).collect()
}
