//! Examines the inputs of a capture and orders them before any is read.

use std::collections::{BTreeSet, VecDeque};

use super::csv::CsvReader;
use super::entry::{ReadResult, Reader};
use super::envelopes::{CnpgReader, EnvelopeReader};
use super::input::{Input, Window};
use super::json::JsonReader;
use super::recognise::{RecognisedFormat, recognise};
use super::rotation_name::stem;
use super::selection::{ExcludedFile, empty_directory_error};
use super::series::{EntryKey, SAMPLE_ENTRIES};
use super::stderr::StderrReader;
use super::zones::{ZoneEvidence, ZoneReading, resolve};
use super::{LogError, LogFormat};
use crate::reconcile::Location;
use capture_sink::compression::{TAR, is_tar};

/// Files that begin within this time of each other are considered to begin together; then the more
/// complete format is read first.
const SAME_START_US: i64 = 10_000_000;

/// One input before it is read.
pub(super) struct Source {
    /// Number that identifies it among the sources.
    pub number: usize,
    pub input: Input,
    /// `None` if the source is empty.
    pub recognised: Option<RecognisedFormat>,
    /// Its first entries, if there are other sources to compare it with.
    pub sample: Vec<EntryKey>,
    /// Set for standard input, which cannot be opened again, and for a followed log.
    pub window: Option<Window>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Source {
    pub(super) fn stem(&self) -> String {
        stem(&self.input.name())
    }
}

/// Examines all inputs and orders them by their first times. Found files that are no logs are left
/// out.
pub(super) fn order_sources(
    inputs: &[Input],
    format: Option<LogFormat>,
    prefix: Option<&str>,
    zone: &ZoneReading,
) -> Result<(VecDeque<Source>, Vec<ExcludedFile>), LogError> {
    let mut sources: Vec<Source> = Vec::new();
    let mut left_out = Vec::new();
    let mut damaged = None;
    let how = (format, prefix, zone);
    let compared = inputs.len() > 1;
    let examined: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(number, input)| examine(number, input, how, compared))
        .collect();
    let known = known_prefixes(&examined);
    for (number, (input, looked)) in inputs.iter().zip(examined).enumerate() {
        let looked = match looked {
            // Another file of the log may show its prefix.
            Err(LogError::PrefixUndecided { .. }) if !input.is_stream() => {
                let examine_with = |known: &String| {
                    examine(number, input, (format, Some(known), zone), compared).ok()
                };
                let mut fitting = known.iter().filter_map(examine_with);
                match (fitting.next(), fitting.next()) {
                    (Some(only), None) => Ok(only),
                    _ => looked,
                }
            }
            looked => looked,
        };
        match looked {
            Ok((source, damage)) => {
                if let (None, Some(damage)) = (&source.recognised, damage) {
                    damaged.get_or_insert(LogError::Damaged {
                        name: input.name(),
                        damage,
                    });
                }
                sources.push(source);
            }
            Err(error) => match (input, exclusion_reason(&error)) {
                (Input::Found(_), Some(reason)) => left_out.push(ExcludedFile {
                    name: input.name(),
                    reason,
                }),
                _ => return Err(error),
            },
        }
    }
    if sources.iter().all(|source| source.recognised.is_none()) {
        return Err(match (sources.first(), inputs.first(), damaged) {
            (_, _, Some(damaged)) => damaged,
            (Some(first), _, None) => LogError::Empty {
                name: first.input.name(),
            },
            (None, Some(Input::Found(path)), None) => {
                empty_directory_error(path.parent().unwrap_or(path), &left_out)
            }
            (None, ..) => LogError::NoInput,
        });
    }
    sources.sort_by_key(first_us);
    // The times of pieces of one log that begin together do not say which begins first.
    for at in 1..sources.len() {
        let mut place = at;
        while place > 0 && begins_within(&sources[place - 1], &sources[place]) {
            sources.swap(place - 1, place);
            place -= 1;
        }
    }
    for at in 0..sources.len() {
        let Some(from_us) = first_us(&sources[at]) else {
            continue;
        };
        let together =
            |source: &Source| first_us(source).is_some_and(|us| us <= from_us + SAME_START_US);
        let near = sources[at..].iter().take_while(|source| together(source));
        let richest = near
            .enumerate()
            .min_by_key(|(_, source)| format_rank(source));
        if let Some((ahead, richest)) = richest
            && format_rank(richest) < format_rank(&sources[at])
        {
            sources[at..=at + ahead].rotate_right(1);
        }
    }
    Ok((sources.into(), left_out))
}

