//! Spill file: jobs on disk that wait for a slow session and exceed its share of memory.
//!
//! Each worker has one unlinked file. Chunks of jobs are appended, and the space of a chunk that was read back is
//! freed by punching a hole.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use run::{Captured, SkipReason, SourceLocation, StatementKind};
use sql::Fingerprint;
use sql::{SessionEffect, ValueToken};
use workload::{Boundary, ContextId, Sqlstate, TraceParent};

use crate::event_id::EventId;
use crate::generated::{ExpectedRows, UsedValue, Value};
use crate::job::{Action, Job, Messages, NamedStatement};
use crate::login::Login;

/// Position of a chunk in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    offset: u64,
    bytes: u64,
}

/// Spill file, created with the first chunk.
pub(crate) struct Spill {
    directory: PathBuf,
    file: Option<File>,
    end: u64,
    live: u64,
    jobs: u64,
    buffer: Vec<u8>,
}

impl Spill {
    pub(crate) fn new(directory: &Path) -> Self {
        Spill {
            directory: directory.to_owned(),
            file: None,
            end: 0,
            live: 0,
            jobs: 0,
            buffer: Vec::new(),
        }
    }

    /// Returns the number of spilled jobs.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Writes jobs as one chunk.
    pub(crate) fn write<'j>(&mut self, jobs: impl Iterator<Item = &'j Job>) -> io::Result<Chunk> {
        self.buffer.clear();
        let mut count = 0;
        for job in jobs {
            encode(job, &mut self.buffer);
            count += 1;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.directory)?),
        };
        file.write_all_at(&self.buffer, self.end)?;
        let chunk = Chunk {
            offset: self.end,
            bytes: self.buffer.len() as u64,
        };
        self.end += chunk.bytes;
        self.live += 1;
        self.jobs += count;
        Ok(chunk)
    }

    /// Reads a chunk back and frees its space.
    pub(crate) fn take(&mut self, chunk: Chunk) -> io::Result<Vec<Job>> {
        let file = self.file.as_mut().expect("a chunk was written to it");
        self.buffer.resize(chunk.bytes as usize, 0);
        file.read_exact_at(&mut self.buffer, chunk.offset)?;
        self.live -= 1;
        if self.live == 0 {
            file.set_len(0)?;
            self.end = 0;
        } else {
            punch(file, chunk);
        }
        let mut jobs = Vec::new();
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            let job = decode(&mut rest)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a spilled job"))?;
            jobs.push(job);
        }
        self.jobs -= jobs.len() as u64;
        Ok(jobs)
    }
}

