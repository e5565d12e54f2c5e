//! Records CPU profiles of a server on this machine.
//!
//! The program starts a [`Profiling`] before a replay's first statement (or for a period), sets the run's
//! start time and the backends of sessions, and ends it after the last statement. `perf` records ([`perf`])
//! into a [`Spool`], `perf script` converts the recording to text, [`script`] parses it, and stacks
//! and samples are written to the run's tables as they come. A failure here does not fail a replay: it
//! becomes the reason why the profile is off, or a note.
//!
//! Stacks are interpreted by `crate::phases`. Samples are attributed to statements by time and backend when a
//! profile is read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login};
use run::{ArchiveError, ProfileInfo, ProfileWriter, ProfiledBackend, SessionBackend, StackSample};

use crate::backend_sampler::{BackendSampler, SampledBackends};
use crate::debug_symbols::note_unnamed;
use crate::perf::{self, Recording, RecordingMode, Scope, Unavailable};
use crate::proc::Process;
use crate::processes;
use crate::run_origin::RunOrigin;
use crate::sample_coverage::{Counts, MachineTime};
use crate::script::{self, Entry, ScriptReader};
use crate::spool::Spool;
use crate::stacks::Stacks;
use crate::task_clock::TaskClockCounter;

/// Default number of samples per second of CPU time. It is not 100, which would be in phase with periodic
/// activity.
pub const FREQUENCY_HZ: u32 = 99;
/// Maximum number of samples of a run: 12 hours of two busy processors.
const SAMPLES_MAX: u64 = 10_000_000;
/// Maximum number of processes with samples.
const BACKENDS_MAX: usize = 100_000;
/// Number of samples at either end whose times are stored, more than come while a recording begins or ends.
const EDGE_SAMPLES_MAX: usize = 1 << 16;
/// Maximum difference between the start times of a process by the server and by the machine, in seconds.
const SAME_TIME_S: f64 = 3.0;

/// Returns the CPU time of a server's processes since its start as the kernel counts it, in nanoseconds,
/// including ended processes. `None` if the postmaster is not on this machine.
pub fn server_cpu_ns(postmaster: u32) -> Option<u64> {
    processes::cpu_ns(postmaster, true)
}

/// Options of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Samples per second of CPU time.
    pub frequency_hz: u32,
    /// Whether to sample the statements of backends from the server, because no replay records them.
    pub statements: bool,
    /// Whether to count the server's CPU time with the kernel's task counters as well, if `perf` records all
    /// of it. They are exact to each switch, and cost about 1 % for short statements (docs/benchmarks/observation.md).
    pub task_clock: bool,
    /// Program to record with.
    pub perf: String,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        ProfileOptions {
            frequency_hz: FREQUENCY_HZ,
            statements: false,
            task_clock: true,
            perf: "perf".to_owned(),
        }
    }
}

/// A profile that is being recorded, or the reason why it is not.
pub struct Profiling {
    writer: Arc<Mutex<ProfileWriter>>,
    clock: Arc<dyn Clock>,
    origin: Arc<RunOrigin>,
    state: State,
}

enum State {
    Off(Unavailable),
    Active(Box<ActiveProfile>),
}

struct ActiveProfile {
    recording: Recording,
    way: RecordingMode,
    info: ProfileInfo,
    postmaster: u32,
    /// Kernel's count at the start of the recording.
    cpu_from: Option<u64>,
    machine_from: Option<MachineTime>,
    begun_ns: i64,
    /// Task counters, or the reason why there are none; `None` if they are not requested, or cannot count all
    /// processes.
    counting: Option<Result<TaskClockCounter, String>>,
    spool: Arc<Spool>,
    threads: Threads,
}

/// Threads of a recording.
struct Threads {
    filling: JoinHandle<()>,
    reading: JoinHandle<RecordedSamples>,
    sampling: JoinHandle<()>,
    /// Tells the sampling thread to stop.
    stop: Arc<AtomicBool>,
    sampled: Arc<Mutex<SampledBackends>>,
}

