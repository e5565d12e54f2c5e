//! Follows a log that is still being written, through every kind of rotation, until it is stopped.
//!
//! The capture calls [`LogFollower::next`] for one file after the other and reads each up to the end
//! that [`tail::Tail`] reports: another file replaced it, or the user stopped. The file system is
//! polled four times a second, and only while there is nothing to read. inotify is not used, since
//! network file systems lack it. Two logs cannot be followed at once.

mod rotation;
mod stream;
mod tail;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::input::{Input, Window};
use super::recognise::{RecognisedFormat, recognise};
use super::selection::{empty_directory_error, expand_pattern, is_pattern, list_directory};
use super::sources::{Source, resolve_zones};
use super::zones::ZoneReading;
use super::{LogError, LogFormat};
use capture_sink::compression::{FileFormat, detect};
use capture_sink::open_input_file;
use rotation::{FileId, file_id};
use stream::StdinStream;
use tail::{FollowState, FollowedFile, Tail};

/// Interval between two polls of standard input.
const WAIT: Duration = FollowOptions::POLL_INTERVAL;

/// Number of bytes at a log's end by which its format is recognised.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Number of lines of a new file to wait for, so that its prefix is recognised reliably.
const LINES_ENOUGH: usize = 10;

/// Files last written within this duration of each other are considered to be written concurrently.
const AT_ONCE: Duration = Duration::from_secs(60);

/// The log to follow, the position to start from, and the stop condition.
pub struct FollowOptions {
    /// A file, a directory, a pattern, or `-` for standard input. With a directory or pattern the
    /// most recently written file is followed, and then each file that replaces it.
    pub path: PathBuf,
    /// Starts at the beginning of the file instead of at its end.
    pub from_start: bool,
    /// Interval between two polls of an idle file.
    pub poll_interval: Duration,
    /// Returns true to stop; called at each poll. Data written until then is still
    /// read, including the rest of a line that is being written.
    pub stop: Box<dyn FnMut() -> bool>,
}

/// The source of a log's new files.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LogLocation {
    /// A file name and its siblings, since rotation may rename the file.
    File(PathBuf),
    Directory(PathBuf),
    Pattern(PathBuf),
}