/// Frees the space of a chunk. If the system or the file system cannot punch holes, the space is freed with the last
/// chunk.
#[cfg(target_os = "linux")]
fn punch(file: &File, chunk: Chunk) {
    // SAFETY: no pointers; the descriptor is open.
    unsafe {
        libc::fallocate(
            file.as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            chunk.offset as libc::off_t,
            chunk.bytes as libc::off_t,
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn punch(_: &File, _: Chunk) {}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    put_number(out, number.unwrap_or(0));
}

fn encode(job: &Job, out: &mut Vec<u8>) {
    put_number(out, job.session);
    put_number(out, job.sequence);
    put_number(out, job.due_ns as u64);
    put_number(out, job.captured_us as u64);
    put_option(out, job.think_ns.map(|think_ns| think_ns as u64));
    put(out, job.kind.name().as_bytes());
    put_option(out, job.fingerprint.map(|fingerprint| fingerprint.0));
    put_option(out, job.captured.duration_us);
    put_option(out, job.captured.rows);
    put_option(out, job.captured.digest);
    put(out, job.captured.sqlstate.map_or(&b""[..], |_| b"s"));
    out.extend_from_slice(&job.captured.sqlstate.map_or(*b"     ", |code| code.0));
    put_option(out, job.captured.context.map(|context| context.0));
    let trace = job.captured.trace.map(|trace| trace.to_string());
    put(out, trace.unwrap_or_default().as_bytes());
    put_number(out, job.commits_before);
    put_number(out, job.dependencies.len() as u64);
    for (session, sequence) in &job.dependencies {
        put_number(out, *session);
        put_number(out, *sequence);
    }
    let effect = job.session_effect;
    for flag in [
        effect.changes_state,
        effect.begins_transaction,
        effect.ends_transaction,
    ] {
        out.push(u8::from(flag));
    }
    put_option(out, job.captured.location.map(|place| place.source.into()));
    put_number(out, job.captured.location.map_or(0, |place| place.line));
    out.push(u8::from(job.awaited));
    out.push(u8::from(job.transaction_failed));
    put(out, job.boundary.name().as_bytes());
    encode_expected(job.expected.as_deref(), out);
    put_number(out, job.used.len() as u64);
    for used in &job.used {
        encode_used(used, out);
    }
    encode_action(&job.action, out);
}

fn encode_action(action: &Action, out: &mut Vec<u8>) {
    match action {
        Action::Connect(login) => {
            out.push(0);
            for text in [&login.user, &login.database, &login.application] {
                put(out, text.as_bytes());
            }
            // No role has an empty name.
            put(out, login.role.as_deref().unwrap_or("").as_bytes());
            put_number(out, login.settings.len() as u64);
            for (name, value) in login.settings.iter() {
                put(out, name.as_bytes());
                put(out, value.as_bytes());
            }
        }
        Action::Send(messages) => {
            out.push(1);
            put(out, &messages.bytes);
            put_number(out, u64::from(messages.close_bytes));
            put_number(out, u64::from(messages.parse_bytes));
            put_option(out, messages.named.map(|named| named.name));
            put_option(out, messages.named.map(|named| named.sql));
            out.push(u8::from(messages.reparses));
            out.push(u8::from(messages.extended));
            out.push(u8::from(messages.copy.is_some()));
            put(out, messages.copy.as_deref().unwrap_or_default());
        }
        Action::Skip(reason) => {
            out.push(2);
            put(out, reason.name().as_bytes());
        }
        Action::Refuse(sqlstate, message) => {
            out.push(3);
            out.extend_from_slice(&sqlstate.0);
            put(out, message.as_bytes());
        }
        Action::Disconnect => out.push(4),
        Action::Cancel => out.push(5),
        Action::Resume(_) => unreachable!("it is never queued"),
    }
}

fn decode(rest: &mut &[u8]) -> Option<Job> {
    let session = number(rest)?;
    let sequence = number(rest)?;
    let due_ns = number(rest)? as i64;
    let captured_us = number(rest)? as i64;
    let think_ns = option(rest)?.map(|think_ns| think_ns as i64);
    let kind = StatementKind::from_name(&text(rest)?)?;
    let fingerprint = option(rest)?.map(Fingerprint);
    let duration_us = option(rest)?;
    let rows = option(rest)?;
    let digest = option(rest)?;
    let has_sqlstate = !bytes_of(rest)?.is_empty();
    let code = Sqlstate(take(rest, 5)?.try_into().ok()?);
    let context = option(rest)?.map(ContextId);
    let trace = TraceParent::parse(&text(rest)?);
    let after = number(rest)?;
    let dependencies: Option<Box<[EventId]>> = (0..number(rest)?)
        .map(|_| Some((number(rest)?, number(rest)?)))
        .collect();
    let flags = take(rest, 3)?;
    let session_effect = SessionEffect {
        changes_state: flags[0] == 1,
        begins_transaction: flags[1] == 1,
        ends_transaction: flags[2] == 1,
    };
    let source = option(rest)?;
    let line = number(rest)?;
    let awaited = take(rest, 1)?[0] == 1;
    let transaction_failed = take(rest, 1)?[0] == 1;
    let boundary = Boundary::from_name(&text(rest)?)?;
    let expected = decode_expected(rest)?;
    let used: Option<Box<[UsedValue]>> = (0..number(rest)?).map(|_| decode_used(rest)).collect();
    let action = decode_action(rest)?;
    Some(Job {
        session,
        sequence,
        due_ns,
        captured_us,
        think_ns,
        kind,
        fingerprint,
        captured: Captured {
            duration_us,
            rows,
            sqlstate: has_sqlstate.then_some(code),
            digest,
            context,
            trace,
            location: source.and_then(|source| SourceLocation::of(source as u32, line)),
        },
        commits_before: after,
        dependencies: dependencies?,
        transaction_failed,
        session_effect,
        awaited,
        boundary,
        expected,
        used: used?,
        action,
    })
}

fn decode_action(rest: &mut &[u8]) -> Option<Action> {
    Some(match take(rest, 1)?[0] {
        0 => Action::Connect(Box::new(Login {
            user: text(rest)?.into(),
            database: text(rest)?.into(),
            application: text(rest)?.into(),
            role: Some(text(rest)?)
                .filter(|role| !role.is_empty())
                .map(Into::into),
            settings: {
                let mut settings = Vec::new();
                for _ in 0..number(rest)? {
                    settings.push((text(rest)?.into(), text(rest)?.into()));
                }
                settings.into()
            },
        })),
        1 => {
            let bytes = bytes_of(rest)?.to_vec();
            let close_bytes = number(rest)? as u32;
            let parse_bytes = number(rest)? as u32;
            let name = option(rest)?;
            let sql = option(rest)?;
            Action::Send(Messages {
                bytes,
                close_bytes,
                parse_bytes,
                named: name
                    .zip(sql)
                    .map(|(name, sql)| NamedStatement { name, sql }),
                reparses: take(rest, 1)?[0] == 1,
                extended: take(rest, 1)?[0] == 1,
                copy: {
                    let some = take(rest, 1)?[0] == 1;
                    let copy = bytes_of(rest)?.to_vec();
                    some.then_some(copy)
                },
            })
        }
        2 => Action::Skip(SkipReason::from_name(&text(rest)?)?),
        3 => {
            let code = Sqlstate(take(rest, 5)?.try_into().ok()?);
            Action::Refuse(code, text(rest)?)
        }
        4 => Action::Disconnect,
        5 => Action::Cancel,
        _ => return None,
    })
}

/// Encodes the number of columns and the values; no columns if there is nothing to learn.
fn encode_expected(expected: Option<&ExpectedRows>, out: &mut Vec<u8>) {
    let values = expected.map_or(&[][..], |expected| &expected.values);
    put_number(out, expected.map_or(0, |expected| expected.columns) as u64);
    put_number(out, values.len() as u64);
    for value in values {
        out.push(u8::from(value.is_some()));
        if let Some((value, number)) = value {
            encode_value(*value, out);
            put_number(out, *number);
        }
    }
}

fn decode_expected(rest: &mut &[u8]) -> Option<Option<Box<ExpectedRows>>> {
    let columns = number(rest)? as usize;
    let count = number(rest)?;
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(match take(rest, 1)?[0] {
            0 => None,
            _ => Some((decode_value(rest)?, number(rest)?)),
        });
    }
    Some((columns > 0).then(|| Box::new(ExpectedRows::new(columns, values.into()))))
}

fn encode_used(used: &UsedValue, out: &mut Vec<u8>) {
    let (start, end) = match &used.token {
        // No literal ends before it starts.
        ValueToken::Parameter(index) => (u64::MAX, *index as u64),
        ValueToken::Literal(range) => (range.start as u64, range.end as u64),
    };
    put_number(out, start);
    put_number(out, end);
    // No value is empty.
    let part = used.part.clone().unwrap_or_default();
    put_number(out, part.start as u64);
    put_number(out, part.end as u64);
    encode_value(used.captured, out);
    put_number(out, used.number);
}

fn decode_used(rest: &mut &[u8]) -> Option<UsedValue> {
    let (start, end) = (number(rest)?, number(rest)? as usize);
    let part = number(rest)? as usize..number(rest)? as usize;
    Some(UsedValue {
        part: (!part.is_empty()).then_some(part),
        token: match start {
            u64::MAX => ValueToken::Parameter(end),
            start => ValueToken::Literal(start as usize..end),
        },
        captured: decode_value(rest)?,
        number: number(rest)?,
    })
}

fn encode_value(value: Value, out: &mut Vec<u8>) {
    match value {
        Value::Integer(number) => {
            out.push(1);
            put_number(out, number as u64);
        }
        Value::Uuid(bytes) => {
            out.push(2);
            out.extend_from_slice(&bytes);
        }
        Value::Snapshot(parts) => {
            out.push(3);
            parts
                .iter()
                .for_each(|part| put_number(out, u64::from(*part)));
        }
    }
}

fn decode_value(rest: &mut &[u8]) -> Option<Value> {
    Some(match take(rest, 1)?[0] {
        1 => Value::Integer(number(rest)? as i64),
        2 => Value::Uuid(take(rest, 16)?.try_into().ok()?),
        3 => {
            let mut part = || u32::try_from(number(rest)?).ok();
            Value::Snapshot([part()?, part()?, part()?])
        }
        _ => return None,
    })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}

fn option(rest: &mut &[u8]) -> Option<Option<u64>> {
    let some = take(rest, 1)?[0] == 1;
    let value = number(rest)?;
    Some(some.then_some(value))
}

fn bytes_of<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    take(rest, length)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(bytes_of(rest)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::test_jobs::jobs_of_each_kind;

    #[test]
    fn spill_returns_jobs_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(directory.path());
        let jobs = jobs_of_each_kind();
        let first = spill.write(jobs.iter()).unwrap();
        let second = spill.write(jobs.iter().rev()).unwrap();
        assert_eq!(spill.take(first).unwrap(), jobs);
        let third = spill.write(jobs.iter().take(1)).unwrap();
        let reversed: Vec<Job> = jobs.iter().rev().cloned().collect();
        assert_eq!(spill.take(second).unwrap(), reversed);
        assert_eq!(spill.take(third).unwrap(), jobs[..1]);
        assert_eq!(spill.end, 0);
        // Unlinked from the start: nothing is left by a crash.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
