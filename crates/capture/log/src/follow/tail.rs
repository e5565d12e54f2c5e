//! Reads a growing file to its end, and detects that another file replaces it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::LogLocation;
use super::rotation::{FileId, file_id, find_copy, find_successor, read_head};

/// Number of waits without data after which another file replaces a log; its writer may keep it
/// open for a moment.
const LEFT_WAITS: u32 = 4;

/// Number of waits for the rest of a line that is being written when the user stops.
const LAST_LINE_WAITS: u32 = 4;

/// A file that is followed.
#[derive(Debug)]
pub(super) struct FollowedFile {
    pub path: PathBuf,
    pub file: File,
    pub id: FileId,
    /// Position of the next byte to read.
    pub position: u64,
    /// Its first bytes, which change if it is truncated and rewritten.
    pub head: Vec<u8>,
}

impl FollowedFile {
    pub(super) fn new(path: &Path, file: File, position: u64) -> io::Result<Self> {
        Ok(FollowedFile {
            path: path.to_owned(),
            id: file_id(&file.metadata()?),
            head: read_head(&file)?,
            position,
            file,
        })
    }

    /// Returns whether it was truncated since the last check.
    fn is_truncated(&mut self) -> io::Result<bool> {
        let start = read_head(&self.file)?;
        let length = self.file.metadata()?.len();
        if length < self.position || !start.starts_with(&self.head) {
            return Ok(true);
        }
        self.head = start;
        Ok(false)
    }
}

/// State that the files of a followed log share.
pub(super) struct FollowState {
    place: LogLocation,
    stop: Box<dyn FnMut() -> bool>,
    poll_interval: Duration,
    /// After a stop, the current log is read up to this position and to the end of its line.
    until: Option<u64>,
    /// The files that existed at the stop, and their lengths.
    ends: HashMap<FileId, u64>,
    seen: HashMap<FileId, u64>,
    /// Beginnings of the followed files.
    heads: Vec<Vec<u8>>,
    /// The file that is followed now.
    current: Option<FollowedFile>,
    /// The files that replace it.
    next: VecDeque<FollowedFile>,
    notes: Vec<String>,
    /// Consecutive waits without data.
    waits: u32,
    last_byte: u8,
    /// The log was truncated, and its copy is being read.
    in_copy: bool,
}

impl FollowState {
    pub(super) fn new(
        place: LogLocation,
        (stop, poll_interval): (Box<dyn FnMut() -> bool>, Duration),
        seen: HashMap<FileId, u64>,
        first: FollowedFile,
    ) -> Self {
        let from = match first.position {
            0 => None,
            position => Some(format!(
                "followed from its end on, after the first {position} bytes; its lines are counted from there"
            )),
        };
        FollowState {
            place,
            stop,
            poll_interval,
            until: None,
            ends: HashMap::new(),
            seen,
            heads: Vec::new(),
            current: None,
            next: VecDeque::from([first]),
            notes: from.into_iter().collect(),
            waits: 0,
            last_byte: b'\n',
            in_copy: false,
        }
    }

    /// Returns the next file to read, with notes for the user.
    pub(super) fn next_file(&mut self) -> Option<(PathBuf, Vec<String>)> {
        let next = self.next.pop_front()?;
        let path = next.path.clone();
        self.seen.insert(next.id, next.position);
        if let Some(until) = &mut self.until {
            *until = match self.ends.get(&next.id) {
                Some(end) => *end,
                None => next.file.metadata().map_or(0, |found| found.len()),
            };
        }
        (self.waits, self.last_byte, self.in_copy) = (0, b'\n', false);
        self.current = Some(next);
        Some((path, std::mem::take(&mut self.notes)))
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(log) = &mut self.current else {
            return Ok(0);
        };
        if self.until.is_none() && (self.stop)() {
            self.until = Some(log.file.metadata()?.len());
            for path in self.place.list_files().unwrap_or_default() {
                if let Ok(found) = std::fs::metadata(&path) {
                    self.ends.insert(file_id(&found), found.len());
                }
            }
        }
        let Some(log) = &mut self.current else {
            return Ok(0);
        };
        if !self.in_copy && log.is_truncated()? && !self.handle_truncation()? {
            // Nothing follows what was read.
            return Ok(self.leave_current());
        }
        let whole = self.last_byte == b'\n';
        let Some(log) = &mut self.current else {
            return Ok(0);
        };
        // A copy is read to its end, which does not move.
        let until = self.until.filter(|_| !self.in_copy);
        let left = until.map_or(u64::MAX, |until| until.saturating_sub(log.position));
        if left == 0 && whole {
            self.look_for_next();
            return Ok(self.leave_current());
        }
        let space = match left {
            0 => into.len(),
            left => into.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
        };
        let mut length = log.file.read_at(&mut into[..space], log.position)?;
        if length > 0 {
            if left == 0 {
                // The rest of a line that was being written.
                length = memchr::memchr(b'\n', &into[..length]).map_or(length, |at| at + 1);
            }
            log.position += length as u64;
            self.last_byte = into[length - 1];
            self.waits = 0;
            return Ok(length);
        }
        if self.in_copy {
            return Ok(self.leave_current());
        }
        if self.waits > 0 {
            self.look_for_next();
        }
        let next_begins = !self.next.is_empty() && self.waits >= LEFT_WAITS;
        if next_begins || self.until.is_some() && self.waits >= LAST_LINE_WAITS {
            return Ok(self.leave_current());
        }
        std::thread::sleep(self.poll_interval);
        self.waits += 1;
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }

    /// Looks for the file that replaces the current one. After a stop, files that replaced it
    /// earlier count and later ones do not.
    fn look_for_next(&mut self) {
        let heads = self.all_heads();
        if let (true, Some(log)) = (self.next.is_empty(), &self.current) {
            let found = find_successor(&self.place, log, &heads, &self.seen);
            let counts =
                |log: &FollowedFile| self.until.is_none() || self.ends.contains_key(&log.id);
            self.next.extend(found.filter(counts));
        }
    }

    fn all_heads(&self) -> Vec<Vec<u8>> {
        let current = self.current.iter().map(|log| log.head.clone());
        let heads = self.heads.iter().cloned().chain(current);
        heads.filter(|head| !head.is_empty()).collect()
    }

    /// Handles a truncated log: its copy is read to its end first. Returns whether there is a copy.
    fn handle_truncation(&mut self) -> io::Result<bool> {
        let Some(log) = &mut self.current else {
            return Ok(false);
        };
        // The same file, from its beginning.
        let again = log.file.try_clone()?;
        self.next
            .push_front(FollowedFile::new(&log.path, again, 0)?);
        self.in_copy = true;
        match find_copy(log) {
            Some((path, copy)) => {
                self.notes = vec![format!(
                    "it was truncated; what was written shortly before was read from its copy {}",
                    path.display()
                )];
                log.file = copy;
                Ok(true)
            }
            None => {
                self.notes = vec![
                    "it was truncated, and no copy of it was found: what was written up to a quarter of a second before may be missing".to_owned(),
                ];
                Ok(false)
            }
        }
    }

    /// Leaves the current log, which is at its end.
    fn leave_current(&mut self) -> usize {
        if let Some(log) = self.current.take() {
            self.seen.insert(log.id, log.position);
            self.heads.push(log.head);
        }
        0
    }
}

/// Reads the current file of a followed log to its end.
pub(super) struct Tail(Rc<RefCell<FollowState>>);

impl Tail {
    pub(super) fn new(shared: Rc<RefCell<FollowState>>) -> Self {
        Tail(shared)
    }
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(into)
    }
}
