//! Begins or continues a series.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::utc_text;
use transform::mask::{Mask, Masker};
use workload::series::{
    PartCheckpoint, Retention, SESSIONS_PER_CAPTURE, Series, SeriesInfo, SeriesProtection,
    SeriesState, is_live_traffic, limit_to_lost_part, note_complete_parts, remove_leftovers,
};
use workload::{
    ArchiveError, CapturedServer, DirectoryLock, MaskNote, Provenance, Recipient, StartingPoint,
    WorkloadReader,
};

use super::OnNote;
use super::gap::CaptureGap;
use super::status::SeriesWatch;

/// Parts hold SQL, so only the owner may read them.
const DIRECTORY_MODE: u32 = 0o700;
/// Longest time after the end of a part's range at which it is completed, in microseconds.
const WAIT_US_MAX: i64 = 30_000_000;
/// Attempts to lock a series, since a reader locks it for a moment.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A series to be captured.
pub struct SeriesOptions {
    /// Path of the directory, `NAME.series`.
    pub path: PathBuf,
    /// Duration of a part. It is at least a second, and whole seconds.
    pub roll: Duration,
    /// Limits beyond which the oldest parts are removed.
    pub retention: Retention,
    /// Continues the series if it exists.
    pub append: bool,
    /// Whether the source cannot be read again. Parts then survive a kill up to the last second.
    pub is_live: bool,
    /// Whether the source is a pipe, which can deliver events later than they happen. Only events complete its parts, not the
    /// clock.
    pub is_pipe: bool,
    /// Keys that can read the parts; empty if they are not encrypted.
    pub recipients: Vec<Recipient>,
    /// Masks the values.
    pub mask: Option<Mask>,
    /// Provenance of the parts, as far as it is known at the start.
    pub provenance: Provenance,
    /// State of the server at the start, if it was noted.
    pub starting_point: Option<StartingPoint>,
    /// Receives the status.
    pub watch: SeriesWatch,
    /// Receives sentences for the user: completed and removed parts, and parts that could not be removed.
    pub on_note: OnNote,
}