impl Threads {
    /// Starts to copy the recording to its spool, to read it, and to sample backends.
    fn start(
        output: impl std::io::Read + Send + 'static,
        reader: SpoolReader,
        sampler: BackendSampler,
    ) -> Self {
        let spool = Arc::clone(&reader.spool);
        Threads {
            stop: Arc::clone(&sampler.stop),
            sampled: Arc::clone(&sampler.sampled),
            filling: std::thread::spawn(move || spool.fill(output)),
            reading: std::thread::spawn(move || reader.run()),
            sampling: std::thread::spawn(move || sampler.run()),
        }
    }

    /// Waits for the threads. A panic of one of them is propagated.
    fn join(self) -> RecordedSamples {
        let filled = self.filling.join();
        let read = self.reading.join();
        let sampled = self.sampling.join();
        match (filled, read, sampled) {
            (Ok(()), Ok(read), Ok(())) => read,
            (Err(panic), ..) | (_, Err(panic), _) | (_, _, Err(panic)) => {
                std::panic::resume_unwind(panic)
            }
        }
    }

    /// Waits for the threads, and ignores their results.
    fn abandon(self) {
        let _ = self.filling.join();
        let _ = self.reading.join();
        let _ = self.sampling.join();
    }
}

/// Samples of a recording.
#[derive(Default)]
struct RecordedSamples {
    stacks: Stacks,
    backends: BTreeMap<u32, (u64, &'static str)>,
    samples: u64,
    left_out: u64,
    lost: u64,
    unreadable: u64,
    /// Number of programs that the server's processes started (`archive_command`). Task counters include
    /// them, samples do not.
    programs: u64,
    /// Times of the first and the last samples. Samples before the start and after the end of the count are
    /// excluded.
    first: Vec<i64>,
    last: VecDeque<i64>,
    failed: Option<String>,
}

impl Profiling {
    /// Starts to record a target's processes if possible. Otherwise the profile is off and has a reason.
    /// Takes about two seconds to find a recording mode. `login` is any login that the target accepts.
    pub fn start(
        target: &Target,
        login: &Login,
        options: &ProfileOptions,
        writer: ProfileWriter,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let writer = Arc::new(Mutex::new(writer));
        let origin = Arc::new(RunOrigin::default());
        let machine_ns = clock::monotonic_ns() - clock.now_ns();
        origin.machine_ns.store(machine_ns, Ordering::Release);
        let state = match begin(target, login, options, &writer, &clock, &origin) {
            Ok(on) => State::Active(Box::new(on)),
            Err(off) => State::Off(off),
        };
        Profiling {
            writer,
            clock,
            origin,
            state,
        }
    }

    /// Describes the recording, or the reason why it is off and its remedy, in one line.
    pub fn describe(&self) -> String {
        match &self.state {
            State::Off(Unavailable { reason, remedy }) => match remedy {
                None => format!("No CPU profile: {reason}."),
                Some(remedy) => format!("No CPU profile: {reason}; {remedy}."),
            },
            State::Active(on) => format!(
                "CPU profile: {} Hz of {}, stacks by {} (share of a trial's that reached main: {}){}{}.",
                on.info.frequency_hz,
                on.info.scope,
                on.info.unwinding,
                on.info.trial,
                match on.info.kernel {
                    true => "",
                    false => ", without the kernel's part",
                },
                match &on.counting {
                    Some(Err(why)) => format!("; {}", task_clock_failure(why)),
                    _ => String::new(),
                }
            ),
        }
    }

    /// Whether it records.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::Active(_))
    }

    /// Sets the elapsed time of the run. The first call counts; the processing of samples waits for it.
    pub fn set_run_time(&self, elapsed_ns: i64) {
        if !self.origin.known.load(Ordering::Acquire) {
            let zero_ns = self.clock.now_ns() - elapsed_ns;
            self.origin.clock_ns.store(zero_ns, Ordering::Release);
            self.origin.known.store(true, Ordering::Release);
        }
    }

    /// Records the backends of sessions, in time order.
    ///
    /// # Errors
    /// If writing fails.
    pub fn sessions(&self, sessions: &[SessionBackend]) -> Result<(), ArchiveError> {
        let mut writer = lock(&self.writer);
        sessions.iter().try_for_each(|one| writer.session(one))
    }

