//! Commands of the user that print a result, with a time limit.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use replay::Target;

use super::process_group::{CommandEnd, run_group};
use super::shell::{asked_terminal, shell, shown};
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;
use crate::running_commands::left_running;

/// Time that a command has to clean up after SIGTERM.
const CLEAN_UP_TIME: Duration = Duration::from_secs(10);

/// A shell command that prints a result.
pub(crate) struct PrintingCommand<'a> {
    /// Text for the shell.
    pub(crate) command: &'a str,
    /// Option that it was given with.
    pub(crate) option: &'a str,
    /// Server that libpq's variables name. Without one, there are none of them.
    pub(crate) server: Option<&'a Target>,
    /// Other variables.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Time after which it is ended.
    pub(crate) time_limit: Duration,
}

impl PrintingCommand<'_> {
    /// Runs the command, and returns its standard output. Programs that it starts may keep its output open: the end of
    /// the command counts.
    ///
    /// # Errors
    /// If it fails, with its last messages without passwords; if its time is over, or a stop is requested. Then its process
    /// group is ended.
    pub(crate) fn run(&self, interrupt: &Interrupt) -> Result<String, ExperimentError> {
        let failed = || ExperimentError::file("run a shell for", Path::new(self.option));
        // Files and not pipes, which a started server could keep open.
        let (mut output, mut messages) = self.files().map_err(failed())?;
        let end = self.run_with(&output, &messages, interrupt);
        match end.map_err(failed())? {
            CommandEnd::Exited(status) if status.success() => Ok(read(&mut output)),
            CommandEnd::Exited(status) => Err(self.failed(status, &read(&mut messages))),
            CommandEnd::Stopped => Err(ExperimentError::Failed(format!(
                "the rehearsal was stopped, and the command of {} was ended{}; continue with --resume and the same options",
                self.option,
                left_running(self.option)
            ))),
            CommandEnd::AskedTerminal => Err(ExperimentError::Failed(asked_terminal(self.option))),
            CommandEnd::TimeLimit => Err(ExperimentError::Failed(format!(
                "the command of {} did not end within {} s, and was ended; give it more time with --clone-time-limit, or run it by hand to see what it waits for: {}",
                self.option,
                self.time_limit.as_secs(),
                shown(&read(&mut messages), self.server)
            ))),
        }
    }

    fn files(&self) -> io::Result<(File, File)> {
        Ok((tempfile::tempfile()?, tempfile::tempfile()?))
    }

    fn run_with(
        &self,
        output: &File,
        messages: &File,
        interrupt: &Interrupt,
    ) -> io::Result<CommandEnd> {
        let mut command = shell(self.command, self.server);
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdout(output.try_clone()?)
            .stderr(messages.try_clone()?);
        run_group(
            (&mut command, self.option),
            interrupt,
            self.time_limit,
            CLEAN_UP_TIME,
        )
    }

    fn failed(&self, status: ExitStatus, messages: &str) -> ExperimentError {
        ExperimentError::Failed(format!(
            "the command of {} failed ({status}): {}",
            self.option,
            shown(messages, self.server)
        ))
    }
}

/// Returns the content of a file from its beginning. Bytes that are no UTF-8 are replaced.
pub(super) fn read(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is missing in a message, or is no URL, which is reported.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal};

    use super::*;

    fn command(command: &str, seconds: u64) -> PrintingCommand<'_> {
        PrintingCommand {
            command,
            option: "--clone-command",
            server: None,
            variables: vec![("REHEARSE_SIDE", "old".to_owned())],
            time_limit: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn output_of_a_command_is_returned_while_a_program_that_it_started_keeps_it_open() {
        let text = "sleep 600 & echo $! $REHEARSE_SIDE ${PGHOST-unset}";
        let printed = command(text, 60).run(&Interrupt::default()).unwrap();
        let (process, rest) = printed.trim().split_once(' ').unwrap();
        assert_eq!(rest, "old unset");
        let process = Pid::from_raw(process.parse().unwrap()).unwrap();
        rustix::process::kill_process(process, Signal::KILL).unwrap();
    }

    #[test]
    fn failed_command_is_reported_without_the_passwords_in_its_messages() {
        let target = Target::parse("postgres://u:geheim@h/d", |_| None).unwrap();
        let text = "echo geheim of postgres://u:other@h/d >&2; exit 3";
        let command = PrintingCommand {
            server: Some(&target),
            ..command(text, 60)
        };
        let failed = command.run(&Interrupt::default()).unwrap_err().to_string();
        assert!(failed.contains("exit status: 3"), "{failed}");
        assert!(failed.contains("of postgres://"), "{failed}");
        assert!(
            !failed.contains("geheim") && !failed.contains("other"),
            "{failed}"
        );
    }

    #[test]
    fn command_that_does_not_end_is_ended_with_its_programs() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("process");
        let text = format!("sleep 600 & echo $! >{}; wait", file.display());
        let failed = command(&text, 1).run(&Interrupt::default()).unwrap_err();
        assert!(
            failed.to_string().contains("did not end within 1 s"),
            "{failed}"
        );
        let process: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "{state}");
    }
}
