//! Recognises the envelope of a log by removing each candidate from the sample and examining the
//! rest.

use std::collections::HashMap;

use super::azure;
use super::azure::Azure;
use super::cloudsql::CloudSql;
use super::cloudwatch::CloudWatch;
use super::cnpg;
use super::container::{Container, Layout};
use super::heroku;
use super::heroku::Heroku;
use super::reassemble::{Part, PartKind};
use super::shipper;
use super::shipper::Shipper;
use super::syslog;
use super::syslog::Syslog;
use super::time::{YearAssigner, YearlessTime};
use super::{RecordContent, Unwrap};
use crate::entry::trim_line_end;
use crate::prefix;
use crate::prefix::{Inference, Prefix, is_structured};
use crate::recognise::{
    RecognisedFormat, check_prefix, format_advice, prefix_advice, translated_word, undecided_error,
    unknown_zone,
};
use crate::severity::{Severity, find_label, foreign_word, is_foreign_label, is_foreign_message};
use crate::timestamp::TimestampParser;
use crate::zones::ZoneReading;
use crate::{LogError, LogFormat, SkipReason, UnreadableReason};

/// Form of an envelope that has several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Usual,
    /// CloudWatch: a stream's name follows the time.
    Stream,
    /// Container: the form of the text before each line.
    Named(Layout),
    /// Shipper: texts end with a newline, unless they are pieces of a line.
    Terminated,
}

/// Properties of an envelope that are known before the log is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Envelope {
    format: Option<LogFormat>,
    /// The server whose lines are read, if the file may have several servers and programs.
    pub server: String,
    program: String,
    form: Form,
    /// syslog: the first time, if it has no year, and an upper bound for it.
    yearless: Option<YearlessTime>,
    /// syslog: a time without a year is on February 29.
    leap_day: bool,
    bound_us: Option<i64>,
    /// The prefix has no time of its own.
    timed: bool,
}

impl Envelope {
    pub(super) fn unwrapper(&self) -> Box<dyn Unwrap> {
        match self.format {
            Some(LogFormat::CloudWatch) => Box::new(CloudWatch {
                stream: self.form == Form::Stream,
            }),
            Some(LogFormat::CloudSql) => Box::new(CloudSql),
            Some(LogFormat::Azure) => Box::new(Azure::default()),
            Some(LogFormat::Heroku) => Box::new(Heroku::default()),
            Some(LogFormat::Shipper) => Box::new(Shipper::new(self.form == Form::Terminated)),
            Some(LogFormat::Container) => Box::new(Container::new(match self.form {
                Form::Named(layout) => layout,
                _ => Layout::Cri,
            })),
            _ => Box::new(Syslog::new(self.bound_us, self.leap_day)),
        }
    }

    /// Returns whether a message's lines are those that stderr would have, so that the lines of two
    /// files can be joined.
    pub(crate) fn keeps_lines(&self) -> bool {
        matches!(self.format, Some(LogFormat::Container | LogFormat::Shipper))
    }

    /// Returns why a part does not belong to the server that is read.
    pub(super) fn exclusion_reason(&self, part: &Part<'_>) -> Option<SkipReason> {
        // A continuation has no header of its own.
        if part.chunk == PartKind::Continues {
            return None;
        }
        if part.program != self.program {
            return Some(SkipReason::OtherProgram);
        }
        (part.server != self.server).then_some(SkipReason::OtherServer)
    }

    /// Sets the time of the file's last modification, for times without a year, in microseconds
    /// since 1970-01-01 UTC. Returns the first time if the envelope's times count.
    pub(crate) fn set_modification_time(&mut self, modified_us: Option<i64>) -> Option<i64> {
        self.bound_us = modified_us;
        let first = self.yearless.filter(|_| self.timed)?;
        YearAssigner::new(first, modified_us, self.leap_day).instant(first)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        if self.format == Some(LogFormat::Azure) {
            return vec![
                "Azure hands no STATEMENT out with an error: failures are joined to their statement only where log_statement = all wrote it before".to_owned(),
            ];
        }
        let Some(first) = self.yearless.filter(|_| self.timed) else {
            return Vec::new();
        };
        let year = YearAssigner::new(first, self.bound_us, self.leap_day).year;
        let by = match self.bound_us {
            Some(_) => "the newest with which it does not lie after the file's last change",
            None => "since there is no better bound",
        };
        vec![format!(
            "its times have neither year nor zone, and whole seconds: they are read as UTC, and the first as of {year}, {by}; %m in the log_line_prefix has all three"
        )]
    }
}

