//! Merges several packet files in time order.
//!
//! Each file is opened for its first packet's time, and opened again at its turn: a day in a
//! thousand files needs few of them open at once. Two files of the same time (for example of two
//! interfaces) are merged packet by packet.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use workload::SourceFile;

use super::account::PcapSource;
use super::error::PcapError;
use super::file::{Damage, NoPackets, Packet, PacketFile};
use super::packet_stream::{PacketStream, StopCheck};
use capture_sink::CountingReader;
use capture_sink::StreamState;
use capture_sink::compression::{Compression, FileFormat, MAGIC_BYTES, detect};
use capture_sink::open_input_file;

/// An open input.
struct OpenInput {
    name: String,
    file: PacketFile,
    raw: Arc<StreamState>,
    compression: Option<Compression>,
    /// Whether the user stopped the stream, so that its end is no damage.
    is_stopped: Arc<AtomicBool>,
}

/// An input before its turn.
struct PendingInput {
    path: PathBuf,
    first_us: Option<i64>,
    /// Set for standard input, which cannot be opened again.
    opened: Option<OpenInput>,
}

/// All inputs.
pub(super) struct Inputs {
    waiting: VecDeque<PendingInput>,
    open: Vec<(usize, OpenInput)>,
    sources: Vec<PcapSource>,
    dropped: u64,
    without_time: u64,
    raw_bytes_done: u64,
    has_stream: bool,
}

impl Inputs {
    /// Examines all inputs; `-` is standard input, which `stop` ends.
    pub(super) fn open(paths: &[PathBuf], stop: Option<&StopCheck>) -> Result<Self, PcapError> {
        if paths.is_empty() {
            return Err(PcapError::NoInput);
        }
        let mut waiting = Vec::new();
        for path in paths {
            let opened = OpenInput::open(path, stop)?;
            waiting.push(PendingInput {
                path: path.clone(),
                first_us: opened.file.packet().map(|packet| packet.at_us),
                opened: (path == Path::new("-")).then_some(opened),
            });
        }
        // Files without a packet come last.
        waiting.sort_by_key(|waiting| waiting.first_us.unwrap_or(i64::MAX));
        Ok(Self::from_pending(waiting))
    }

    /// Creates it from an open reader.
    pub(super) fn from_reader(reader: Box<dyn Read + Send>, name: &str) -> Result<Self, PcapError> {
        let opened = OpenInput::on(reader, name, Arc::default())?;
        Ok(Self::from_pending(vec![PendingInput {
            path: PathBuf::from("-"),
            first_us: opened.file.packet().map(|packet| packet.at_us),
            opened: Some(opened),
        }]))
    }

    fn from_pending(waiting: Vec<PendingInput>) -> Self {
        let has_stream = waiting.iter().any(|waiting| waiting.opened.is_some());
        Inputs {
            waiting: waiting.into(),
            open: Vec::new(),
            sources: Vec::new(),
            dropped: 0,
            without_time: 0,
            raw_bytes_done: 0,
            has_stream,
        }
    }

