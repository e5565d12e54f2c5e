//! Recognises the format of a log from its beginning. Lines are judged individually, so a beginning
//! within an entry, or an entry larger than the sample, does not matter.

use super::entry::trim_line_end;
use super::envelopes;
use super::envelopes::Envelope;
use super::json::Row;
use super::prefix;
use super::prefix::{Inference, LineFacts, Prefix, is_raised};
use super::refusal::{journal_refusal, refusal};
use super::severity::{
    Label, Severity, find_label, foreign_word, is_foreign_label, is_foreign_message,
};
use super::timestamp::TimestampParser;
use super::zones::ZoneReading;
use super::{LogError, LogFormat};

/// Maximum number of lines examined.
const LINES_MAX: usize = 2_000;

/// Maximum length of the first line in an error, in bytes.
const LINE_SHOWN_MAX: usize = 120;

/// The recognised format of a log.
#[derive(Debug, Clone)]
pub(super) struct RecognisedFormat {
    pub format: LogFormat,
    /// Set for stderr, in any envelope.
    pub prefix: Option<Prefix>,
    /// The first time in the log, in microseconds since 1970-01-01 UTC.
    pub first_us: i64,
    /// Properties of the envelope, if the format is one.
    pub envelope: Envelope,
    /// Meaning of its time zones.
    pub zones: ZoneReading,
}

impl RecognisedFormat {
    fn plain(format: LogFormat, prefix: Option<Prefix>, first_us: i64) -> Self {
        RecognisedFormat {
            format,
            prefix,
            first_us,
            envelope: Envelope::default(),
            zones: ZoneReading::default(),
        }
    }

    /// Sets the time of the file's last modification, in microseconds since 1970-01-01 UTC. Some
    /// envelopes have times without a year.
    pub(super) fn with_modification_time(mut self, modified_us: Option<i64>) -> Self {
        if let Some(first_us) = self.envelope.set_modification_time(modified_us) {
            self.first_us = first_us;
        }
        self
    }
}

/// A zero byte among this number of first bytes means that the file is binary.
const BINARY_BYTES: usize = 512;

/// Recognises a log by its first bytes.
pub(super) fn recognise(
    name: &str,
    sample: &[u8],
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<RecognisedFormat, LogError> {
    if let Some(found) = envelopes::recognise(name, sample, format, prefix)? {
        return Ok(found);
    }
    let sample = Sample {
        name,
        bytes: sample,
    };
    match prefix {
        Some(prefix) => recognise_with_prefix(sample, prefix),
        None => recognise_by_lines(sample, format),
    }
}

/// The beginning of a log.
#[derive(Clone, Copy)]
struct Sample<'a> {
    name: &'a str,
    bytes: &'a [u8],
}

impl<'a> Sample<'a> {
    fn lines(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(trim_line_end)
            .take(LINES_MAX)
    }

    fn translated_error(self, word: String) -> LogError {
        LogError::Translated {
            name: self.name.to_owned(),
            word,
        }
    }

    /// Returns the error of a log that is translated or has an unknown time zone; `None` for any
    /// other log.
    fn language_or_zone_error(self, times: &TimestampParser) -> Option<LogError> {
        match (
            translated_word(self.lines()),
            unknown_zone(self.bytes, times),
        ) {
            (Some(word), _) => Some(self.translated_error(word)),
            (None, Some(zone)) => Some(LogError::Zone {
                name: self.name.to_owned(),
                zone: zone.to_owned(),
            }),
            (None, None) => None,
        }
    }

    /// Returns the error of a log whose format was not recognised.
    fn unrecognised_error(self, format: Option<LogFormat>) -> LogError {
        let name = self.name.to_owned();
        if self.bytes[..self.bytes.len().min(BINARY_BYTES)].contains(&0) {
            return LogError::Binary { name };
        }
        if let Some(format) = format {
            return LogError::NotThatFormat {
                name,
                format: format.name(),
                advice: format_advice(self.name, self.bytes),
            };
        }
        if let Some(error) = refusal(self.name, self.bytes) {
            return error;
        }
        let severities = self.lines().filter(|line| find_label(line).is_some());
        match severities.count() * 2 > self.lines().count() {
            true => LogError::NoOnePrefix { name },
            false => LogError::NotALog { name },
        }
    }
}

