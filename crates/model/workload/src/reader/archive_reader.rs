//! Reads the archive of one workload.

use std::path::Path;

use archive::{Archive, ArchiveError, Keyring, Manifest, Recipient};

use crate::contexts::ContextText;
use crate::event::Event;
use crate::event_check::{EventCheck, is_possible_us};
use crate::format::{FORMAT, KIND, WorkloadInfo};
use crate::server_event::{SERVER_EVENT, ServerEvent, read_server_event};
use crate::session::Session;
use crate::table::{EVENT, EventRows, SESSION, STATEMENT, StatementText, read_session};
use sql::Fingerprint;

/// A complete workload in one archive, open for reading.
#[derive(Debug, Clone)]
pub(crate) struct ArchiveReader {
    archive: Archive,
    info: WorkloadInfo,
}

impl ArchiveReader {
    /// Opens a workload and checks its files.
    pub(crate) fn open(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let reader = Self::open_manifest(path, keyring)?;
        reader.check_files()?;
        Ok(reader)
    }

    /// Opens a workload, and leaves the files to [`Self::check_files`].
    pub(crate) fn open_manifest(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let archive = Archive::open_manifest(path, KIND, FORMAT, keyring)?;
        let info: WorkloadInfo = archive.body()?;
        let mut counts = vec![("events", info.events)];
        // A workload of an earlier version has no such table, and no count of it.
        if info.server_events > 0 {
            counts.push(("server-events", info.server_events));
        }
        archive.check_rows(&counts)?;
        let times_us = [info.span_us, info.server_from_us, info.server_to_us];
        if !times_us.into_iter().all(is_possible_us) || info.span_us < 0 {
            return Err(ArchiveError::Damaged {
                path: path.to_owned(),
                reason: format!("its span of {} µs is impossible", info.span_us),
            });
        }
        Ok(ArchiveReader { archive, info })
    }

    /// Checks the sizes and row counts of all files.
    pub(crate) fn check_files(&self) -> Result<(), ArchiveError> {
        self.archive.check_files()
    }

    /// Returns the workload's part of the manifest.
    pub(crate) fn info(&self) -> &WorkloadInfo {
        &self.info
    }

    /// Returns the manifest.
    pub(crate) fn manifest(&self) -> &Manifest {
        self.archive.manifest()
    }

    /// Returns the recipients it is encrypted to; none if it is not encrypted.
    pub(crate) fn recipients(&self) -> Vec<Recipient> {
        let note = self.archive.manifest().encryption.iter();
        note.flat_map(|note| &note.recipients)
            .filter_map(|text| text.parse().ok())
            .collect()
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        self.archive.path()
    }

    /// Compares every file with its checksum.
    ///
    /// # Errors
    /// If a file differs; the error names the first one.
    pub(crate) fn verify(&self) -> Result<(), ArchiveError> {
        self.archive.verify()
    }

    /// Returns all events, by due time, then session, then sequence. Holds one batch in memory.
    ///
    /// # Errors
    /// If the first file cannot be read. Errors of later files are items of the iterator.
    pub(crate) fn events(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<(Event, Option<Fingerprint>), ArchiveError>> + use<>,
        ArchiveError,
    > {
        let path = self.archive.path().to_owned();
        let mut rows = EventRows::default();
        let mut events = EventCheck::new(!self.info.recovered);
        Ok(self
            .archive
            .table("events", EVENT)?
            .rows(move |batch, row| {
                let read = rows.read(batch, row);
                read.and_then(|(event, ids)| {
                    events.check(&event)?;
                    Ok((event, ids.fingerprint))
                })
                .map_err(|reason| ArchiveError::Damaged {
                    path: path.clone(),
                    reason,
                })
            }))
    }

    /// Returns all sessions, in the order in which they ended.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub(crate) fn sessions(
        &self,
    ) -> Result<impl Iterator<Item = Result<Session, ArchiveError>> + use<>, ArchiveError> {
        let table = self.archive.table("sessions", SESSION)?;
        Ok(table.rows(|batch, row| Ok(read_session(batch, row))))
    }

    /// Returns the server events by time, each with the fingerprint of its statement. Empty for a workload of
    /// an earlier version, or from a source that reports none.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub(crate) fn server_events(
        &self,
    ) -> Result<
        impl Iterator<Item = Result<(ServerEvent, Option<Fingerprint>), ArchiveError>> + use<>,
        ArchiveError,
    > {
        let table = self.archive.table("server-events", SERVER_EVENT)?;
        Ok(table.rows(|batch, row| Ok(read_server_event(batch, row))))
    }

    /// Returns all statements, in the order of first appearance.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub(crate) fn statements(
        &self,
    ) -> Result<impl Iterator<Item = Result<StatementText, ArchiveError>> + use<>, ArchiveError>
    {
        let table = self.archive.table("statements", STATEMENT)?;
        Ok(table.rows(|batch, row| Ok(StatementText::read(batch, row))))
    }

    /// Returns all contexts, in the order of first appearance. Empty for a workload of an earlier version.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub(crate) fn contexts(
        &self,
    ) -> Result<impl Iterator<Item = Result<ContextText, ArchiveError>> + use<>, ArchiveError> {
        let table = (self.archive).table(ContextText::TABLE, ContextText::COLUMNS)?;
        Ok(table.rows(|batch, row| Ok(ContextText::read(batch, row))))
    }
}
