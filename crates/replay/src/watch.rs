//! Is the target still there? Where nothing was heard for a while although something was asked, a
//! connection of our own tells a long statement from a server that does not answer.

use std::sync::Arc;
use std::thread::JoinHandle;

use clock::duration_text;

use crate::connect::{ConnectError, Dialer};
use crate::login::Login;

/// What a silent target is asked. No application asks it so: the server's statistics count what is alike
/// as one, and leave out what says that it is a probe's.
const ALIVE: &str = "SELECT /* rehearse_probe */ pg_catalog.pg_postmaster_start_time()";

/// Silence after which the target is asked, and how often it is asked then.
const SILENCE_NS: i64 = 10_000_000_000;

/// Watches one target; asked some ten times a second.
pub(crate) struct Watch {
    dialer: Arc<Dialer>,
    login: Option<Login>,
    patience_ns: i64,
    /// When the target last gave a sign of life.
    alive_ns: i64,
    asked_ns: i64,
    question: Option<JoinHandle<Result<(), ConnectError>>>,
}

impl Watch {
    /// `login` is one that the target took before; without one, or without patience, nothing is
    /// watched.
    pub(crate) fn new(dialer: &Arc<Dialer>, login: Option<Login>, patience_ns: i64) -> Self {
        Watch {
            dialer: dialer.clone(),
            login: login.filter(|_| patience_ns > 0),
            patience_ns,
            alive_ns: 0,
            asked_ns: 0,
            question: None,
        }
    }

    /// `heard_ns` is when something came from the target last; `waiting` whether something is asked
    /// of it. Returns why it is to be given up, if it is.
    pub(crate) fn look(&mut self, now_ns: i64, heard_ns: i64, waiting: bool) -> Option<String> {
        self.alive_ns = self.alive_ns.max(heard_ns);
        if !waiting {
            self.alive_ns = now_ns;
        }
        if let Some(question) = self.question.take_if(|question| question.is_finished()) {
            self.asked_ns = now_ns;
            match question.join() {
                Ok(Ok(())) => self.alive_ns = now_ns,
                // A server that has no room for one more connection is there.
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
        let pause_ns = SILENCE_NS.min(self.patience_ns / 2);
        if self.question.is_none()
            && silent_ns > pause_ns
            && now_ns - self.asked_ns > pause_ns
            && let Some(login) = self.login.clone()
        {
            let dialer = self.dialer.clone();
            let ask = move || dialer.ask(&login, ALIVE).map(|_| ());
            self.question = std::thread::Builder::new()
                .name("watch".to_owned())
                .spawn(ask)
                .ok();
        }
        None
    }
}