/// Recognises a stderr log whose prefix is given.
fn recognise_with_prefix(sample: Sample<'_>, prefix: &str) -> Result<RecognisedFormat, LogError> {
    let mut times = TimestampParser::default();
    let prefix = check_prefix(Prefix::compile(prefix), false, false)?;
    let first = sample
        .lines()
        .find_map(|line| prefix.matches(line, &mut times)?.fields.wall_us);
    let Some(first_us) = first else {
        return Err(sample.language_or_zone_error(&times).unwrap_or_else(|| {
            LogError::PrefixMatchesNothing {
                name: sample.name.to_owned(),
                prefix: prefix.text().to_owned(),
                line: shown_line(sample.lines().next().unwrap_or_default()),
                advice: prefix_advice(sample.lines()),
            }
        }));
    };
    refuse_contradicted(sample, &prefix, &mut times)?;
    // A severity may be the same word in both languages.
    match translated_word(sample.lines()) {
        Some(word) => Err(sample.translated_error(word)),
        None => {
            let format = LogFormat::Stderr;
            Ok(RecognisedFormat::plain(format, Some(prefix), first_us))
        }
    }
}

/// Returns the objects of a document that is printed over many lines, each as one line.
fn printed_objects(sample: &[u8]) -> Vec<Vec<u8>> {
    let mut objects = Vec::new();
    if !sample.trim_ascii_start().starts_with(b"{\n")
        && !sample.trim_ascii_start().starts_with(b"[\n")
    {
        return objects;
    }
    let mut at = 0;
    while at < sample.len() && objects.len() < LINES_MAX {
        let Some((record, length)) = envelopes::split_record(&sample[at..], true) else {
            break;
        };
        if let envelopes::Record::Json(json) = record {
            objects.push(json.iter().copied().filter(|byte| *byte != b'\n').collect());
        }
        at += length;
    }
    objects
}

/// Refuses a given prefix that the lines contradict. It may be right for a part of them, if it was
/// changed in the file; then it must be right for the first.
fn refuse_contradicted(
    sample: Sample<'_>,
    prefix: &Prefix,
    times: &mut TimestampParser,
) -> Result<(), LogError> {
    let mut first = None;
    let (mut contradicted, mut judged) = (0, 0);
    let lines: Vec<&[u8]> = sample.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let number = index as u64 + 1;
        let Some(found) = prefix.matches(line, times) else {
            continue;
        };
        let following = &lines[index + 1..];
        if is_raised(following) || may_end_in_name(prefix, following, times) {
            continue;
        }
        let reason = prefix.contradiction(line, times);
        let message = std::str::from_utf8(&line[found.text..]);
        let (Label::Head(severity), Ok(message)) = (found.label, message) else {
            continue;
        };
        if reason.is_none() && !LineFacts::of_message(severity, message).is_of_client() {
            continue;
        }
        judged += 1;
        contradicted += usize::from(reason.is_some());
        if let Some(reason) = reason {
            first.get_or_insert((judged, number, reason));
        }
    }
    match first {
        Some((order, line, reason)) if order == 1 || contradicted * 2 >= judged => {
            Err(LogError::PrefixContradicted {
                name: sample.name.to_owned(),
                prefix: prefix.text().to_owned(),
                line,
                reason,
                advice: prefix_advice(sample.lines()),
            })
        }
        _ => Ok(()),
    }
}

/// Returns whether the line before these may end within a name that contains a newline: the next one has no
/// prefix and continues no message. It then has a message that is not its own.
fn may_end_in_name(prefix: &Prefix, following: &[&[u8]], times: &mut TimestampParser) -> bool {
    let next = following.first();
    prefix.may_span_lines()
        && next
            .is_some_and(|next| !next.starts_with(b"\t") && prefix.matches(next, times).is_none())
}

