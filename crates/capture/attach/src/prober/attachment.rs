//! The programs and maps in the kernel.

use super::bpf::{self, Map, MapType, ProgramType};
use super::error::ProbeError;
use super::host::{probe_refusal, refusal, ring_refusal};
use super::programs::{self, Direction, MapDescriptors, Programs, counter, process_field};
use super::ring_buffer::RingBuffer;
use super::type_information::TaskOffsets;
use super::user_probe::{ProbePoint, ProbeSource};
use crate::server_process::functions;
use crate::server_process::{executable, identity};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Processes that can be recorded at the same time.
const PROCESSES_MAX: u32 = 16_384;
const TYPES: &str = "/sys/kernel/btf/vmlinux";
const ONLY_KEY: [u8; 4] = [0; 4];

/// Values that the kernel's programs count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub lost_bytes: u64,
    pub unreported_ends: u64,
    pub untracked_calls: u64,
}

/// Process that the kernel's programs record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordedProcess {
    pub pid: u32,
    pub started: u64,
    /// Time of its end, if it ended without a record.
    pub ended: Option<u64>,
    pub read: u64,
    pub written: u64,
    pub lost: u64,
}

/// Programs of the kernel with their maps. Dropping it removes all of them.
#[derive(Debug)]
pub(super) struct Attachment {
    pub ring: RingBuffer,
    processes: Map,
    settings: Map,
    counters: Map,
    /// Programs for `secure_read` and `secure_write`, at the call and at the return.
    programs: Vec<(Direction, ProbePoint, OwnedFd)>,
    _chain: Map,
    source: ProbeSource,
    /// Probes in the executable with this identity.
    probes: Option<((u64, u64), Vec<OwnedFd>)>,
    at_process_end: Option<OwnedFd>,
}

impl Attachment {
    /// Loads the programs.
    pub fn load(ring_bytes: u32) -> Result<Self, ProbeError> {
        let maps = "create the maps of an eBPF program";
        let map = |kind, key, value, entries| {
            Map::create(kind, key, value, entries).map_err(|error| refusal(maps, error))
        };
        let types = fs::read(TYPES).map_err(|error| ProbeError::NoTypes(error.to_string()))?;
        let task = TaskOffsets::find(&types)
            .ok_or_else(|| ProbeError::NoTypes("fields of task_struct are missing".to_owned()))?;
        let source = ProbeSource::find()
            .map_err(|error| refusal("use probes in programs (CONFIG_UPROBE_EVENTS)", error))?;
        let ring = RingBuffer::create(ring_bytes).map_err(ring_refusal)?;
        let (key, process) = (programs::KEY_BYTES, programs::PROCESS_BYTES);
        let processes = map(MapType::Hash, key, process, PROCESSES_MAX)?;
        let settings = map(MapType::Array, key, programs::SETTINGS_BYTES, 1)?;
        let counters = map(MapType::Array, key, programs::COUNTERS_BYTES, 1)?;
        let chain = map(MapType::ProgramArray, key, 4, 2)?;
        let descriptors = MapDescriptors {
            processes: processes.as_raw_fd(),
            settings: settings.as_raw_fd(),
            counters: counters.as_raw_fd(),
            ring: ring.as_raw_fd(),
            chain: chain.as_raw_fd(),
        };
        let code = Programs::new(descriptors, task).ok_or(ProbeError::Unsupported)?;
        let load = |kind, code: &[u64]| {
            bpf::load_program(kind, code).map_err(|error| refusal("load an eBPF program", error))
        };
        let mut loaded = Vec::new();
        for direction in [Direction::Read, Direction::Write] {
            let continued = load(ProgramType::Probe, &code.continued(direction))?;
            let value = continued.as_raw_fd().to_ne_bytes();
            chain
                .set(&(direction as u32).to_ne_bytes(), &value)
                .map_err(|error| refusal(maps, error))?;
            let at_call = load(ProgramType::Probe, &code.at_call(direction))?;
            let at_return = load(ProgramType::Probe, &code.at_return(direction))?;
            loaded.push((direction, ProbePoint::Call, at_call));
            loaded.push((direction, ProbePoint::Return, at_return));
        }
        let at_end = load(ProgramType::RawTracepoint, &code.at_process_end())?;
        let at_process_end = bpf::attach_to_tracepoint(c"sched_process_exit", at_end.as_fd())
            .map_err(|error| refusal("attach an eBPF program to the end of processes", error))?;
        Ok(Attachment {
            ring,
            processes,
            settings,
            counters,
            programs: loaded,
            _chain: chain,
            source,
            probes: None,
            at_process_end: Some(at_process_end),
        })
    }

