//! Runs `perf`, and finds the recording mode and the kind of stacks that work on this machine.
//!
//! A recording is `perf record … -o - -- sh -c '…; exec cat'`. It lasts as long as `cat`, which ends when its
//! standard input is closed. So a recording ends without a signal, and also when this process ends in any
//! way. The shell starts when the recording has begun, and prints a line.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login};

use crate::processes;
use crate::quiet_connection::quiet_connection;
use crate::script::{Entry, ScriptReader};
use crate::stacks::is_complete;

/// Event to sample. It measures CPU time and needs no hardware counters, so that phases add up to CPU time.
pub const EVENT: &str = "cpu-clock";
/// Bytes of the stack that are copied with each sample for unwinding by DWARF.
const STACK_BYTES: u32 = 16_384;
/// Samples per second of a trial, its CPU time, and its maximum duration.
const TRIAL_HZ: u32 = 499;
const TRIAL_CPU_NS: u64 = 300_000_000;
const TRIAL_NS: i64 = 6_000_000_000;
/// Minimum number of samples of a valid trial.
const TRIAL_SAMPLES_MIN: u64 = 20;
/// Minimum percentage of stacks that reach `main`, for frame pointers to be used.
const GOOD_PERCENT: u64 = 97;
/// Time limit for the start of `perf`.
pub const START_UP: Duration = Duration::from_secs(20);
/// Line that the shell prints when the recording has begun.
pub const BEGUN_MARK: &str = "rehearse: recording";

/// Query that uses CPU time for string functions, sorting and memory. It reads and stores no data.
const BUSY: &str = "SELECT /* rehearse_probe */ count(*) FROM (SELECT md5(i::text) AS t FROM generate_series(1, 20000) AS i ORDER BY 1) AS s";

/// Processes to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All processors with all processes. Samples of other processes are discarded.
    Machine,
    /// The server's processes and their children.
    Processes,
}

/// Method of unwinding stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwinding {
    /// Follows frame pointers when the sample is taken.
    FramePointers,
    /// Uses the program's unwinding tables and a copy of the top of the stack, after the recording.
    Dwarf,
}

impl Unwinding {
    /// Returns the method in words.
    pub fn name(self) -> &'static str {
        match self {
            Unwinding::FramePointers => "frame pointers",
            Unwinding::Dwarf => "dwarf",
        }
    }
}

/// Mode of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingMode {
    /// Processes to record.
    pub scope: Scope,
    /// Whether time in the kernel is recorded.
    pub kernel: bool,
    /// Method of unwinding stacks.
    pub unwinding: Unwinding,
}

/// Scopes in the order of preference. Sampling by processor misses nothing. Sampling by process starts anew
/// for each process, and a process that uses less than one sampling interval has no sample.
const SCOPES: [(Scope, bool); 3] = [
    (Scope::Machine, true),
    (Scope::Processes, true),
    (Scope::Processes, false),
];

/// A running recording.
pub struct Recording {
    child: Child,
    stdin: Option<ChildStdin>,
    complaint: Option<std::thread::JoinHandle<String>>,
    begun: Receiver<()>,
}