    /// Passes the next packet to `take`; returns `false` at the end.
    pub(super) fn next(
        &mut self,
        take: impl FnOnce(Packet<'_>) -> Result<(), PcapError>,
    ) -> Result<bool, PcapError> {
        let (at, at_us) = loop {
            let mut earliest: Option<(usize, i64)> = None;
            for (at, (_, opened)) in self.open.iter().enumerate() {
                let at_us = opened.file.packet().map_or(i64::MAX, |packet| packet.at_us);
                if earliest.is_none_or(|(_, earliest_us)| at_us < earliest_us) {
                    earliest = Some((at, at_us));
                }
            }
            let opens = self.waiting.front().is_some_and(|waiting| {
                let first_us = waiting.first_us.unwrap_or(i64::MAX);
                earliest.is_none_or(|(_, at_us)| first_us <= at_us)
            });
            match (opens, earliest) {
                (true, _) => self.open_next()?,
                (false, Some(earliest)) => break earliest,
                (false, None) => return Ok(false),
            }
        };
        let (source, opened) = &mut self.open[at];
        let Some(packet) = opened.file.packet() else {
            let (source, opened) = (*source, self.open.remove(at).1);
            self.finish_input(source, &opened);
            return self.next(take);
        };
        self.sources[*source].first_us.get_or_insert(at_us);
        take(packet)?;
        opened.advance()?;
        Ok(true)
    }

    fn open_next(&mut self) -> Result<(), PcapError> {
        let Some(waiting) = self.waiting.pop_front() else {
            return Ok(());
        };
        let opened = match waiting.opened {
            Some(opened) => opened,
            None => OpenInput::open(&waiting.path, None)?,
        };
        self.sources.push(PcapSource {
            file: SourceFile {
                name: match waiting.path == Path::new("-") {
                    true => "-".to_owned(),
                    false => opened.name.clone(),
                },
                format: opened.file.format().to_owned(),
                bytes: 0,
            },
            ..PcapSource::default()
        });
        self.open.push((self.sources.len() - 1, opened));
        Ok(())
    }

    fn finish_input(&mut self, source: usize, opened: &OpenInput) {
        let (packets, without_time) = opened.file.packets();
        let source = &mut self.sources[source];
        source.file.bytes = opened.file.bytes();
        source.packets = packets + without_time;
        let damage = opened.file.damage().filter(|damage| {
            let is_stopped = opened.is_stopped.load(Ordering::Relaxed);
            !(is_stopped && matches!(damage, Damage::Truncated(_)))
        });
        source.damage = damage.map(Damage::to_string);
        self.dropped += opened.file.dropped();
        self.without_time += without_time;
        self.raw_bytes_done += opened.raw.bytes.load(Ordering::Relaxed);
    }

    /// Returns whether one of them cannot be read again.
    pub(super) fn has_stream(&self) -> bool {
        self.has_stream
    }

    /// Number of bytes read so far, before decompression.
    pub(super) fn raw_bytes(&self) -> u64 {
        let open = self.open.iter();
        let open: u64 = open
            .map(|(_, opened)| opened.raw.bytes.load(Ordering::Relaxed))
            .sum();
        self.raw_bytes_done + open
    }

    /// Returns the sources, the number of dropped packets that the files state, and the number of
    /// packets without a time.
    pub(super) fn finish(self) -> (Vec<PcapSource>, u64, u64) {
        (self.sources, self.dropped, self.without_time)
    }
}

impl OpenInput {
    fn open(path: &Path, stop: Option<&StopCheck>) -> Result<Self, PcapError> {
        let is_stream = path == Path::new("-");
        let name = match is_stream {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let failed = |error| PcapError::Read {
            name: name.clone(),
            error,
        };
        if is_stream {
            let is_stopped = Arc::new(AtomicBool::new(false));
            let stream = PacketStream::open(stop.cloned(), is_stopped.clone()).map_err(failed)?;
            return Self::on(Box::new(stream), &name, is_stopped);
        }
        let file = open_input_file(path).map_err(failed)?;
        Self::on(Box::new(file), &name, Arc::default())
    }

    fn on(
        reader: Box<dyn Read + Send>,
        name: &str,
        is_stopped: Arc<AtomicBool>,
    ) -> Result<Self, PcapError> {
        let failed = |error| PcapError::Read {
            name: name.to_owned(),
            error,
        };
        let raw = Arc::new(StreamState::default());
        let mut watched = CountingReader {
            reader,
            raw: raw.clone(),
        };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut watched)
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let file_format = detect(&magic);
        let whole = Cursor::new(magic).chain(watched);
        let (reader, compression): (Box<dyn Read + Send>, _) = match file_format {
            FileFormat::Compressed(compression) => (
                compression.decoder(whole).map_err(failed)?,
                Some(compression),
            ),
            // A format that is no log may be a packet file.
            FileFormat::Plain | FileFormat::Foreign(_) => (Box::new(whole), None),
        };
        match PacketFile::open(reader) {
            Ok(file) => Ok(OpenInput {
                name: name.to_owned(),
                file,
                raw,
                compression,
                is_stopped,
            }),
            Err(NoPackets::Foreign(advice)) => Err(PcapError::Foreign {
                name: name.to_owned(),
                advice: match (advice, file_format) {
                    (Some(advice), _) => advice.to_owned(),
                    (None, FileFormat::Foreign(foreign)) => {
                        format!("this is {}, so unpack it first", foreign.what)
                    }
                    (None, _) => "a server's log is read by `rehearse capture log`".to_owned(),
                },
            }),
            Err(NoPackets::Read(error)) => match compression {
                Some(compression) if !raw.failed.load(Ordering::Relaxed) => {
                    Err(PcapError::NoPackets {
                        name: name.to_owned(),
                        damage: format!(" that can be read: {}", compression.damage(&error)),
                    })
                }
                _ => Err(failed(error)),
            },
        }
    }

    /// Reads the next packet.
    fn advance(&mut self) -> Result<(), PcapError> {
        let Err(error) = self.file.advance() else {
            return Ok(());
        };
        match self.compression {
            Some(compression) if !self.raw.failed.load(Ordering::Relaxed) => {
                let damage = compression.damage(&error);
                self.file.end_with(match error.kind() {
                    io::ErrorKind::UnexpectedEof => Damage::Truncated(damage),
                    _ => Damage::Malformed(damage),
                });
                Ok(())
            }
            _ => Err(PcapError::Read {
                name: self.name.clone(),
                error,
            }),
        }
    }
}
