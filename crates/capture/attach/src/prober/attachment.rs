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
/// Number that no postmaster has.
const NO_POSTMASTER: u64 = u64::MAX;

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
    /// Programs for `secure_read` and `secure_write`, at the call and at the return, in the order of attaching them.
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
        // Those of `secure_write` first: a session whose first read is seen is then seen completely. The probe at the call
        // is before that at the return, which would not know the address.
        for direction in [Direction::Write, Direction::Read] {
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
        let path = executable(postmaster);
        let current = identity(Path::new(&path));
        if current.is_some() && current == self.probes.as_ref().map(|(file, _)| *file) {
            self.set_postmaster(u64::from(postmaster))?;
            return Ok(false);
        }
        // The same file can have another identity, as in a container that is started again. Two probes at one point would
        // copy all bytes twice.
        self.probes = None;
        let roots = [
            PathBuf::from(format!("/proc/{postmaster}/root")),
            PathBuf::from("/"),
        ];
        let offsets = functions::find(&path, &roots)?;
        let path = CString::new(path).expect("a path without NUL");
        self.set_postmaster(u64::from(postmaster))?;
        let mut probes = Vec::new();
        for (direction, point, program) in &self.programs {
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

    /// Records no process that is not recorded yet, since another process can get the number of a postmaster that has ended.
    pub fn forget_postmaster(&self) -> Result<(), ProbeError> {
        self.set_postmaster(NO_POSTMASTER)
    }

    fn set_postmaster(&self, number: u64) -> Result<(), ProbeError> {
        self.settings
            .set(&ONLY_KEY, &number.to_ne_bytes())
            .map_err(|error| refusal("write to a map of an eBPF program", error))
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

    /// Returns whether a process is still recorded. The end of one that is not has a record in the ring buffer.
    pub fn is_recorded(&self, process: &RecordedProcess) -> Result<bool, ProbeError> {
        let found = self.process(&process.pid.to_ne_bytes())?;
        Ok(found.is_some_and(|found| found.started == process.started))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, RecordKind};
    use crate::server_process::{ServerSelection, find};

    /// Loads the programs, and finds the postmaster of a server. `None` if this host does not allow it.
    fn load(data_directory: &Path) -> Option<(Attachment, u32)> {
        let found = find(&ServerSelection::DataDirectory(data_directory.into()));
        let attachment = Attachment::load(8 << 20).map_err(|error| error.to_string());
        match (found, attachment) {
            (Ok(found), Ok(attachment)) => Some((attachment, found.pid)),
            (found, attachment) => {
                let reason = format!("{:?} {:?}", found.err(), attachment.err());
                assert!(!test_support::is_set("REHEARSE_TEST_ATTACH"), "{reason}");
                test_support::report_skipped(&reason);
                None
            }
        }
    }

    /// Returns the bytes from clients and to them in the ring buffer.
    fn copied(attachment: &mut Attachment) -> [Vec<u8>; 2] {
        let mut streams = [Vec::new(), Vec::new()];
        let drained = attachment.ring.drain(|sample| {
            let (record, _) = Record::decode(sample)?.expect("samples are complete");
            match record.kind {
                RecordKind::FromClient => streams[0].extend(record.data),
                RecordKind::ToClient => streams[1].extend(record.data),
                _ => (),
            }
            Ok(())
        });
        drained.unwrap();
        streams
    }

    #[test]
    fn bytes_are_copied_once_although_two_probes_are_at_each_point() {
        let (server, endpoint) = test_support::server().start();
        let Some((mut attachment, postmaster)) = load(server.data_dir()) else {
            return;
        };
        assert!(attachment.attach(postmaster).unwrap());
        let _earlier = attachment.probes.take();
        assert!(attachment.attach(postmaster).unwrap());
        // One write is longer than one program can copy.
        let sql = "SELECT repeat('x', 3000000)";
        test_support::connect(&endpoint).batch_execute(sql).unwrap();
        let [read, written] = copied(&mut attachment);
        assert_eq!(memchr::memmem::find_iter(&read, sql).count(), 1);
        assert!(written.len() > 2_000_000 && written.len() < 4_000_000);
        assert_eq!(attachment.counters().unwrap(), Counters::default());
    }

    #[test]
    fn read_that_was_called_before_the_attach_is_not_lost() {
        let (server, endpoint) = test_support::server().start();
        let Some((mut attachment, postmaster)) = load(server.data_dir()) else {
            return;
        };
        let mut client = test_support::connect(&endpoint);
        // All probes but the one at the call of `secure_read`.
        attachment.programs.retain(|(direction, point, _)| {
            (*direction, *point) != (Direction::Read, ProbePoint::Call)
        });
        attachment.attach(postmaster).unwrap();
        for _ in 0..2 {
            client.batch_execute("SELECT 1").unwrap();
        }
        let [read, written] = copied(&mut attachment);
        assert!(read.is_empty() && !written.is_empty());
        assert_eq!(attachment.counters().unwrap(), Counters::default());
    }
}
