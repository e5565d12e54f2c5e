//! Which wrapper a log is in, by taking it off the beginning and looking at what is left.

use std::collections::HashMap;

use super::azure;
use super::azure::Azure;
use super::cloudsql::CloudSql;
use super::cloudwatch::CloudWatch;
use super::cnpg;
use super::gather::{Chunk, Part};
use super::syslog;
use super::syslog::Syslog;
use super::time::{Yearless, Years};
use super::{Said, Unwrap};
use crate::entry::trimmed;
use crate::prefix;
use crate::prefix::Prefix;
use crate::recognise::{Recognised, foreign, format_advice, prefix_advice, unknown_zone, usable};
use crate::severity::{Severity, foreign_word, is_foreign_label, is_foreign_message};
use crate::timestamp::Timestamps;
use crate::{LogError, LogFormat, SkipReason, UnreadableReason};

/// What is known of a wrapped log before it is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wrapper {
    format: Option<LogFormat>,
    /// Whose lines are read, where a file may hold several servers' and programs'.
    pub server: String,
    program: String,
    /// CloudWatch: a stream's name stands behind the time.
    stream: bool,
    /// syslog: the first time, where it has no year, and what it is not after.
    yearless: Option<Yearless>,
    bound_us: Option<i64>,
    /// The prefix has no time of its own.
    timed: bool,
}

impl Wrapper {
    pub(super) fn unwrapper(&self) -> Box<dyn Unwrap> {
        match self.format {
            Some(LogFormat::CloudWatch) => Box::new(CloudWatch {
                stream: self.stream,
            }),
            Some(LogFormat::CloudSql) => Box::new(CloudSql),
            Some(LogFormat::Azure) => Box::new(Azure::default()),
            _ => Box::new(Syslog::new(self.bound_us)),
        }
    }

    /// Why a part is not of the server that is read.
    pub(super) fn stranger(&self, part: &Part<'_>) -> Option<SkipReason> {
        // What continues has no header of its own.
        if part.chunk == Chunk::Continues {
            return None;
        }
        if part.program != self.program {
            return Some(SkipReason::OtherProgram);
        }
        (part.server != self.server).then_some(SkipReason::OtherServer)
    }

    /// Says when the file was last changed, for times without a year, in microseconds since
    /// 1970-01-01 UTC. Returns the first time where the wrapper's counts.
    pub(crate) fn dated(&mut self, modified_us: Option<i64>) -> Option<i64> {
        self.bound_us = modified_us;
        let first = self.yearless.filter(|_| self.timed)?;
        Years::new(first, modified_us).instant(first)
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
        let year = Years::new(first, self.bound_us).year;
        let by = match self.bound_us {
            Some(_) => "the newest with which it does not lie after the file's last change",
            None => "for want of anything better",
        };
        vec![format!(
            "its times have neither year nor zone, and whole seconds: they are read as UTC, and the first as of {year}, {by}; %m in the log_line_prefix has all three"
        )]
    }
}

/// How many texts are kept to look at.
const TEXTS_MAX: usize = 2_000;

/// A text that is one of the server's lines.
struct Text {
    server: String,
    program: String,
    bytes: Vec<u8>,
    wall_us: Option<i64>,
    pid: Option<u32>,
}

#[derive(Default)]
struct Look {
    /// Physical lines that the wrapper knows, and others.
    own: usize,
    other: usize,
    texts: Vec<Text>,
}

/// The wrappers, the one that asks for most first.
const WRAPPERS: [LogFormat; 5] = [
    LogFormat::Cnpg,
    LogFormat::Azure,
    LogFormat::CloudSql,
    LogFormat::Syslog,
    LogFormat::CloudWatch,
];