impl Recording {
    /// Starts a recording; `processes` are those to record, unless all are.
    ///
    /// # Errors
    /// If `perf` is not installed.
    pub fn start(
        perf: &str,
        way: RecordingMode,
        frequency_hz: u32,
        processes: &[u32],
    ) -> std::io::Result<Self> {
        let mut command = Command::new(perf);
        let event = match (way.scope, way.kernel) {
            // Without the idle time of processors.
            (Scope::Machine, _) => format!("{EVENT}:I"),
            (Scope::Processes, true) => EVENT.to_owned(),
            (Scope::Processes, false) => format!("{EVENT}:u"),
        };
        command.args([
            "record",
            "-q",
            "-e",
            &event,
            "-F",
            &frequency_hz.to_string(),
        ]);
        match way.scope {
            Scope::Machine => command.arg("-a"),
            Scope::Processes => {
                let list: Vec<String> = processes.iter().map(u32::to_string).collect();
                command.args(["-p", &list.join(",")])
            }
        };
        let graph = match way.unwinding {
            Unwinding::FramePointers => "fp".to_owned(),
            Unwinding::Dwarf => format!("dwarf,{STACK_BYTES}"),
        };
        command.args(["--call-graph", &graph, "-k", "CLOCK_MONOTONIC"]);
        if processes::may_watch_all() {
            // Buffer for a second of samples, in case `perf` is not scheduled.
            command.args(["-m", "2M"]);
        }
        let mut child = command
            // A signal to the process group of this process does not reach `perf`, so the recording ends in
            // order.
            .process_group(0)
            .args(["-o", "-", "--", "sh", "-c"])
            .arg(format!("echo '{BEGUN_MARK}' >&2; exec cat"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().expect("it is piped");
        let (tell, begun) = channel();
        Ok(Recording {
            stdin: child.stdin.take(),
            complaint: Some(std::thread::spawn(move || read_complaint(stderr, &tell))),
            begun,
            child,
        })
    }

    /// Waits until it records.
    ///
    /// # Errors
    /// The message of `perf`, if it fails.
    pub fn wait_until_begun(self) -> Result<Self, String> {
        match self.begun.recv_timeout(START_UP) {
            Ok(()) => Ok(self),
            Err(_) => Err(match self.end() {
                Err(reason) => reason,
                Ok(()) => "perf did not begin to record".to_owned(),
            }),
        }
    }

    /// Returns the recorded data.
    pub fn output(&mut self) -> impl Read + Send + use<> {
        self.child.stdout.take().expect("it is asked for once")
    }

    /// Whether it ended before it was told to.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the recording. If it failed, the error is the message of `perf`.
    pub fn end(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        let status = self.child.wait();
        let complaint = self.complaint.take().and_then(|thread| thread.join().ok());
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(first_line(&complaint.unwrap_or_default())
                .unwrap_or_else(|| format!("perf ended with {status}"))),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Closing the input ends `cat`, and with it the recording.
        drop(self.stdin.take());
    }
}

/// Returns the first kilobytes of the standard error of `perf`. The rest is read and discarded.
pub fn read_complaint(from: impl Read, begun: &Sender<()>) -> String {
    const MOST: usize = 8_192;
    let mut text = String::new();
    lines(from, |line| {
        if line.trim() == BEGUN_MARK {
            // The receiver may be gone.
            let _ = begun.send(());
        } else if text.len() < MOST {
            text.push_str(line);
            text.push('\n');
        }
        true
    });
    text
}

/// Returns the first line of a message, without headings.
pub fn first_line(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    lines
        .find(|line| !line.is_empty() && !line.ends_with("Error:"))
        .map(str::to_owned)
}

/// Starts `perf script`. During a recording it runs with low priority (`low_priority`), so that it does not compete
/// with the load. After the recording a user waits for it, so it has normal priority.
///
/// # Errors
/// If it cannot be started.
pub fn script(
    perf: &str,
    process_name: &str,
    stdin: Stdio,
    low_priority: bool,
) -> std::io::Result<Child> {
    let mut command = match low_priority {
        true => Command::new("nice"),
        false => Command::new(perf),
    };
    if low_priority {
        command.args(["-n", "19", perf]);
    }
    command
        .process_group(0)
        .args(["script", "-i", "-", "--no-inline"])
        .args(["--comms", process_name])
        .args(["-F", "comm,pid,tid,time,event,ip,sym,dso"])
        .args(["--show-task-events", "--show-lost-events"])
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Returns the end of a program's standard error, which is read on a separate thread.
pub fn read_stderr_end(
    from: Option<impl Read + Send + 'static>,
) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut last = String::new();
        if let Some(from) = from {
            lines(from, |line| {
                if !line.trim().is_empty() {
                    last = line.trim().chars().take(300).collect();
                }
                true
            });
        }
        last
    })
}

/// Passes on the lines that `perf script` prints, each limited in length.
pub fn lines(from: impl Read, mut take: impl FnMut(&str) -> bool) {
    const LINE_MAX: u64 = 64 << 10;
    let mut from = BufReader::with_capacity(256 << 10, from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if !take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])) => return,
            Ok(_) => {}
        }
    }
}

/// Reason why no recording is possible, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// Reason.
    pub reason: String,
    /// Remedy, if there is one.
    pub remedy: Option<String>,
}

/// Finds the recording mode that works here, by recording a busy backend of our own.
///
/// # Errors
/// If no mode works.
pub fn find_recording_mode(
    perf: &str,
    dialer: &Dialer,
    login: &Login,
    postmaster: u32,
    clock: &dyn Clock,
) -> Result<(RecordingMode, String), Unavailable> {
    let mut refused = Vec::new();
    for (scope, kernel) in SCOPES {
        let way = |unwinding| RecordingMode {
            scope,
            kernel,
            unwinding,
        };
        let pointers = match trial(
            perf,
            way(Unwinding::FramePointers),
            dialer,
            login,
            postmaster,
            clock,
        ) {
            Ok(tried) => tried,
            Err(TrialError::Refused(reason)) => {
                refused.push(reason);
                continue;
            }
            Err(TrialError::Target(reason)) => {
                return Err(Unavailable {
                    reason,
                    remedy: None,
                });
            }
        };
        let said = |name: &str, tried: &TrialResult| format!("{name} {} %", tried.percent());
        let mut told = said("frame pointers", &pointers);
        for reason in &refused {
            told = format!("{told}; refused before: {reason}");
        }
        if pointers.percent() >= GOOD_PERCENT {
            return Ok((way(Unwinding::FramePointers), told));
        }
        let best = match trial(
            perf,
            way(Unwinding::Dwarf),
            dialer,
            login,
            postmaster,
            clock,
        ) {
            Ok(tables) => {
                told = format!("{told}, {}", said("dwarf", &tables));
                match tables.percent() > pointers.percent() {
                    true => Unwinding::Dwarf,
                    false => Unwinding::FramePointers,
                }
            }
            Err(TrialError::Refused(reason) | TrialError::Target(reason)) => {
                told = format!("{told}, dwarf: {reason}");
                Unwinding::FramePointers
            }
        };
        return Ok((way(best), told));
    }
    refused.dedup();
    Err(refusal(&refused, postmaster))
}

