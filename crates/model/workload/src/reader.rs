//! Reads a workload, or a series of workloads as one, in time order, a batch at a time.

mod archive_reader;
mod joined_events;
mod merge;
mod series_reader;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use archive::{ArchiveError, Keyring, Recipient, find_small_file, is_object_url};
use sql::Fingerprint;

use crate::contexts::ContextText;
use crate::event::Event;
use crate::format::WorkloadInfo;
use crate::series::{SERIES_BYTES_MAX, SERIES_EXTENSION, SERIES_FILE, Series};
use crate::server_event::ServerEvent;
use crate::session::Session;
use crate::session_logins::{LoginCounter, SessionLogin};
use crate::table::StatementText;
use archive_reader::ArchiveReader;
use series_reader::SeriesReader;

/// Rows of a table, or the error that ends them.
type Rows<T> = Box<dyn Iterator<Item = Result<T, ArchiveError>> + Send>;

/// A complete workload, or a series of them, open for reading. A series is read as one workload: its sessions continue
/// from part to part.
#[derive(Debug, Clone)]
pub struct WorkloadReader {
    source: Source,
    /// Logins of the sessions, once they were read.
    logins: Arc<OnceLock<Vec<SessionLogin>>>,
}

impl From<Source> for WorkloadReader {
    fn from(source: Source) -> Self {
        WorkloadReader {
            source,
            logins: Arc::default(),
        }
    }
}

#[derive(Debug, Clone)]
enum Source {
    Archive(Arc<ArchiveReader>),
    Series(Arc<SeriesReader>),
}

/// Whether an object store has a series of this URL.
fn is_stored_series(path: &Path) -> Result<bool, ArchiveError> {
    let file = path.join(SERIES_FILE);
    Ok(is_object_url(path) && find_small_file(&file, SERIES_BYTES_MAX)?.is_some())
}