/// Reason why a series cannot be begun or continued.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// It exists.
    #[error("{} is there already; pass --append to continue it, or give another name", .0.display())]
    Exists(PathBuf),
    /// A process captures it.
    #[error("{} is being captured, or the capture that was stopped last is completing it; stop that capture, or try again in some seconds, or give another name", .0.display())]
    BeingCaptured(PathBuf),
    /// It has another source.
    #[error("{} was captured from another kind of source ({found}), so it cannot be continued; give another name", path.display())]
    OtherSource {
        /// The series.
        path: PathBuf,
        /// Its kind of source.
        found: String,
    },
    /// It has other encryption or masks. Its new parts would be less protected, or could not be read with the others.
    #[error("the parts of {} are {}, and this capture would write parts that are {}; {}, or give another name", path.display(), found.description(), given.description(), other_options(found))]
    OtherProtection {
        /// The series.
        path: PathBuf,
        /// Its protection.
        found: Box<SeriesProtection>,
        /// That of the new parts.
        given: Box<SeriesProtection>,
    },
    /// It has logs of several servers, whose events were not captured in the order of time.
    #[error("{} has the logs of several servers, and times alone do not determine which events of each server it has, so it cannot be continued; capture the log of each server into a series of its own; if it is one server whose clock was set back, give another name", .0.display())]
    SeveralServers(PathBuf),
    /// The logs that are given are of several servers, and it has events of one of them.
    #[error("the logs given are of several servers, and {} has events of one of them; give only the log of that server, and capture each other server into a series of its own; if it is one server whose clock was set back, give another name", .0.display())]
    OtherServers(PathBuf),
    /// The duration of a part is not possible.
    #[error(
        "a part of a series must last whole seconds, and at least one; give --roll such as 15m"
    )]
    ImpossibleRoll,
    /// A part of a capture that was killed must be recovered first, and cannot be.
    #[error("{error}; a capture that was killed has left this part, so it must be recovered before its source is read again: run `rehearse recover {0}`, or move it out of the series, which then lacks its events", part.display())]
    Unrecovered {
        /// The part.
        part: PathBuf,
        /// Reason.
        error: ArchiveError,
    },
    /// The state of a part that was complete when its capture was killed cannot be read.
    #[error("{error}; the capture of {} was killed when this part was complete, and without this file it is not known which events of the source the part has; restore it, or give another name", series.display())]
    Unnoted {
        /// The series.
        series: PathBuf,
        /// Reason.
        error: ArchiveError,
    },
    /// A part of a capture that was killed has lost events that it had.
    #[error("{} has no event that can be read, and it had those up to {}; restore its files and run `rehearse recover` for it, or give another name; or move it out of the series, which then lacks its events", part.display(), utc_text(*to_us))]
    Lost {
        /// The part.
        part: PathBuf,
        /// Time up to which it had everything, in microseconds since 1970-01-01 UTC.
        to_us: i64,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

fn other_options(found: &SeriesProtection) -> String {
    match found.options() {
        options if options.is_empty() => "leave out --encrypt and --mask".to_owned(),
        options => format!("give {options}"),
    }
}

/// Returns the protection that the options give new parts.
fn protection(options: &SeriesOptions) -> SeriesProtection {
    let mut recipients: Vec<String> = options.recipients.iter().map(ToString::to_string).collect();
    recipients.sort();
    recipients.dedup();
    let mask = options.mask.clone().map(|mask| Masker::new(mask).note());
    with_mask(recipients, mask)
}

/// Describes parts that are encrypted to these, sorted, and have this note of their mask.
fn with_mask(recipients: Vec<String>, mask: Option<MaskNote>) -> SeriesProtection {
    let Some(mask) = mask else {
        return SeriesProtection {
            recipients,
            ..SeriesProtection::default()
        };
    };
    SeriesProtection {
        recipients,
        mask_key: Some(mask.key),
        keep_values: mask.keep_values,
        keep_statements: mask.keep_statements,
    }
}

/// A series that is ready for new parts.
pub(super) struct StartedSeries {
    pub(super) info: SeriesInfo,
    pub(super) lock: DirectoryLock,
    /// Number of the next part.
    pub(super) next_number: u64,
    /// Start of the newest part.
    pub(super) newest_from_us: Option<i64>,
    /// Gap before the next part.
    pub(super) gap: Option<CaptureGap>,
}

impl StartedSeries {
    /// Returns the first session number of this capture.
    pub(super) fn first_session(&self) -> u64 {
        self.info.captures.saturating_sub(1) * SESSIONS_PER_CAPTURE
    }
}

/// Creates the directory of a series, or opens it for continuing.
pub(super) fn start_series(options: &SeriesOptions) -> Result<StartedSeries, SeriesError> {
    let roll_us = i64::try_from(options.roll.as_micros()).unwrap_or(i64::MAX / 4);
    if roll_us < 1_000_000 || roll_us % 1_000_000 != 0 {
        return Err(SeriesError::ImpossibleRoll);
    }
    let path = &options.path;
    let exists = std::fs::symlink_metadata(path).is_ok();
    let mut started = match exists {
        false => create(options, roll_us)?,
        true if options.append => resume(options)?,
        true => return Err(SeriesError::Exists(path.clone())),
    };
    let info = &mut started.info;
    info.protection = Some(protection(options));
    info.servers.clone_from(&options.provenance.servers);
    info.state = SeriesState::BeingCaptured;
    info.roll_us = roll_us;
    info.wait_us = roll_us.min(WAIT_US_MAX);
    info.retention = options.retention;
    info.write(path)?;
    Ok(started)
}

fn create(options: &SeriesOptions, roll_us: i64) -> Result<StartedSeries, SeriesError> {
    let path = &options.path;
    DirBuilder::new()
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(|error| ArchiveError::io("make", path, error))?;
    let kind = &options.provenance.source_kind;
    Ok(StartedSeries {
        info: SeriesInfo::new(new_uuid(), kind, roll_us, 0),
        lock: lock(path)?,
        next_number: 1,
        newest_from_us: None,
        gap: None,
    })
}

fn resume(options: &SeriesOptions) -> Result<StartedSeries, SeriesError> {
    let path = &options.path;
    let lock = lock(path)?;
    let info = SeriesInfo::read(path)?;
    refuse_other(options, &info)?;
    for error in remove_leftovers(path)? {
        if !is_live_traffic(&info.source_kind) {
            return Err(error.into());
        }
        (options.on_note)(&format!(
            "{error}; a kill has left it, and nothing needs it, so remove it"
        ));
    }
    let lock = recover_parts(options, lock)?;
    let Series {
        mut info,
        parts,
        unfinished,
        ..
    } = Series::open(path)?;
    note_changes(options, &info);
    info.limit_possible_gaps();
    if info.state == SeriesState::Complete {
        // A version that did not number them can have completed them.
        let last = parts.last().map_or(0, |part| part.member.number);
        info.noted_part = info.noted_part.max(last);
    }
    if info.running_left_out > 0 {
        (options.on_note)(&format!(
            "{} events near the ends of earlier captures were too many to be noted one by one, so some of them can be in the series twice",
            info.running_left_out
        ));
    }
    let members = parts.iter().map(|part| &part.member);
    let members = members.chain(unfinished.iter().map(|part| &part.member));
    let newest = members.max_by_key(|member| member.number);
    info.captures += 1;
    let reason = match info.state {
        SeriesState::Complete => "the capture was stopped",
        SeriesState::BeingCaptured => "the capture was killed",
    };
    let last_to_us = parts.last().map(|part| part.member.to_us);
    let to_us = info.recorded_to_us().or(last_to_us);
    for part in &unfinished {
        (options.on_note)(&format!(
            "{0} was left by a capture that was killed; `rehearse recover {0}` makes it a part of the series",
            part.path.display()
        ));
    }
    if let Some(to_us) = to_us {
        (options.on_note)(&format!(
            "continuing {} with a gap: {reason}, and it is complete up to {}",
            path.display(),
            utc_text(to_us)
        ));
    }
    Ok(StartedSeries {
        next_number: newest
            .map_or(0, |member| member.number)
            .max(info.removed.parts)
            + 1,
        newest_from_us: newest.map(|member| member.from_us),
        gap: to_us.map(|to_us| CaptureGap::new(to_us, reason)),
        info,
        lock,
    })
}

/// Refuses a series of another kind of source, or with other encryption or masks.
fn refuse_other(options: &SeriesOptions, info: &SeriesInfo) -> Result<(), SeriesError> {
    if info.source_kind != options.provenance.source_kind {
        return Err(SeriesError::OtherSource {
            path: options.path.clone(),
            found: info.source_kind.clone(),
        });
    }
    if info.has_several_servers {
        return Err(SeriesError::SeveralServers(options.path.clone()));
    }
    let given = protection(options);
    let found = match &info.protection {
        Some(found) => Some(found.clone()),
        None => newest_protection(&Series::open(&options.path)?, &given)?,
    };
    match found {
        Some(found) if found != given => Err(SeriesError::OtherProtection {
            path: options.path.clone(),
            found: Box::new(found),
            given: Box::new(given),
        }),
        _ => Ok(()),
    }
}

/// Returns the protection of the newest part, for a series that an earlier version began. The masks of an encrypted part
/// cannot be read, and are taken to be those that are given.
fn newest_protection(
    series: &Series,
    given: &SeriesProtection,
) -> Result<Option<SeriesProtection>, SeriesError> {
    let Some(newest) = series.parts.last() else {
        return Ok(None);
    };
    match WorkloadReader::open(&newest.path) {
        Ok(reader) => Ok(Some(with_mask(
            Vec::new(),
            reader.info().masked.first().cloned(),
        ))),
        Err(ArchiveError::Locked { mut recipients, .. }) => {
            recipients.sort();
            let given = given.clone();
            Ok(Some(SeriesProtection {
                recipients,
                ..given
            }))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reports another server and another duration of parts, which may be intended.
fn note_changes(options: &SeriesOptions, info: &SeriesInfo) {
    let path = options.path.display();
    let servers = &options.provenance.servers;
    let is_known = !info.servers.is_empty() && !servers.is_empty();
    if is_known && server_names(&info.servers) != server_names(servers) {
        (options.on_note)(&format!(
            "{path} was captured from {}, and now from {}; if these do not have the same data, give another name",
            server_names(&info.servers),
            server_names(servers)
        ));
    }
    if info.roll_us.unsigned_abs() != u64::try_from(options.roll.as_micros()).unwrap_or(u64::MAX) {
        let roll = Duration::from_micros(info.roll_us.unsigned_abs());
        (options.on_note)(&format!(
            "{path} has parts of {} s; new ones are of {} s",
            roll.as_secs(),
            options.roll.as_secs()
        ));
    }
}

fn server_names(servers: &[CapturedServer]) -> String {
    let names = servers.iter().map(|server| {
        let address = server.addresses.first().map(ToString::to_string);
        let directory = server.data_directory.clone();
        let name = server.host.clone().or(address).or(directory);
        format!("{}:{}", name.unwrap_or_default(), server.port)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Recovers what a killed capture has left of a source that may be read again. Otherwise its events would be captured again,
/// and be in two parts after a recovery. Live traffic does not come again, and its capture must not wait.
fn recover_parts(
    options: &SeriesOptions,
    mut held: DirectoryLock,
) -> Result<DirectoryLock, SeriesError> {
    if is_live_traffic(&options.provenance.source_kind) {
        return Ok(held);
    }
    note_complete_parts(&options.path).map_err(|error| SeriesError::Unnoted {
        series: options.path.clone(),
        error,
    })?;
    for part in Series::open(&options.path)?.unfinished {
        // The recovery notes in the series what it recovered, under its lock.
        drop(held);
        let recovered = workload::recover(&part.path);
        held = lock(&options.path)?;
        match recovered {
            Ok((path, info)) => (options.on_note)(&format!(
                "recovered {} of a capture that was killed: {} statements",
                path.display(),
                info.statements
            )),
            Err(ArchiveError::Damaged { .. }) => {
                // It was killed before it had an event on disk, unless it states that it had some.
                let state = PartCheckpoint::read(&part.path);
                if let Some(PartCheckpoint { to_us, .. }) = state.filter(|state| state.has_events) {
                    limit_to_lost_part(&part)?;
                    return Err(SeriesError::Lost {
                        part: part.path,
                        to_us,
                    });
                }
            }
            Err(error) => {
                return Err(SeriesError::Unrecovered {
                    part: part.path,
                    error,
                });
            }
        }
    }
    Ok(held)
}

fn lock(path: &Path) -> Result<DirectoryLock, SeriesError> {
    for _ in 0..LOCK_ATTEMPTS {
        let locked = DirectoryLock::try_exclusive(path);
        if let Some(lock) = locked.map_err(|error| ArchiveError::io("lock", path, error))? {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(SeriesError::BeingCaptured(path.to_owned()))
}

/// Returns a random UUID of version 4 (RFC 9562, section 5.4).
fn new_uuid() -> String {
    let mut bytes = [0; 16];
    // Without randomness, the time and the path of the parts still tell two series apart in practice.
    let _ = getrandom::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
