//! Reads the parts of a series as one workload.

mod gaps;
mod sums;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use archive::{ArchiveError, DirectoryLock, Keyring, Recipient, SeriesMember, UnfinishedDirectory};
use clock::utc_text;
use sql::Fingerprint;
use xxhash_rust::xxh3::Xxh3;

use super::Rows;
use super::archive_reader::ArchiveReader;
use super::joined_events::{JoinedEvents, SessionCut};
use super::merge::{MergedRows, WaitingPart};
use crate::contexts::ContextText;
use crate::event::Event;
use crate::format::WorkloadInfo;
use crate::series::{Series, SeriesInfo, UnfinishedPart};
use crate::server_event::ServerEvent;
use crate::session::Session;
use crate::table::StatementText;
use sums::sum_parts;

/// Reader of a series, or of consecutive parts of one.
#[derive(Debug, Clone)]
pub(super) struct SeriesReader {
    path: PathBuf,
    series: SeriesInfo,
    unfinished: Vec<UnfinishedPart>,
    foreign: Vec<PathBuf>,
    parts: Vec<PartReader>,
    /// Numbers of all complete parts, of which [`Self::within`] may leave out some.
    complete: BTreeSet<u64>,
    /// Range that [`Self::within`] was called with, in microseconds since 1970-01-01 UTC.
    range_us: (i64, i64),
    id: String,
    info: WorkloadInfo,
}

/// Reader of one part.
#[derive(Debug, Clone)]
struct PartReader {
    pub(super) reader: ArchiveReader,
    pub(super) member: SeriesMember,
    /// Time from the start of the whole to the start of the part, in microseconds.
    pub(super) shift_us: i64,
    /// Index in the whole of each source of the part.
    pub(super) sources: Vec<u32>,
}

impl SeriesReader {
    /// Opens the complete parts of a series.
    pub(super) fn open(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let series = Series::open(path)?;
        let mut parts = Vec::with_capacity(series.parts.len());
        for part in series.parts {
            let reader = match ArchiveReader::open_manifest(&part.path, keyring) {
                // The retention has removed it since the directory was listed.
                Err(_) if !part.path.exists() => continue,
                opened => opened?,
            };
            parts.push(PartReader {
                reader,
                member: part.member,
                shift_us: 0,
                sources: Vec::new(),
            });
        }
        let unopened = SeriesReader {
            path: series.path,
            series: series.info,
            unfinished: series.unfinished,
            foreign: series.foreign,
            complete: parts.iter().map(|part| part.member.number).collect(),
            parts,
            range_us: (i64::MIN, i64::MAX),
            id: String::new(),
            info: WorkloadInfo::default(),
        };
        let (Some(first), true) = (unopened.unfinished.first(), unopened.parts.is_empty()) else {
            return unopened.with_sums("it has no complete part yet");
        };
        let found = UnfinishedDirectory::at(first.path.clone());
        if !found.being_written {
            return Err(ArchiveError::Unfinished(found));
        }
        let complete_us = first.member.to_us.saturating_add(unopened.series.wait_us);
        let reason = format!(
            "it has no complete part yet (the first one at about {})",
            utc_text(complete_us)
        );
        unopened.with_sums(&reason)
    }

    /// Keeps the parts that can have events of a time range.
    pub(super) fn within(&self, from_us: i64, to_us: i64) -> Result<Self, ArchiveError> {
        let has_begun = |part: &&PartReader| part.member.from_us <= from_us;
        let first = self.parts.iter().rfind(has_begun).or(self.parts.first());
        // A time stamp ahead of the clock can be later than the time range of its part.
        let reaches_it = |part: &&PartReader| {
            let info = part.reader.info();
            info.provenance.start_wall_us + info.span_us.max(info.server_to_us) >= from_us
        };
        let earliest = self.parts.iter().find(reaches_it);
        let first = first.into_iter().chain(earliest);
        let first = first.map(|part| part.member.number).min().unwrap_or(0);
        let mut kept = self.clone();
        kept.range_us = (from_us, to_us);
        kept.parts.retain(|part| {
            // A late event is earlier than the time range of its part.
            let start_us = part.reader.info().provenance.start_wall_us;
            part.member.number >= first && start_us.min(part.member.from_us) < to_us
        });
        kept.with_sums("none of its parts is in this range of time")
    }

