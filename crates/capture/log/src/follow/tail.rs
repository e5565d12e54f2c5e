//! The end of a file that grows, and the moment when another takes its place.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::rotation::{FileId, copy_of, head, id, successor};
use super::{WAIT, Where};

/// Another file takes a log's place when the log has been silent for so many waits: its writer may
/// still have it open for a moment.
const LEFT_WAITS: u32 = 4;

/// A line that is being written when the user stops is waited for so long.
const LAST_LINE_WAITS: u32 = 4;

/// A file that is followed.
#[derive(Debug)]
pub(super) struct Log {
    pub path: PathBuf,
    pub file: File,
    pub id: FileId,
    /// Where the next byte is read.
    pub position: u64,
    /// Its first bytes, which change where it is truncated and written anew.
    pub head: Vec<u8>,
}

impl Log {
    pub(super) fn new(path: &Path, file: File, position: u64) -> io::Result<Self> {
        Ok(Log {
            path: path.to_owned(),
            id: id(&file.metadata()?),
            head: head(&file)?,
            position,
            file,
        })
    }

    /// It was truncated since it was looked at last.
    fn is_new(&mut self) -> io::Result<bool> {
        let start = head(&self.file)?;
        let length = self.file.metadata()?.len();
        if length < self.position || !start.starts_with(&self.head) {
            return Ok(true);
        }
        self.head = start;
        Ok(false)
    }
}

/// What the files of a followed log share.
pub(super) struct Shared {
    place: Where,
    stop: Box<dyn FnMut() -> bool>,
    /// Since when it is enough, the current log is read up to here and to the end of the line.
    until: Option<u64>,
    /// The files that there were then, and how long they were.
    ends: HashMap<FileId, u64>,
    seen: HashMap<FileId, u64>,
    /// Beginnings of what was followed.
    heads: Vec<Vec<u8>>,
    /// Followed now.
    current: Option<Log>,
    /// Takes its place.
    next: VecDeque<Log>,
    notes: Vec<String>,
    /// Waits in a row without a byte.
    waits: u32,
    last_byte: u8,
    /// The log was truncated, and what is read is its copy.
    in_copy: bool,
}

impl Shared {
    pub(super) fn new(
        place: Where,
        stop: Box<dyn FnMut() -> bool>,
        seen: HashMap<FileId, u64>,
        first: Log,
    ) -> Self {
        let from = match first.position {
            0 => None,
            position => Some(format!(
                "followed from its end on, behind the first {position} bytes; its lines are counted from there"
            )),
        };
        Shared {
            place,
            stop,
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

    /// The next file to read, with what there is to say of it.
    pub(super) fn turn_over(&mut self) -> Option<(PathBuf, Vec<String>)> {
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
            for path in self.place.files().unwrap_or_default() {
                if let Ok(found) = std::fs::metadata(&path) {
                    self.ends.insert(id(&found), found.len());
                }
            }
        }
        let Some(log) = &mut self.current else {
            return Ok(0);
        };
        if !self.in_copy && log.is_new()? && !self.truncated()? {
            // There is nothing behind what was read.
            return Ok(self.leave());
        }
        let whole = self.last_byte == b'\n';
        let Some(log) = &mut self.current else {
            return Ok(0);
        };
        // A copy is read to its end, which stays where it is.
        let until = self.until.filter(|_| !self.in_copy);
        let left = until.map_or(u64::MAX, |until| until.saturating_sub(log.position));
        if left == 0 && whole {
            self.look_for_next();
            return Ok(self.leave());
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
            return Ok(self.leave());
        }
        if self.waits > 0 {
            self.look_for_next();
        }
        let next_begins = !self.next.is_empty() && self.waits >= LEFT_WAITS;
        if next_begins || self.until.is_some() && self.waits >= LAST_LINE_WAITS {
            return Ok(self.leave());
        }
        std::thread::sleep(WAIT);
        self.waits += 1;
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }

    /// Looks for the file that takes the current one's place. When it is enough, what took it until
    /// then counts, and what does later does not.
    fn look_for_next(&mut self) {
        let heads = self.heads_with();
        if let (true, Some(log)) = (self.next.is_empty(), &self.current) {
            let found = successor(&self.place, log, &heads, &self.seen);
            let counts = |log: &Log| self.until.is_none() || self.ends.contains_key(&log.id);
            self.next.extend(found.filter(counts));
        }
    }

    fn heads_with(&self) -> Vec<Vec<u8>> {
        let current = self.current.iter().map(|log| log.head.clone());
        let heads = self.heads.iter().cloned().chain(current);
        heads.filter(|head| !head.is_empty()).collect()
    }

    /// The log was truncated: its copy is read to its end first; whether there is one.
    fn truncated(&mut self) -> io::Result<bool> {
        let Some(log) = &mut self.current else {
            return Ok(false);
        };
        // The same file, from its beginning.
        let again = log.file.try_clone()?;
        self.next.push_front(Log::new(&log.path, again, 0)?);
        self.in_copy = true;
        match copy_of(log) {
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

    /// The current log is at its end.
    fn leave(&mut self) -> usize {
        if let Some(log) = self.current.take() {
            self.seen.insert(log.id, log.position);
            self.heads.push(log.head);
        }
        0
    }
}

/// Reads the current file of a followed log to its end.
pub(super) struct Tail(Rc<RefCell<Shared>>);

impl Tail {
    pub(super) fn new(shared: Rc<RefCell<Shared>>) -> Self {
        Tail(shared)
    }
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(into)
    }
}