/// Maximum number of texts kept for examination.
const TEXTS_MAX: usize = 2_000;

/// A text that is one of the server's lines.
struct ServerLine {
    server: String,
    program: String,
    bytes: Vec<u8>,
    wall_us: Option<i64>,
    pid: Option<u32>,
}

#[derive(Default)]
struct SampleScan {
    /// Number of physical lines that match the envelope, and of others.
    own: usize,
    other: usize,
    texts: Vec<ServerLine>,
}

/// The envelopes, the most demanding first.
const ENVELOPES: [LogFormat; 8] = [
    LogFormat::Cnpg,
    LogFormat::Azure,
    LogFormat::CloudSql,
    LogFormat::Heroku,
    LogFormat::Container,
    LogFormat::Syslog,
    LogFormat::CloudWatch,
    // The key `message` is CloudWatch's, too.
    LogFormat::Shipper,
];

/// Recognises an envelope by a log's first bytes; `None` if it has none, or not the wanted one.
pub(crate) fn recognise(
    name: &str,
    sample: &[u8],
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<Option<RecognisedFormat>, LogError> {
    for wanted in ENVELOPES {
        if format.is_some_and(|format| format != wanted) {
            continue;
        }
        if wanted == LogFormat::Cnpg {
            if let Some(found) = recognise_cnpg(name, sample)? {
                return Ok(Some(found));
            }
            continue;
        }
        for envelope in candidates(wanted, sample) {
            let found = recognise_as(name, sample, wanted, envelope, prefix)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    match format.filter(|format| ENVELOPES.contains(format)) {
        Some(format) => Err(LogError::NotThatFormat {
            name: name.to_owned(),
            format: format.name(),
            advice: format_advice(name, sample),
        }),
        None => Ok(None),
    }
}

/// Returns the forms that an envelope may have.
fn candidates(format: LogFormat, sample: &[u8]) -> Vec<Envelope> {
    let envelope = Envelope {
        format: Some(format),
        ..Envelope::default()
    };
    match format {
        LogFormat::Container => Layout::ALL
            .into_iter()
            .map(|layout| Envelope {
                form: Form::Named(layout),
                ..envelope.clone()
            })
            .collect(),
        LogFormat::Shipper if shipper::is_terminated(sample) => vec![Envelope {
            form: Form::Terminated,
            ..envelope
        }],
        _ => vec![envelope],
    }
}

fn recognise_as(
    name: &str,
    sample: &[u8],
    format: LogFormat,
    mut envelope: Envelope,
    given: Option<&str>,
) -> Result<Option<RecognisedFormat>, LogError> {
    let mut look = scan_sample(&envelope, sample);
    if format == LogFormat::CloudWatch && is_after_word(&look.texts) {
        envelope.form = Form::Stream;
        look = self::scan_sample(&envelope, sample);
    }
    if look.texts.is_empty() || look.own < look.other {
        return Ok(None);
    }
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    for text in &look.texts {
        *counts.entry((&text.program, &text.server)).or_default() += 1;
    }
    let most = counts
        .iter()
        .max_by_key(|(who, count)| (**count, std::cmp::Reverse(**who)));
    if let Some(((program, server), _)) = most {
        envelope.program = (*program).to_owned();
        envelope.server = (*server).to_owned();
    }
    look.texts
        .retain(|text| text.server == envelope.server && text.program == envelope.program);
    let texts = || look.texts.iter().map(|text| &text.bytes[..]);
    let named = || name.to_owned();
    let mut times = TimestampParser::default();
    let translated = |word| LogError::Translated {
        name: named(),
        word,
    };

    let prefix = match given {
        Some(given) => check_given_prefix(name, given, &look.texts, &mut times)?,
        None => {
            let guessed = match format {
                LogFormat::Heroku => heroku_prefix(name, &look.texts)?,
                // No server writes a prefix that begins like JSON or a quoted line.
                _ => match infer_prefix(&look.texts) {
                    Guess::Prefix(prefix) if is_structured(prefix.text()) => Guess::Nothing,
                    guessed => guessed,
                },
            };
            match (translated_word(texts()), guessed) {
                (Some(word), _) => return Err(translated(word)),
                (None, Guess::Prefix(prefix)) => *prefix,
                (None, Guess::Undecided(prefixes)) => return Err(undecided_error(name, prefixes)),
                (None, Guess::Nothing) => return Ok(None),
            }
        }
    };
    let knows_time = look.texts.iter().all(|text| text.wall_us.is_some());
    let knows_process = look.texts.iter().all(|text| text.pid.is_some());
    // A name may also be a part of the prefix.
    let uncertain = Layout::ALL[3..]
        .iter()
        .any(|layout| envelope.form == Form::Named(*layout));
    if uncertain && !(prefix.has_time() && prefix.has_process()) {
        return Ok(None);
    }
    if format == LogFormat::Syslog && !knows_process && !prefix.has_process() {
        return Err(LogError::SyslogWithoutProcess { name: named() });
    }
    let prefix = check_prefix(prefix, knows_time, knows_process)?;
    envelope.timed = !prefix.has_time();
    let mut walls = Vec::new();
    for text in &look.texts {
        let matched = prefix.matches(&text.bytes, &mut times);
        let own = matched.and_then(|matched| matched.fields.wall_us);
        walls.extend(match prefix.has_time() {
            true => own,
            false => text.wall_us,
        });
    }
    refuse_newest_first(name, format, &walls)?;
    let mut yearless = sample
        .split(|byte| *byte == b'\n')
        .filter(|_| format == LogFormat::Syslog)
        .filter_map(syslog::parse_yearless);
    envelope.yearless = yearless.next();
    envelope.leap_day = envelope
        .yearless
        .into_iter()
        .chain(yearless)
        .any(|time| (time.month, time.day) == (2, 29));
    Ok(walls.first().map(|first_us| RecognisedFormat {
        format,
        prefix: Some(prefix),
        first_us: *first_us,
        envelope,
        zones: ZoneReading::default(),
    }))
}

/// Checks that a given prefix matches any of the texts.
fn check_given_prefix(
    name: &str,
    given: &str,
    look: &[ServerLine],
    times: &mut TimestampParser,
) -> Result<Prefix, LogError> {
    let texts = || look.iter().map(|text| &text.bytes[..]);
    let name = name.to_owned();
    let prefix = Prefix::compile(given);
    if texts().any(|text| prefix.matches(text, times).is_some()) {
        return Ok(prefix);
    }
    Err(match (translated_word(texts()), unknown_zone(b"", times)) {
        (Some(word), _) => LogError::Translated { name, word },
        (None, Some(zone)) => LogError::Zone {
            name,
            zone: zone.to_owned(),
        },
        (None, None) => LogError::PrefixMatchesNothing {
            name,
            prefix: given.to_owned(),
            line: String::from_utf8_lossy(texts().next().unwrap_or_default()).into_owned(),
            advice: prefix_advice(texts()),
        },
    })
}

/// Removes an envelope from the sample.
fn scan_sample(envelope: &Envelope, sample: &[u8]) -> SampleScan {
    let mut unwrap = envelope.unwrapper();
    let mut found = SampleScan::default();
    let mut at = 0;
    while at < sample.len() && found.texts.len() < TEXTS_MAX {
        let mut strange = false;
        let mut texts = Vec::new();
        let record = unwrap.record(&sample[at..], true, &mut |part| {
            strange |= part.chunk == PartKind::Continues;
            let is_log = match envelope.format {
                Some(LogFormat::Azure) => azure::is_server_log(&part.program),
                Some(LogFormat::CloudSql) => part.program == super::cloudsql::LOG,
                Some(LogFormat::Heroku) => part.text.starts_with(heroku::PREFIX_START),
                // A time looks like a host and a tag without a process.
                Some(LogFormat::Syslog) => {
                    part.pid.is_some() || part.program.starts_with(|c: char| c.is_alphabetic())
                }
                _ => !part.joined,
            };
            let first = part
                .text
                .split(|byte| *byte == b'\n')
                .next()
                .unwrap_or_default();
            let labelled = find_label(first).is_some()
                || std::str::from_utf8(first).is_ok_and(|first| foreign_word(first).is_some());
            if is_log && labelled && part.chunk != PartKind::Continues {
                texts.push(ServerLine {
                    server: part.server.into_owned(),
                    program: part.program.into_owned(),
                    bytes: first.to_vec(),
                    wall_us: part.wall_us,
                    pid: part.pid,
                });
            }
        });
        let Some((content, length)) = record else {
            break;
        };
        let lines = memchr::memchr_iter(b'\n', &sample[at..at + length])
            .count()
            .max(1);
        match content {
            // A continuation proves nothing.
            RecordContent::Parts if strange => found.other += usize::from(found.own == 0),
            RecordContent::Parts => found.own += lines,
            // The input may begin within a record.
            RecordContent::Skipped(_)
            | RecordContent::Unreadable(UnreadableReason::LooseContinuation) => (),
            RecordContent::Unreadable(_) => found.other += 1,
        }
        found.texts.append(&mut texts);
        at += length;
        // Most logs have no envelope.
        if found.own == 0 && found.other > 100 {
            break;
        }
    }
    found
}

/// Returns whether most texts have their time after one word.
fn is_after_word(texts: &[ServerLine]) -> bool {
    let mut times = TimestampParser::default();
    let after_the_tag = texts.iter().filter(|text| {
        let bytes = &text.bytes[..];
        times.read(bytes).is_none()
            && memchr::memchr(b' ', bytes)
                .is_some_and(|blank| times.read(&bytes[blank + 1..]).is_some())
    });
    after_the_tag.count() * 2 > texts.len()
}

/// Result of guessing a prefix.
enum Guess {
    Prefix(Box<Prefix>),
    Undecided([String; 2]),
    Nothing,
}

/// Guesses the prefix of texts, which may lack what the envelope has.
fn infer_prefix(texts: &[ServerLine]) -> Guess {
    match prefix::infer(texts.iter().map(|text| &text.bytes[..])) {
        Inference::Found(guessed) => return Guess::Prefix(Box::new(guessed.prefix)),
        Inference::Undecided(prefixes) => return Guess::Undecided(prefixes),
        Inference::NoTime(_) | Inference::Nothing => (),
    }
    // A time, and a process if the envelope has it, before each text make it a line that can be
    // guessed.
    let knows_process = texts.iter().any(|text| text.pid.is_some());
    let before = match knows_process {
        true => "%m [%p] ",
        false => "%m ",
    };
    let full: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| {
            let mut full = b"2000-01-01 00:00:00.000 UTC ".to_vec();
            if knows_process {
                full.extend_from_slice(format!("[{}] ", text.pid.unwrap_or(1)).as_bytes());
            }
            full.extend_from_slice(&text.bytes);
            full
        })
        .collect();
    let guessed = match prefix::infer(full.iter().map(|line| &line[..])) {
        Inference::Found(guessed) => guessed.prefix,
        Inference::Undecided(prefixes) => {
            return Guess::Undecided(prefixes.map(|text| text.replacen(before, "", 1)));
        }
        Inference::NoTime(_) | Inference::Nothing => return Guess::Nothing,
    };
    let Some(own) = guessed.text().strip_prefix(before) else {
        return Guess::Nothing;
    };
    // A second number may repeat the process's.
    let mut times = TimestampParser::default();
    let mut repeats_process = |number: &str| {
        let prefix = Prefix::compile(&own.replacen(number, "%l", 1));
        own.contains(number)
            && texts.iter().all(|text| {
                let found = prefix.matches(&text.bytes, &mut times);
                found.is_none_or(|found| {
                    let number = found.fields.line_number;
                    number != 0 && Some(number) == text.pid.map(u64::from)
                })
            })
    };
    let repeated = ["%l", "%x"]
        .into_iter()
        .find(|number| repeats_process(number));
    Guess::Prefix(Box::new(match repeated {
        Some(number) => Prefix::compile(&own.replacen(number, "%p", 1)),
        None => Prefix::compile(own),
    }))
}

/// Returns Heroku's prefix if its server writes processes, which its small plans do not.
fn heroku_prefix(name: &str, texts: &[ServerLine]) -> Result<Guess, LogError> {
    let prefix = Prefix::compile(heroku::PREFIX);
    let mut times = TimestampParser::default();
    let any = texts
        .iter()
        .any(|text| prefix.matches(&text.bytes, &mut times).is_some());
    match any {
        true => Ok(Guess::Prefix(Box::new(prefix))),
        false => Err(LogError::Unsupported {
            name: name.to_owned(),
            what: "a log drain of Heroku whose lines have no process (pid=\"…\"), so that sessions cannot be told apart",
            advice: "capture from a plan of Heroku Postgres whose lines have it, or record with `rehearse capture proxy`",
        }),
    }
}

/// Refuses logs with the newest record first.
fn refuse_newest_first(name: &str, format: LogFormat, walls: &[i64]) -> Result<(), LogError> {
    let back = walls.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let on = walls.windows(2).filter(|pair| pair[1] > pair[0]).count();
    if back <= on {
        return Ok(());
    }
    Err(LogError::NewestFirst {
        name: name.to_owned(),
        turn: match format {
            LogFormat::CloudSql => "write it again with gcloud logging read --order=asc",
            LogFormat::Syslog => {
                "write it again with journalctl without --reverse, or turn it round with tac"
            }
            _ => "turn it round with tac, where each line is a record",
        },
    })
}

fn recognise_cnpg(name: &str, sample: &[u8]) -> Result<Option<RecognisedFormat>, LogError> {
    let (mut own, mut other) = (0usize, 0usize);
    let mut times = TimestampParser::default();
    let mut records: Vec<(String, i64)> = Vec::new();
    let mut word = None;
    for line in sample
        .split_inclusive(|byte| *byte == b'\n')
        .map(trim_line_end)
    {
        match cnpg::parse_line(line) {
            _ if line.is_empty() => (),
            cnpg::LineContent::Record(line) => {
                own += 1;
                let severity = &*line.record.error_severity;
                let message = &*line.record.message;
                if is_foreign_label(severity) {
                    word.get_or_insert_with(|| severity.to_owned());
                } else if is_foreign_message(message) {
                    // A severity may be the same word in both languages.
                    let start = message.split([':', ' ']).next().unwrap_or(message);
                    word.get_or_insert_with(|| start.to_owned());
                } else if Severity::parse(severity).is_none() {
                    continue;
                }
                if let Some(stamp) = times.read(line.record.log_time.as_bytes()) {
                    records.push((line.pod.into_owned(), stamp.wall_us));
                }
            }
            cnpg::LineContent::Other(_) => own += 1,
            cnpg::LineContent::Unreadable => other += 1,
        }
        if records.len() == TEXTS_MAX || (own == 0 && other > 100) {
            break;
        }
    }
    if records.is_empty() || own < other {
        return Ok(None);
    }
    if let Some(word) = word {
        let name = name.to_owned();
        return Err(LogError::Translated { name, word });
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (pod, _) in &records {
        *counts.entry(pod).or_default() += 1;
    }
    let pod = counts
        .iter()
        .max_by_key(|(pod, count)| (**count, std::cmp::Reverse(**pod)))
        .map_or_else(String::new, |(pod, _)| (*pod).to_owned());
    let walls: Vec<i64> = records
        .iter()
        .filter(|record| record.0 == pod)
        .map(|record| record.1)
        .collect();
    refuse_newest_first(name, LogFormat::Cnpg, &walls)?;
    Ok(walls.first().map(|first_us| RecognisedFormat {
        format: LogFormat::Cnpg,
        prefix: None,
        first_us: *first_us,
        envelope: Envelope {
            server: pod.clone(),
            ..Envelope::default()
        },
        zones: ZoneReading::default(),
    }))
}
