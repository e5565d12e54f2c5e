//! Encodes a table in a thread of its own, while the next rows are collected.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use crate::builder::Builder;
use crate::column::Column;
use crate::encoder::Encoder;
use crate::error::ArchiveError;
use crate::manifest::FileEntry;

/// Maximum number of batches that wait to be encoded.
const BATCHES_AHEAD: usize = 2;

enum Message {
    Batch(Vec<Builder>, usize),
    ClosePart,
    /// Flush, and send whether that ended a file.
    Flush(Sender<bool>),
    Finish,
}

type Joined = Result<Vec<FileEntry>, ArchiveError>;

/// A thread with an encoder. Dropping it waits for its end.
pub(crate) struct EncoderThread {
    directory: PathBuf,
    columns: &'static [Column],
    /// `None` once the thread ends.
    messages: Option<SyncSender<Message>>,
    free: Receiver<Vec<Builder>>,
    thread: Option<JoinHandle<Joined>>,
}

impl EncoderThread {
    /// # Errors
    /// If the system cannot create a thread.
    pub(crate) fn start(
        encoder: Encoder,
        columns: &'static [Column],
    ) -> Result<Self, ArchiveError> {
        let directory = encoder.directory().to_owned();
        let (messages, received) = sync_channel(BATCHES_AHEAD);
        let (freed, free) = channel();
        let thread = std::thread::Builder::new()
            .name("table-encoder".to_owned())
            .spawn(move || encode(encoder, &received, &freed))
            .map_err(|error| ArchiveError::io("start a thread for", &directory, error))?;
        Ok(EncoderThread {
            directory,
            columns,
            messages: Some(messages),
            free,
            thread: Some(thread),
        })
    }

    /// Sends the rows of a batch, and gives it empty builders.
    pub(crate) fn encode(
        &mut self,
        batch: &mut Vec<Builder>,
        rows: usize,
    ) -> Result<(), ArchiveError> {
        let empty = (self.free.try_recv())
            .unwrap_or_else(|_| self.columns.iter().map(Builder::new).collect());
        let full = std::mem::replace(batch, empty);
        self.send(Message::Batch(full, rows))
    }

    pub(crate) fn close_part(&mut self) -> Result<(), ArchiveError> {
        self.send(Message::ClosePart)
    }

    /// Waits until all batches are on disk. Returns whether that ended a file.
    pub(crate) fn flush(&mut self) -> Result<bool, ArchiveError> {
        let (flushed, answer) = channel();
        self.send(Message::Flush(flushed))?;
        match answer.recv() {
            Ok(is_file_ended) => Ok(is_file_ended),
            Err(_) => self.join().map(|_| false),
        }
    }

    pub(crate) fn finish(mut self) -> Joined {
        self.send(Message::Finish)?;
        self.join()
    }

    fn send(&mut self, message: Message) -> Result<(), ArchiveError> {
        let Some(messages) = &self.messages else {
            let earlier = io::Error::other("an earlier write to the table failed");
            return Err(ArchiveError::io("write", &self.directory, earlier));
        };
        match messages.send(message) {
            Ok(()) => Ok(()),
            // The thread has ended, so it failed.
            Err(_) => self.join().map(drop),
        }
    }

    /// Waits for the end of the thread, and returns its result.
    fn join(&mut self) -> Joined {
        self.messages = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(Vec::new()),
            Some(Ok(files)) => files,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for EncoderThread {
    fn drop(&mut self) {
        // The directory may be removed next. An error was returned before, or the table is abandoned.
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn encode(
    mut encoder: Encoder,
    received: &Receiver<Message>,
    freed: &Sender<Vec<Builder>>,
) -> Joined {
    for message in received {
        match message {
            Message::Batch(mut batch, rows) => {
                encoder.encode(&mut batch, rows)?;
                // The receiver may be gone.
                let _ = freed.send(batch);
            }
            Message::ClosePart => encoder.close_part()?,
            Message::Flush(flushed) => {
                let is_file_ended = encoder.flush()?;
                let _ = flushed.send(is_file_ended);
            }
            Message::Finish => return encoder.finish(),
        }
    }
    Ok(Vec::new())
}
