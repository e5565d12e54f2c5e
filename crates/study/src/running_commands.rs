//! Commands of the user that run in process groups of their own. A signal of the terminal does not reach them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// Returns the limit of the end of a command, to append to a sentence. A command that this program writes starts no such programs.
pub(crate) fn left_running(option: &str) -> &'static str {
    match is_users(option) {
        true => {
            "; programs that it started in another process group, as `timeout` and `setsid` do, may still run"
        }
        false => "",
    }
}

/// Whether the user gave the command of an option.
pub(crate) fn is_users(option: &str) -> bool {
    option.starts_with("--")
}

/// Running commands of this process, which end with it. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningCommands(Arc<Mutex<Groups>>);

#[derive(Debug, Default)]
struct Groups {
    /// Process group and option of each command.
    running: Vec<(Pid, String)>,
    /// Whether the process ends, so that no command may start.
    is_ending: bool,
}

/// A running command. Dropping it after its end forgets its process group.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    pub(crate) child: Child,
    running: RunningCommands,
}

impl RunningCommands {
    /// Starts the command of an option in a process group of its own.
    ///
    /// # Errors
    /// If it cannot be started, or the process ends.
    pub(crate) fn start(&self, command: &mut Command, option: &str) -> io::Result<RunningCommand> {
        // The lock is held meanwhile, so that each started command is known when the process ends.
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.is_ending {
            return Err(io::Error::other("the program ends at once"));
        }
        let child = command.process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        groups.running.push((group, option.to_owned()));
        Ok(RunningCommand {
            child,
            running: self.clone(),
        })
    }

    /// Kills all process groups, and returns a sentence on each. No command starts afterwards.
    pub(crate) fn kill_all(&self) -> Vec<String> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.is_ending = true;
        let running = groups.running.iter();
        running
            .map(|(group, option)| {
                let _ = kill_process_group(*group, Signal::KILL);
                format!(
                    "The command of {option} was killed, so that what it changed may be incomplete{}.",
                    left_running(option)
                )
            })
            .collect()
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let mut groups = self
            .running
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        groups.running.retain(|(other, _)| *other != group);
    }
}
