//! Chooses among several readings of a line by what is known of its session.
//!
//! The names of a session's user and database never change. Its application's name is that of the
//! line that began the session, until the session sets another.

use super::super::entry::Reading;
use super::super::message::{Message, NAME_BYTES_MAX, Step, classify, split_authorized};
use super::super::severity::{Label, Severity};
use super::Assembler;
use super::session::{LiveSession, unless_unknown};

/// Number of application names remembered for a session; those that it set first are forgotten.
const APPLICATIONS_MAX: usize = 8;

impl Assembler<'_> {
    /// Returns the index of the right reading; `None` if that is not known.
    #[cold]
    pub(in super::super) fn choose_reading(&mut self, readings: &[Reading<'_>]) -> Option<usize> {
        let pid = readings.first()?.pid;
        // A name may look like another process, too.
        if readings.iter().any(|reading| reading.pid != pid) {
            return None;
        }
        let known = self.live.get(pid).filter(|live| {
            let first = &readings[0];
            live.ended.is_none()
                && live.is_open()
                && !live.is_other(first.started, first.line_number)
        });
        let chosen = match known {
            Some(live) => choose_for_session(live, readings),
            None => choose_authorization(readings),
        }?;
        // A client that was never authenticated is refused with FATAL. It may have copied the
        // names of a session.
        let refused = |reading: &Reading<'_>| reading.label == Label::Head(Severity::Fatal);
        let may_be_refused = readings.iter().any(refused) && !refused(&readings[chosen]);
        (!may_be_refused).then_some(chosen)
    }
}

/// Chooses for a session with known names.
fn choose_for_session(live: &LiveSession, readings: &[Reading<'_>]) -> Option<usize> {
    if !live.has_names() {
        return None;
    }
    // A server has no user and no database without a name. An empty one is that of a prefix without it.
    let has = |name: fn(&Reading<'_>) -> bool| readings.iter().any(name);
    let has_user = has(|reading| !reading.names.user.is_empty());
    let has_database = has(|reading| !reading.names.database.is_empty());
    let fitting = || {
        let indexed = readings.iter().enumerate();
        indexed.filter(|(_, reading)| {
            let lacks_name = has_user && reading.names.user.is_empty()
                || has_database && reading.names.database.is_empty();
            !reading.quit && !lacks_name && live.is_of(reading)
        })
    };
    if let Some(only) = sole_label(fitting()) {
        return Some(only);
    }
    let application = |reading: &Reading<'_>| unless_unknown(reading.names.application).to_owned();
    let known = || fitting().filter(|(_, reading)| live.has_application(&application(reading)));
    if let Some(chosen) = sole_label(known()) {
        // The name may have been changed without a trace, to a longer one that begins with it.
        let longer = |reading: &Reading<'_>| reading.label_at > readings[chosen].label_at;
        let plausible = fitting().any(|(_, other)| longer(other) && is_plausible(other));
        return (!plausible).then_some(chosen);
    }
    if known().next().is_some() {
        return None;
    }
    // The line of the statement that set the name has the new name, if it was written at its end.
    sole_label(fitting().filter(|(_, reading)| {
        sql_of(reading.message)
            .and_then(set_application)
            .is_some_and(|set| truncated(&set) == application(reading))
    }))
}

/// Returns the first of these readings if they agree on the label.
fn sole_label<'a>(mut readings: impl Iterator<Item = (usize, &'a Reading<'a>)>) -> Option<usize> {
    let (first, reading) = readings.next()?;
    let agree = readings.all(|(_, other)| other.label_at == reading.label_at);
    agree.then_some(first)
}

/// Chooses the reading of a session's first line that repeats its own names.
fn choose_authorization(readings: &[Reading<'_>]) -> Option<usize> {
    let consistent = readings.iter().enumerate().filter(|(_, reading)| {
        let names = reading.names;
        let fits = |own: &str, said: &str| own.is_empty() || own == said;
        let mut splits = split_authorized(reading.message).into_iter();
        splits.any(|(user, database)| fits(names.user, user) && fits(names.database, database))
    });
    sole_label(consistent)
}

/// Returns whether the server may have written a message after this reading's label.
fn is_plausible(reading: &Reading<'_>) -> bool {
    use super::super::SkipReason::ServerMessage;
    match reading.label {
        Label::Head(Severity::Log) => {
            !matches!(classify(reading.message), Message::Other(ServerMessage))
        }
        _ => true,
    }
}

/// Returns the SQL of a message about a statement.
fn sql_of(message: &str) -> Option<&str> {
    match classify(message) {
        Message::Simple { sql, .. } => Some(sql),
        Message::Extended {
            step: Step::Execute,
            named,
            ..
        } => named.split_once(": ").map(|(_, sql)| sql),
        _ => None,
    }
}

/// Returns the name that `SET application_name` sets, if the statement is nothing else.
fn set_application(sql: &str) -> Option<String> {
    let mut words = sql.trim_start().splitn(2, char::is_whitespace);
    if !words.next()?.eq_ignore_ascii_case("set") {
        return None;
    }
    let mut rest = words.next()?.trim_start();
    for scope in ["session ", "local "] {
        if let Some(start) = rest.get(..scope.len())
            && start.eq_ignore_ascii_case(scope)
        {
            rest = rest[scope.len()..].trim_start();
        }
    }
    const NAME: &str = "application_name";
    let (name, rest) = rest.split_at_checked(NAME.len())?;
    let rest = rest.trim_start();
    let value = match rest.strip_prefix('=') {
        Some(value) => value,
        None if rest.get(..3)?.eq_ignore_ascii_case("to ") => &rest[3..],
        None => return None,
    };
    if !name.eq_ignore_ascii_case(NAME) {
        return None;
    }
    let value = value.trim().trim_end_matches(';').trim_end();
    match value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')) {
        Some(quoted) => {
            let unquoted = quoted.replace("''", "\u{0}");
            (!unquoted.contains('\'')).then(|| unquoted.replace('\u{0}', "'"))
        }
        None => value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            .then(|| value.to_ascii_lowercase()),
    }
}

/// Returns whether a statement may be one that sets the application's name.
#[inline(always)]
fn may_set_application(sql: &str) -> bool {
    matches!(sql.as_bytes(), [b's' | b'S', b'e' | b'E', b't' | b'T', ..])
}

/// Truncates a name as the server does.
fn truncated(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

impl LiveSession {
    /// Follows the application's name.
    #[inline(always)]
    pub(super) fn follow_application(&mut self, sql: &str) {
        if may_set_application(sql) {
            self.add_application(sql);
        }
    }

    #[cold]
    fn add_application(&mut self, sql: &str) {
        if let Some(name) = set_application(sql) {
            if self.applications.len() == APPLICATIONS_MAX {
                self.applications.remove(0);
            }
            self.applications.push(truncated(&name).into());
        }
    }

    fn has_names(&self) -> bool {
        !self.user.is_empty() || !self.database.is_empty()
    }

    /// Returns whether a reading has the session's user and database, as far as both are known.
    fn is_of(&self, reading: &Reading<'_>) -> bool {
        let fits = |known: &str, read: &str| known.is_empty() || read.is_empty() || known == read;
        fits(&self.user, reading.names.user) && fits(&self.database, reading.names.database)
    }

    fn has_application(&self, name: &str) -> bool {
        truncated(&self.application) == name
            || self.applications.iter().any(|known| **known == *name)
    }
}
