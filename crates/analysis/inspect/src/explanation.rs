//! Explains errors of a replay that are often caused by the replay itself, with remedies.

/// Explanation of an error of a replay.
struct Explanation {
    /// SQLSTATE prefixes: codes of five characters, or classes of two.
    codes: &'static [&'static str],
    /// Option of the replay that causes the error; the explanation only applies to runs with this
    /// option.
    option: Option<&'static str>,
    /// Cause of the error, and the remedy.
    text: &'static str,
}

/// The first match applies.
const EXPLANATIONS: [Explanation; 10] = [
    Explanation {
        codes: &["42P18"],
        option: None,
        text: "the type of a parameter could not be inferred: the client named it, and a log does not say which; not the target's doing. Cast the parameter in the application's SQL, or capture from the wire, where types are seen",
    },
    Explanation {
        codes: &["26000"],
        option: None,
        text: "a prepared statement was not there: it was prepared before the capture began, or in another session of a pooler. Begin the capture before the sessions, and replay against the server rather than a pooler in transaction mode",
    },
    Explanation {
        codes: &["42P05"],
        option: None,
        text: "a prepared statement was there already: a pooler gave the session a connection that another one had used. Replay against the server, or with a pooler in session mode",
    },
    Explanation {
        codes: &["08P01"],
        option: None,
        text: "the server could not make sense of a message, or a statement came with another number of parameters than it has. Look whether a pooler is in between; if none is, this is a fault of the replay: please report it",
    },
    Explanation {
        codes: &["08"],
        option: None,
        text: "the connection was lost, and nobody knows whether the statement was done; what was left of its transaction was not sent. Look into the target's log at that time for a crash, a restart or a network's time limit, and replay again",
    },
    Explanation {
        codes: &["57P01", "57P02", "57P03", "57P04"],
        option: None,
        text: "the target ended the connection: it was stopped, it crashed, somebody ended the backend or dropped the database. Look into its log at that time, and replay again",
    },
    Explanation {
        codes: &["57P05", "25P03"],
        option: None,
        text: "the target ends sessions that are idle for too long, and replayed sessions wait as long as the captured ones did. Raise its idle_session_timeout or idle_in_transaction_session_timeout, or replay faster",
    },
    Explanation {
        codes: &["57014"],
        option: Some("statement_timeout"),
        text: "--statement-timeout of this replay ended it: it took longer than that here. Raise the limit to see how long it takes",
    },
    Explanation {
        codes: &["25006"],
        option: Some("read_only"),
        text: "--read-only of this replay had the server refuse what writes. Replay without it, against a copy that may be written",
    },
    Explanation {
        codes: &["25P02"],
        option: None,
        text: "its transaction had failed before, by a statement that failed in the capture as well: look at what ended the transaction there, such as a ROLLBACK TO that is not in the capture",
    },
];

/// Returns the explanation of an error in a replay with these options, if there is one.
pub(crate) fn explanation(
    sqlstate: &str,
    has_option: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    let found = EXPLANATIONS.iter().find(|one| {
        one.codes.iter().any(|code| sqlstate.starts_with(code))
            && one.option.is_none_or(&has_option)
    });
    found.map(|one| one.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sqlstate: &str, options: &[&str]) -> &'static str {
        explanation(sqlstate, |option| options.contains(&option)).unwrap_or("")
    }

    #[test]
    fn replay_errors_are_explained_with_a_remedy() {
        for (sqlstate, words) in [
            ("42P18", ["log does not say", "Cast"]),
            ("26000", ["before the capture", "Begin the capture"]),
            ("42P05", ["pooler", "Replay against the server"]),
            ("08P01", ["parameters", "report it"]),
            ("08006", ["lost", "target's log"]),
            ("08001", ["lost", "target's log"]),
            ("57P01", ["ended the connection", "its log"]),
            ("57P05", ["idle", "Raise"]),
            ("25P03", ["idle", "Raise"]),
            ("25P02", ["failed before", "look at"]),
        ] {
            let text = told(sqlstate, &[]);
            for word in words {
                assert!(text.contains(word), "{sqlstate}: '{word}' in '{text}'");
            }
        }
        for one in &EXPLANATIONS {
            assert!(!one.text.ends_with('.'), "{}", one.text);
            assert!(one.codes.iter().all(|code| [2, 5].contains(&code.len())));
        }
    }

    #[test]
    fn option_explains_only_runs_with_it() {
        assert_eq!(told("57014", &[]), "");
        assert!(told("57014", &["statement_timeout"]).contains("--statement-timeout"));
        assert_eq!(told("25006", &["statement_timeout"]), "");
        assert!(told("25006", &["read_only"]).contains("--read-only"));
    }

    #[test]
    fn server_errors_have_no_explanation() {
        for sqlstate in ["42703", "23505", "40001", "?????", ""] {
            assert_eq!(told(sqlstate, &["read_only", "statement_timeout"]), "");
        }
    }
}
