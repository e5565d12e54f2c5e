//! Runs `perf`: which way of recording works here, and with what stacks.
//!
//! A recording is `perf record … -o - -- sh -c '…; exec cat'`: it lasts as long as `cat` does, which ends when
//! its standard input is closed. So a recording ends without a signal, and with this process, however that
//! ends. The shell is started when the recording has begun, and says so.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login};

use crate::processes;
use crate::script::{Entry, ScriptReader};
use crate::stacks::is_complete;
use crate::watching::quiet_questions;

/// Measures time, and is there without hardware counters: phases are to add up to CPU time.
pub const EVENT: &str = "cpu-clock";
/// How much of its stack is copied with each sample for unwinding by DWARF, in bytes.
const STACK_BYTES: u32 = 16_384;
/// How many samples a second a trial takes, and how much processor time it works, but no longer than that.
const TRIAL_HZ: u32 = 499;
const TRIAL_CPU_NS: u64 = 300_000_000;
const TRIAL_NS: i64 = 6_000_000_000;
/// Fewer samples than this say nothing.
const TRIAL_SAMPLES_MIN: u64 = 20;
/// Frame pointers are good enough when so many percent of the stacks reach `main`.
const GOOD_PERCENT: u64 = 97;
/// How long `perf` may take to come up.
pub const START_UP: Duration = Duration::from_secs(20);
/// What the shell says when the recording has begun.
pub const BEGUN: &str = "rehearse: recording";

/// Work of a backend that reads nothing and keeps nothing: functions of strings, sorting, memory.
const BUSY: &str = "SELECT /* rehearse_probe */ count(*) FROM (SELECT md5(i::text) AS t FROM generate_series(1, 20000) AS i ORDER BY 1) AS s";

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All processors, whoever works there; what is not the server's is not kept.
    Machine,
    /// The server's processes and those that they make.
    Processes,
}

/// How stacks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwinding {
    /// By following frame pointers, when the sample is taken.
    FramePointers,
    /// By the program's unwinding tables and a copy of the stack's end, afterwards.
    Dwarf,
}

impl Unwinding {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Unwinding::FramePointers => "frame pointers",
            Unwinding::Dwarf => "dwarf",
        }
    }
}

/// A way of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// What is watched.
    pub scope: Scope,
    /// The kernel's own time is in it.
    pub kernel: bool,
    /// How stacks are made.
    pub unwinding: Unwinding,
}

/// The ways from the best on. Sampling each processor's time misses nothing; sampling each process's begins
/// anew with each process, and one that uses less than a sample's time has none.
const SCOPES: [(Scope, bool); 3] = [
    (Scope::Machine, true),
    (Scope::Processes, true),
    (Scope::Processes, false),
];

/// A recording under way.
pub struct Recording {
    child: Child,
    stdin: Option<ChildStdin>,
    complaint: Option<std::thread::JoinHandle<String>>,
    begun: Receiver<()>,
}

