//! CPU profiles: what the server's processes were doing, a hundred times a second of processor time.
//!
//! Who drives: the program starts a [`Profiling`] before a replay's first statement (or for a while), tells
//! it where the run's time begins and which session speaks with which backend, and ends it behind the last
//! statement. `perf` records ([`perf`]), a [`Spool`](spool) holds what it gives, `perf script` turns that
//! into text, [`script`] reads the text, and stacks and samples go into the run's tables as they come.
//! Nothing here fails a replay: what cannot be had is the profile's reason for being off, or a note.
//!
//! Deliberately absent: what stacks mean (`crate::phases`), which statement a sample belongs to (found by
//! time and backend when a profile is read), and recording on another machine than this one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login};
use run::{ArchiveError, ProfileInfo, ProfileWriter, ProfiledBackend, SessionBackend, StackSample};

use crate::beside_kernel::{Counts, MachineTime};
use crate::counting::Counting;
use crate::perf::{self, Off, Recording, Scope, Way};
use crate::processes;
use crate::script::{self, Entry, ScriptReader};
use crate::spool::Spool;
use crate::stacks::Stacks;
use crate::watching::{Seen, Watch};

/// Samples a second of processor time where nothing else is said: not 100, which would keep step with what
/// happens a hundred times a second.
pub const FREQUENCY_HZ: u32 = 99;
/// The most samples that a run keeps: 12 hours of two processors that always work.
const SAMPLES_MAX: u64 = 10_000_000;
/// The most processes with samples that are listed.
const BACKENDS_MAX: usize = 100_000;
/// More samples than come while a recording begins or ends.
const EDGE: usize = 1 << 16;
/// How far the server's and the machine's idea of when a process began may lie apart, in seconds.
const SAME_TIME_S: f64 = 3.0;

/// The time that a server's processes used since it was started, as the kernel counts it, in nanoseconds, ended ones
/// included; `None` where its first process is not one of this machine's.
pub fn server_cpu_ns(postmaster: u32) -> Option<u64> {
    processes::cpu_ns(postmaster, true)
}

/// What shapes a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Samples a second of processor time.
    pub frequency_hz: u32,
    /// Nobody tells which statements backends carry out, so that the server is asked.
    pub statements: bool,
    /// The kernel's counters of tasks count the server's processor time as well, where `perf` sees all of it: exact to each
    /// switch, and of short statements about 1 % (docs/profile.md).
    pub task_clock: bool,
    /// The program to record with.
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

/// Where the run's time begins, on the clocks that are read here.
#[derive(Default)]
pub(crate) struct Origin {
    /// The machine's monotonic time less that of the clock.
    machine_ns: AtomicI64,
    /// The clock's time at which the run's is zero.
    clock_ns: AtomicI64,
    known: AtomicBool,
}

impl Origin {
    pub(crate) fn of_clock(&self, clock_ns: i64) -> i64 {
        clock_ns - self.clock_ns.load(Ordering::Acquire)
    }

    fn of_machine(&self, machine_ns: i64) -> i64 {
        self.of_clock(machine_ns - self.machine_ns.load(Ordering::Acquire))
    }
}

/// A profile that is being recorded, or is not.
pub struct Profiling {
    writer: Arc<Mutex<ProfileWriter>>,
    clock: Arc<dyn Clock>,
    origin: Arc<Origin>,
    state: State,
}

enum State {
    Off(Off),
    On(Box<On>),
}

