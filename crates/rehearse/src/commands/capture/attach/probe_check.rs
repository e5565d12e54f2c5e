//! Checks whether the probes see the traffic of the server, since probes that never run look like a server without clients.

use capture_attach::{AttachStatus, SessionWaits, session_waits};

/// Time without a byte after which the sessions of the server are examined, and the interval of doing so, in nanoseconds.
const SILENCE_NS: i64 = 10_000_000_000;
/// Time in which this program's own session must have been seen, in nanoseconds.
const OWN_SESSION_NS: i64 = 5_000_000_000;
/// Number of waits of a session in an interval from which it is active. One is that of a lock or of a timeout.
const ACTIVE_WAITS: u64 = 3;

/// Evidence that the server has traffic, compared with what the probes copied.
pub(super) struct ProbeCheck {
    /// Whether this program has opened a session in the server.
    has_own_session: bool,
    /// Time at which the sessions are examined next.
    next_ns: i64,
    waits: SessionWaits,
    warning: Option<String>,
}

impl ProbeCheck {
    pub(super) fn new(has_own_session: bool) -> Self {
        ProbeCheck {
            has_own_session,
            next_ns: 0,
            waits: SessionWaits::new(),
            warning: None,
        }
    }

    /// Compares the status at a time, in nanoseconds since the start of the capture. Returns a warning once.
    pub(super) fn check(&mut self, status: &AttachStatus, now_ns: i64) -> Option<String> {
        if self.warning.is_some() {
            return None;
        }
        let found = missing_own_session(self.has_own_session, status);
        let found = found.filter(|_| now_ns >= OWN_SESSION_NS);
        self.warning = found.or_else(|| self.silent_sessions(status, now_ns));
        self.warning.clone()
    }

    /// Returns the warning that holds at the end of the capture. Then all records were read, so that a session that is missing
    /// was not seen.
    pub(super) fn warning(self, status: &AttachStatus) -> Option<String> {
        let silent = self.warning.filter(|_| status.counters.bytes == [0; 2]);
        missing_own_session(self.has_own_session, status).or(silent)
    }

    fn silent_sessions(&mut self, status: &AttachStatus, now_ns: i64) -> Option<String> {
        let postmaster = status.counters.postmaster?;
        if status.counters.bytes != [0; 2] || now_ns < self.next_ns {
            return None;
        }
        self.next_ns = now_ns + SILENCE_NS;
        let waits = session_waits(postmaster);
        let before = std::mem::replace(&mut self.waits, waits);
        let active = before.iter().find(|(pid, count)| {
            let now = self.waits.get(pid).copied().unwrap_or_default();
            now.saturating_sub(**count) >= ACTIVE_WAITS
        });
        active.map(|(pid, _)| {
            format!(
                "no traffic was seen for {} s, although sessions of the server work, process {pid} among them: they run long \
                 statements, or the probes do not run",
                SILENCE_NS / 1_000_000_000
            )
        })
    }
}

fn missing_own_session(has_own_session: bool, status: &AttachStatus) -> Option<String> {
    let is_missing = has_own_session && status.counters.left_out_own == 0;
    is_missing.then(|| {
        "the probes have not seen the session that this command opened with --server or --starting-point: its URL leads to \
         another server or through a pooler, or the probes do not run"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_session_that_is_not_seen_in_time_is_a_warning_until_it_is_seen() {
        let mut status = AttachStatus::default();
        status.counters.bytes = [1, 1];
        let mut check = ProbeCheck::new(true);
        assert_eq!(check.check(&status, OWN_SESSION_NS - 1), None);
        assert!(check.check(&status, OWN_SESSION_NS).is_some());
        assert_eq!(check.check(&status, OWN_SESSION_NS), None);
        assert!(check.warning(&status).is_some());
        status.counters.left_out_own = 1;
        let mut check = ProbeCheck::new(true);
        assert_eq!(check.check(&status, OWN_SESSION_NS), None);
        assert_eq!(ProbeCheck::new(true).warning(&status), None);
        status.counters.left_out_own = 0;
        assert_eq!(ProbeCheck::new(false).warning(&status), None);
        // Also after a capture that was shorter than the time of the check.
        assert!(ProbeCheck::new(true).warning(&status).is_some());
    }

    #[test]
    fn sessions_that_work_without_a_byte_are_a_warning() {
        let (server, endpoint) = test_support::server().start();
        let lock_file = server.data_dir().join("postmaster.pid");
        let text = std::fs::read_to_string(lock_file).unwrap();
        let mut status = AttachStatus::default();
        status.counters.postmaster = text.lines().next().unwrap().parse().ok();
        let mut client = test_support::connect(&endpoint);
        let mut check = ProbeCheck::new(false);
        assert_eq!(check.check(&status, 0), None);
        // An idle session is no evidence.
        assert_eq!(check.check(&status, SILENCE_NS), None);
        for _ in 0..20 {
            client.batch_execute("SELECT 1").unwrap();
            // The session waits meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(check.check(&status, 2 * SILENCE_NS - 1), None);
        let warning = check.check(&status, 2 * SILENCE_NS).unwrap();
        assert!(warning.contains("sessions of the server work"), "{warning}");
        status.counters.bytes = [1, 0];
        assert_eq!(check.warning(&status), None);
    }
}
