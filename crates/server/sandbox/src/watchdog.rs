//! A process that cleans up if this one cannot, since it was killed, crashed or interrupted.
//!
//! It reads from a pipe whose other end is open in this process only. When this process ends in any way, the
//! kernel closes the pipe. A parent-death signal is unsuitable: it is sent when the *thread* that started the
//! server ends, and a signal deletes no files.

use crate::error::{ErrorContext, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = include_str!("watchdog.sh");

/// It is dropped only after the sandbox has been cleaned up, or is to be kept.
pub(crate) struct Watchdog(Option<Child>);

impl Watchdog {
    pub(crate) fn start(root: &Path, socket_dir: Option<&Path>) -> Result<Self> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "rehearse-watchdog"])
            .arg(root)
            .arg(socket_dir.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        // A separate session, so that signals of the terminal do not end it.
        own_session(&mut command);
        command
            .spawn()
            .map(|child| Self(Some(child)))
            .context("run", Path::new("/bin/sh"))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().map_or(0, |child| child.id() as i32)
    }

    /// Leaves the cleanup to the watchdog, as if this process had ended.
    pub(crate) fn hand_over(mut self) {
        // Closes the pipe, without waiting.
        self.0 = None;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed while the pipe is still open, so that it does not act.
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn own_session(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: setsid is async-signal-safe and touches no memory of this process.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
}
