//! What a log is, by looking at its beginning. Lines are judged one by one, so that a beginning
//! within an entry, or an entry larger than the sample, does not matter.

use super::entry::trimmed;
use super::prefix;
use super::prefix::{Prefix, find_label};
use super::severity::{Severity, foreign_word, is_foreign_label, is_foreign_message};
use super::timestamp::Timestamps;
use super::wrapped;
use super::wrapped::Wrapper;
use super::{LogError, LogFormat};

/// How many lines are looked at.
const LINES_MAX: usize = 2_000;

/// How much of the first line an error shows.
const LINE_SHOWN_MAX: usize = 120;

/// What was recognised.
#[derive(Debug, Clone)]
pub(super) struct Recognised {
    pub format: LogFormat,
    /// For stderr, in whatever wrapper.
    pub prefix: Option<Prefix>,
    /// The first time in it, in microseconds since 1970-01-01 UTC.
    pub first_us: i64,
    /// What else is known of the wrapper, where the format is one.
    pub wrapper: Wrapper,
}

impl Recognised {
    fn plain(format: LogFormat, prefix: Option<Prefix>, first_us: i64) -> Self {
        Recognised {
            format,
            prefix,
            first_us,
            wrapper: Wrapper::default(),
        }
    }

    /// Says when the file was last changed, in microseconds since 1970-01-01 UTC: some wrappers
    /// write no year.
    pub(super) fn dated(mut self, modified_us: Option<i64>) -> Self {
        if let Some(first_us) = self.wrapper.dated(modified_us) {
            self.first_us = first_us;
        }
        self
    }
}

/// A zero byte among the first ones is no text's.
const BINARY_BYTES: usize = 512;

/// Looks at a log's first bytes.
pub(super) fn recognise(
    name: &str,
    sample: &[u8],
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<Recognised, LogError> {
    if let Some(found) = wrapped::recognise(name, sample, format, prefix)? {
        return Ok(found);
    }
    let what = name;
    let name = || name.to_owned();
    let lines = || {
        sample
            .split_inclusive(|byte| *byte == b'\n')
            .map(trimmed)
            .take(LINES_MAX)
    };
    let mut times = Timestamps::default();
    let translated = |word: String| LogError::Translated { name: name(), word };

    if let Some(prefix) = prefix {
        let prefix = usable(Prefix::compile(prefix), false, false)?;
        let first = lines().find_map(|line| prefix.matches(line, &mut times)?.fields.wall_us);
        return match first {
            // A severity may be the same in both languages.
            Some(_) if let Some(word) = foreign(lines()) => Err(translated(word)),
            Some(first_us) => {
                let format = LogFormat::Stderr;
                Ok(Recognised::plain(format, Some(prefix), first_us))
            }
            None => Err(match (foreign(lines()), unknown_zone(sample, &times)) {
                (Some(word), _) => translated(word),
                (None, Some(zone)) => LogError::Zone {
                    name: name(),
                    zone: zone.to_owned(),
                },
                (None, None) => LogError::PrefixMatchesNothing {
                    name: name(),
                    prefix: prefix.text().to_owned(),
                    line: shown(lines().next().unwrap_or_default()),
                    advice: prefix_advice(lines()),
                },
            }),
        };
    }

    let (mut json, mut csv) = ((0, None), (0, None));
    let (mut word, mut foreign_records) = (None, 0);
    for line in lines() {
        if let Some(found) = json_line(line, &mut times) {
            json.0 += 1;
            json.1 = json.1.or(Some(found.0));
            foreign_records += usize::from(found.1.is_some());
            word = word.or(found.1);
        } else if let Some(found) = csv_line(line, &mut times) {
            csv.0 += 1;
            csv.1 = csv.1.or(Some(found.0));
            foreign_records += usize::from(found.1.is_some());
            word = word.or(found.1);
        }
    }
    // What a RAISE writes may be in any language.
    let word = word.filter(|_| is_most_foreign(foreign_records, json.0 + csv.0));
    let allowed = |one: LogFormat| format.is_none_or(|wanted| wanted == one);
    let guessed = match allowed(LogFormat::Stderr) {
        true => prefix::guess(lines()),
        false => None,
    };
    let stderr_lines = guessed.as_ref().map_or(0, |guessed| guessed.lines);
    for (found, (count, first_us)) in [(LogFormat::Json, json), (LogFormat::Csv, csv)] {
        if let Some(first_us) = first_us
            && allowed(found)
            && count >= stderr_lines
        {
            return match word {
                Some(word) => Err(translated(word)),
                None => Ok(Recognised::plain(found, None, first_us)),
            };
        }
    }
    if let Some(guessed) = guessed {
        // A foreign log has some severities that are the same in both languages.
        if let Some(word) = foreign(lines()) {
            return Err(translated(word));
        }
        let prefix = usable(guessed.prefix, false, false)?;
        let format = LogFormat::Stderr;
        return Ok(Recognised::plain(format, Some(prefix), guessed.first_us));
    }
    Err(match (foreign(lines()), unknown_zone(sample, &times)) {
        (Some(word), _) => translated(word),
        (None, Some(zone)) => LogError::Zone {
            name: name(),
            zone: zone.to_owned(),
        },
        (None, None) if sample[..sample.len().min(BINARY_BYTES)].contains(&0) => {
            LogError::Binary { name: name() }
        }
        (None, None) if let Some(format) = format => LogError::NotThatFormat {
            name: name(),
            format: format.name(),
            advice: format_advice(what, sample),
        },
        (None, None) => {
            let severities = lines().filter(|line| find_label(line).is_some()).count();
            match severities * 2 > lines().count() {
                true => LogError::NoOnePrefix { name: name() },
                false => LogError::NotALog { name: name() },
            }
        }
    })
}

/// What to give instead of a prefix that fits nothing.
pub(super) fn prefix_advice<'a>(lines: impl Iterator<Item = &'a [u8]>) -> String {
    match prefix::guess(lines) {
        Some(guess) => format!(
            "its lines look as if '{}' had written them; give that, or none to have it recognised",
            guess.prefix.text()
        ),
        None => "give the server's log_line_prefix as SHOW log_line_prefix prints it, or none to have it recognised".to_owned(),
    }
}