    /// Computes what depends on the list of parts.
    fn with_sums(mut self, if_empty: &str) -> Result<Self, ArchiveError> {
        if self.parts.is_empty() {
            return Err(ArchiveError::WrongKind {
                path: self.path,
                kind: "series to read".to_owned(),
                reason: if_empty.to_owned(),
            });
        }
        self.info = sum_parts(&mut self.parts);
        let mut hash = Xxh3::new();
        for part in &self.parts {
            hash.update(part.reader.manifest().id.as_bytes());
        }
        self.id = format!("{:016x}", hash.digest());
        Ok(self)
    }

    pub(super) fn info(&self) -> &WorkloadInfo {
        &self.info
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn recipients(&self) -> Vec<Recipient> {
        let all = self.parts.iter().flat_map(|part| part.reader.recipients());
        let mut all: Vec<Recipient> = all.collect();
        all.sort_by_key(ToString::to_string);
        all.dedup();
        all
    }

    pub(super) fn verify(&self) -> Result<(), ArchiveError> {
        self.check_numbers()?;
        self.parts.iter().try_for_each(|part| part.reader.verify())
    }

    /// Checks that no part between the first and the last is missing. Its session state would be, too.
    fn check_numbers(&self) -> Result<(), ArchiveError> {
        for pair in self.parts.windows(2) {
            let (before, after) = (&pair[0].member, &pair[1].member);
            // The part in progress of a capture that was killed may not have been recovered.
            let is_cut = |number: u64| {
                let mut gaps = self.series.gaps.iter();
                let is_before_gap =
                    gaps.any(|gap| before.number < gap.before_part && number < gap.before_part);
                is_before_gap || self.complete.contains(&number)
            };
            if let Some(missing) = (before.number + 1..after.number).find(|number| !is_cut(*number))
            {
                return Err(ArchiveError::Damaged {
                    path: self.path.clone(),
                    reason: format!(
                        "part {missing} is missing, between {} and {} (give --from or --to so that it is not needed)",
                        utc_text(before.to_us),
                        utc_text(after.from_us)
                    ),
                });
            }
        }
        Ok(())
    }

    /// Prepares the parts for a merge. `start_us` returns the time of the first row, relative to the part's start.
    fn merge<T: 'static>(
        &self,
        start_us: impl Fn(&WorkloadInfo) -> i64,
        open: fn(&PartReader) -> Result<Rows<T>, ArchiveError>,
    ) -> Result<Vec<WaitingPart<T>>, ArchiveError> {
        self.check_numbers()?;
        let parts = self.parts.iter().cloned();
        Ok(parts
            .map(|part| WaitingPart {
                number: part.member.number,
                start_us: part.shift_us + start_us(part.reader.info()),
                open: Box::new(move || part.open_rows(open)),
            })
            .collect())
    }

    pub(super) fn events(&self) -> Result<Rows<(Event, Option<Fingerprint>)>, ArchiveError> {
        let parts = self.merge(|_| 0, PartReader::events)?;
        let merged = MergedRows::new(parts, |(event, _)| (event.due_us, event.session));
        Ok(Box::new(JoinedEvents::new(merged, self.cuts())))
    }

    /// Returns the times at which gaps have cut off all sessions.
    fn cuts(&self) -> Vec<SessionCut> {
        let start_us = self.info.provenance.start_wall_us;
        let cuts = self.series.gaps.iter().map(|gap| {
            let earlier = self.parts.iter();
            let earlier = earlier.filter(|part| part.member.number < gap.before_part);
            let ends_us = earlier.map(|part| part.shift_us + part.reader.info().span_us);
            SessionCut {
                before_part: gap.before_part,
                recorded_to_us: ends_us.max().unwrap_or(i64::MIN),
                gap_from_us: gap.from_us - start_us,
            }
        });
        cuts.collect()
    }

    pub(super) fn server_events(
        &self,
    ) -> Result<Rows<(ServerEvent, Option<Fingerprint>)>, ArchiveError> {
        let parts = self.merge(|info| info.server_from_us, PartReader::server_events)?;
        let merged = MergedRows::new(parts, |(event, _)| (event.at_us, 0));
        Ok(Box::new(merged.map(|item| item.map(|(_, row)| row))))
    }

    pub(super) fn sessions(&self) -> Result<Rows<Session>, ArchiveError> {
        let parts = self.merge(|_| 0, PartReader::sessions)?;
        Ok(Box::new(JoinedSessions {
            rows: chain(parts),
            open: HashMap::new(),
            left: None,
        }))
    }

    pub(super) fn statements(&self) -> Result<Rows<StatementText>, ArchiveError> {
        let parts = self.merge(|_| 0, |part| Ok(Box::new(part.reader.statements()?)))?;
        let mut seen = HashSet::new();
        let is_new = move |statement: &StatementText| seen.insert(statement.fingerprint);
        Ok(first_of_each(chain(parts), is_new))
    }