/// Result of examining an input: its source, and damage within the first window.
type Examined = Result<(Source, Option<String>), LogError>;

/// Returns the prefixes that other files of the log have shown.
fn known_prefixes(examined: &[Examined]) -> Vec<String> {
    let found = examined.iter().flatten();
    let found = found.filter_map(|(source, _)| source.recognised.as_ref()?.prefix.as_ref());
    let texts: BTreeSet<String> = found.map(|prefix| prefix.text().to_owned()).collect();
    texts.into_iter().collect()
}

fn first_us(source: &Source) -> Option<i64> {
    let recognised = source.recognised.as_ref()?;
    Some(recognised.first_us)
}

/// Returns whether `one` begins with a message that `other` has after its own beginning, and `one`
/// lacks that beginning.
fn begins_within(one: &Source, other: &Source) -> bool {
    let (Some(first), Some(others)) = (one.sample.first(), other.sample.first()) else {
        return false;
    };
    let near = first_us(one).zip(first_us(other));
    near.is_some_and(|(one_us, other_us)| other_us - one_us < SAME_START_US)
        && other.sample[1..].contains(first)
        && !one.sample.contains(others)
}

/// Rank of a source's format; of two formats with the same messages the lower one is read.
fn format_rank(source: &Source) -> u8 {
    match source.recognised.as_ref().map(|found| found.format) {
        Some(LogFormat::Csv) => 0,
        Some(LogFormat::Json) => 1,
        _ => 2,
    }
}

/// Returns why a found file may be left out, which is because it is no log. A log that cannot be
/// read is not left out.
fn exclusion_reason(error: &LogError) -> Option<String> {
    match error {
        LogError::NotALog { .. } | LogError::NotThatFormat { .. } => {
            Some("it is no PostgreSQL log that can be recognised".to_owned())
        }
        LogError::Binary { .. } => Some("its beginning is binary data".to_owned()),
        LogError::PrefixMatchesNothing { prefix, .. } => Some(format!(
            "no line at its beginning has the prefix '{prefix}'"
        )),
        LogError::Foreign { what, command, .. } => {
            Some(format!("it is {what}; {command} prints what is in it"))
        }
        _ => None,
    }
}

/// Opens an input and examines its beginning. Also returns damage within the first window.
fn examine(
    number: usize,
    input: &Input,
    (format, prefix, zone): (Option<LogFormat>, Option<&str>, &ZoneReading),
    compared: bool,
) -> Examined {
    let name = input.name();
    let mut window = input.open()?;
    window.fill().map_err(|error| LogError::Read {
        name: name.clone(),
        error,
    })?;
    if is_tar(window.bytes()) {
        return Err(LogError::foreign(&name, TAR));
    }
    let mut recognised = match window.bytes() {
        [] => None,
        sample => Some(
            recognise(&name, sample, format, prefix)?.with_modification_time(input.modified_us()),
        ),
    };
    let mut zone_notes = Vec::new();
    if let Some(recognised) = &mut recognised {
        zone_notes = resolve_zones(recognised, zone, window.bytes(), window.is_at_end());
        let plain = matches!(
            recognised.format,
            LogFormat::Stderr | LogFormat::Csv | LogFormat::Json
        );
        if plain && is_newest_first(&read_sample(recognised, &window)) {
            return Err(LogError::NewestFirst {
                name,
                turn: "turn it round with tac, where each message is one line, or capture the server's own file",
            });
        }
    }
    let sample = match &recognised {
        Some(recognised) if compared => read_sample(recognised, &window),
        _ => Vec::new(),
    };
    let damage = window.damage().map(str::to_owned);
    let notes = match (&recognised, &damage) {
        (Some(_), _) => zone_notes,
        (None, Some(damage)) => vec![format!("nothing of it can be read: {damage}")],
        (None, None) => vec!["it is empty".to_owned()],
    };
    let source = Source {
        number,
        input: input.clone(),
        recognised,
        sample,
        // Other inputs are opened again at their turn, so that a thousand files do not hold a
        // thousand windows.
        window: input.is_stream().then_some(window),
        notes,
    };
    Ok((source, damage))
}

