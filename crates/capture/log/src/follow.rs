//! A log that is still being written: read on until told to stop, through every kind of rotation.
//!
//! Who drives: the capture asks [`Following::next`] for one file after the other, and reads each to
//! what [`tail::Tail`] says is its end: another file took its place, or the user stopped. Nothing is
//! asked of the file system but four times a second, and only where there was nothing to read.
//!
//! Deliberately absent: inotify (there is none on a network's disk), and two logs at once.

mod rotation;
mod stream;
mod tail;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::input::{Input, Window};
use super::recognise::{Recognised, recognise};
use super::selection::{entries, is_pattern, matches, nothing_in};
use super::sources::Source;
use super::{LogError, LogFormat};
use capture_sink::compression::{Told, tell};
use rotation::{FileId, id};
use stream::Stream;
use tail::{Log, Shared, Tail};

/// Between two looks at a log that had nothing new: four a second.
const WAIT: Duration = Duration::from_millis(250);

/// As much of a log's end shows what it is.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Lines of a new file that are waited for, so that its prefix is recognised well.
const LINES_ENOUGH: usize = 10;

/// Files that were written last within so much of each other are being written at once.
const AT_ONCE: Duration = Duration::from_secs(60);

/// What to follow, from where, and until when.
pub struct Follow {
    /// A file, a directory, a pattern, or `-` for standard input. Of a directory or pattern the
    /// file written last is followed, and then each that takes its place.
    pub what: PathBuf,
    /// From the beginning of the file, not from its end.
    pub from_start: bool,
    /// Asked four times a second and more often: whether it is enough. What was written until then
    /// is still read, and the rest of a line that is being written.
    pub stop: Box<dyn FnMut() -> bool>,
}

/// Where new files of a log come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Where {
    /// The same name, and its neighbours: what was written under it may have another name soon.
    File(PathBuf),
    Directory(PathBuf),
    Pattern(PathBuf),
}

impl Where {
    /// The files there are now.
    fn files(&self) -> Result<Vec<PathBuf>, LogError> {
        let mut files = match self {
            Where::File(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => entries(parent)?,
                _ => entries(Path::new("."))?
                    .iter()
                    .filter_map(|path| path.file_name().map(PathBuf::from))
                    .collect(),
            },
            Where::Directory(directory) => entries(directory)?,
            Where::Pattern(pattern) => matches(pattern)?,
        };
        let hidden = |path: &Path| {
            let name = path.file_name();
            name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
        };
        files.retain(|path| path.is_file() && !hidden(path));
        Ok(files)
    }
}

/// A log that is being followed.
pub(super) struct Following {
    kind: Kind,
    format: Option<LogFormat>,
    prefix: Option<String>,
    /// What the last file was: the next is most likely the same.
    last: Option<Recognised>,
    number: usize,
}

enum Kind {
    Files(Rc<RefCell<Shared>>),
    /// Until it was handed out.
    Stream(Option<Stream>),
}

impl Follow {
    /// Finds what is to be followed.
    pub(super) fn begin(
        self,
        format: Option<LogFormat>,
        prefix: Option<&str>,
    ) -> Result<Following, LogError> {
        let mut following = Following {
            kind: Kind::Stream(None),
            format,
            prefix: prefix.map(str::to_owned),
            last: None,
            number: 0,
        };
        if self.what == Path::new("-") {
            following.kind = Kind::Stream(Some(Stream::begin(self.stop)));
            return Ok(following);
        }
        let place = match std::fs::metadata(&self.what) {
            Ok(found) if found.is_dir() => Where::Directory(self.what.clone()),
            _ if is_pattern(&self.what) => Where::Pattern(self.what.clone()),
            _ => Where::File(self.what.clone()),
        };
        let (mut log, recognised) = newest(&place, format, prefix)?;
        if self.from_start {
            log.position = 0;
        }
        let mut seen: HashMap<FileId, u64> = HashMap::new();
        for path in place.files()? {
            if let Ok(found) = std::fs::metadata(&path) {
                seen.insert(id(&found), found.len());
            }
        }
        following.last = recognised;
        following.kind = Kind::Files(Rc::new(RefCell::new(Shared::new(
            place, self.stop, seen, log,
        ))));
        Ok(following)
    }
}

fn read_error(path: &Path) -> impl Fn(std::io::Error) -> LogError {
    let name = path.display().to_string();
    move |error| LogError::Read {
        name: name.clone(),
        error,
    }
}