    pub(super) fn contexts(&self) -> Result<Rows<ContextText>, ArchiveError> {
        let parts = self.merge(|_| 0, |part| Ok(Box::new(part.reader.contexts()?)))?;
        let mut seen = HashSet::new();
        Ok(first_of_each(chain(parts), move |context: &ContextText| {
            seen.insert(context.id)
        }))
    }
}

/// Returns the rows of all parts, in the order of the parts.
fn chain<T: Send + 'static>(mut parts: Vec<WaitingPart<T>>) -> Rows<T> {
    parts.sort_by_key(|part| part.number);
    Box::new(parts.into_iter().flat_map(|part| match (part.open)() {
        Ok(rows) => rows,
        Err(error) => Box::new(std::iter::once(Err(error))) as Rows<T>,
    }))
}

/// Leaves out the rows that are not new.
fn first_of_each<T: 'static>(
    rows: Rows<T>,
    mut is_new: impl FnMut(&T) -> bool + Send + 'static,
) -> Rows<T> {
    Box::new(rows.filter(move |row| row.as_ref().map_or(true, &mut is_new)))
}

impl PartReader {
    /// Opens rows of the part. A lock keeps the retention from removing the part until they are read.
    fn open_rows<T: 'static>(
        &self,
        open: fn(&PartReader) -> Result<Rows<T>, ArchiveError>,
    ) -> Result<Rows<T>, ArchiveError> {
        let path = self.reader.path();
        let lock = DirectoryLock::try_shared(path).ok().flatten();
        if !path.exists() {
            return Err(ArchiveError::Damaged {
                path: path.to_owned(),
                reason: "the retention of its series removed it before it was read".to_owned(),
            });
        }
        self.reader.check_files()?;
        let rows = open(self)?;
        Ok(Box::new(rows.inspect(move |_| {
            let _held = &lock;
        })))
    }

    fn source(&self, source: u32) -> u32 {
        let known = self.sources.get(source as usize);
        known.copied().unwrap_or(source)
    }

    fn events(&self) -> Result<Rows<(Event, Option<Fingerprint>)>, ArchiveError> {
        let part = self.clone();
        Ok(Box::new(self.reader.events()?.map(move |item| {
            item.map(|(mut event, fingerprint)| {
                event.due_us += part.shift_us;
                event.source = part.source(event.source);
                (event, fingerprint)
            })
        })))
    }

    fn server_events(&self) -> Result<Rows<(ServerEvent, Option<Fingerprint>)>, ArchiveError> {
        let part = self.clone();
        Ok(Box::new(self.reader.server_events()?.map(move |item| {
            item.map(|(mut event, fingerprint)| {
                event.at_us += part.shift_us;
                event.source = part.source(event.source);
                (event, fingerprint)
            })
        })))
    }

    fn sessions(&self) -> Result<Rows<Session>, ArchiveError> {
        let shift_us = self.shift_us;
        Ok(Box::new(self.reader.sessions()?.map(move |item| {
            item.map(|mut session| {
                session.start_us += shift_us;
                session.end_us += shift_us;
                session
            })
        })))
    }
}

/// Records of sessions, each joined from those of the parts in which it has events.
struct JoinedSessions {
    rows: Rows<Session>,
    /// Records of sessions that may continue.
    open: HashMap<u64, Session>,
    /// Records of sessions that do not end in the series, once all parts are read.
    left: Option<std::vec::IntoIter<Session>>,
}

impl Iterator for JoinedSessions {
    type Item = Result<Session, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(left) = &mut self.left {
            return left.next().map(Ok);
        }
        for row in self.rows.by_ref() {
            let session = match row {
                Ok(session) => session,
                Err(error) => return Some(Err(error)),
            };
            let session = match self.open.remove(&session.id) {
                None => session,
                Some(begun) => Session {
                    start_us: begun.start_us.min(session.start_us),
                    end_us: begun.end_us.max(session.end_us),
                    start_seen: begun.start_seen,
                    statements: begun.statements + session.statements,
                    // A part that was recovered after a kill has no addresses.
                    client: match session.client.is_empty() {
                        true => begun.client,
                        false => session.client,
                    },
                    ..session
                },
            };
            match session.end_seen {
                true => return Some(Ok(session)),
                false => drop(self.open.insert(session.id, session)),
            }
        }
        let mut left: Vec<Session> = std::mem::take(&mut self.open).into_values().collect();
        left.sort_by_key(|session| (session.end_us, session.id));
        self.left.insert(left.into_iter()).next().map(Ok)
    }
}
