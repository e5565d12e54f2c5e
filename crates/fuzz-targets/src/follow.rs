//! Logs that grow and rotate while they are followed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capture_log::{FollowOptions, LogFormat, LogOptions, capture, capture_bytes};
use capture_sink::EventCollector;

/// First line of the log. With it the format is known, whatever follows.
const GOOD: &[u8] = b"2026-03-01 09:30:05.123 UTC [7] bob@shop LOG:  statement: select 1\n";
const PREFIX: &str = "%m [%p] %q%u@%d ";
/// Number of polls after which the follower has left a file that was replaced.
const POLLS_TO_LEAVE: usize = 8;

/// Checks a log to which the parts of the data are appended. A NUL and a byte for the operation separate them.
pub fn check(data: &[u8]) {
    let mut parts = data.split(|byte| *byte == 0);
    let first = parts.next().unwrap_or_default();
    let mut steps = vec![Step::Append(first.to_vec())];
    for part in parts {
        let Some((operation, text)) = part.split_first() else {
            continue;
        };
        match operation % 4 {
            1 => steps.push(Step::Rename),
            2 => steps.push(Step::CopyAndTruncate),
            3 => steps.push(Step::Wait),
            _ => {}
        }
        steps.push(Step::Append(text.to_vec()));
    }
    let steps = &steps[..steps.len().min(24)];
    follow(steps);
}

#[derive(Clone)]
enum Step {
    Append(Vec<u8>),
    Rename,
    CopyAndTruncate,
    Wait,
}

/// A log file and those that it was renamed to.
struct GrowingLog {
    path: PathBuf,
    rotations: usize,
}

impl GrowingLog {
    fn take(&mut self, step: &Step) {
        let old = self
            .path
            .with_extension(format!("log.{}", self.rotations + 1));
        match step {
            Step::Append(text) => {
                let file = fs::OpenOptions::new().append(true).open(&self.path);
                file.and_then(|mut file| file.write_all(text))
                    .expect("a scratch file");
            }
            Step::Rename => {
                self.rotations += 1;
                fs::rename(&self.path, old).expect("a scratch file");
                self.begin();
            }
            Step::CopyAndTruncate => {
                self.rotations += 1;
                fs::copy(&self.path, old).expect("a scratch file");
                self.begin();
            }
            Step::Wait => {}
        }
    }

    /// Empties the log, or creates it.
    fn begin(&self) {
        // Without a number two logs could begin equally.
        let line = format!(
            "2026-03-01 09:30:06.000 UTC [8] bob@shop LOG:  statement: select {}\n",
            self.rotations
        );
        fs::write(&self.path, line).expect("a scratch file");
    }
}

/// Follows a log while the steps happen, one at each poll.
fn follow(steps: &[Step]) {
    let directory = crate::scratch_directory();
    let path = directory.path().join("postgresql.log");
    fs::write(&path, GOOD).expect("a scratch file");
    let mut log = GrowingLog {
        path: path.clone(),
        rotations: 0,
    };
    let mut queue = Vec::new();
    for step in steps {
        queue.push(step.clone());
        if !matches!(step, Step::Append(_)) {
            queue.extend(vec![Step::Wait; POLLS_TO_LEAVE]);
        }
    }
    let mut queue = queue.into_iter();
    let follow = FollowOptions {
        path,
        from_start: true,
        poll_interval: Duration::ZERO,
        stop: Box::new(move || match queue.next() {
            Some(step) => {
                log.take(&step);
                false
            }
            None => true,
        }),
    };
    let options = LogOptions {
        format: Some(LogFormat::Stderr),
        prefix: Some(PREFIX.to_owned()),
        follow: Some(follow),
        ..LogOptions::default()
    };
    let mut collected = EventCollector::default();
    let Ok(report) = capture(options, &mut collected) else {
        // A log in another language is refused.
        return;
    };
    let account = &report.reconciliation;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(account.events, collected.events.len() as u64);
    if !steps
        .iter()
        .any(|step| matches!(step, Step::CopyAndTruncate))
    {
        assert_eq!(
            account.lines,
            lines_in(directory.path()),
            "lines are lost or read twice"
        );
    }
    if steps.iter().all(|step| matches!(step, Step::Append(_))) {
        let whole = fs::read(directory.path().join("postgresql.log")).expect("the log");
        // A last line without its end is still being written for a follower, and cut for a reader.
        if !whole.ends_with(b"\n") {
            return;
        }
        let mut at_once = EventCollector::default();
        let read = capture_bytes(whole, Some(LogFormat::Stderr), Some(PREFIX), &mut at_once);
        if read.is_ok() {
            assert_eq!(at_once.events, collected.events);
        }
    }
}

fn lines_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).expect("a directory");
    let lines = files.map(|entry| {
        let content = fs::read(entry.expect("an entry").path()).expect("a file");
        content.split_inclusive(|byte| *byte == b'\n').count() as u64
    });
    lines.sum()
}