    /// Ends the recording, processes the remaining samples, and returns the writer.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> Result<ProfileWriter, ArchiveError> {
        self.set_run_time(0);
        let info = match self.state {
            State::Off(Unavailable { reason, remedy }) => ProfileInfo {
                off: Some(reason),
                remedy,
                ..ProfileInfo::default()
            },
            State::Active(on) => on.finish(&self.writer, &self.clock, &self.origin)?,
        };
        let mut writer = Arc::into_inner(self.writer)
            .and_then(|writer| writer.into_inner().ok())
            .expect("all threads have ended");
        writer.info(&info)?;
        Ok(writer)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn task_clock_failure(why: &str) -> String {
    format!(
        "the kernel's counters of tasks count nothing: {why}; its scheduler's count is all there is"
    )
}

fn off(reason: impl Into<String>, remedy: Option<&str>) -> Unavailable {
    Unavailable {
        reason: reason.into(),
        remedy: remedy.map(str::to_owned),
    }
}

/// Finds the server's postmaster on this machine.
fn postmaster(dialer: &Dialer, login: &Login) -> Result<u32, Unavailable> {
    let elsewhere = || {
        off(
            "the server's processes are not on this machine, or not to be seen under its numbers",
            Some("run rehearse on the server's machine, outside of containers"),
        )
    };
    let mut questions = dialer
        .open_query_connection(login)
        .map_err(|error| off(error.message, None))?;
    let rows = questions
        .query("SELECT pid, extract(epoch FROM backend_start)::float8, extract(epoch FROM pg_catalog.pg_postmaster_start_time())::float8 FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()")
        .map_err(|error| off(error.message, None))?;
    let number =
        |column: usize| -> Option<f64> { rows.first()?.get(column)?.as_ref()?.parse().ok() };
    let (Some(pid), Some(began_s), Some(up_s)) = (number(0), number(1), number(2)) else {
        return Err(elsewhere());
    };
    // The process id alone may be that of another process of this machine. Both processes must have started
    // at the time that the server reports.
    let is = |process: &Process, s: f64| {
        processes::started_s(process).is_some_and(|started_s| (started_s - s).abs() < SAME_TIME_S)
    };
    let backend = processes::process(pid as u32).filter(|one| is(one, began_s));
    let parent = backend.and_then(|one| processes::process(one.parent));
    match parent.filter(|one| is(one, up_s)) {
        Some(postmaster) => Ok(postmaster.pid),
        None => Err(elsewhere()),
    }
}

/// Checks that `perf` can be run.
fn check_perf(perf: &str) -> Result<(), Unavailable> {
    if !cfg!(target_os = "linux") {
        return Err(off("perf records on Linux only", None));
    }
    let version = std::process::Command::new(perf).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(off(
            format!("there is no program `{perf}` that works here"),
            Some("install it (Debian: linux-perf; Ubuntu: linux-tools-generic; others: perf)"),
        ));
    }
    Ok(())
}