impl Recording {
    /// Begins one; `processes` are those to watch where not all are.
    ///
    /// # Errors
    /// Where there is no `perf`.
    pub fn start(
        perf: &str,
        way: Way,
        frequency_hz: u32,
        processes: &[u32],
    ) -> std::io::Result<Self> {
        let mut command = Command::new(perf);
        let event = match (way.scope, way.kernel) {
            // Without the time in which a processor has nothing to do.
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
            // Room for a second of samples, should `perf` not get its turn.
            command.args(["-m", "2M"]);
        }
        let mut child = command
            // A signal that is meant for this process ends the recording in order.
            .process_group(0)
            .args(["-o", "-", "--", "sh", "-c"])
            .arg(format!("echo '{BEGUN}' >&2; exec cat"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().expect("it is piped");
        let (tell, begun) = channel();
        Ok(Recording {
            stdin: child.stdin.take(),
            complaint: Some(std::thread::spawn(move || complaint(stderr, &tell))),
            begun,
            child,
        })
    }

    /// Waits until it records.
    ///
    /// # Errors
    /// With what `perf` says if it does not.
    pub fn wait_until_begun(self) -> Result<Self, String> {
        match self.begun.recv_timeout(START_UP) {
            Ok(()) => Ok(self),
            Err(_) => Err(match self.end() {
                Err(reason) => reason,
                Ok(()) => "perf did not begin to record".to_owned(),
            }),
        }
    }

    /// What it records.
    pub fn output(&mut self) -> impl Read + Send + use<> {
        self.child.stdout.take().expect("it is asked for once")
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it end; what it complained of, if it failed.
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
        // Without its input `cat` ends, and with it the recording.
        drop(self.stdin.take());
    }
}

/// The first few kilobytes of what `perf` complains of; the rest is read and let go.
pub fn complaint(from: impl Read, begun: &Sender<()>) -> String {
    const MOST: usize = 8_192;
    let mut text = String::new();
    lines(from, |line| {
        if line.trim() == BEGUN {
            // Nobody may be waiting any more.
            let _ = begun.send(());
        } else if text.len() < MOST {
            text.push_str(line);
            text.push('\n');
        }
        true
    });
    text
}

/// What a complaint begins with, headings left out.
pub fn first_line(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    lines
        .find(|line| !line.is_empty() && !line.ends_with("Error:"))
        .map(str::to_owned)
}

/// Reads a recording. While a recording goes on it goes last (`humbly`) where others want the processors;
/// behind its end, somebody waits for it.
///
/// # Errors
/// Where it cannot be started.
pub fn script(
    perf: &str,
    process_name: &str,
    stdin: Stdio,
    humbly: bool,
) -> std::io::Result<Child> {
    let mut command = match humbly {
        true => Command::new("nice"),
        false => Command::new(perf),
    };
    if humbly {
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

/// What a program says last on its standard error, read to the end on a thread.
pub fn last_words(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
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

/// The lines of what `perf script` prints, each at most so long.
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

/// Why nothing can be recorded, and what would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Off {
    /// Why.
    pub reason: String,
    /// What to do, where something can be done.
    pub remedy: Option<String>,
}

/// Tries out which way works here, by recording a backend of our own that works.
///
/// # Errors
/// Where none does.
pub fn find_way(
    perf: &str,
    dialer: &Dialer,
    login: &Login,
    postmaster: u32,
    clock: &dyn Clock,
) -> Result<(Way, String), Off> {
    let mut refused = Vec::new();
    for (scope, kernel) in SCOPES {
        let way = |unwinding| Way {
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
            Err(Trouble::Refused(reason)) => {
                refused.push(reason);
                continue;
            }
            Err(Trouble::Target(reason)) => {
                return Err(Off {
                    reason,
                    remedy: None,
                });
            }
        };
        let said = |name: &str, tried: &Tried| format!("{name} {} %", tried.percent());
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
            Err(Trouble::Refused(reason) | Trouble::Target(reason)) => {
                told = format!("{told}, dwarf: {reason}");
                Unwinding::FramePointers
            }
        };
        return Ok((way(best), told));
    }
    refused.dedup();
    Err(refusal(&refused, postmaster))
}

fn refusal(refused: &[String], postmaster: u32) -> Off {
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
    Off {
        reason,
        remedy: Some(remedy),
    }
}

/// What a trial found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tried {
    unwound: u64,
    complete: u64,
}

impl Tried {
    fn percent(self) -> u64 {
        self.complete * 100 / self.unwound.max(1)
    }
}

enum Trouble {
    /// `perf` does not record so.
    Refused(String),
    /// The target does not answer.
    Target(String),
}

fn trial(
    perf: &str,
    way: Way,
    dialer: &Dialer,
    login: &Login,
    postmaster: u32,
    clock: &dyn Clock,
) -> Result<Tried, Trouble> {
    let of_target = |error: connect::login::LoginError| Trouble::Target(error.message);
    let mut questions = quiet_questions(dialer, login).map_err(of_target)?;
    questions.limit(Duration::from_secs(30));
    let rows = questions
        .ask("SELECT pg_catalog.pg_backend_pid()")
        .map_err(of_target)?;
    let pid: u32 = rows
        .first()
        .and_then(|row| row.first().cloned().flatten())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let name = processes::process(postmaster).map_or_else(|| "postgres".to_owned(), |one| one.name);
    let mut recording = Recording::start(perf, way, TRIAL_HZ, &[pid])
        .map_err(|error| Trouble::Refused(error.to_string()))?;
    let mut output = recording.output();
    let reading = std::thread::spawn(move || {
        let mut recorded = Vec::new();
        let _ = output.by_ref().take(64 << 20).read_to_end(&mut recorded);
        let _ = std::io::copy(&mut output, &mut std::io::sink());
        recorded
    });
    let recording = recording.wait_until_begun().map_err(Trouble::Refused)?;
    let begun_ns = clock.now_ns();
    let used_ns = || processes::process(pid).map_or(0, |one| one.user_ns + one.system_ns);
    let before_ns = used_ns();
    while used_ns() < before_ns + TRIAL_CPU_NS && clock.now_ns() - begun_ns < TRIAL_NS {
        questions.ask(BUSY).map_err(of_target)?;
    }
    let worked_ns = used_ns() - before_ns;
    recording.end().map_err(Trouble::Refused)?;
    let recorded = reading.join().unwrap_or_default();
    let mut child = script(perf, &name, Stdio::piped(), false)
        .map_err(|error| Trouble::Refused(format!("perf script cannot be started: {error}")))?;
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let _ = last_words(child.stderr.take());
    let feeding = std::thread::spawn(move || {
        if let Some(stdin) = &mut stdin {
            let _ = std::io::Write::write_all(stdin, &recorded);
        }
    });
    let mut tried = Tried::default();
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
        false => Err(Trouble::Refused(format!(
            "a backend that worked for {} ms gave {} samples",
            worked_ns / 1_000_000,
            tried.unwound
        ))),
    }
}