fn refusal(refused: &[String], postmaster: u32) -> Unavailable {
    let mut reason = format!("perf may not record here: {}", refused.join("; "));
    let paranoid = processes::paranoid();
    if let Some(level) = paranoid {
        reason.push_str(&format!(" (kernel.perf_event_paranoid is {level})"));
    }
    let own = processes::user_of(std::process::id());
    let owner = processes::user_of(postmaster);
    let remedy = match (processes::may_watch_all(), paranoid) {
        (true, _) => "the privileges are there, so the kernel or the container forbids perf_event_open; record from outside of the container".to_owned(),
        (false, Some(level)) if level > 2 || own != owner => "run as root, or give perf CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or less".to_owned(),
        (false, _) => "run as root, or give perf CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or less (2 is enough as the server's own user)".to_owned(),
    };
    Unavailable {
        reason,
        remedy: Some(remedy),
    }
}

/// Result of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TrialResult {
    unwound: u64,
    complete: u64,
}

impl TrialResult {
    fn percent(self) -> u64 {
        self.complete * 100 / self.unwound.max(1)
    }
}

enum TrialError {
    /// `perf` refuses this mode.
    Refused(String),
    /// The target does not respond.
    Target(String),
}

fn trial(
    perf: &str,
    way: RecordingMode,
    dialer: &Dialer,
    login: &Login,
    postmaster: u32,
    clock: &dyn Clock,
) -> Result<TrialResult, TrialError> {
    let of_target = |error: connect::login::LoginError| TrialError::Target(error.message);
    let mut questions = quiet_connection(dialer, login).map_err(of_target)?;
    questions.limit(Duration::from_secs(30));
    let rows = questions
        .query("SELECT pg_catalog.pg_backend_pid()")
        .map_err(of_target)?;
    let pid: u32 = rows
        .first()
        .and_then(|row| row.first().cloned().flatten())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let name = processes::process(postmaster).map_or_else(|| "postgres".to_owned(), |one| one.name);
    let mut recording = Recording::start(perf, way, TRIAL_HZ, &[pid])
        .map_err(|error| TrialError::Refused(error.to_string()))?;
    let mut output = recording.output();
    let reading = std::thread::spawn(move || {
        let mut recorded = Vec::new();
        let _ = output.by_ref().take(64 << 20).read_to_end(&mut recorded);
        let _ = std::io::copy(&mut output, &mut std::io::sink());
        recorded
    });
    let recording = recording.wait_until_begun().map_err(TrialError::Refused)?;
    let begun_ns = clock.now_ns();
    let used_ns = || processes::process(pid).map_or(0, |one| one.user_ns + one.system_ns);
    let before_ns = used_ns();
    while used_ns() < before_ns + TRIAL_CPU_NS && clock.now_ns() - begun_ns < TRIAL_NS {
        questions.query(BUSY).map_err(of_target)?;
    }
    let worked_ns = used_ns() - before_ns;
    recording.end().map_err(TrialError::Refused)?;
    let recorded = reading.join().unwrap_or_default();
    let mut child = script(perf, &name, Stdio::piped(), false)
        .map_err(|error| TrialError::Refused(format!("perf script cannot be started: {error}")))?;
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let _ = read_stderr_end(child.stderr.take());
    let feeding = std::thread::spawn(move || {
        if let Some(stdin) = &mut stdin {
            let _ = std::io::Write::write_all(stdin, &recorded);
        }
    });
    let mut tried = TrialResult::default();
    let mut reader = ScriptReader::default();
    let mut count = |entry| {
        if let Some(Entry::Sample {
            pid: of, frames, ..
        }) = entry
            && of == pid
            && frames.iter().any(|frame| !frame.kernel)
        {
            tried.unwound += 1;
            tried.complete += u64::from(is_complete(&frames));
        }
    };
    if let Some(stdout) = stdout {
        lines(stdout, |line| {
            count(reader.line(line));
            true
        });
    }
    count(reader.end());
    let _ = feeding.join();
    let _ = child.wait();
    match tried.unwound >= TRIAL_SAMPLES_MIN {
        true => Ok(tried),
        false => Err(TrialError::Refused(format!(
            "a backend that worked for {} ms gave {} samples",
            worked_ns / 1_000_000,
            tried.unwound
        ))),
    }
}
