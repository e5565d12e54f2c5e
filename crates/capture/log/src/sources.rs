//! The inputs of a capture, looked at and put in order before any is read.

use std::collections::VecDeque;

use super::csv::CsvReader;
use super::entry::{Found, Place, Reader};
use super::input::{Input, Window};
use super::json::JsonReader;
use super::recognise::{Recognised, recognise};
use super::selection::{LeftOut, nothing_in};
use super::series::{Mark, SAMPLE_ENTRIES};
use super::stderr::StderrReader;
use super::stem::stem;
use super::wrapped::{CnpgReader, WrappedReader};
use super::{LogError, LogFormat};
use capture_sink::compression::{TAR, is_tar};

/// Files that begin within so much of each other begin together: then the format that says more is
/// read first.
const TOGETHER_US: i64 = 10_000_000;

/// One input before it is read.
pub(super) struct Source {
    /// Tells it from the others.
    pub number: usize,
    pub input: Input,
    /// `None` where it is empty.
    pub recognised: Option<Recognised>,
    /// Its first entries, where there are other sources to compare it with.
    pub sample: Vec<Mark>,
    /// Standard input cannot be opened again, and a followed log goes on.
    pub window: Option<Window>,
    /// What there is to say of it.
    pub notes: Vec<String>,
}

impl Source {
    pub(super) fn stem(&self) -> String {
        stem(&self.input.name())
    }
}

/// Looks at all inputs, and puts them in the order of their first times. Found files that are no
/// logs are left out.
pub(super) fn order(
    inputs: &[Input],
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<(VecDeque<Source>, Vec<LeftOut>), LogError> {
    let mut sources = Vec::new();
    let mut left_out = Vec::new();
    let mut damaged = None;
    for (number, input) in inputs.iter().enumerate() {
        let looked = look(number, input, format, prefix, inputs.len() > 1);
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
            Err(error) => match (input, reason(&error)) {
                (Input::Found(_), Some(reason)) => left_out.push(LeftOut {
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
                nothing_in(path.parent().unwrap_or(path), &left_out)
            }
            (None, ..) => LogError::NoInput,
        });
    }
    sources.sort_by_key(first_us);
    // Of pieces of one log that begin within a moment, the times do not say which begins first.
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
            |source: &Source| first_us(source).is_some_and(|us| us <= from_us + TOGETHER_US);
        let near = sources[at..].iter().take_while(|source| together(source));
        let richest = near.enumerate().min_by_key(|(_, source)| says_less(source));
        if let Some((ahead, richest)) = richest
            && says_less(richest) < says_less(&sources[at])
        {
            sources[at..=at + ahead].rotate_right(1);
        }
    }
    Ok((sources.into(), left_out))
}

fn first_us(source: &Source) -> Option<i64> {
    let recognised = source.recognised.as_ref()?;
    Some(recognised.first_us)
}

/// Whether `one` begins with a message that `other` has behind its own beginning, which `one` lacks.
fn begins_within(one: &Source, other: &Source) -> bool {
    let (Some(first), Some(others)) = (one.sample.first(), other.sample.first()) else {
        return false;
    };
    let near = first_us(one).zip(first_us(other));
    near.is_some_and(|(one_us, other_us)| other_us - one_us < TOGETHER_US)
        && other.sample[1..].contains(first)
        && !one.sample.contains(others)
}

/// The order in which one is taken of two formats with the same messages.
fn says_less(source: &Source) -> u8 {
    match source.recognised.as_ref().map(|found| found.format) {
        Some(LogFormat::Csv) => 0,
        Some(LogFormat::Json) => 1,
        _ => 2,
    }
}

/// Why a file that was only found may be left out: because it is no log. A log that cannot be read
/// is another matter.
fn reason(error: &LogError) -> Option<String> {
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

/// Opens an input and looks at its beginning. Also says what is wrong with it, where that came
/// before the end of the first window.
fn look(
    number: usize,
    input: &Input,
    format: Option<LogFormat>,
    prefix: Option<&str>,
    compared: bool,
) -> Result<(Source, Option<String>), LogError> {
    let name = input.name();
    let mut window = input.open()?;
    window.more().map_err(|error| LogError::Read {
        name: name.clone(),
        error,
    })?;
    if is_tar(window.bytes()) {
        return Err(LogError::foreign(&name, TAR));
    }
    let recognised = match window.bytes() {
        [] => None,
        sample => Some(recognise(&name, sample, format, prefix)?.dated(input.modified_us())),
    };
    if let Some(recognised) = &recognised {
        let plain = matches!(
            recognised.format,
            LogFormat::Stderr | LogFormat::Csv | LogFormat::Json
        );
        if plain && is_newest_first(&sample(recognised, &window)) {
            return Err(LogError::NewestFirst {
                name,
                turn: "turn it round with tac, where each message is one line, or capture the server's own file",
            });
        }
    }
    let sample = match &recognised {
        Some(recognised) if compared => sample(recognised, &window),
        _ => Vec::new(),
    };
    let damage = window.damage().map(str::to_owned);
    let notes = match (&recognised, &damage) {
        (Some(_), _) => Vec::new(),
        (None, Some(damage)) => vec![format!("nothing of it can be read: {damage}")],
        (None, None) => vec!["it is empty".to_owned()],
    };
    let source = Source {
        number,
        input: input.clone(),
        recognised,
        sample,
        // Others are opened again at their turn, so that a thousand files do not hold a thousand
        // windows.
        window: (*input == Input::Stdin).then_some(window),
        notes,
    };
    Ok((source, damage))
}

/// So many steps back are seen before a log is said to go back in time.
const STEPS_BACK: usize = 9;

/// Whether times mostly go back from one entry to the next: a few lines of any log do.
fn is_newest_first(marks: &[Mark]) -> bool {
    let steps = |back: fn(&[Mark]) -> bool| marks.windows(2).filter(|pair| back(pair)).count();
    let back = steps(|pair| pair[1].wall_us() < pair[0].wall_us());
    let on = steps(|pair| pair[1].wall_us() > pair[0].wall_us());
    back >= STEPS_BACK && back > 4 * on
}

fn reader(recognised: Recognised) -> Box<dyn Reader> {
    match (recognised.format, recognised.prefix) {
        (LogFormat::Csv, _) => Box::new(CsvReader::default()),
        (LogFormat::Json, _) => Box::new(JsonReader::default()),
        (LogFormat::Cnpg, _) => Box::new(CnpgReader::of(recognised.wrapper.server)),
        (LogFormat::Stderr, prefix) => Box::new(StderrReader::new(
            prefix.expect("a stderr log is recognised by its prefix"),
        )),
        (_, prefix) => Box::new(WrappedReader::new(
            recognised.wrapper,
            prefix.expect("what wraps a stderr log is recognised by its prefix"),
        )),
    }
}

/// The first entries, as far as the window shows them.
fn sample(recognised: &Recognised, window: &Window) -> Vec<Mark> {
    let mut reader = reader(recognised.clone());
    let (mut bytes, mut marks) = (window.bytes(), Vec::new());
    while marks.len() < SAMPLE_ENTRIES && !bytes.is_empty() {
        let (found, length) = reader.next(bytes.into(), window.ended(), Place::default());
        match found {
            Found::More => break,
            Found::Entry(entry) => marks.push(Mark::of(&entry)),
            _ => (),
        }
        bytes = &bytes[length..];
    }
    marks
}
