//! A capture that attaches to a server, run by the program under test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{is_set, report_skipped};

/// Environment variable that makes a host without eBPF a failure if it is `1`.
const VARIABLE: &str = "REHEARSE_TEST_ATTACH";

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parts of the messages by which the program reports that this host does not let it attach.
const HOST_REASONS: [&str; 7] = [
    "attaching to a server needs",
    "this host forbids",
    "is too old to attach",
    "does not publish its types",
    "process numbers of this container",
    "this process is in a user namespace",
    "capture attach needs Linux",
];

/// A running `capture attach`. It is killed when it is dropped.
pub struct CaptureAttach {
    /// The process that decodes.
    pub child: Child,
    messages: Receiver<String>,
    seen: Vec<String>,
}

impl CaptureAttach {
    /// Starts a command that runs `capture attach`, and waits until it records. Returns `None` if this host does not allow
    /// that, and reports that the test is skipped.
    ///
    /// # Panics
    /// If it ends for another reason, or `REHEARSE_TEST_ATTACH` is 1.
    #[track_caller]
    pub fn start(command: &mut Command) -> Option<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, messages) = channel();
        // Later messages must have somewhere to go.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut attach = CaptureAttach {
            child,
            messages,
            seen: Vec::new(),
        };
        if attach.find_message("recording ").is_some() {
            return Some(attach);
        }
        let message = attach.seen.join("\n");
        let is_of_host = HOST_REASONS.iter().any(|reason| message.contains(reason));
        assert!(is_of_host && !is_set(VARIABLE), "{message}");
        report_skipped(&message);
        None
    }

    fn find_message(&mut self, text: &str) -> Option<String> {
        loop {
            let line = self.messages.recv_timeout(PATIENCE).ok()?;
            self.seen.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
    }

    /// Waits for a message that contains this text.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        match self.find_message(text) {
            Some(line) => line,
            None => panic!("no message has '{text}': {:?}", self.seen),
        }
    }

    /// Sends a signal to the process.
    ///
    /// # Panics
    /// If there is no such process.
    #[track_caller]
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for its end. Returns its exit code and what it printed.
    ///
    /// # Panics
    /// If its output cannot be read.
    #[track_caller]
    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        let stdout = self.child.stdout.as_mut().expect("it is piped");
        stdout.read_to_string(&mut text).expect("its output");
        let status = self.child.wait().expect("it ends");
        (status.code(), text)
    }

    /// Interrupts it, as Ctrl-C does, and waits for its end. Returns its exit code and what it printed.
    ///
    /// # Panics
    /// As [`Self::wait`].
    #[track_caller]
    pub fn interrupt(self) -> (Option<i32>, String) {
        self.signal("-INT");
        self.wait()
    }
}

impl Drop for CaptureAttach {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
