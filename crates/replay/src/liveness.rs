//! Detects a target that does not answer. If statements wait and no answer has come for a while, a probe on a
//! separate connection distinguishes a long statement from a dead server.

use std::sync::Arc;
use std::thread::JoinHandle;

use clock::duration_text;

use crate::connect::{ConnectError, Dialer};
use crate::login::Login;

/// Query of the probe. The comment distinguishes it from queries of applications, so that the server's statistics
/// can leave it out.
const PROBE_SQL: &str = "SELECT /* rehearse_probe */ pg_catalog.pg_postmaster_start_time()";

/// Time without an answer after which the target is probed, and interval between two probes.
const PROBE_AFTER_NS: i64 = 10_000_000_000;

/// Monitor of one target, called about ten times a second.
pub(crate) struct LivenessMonitor {
    dialer: Arc<Dialer>,
    login: Option<Login>,
    patience_ns: i64,
    /// Time of the target's last sign of life.
    alive_ns: i64,
    probed_ns: i64,
    probe: Option<JoinHandle<Result<(), ConnectError>>>,
}

impl LivenessMonitor {
    /// Creates a monitor. `login` is one that the target has accepted. Without one, or with no patience, it does
    /// nothing.
    pub(crate) fn new(dialer: &Arc<Dialer>, login: Option<Login>, patience_ns: i64) -> Self {
        LivenessMonitor {
            dialer: dialer.clone(),
            login: login.filter(|_| patience_ns > 0),
            patience_ns,
            alive_ns: 0,
            probed_ns: 0,
            probe: None,
        }
    }

    /// Checks the target. `heard_ns` is the time of its last answer; `waiting` whether jobs wait for it. Returns
    /// the reason if the target must be given up.
    pub(crate) fn check(&mut self, now_ns: i64, heard_ns: i64, waiting: bool) -> Option<String> {
        self.alive_ns = self.alive_ns.max(heard_ns);
        if !waiting {
            self.alive_ns = now_ns;
        }
        if let Some(question) = self.probe.take_if(|question| question.is_finished()) {
            self.probed_ns = now_ns;
            match question.join() {
                Ok(Ok(())) => self.alive_ns = now_ns,
                // A server that refuses for too many connections is alive.
                Ok(Err(error)) if error.sqlstate.0.starts_with(b"53") => self.alive_ns = now_ns,
                Ok(Err(error)) => {
                    let silent_ns = now_ns - self.alive_ns;
                    if silent_ns > self.patience_ns {
                        return Some(format!(
                            "the target has not answered for {}: {error}",
                            duration_text(silent_ns / 1_000_000_000 * 1_000_000_000)
                        ));
                    }
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let silent_ns = now_ns - self.alive_ns;
        let pause_ns = PROBE_AFTER_NS.min(self.patience_ns / 2);
        if self.probe.is_none()
            && silent_ns > pause_ns
            && now_ns - self.probed_ns > pause_ns
            && let Some(login) = self.login.clone()
        {
            let dialer = self.dialer.clone();
            let ask = move || dialer.ask(&login, PROBE_SQL).map(|_| ());
            self.probe = std::thread::Builder::new()
                .name("watch".to_owned())
                .spawn(ask)
                .ok();
        }
        None
    }
}