impl WorkloadReader {
    /// Opens the workload or the series at `path`. The parts of a series are those that are complete now.
    ///
    /// # Errors
    /// If it is no workload, newer than this program, unfinished, truncated or unreadable. Missing and damaged parts of a
    /// series are errors of reading, since a range of time may not need them.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        Self::open_with(path, &Keyring::default())
    }

    /// Opens a workload as [`Self::open`] does, with keys for encrypted files.
    ///
    /// # Errors
    /// As [`Self::open`]; also if it is encrypted and no key decrypts it.
    pub fn open_with(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let is_named_so = path.extension().is_some_and(|end| end == SERIES_EXTENSION);
        let is_series = Series::is_series(path) || (is_named_so && path.is_dir());
        let source = match !is_object_url(path) && is_series {
            true => Source::Series(Arc::new(SeriesReader::open(path, keyring)?)),
            false => match ArchiveReader::open(path, keyring) {
                Err(ArchiveError::NotFound { .. }) if is_stored_series(path)? => {
                    return Err(ArchiveError::WrongKind {
                        path: path.to_owned(),
                        kind: "workload".to_owned(),
                        reason: "it is a series in an object store, and a series is read from a disk only; copy it to a disk, or give one of its parts, NAME.series/YYYYMMDDTHHMMSSZ.workload".to_owned(),
                    });
                }
                opened => Source::Archive(Arc::new(opened?)),
            },
        };
        Ok(source.into())
    }

    /// Returns the workload with only those parts of a series that can have events from `from_us` to `to_us` (exclusive;
    /// microseconds since 1970-01-01 UTC), and the earlier events of these parts. A workload that is no series is
    /// returned as it is.
    ///
    /// # Errors
    /// If the series has no such part.
    pub fn within(&self, from_us: i64, to_us: i64) -> Result<Self, ArchiveError> {
        Ok(match &self.source {
            Source::Archive(_) => self.clone(),
            Source::Series(series) => {
                Source::Series(Arc::new(series.within(from_us, to_us)?)).into()
            }
        })
    }

    /// Returns the number of parts of a series; `None` if it is one workload.
    pub fn parts(&self) -> Option<usize> {
        match &self.source {
            Source::Archive(_) => None,
            Source::Series(series) => Some(series.parts()),
        }
    }

    /// Returns the parts of time that a series lacks between its first part and its last, and those that the retention
    /// has removed, each as a sentence. Empty for a workload that is no series.
    pub fn gaps(&self) -> Vec<String> {
        match &self.source {
            Source::Archive(_) => Vec::new(),
            Source::Series(series) => series.gaps(),
        }
    }

    /// Returns the workload's part of the manifest; of a series, the sum of its parts.
    pub fn info(&self) -> &WorkloadInfo {
        match &self.source {
            Source::Archive(reader) => reader.info(),
            Source::Series(series) => series.info(),
        }
    }

    /// Returns the workload's id, which is equal for equal content.
    pub fn id(&self) -> &str {
        match &self.source {
            Source::Archive(reader) => &reader.manifest().id,
            Source::Series(series) => series.id(),
        }
    }

    /// Returns the recipients it is encrypted to; none if it is not encrypted.
    pub fn recipients(&self) -> Vec<Recipient> {
        match &self.source {
            Source::Archive(reader) => reader.recipients(),
            Source::Series(series) => series.recipients(),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        match &self.source {
            Source::Archive(reader) => reader.path(),
            Source::Series(series) => series.path(),
        }
    }

    /// Compares every file with its checksum.
    ///
    /// # Errors
    /// If a file differs; the error names the first one.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        match &self.source {
            Source::Archive(reader) => reader.verify(),
            Source::Series(series) => series.verify(),
        }
    }

    /// Returns all events, by due time, then session, then sequence. Holds one batch in memory; of a series, one batch
    /// of each part that has events of the same time.
    ///
    /// # Errors
    /// If the first file cannot be read. Errors of later files are items of the iterator.
    pub fn events(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<(Event, Option<Fingerprint>), ArchiveError>> + use<>,
        ArchiveError,
    > {
        let rows: Rows<(Event, Option<Fingerprint>)> = match &self.source {
            Source::Archive(reader) => Box::new(reader.events()?),
            Source::Series(series) => series.events()?,
        };
        Ok(rows)
    }

    /// Returns all sessions, in the order in which they ended.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub fn sessions(
        &self,
    ) -> Result<impl Iterator<Item = Result<Session, ArchiveError>> + use<>, ArchiveError> {
        let rows: Rows<Session> = match &self.source {
            Source::Archive(reader) => Box::new(reader.sessions()?),
            Source::Series(series) => series.sessions()?,
        };
        Ok(rows)
    }

    /// Returns the databases and roles of all sessions, in the order in which the first session of each ended. A series,
    /// or a workload whose manifest does not list them, has its sessions read, once.
    ///
    /// # Errors
    /// If the sessions cannot be read.
    pub fn logins(&self) -> Result<&[SessionLogin], ArchiveError> {
        if let Some(listed) = &self.info().logins {
            return Ok(listed);
        }
        if let Some(known) = self.logins.get() {
            return Ok(known);
        }
        let mut counter = LoginCounter::default();
        for session in self.sessions()? {
            counter.add(&session?);
        }
        Ok(self.logins.get_or_init(|| counter.into_logins()))
    }

    /// Returns the server events by time, each with the fingerprint of its statement. Empty for a workload of
    /// an earlier version, or from a source that reports none.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub fn server_events(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<(ServerEvent, Option<Fingerprint>), ArchiveError>> + use<>,
        ArchiveError,
    > {
        let rows: Rows<(ServerEvent, Option<Fingerprint>)> = match &self.source {
            Source::Archive(reader) => Box::new(reader.server_events()?),
            Source::Series(series) => series.server_events()?,
        };
        Ok(rows)
    }

    /// Returns all statements, in the order of first appearance.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub fn statements(
        &self,
    ) -> Result<impl Iterator<Item = Result<StatementText, ArchiveError>> + use<>, ArchiveError>
    {
        let rows: Rows<StatementText> = match &self.source {
            Source::Archive(reader) => Box::new(reader.statements()?),
            Source::Series(series) => series.statements()?,
        };
        Ok(rows)
    }

    /// Returns all contexts, in the order of first appearance. Empty for a workload of an earlier version.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub fn contexts(
        &self,
    ) -> Result<impl Iterator<Item = Result<ContextText, ArchiveError>> + use<>, ArchiveError> {
        let rows: Rows<ContextText> = match &self.source {
            Source::Archive(reader) => Box::new(reader.contexts()?),
            Source::Series(series) => series.contexts()?,
        };
        Ok(rows)
    }
}
