//! Parses the output of `perf script`, line by line.
//!
//! Its fields are `comm,pid,tid,time,event,ip,sym,dso`, with events of tasks and lost events
//! (`perf-script(1)`). A sample is a line with process and time, then a line for each frame, the innermost
//! first, then an empty line. A task event is one line.
//!
//! ```text
//! postgres 24474/24474 70664.062027: cpu-clock:I:
//!             312573 pg_strtok (/usr/lib/postgresql/15/bin/postgres)
//!             10d47a main (/usr/lib/postgresql/15/bin/postgres)
//!
//! postgres 23449/23449 70837.676858: PERF_RECORD_FORK(30474:30474):(23449:23449)
//! ```
//!
//! Memory is limited to one sample. Lines that cannot be parsed are counted.

/// Maximum number of frames of a sample; outer frames beyond it are dropped.
const FRAMES_MAX: usize = 512;
/// Maximum bytes of a symbol; longer names are truncated.
const SYMBOL_MAX: usize = 200;

/// One frame of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Function, or the file in brackets if it has no name. Kernel functions end in `_[k]`.
    pub name: String,
    /// Whether it is a kernel function.
    pub kernel: bool,
    /// Path of the program or library, if the function has no name.
    pub unnamed_in: Option<String>,
}

/// Entry of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A sample with its stack.
    Sample {
        /// Process id.
        pid: u32,
        /// Time in nanoseconds of the recording's clock.
        time_ns: i64,
        /// Frames, the innermost first.
        frames: Vec<Frame>,
    },
    /// A process was created.
    Fork {
        /// Process id.
        pid: u32,
        /// Process id of the parent.
        parent: u32,
        /// Time in nanoseconds.
        time_ns: i64,
    },
    /// A process ended.
    Exit {
        /// Process id.
        pid: u32,
        /// Time in nanoseconds.
        time_ns: i64,
    },
    /// The recording lost this number of events.
    Lost(u64),
}

/// Parses lines into entries.
#[derive(Debug, Default)]
pub struct ScriptReader {
    open: Option<(u32, i64, Vec<Frame>)>,
    /// Number of lines that could not be parsed.
    pub unreadable: u64,
}

impl ScriptReader {
    /// Parses the next line, without its line end.
    pub fn line(&mut self, line: &str) -> Option<Entry> {
        if line.trim().is_empty() {
            return self.end();
        }
        if line.starts_with(['\t', ' ']) && self.open.is_some() {
            let frame = frame(line);
            self.unreadable += u64::from(frame.is_none());
            if let (Some((_, _, frames)), Some(frame)) = (&mut self.open, frame)
                && frames.len() < FRAMES_MAX
            {
                frames.push(frame);
            }
            return None;
        }
        // A sample normally ends with an empty line. Without one it still counts.
        let before = self.end();
        let Some((pid, time_ns, rest)) = header(line) else {
            self.unreadable += 1;
            return before;
        };
        let Some(event) = rest.strip_prefix("PERF_RECORD_") else {
            let first = rest.split_once(": ").and_then(|(_, rest)| frame(rest));
            self.open = Some((pid, time_ns, first.into_iter().collect()));
            return before;
        };
        let entry = if let Some(tasks) = event.strip_prefix("FORK") {
            task(tasks)
                .map(|(child, parent)| Entry::Fork {
                    pid: child.0,
                    parent: parent.0,
                    time_ns,
                })
                // Threads are not processes.
                .filter(|_| task(tasks).is_some_and(|(child, _)| child.0 == child.1))
        } else if let Some(tasks) = event.strip_prefix("EXIT") {
            task(tasks)
                .filter(|((pid, tid), _)| pid == tid)
                .map(|((pid, _), _)| Entry::Exit { pid, time_ns })
        } else if event.starts_with("LOST") {
            let count = event.rsplit(' ').find_map(|word| word.parse().ok());
            count.map(Entry::Lost)
        } else {
            None
        };
        before.or(entry)
    }

