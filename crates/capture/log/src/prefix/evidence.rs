//! Judges a prefix by what it reads in a line. Some messages repeat the names of their session, and
//! others are never written by a process without a client.

use super::{Escape, Prefix};
use crate::message::{Message, classify, split_authorized};
use crate::severity::{Label, Severity, find_label, label};
use crate::timestamp::TimestampParser;

/// A line and the start of its first label.
pub(super) type LabelledLine<'a> = (&'a [u8], usize);

/// Process and moment at which a message is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    #[default]
    Any,
    /// A process without a client.
    Server,
    /// A client's process.
    Client,
    /// A client's process without names: the server prints `[unknown]`.
    Receipt,
    /// A client's process whose application has no name yet.
    Authorization,
}

/// Facts that a line's message states about its session.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineFacts<'a> {
    pub user: Option<&'a str>,
    pub database: Option<&'a str>,
    pub host: Option<&'a str>,
    pub origin: Origin,
}

/// Result of judging a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    NoMatch,
    /// It matches, and its message says otherwise.
    Contradicts,
    Fits {
        wall_us: Option<i64>,
        /// The names look like names.
        is_clean: bool,
        /// The message repeats the user or the database.
        is_confirmed: bool,
    },
}

/// Number of lines after a message within which its CONTEXT is looked for: lines of other processes
/// may be between.
const CONTEXT_WITHIN: usize = 3;

/// Beginnings of messages of processes without a client.
const SERVER_MESSAGES: [&str; 6] = [
    "checkpoint starting: ",
    "checkpoint complete: ",
    "automatic vacuum ",
    "automatic analyze ",
    "database system is ready to accept connections",
    "received SIGHUP, reloading",
];

impl<'a> LineFacts<'a> {
    pub(super) fn of((line, label_at): &LabelledLine<'a>) -> Self {
        let Ok(text) = std::str::from_utf8(&line[*label_at..]) else {
            return LineFacts::default();
        };
        match label(text.as_bytes()) {
            Some((Label::Head(severity), length)) => {
                LineFacts::of_message(severity, &text[length..])
            }
            _ => LineFacts::default(),
        }
    }