fn begin(
    target: &Target,
    login: &Login,
    options: &ProfileOptions,
    writer: &Arc<Mutex<ProfileWriter>>,
    clock: &Arc<dyn Clock>,
    origin: &Arc<RunOrigin>,
) -> Result<ActiveProfile, Unavailable> {
    let perf = &options.perf;
    check_perf(perf)?;
    let login = Login {
        application: Arc::from("rehearse profile"),
        ..login.clone()
    };
    let dialer = Dialer::new(target).map_err(|error| off(error.to_string(), None))?;
    let dialer = Arc::new(dialer);
    let postmaster = postmaster(&dialer, &login)?;
    let (way, trial) = perf::find_recording_mode(perf, &dialer, &login, postmaster, &**clock)?;
    let family = processes::family(postmaster);
    let name = processes::process(postmaster).map_or_else(String::new, |one| one.name);
    let spool = Spool::new().map_err(|error| {
        off(
            format!("there is no place for what perf records: {error}"),
            Some("name one with room in TMPDIR"),
        )
    })?;
    let spool = Arc::new(spool);
    let list: Vec<u32> = family.iter().copied().collect();
    let mut recording = Recording::start(perf, way, options.frequency_hz, &list)
        .map_err(|error| off(format!("perf cannot be started: {error}"), None))?;
    let output = recording.output();
    let reader = SpoolReader {
        perf: perf.clone(),
        name,
        postmaster,
        family,
        spool: Arc::clone(&spool),
        origin: Arc::clone(origin),
        writer: Arc::clone(writer),
    };
    let sampler = BackendSampler {
        dialer,
        login,
        clock: Arc::clone(clock),
        statements: options.statements,
        stop: Arc::new(AtomicBool::new(false)),
        sampled: Arc::new(Mutex::default()),
        writer: Arc::clone(writer),
        origin: Arc::clone(origin),
    };
    let threads = Threads::start(output, reader, sampler);
    let recording = match recording.wait_until_begun() {
        Ok(recording) => recording,
        Err(reason) => {
            // The threads stop, since no data will come.
            threads.stop.store(true, Ordering::Relaxed);
            origin.known.store(true, Ordering::Release);
            threads.abandon();
            return Err(off(format!("perf failed: {reason}"), None));
        }
    };
    let counting =
        (options.task_clock && way.kernel).then(|| TaskClockCounter::start(perf, postmaster));
    Ok(ActiveProfile {
        info: ProfileInfo {
            event: perf::EVENT.to_owned(),
            frequency_hz: u64::from(options.frequency_hz),
            unwinding: way.unwinding.name().to_owned(),
            trial,
            scope: match way.scope {
                Scope::Machine => "all processors",
                Scope::Processes => "processes",
            }
            .to_owned(),
            kernel: way.kernel,
            ..ProfileInfo::default()
        },
        recording,
        way,
        postmaster,
        counting,
        cpu_from: processes::cpu_ns(postmaster, way.kernel),
        machine_from: MachineTime::now(),
        begun_ns: clock.now_ns(),
        spool,
        threads,
    })
}

impl ActiveProfile {
    fn finish(
        mut self,
        writer: &Mutex<ProfileWriter>,
        clock: &Arc<dyn Clock>,
        origin: &RunOrigin,
    ) -> Result<ProfileInfo, ArchiveError> {
        let cpu_until = processes::cpu_ns(self.postmaster, self.way.kernel);
        let machine_until = MachineTime::now();
        let ended_ns = clock.now_ns();
        let task_clock = self.counting.take().map(|counting| counting?.end());
        let mut info = std::mem::take(&mut self.info);
        info.begun_ns = origin.of_clock(self.begun_ns);
        info.ended_ns = origin.of_clock(ended_ns);
        info.cpu_ns = self
            .cpu_from
            .zip(cpu_until)
            .map(|(from, until)| until.saturating_sub(from));
        self.threads.stop.store(true, Ordering::Relaxed);
        let early = self.recording.has_ended();
        let mut notes = Vec::new();
        if let Err(reason) = self.recording.end() {
            notes.push(format!("perf failed: {reason}"));
        } else if early {
            notes.push("perf ended before the profile did".to_owned());
        }
        let sampled = Arc::clone(&self.threads.sampled);
        let mut read = self.threads.join();
        notes.extend(read.failed.take());
        note_losses(&read, &self.spool, self.way.scope, &mut notes);
        read.write_counts(&mut info);
        // Missing samples, or sampling by process, would explain a lower number.
        let has_all = info.lost + info.left_out + read.unreadable == 0 && notes.is_empty();
        let are_all = has_all && self.way.scope == Scope::Machine;
        info.same_as_counted = are_all && read.programs == 0;
        note_programs(read.programs, &task_clock, &mut notes);
        match task_clock {
            Some(Ok(ns)) => info.task_clock_ns = Some(ns),
            Some(Err(why)) => notes.push(task_clock_failure(&why)),
            None => {}
        }
        if let (Some(scheduler_ns), Some(from), Some(until)) =
            (info.cpu_ns, self.machine_from, machine_until)
        {
            let counts = Counts {
                samples: info.counted,
                frequency_hz: info.frequency_hz,
                scheduler_ns,
                task_clock_ns: info.task_clock_ns,
            };
            notes.extend(counts.notes(until.since(from), info.same_as_counted));
        }
        let unnamed = std::mem::take(&mut read.stacks.unnamed);
        let mut writer = lock(writer);
        for stack in read.stacks.all() {
            writer.stack(&stack)?;
        }
        let mut sampled = lock(&sampled);
        notes.append(&mut sampled.notes);
        for (pid, (samples, kind)) in &read.backends {
            let one = sampled.backends.remove(pid);
            let mut one = one.unwrap_or_else(|| ProfiledBackend {
                pid: u64::from(*pid),
                from_ns: self.begun_ns,
                ..ProfiledBackend::default()
            });
            one.from_ns = origin.of_clock(one.from_ns);
            one.samples = *samples;
            if one.kind.is_empty() {
                one.kind = match *pid == self.postmaster {
                    true => "postmaster".to_owned(),
                    false => (*kind).to_owned(),
                };
            }
            writer.backend(&one)?;
        }
        note_unnamed(&unnamed, read.samples, &mut notes);
        info.notes = notes;
        Ok(info)
    }
}

