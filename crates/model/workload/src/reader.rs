//! Reads a workload in time order, a batch at a time.

use std::path::Path;

use archive::{Archive, ArchiveError, Keyring, Recipient};

use crate::event::Event;
use crate::format::{FORMAT, KIND, WorkloadInfo};
use crate::server_event::{SERVER_EVENT, ServerEvent, read_server_event};
use crate::session::Session;
use crate::table::{EVENT, EventRows, SESSION, STATEMENT, StatementText, read_session};
use sql::Fingerprint;

/// A complete workload, opened.
#[derive(Debug, Clone)]
pub struct WorkloadReader {
    archive: Archive,
    info: WorkloadInfo,
}

impl WorkloadReader {
    /// Opens the workload at `path`.
    ///
    /// # Errors
    /// Where it is none, newer than this program, unfinished, cut or unreadable.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        Self::open_with(path, &Keyring::default())
    }

    /// As [`Self::open`], with keys for what is encrypted.
    ///
    /// # Errors
    /// As [`Self::open`]; and where it is encrypted and no key opens it.
    pub fn open_with(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let archive = Archive::open_with(path, KIND, FORMAT, keyring)?;
        let info = archive.body()?;
        Ok(WorkloadReader { archive, info })
    }

    /// What the manifest says.
    pub fn info(&self) -> &WorkloadInfo {
        &self.info
    }

    /// Equal for equal content.
    pub fn id(&self) -> &str {
        &self.archive.manifest().id
    }

    /// To whom it is encrypted; to nobody where it is not.
    pub fn recipients(&self) -> Vec<Recipient> {
        let note = self.archive.manifest().encryption.iter();
        note.flat_map(|note| &note.recipients)
            .filter_map(|text| text.parse().ok())
            .collect()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.archive.path()
    }

    /// Compares every file with its checksum.
    ///
    /// # Errors
    /// Names the first file that differs.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        self.archive.verify()
    }

    /// All events, by due time, then session, then sequence. Holds one batch in memory.
    ///
    /// # Errors
    /// Where the first file cannot be read; later ones come as items.
    pub fn events(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<(Event, Option<Fingerprint>), ArchiveError>> + use<>,
        ArchiveError,
    > {
        let path = self.archive.path().to_owned();
        let mut rows = EventRows::default();
        Ok(self
            .archive
            .table("events", EVENT)?
            .rows(move |batch, row| {
                rows.read(batch, row)
                    .map_err(|reason| ArchiveError::Damaged {
                        path: path.clone(),
                        reason,
                    })
            }))
    }

    /// All sessions, in the order in which they ended.
    ///
    /// # Errors
    /// Where the file cannot be read; later damage comes as an item.
    pub fn sessions(
        &self,
    ) -> Result<impl Iterator<Item = Result<Session, ArchiveError>> + use<>, ArchiveError> {
        let table = self.archive.table("sessions", SESSION)?;
        Ok(table.rows(|batch, row| Ok(read_session(batch, row))))
    }

    /// What the server did, by time, each with the fingerprint of its statement. Empty for a
    /// workload of an earlier version, or from a source that does not say.
    ///
    /// # Errors
    /// Where the file cannot be read; later damage comes as an item.
    pub fn server_events(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<(ServerEvent, Option<Fingerprint>), ArchiveError>> + use<>,
        ArchiveError,
    > {
        let table = self.archive.table("server-events", SERVER_EVENT)?;
        Ok(table.rows(|batch, row| Ok(read_server_event(batch, row))))
    }

    /// All statements, in the order of first sight.
    ///
    /// # Errors
    /// Where the file cannot be read; later damage comes as an item.
    pub fn statements(
        &self,
    ) -> Result<impl Iterator<Item = Result<StatementText, ArchiveError>> + use<>, ArchiveError>
    {
        let table = self.archive.table("statements", STATEMENT)?;
        Ok(table.rows(|batch, row| Ok(StatementText::read(batch, row))))
    }
}