    /// Collects the facts of consecutive lines. What RAISE wrote states none: its CONTEXT or STATEMENT
    /// follows.
    pub(super) fn of_all(lines: &[LabelledLine<'a>]) -> Vec<Self> {
        let mut facts: Vec<Self> = lines.iter().map(LineFacts::of).collect();
        for (index, facts) in facts.iter_mut().enumerate() {
            let following = &lines[index + 1..];
            let mut near = following.iter().take(CONTEXT_WITHIN);
            if facts.origin != Origin::Any
                && (near.any(|(line, label_at)| is_context_of_raise(&line[*label_at..]))
                    || is_of_statement(following.iter().map(|(line, _)| *line)) == Some(true))
            {
                *facts = LineFacts::default();
            }
        }
        facts
    }

    /// Collects the facts that a message states.
    pub(crate) fn of_message(severity: Severity, message: &'a str) -> Self {
        let mut facts = LineFacts::default();
        match severity {
            Severity::Log => facts.add_log(message),
            Severity::Fatal => facts.add_refusal(message),
            _ => (),
        }
        facts
    }

    /// Adds the names of a login that was refused. Other messages name other roles: one that may not be set, or that of
    /// another server. A role that does not exist may be one that an option of the login would set.
    fn add_refusal(&mut self, message: &'a str) {
        // A name that contains a line end is cut off, and has no closing quote.
        let between = |start: &str, end: &str| message.strip_prefix(start)?.strip_suffix(end);
        if message.starts_with("no pg_hba.conf entry for host \"") {
            let names = message.split_once(", user \"");
            let names = names.and_then(|(_, rest)| rest.split_once("\", database \""));
            let names = names.and_then(|(user, rest)| Some((user, rest.rsplit_once('"')?.0)));
            self.user = names.map(|(user, _)| user);
            self.database = names.map(|(_, database)| database);
        } else if let Some(user) = between("password authentication failed for user \"", "\"") {
            self.user = Some(user);
        } else if let Some(user) = between("role \"", "\" is not permitted to log in") {
            self.user = Some(user);
        } else if let Some(database) = between("database \"", "\" does not exist") {
            self.database = Some(database);
        }
    }

    fn add_log(&mut self, message: &'a str) {
        match classify(message) {
            Message::Authorized { user, database, .. } => {
                self.origin = Origin::Authorization;
                let keys = [" database=", " application_name="];
                let sole = keys.iter().all(|key| message.matches(key).count() < 2);
                if sole && !split_authorized(message).is_empty() {
                    (self.user, self.database) = (Some(user), Some(database));
                }
            }
            Message::Disconnected { user, database } => {
                self.origin = Origin::Client;
                let sole = |key: &str| message.matches(key).count() == 1;
                if sole(" user=") && sole(" database=") && sole(" host=") {
                    (self.user, self.database) = (Some(user), Some(database));
                    let host = message.rsplit_once(" host=").map(|(_, host)| host);
                    self.host = host.and_then(|host| host.split(" port=").next());
                }
            }
            Message::Received { host, .. } => {
                self.origin = Origin::Receipt;
                self.host = Some(host);
            }
            Message::Simple { .. } | Message::Extended { .. } => self.origin = Origin::Client,
            _ => {
                let starts = SERVER_MESSAGES
                    .iter()
                    .any(|start| message.starts_with(start));
                if starts {
                    self.origin = Origin::Server;
                }
            }
        }
    }

    /// Returns whether only a client's process writes it.
    pub(crate) fn is_of_client(&self) -> bool {
        !matches!(self.origin, Origin::Any | Origin::Server)
    }

    /// Judges a line by a prefix.
    pub(super) fn judge(
        &self,
        prefix: &Prefix,
        line: &[u8],
        times: &mut TimestampParser,
    ) -> Verdict {
        let Some(found) = prefix.matches(line, times) else {
            return Verdict::NoMatch;
        };
        let Ok(text) = std::str::from_utf8(line) else {
            return Verdict::NoMatch;
        };
        let fields = &found.fields;
        let names = (fields.user.of(text), fields.database.of(text));
        if fields.quit && self.is_of_client() || fields.pid == Some(0) {
            return Verdict::Contradicts;
        }
        let has = |escape| !fields.quit && prefix.has(&[escape]);
        let fits = |(user, database): (&str, &str)| {
            let agrees = |escape, said: Option<&str>, read: &str| {
                !has(escape) || said.is_none_or(|said| said == read)
            };
            agrees(Escape::User, self.user, user)
                && agrees(Escape::Database, self.database, database)
        };
        // A name may contain the text that separates it from the next.
        if !fits(names) {
            let others = prefix.readings(line, times).unwrap_or_default();
            let names = |reading: &super::LineMatch| {
                (
                    reading.fields.user.of(text),
                    reading.fields.database.of(text),
                )
            };
            if !others.iter().any(|reading| fits(names(reading))) {
                return Verdict::Contradicts;
            }
        }
        let application = fields.application.of(text);
        let is_unnamed = self.origin == Origin::Receipt
            && (has(Escape::User) && names.0 != "[unknown]"
                || has(Escape::Database) && names.1 != "[unknown]");
        let is_named = self.origin == Origin::Server
            && [names.0, names.1, application]
                .iter()
                .any(|name| !matches!(*name, "" | "[unknown]"));
        let is_early = self.origin == Origin::Authorization
            && has(Escape::Application)
            && !matches!(application, "[unknown]" | "");
        if is_unnamed || is_named || is_early {
            return Verdict::Contradicts;
        }
        Verdict::Fits {
            wall_us: fields.wall_us,
            is_clean: is_name(names.0)
                && is_name(names.1)
                && is_application(application)
                && !fields.backend.of(text).contains(['@', '=', '[', '(']),
            is_confirmed: has(Escape::User) && self.user.is_some()
                || has(Escape::Database) && self.database.is_some(),
        }
    }
}

/// Returns whether RAISE wrote the line before these, by the CONTEXT that follows it.
pub(crate) fn is_raised(following: &[&[u8]]) -> bool {
    let mut following = following.iter().take(CONTEXT_WITHIN);
    following
        .any(|line| find_label(line).is_some_and(|label_at| is_context_of_raise(&line[label_at..])))
}

/// Returns whether the entry that these lines follow was written while a statement ran: its CONTEXT or
/// STATEMENT is among its lines. `None` if more lines are needed to tell. The server writes the lines of
/// an entry at once, and reports connections, checkpoints and changed settings outside of statements.
pub(crate) fn is_of_statement<'a>(following: impl Iterator<Item = &'a [u8]>) -> Option<bool> {
    for line in following.filter(|line| !line.starts_with(b"\t")) {
        let found = find_label(line).and_then(|label_at| label(&line[label_at..]));
        match found {
            Some((Label::Context | Label::Statement, _)) => return Some(true),
            Some((Label::Detail | Label::Aside | Label::Location, _)) => (),
            _ => return Some(false),
        }
    }
    None
}