impl RecordedSamples {
    /// Sets the numbers of samples. `info` has the times of the count already.
    fn write_counts(&self, info: &mut ProfileInfo) {
        info.samples = self.samples;
        info.left_out = self.left_out;
        info.lost = self.lost;
        info.unwound = self.stacks.unwound;
        info.complete = self.stacks.complete;
        let before = self.first.iter().filter(|&&at| at < info.begun_ns).count();
        let after = self.last.iter().filter(|&&at| at > info.ended_ns).count();
        info.counted = self.samples.saturating_sub((before + after) as u64);
    }
}

/// Notes why samples are missing.
fn note_losses(read: &RecordedSamples, spool: &Spool, scope: Scope, notes: &mut Vec<String>) {
    if spool.written() == 0 && read.samples == 0 {
        notes.push("no sample was taken of the server".to_owned());
    }
    let blocked_ns = spool.blocked_ns();
    if blocked_ns > 0 {
        notes.push(format!(
            "perf's samples came faster than they could be read, and for {} there was no room for them: what was done then may have none",
            clock::duration_text(blocked_ns)
        ));
    }
    if read.unreadable > 0 {
        notes.push(format!(
            "{} lines of perf script were not understood",
            read.unreadable
        ));
    }
    if scope == Scope::Processes {
        notes.push("perf may watch processes only, not processors: a process that used less than a sample's time has no sample".to_owned());
    }
}

/// Notes that the task counters include programs that have no samples.
fn note_programs(programs: u64, task_clock: &Option<Result<u64, String>>, notes: &mut Vec<String>) {
    if programs > 0 && matches!(task_clock, Some(Ok(_))) {
        notes.push(format!(
            "{} started by the server's processes (archive_command, COPY … PROGRAM): the count of tasks has their time, and samples do \
             not, so that these are not weighed by it",
            match programs {
                1 => "a program was".to_owned(),
                more => format!("{more} programs were"),
            }
        ));
    }
}

/// Converts the spool to rows.
struct SpoolReader {
    perf: String,
    name: String,
    postmaster: u32,
    family: BTreeSet<u32>,
    spool: Arc<Spool>,
    origin: Arc<RunOrigin>,
    writer: Arc<Mutex<ProfileWriter>>,
}