/// The log that was written last, at its end, and what it is, where it has lines that tell. Of two
/// that are being written at once, csvlog before jsonlog before stderr.
fn newest(
    place: &Where,
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<(Log, Option<Recognised>), LogError> {
    let mut files = Vec::new();
    let candidates = match place {
        Where::File(path) => vec![path.clone()],
        place => place.files()?,
    };
    for path in candidates {
        let found = std::fs::metadata(&path).map_err(read_error(&path))?;
        let written = found.modified().map_err(read_error(&path))?;
        files.push((written, path));
    }
    files.sort();
    let mut best: Option<(u8, Log, Option<Recognised>)> = None;
    let (mut refused, mut last) = (None, None);
    for (written, path) in files.into_iter().rev() {
        if last.is_some_and(|last| written + AT_ONCE < last) {
            break;
        }
        match at_end(&path, format, prefix) {
            Ok((log, recognised)) => {
                last.get_or_insert(written);
                let rank = says_less(&path, recognised.as_ref());
                if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
                    best = Some((rank, log, recognised));
                }
            }
            Err(
                error @ (LogError::NotALog { .. }
                | LogError::NotThatFormat { .. }
                | LogError::NoOnePrefix { .. }
                | LogError::Binary { .. }
                | LogError::PrefixMatchesNothing { .. }
                | LogError::Foreign { .. }),
            ) => {
                refused.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (best, refused, place) {
        (Some((_, log, recognised)), ..) => Ok((log, recognised)),
        (None, Some(refused), Where::File(_) | Where::Pattern(_)) => Err(refused),
        (None, _, Where::Directory(path) | Where::File(path) | Where::Pattern(path)) => {
            Err(nothing_in(path, &[]))
        }
    }
}

fn says_less(path: &Path, recognised: Option<&Recognised>) -> u8 {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match (recognised.map(|recognised| recognised.format), extension) {
        (Some(LogFormat::Csv), _) | (None, Some("csv")) => 0,
        (Some(LogFormat::Json), _) | (None, Some("json")) => 1,
        _ => 2,
    }
}

/// Opens a log at the beginning of its last line that is not whole, and looks what it is.
fn at_end(
    path: &Path,
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<(Log, Option<Recognised>), LogError> {
    let failed = read_error(path);
    let mut file = File::open(path).map_err(&failed)?;
    let length = file.metadata().map_err(&failed)?.len();
    let name = path.display().to_string();
    let mut head = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut head)
        .map_err(&failed)?;
    match tell(&head[..head.len().min(capture_sink::compression::MAGIC_BYTES)]) {
        Told::Plain => (),
        Told::Compressed(compression) => {
            return Err(LogError::FollowCompressed {
                name,
                compression: compression.name(),
            });
        }
        Told::Foreign(foreign) => return Err(LogError::foreign(&name, foreign)),
    }
    let start = length.saturating_sub(SAMPLE_BYTES);
    file.seek(SeekFrom::Start(start)).map_err(&failed)?;
    let mut sample = Vec::new();
    (&mut file)
        .take(length - start)
        .read_to_end(&mut sample)
        .map_err(&failed)?;
    let whole = memchr::memrchr(b'\n', &sample).map_or(0, |at| at + 1);
    let recognised = match &sample[..whole] {
        [] => None,
        lines => Some(recognise(&name, lines, format, prefix)?),
    };
    // A line longer than the sample is read from where its end begins.
    let position = match whole {
        0 if start > 0 => length,
        whole => start + whole as u64,
    };
    Ok((Log::new(path, file, position).map_err(&failed)?, recognised))
}

impl Following {
    /// Waits for the next file that has something to read; none where it is to stop. `waits` is
    /// called about four times a second, `begins` with the file's name.
    pub(super) fn next(
        &mut self,
        waits: &mut dyn FnMut(),
        begins: &mut dyn FnMut(&str),
    ) -> Result<Option<Source>, LogError> {
        let (name, notes, mut window) = match &mut self.kind {
            Kind::Stream(stream) => match stream.take() {
                Some(stream) => ("-".into(), Vec::new(), Window::following(Box::new(stream))),
                None => return Ok(None),
            },
            Kind::Files(shared) => {
                let Some((path, notes)) = shared.borrow_mut().turn_over() else {
                    return Ok(None);
                };
                let tail = Box::new(Tail::new(shared.clone()));
                (path, notes, Window::following(tail))
            }
        };
        begins(&name.display().to_string());
        let recognised = match (&self.last, self.number) {
            // What is there already has told; the first new line may be long in coming.
            (Some(last), 0) => Some(Recognised {
                first_us: i64::MAX,
                ..last.clone()
            }),
            _ => self.recognised(&name, &mut window, waits)?,
        };
        self.last = recognised.clone().or(self.last.take());
        self.number += 1;
        let input = match name.to_str() {
            Some("-") => Input::Stdin,
            _ => Input::Path(name),
        };
        Ok(Some(Source {
            number: self.number,
            input,
            recognised,
            sample: Vec::new(),
            window: Some(window),
            notes,
        }))
    }

    /// Waits for lines that tell what a log is.
    fn recognised(
        &self,
        path: &Path,
        window: &mut Window,
        waits: &mut dyn FnMut(),
    ) -> Result<Option<Recognised>, LogError> {
        let name = path.display().to_string();
        let last = self.last.as_ref();
        let (last_format, last_prefix) = match last {
            Some(last) => (
                Some(last.format),
                last.prefix.as_ref().map(|prefix| prefix.text()),
            ),
            None => (None, None),
        };
        loop {
            window.more().map_err(read_error(path))?;
            waits();
            let bytes = window.bytes();
            let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
            let lines = &bytes[..whole];
            let enough = window.ended()
                || window.settled()
                || bytes.len() as u64 >= SAMPLE_BYTES
                || memchr::memchr_iter(b'\n', lines).take(LINES_ENOUGH).count() == LINES_ENOUGH;
            if lines.is_empty() {
                match (window.ended(), last) {
                    (true, _) if bytes.is_empty() => return Ok(None),
                    (true, last) => return Ok(last.cloned()),
                    _ => continue,
                }
            }
            if last.is_some()
                && let Ok(same) = recognise(&name, lines, last_format, last_prefix)
            {
                return Ok(Some(same));
            }
            if !enough {
                continue;
            }
            match (
                recognise(&name, lines, self.format, self.prefix.as_deref()),
                last,
            ) {
                (Ok(found), _) => return Ok(Some(found)),
                // What was read before is not given up for lines that are not understood: they
                // are unreadable, as they would be within a file.
                (Err(_), Some(last)) => return Ok(Some(last.clone())),
                (Err(error), None) if window.ended() || bytes.len() as u64 >= SAMPLE_BYTES => {
                    return Err(error);
                }
                (Err(error @ LogError::Translated { .. }), None) => return Err(error),
                (Err(_), None) => (),
            }
        }
    }
}