    /// Records the children of a postmaster. Returns whether new probes were attached, since the executable is another
    /// one than before.
    pub fn attach(&mut self, postmaster: u32) -> Result<bool, ProbeError> {
        self.settings
            .set(&ONLY_KEY, &u64::from(postmaster).to_ne_bytes())
            .map_err(|error| refusal("write to a map of an eBPF program", error))?;
        let path = executable(postmaster);
        let current = identity(Path::new(&path));
        if current.is_some() && current == self.probes.as_ref().map(|(file, _)| *file) {
            return Ok(false);
        }
        let roots = [
            PathBuf::from(format!("/proc/{postmaster}/root")),
            PathBuf::from("/"),
        ];
        let offsets = functions::find(&path, &roots)?;
        let path = CString::new(path).expect("a path without NUL");
        let mut probes = Vec::new();
        // Those of `secure_write` first: a session whose first read is seen is then seen completely.
        for (direction, point, program) in self.programs.iter().rev() {
            let offset = match direction {
                Direction::Read => offsets.secure_read,
                Direction::Write => offsets.secure_write,
            };
            let probe = self.source.attach(&path, offset, *point, program.as_fd());
            probes.push(probe.map_err(probe_refusal)?);
        }
        self.probes = Some((current.unwrap_or_default(), probes));
        Ok(true)
    }

    /// Removes the probes. The ring buffer can still be read.
    pub fn detach(&mut self) {
        // In the reverse order of the attach, so that the answers to the last recorded requests are recorded, too.
        let (_, mut probes) = self.probes.take().unwrap_or_default();
        while let Some(probe) = probes.pop() {
            drop(probe);
        }
        self.at_process_end = None;
    }

    /// Returns the counters.
    pub fn counters(&self) -> Result<Counters, ProbeError> {
        let bytes = self.counters.get(&ONLY_KEY).map_err(unreadable)?;
        let value = |offset: i32| number(&bytes, offset as usize);
        Ok(Counters {
            lost_bytes: value(counter::LOST),
            unreported_ends: value(counter::UNREPORTED_ENDS),
            untracked_calls: value(counter::UNTRACKED_CALLS),
        })
    }

    /// Returns the recorded processes, or `None` if the map changed too often during the walk.
    pub fn processes(&self) -> Result<Option<Vec<RecordedProcess>>, ProbeError> {
        let mut found = Vec::new();
        let mut key = self.processes.next_key(None).map_err(unreadable)?;
        let mut steps = 0;
        // A process that ends during the walk restarts it, so that some are found twice.
        while let Some(current) = key {
            steps += 1;
            if steps > 2 * PROCESSES_MAX {
                return Ok(None);
            }
            found.extend(self.process(&current)?);
            key = self
                .processes
                .next_key(Some(&current))
                .map_err(unreadable)?;
        }
        // The last count of a process is the latest.
        found.reverse();
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        Ok(Some(found))
    }

    fn process(&self, key: &[u8]) -> Result<Option<RecordedProcess>, ProbeError> {
        match self.processes.get(key) {
            Ok(bytes) => Ok(Some(process(key, &bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Forgets a process that ended without a record, unless a new process has its number.
    pub fn forget(&self, process: &RecordedProcess) -> Result<(), ProbeError> {
        let key = process.pid.to_ne_bytes();
        if self.process(&key)?.as_ref() != Some(process) {
            return Ok(());
        }
        match self.processes.remove(&key) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unreadable(error)),
            _ => Ok(()),
        }
    }
}

fn unreadable(error: io::Error) -> ProbeError {
    refusal("read a map of an eBPF program", error)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..].first_chunk().expect("values have eight bytes");
    u64::from_ne_bytes(*bytes)
}

fn process(key: &[u8], value: &[u8]) -> RecordedProcess {
    let field = |offset: i16| number(value, offset as usize);
    RecordedProcess {
        pid: key.first_chunk().map_or(0, |key| u32::from_ne_bytes(*key)),
        started: field(process_field::STARTED),
        ended: Some(field(process_field::ENDED)).filter(|time| *time > 0),
        read: field(process_field::TOTAL),
        written: field(process_field::TOTAL + 8),
        lost: field(process_field::LOST),
    }
}
