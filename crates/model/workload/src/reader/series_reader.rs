//! Reads the parts of a series as one workload.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use archive::{ArchiveError, DirectoryLock, Keyring, Recipient, SeriesMember};
use clock::utc_text;
use sql::Fingerprint;
use xxhash_rust::xxh3::Xxh3;

use super::Rows;
use super::archive_reader::ArchiveReader;
use super::merge::{MergedRows, WaitingPart};
use crate::contexts::ContextText;
use crate::event::Event;
use crate::format::{SourceFile, WorkloadInfo};
use crate::lineage::MaskNote;
use crate::series::{Series, SeriesInfo, SessionJoiner, UnfinishedPart, add_account};
use crate::server_event::ServerEvent;
use crate::session::Session;
use crate::table::StatementText;

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
    id: String,
    info: WorkloadInfo,
}

/// Reader of one part.
#[derive(Debug, Clone)]
struct PartReader {
    reader: ArchiveReader,
    member: SeriesMember,
    /// Time from the start of the whole to the start of the part, in microseconds.
    shift_us: i64,
    /// Index in the whole of each source of the part.
    sources: Vec<u32>,
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
            id: String::new(),
            info: WorkloadInfo::default(),
        };
        if let [first, ..] = &unopened.unfinished[..]
            && unopened.parts.is_empty()
        {
            let path = first.path.clone();
            return Err(ArchiveError::Unfinished(archive::UnfinishedDirectory::at(
                path,
            )));
        }
        unopened.with_sums("it has no complete part yet")
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

    /// Describes what is missing, each as a sentence.
    pub(super) fn gaps(&self) -> Vec<String> {
        let path = self.path.display();
        let mut gaps = Vec::new();
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return gaps;
        };
        let removed = &self.series.removed;
        if let Some(end_us) = removed.latest_end_us
            && removed.parts >= first.member.number.saturating_sub(1)
            && removed.parts > 0
        {
            gaps.push(format!(
                "{path}: {} parts before {} were removed by its retention",
                removed.parts,
                utc_text(end_us)
            ));
        }
        for gap in &self.series.gaps {
            if first.member.number < gap.before_part && gap.before_part <= last.member.number {
                // A part that was recovered since then reaches into the gap.
                let before = self
                    .parts
                    .iter()
                    .filter(|part| part.member.number < gap.before_part);
                let ends_us = before.map(|part| part.shift_us + part.reader.info().span_us);
                let recorded_to_us =
                    self.info.provenance.start_wall_us + ends_us.max().unwrap_or(0);
                gaps.push(format!(
                    "{path}: nothing was captured from {} to {}: {}",
                    utc_text(gap.from_us.max(recorded_to_us).min(gap.to_us)),
                    utc_text(gap.to_us),
                    gap.reason
                ));
            }
        }
        for part in self
            .parts
            .iter()
            .filter(|part| part.reader.info().recovered)
        {
            gaps.push(format!(
                "{}: it was recovered after its capture was killed, and ends early",
                part.reader.path().display()
            ));
        }
        let range = first.member.number..=last.member.number;
        for part in &self.unfinished {
            if range.contains(&part.member.number) {
                let part = part.path.display();
                gaps.push(format!(
                    "{part}: its capture was killed, so it is not read; `rehearse recover {part}` keeps what is complete in it"
                ));
            }
        }
        for foreign in &self.foreign {
            gaps.push(format!(
                "{}: it is no part of this series, so it is not read",
                foreign.display()
            ));
        }
        gaps
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
        let mut joiner = SessionJoiner::default();
        let merged = MergedRows::new(parts, |(event, _)| (event.due_us, event.session));
        Ok(Box::new(merged.filter_map(move |item| match item {
            Ok((number, (event, fingerprint))) => {
                let event = joiner.join(number, event)?;
                Some(Ok((event, fingerprint)))
            }
            Err(error) => Some(Err(error)),
        })))
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

