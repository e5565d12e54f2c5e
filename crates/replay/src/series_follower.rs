//! Reads a series that is still being written: part after part, each when it is complete.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::utc_text;
use run::SeriesGap;
use sql::Fingerprint;
use workload::series::{
    Series, SeriesMember, SeriesPart, SeriesState, SessionJoiner, UnfinishedPart,
};
use workload::{
    ArchiveError, ContextId, ContextText, DirectoryLock, Event, EventKind, Keyring, Outcome,
    StatementText, WorkloadReader,
};

/// Number of looks at a part that another process has locked, after which the user learns of it: the retention has a lock for
/// a moment only.
const LOOKS_BEFORE_NOTE: u32 = 25;

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

/// Statements, contexts and gaps of parts that were opened, for the run.
#[derive(Debug, Default)]
pub(crate) struct NewTexts(Mutex<AddedTexts>);

/// Additions to a run.
#[derive(Debug, Default)]
pub(crate) struct AddedTexts {
    pub(crate) statements: Vec<StatementText>,
    pub(crate) contexts: Vec<ContextText>,
    pub(crate) gaps: Vec<SeriesGap>,
}

impl NewTexts {
    /// Takes what was added since the last call.
    pub(crate) fn take(&self) -> AddedTexts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, statements: Vec<StatementText>, contexts: Vec<ContextText>) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.statements.extend(statements);
        texts.contexts.extend(contexts);
    }

    /// Adds a gap of the series.
    pub(crate) fn add_gap(&self, gap: SeriesGap) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.gaps.push(gap);
    }
}

