//! Sessions that stay open for further statements of the same login.

use connect::login::Login;

/// Maximum number of sessions at the same time. A private server allows 100 connections, and a session ends only some time
/// after it is closed.
const SESSIONS_MAX: usize = 20;

/// Open sessions by login. A workload can have a login for each tenant, so that not all of them stay open.
pub(super) struct OpenSessions<S> {
    /// The session that was not used for the longest time comes first.
    all: Vec<(Login, S)>,
}

impl<S> OpenSessions<S> {
    pub(super) fn new() -> Self {
        OpenSessions { all: Vec::new() }
    }

    /// Returns the session of a login, and opens it if there is none. If there would be too many, it closes the session that
    /// was not used for the longest time.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn get_or_open<E>(
        &mut self,
        login: &Login,
        open: impl FnOnce() -> Result<S, E>,
    ) -> Result<&mut S, E> {
        let session = match self.all.iter().position(|(known, _)| known == login) {
            Some(at) => self.all.remove(at).1,
            None => {
                if self.all.len() >= SESSIONS_MAX {
                    self.all.remove(0);
                }
                open()?
            }
        };
        self.all.push((login.clone(), session));
        let at = self.all.len() - 1;
        Ok(&mut self.all[at].1)
    }

    /// Closes the session of a login.
    pub(super) fn close(&mut self, login: &Login) {
        self.all.retain(|(known, _)| known != login);
    }

    /// Closes all sessions.
    pub(super) fn close_all(&mut self) {
        self.all.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(number: usize) -> Login {
        Login {
            user: format!("tenant_{number}").into(),
            database: "shop".into(),
            application: "test".into(),
            role: None,
            settings: [].into(),
        }
    }

    #[test]
    fn sessions_of_many_logins_close_the_one_that_was_not_used_for_the_longest_time() {
        let mut sessions = OpenSessions::new();
        for number in 0..SESSIONS_MAX {
            let found = sessions.get_or_open(&login(number), || Ok::<_, ()>(number));
            assert_eq!(found.copied(), Ok(number));
        }
        let is_open = |sessions: &mut OpenSessions<usize>, number: usize| {
            sessions.get_or_open(&login(number), || Err(())).is_ok()
        };
        assert!(is_open(&mut sessions, 0));
        let one_more = sessions.get_or_open(&login(100), || Ok::<_, ()>(100));
        assert!(one_more.is_ok());
        assert_eq!(sessions.all.len(), SESSIONS_MAX);
        assert!(is_open(&mut sessions, 0) && is_open(&mut sessions, 100));
        assert!(!is_open(&mut sessions, 1));
        sessions.close(&login(0));
        assert!(!is_open(&mut sessions, 0) && is_open(&mut sessions, SESSIONS_MAX - 1));
        sessions.close_all();
        assert!(!is_open(&mut sessions, 100));
    }

    #[test]
    fn session_that_cannot_be_opened_is_reported_and_not_kept() {
        let mut sessions: OpenSessions<u8> = OpenSessions::new();
        let refused = sessions.get_or_open(&login(1), || Err("too many clients"));
        assert_eq!(refused, Err("too many clients"));
        assert!(sessions.all.is_empty());
    }
}