/// Computes the sum of the manifests, and the places of the parts in it.
fn sum_parts(parts: &mut [PartReader]) -> WorkloadInfo {
    // The start is a client's event; only without one it is a server event.
    let has_events = parts.iter().any(|part| part.reader.info().events > 0);
    let starts = parts.iter().map(|part| part.reader.info());
    let starts = starts.filter(|info| info.events > 0 || !has_events);
    let start_us = starts
        .map(|info| info.provenance.start_wall_us)
        .min()
        .unwrap_or(0);
    let first_number = parts.first().map_or(1, |part| part.member.number);
    let mut sum = WorkloadInfo::default();
    for (index, part) in parts.iter_mut().enumerate() {
        let info = part.reader.info();
        part.shift_us = info.provenance.start_wall_us - start_us;
        part.sources = add_sources(&mut sum.provenance.sources, &info.provenance.sources);
        if index == 0 {
            let (sources, masked) = (
                std::mem::take(&mut sum.provenance.sources),
                info.masked.clone(),
            );
            sum = WorkloadInfo {
                masked,
                ..info.clone()
            };
            sum.part = None;
            // Sessions continue from part to part.
            sum.logins = None;
            sum.provenance.sources = sources;
            sum.provenance.start_wall_us = start_us;
            if info.events > 0 {
                sum.span_us += part.shift_us;
            }
            if part.member.number > 1 {
                // It is the state before the first part.
                sum.provenance.starting_point = None;
            }
            sum.sessions_at_once = open_sessions(info);
            (sum.server_from_us, sum.server_to_us) = (
                info.server_from_us + part.shift_us,
                info.server_to_us + part.shift_us,
            );
            continue;
        }
        add_part(&mut sum, part, first_number);
    }
    sum
}

/// Adds a part other than the first to the sum.
fn add_part(sum: &mut WorkloadInfo, part: &PartReader, first_number: u64) {
    let info = part.reader.info();
    let account = info.part.clone().unwrap_or_default();
    let left_out = account.left_out_since(first_number);
    if info.events > 0 {
        sum.span_us = sum.span_us.max(part.shift_us + info.span_us);
    }
    sum.sessions += info.sessions.saturating_sub(left_out.sessions);
    sum.sessions_at_once = sum.sessions_at_once.max(open_sessions(info));
    sum.events += info.events.saturating_sub(left_out.events);
    sum.statements += info.statements.saturating_sub(left_out.statements);
    sum.writes += info.writes.saturating_sub(left_out.writes);
    sum.with_duration += info.with_duration.saturating_sub(left_out.with_duration);
    if info.server_events > 0 {
        let (from_us, to_us) = (
            info.server_from_us + part.shift_us,
            info.server_to_us + part.shift_us,
        );
        let is_first = sum.server_events == 0;
        sum.server_from_us = if is_first {
            from_us
        } else {
            sum.server_from_us.min(from_us)
        };
        sum.server_to_us = if is_first {
            to_us
        } else {
            sum.server_to_us.max(to_us)
        };
        sum.server_events += info.server_events;
    }
    for server in &info.provenance.servers {
        if !sum.provenance.servers.contains(server) {
            sum.provenance.servers.push(server.clone());
        }
    }
    let provenance = &info.provenance;
    add_account(
        &mut sum.provenance.reconciliation,
        &provenance.reconciliation,
    );
    for (sum, note) in sum.masked.iter_mut().zip(&info.masked) {
        add_masks(sum, note);
    }
    sum.recovered = info.recovered;
}

/// Returns the maximum number of sessions that were open at the same time in a part, with idle ones.
fn open_sessions(info: &WorkloadInfo) -> u64 {
    let in_series = info
        .part
        .as_ref()
        .map_or(0, |account| account.sessions_at_once);
    info.sessions_at_once.max(in_series)
}

fn add_masks(sum: &mut MaskNote, note: &MaskNote) {
    let value = |note: &MaskNote| serde_json::to_value(&note.account).expect("plain data");
    let mut account = value(sum);
    add_account(&mut account, &value(note));
    if let Ok(account) = serde_json::from_value(account) {
        sum.account = account;
    }
}

/// Adds the sources of a part to those of the whole. Returns the index of each in the whole.
fn add_sources(all: &mut Vec<SourceFile>, sources: &[SourceFile]) -> Vec<u32> {
    let mut index_of = Vec::with_capacity(sources.len());
    for source in sources {
        let is_it = |known: &SourceFile| known.name == source.name;
        let index = match all.iter().position(is_it) {
            Some(index) => {
                all[index].bytes += source.bytes;
                // The format is known when the source has been read.
                if all[index].format.is_empty() {
                    all[index].format.clone_from(&source.format);
                }
                index
            }
            None => {
                all.push(source.clone());
                all.len() - 1
            }
        };
        index_of.push(u32::try_from(index).unwrap_or(u32::MAX));
    }
    index_of
}