/// Next step of a series.
pub(crate) enum SeriesStep {
    /// Event; its time is microseconds since 1970-01-01 UTC.
    Event(Box<Event>, Option<Fingerprint>),
    /// Something that the user should know.
    Note(String),
    /// Range of time of which nothing can be replayed.
    Gap(SeriesGap),
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

/// Part that cannot be locked now.
#[derive(Debug, Default)]
struct BlockedPart {
    number: u64,
    looks: u32,
    /// Last reason that the user knows.
    noted: String,
}

/// Attempt to lock a part.
enum PartLock {
    Locked(DirectoryLock),
    /// The retention has removed it.
    Removed,
    /// It cannot be locked now: the number of looks after which the user learns of it, and the reason.
    Blocked(u32, String),
}

impl PartLock {
    fn try_lock(path: &Path) -> Self {
        match DirectoryLock::try_shared(path) {
            Ok(Some(lock)) => PartLock::Locked(lock),
            // It was renamed before it was locked, or while it was.
            _ if std::fs::symlink_metadata(path).is_err() => PartLock::Removed,
            Ok(None) => PartLock::Blocked(
                LOOKS_BEFORE_NOTE,
                "another process has locked it".to_owned(),
            ),
            Err(error) => PartLock::Blocked(1, format!("it cannot be opened ({error})")),
        }
    }
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
    /// Start of the next part, in microseconds since 1970-01-01 UTC, if it is known and later than what is due.
    next_from_us: Option<i64>,
    blocked: BlockedPart,
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
            next_from_us: None,
            blocked: BlockedPart::default(),
            idle_noted: false,
        })
    }

    /// Whether the first part has sessions of a database.
    pub(crate) fn has_database(&self, database: &str) -> bool {
        self.databases.contains(database)
    }

    /// Returns the next step. Reads files only, and never waits. Opens no part that begins after `open_to_us`, in
    /// microseconds since 1970-01-01 UTC: its lock would stop the retention before the part is read.
    ///
    /// # Errors
    /// If a part cannot be read.
    pub(crate) fn next(&mut self, open_to_us: i64) -> Result<SeriesStep, ArchiveError> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Ok(step);
            }
            let Some(part) = &mut self.current else {
                match self.open_next(open_to_us)? {
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
    fn open_next(&mut self, open_to_us: i64) -> Result<Option<SeriesStep>, ArchiveError> {
        if self
            .next_from_us
            .is_some_and(|from_us| from_us > open_to_us)
        {
            return Ok(Some(SeriesStep::Wait));
        }
        self.next_from_us = None;
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
        if next.member.from_us > open_to_us {
            self.next_from_us = Some(next.member.from_us);
            return Ok(Some(SeriesStep::Wait));
        }
        let lock = match PartLock::try_lock(&next.path) {
            PartLock::Locked(lock) => lock,
            PartLock::Removed => return Ok(Some(SeriesStep::Wait)),
            PartLock::Blocked(looks, reason) => {
                return Ok(Some(self.note_blocked(next, looks, &reason)));
            }
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

    /// Reports a part that cannot be locked, and each reason once, after this number of looks.
    fn note_blocked(&mut self, part: &SeriesPart, looks: u32, reason: &str) -> SeriesStep {
        let blocked = &mut self.blocked;
        if blocked.number != part.member.number {
            *blocked = BlockedPart {
                number: part.member.number,
                ..BlockedPart::default()
            };
        }
        blocked.looks = blocked.looks.saturating_add(1);
        if blocked.looks < looks || blocked.noted == reason {
            return SeriesStep::Wait;
        }
        reason.clone_into(&mut blocked.noted);
        SeriesStep::Note(format!(
            "Waiting for {}: {reason}. The replay continues when it can read it, and skips what is overdue by more than --max-lag then; Ctrl-C ends the replay.",
            part.path.display()
        ))
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
            if member.number > expected {
                self.pending.push_back(SeriesStep::Note(format!(
                    "The first {} removed before the replay came to it. The replay begins with {}.",
                    removed_parts(member.number - expected),
                    utc_text(member.from_us)
                )));
            }
            return;
        };
        let captured: Vec<_> = (series.info.gaps.iter())
            .filter(|gap| last.number < gap.before_part && gap.before_part <= member.number)
            .collect();
        let steps = match (captured.is_empty(), member.number > expected) {
            (_, true) => vec![SeriesStep::Gap(SeriesGap {
                from_us: last.to_us,
                to_us: member.from_us,
                reason: {
                    let numbers = (last.number, member.number);
                    reason_without_parts(&series.unfinished, numbers, captured.first().copied())
                },
            })],
            (false, false) => captured.into_iter().map(step_of_gap).collect(),
            (true, false) => return,
        };
        // After a kill, the next part can begin within the time range of the last one.
        let due_us = last.to_us.min(member.from_us);
        for session in self.joiner.end_sessions_before(u64::MAX) {
            let end = Event {
                session,
                sequence: u64::MAX >> 1,
                due_us,
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
        self.pending.extend(steps);
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

/// Returns the reason why there are no parts between these two. A number without a part, not even an unfinished one, is that of a
/// part that was removed.
fn reason_without_parts(
    unfinished: &[UnfinishedPart],
    (last, next): (u64, u64),
    captured: Option<&workload::series::SeriesGap>,
) -> String {
    let between = last + 1..next;
    let unfinished: Vec<_> = (unfinished.iter())
        .filter(|part| between.contains(&part.member.number))
        .collect();
    let missing = (next - last - 1).saturating_sub(unfinished.len() as u64);
    let removed = (missing > 0).then(|| {
        format!(
            "{} removed before the replay came to it",
            removed_parts(missing)
        )
    });
    let captured = match (captured, unfinished.first()) {
        (_, Some(part)) => Some(format!(
            "the capture was killed; `rehearse recover {}` keeps what it captured, for a later replay",
            part.path.display()
        )),
        (Some(gap), None) => Some(format!("nothing was captured then ({})", gap.reason)),
        (None, None) => None,
    };
    [removed, captured]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; in part of the time, ")
}

/// Returns what the user should know of a gap between two parts that follow each other.
fn step_of_gap(gap: &workload::series::SeriesGap) -> SeriesStep {
    match gap.from_us < gap.to_us {
        true => SeriesStep::Gap(SeriesGap {
            from_us: gap.from_us,
            to_us: gap.to_us,
            reason: format!("nothing was captured then ({})", gap.reason),
        }),
        false => SeriesStep::Note(format!(
            "Sessions do not continue after {} ({}).",
            utc_text(gap.from_us),
            gap.reason
        )),
    }
}

fn removed_parts(parts: u64) -> String {
    match parts {
        1 => "part of the series was".to_owned(),
        parts => format!("{parts} parts of the series were"),
    }
}

fn source_names(reader: &WorkloadReader) -> Vec<String> {
    let sources = reader.info().provenance.sources.iter();
    sources.map(|source| source.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn gap_of_a_log_that_was_read_again_has_its_own_times_and_is_a_note_without_a_range() {
        let gap = |from_us, to_us| workload::series::SeriesGap {
            from_us,
            to_us,
            before_part: 2,
            reason: "the capture was killed".to_owned(),
        };
        let SeriesStep::Gap(missing) = step_of_gap(&gap(1_000_000, 2_000_000)) else {
            panic!("a range");
        };
        assert_eq!((missing.from_us, missing.to_us), (1_000_000, 2_000_000));
        let SeriesStep::Note(note) = step_of_gap(&gap(1_000_000, 1_000_000)) else {
            panic!("no range");
        };
        let expected = "Sessions do not continue after 1970-01-01 00:00:01 UTC";
        assert!(note.starts_with(expected), "{note}");
    }

    #[test]
    fn parts_are_missing_since_they_were_removed_unfinished_or_nothing_was_captured() {
        let gap = workload::series::SeriesGap {
            from_us: 0,
            to_us: 1,
            before_part: 4,
            reason: "the capture was killed".to_owned(),
        };
        let reason = |unfinished: &[u64], next, captured| {
            let unfinished = unfinished.iter().map(|number| UnfinishedPart {
                path: "x.workload.partial".into(),
                member: SeriesMember {
                    uuid: String::new(),
                    number: *number,
                    from_us: 0,
                    to_us: 1,
                },
            });
            let unfinished: Vec<UnfinishedPart> = unfinished.collect();
            reason_without_parts(&unfinished, (1, next), captured)
        };
        let removed = "2 parts of the series were removed before the replay came to it";
        assert_eq!(reason(&[], 4, None), removed);
        assert_eq!(
            reason(&[], 4, Some(&gap)),
            format!(
                "{removed}; in part of the time, nothing was captured then (the capture was killed)"
            )
        );
        let killed = reason(&[2, 3], 4, Some(&gap));
        assert!(
            killed.starts_with("the capture was killed; `rehearse recover"),
            "{killed}"
        );
        let both = reason(&[3], 4, Some(&gap));
        assert!(
            both.starts_with("part of the series was removed")
                && both.contains("time, the capture was killed"),
            "{both}"
        );
    }

    #[test]
    fn part_is_locked_removed_or_blocked_with_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part.workload");
        assert!(matches!(PartLock::try_lock(&path), PartLock::Removed));
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(PartLock::try_lock(&path), PartLock::Locked(_)));
        let reason = |path: &Path| match PartLock::try_lock(path) {
            PartLock::Blocked(looks, reason) => (looks, reason),
            _ => panic!("not blocked"),
        };
        let _other = DirectoryLock::try_exclusive(&path).unwrap().unwrap();
        assert_eq!(reason(&path).0, LOOKS_BEFORE_NOTE);
        // No process can open a socket as a file, not even that of the administrator.
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let (looks, reason) = reason(&socket);
        assert_eq!(looks, 1);
        assert!(reason.starts_with("it cannot be opened ("), "{reason}");
    }
}