struct On {
    recording: Recording,
    way: Way,
    info: ProfileInfo,
    postmaster: u32,
    /// The kernel's count when the recording had begun.
    cpu_from: Option<u64>,
    machine_from: Option<MachineTime>,
    begun_ns: i64,
    /// Counters of tasks, or why there are none; `None` where they were not asked for, or see a part only.
    counting: Option<Result<Counting, String>>,
    spool: Arc<Spool>,
    filling: JoinHandle<()>,
    reading: JoinHandle<Read>,
    watching: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

/// What became of the recording's samples.
#[derive(Default)]
struct Read {
    stacks: Stacks,
    backends: BTreeMap<u32, (u64, &'static str)>,
    samples: u64,
    left_out: u64,
    lost: u64,
    unreadable: u64,
    /// Programs that the server's processes started (`archive_command`): counters of tasks have them, samples do not.
    programs: u64,
    /// When the first and the last samples were taken: the account leaves out those before its beginning
    /// and behind its end.
    first: Vec<i64>,
    last: VecDeque<i64>,
    failed: Option<String>,
}

impl Profiling {
    /// Begins to record a target's processes, where that can be done from here; otherwise it is off and says
    /// why. Takes about two seconds, in which it tries out how. `login` is any that the target takes.
    pub fn start(
        target: &Target,
        login: &Login,
        options: &ProfileOptions,
        writer: ProfileWriter,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let writer = Arc::new(Mutex::new(writer));
        let origin = Arc::new(Origin::default());
        let machine_ns = clock::monotonic_ns() - clock.now_ns();
        origin.machine_ns.store(machine_ns, Ordering::Release);
        let state = match begin(target, login, options, &writer, &clock, &origin) {
            Ok(on) => State::On(Box::new(on)),
            Err(off) => State::Off(off),
        };
        Profiling {
            writer,
            clock,
            origin,
            state,
        }
    }

    /// What it does, or why it is off and what would change that, in a line.
    pub fn told(&self) -> String {
        match &self.state {
            State::Off(Off { reason, remedy }) => match remedy {
                None => format!("No CPU profile: {reason}."),
                Some(remedy) => format!("No CPU profile: {reason}; {remedy}."),
            },
            State::On(on) => format!(
                "CPU profile: {} Hz of {}, stacks by {} (of a trial's, so many reached main: {}){}{}.",
                on.info.frequency_hz,
                on.info.scope,
                on.info.unwinding,
                on.info.trial,
                match on.info.kernel {
                    true => "",
                    false => ", without the kernel's part",
                },
                match &on.counting {
                    Some(Err(why)) => format!("; {}", uncounted(why)),
                    _ => String::new(),
                }
            ),
        }
    }

    /// Whether it records.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On(_))
    }

    /// Says that the run is this old now. The first time counts; samples wait for it.
    pub fn run_is(&self, elapsed_ns: i64) {
        if !self.origin.known.load(Ordering::Acquire) {
            let zero_ns = self.clock.now_ns() - elapsed_ns;
            self.origin.clock_ns.store(zero_ns, Ordering::Release);
            self.origin.known.store(true, Ordering::Release);
        }
    }

    /// Takes which backends sessions speak with, in the order of time.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn sessions(&self, sessions: &[SessionBackend]) -> Result<(), ArchiveError> {
        let mut writer = lock(&self.writer);
        sessions.iter().try_for_each(|one| writer.session(one))
    }

