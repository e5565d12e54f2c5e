//! The process that cleans up if this one cannot: killed, crashed, or interrupted.
//!
//! It reads from a pipe whose other end only this process has. When this process ends, however it
//! ends, the kernel closes the pipe. (The kernel's own "signal me when my parent dies" would not
//! do: it fires when the *thread* that started the server ends, and a signal deletes no files.)

use crate::error::{Doing, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = include_str!("watchdog.sh");

/// Dropped only after the sandbox has been cleaned up, or is meant to stay.
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
        // A session of its own: what the terminal sends to us must not end it.
        own_session(&mut command);
        command
            .spawn()
            .map(|child| Self(Some(child)))
            .doing("run", Path::new("/bin/sh"))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().map_or(0, |child| child.id() as i32)
    }

    /// Leaves the rest to it, as if this process had ended.
    pub(crate) fn let_act(mut self) {
        // Closes the pipe, without waiting.
        self.0 = None;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed while the pipe is still open: it must not take this for our end.
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn own_session(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: setsid is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
}