/// What to give instead of a format that fits nothing.
pub(super) fn format_advice(name: &str, sample: &[u8]) -> String {
    match recognise(name, sample, None, None) {
        Ok(found) => format!(
            "it looks like --format {}, and is recognised where none is given",
            found.format.name()
        ),
        Err(_) => "give another format, or none to have it recognised".to_owned(),
    }
}

/// A time zone that is not known; but not what a cut at the sample's end leaves of one.
pub(super) fn unknown_zone<'t>(sample: &[u8], times: &'t Timestamps) -> Option<&'t str> {
    let last = sample
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    times
        .unknown_zone()
        .filter(|zone| !last.ends_with(zone.as_bytes()))
}

/// Refuses a prefix that lacks what is needed and not known from elsewhere.
pub(super) fn usable(
    prefix: Prefix,
    knows_time: bool,
    knows_process: bool,
) -> Result<Prefix, LogError> {
    let lacks = |what, why| LogError::PrefixLacks {
        prefix: prefix.text().to_owned(),
        what,
        why,
    };
    if !prefix.has_time() && !knows_time {
        return Err(lacks(
            "time (%m, %t or %n)",
            "nothing can be replayed when it was due",
        ));
    }
    if !prefix.has_process() && !knows_process {
        return Err(lacks(
            "process (%p) or session (%c)",
            "sessions cannot be told apart",
        ));
    }
    Ok(prefix)
}

/// A translated word, unless English ones are more: a statement may hold anything.
pub(super) fn foreign<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let (mut first, mut foreign, mut all) = (None, 0usize, 0usize);
    for line in lines.filter(|line| !line.starts_with(b"\t")) {
        let Ok(line) = std::str::from_utf8(line) else {
            continue;
        };
        all += usize::from(line.contains(":  "));
        if let Some(word) = foreign_word(line) {
            foreign += 1;
            first.get_or_insert_with(|| word.to_owned());
        }
    }
    first.filter(|_| is_most_foreign(foreign, all))
}

/// A translated log has some lines that look the same in both languages.
fn is_most_foreign(foreign: usize, all: usize) -> bool {
    foreign * 4 >= all
}

/// The beginning of a translated message, up to its colon.
fn foreign_start(message: &str) -> Option<String> {
    let start = || message.split([':', '"']).next().unwrap_or(message);
    is_foreign_message(message).then(|| start().trim_end().to_owned())
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(LINE_SHOWN_MAX)]).into_owned()
}

/// The time of a csvlog line, and its severity or message where it is translated.
fn csv_line(line: &[u8], times: &mut Timestamps) -> Option<(i64, Option<String>)> {
    let stamp = times.read(line).filter(|stamp| stamp.milliseconds)?;
    let rest = line.get(stamp.length..)?;
    if rest.first() != Some(&b',') {
        return None;
    }
    // Eleven columns stand before the severity, and only quoted ones hold commas. A column that nothing
    // ends may be a part of one: 'ERRO' is Portuguese, and the beginning of 'ERROR'.
    let rest = String::from_utf8_lossy(rest);
    let (ended, _) = rest.rsplit_once(',')?;
    ended.split(',').skip(10).take(30).find_map(|column| {
        if Severity::parse(column).is_some() {
            let message = rest.split_once(",00000,\"");
            let word = message.and_then(|(_, message)| foreign_start(message));
            return Some((stamp.wall_us, word));
        }
        is_foreign_label(column).then(|| (stamp.wall_us, Some(column.to_owned())))
    })
}

/// The time of a jsonlog line, and its severity or message where it is translated.
fn json_line(line: &[u8], times: &mut Timestamps) -> Option<(i64, Option<String>)> {
    let rest = line.strip_prefix(b"{\"timestamp\":\"")?;
    let stamp = times.read(rest)?;
    let rest = String::from_utf8_lossy(rest);
    let (_, after) = rest.split_once("\"error_severity\":\"")?;
    let (severity, _) = after.split_once('"')?;
    let message = after.split_once("\"message\":\"");
    let word = is_foreign_label(severity)
        .then(|| severity.to_owned())
        .or_else(|| foreign_start(message?.1));
    (word.is_some() || Severity::parse(severity).is_some()).then_some((stamp.wall_us, word))
}

#[cfg(test)]
mod tests;