    /// Ends the recording, reads what is left of it, and gives the tables back.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn finish(self) -> Result<ProfileWriter, ArchiveError> {
        self.run_is(0);
        let info = match self.state {
            State::Off(Off { reason, remedy }) => ProfileInfo {
                off: Some(reason),
                remedy,
                ..ProfileInfo::default()
            },
            State::On(on) => on.finish(&self.writer, &self.clock, &self.origin)?,
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

fn uncounted(why: &str) -> String {
    format!(
        "the kernel's counters of tasks count nothing: {why}; its scheduler's count is all there is"
    )
}

fn off(reason: impl Into<String>, remedy: Option<&str>) -> Off {
    Off {
        reason: reason.into(),
        remedy: remedy.map(str::to_owned),
    }
}

/// Finds the server's first process on this machine.
fn postmaster(dialer: &Dialer, login: &Login) -> Result<u32, Off> {
    let elsewhere = || {
        off(
            "the server's processes are not on this machine, or not to be seen under its numbers",
            Some("run rehearse on the server's machine, outside of containers"),
        )
    };
    let mut questions = dialer
        .questions(login)
        .map_err(|error| off(error.message, None))?;
    let rows = questions
        .ask("SELECT pid, extract(epoch FROM backend_start)::float8, extract(epoch FROM pg_catalog.pg_postmaster_start_time())::float8 FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()")
        .map_err(|error| off(error.message, None))?;
    let number =
        |column: usize| -> Option<f64> { rows.first()?.get(column)?.as_ref()?.parse().ok() };
    let (Some(pid), Some(began_s), Some(up_s)) = (number(0), number(1), number(2)) else {
        return Err(elsewhere());
    };
    // A number alone may be that of any process of this machine: both must have begun when the server
    // says that they did.
    let is = |process: &processes::Process, s: f64| (process.started_s - s).abs() < SAME_TIME_S;
    let backend = processes::process(pid as u32).filter(|one| is(one, began_s));
    let parent = backend.and_then(|one| processes::process(one.parent));
    match parent.filter(|one| is(one, up_s)) {
        Some(postmaster) => Ok(postmaster.pid),
        None => Err(elsewhere()),
    }
}

fn begin(
    target: &Target,
    login: &Login,
    options: &ProfileOptions,
    writer: &Arc<Mutex<ProfileWriter>>,
    clock: &Arc<dyn Clock>,
    origin: &Arc<Origin>,
) -> Result<On, Off> {
    if !cfg!(target_os = "linux") {
        return Err(off("perf records on Linux only", None));
    }
    let perf = &options.perf;
    let version = std::process::Command::new(perf).arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(off(
            format!("there is no program `{perf}` that works here"),
            Some("install it (Debian: linux-perf; Ubuntu: linux-tools-generic; others: perf)"),
        ));
    }
    let login = Login {
        application: Arc::from("rehearse profile"),
        ..login.clone()
    };
    let dialer = Dialer::new(target).map_err(|error| off(error.to_string(), None))?;
    let dialer = Arc::new(dialer);
    let postmaster = postmaster(&dialer, &login)?;
    let (way, trial) = perf::find_way(perf, &dialer, &login, postmaster, &**clock)?;
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
    let filling = {
        let spool = Arc::clone(&spool);
        std::thread::spawn(move || spool.fill(output))
    };
    let reading = {
        let reader = Reader {
            perf: perf.clone(),
            name,
            postmaster,
            family,
            spool: Arc::clone(&spool),
            origin: Arc::clone(origin),
            writer: Arc::clone(writer),
        };
        std::thread::spawn(move || reader.run())
    };
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
    let watch = Watch {
        dialer,
        login,
        clock: Arc::clone(clock),
        statements: options.statements,
        stop: Arc::clone(&stop),
        seen: Arc::clone(&seen),
        writer: Arc::clone(writer),
        origin: Arc::clone(origin),
    };
    let watching = std::thread::spawn(move || watch.run());
    let recording = match recording.wait_until_begun() {
        Ok(recording) => recording,
        Err(reason) => {
            // Nobody waits for what does not come.
            stop.store(true, Ordering::Relaxed);
            origin.known.store(true, Ordering::Release);
            let _ = filling.join();
            let _ = reading.join();
            let _ = watching.join();
            return Err(off(format!("perf failed: {reason}"), None));
        }
    };
    let counting = (options.task_clock && way.kernel).then(|| Counting::start(perf, postmaster));
    Ok(On {
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
        filling,
        reading,
        watching,
        stop,
        seen,
    })
}

impl On {
    fn finish(
        mut self,
        writer: &Mutex<ProfileWriter>,
        clock: &Arc<dyn Clock>,
        origin: &Origin,
    ) -> Result<ProfileInfo, ArchiveError> {
        let mut info = self.info;
        let cpu_until = processes::cpu_ns(self.postmaster, self.way.kernel);
        let machine_until = MachineTime::now();
        let ended_ns = clock.now_ns();
        let task_clock = self.counting.map(|counting| counting?.end());
        info.begun_ns = origin.of_clock(self.begun_ns);
        info.ended_ns = origin.of_clock(ended_ns);
        info.cpu_ns = self
            .cpu_from
            .zip(cpu_until)
            .map(|(from, until)| until.saturating_sub(from));
        self.stop.store(true, Ordering::Relaxed);
        let early = self.recording.has_ended();
        let mut notes = Vec::new();
        if let Err(reason) = self.recording.end() {
            notes.push(format!("perf failed: {reason}"));
        } else if early {
            notes.push("perf ended before the profile did".to_owned());
        }
        let joined = self.filling.join();
        let read = self.reading.join();
        let watched = self.watching.join();
        let mut read = match (joined, read, watched) {
            (Ok(()), Ok(read), Ok(())) => read,
            (Err(panic), ..) | (_, Err(panic), _) | (_, _, Err(panic)) => {
                std::panic::resume_unwind(panic)
            }
        };
        notes.extend(read.failed.take());
        if self.spool.written() == 0 && read.samples == 0 {
            notes.push("no sample was taken of the server".to_owned());
        }
        let held_up_ns = self.spool.held_up_ns();
        if held_up_ns > 0 {
            notes.push(format!(
                "perf's samples came faster than they could be read, and for {} there was no room for them: what was done then may have none",
                clock::duration_text(held_up_ns)
            ));
        }
        if read.unreadable > 0 {
            notes.push(format!(
                "{} lines of perf script were not understood",
                read.unreadable
            ));
        }
        if self.way.scope == Scope::Processes {
            notes.push("perf may watch processes only, not processors: a process that used less than a sample's time has no sample".to_owned());
        }
        info.samples = read.samples;
        info.left_out = read.left_out;
        info.lost = read.lost;
        info.unwound = read.stacks.unwound;
        info.complete = read.stacks.complete;
        let before = read.first.iter().filter(|&&at| at < info.begun_ns).count();
        let behind = read.last.iter().filter(|&&at| at > info.ended_ns).count();
        info.counted = read.samples.saturating_sub((before + behind) as u64);
        // Where samples are missing, or are of processes, that is what makes them fewer.
        let has_all = info.lost + info.left_out + read.unreadable == 0 && notes.is_empty();
        let are_all = has_all && self.way.scope == Scope::Machine;
        info.same_as_counted = are_all && read.programs == 0;
        if read.programs > 0 && matches!(task_clock, Some(Ok(_))) {
            notes.push(format!(
                "{} started by the server's processes (archive_command, COPY … PROGRAM): the count of tasks has their time, and samples do \
                 not, so that these are not weighed by it",
                match read.programs {
                    1 => "a program was".to_owned(),
                    more => format!("{more} programs were"),
                }
            ));
        }
        match task_clock {
            Some(Ok(ns)) => info.task_clock_ns = Some(ns),
            Some(Err(why)) => {
                notes.push(uncounted(&why));
            }
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
        let mut writer = lock(writer);
        for stack in read.stacks.all() {
            writer.stack(&stack)?;
        }
        let mut seen = lock(&self.seen);
        notes.append(&mut seen.notes);
        for (pid, (samples, kind)) in &read.backends {
            let one = seen.backends.remove(pid);
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
        info.notes = notes;
        Ok(info)
    }
}

/// Turns the spool into rows.
struct Reader {
    perf: String,
    name: String,
    postmaster: u32,
    family: BTreeSet<u32>,
    spool: Arc<Spool>,
    origin: Arc<Origin>,
    writer: Arc<Mutex<ProfileWriter>>,
}

impl Reader {
    fn run(mut self) -> Read {
        let mut read = Read::default();
        let Some(is_over) = self.spool.wait_for_enough() else {
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
        let complaint = perf::last_words(child.stderr.take());
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
                entry.is_none_or(|entry| self.take(entry, &mut read))
            });
        }
        if let Some(entry) = reader.end() {
            self.take(entry, &mut read);
        }
        let fed = feeding.join().unwrap_or(false);
        let status = child.wait();
        let complaint = complaint.join().unwrap_or_default();
        if !fed || !status.as_ref().is_ok_and(|status| status.success()) {
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            read.failed.get_or_insert_with(|| {
                format!("perf script ended early ({how}; it said: {complaint}): what came behind is not in the profile")
            });
        }
        read.unreadable = reader.unreadable;
        read
    }

    /// `false`: it makes no sense to go on.
    fn take(&mut self, entry: Entry, read: &mut Read) -> bool {
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
                if read.first.len() < EDGE {
                    read.first.push(at_ns);
                }
                if read.last.len() == EDGE {
                    read.last.pop_front();
                }
                read.last.push_back(at_ns);
                if read.backends.len() < BACKENDS_MAX || read.backends.contains_key(&pid) {
                    let one = read.backends.entry(pid).or_insert((0, "unknown"));
                    one.0 += 1;
                    if one.1 == "unknown" {
                        one.1 = kind_of(&frames);
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

/// What a process is, by the function that its work hangs below. Names of PostgreSQL 13 to 18.
fn kind_of(frames: &[script::Frame]) -> &'static str {
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