/// Number of a sample's records in one format, and the time of the first.
#[derive(Default)]
struct RecordCount {
    records: usize,
    first_us: Option<i64>,
}

impl RecordCount {
    fn add(&mut self, wall_us: i64) {
        self.records += 1;
        self.first_us = self.first_us.or(Some(wall_us));
    }
}

/// Recognises a log whose prefix is not given.
fn recognise_by_lines(
    sample: Sample<'_>,
    format: Option<LogFormat>,
) -> Result<RecognisedFormat, LogError> {
    if let Some(error) = journal_refusal(sample.name, sample.bytes) {
        return Err(error);
    }
    let mut times = TimestampParser::default();
    let (mut json, mut csv) = (RecordCount::default(), RecordCount::default());
    let (mut word, mut foreign_records) = (None, 0);
    let printed = printed_objects(sample.bytes);
    let lines = sample.lines().chain(printed.iter().map(Vec::as_slice));
    for line in lines {
        let (count, record) = if let Some(record) = parse_json_line(line, &mut times) {
            (&mut json, record)
        } else if let Some(record) = parse_csv_line(line, &mut times) {
            (&mut csv, record)
        } else {
            continue;
        };
        let (wall_us, translated) = record;
        count.add(wall_us);
        foreign_records += usize::from(translated.is_some());
        word = word.or(translated);
    }
    // RAISE may write text in any language.
    let word = word.filter(|_| is_most_foreign(foreign_records, json.records + csv.records));
    let is_allowed = |one: LogFormat| format.is_none_or(|wanted| wanted == one);
    let inferred = match is_allowed(LogFormat::Stderr) {
        true => prefix::infer(sample.lines()).without_structured(),
        false => Inference::Nothing,
    };
    let stderr_lines = match &inferred {
        Inference::Found(inferred) => inferred.lines,
        _ => 0,
    };
    for (found, count) in [(LogFormat::Json, json), (LogFormat::Csv, csv)] {
        if let Some(first_us) = count.first_us
            && is_allowed(found)
            && count.records >= stderr_lines
        {
            return match word {
                Some(word) => Err(sample.translated_error(word)),
                None => Ok(RecognisedFormat::plain(found, None, first_us)),
            };
        }
    }
    // Some severities of a foreign log are the same in both languages.
    if matches!(inferred, Inference::Found(_))
        && let Some(word) = translated_word(sample.lines())
    {
        return Err(sample.translated_error(word));
    }
    let other_error = sample.language_or_zone_error(&times);
    match inferred {
        Inference::Found(inferred) => {
            let prefix = check_prefix(inferred.prefix, false, false)?;
            let format = LogFormat::Stderr;
            let first_us = inferred.first_us;
            Ok(RecognisedFormat::plain(format, Some(prefix), first_us))
        }
        Inference::Undecided(prefixes) => {
            Err(other_error.unwrap_or_else(|| undecided_error(sample.name, prefixes)))
        }
        Inference::NoTime(prefix) => Err(match other_error {
            Some(error) => error,
            None => match check_prefix(Prefix::compile(&prefix), false, false) {
                Err(error) => error,
                Ok(_) => sample.unrecognised_error(format),
            },
        }),
        Inference::Nothing => Err(other_error.unwrap_or_else(|| sample.unrecognised_error(format))),
    }
}

/// Returns the error of a log that two prefixes fit equally.
pub(super) fn undecided_error(name: &str, [one, other]: [String; 2]) -> LogError {
    LogError::PrefixUndecided {
        name: name.to_owned(),
        one,
        other,
    }
}

/// Suggests a replacement for a prefix that matches nothing.
pub(super) fn prefix_advice<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone) -> String {
    match prefix::infer(lines) {
        Inference::Found(guess) => format!(
            "its lines look as if '{}' had written them; give that, or none to have it recognised",
            guess.prefix.text()
        ),
        Inference::Undecided([one, other]) => format!(
            "its lines look as if '{one}' or '{other}' had written them; SHOW log_line_prefix prints which"
        ),
        _ => "give the server's log_line_prefix as SHOW log_line_prefix prints it, or none to have it recognised".to_owned(),
    }
}

