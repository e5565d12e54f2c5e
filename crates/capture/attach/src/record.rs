//! Records that the prober writes to its standard output, and that the unprivileged process reads.
//!
//! A record is a header of [`HEADER_BYTES`] bytes in little endian, followed by `length` bytes of data. The same
//! layout is in the ring buffer that the kernel's program fills, so that the prober copies records without changes.
//!
//! Facts about the servers that a decoder needs:
//!
//! - Up to version 16, the server answers `SSLRequest` and `GSSENCRequest` with `send`, so that the byte of this
//!   answer is in no record. From 17 on it goes through `secure_write` and is in a record
//!   (`src/backend/postmaster/postmaster.c` and `src/backend/tcop/backend_startup.c`).
//! - From version 17 on, a client can begin with TLS at once (`sslnegotiation=direct`). The server then reads the
//!   ClientHello with `secure_read`, before it begins TLS. So the first `FromClient` record begins with the byte 0x16,
//!   and the clear text begins with the next record.
//! - A process that was there before waits in `secure_read` when the probes are attached. The bytes that this call
//!   returns are not seen; the answer to them is.

use std::io::{self, Read};

/// Length of a record's header in bytes.
pub const HEADER_BYTES: usize = 48;

/// Maximum length of a record's data in bytes.
pub const DATA_BYTES_MAX: usize = 65_536;

/// Bit of the flags of a process that had started before the probes were attached.
pub(crate) const FLAG_EXISTING: u32 = 1;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Bytes that `secure_read` returned. The time is that of its return.
    FromClient = 1,
    /// Bytes that `secure_write` accepted. The time is that of its call.
    ToClient = 2,
    /// End of the process. The data are its byte counts, as in [`RecordKind::Position`]; the offset is that of
    /// `FromClient`.
    Closed = 3,
    /// Probes record the server whose postmaster is `pid`: at the beginning, and after each restart of the server. The data
    /// describe the server.
    Attached = 4,
    /// End of the server whose postmaster was `pid`. The prober waits for its next start. Processes that outlive the
    /// postmaster are recorded to their end.
    Detached = 5,
    /// Written about ten times a second. All records that were complete at its time precede it. The offset is the number of
    /// bytes that were lost in total, as counted by the kernel's program. The data are the number of calls in processes that
    /// it could not track ([`Record::untracked_calls`]), and the time of reading both counts ([`Record::counted_ns`]).
    Progress = 6,
    /// Byte counts of a process, lost bytes included ([`Record::totals`]). All earlier bytes are in earlier records or
    /// lost. Written after losses, and for each process at the end of the capture.
    Position = 7,
    /// Reason for which the prober ends, as a sentence for the user in UTF-8. No record follows.
    Failed = 8,
    /// Last record of a recording that was asked to end. A recording without it and without `Failed` is not complete.
    Ended = 9,
}

impl RecordKind {
    fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => RecordKind::FromClient,
            2 => RecordKind::ToClient,
            3 => RecordKind::Closed,
            4 => RecordKind::Attached,
            5 => RecordKind::Detached,
            6 => RecordKind::Progress,
            7 => RecordKind::Position,
            8 => RecordKind::Failed,
            9 => RecordKind::Ended,
            _ => return None,
        })
    }
}

/// Record of the prober.
///
/// Records of one process are in order. Those of different processes are nearly in the order of time: a call of
/// `secure_write` that waits for its client is recorded when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Process of the backend, or of the postmaster, as numbered in the prober's namespace of processes.
    pub pid: u32,
    /// Start of the process in nanoseconds of `CLOCK_BOOTTIME`. It distinguishes processes that have the same number.
    pub backend_started: u64,
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Number of bytes of this direction before the data, as counted in the kernel, lost ones included. It is 0 at
    /// the start of the process, or for a process that is `existing`, at the attach.
    pub offset: u64,
    /// Whether the process had started before the probes were attached.
    pub existing: bool,
    /// Bytes, as described at each [`RecordKind`].
    pub data: &'a [u8],
}

impl Record<'_> {
    /// Returns the bytes that the process read and wrote since its start or the attach, from a record of the kinds
    /// `Closed` and `Position`.
    pub fn totals(&self) -> Option<(u64, u64)> {
        match self.kind {
            RecordKind::Closed | RecordKind::Position => {
                let (read, rest) = self.data.split_first_chunk()?;
                let (written, _) = rest.split_first_chunk()?;
                Some((u64::from_le_bytes(*read), u64::from_le_bytes(*written)))
            }
            _ => None,
        }
    }

    /// Returns the number of calls whose bytes are in no record and no count, since more processes than the kernel's
    /// program can track were there, from a record of the kind `Progress`.
    pub fn untracked_calls(&self) -> Option<u64> {
        self.progress_number(0)
    }

    /// Returns the time at which the losses were counted, in nanoseconds of `CLOCK_MONOTONIC`, from a record of the kind
    /// `Progress`. It is later than the record's time if the pipe was full in between.
    pub fn counted_ns(&self) -> Option<u64> {
        self.progress_number(8)
    }

    fn progress_number(&self, at: usize) -> Option<u64> {
        match self.kind {
            RecordKind::Progress => {
                let bytes = self.data.get(at..)?.first_chunk()?;
                Some(u64::from_le_bytes(*bytes))
            }
            _ => None,
        }
    }

    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.existing { FLAG_EXISTING } else { 0 };
        out.extend((self.kind as u32).to_le_bytes());
        out.extend(self.pid.to_le_bytes());
        out.extend(self.backend_started.to_le_bytes());
        out.extend(self.time_ns.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend((self.data.len() as u32).to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend(0_u64.to_le_bytes());
        out.extend(self.data);
    }

    /// Decodes the record at the beginning of `bytes`. Returns it with its length in bytes, or `None` if it is
    /// incomplete.
    ///
    /// # Errors
    /// If the kind is unknown, or the length is above [`DATA_BYTES_MAX`].
    pub fn decode(bytes: &[u8]) -> io::Result<Option<(Record<'_>, usize)>> {
        let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Ok(None);
        };
        let short = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|index| header[at + index]));
        let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
        let length = short(32) as usize;
        let Some(kind) = RecordKind::from_number(short(0)).filter(|_| length <= DATA_BYTES_MAX)
        else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "a record of the prober has kind {} and {length} bytes",
                    short(0)
                ),
            ));
        };
        let record = rest.get(..length).map(|data| Record {
            kind,
            pid: short(4),
            backend_started: long(8),
            time_ns: long(16),
            offset: long(24),
            existing: short(36) & FLAG_EXISTING != 0,
            data,
        });
        Ok(record.map(|record| (record, HEADER_BYTES + length)))
    }
}

