//! Commands of the shell in a process group, which ends with them when a stop is requested.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use clock::monotonic_ns;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use crate::interrupt::Interrupt;
use crate::running_commands::RunningCommand;

/// Interval of checks whether a command has ended.
const POLL: Duration = Duration::from_millis(50);

/// End of a command.
#[derive(Debug, Clone, Copy)]
pub(super) enum CommandEnd {
    /// It exited, or a signal that this program did not send killed it.
    Exited(ExitStatus),
    /// Its time was over, and its process group was ended.
    TimeLimit,
    /// A stop was requested, and its process group was ended.
    Stopped,
    /// It asked for input from the terminal, which only this program's group has, and its process group was ended.
    AskedTerminal,
}

/// Runs the command of an option until its end. `clean_up_time`: time that it has after SIGTERM until SIGKILL. A Ctrl-C in a
/// terminal does not reach the command: this program ends it.
///
/// # Errors
/// If the command cannot be started or waited for.
pub(super) fn run_group(
    (command, option): (&mut Command, &str),
    interrupt: &Interrupt,
    time_limit: Duration,
    clean_up_time: Duration,
) -> io::Result<CommandEnd> {
    let RunningCommand { child, .. } = &mut interrupt.commands().start(command, option)?;
    let until_ns = monotonic_ns().saturating_add(nanoseconds(time_limit));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(CommandEnd::Exited(status));
        }
        let end = match (interrupt.is_requested(), monotonic_ns() > until_ns) {
            (true, _) => CommandEnd::Stopped,
            (_, true) => CommandEnd::TimeLimit,
            _ if waits_for_terminal(child) => CommandEnd::AskedTerminal,
            _ => {
                std::thread::sleep(POLL);
                continue;
            }
        };
        end_group(child, clean_up_time);
        return Ok(end);
    }
}

/// Whether the system stopped the command, since it read from or set a terminal that its group does not have.
fn waits_for_terminal(child: &Child) -> bool {
    // Its state is not taken, so that its end can be waited for.
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(Pid::from_child(child)), options);
    let signal = status.ok().flatten().and_then(|one| one.stopping_signal());
    let terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
    signal.is_some_and(|signal| terminal.contains(&signal))
}

/// Ends the command and the programs of its process group. All of them have the time to clean up: a shell exits before its `pg_dump`
/// has cancelled the query that waits for a lock. A zombie that nothing waits for counts until the time is over. A server that it
/// started has a group of its own.
fn end_group(child: &mut Child, clean_up_time: Duration) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    // A stopped process handles the signal only when it continues.
    let _ = kill_process_group(group, Signal::CONT);
    let until_ns = monotonic_ns().saturating_add(nanoseconds(clean_up_time));
    // The command itself leaves the group when it is waited for.
    let is_running = |child: &mut Child| {
        matches!(child.try_wait(), Ok(None))
            || test_kill_process_group(group) != Err(rustix::io::Errno::SRCH)
    };
    while is_running(child) && monotonic_ns() < until_ns {
        std::thread::sleep(POLL);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn program_of_a_shell_that_exits_first_has_time_to_clean_up() {
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("ready");
        let program = "trap \"sleep 0.5; touch cleaned; exit\" TERM; touch ready; while :; do sleep 0.1; done";
        let script = format!("trap 'exit 143' TERM; sh -c '{program}' & wait");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(directory.path())
            .stdin(Stdio::null());
        let interrupt = Interrupt::default();
        let end = std::thread::scope(|scope| {
            scope.spawn(|| {
                let until_ns = monotonic_ns() + nanoseconds(Duration::from_secs(30));
                while !ready.exists() && monotonic_ns() < until_ns {
                    std::thread::sleep(POLL);
                }
                interrupt.flag().store(true, Ordering::Relaxed);
            });
            let patience = Duration::from_secs(30);
            run_group((&mut command, "a test"), &interrupt, patience, patience)
        });
        assert!(matches!(end, Ok(CommandEnd::Stopped)), "{end:?}");
        assert!(directory.path().join("cleaned").exists());
    }
}