impl LogLocation {
    /// Lists the existing files.
    fn list_files(&self) -> Result<Vec<PathBuf>, LogError> {
        let mut files = match self {
            LogLocation::File(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => list_directory(parent)?,
                _ => list_directory(Path::new("."))?
                    .iter()
                    .filter_map(|path| path.file_name().map(PathBuf::from))
                    .collect(),
            },
            LogLocation::Directory(directory) => list_directory(directory)?,
            LogLocation::Pattern(pattern) => expand_pattern(pattern)?,
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
pub(super) struct LogFollower {
    kind: FollowedInput,
    format: Option<LogFormat>,
    prefix: Option<String>,
    /// The time zone that the user gives.
    zone: ZoneReading,
    /// Format of the last file; the next file most likely has the same.
    last: Option<RecognisedFormat>,
    number: usize,
}

enum FollowedInput {
    Files(Rc<RefCell<FollowState>>),
    /// Taken when it is handed out.
    Stream(Option<StdinStream>),
}

impl FollowOptions {
    /// Usual interval between two polls of an idle log.
    pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

    /// Finds the log to follow.
    pub(super) fn begin(
        self,
        format: Option<LogFormat>,
        prefix: Option<&str>,
        zone: &ZoneReading,
    ) -> Result<LogFollower, LogError> {
        let mut following = LogFollower {
            kind: FollowedInput::Stream(None),
            format,
            prefix: prefix.map(str::to_owned),
            zone: zone.clone(),
            last: None,
            number: 0,
        };
        if self.path == Path::new("-") {
            following.kind = FollowedInput::Stream(Some(StdinStream::start(self.stop)));
            return Ok(following);
        }
        let place = match std::fs::metadata(&self.path) {
            Ok(found) if found.is_dir() => LogLocation::Directory(self.path.clone()),
            _ if is_pattern(&self.path) => LogLocation::Pattern(self.path.clone()),
            _ => LogLocation::File(self.path.clone()),
        };
        let (mut log, recognised) = find_newest(&place, format, prefix)?;
        if self.from_start {
            log.position = 0;
        }
        let mut seen: HashMap<FileId, u64> = HashMap::new();
        for path in place.list_files()? {
            if let Ok(found) = std::fs::metadata(&path) {
                seen.insert(file_id(&found), found.len());
            }
        }
        following.last = recognised;
        following.kind = FollowedInput::Files(Rc::new(RefCell::new(FollowState::new(
            place,
            (self.stop, self.poll_interval),
            seen,
            log,
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

/// Finds the most recently written log that has recognisable lines, positioned at its end, and its
/// format. Among logs written concurrently, csvlog is preferred to jsonlog, and jsonlog to stderr.
fn find_newest(
    place: &LogLocation,
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<(FollowedFile, Option<RecognisedFormat>), LogError> {
    let mut files = Vec::new();
    let candidates = match place {
        LogLocation::File(path) => vec![path.clone()],
        place => place.list_files()?,
    };
    for path in candidates {
        let found = std::fs::metadata(&path).map_err(read_error(&path))?;
        let written = found.modified().map_err(read_error(&path))?;
        files.push((written, path));
    }
    files.sort();
    let mut best: Option<(u8, FollowedFile, Option<RecognisedFormat>)> = None;
    let (mut refused, mut last) = (None, None);
    for (written, path) in files.into_iter().rev() {
        if last.is_some_and(|last| written + AT_ONCE < last) {
            break;
        }
        match open_at_end(&path, format, prefix) {
            Ok((log, recognised)) => {
                last.get_or_insert(written);
                let rank = format_rank(&path, recognised.as_ref());
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
        (None, Some(refused), LogLocation::File(_) | LogLocation::Pattern(_)) => Err(refused),
        (
            None,
            _,
            LogLocation::Directory(path) | LogLocation::File(path) | LogLocation::Pattern(path),
        ) => Err(empty_directory_error(path, &[])),
    }
}

fn format_rank(path: &Path, recognised: Option<&RecognisedFormat>) -> u8 {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match (recognised.map(|recognised| recognised.format), extension) {
        (Some(LogFormat::Csv), _) | (None, Some("csv")) => 0,
        (Some(LogFormat::Json), _) | (None, Some("json")) => 1,
        _ => 2,
    }
}

/// Opens a log at the start of its last incomplete line and recognises its format.
fn open_at_end(
    path: &Path,
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<(FollowedFile, Option<RecognisedFormat>), LogError> {
    let failed = read_error(path);
    let mut file = open_input_file(path).map_err(&failed)?;
    let length = file.metadata().map_err(&failed)?.len();
    let name = path.display().to_string();
    let mut head = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut head)
        .map_err(&failed)?;
    match detect(&head[..head.len().min(capture_sink::compression::MAGIC_BYTES)]) {
        FileFormat::Plain => (),
        FileFormat::Compressed(compression) => {
            return Err(LogError::FollowCompressed {
                name,
                compression: compression.name(),
            });
        }
        FileFormat::Foreign(foreign) => return Err(LogError::foreign(&name, foreign)),
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
    // A line longer than the sample is read from the start of the sample.
    let position = match whole {
        0 if start > 0 => length,
        whole => start + whole as u64,
    };
    Ok((
        FollowedFile::new(path, file, position).map_err(&failed)?,
        recognised,
    ))
}

impl LogFollower {
    /// Waits for the next file that has data; returns `None` after a stop. `waits` is called about
    /// four times a second, `begins` with each file's name.
    pub(super) fn next(
        &mut self,
        waits: &mut dyn FnMut(),
        begins: &mut dyn FnMut(&str),
    ) -> Result<Option<Source>, LogError> {
        let (name, mut notes, mut window) = match &mut self.kind {
            FollowedInput::Stream(stream) => match stream.take() {
                Some(stream) => (
                    "-".into(),
                    Vec::new(),
                    Window::new_following(Box::new(stream)),
                ),
                None => return Ok(None),
            },
            FollowedInput::Files(shared) => {
                let Some((path, notes)) = shared.borrow_mut().next_file() else {
                    return Ok(None);
                };
                let tail = Box::new(Tail::new(shared.clone()));
                (path, notes, Window::new_following(tail))
            }
        };
        begins(&name.display().to_string());
        let mut recognised = match (&self.last, self.number) {
            // The existing lines have shown the format; the first new line may take long to
            // come.
            (Some(last), 0) => Some(RecognisedFormat {
                first_us: i64::MAX,
                ..last.clone()
            }),
            _ => self.wait_until_recognised(&name, &mut window, waits)?,
        };
        if let Some(recognised) = &mut recognised {
            let zone_notes = resolve_zones(recognised, &self.zone, window.bytes(), false);
            notes.extend(zone_notes);
        }
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

    /// Waits for enough lines to recognise a log's format.
    fn wait_until_recognised(
        &self,
        path: &Path,
        window: &mut Window,
        waits: &mut dyn FnMut(),
    ) -> Result<Option<RecognisedFormat>, LogError> {
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
            window.fill().map_err(read_error(path))?;
            waits();
            let bytes = window.bytes();
            let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
            let lines = &bytes[..whole];
            let enough = window.is_at_end()
                || window.is_idle()
                || bytes.len() as u64 >= SAMPLE_BYTES
                || memchr::memchr_iter(b'\n', lines).take(LINES_ENOUGH).count() == LINES_ENOUGH;
            if lines.is_empty() {
                match (window.is_at_end(), last) {
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
                // The known format is kept if new lines do not match it; they are unreadable, as
                // within a file.
                (Err(_), Some(last)) => return Ok(Some(last.clone())),
                (Err(error), None) if window.is_at_end() || bytes.len() as u64 >= SAMPLE_BYTES => {
                    return Err(error);
                }
                (Err(error @ LogError::Translated { .. }), None) => return Err(error),
                (Err(_), None) => (),
            }
        }
    }
}