/// Bytes that one call of `read` asks for.
const READ_BYTES: usize = 256 * 1024;

/// Result of one read of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeState {
    /// It may have more.
    Open,
    /// The buffer has the permitted size, and was not read from.
    BufferFull,
    /// The writer has ended.
    Ended,
}

/// Reads the records of a prober from its pipe.
pub struct RecordReader<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> RecordReader<R> {
    /// Creates a reader of `input`.
    pub fn new(input: R) -> Self {
        RecordReader {
            input,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Returns the pipe.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// Returns the length of what was read and not returned as a record.
    pub fn unread_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether a complete record was read and not returned.
    pub fn has_record(&self) -> bool {
        matches!(
            Record::decode(&self.buffer[self.start..self.end]),
            Ok(Some(_))
        )
    }

    /// Reads the pipe once. The buffer grows up to `limit` bytes, at least to 256 KiB.
    ///
    /// # Errors
    /// If reading fails. A pipe in non-blocking mode that has nothing is no error.
    pub fn fill(&mut self, limit: usize) -> io::Result<PipeState> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == 0 && self.buffer.len() > READ_BYTES {
            self.buffer = vec![0; READ_BYTES];
        }
        if self.end == self.buffer.len() {
            if self.end >= limit {
                return Ok(PipeState::BufferFull);
            }
            self.buffer.resize((2 * self.end).min(limit), 0);
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => return Ok(PipeState::Ended),
            Ok(count) => self.end += count,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) => {}
            Err(error) => return Err(error),
        }
        Ok(PipeState::Open)
    }

    /// Returns the next record that was read completely.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn next_buffered(&mut self) -> io::Result<Option<Record<'_>>> {
        let unread = &self.buffer[self.start..self.end];
        let decoded = Record::decode(unread)?;
        self.start += decoded.map_or(0, |(_, length)| length);
        Ok(decoded.map(|(record, _)| record))
    }

    /// Returns the next record, or `None` at the end of the pipe. A pipe in non-blocking mode is polled without a pause.
    ///
    /// # Errors
    /// If reading fails, a record is invalid, or the pipe ends within a record.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the buffer")]
    pub fn next(&mut self) -> io::Result<Option<Record<'_>>> {
        while Record::decode(&self.buffer[self.start..self.end])?.is_none() {
            if self.fill(READ_BYTES)? == PipeState::Ended {
                return self.check_end().map(|()| None);
            }
        }
        self.next_buffered()
    }

    /// Checks that the pipe did not end within a record.
    ///
    /// # Errors
    /// `UnexpectedEof` if it did.
    pub fn check_end(&self) -> io::Result<()> {
        match self.unread_bytes() {
            0 => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reader that returns a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    proptest! {
        #[test]
        fn record_decoded_from_a_pipe_is_the_encoded_one(
            kind in 1_u32..=9,
            numbers: (u32, u64, u64, u64, bool),
            sizes in prop::collection::vec(0_usize..300, 1..6),
            step in 1_usize..200,
        ) {
            let (pid, backend_started, time_ns, offset, existing) = numbers;
            let kind = RecordKind::from_number(kind).unwrap();
            let data: Vec<Vec<u8>> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
            let mut bytes = Vec::new();
            let records: Vec<Record<'_>> = data
                .iter()
                .map(|data| Record { kind, pid, backend_started, time_ns, offset, existing, data })
                .collect();
            for record in &records {
                record.encode(&mut bytes);
            }
            let mut reader = RecordReader::new(Trickle(&bytes, step));
            for record in &records {
                prop_assert_eq!(reader.next().unwrap().unwrap(), *record);
            }
            prop_assert!(reader.next().unwrap().is_none());
        }
    }

    #[test]
    fn pipe_that_ends_within_a_record_is_an_error() {
        let mut bytes = Vec::new();
        let record = Record {
            kind: RecordKind::Closed,
            pid: 1,
            backend_started: 2,
            time_ns: 3,
            offset: 4,
            existing: false,
            data: &[7; 16],
        };
        record.encode(&mut bytes);
        assert_eq!(
            record.totals(),
            Some((0x0707_0707_0707_0707, 0x0707_0707_0707_0707))
        );
        let mut reader = RecordReader::new(&bytes[..bytes.len() - 1]);
        assert_eq!(
            reader.next().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        bytes[0] = 10;
        assert!(Record::decode(&bytes).is_err());
    }
}