/// Returns whether a text from its label on is the CONTEXT of RAISE.
fn is_context_of_raise(text: &[u8]) -> bool {
    matches!(label(text), Some((Label::Context, _))) && text.ends_with(b" at RAISE")
}

impl Prefix {
    /// Describes what contradicts the prefix in a line, if anything does.
    pub(crate) fn contradiction(&self, line: &[u8], times: &mut TimestampParser) -> Option<String> {
        let found = self.matches(line, times)?;
        let text = std::str::from_utf8(line).ok()?;
        let Label::Head(severity) = found.label else {
            return None;
        };
        let facts = LineFacts::of_message(severity, text.get(found.text..)?);
        if facts.judge(self, line, times) != Verdict::Contradicts {
            return None;
        }
        // A name that a client chose may look like such a message.
        let readings = self.readings(line, times)?;
        let mut labels = readings.iter().map(|reading| reading.label_at);
        if labels.any(|label_at| label_at != found.label_at) {
            return None;
        }
        let fields = &found.fields;
        let (user, database) = (fields.user.of(text), fields.database.of(text));
        Some(if fields.quit {
            "it makes a client's message one of a process without a client".to_owned()
        } else if let (Some(said), true) = (facts.user, self.has(&[Escape::User]))
            && said != user
        {
            format!("it reads the user '{user}' in a line that says '{said}'")
        } else if let (Some(said), true) = (facts.database, self.has(&[Escape::Database]))
            && said != database
        {
            format!("it reads the database '{database}' in a line that says '{said}'")
        } else if facts.origin == Origin::Server {
            format!("it reads the user '{user}' in a line of a process without a client")
        } else {
            "it reads a name in a line that was written before the name was known".to_owned()
        })
    }
}

/// Returns whether a word is an address, a code or a number rather than a name.
fn is_value(word: &str) -> bool {
    word.parse::<std::net::IpAddr>().is_ok()
        || word == "00000"
        || word.contains("[local]")
        || !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether text looks like the name of a user or a database.
fn is_name(name: &str) -> bool {
    const STRANGE: &[u8] = b" =[](){}<>\"',;:/|%#\t";
    name == "[unknown]" || !is_value(name) && !name.bytes().any(|byte| STRANGE.contains(&byte))
}

/// Returns whether text looks like the name of an application, which may contain blanks.
fn is_application(name: &str) -> bool {
    name == "[unknown]"
        || !is_value(name)
            && !name.starts_with(['[', '(', '{', '"', ','])
            && !name.contains(['=', '@'])
            && !name.contains("\":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_login_names_its_user_and_database() {
        for (message, user, database) in [
            (
                "password authentication failed for user \"bob\"",
                Some("bob"),
                None,
            ),
            (
                "no pg_hba.conf entry for host \"10.0.0.1\", user \"bob\", database \"shop\", no encryption",
                Some("bob"),
                Some("shop"),
            ),
            ("role \"bob\" is not permitted to log in", Some("bob"), None),
            ("database \"shop\" does not exist", None, Some("shop")),
            // An option of the login: `-c role=admin`.
            ("role \"admin\" does not exist", None, None),
            ("permission denied to set role \"admin\"", None, None),
            (
                "could not connect: FATAL:  password authentication failed for user \"remote\"",
                None,
                None,
            ),
            (
                "terminating connection: database \"shop\" does not exist any more",
                None,
                None,
            ),
        ] {
            let facts = LineFacts::of_message(Severity::Fatal, message);
            assert_eq!((facts.user, facts.database), (user, database), "{message}");
        }
        let error = LineFacts::of_message(Severity::Error, "database \"shop\" does not exist");
        assert_eq!(error.database, None);
    }
}