/// Suggests a replacement for a format that matches nothing.
pub(super) fn format_advice(name: &str, sample: &[u8]) -> String {
    match recognise(name, sample, None, None) {
        Ok(found) => format!(
            "it looks like --format {}, and is recognised where none is given",
            found.format.name()
        ),
        Err(_) => "give another format, or none to have it recognised".to_owned(),
    }
}

/// Returns an unknown time zone, unless the sample's end truncates it.
pub(super) fn unknown_zone<'t>(sample: &[u8], times: &'t TimestampParser) -> Option<&'t str> {
    let last = sample
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    times
        .unknown_zone()
        .filter(|zone| !last.ends_with(zone.as_bytes()))
}

/// Refuses a prefix that lacks a needed escape whose value is not known otherwise.
pub(super) fn check_prefix(
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

/// Returns a translated word, unless English ones are more frequent: a statement may contain
/// anything.
pub(super) fn translated_word<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
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

/// Returns whether most lines are foreign. Some lines of a translated log look the same in both
/// languages.
fn is_most_foreign(foreign: usize, all: usize) -> bool {
    foreign * 4 >= all
}

/// Returns the beginning of a translated message, up to its colon.
fn foreign_start(message: &str) -> Option<String> {
    let start = || message.split([':', '"']).next().unwrap_or(message);
    is_foreign_message(message).then(|| start().trim_end().to_owned())
}

/// As [`parse_json_line`], for a line that a JSON library wrote anew: with blanks, or with the keys
/// in another order.
fn parse_rewritten_json_line(
    line: &[u8],
    times: &mut TimestampParser,
) -> Option<(i64, Option<String>)> {
    if !line.starts_with(b"{") || memchr::memmem::find(line, b"\"error_severity\"").is_none() {
        return None;
    }
    let row: Row<'_> = serde_json::from_slice(line).ok()?;
    let stamp = times.read(row.timestamp.as_bytes())?;
    let word = is_foreign_label(&row.error_severity)
        .then(|| row.error_severity.clone().into_owned())
        .or_else(|| foreign_start(&row.message));
    (word.is_some() || Severity::parse(&row.error_severity).is_some())
        .then_some((stamp.wall_us, word))
}

fn shown_line(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(LINE_SHOWN_MAX)]).into_owned()
}

/// Returns the time of a csvlog line, and its severity or message if it is translated.
fn parse_csv_line(line: &[u8], times: &mut TimestampParser) -> Option<(i64, Option<String>)> {
    let (line, end): (_, &[u8]) = match line.strip_prefix(b"\"") {
        Some(quoted) => (quoted, b"\","),
        None => (line, b","),
    };
    let stamp = times.read(line).filter(|stamp| stamp.milliseconds)?;
    let rest = line.get(stamp.length..)?;
    if !rest.starts_with(end) {
        return None;
    }
    // Eleven columns precede the severity, and only quoted ones contain commas. A column without
    // an end may be truncated: 'ERRO' is Portuguese, and the beginning of 'ERROR'.
    let rest = String::from_utf8_lossy(rest);
    let (ended, _) = rest.rsplit_once(',')?;
    ended.split(',').skip(10).take(30).find_map(|column| {
        let column = column.trim_matches('"');
        if Severity::parse(column).is_some() {
            let message = rest
                .split_once(",00000,\"")
                .or_else(|| rest.split_once(",\"00000\",\""));
            let word = message.and_then(|(_, message)| foreign_start(message));
            return Some((stamp.wall_us, word));
        }
        is_foreign_label(column).then(|| (stamp.wall_us, Some(column.to_owned())))
    })
}

/// Returns the time of a jsonlog line, and its severity or message if it is translated.
fn parse_json_line(line: &[u8], times: &mut TimestampParser) -> Option<(i64, Option<String>)> {
    let Some(rest) = line.strip_prefix(b"{\"timestamp\":\"") else {
        return parse_rewritten_json_line(line, times);
    };
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