impl SpoolReader {
    fn run(mut self) -> RecordedSamples {
        let mut read = RecordedSamples::default();
        let Some(is_over) = self.spool.wait_for_data() else {
            return read;
        };
        while !self.origin.known.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut child = match perf::script(&self.perf, &self.name, Stdio::piped(), !is_over) {
            Ok(child) => child,
            Err(error) => {
                read.failed = Some(format!("perf script cannot be started: {error}"));
                self.spool.drain(std::io::sink());
                return read;
            }
        };
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let complaint = perf::read_stderr_end(child.stderr.take());
        let feeding = {
            let spool = Arc::clone(&self.spool);
            std::thread::spawn(move || match stdin {
                Some(mut stdin) => spool.drain(&mut stdin) && stdin.flush().is_ok(),
                None => false,
            })
        };
        let mut reader = ScriptReader::default();
        if let Some(stdout) = stdout {
            perf::lines(stdout, |line| {
                let entry = reader.line(line);
                entry.is_none_or(|entry| self.add_entry(entry, &mut read))
            });
        }
        if let Some(entry) = reader.end() {
            self.add_entry(entry, &mut read);
        }
        let fed = feeding.join().unwrap_or(false);
        let status = child.wait();
        let complaint = complaint.join().unwrap_or_default();
        if !fed || !status.as_ref().is_ok_and(|status| status.success()) {
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            read.failed.get_or_insert_with(|| {
                format!("perf script ended early ({how}; it said: {complaint}): what came after is not in the profile")
            });
        }
        read.unreadable = reader.unreadable;
        read
    }

    /// Handles an entry. Returns `false` if reading should stop.
    fn add_entry(&mut self, entry: Entry, read: &mut RecordedSamples) -> bool {
        match entry {
            Entry::Fork { pid, parent, .. } => {
                if parent == self.postmaster {
                    self.family.insert(pid);
                } else if pid != self.postmaster {
                    read.programs += u64::from(self.family.contains(&parent));
                    self.family.remove(&pid);
                }
            }
            Entry::Exit { .. } => {}
            Entry::Lost(events) => read.lost += events,
            Entry::Sample {
                pid,
                time_ns,
                frames,
            } => {
                if !self.family.contains(&pid) {
                    return true;
                }
                if read.samples >= SAMPLES_MAX {
                    read.left_out += 1;
                    return true;
                }
                read.samples += 1;
                let at_ns = self.origin.of_machine(time_ns);
                if read.first.len() < EDGE_SAMPLES_MAX {
                    read.first.push(at_ns);
                }
                if read.last.len() == EDGE_SAMPLES_MAX {
                    read.last.pop_front();
                }
                read.last.push_back(at_ns);
                if read.backends.len() < BACKENDS_MAX || read.backends.contains_key(&pid) {
                    let one = read.backends.entry(pid).or_insert((0, "unknown"));
                    one.0 += 1;
                    if one.1 == "unknown" {
                        one.1 = backend_kind(&frames);
                    }
                }
                let stack = read.stacks.add(&frames);
                let row = StackSample {
                    at_ns,
                    pid: u64::from(pid),
                    stack: u64::from(stack),
                };
                if let Err(error) = lock(&self.writer).sample(&row) {
                    read.failed = Some(error.to_string());
                    return false;
                }
            }
        }
        true
    }
}

/// Returns the kind of a process, by the function that all its work is below. Names of PostgreSQL 13 to 18.
fn backend_kind(frames: &[script::Frame]) -> &'static str {
    const KINDS: [(&str, &str); 16] = [
        ("AutoVacWorkerMain", "autovacuum worker"),
        ("AutoVacLauncherMain", "autovacuum launcher"),
        ("CheckpointerMain", "checkpointer"),
        ("BackgroundWriterMain", "background writer"),
        ("WalWriterMain", "walwriter"),
        ("PgArchiverMain", "archiver"),
        ("StartupProcessMain", "startup"),
        ("WalReceiverMain", "walreceiver"),
        ("PgstatCollectorMain", "stats collector"),
        ("SysLoggerMain", "logger"),
        ("IoWorkerMain", "io worker"),
        ("ParallelWorkerMain", "parallel worker"),
        ("BackgroundWorkerMain", "background worker"),
        ("StartBackgroundWorker", "background worker"),
        ("PostgresMain", "client backend"),
        ("BackendMain", "client backend"),
    ];
    let known = |name: &str| frames.iter().any(|frame| frame.name == name);
    let kind = KINDS.iter().find(|(name, _)| known(name));
    kind.map_or("unknown", |(_, kind)| kind)
}