/// Number of backward steps in time that are needed to declare that a log goes back in time.
const STEPS_BACK_MIN: usize = 9;

/// Returns whether times mostly decrease from one entry to the next; a few lines of any log do.
fn is_newest_first(marks: &[EntryKey]) -> bool {
    let steps = |back: fn(&[EntryKey]) -> bool| marks.windows(2).filter(|pair| back(pair)).count();
    let back = steps(|pair| pair[1].wall_us() < pair[0].wall_us());
    let on = steps(|pair| pair[1].wall_us() > pair[0].wall_us());
    back >= STEPS_BACK_MIN && back > 4 * on
}

fn create_reader(recognised: RecognisedFormat) -> Box<dyn Reader> {
    let zones = recognised.zones.clone();
    let mut reader: Box<dyn Reader> = match (recognised.format, recognised.prefix) {
        (LogFormat::Csv, _) => Box::new(CsvReader::default()),
        (LogFormat::Json, _) => Box::new(JsonReader::default()),
        (LogFormat::Cnpg, _) => Box::new(CnpgReader::of(recognised.envelope.server)),
        (LogFormat::Stderr, prefix) => Box::new(StderrReader::new(
            prefix.expect("a stderr log is recognised by its prefix"),
        )),
        (_, prefix) => Box::new(EnvelopeReader::new(
            recognised.envelope,
            prefix.expect("what wraps a stderr log is recognised by its prefix"),
        )),
    };
    reader.set_zones(&zones);
    reader
}

/// Number of entries of a log's beginning that show its time zone.
const ZONE_ENTRIES: usize = 2_000;

/// Resolves the time zone of a log by its first bytes, and corrects its first time. Returns notes
/// for the user.
pub(super) fn resolve_zones(
    recognised: &mut RecognisedFormat,
    given: &ZoneReading,
    mut bytes: &[u8],
    complete: bool,
) -> Vec<String> {
    let sample = bytes;
    let mut reader = create_reader(recognised.clone());
    let mut evidence = ZoneEvidence::default();
    let mut entries = 0;
    while entries < ZONE_ENTRIES && !bytes.is_empty() {
        let (found, length) = reader.next(bytes.into(), complete, Location::default());
        match found {
            ReadResult::More => break,
            ReadResult::Ambiguous(_) => {
                reader.settle(None);
                continue;
            }
            ReadResult::Entry(entry) => {
                entries += 1;
                let started = i64::try_from(entry.started).unwrap_or(0);
                if started > 0 {
                    let started_us = started.saturating_mul(1_000_000);
                    let age_us = entry.wall_us.saturating_sub(started_us);
                    evidence.age_min_us = Some(
                        evidence
                            .age_min_us
                            .map_or(age_us, |least| least.min(age_us)),
                    );
                }
            }
            _ => (),
        }
        bytes = &bytes[length..];
    }
    evidence.seen = reader.times().seen_zones().to_vec();
    evidence.offset_minutes = reader.times().offset_minutes();
    let (zones, notes) = resolve(given, &evidence);
    recognised.zones = zones;
    let mut reader = create_reader(recognised.clone());
    let mut bytes = sample;
    while !bytes.is_empty() {
        let (found, length) = reader.next(bytes.into(), complete, Location::default());
        match found {
            ReadResult::More => break,
            ReadResult::Ambiguous(_) => {
                reader.settle(None);
                continue;
            }
            ReadResult::Entry(entry) => {
                recognised.first_us = entry.wall_us;
                break;
            }
            _ => (),
        }
        bytes = &bytes[length..];
    }
    notes
}

/// Returns the first entries, as far as the window shows them.
fn read_sample(recognised: &RecognisedFormat, window: &Window) -> Vec<EntryKey> {
    let mut reader = create_reader(recognised.clone());
    let (mut bytes, mut marks) = (window.bytes(), Vec::new());
    while marks.len() < SAMPLE_ENTRIES && !bytes.is_empty() {
        let (found, length) = reader.next(bytes.into(), window.is_at_end(), Location::default());
        match found {
            ReadResult::More => break,
            ReadResult::Ambiguous(_) => {
                reader.settle(None);
                continue;
            }
            ReadResult::Entry(entry) => marks.push(EntryKey::of(&entry)),
            _ => (),
        }
        bytes = &bytes[length..];
    }
    marks
}