    /// Ends the current sample, at an empty line or the end of the input.
    pub fn end(&mut self) -> Option<Entry> {
        let (pid, time_ns, frames) = self.open.take()?;
        Some(Entry::Sample {
            pid,
            time_ns,
            frames,
        })
    }
}

/// Parses `NAME PID/TID SECONDS.FRACTION: REST`, where the name may contain spaces.
fn header(line: &str) -> Option<(u32, i64, &str)> {
    let mut from = 0;
    loop {
        let start = from + line[from..].find(|c: char| !c.is_whitespace())?;
        let word = line[start..].split_whitespace().next()?;
        from = start + word.len();
        let Some((pid, tid)) = word.split_once('/') else {
            continue;
        };
        // Ended kernel threads have the id -1.
        let (Ok(pid), Ok(_)) = (pid.parse::<i64>(), tid.parse::<i64>()) else {
            continue;
        };
        let rest = line[from..].trim_start();
        let Some((time, rest)) = rest.split_once(':') else {
            continue;
        };
        let Some(time_ns) = nanoseconds(time.trim()) else {
            continue;
        };
        return Some((
            u32::try_from(pid).unwrap_or(u32::MAX),
            time_ns,
            rest.trim_start(),
        ));
    }
}

/// Parses `SECONDS.FRACTION`.
fn nanoseconds(time: &str) -> Option<i64> {
    let (seconds, fraction) = time.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let unit = 10_i64.pow(9 - fraction.len() as u32);
    let seconds = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(fraction.parse::<i64>().ok()? * unit)
}

/// Parses `(PID:TID):(PID:TID)`: a task, and its parent.
fn task(text: &str) -> Option<((u32, u32), (u32, u32))> {
    let (child, parent) = text.trim().split_once("):(")?;
    let pair = |text: &str| {
        let (pid, tid) = text.split_once(':')?;
        Some((pid.parse().ok()?, tid.parse().ok()?))
    };
    Some((
        pair(child.strip_prefix('(')?)?,
        pair(parent.strip_suffix(')')?)?,
    ))
}

/// Parses `ADDRESS SYMBOL (FILE)`, where the symbol may contain spaces and brackets.
fn frame(line: &str) -> Option<Frame> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ')?;
    if !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let rest = rest.trim();
    let file_of = |text: &str| {
        let file = text.strip_suffix(')')?;
        let file = file.strip_suffix(" (deleted)").unwrap_or(file);
        let at = file.rfind(" (").map(|at| (at, at + 2));
        let (symbol_end, file_start) = at.or(file.starts_with('(').then_some((0, 1)))?;
        Some((symbol_end, file[file_start..].to_owned()))
    };
    let (symbol_end, file) = file_of(rest)?;
    let symbol = rest[..symbol_end].trim();
    let kernel = file.starts_with("[kernel") || file.starts_with("[guest.kernel") || file.ends_with(".ko")
        // A kernel module is written as its name in square brackets, as is the virtual library.
        || (file.starts_with('[') && !["[vdso]", "[unknown]", "[heap]", "[stack]", "[anon]"].contains(&&*file));
    let mut unnamed_in = None;
    let mut name = match symbol {
        "" | "[unknown]" => {
            unnamed_in = (!kernel && file.starts_with('/')).then(|| file.clone());
            let base = file.rsplit('/').next().unwrap_or_default();
            format!("[{}]", base.trim_matches(['[', ']']))
        }
        symbol => symbol.to_owned(),
    };
    // Frames must not contain their separator.
    if name.contains([';', '\n', '\r']) {
        name = name.replace([';', '\n', '\r'], ":");
    }
    if name.len() > SYMBOL_MAX {
        let end = (0..=SYMBOL_MAX).rev().find(|&at| name.is_char_boundary(at));
        name.truncate(end.unwrap_or(0));
    }
    match kernel {
        true => name.push_str("_[k]"),
        // A program's function with this suffix would be mistaken for the kernel's.
        false if name.ends_with("_[k]") => name.push('_'),
        false => {}
    }
    Some(Frame {
        name,
        kernel,
        unnamed_in,
    })
}