/// Looks at a log's first bytes; `None` where no wrapper, or not the wanted one, is around it.
pub(crate) fn recognise(
    name: &str,
    sample: &[u8],
    format: Option<LogFormat>,
    prefix: Option<&str>,
) -> Result<Option<Recognised>, LogError> {
    for wanted in WRAPPERS {
        if format.is_some_and(|format| format != wanted) {
            continue;
        }
        let found = match wanted {
            LogFormat::Cnpg => cnpg_lines(name, sample)?,
            _ => wrapped(name, sample, wanted, prefix)?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    match format.filter(|format| WRAPPERS.contains(format)) {
        Some(format) => Err(LogError::NotThatFormat {
            name: name.to_owned(),
            format: format.name(),
            advice: format_advice(name, sample),
        }),
        None => Ok(None),
    }
}

fn wrapped(
    name: &str,
    sample: &[u8],
    format: LogFormat,
    given: Option<&str>,
) -> Result<Option<Recognised>, LogError> {
    let mut wrapper = Wrapper {
        format: Some(format),
        ..Wrapper::default()
    };
    let mut look = look(&wrapper, sample);
    if format == LogFormat::CloudWatch && behind_a_word(&look.texts) {
        wrapper.stream = true;
        look = self::look(&wrapper, sample);
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
        wrapper.program = (*program).to_owned();
        wrapper.server = (*server).to_owned();
    }
    look.texts
        .retain(|text| text.server == wrapper.server && text.program == wrapper.program);
    let texts = || look.texts.iter().map(|text| &text.bytes[..]);
    let named = || name.to_owned();
    let mut times = Timestamps::default();
    let translated = |word| LogError::Translated {
        name: named(),
        word,
    };

    let prefix = match given {
        Some(given) => {
            let prefix = Prefix::compile(given);
            if texts().all(|text| prefix.matches(text, &mut times).is_none()) {
                return Err(match (foreign(texts()), unknown_zone(b"", &times)) {
                    (Some(word), _) => translated(word),
                    (None, Some(zone)) => LogError::Zone {
                        name: named(),
                        zone: zone.to_owned(),
                    },
                    (None, None) => LogError::PrefixMatchesNothing {
                        name: named(),
                        prefix: given.to_owned(),
                        line: String::from_utf8_lossy(texts().next().unwrap_or_default())
                            .into_owned(),
                        advice: prefix_advice(texts()),
                    },
                });
            }
            prefix
        }
        None => {
            let guessed = guess(&look.texts);
            match (foreign(texts()), guessed) {
                (Some(word), _) => return Err(translated(word)),
                (None, Some(prefix)) => prefix,
                (None, None) => return Ok(None),
            }
        }
    };
    let knows_time = look.texts.iter().all(|text| text.wall_us.is_some());
    let knows_process = look.texts.iter().all(|text| text.pid.is_some());
    let prefix = usable(prefix, knows_time, knows_process)?;
    wrapper.timed = !prefix.has_time();
    let mut walls = Vec::new();
    for text in &look.texts {
        let matched = prefix.matches(&text.bytes, &mut times);
        let own = matched.and_then(|matched| matched.fields.wall_us);
        walls.extend(match prefix.has_time() {
            true => own,
            false => text.wall_us,
        });
    }
    newest_first(name, format, &walls)?;
    wrapper.yearless = sample
        .split(|byte| *byte == b'\n')
        .filter(|_| format == LogFormat::Syslog)
        .find_map(syslog::yearless);
    Ok(walls.first().map(|first_us| Recognised {
        format,
        prefix: Some(prefix),
        first_us: *first_us,
        wrapper,
    }))
}

/// Takes a wrapper off the sample.
fn look(wrapper: &Wrapper, sample: &[u8]) -> Look {
    let mut unwrap = wrapper.unwrapper();
    let mut found = Look::default();
    let mut at = 0;
    while at < sample.len() && found.texts.len() < TEXTS_MAX {
        let mut strange = false;
        let mut texts = Vec::new();
        let record = unwrap.record(&sample[at..], true, &mut |part| {
            strange |= part.chunk == Chunk::Continues;
            let is_log = match wrapper.format {
                Some(LogFormat::Azure) => azure::is_server_log(&part.program),
                Some(LogFormat::CloudSql) => part.program == super::cloudsql::LOG,
                // The server always has its process written.
                Some(LogFormat::Syslog) => part.pid.is_some(),
                _ => true,
            };
            let first = part
                .text
                .split(|byte| *byte == b'\n')
                .next()
                .unwrap_or_default();
            let labelled = prefix::find_label(first).is_some()
                || std::str::from_utf8(first).is_ok_and(|first| foreign_word(first).is_some());
            if is_log && labelled && part.chunk != Chunk::Continues {
                texts.push(Text {
                    server: part.server.into_owned(),
                    program: part.program.into_owned(),
                    bytes: first.to_vec(),
                    wall_us: part.wall_us,
                    pid: part.pid,
                });
            }
        });
        let Some((said, length)) = record else { break };
        let lines = memchr::memchr_iter(b'\n', &sample[at..at + length])
            .count()
            .max(1);
        match said {
            // What would continue anything tells nothing.
            Said::Parts if strange => found.other += usize::from(found.own == 0),
            Said::Parts => found.own += lines,
            // The input may begin within a record.
            Said::Skipped(_) | Said::Unreadable(UnreadableReason::LooseContinuation) => (),
            Said::Unreadable(_) => found.other += 1,
        }
        found.texts.append(&mut texts);
        at += length;
        // Most logs are in no wrapper.
        if found.own == 0 && found.other > 100 {
            break;
        }
    }
    found
}

/// Whether most texts have their time behind one word.
fn behind_a_word(texts: &[Text]) -> bool {
    let mut times = Timestamps::default();
    let behind = texts.iter().filter(|text| {
        let bytes = &text.bytes[..];
        times.read(bytes).is_none()
            && memchr::memchr(b' ', bytes)
                .is_some_and(|blank| times.read(&bytes[blank + 1..]).is_some())
    });
    behind.count() * 2 > texts.len()
}

/// The prefix of texts, which may be without what the wrapper knows.
fn guess(texts: &[Text]) -> Option<Prefix> {
    if let Some(guessed) = prefix::guess(texts.iter().map(|text| &text.bytes[..])) {
        return Some(guessed.prefix);
    }
    // A time and a process before each make them lines that can be guessed.
    const BEFORE: &str = "%m [%p] ";
    let full: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| {
            let mut full =
                format!("2000-01-01 00:00:00.000 UTC [{}] ", text.pid.unwrap_or(1)).into_bytes();
            full.extend_from_slice(&text.bytes);
            full
        })
        .collect();
    let guessed = prefix::guess(full.iter().map(|line| &line[..]))?;
    let own = guessed.prefix.text().strip_prefix(BEFORE)?;
    let prefix = Prefix::compile(own);
    // A second number was taken for the line's, but may be the process's once more.
    let mut times = Timestamps::default();
    let again = texts.iter().all(|text| {
        prefix
            .matches(&text.bytes, &mut times)
            .is_none_or(|matched| {
                matched.fields.line_number != 0
                    && Some(matched.fields.line_number) == text.pid.map(u64::from)
            })
    });
    Some(match again && own.contains("%l") {
        true => Prefix::compile(&own.replacen("%l", "%p", 1)),
        false => prefix,
    })
}

/// Refuses what goes back in time.
fn newest_first(name: &str, format: LogFormat, walls: &[i64]) -> Result<(), LogError> {
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

fn cnpg_lines(name: &str, sample: &[u8]) -> Result<Option<Recognised>, LogError> {
    let (mut own, mut other) = (0usize, 0usize);
    let mut times = Timestamps::default();
    let mut records: Vec<(String, i64)> = Vec::new();
    let mut word = None;
    for line in sample.split_inclusive(|byte| *byte == b'\n').map(trimmed) {
        match cnpg::said(line) {
            _ if line.is_empty() => (),
            cnpg::Said::Record(line) => {
                own += 1;
                let severity = &*line.record.error_severity;
                let message = &*line.record.message;
                if is_foreign_label(severity) {
                    word.get_or_insert_with(|| severity.to_owned());
                } else if is_foreign_message(message) {
                    // A severity may be the same in both languages.
                    let start = message.split([':', ' ']).next().unwrap_or(message);
                    word.get_or_insert_with(|| start.to_owned());
                } else if Severity::parse(severity).is_none() {
                    continue;
                }
                if let Some(stamp) = times.read(line.record.log_time.as_bytes()) {
                    records.push((line.pod.into_owned(), stamp.wall_us));
                }
            }
            cnpg::Said::Other(_) => own += 1,
            cnpg::Said::Unreadable => other += 1,
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
    newest_first(name, LogFormat::Cnpg, &walls)?;
    Ok(walls.first().map(|first_us| Recognised {
        format: LogFormat::Cnpg,
        prefix: None,
        first_us: *first_us,
        wrapper: Wrapper {
            server: pod.clone(),
            ..Wrapper::default()
        },
    }))
}
