//! Tells from an error's message which protocol message failed. Sources of the texts in PostgreSQL's
//! tree: `postgres.c`, `prepare.c`, `portalmem.c`, `parse_param.c`, `plancache.c`.

use workload::Sqlstate;

use super::super::entry::Entry;
use super::super::first_words::starts_with_word;
use super::super::parameters::is_extended;
use super::super::statement::count_placeholders;
use super::exchange::Exchange;
use super::failure::is_bind_error;

/// Message that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorPhase<'a> {
    /// A simple query, or a message of the extended protocol that fails in the same way: a failed
    /// Parse of a text without parameters.
    Simple,
    /// Parse, with the statement's name if the error shows it.
    Parse(&'a str),
    /// Bind refused a value.
    Bind,
    /// Bind or Execute, about messages that a log does not have. The text alone would succeed.
    Messages,
    Execute,
}

impl<'a> ErrorPhase<'a> {
    /// Reads the phase of an error that has a STATEMENT.
    pub(super) fn of(entry: &Entry<'a>) -> Self {
        let (message, sql) = (entry.message, entry.statement);
        if is_bind_error(entry.context) {
            return ErrorPhase::Bind;
        }
        if is_about_messages(message, sql) {
            return ErrorPhase::Messages;
        }
        if is_extended(entry.context) {
            return ErrorPhase::Execute;
        }
        if let Some(name) = taken_name(message)
            && !starts_with_word(sql, "prepare")
        {
            return ErrorPhase::Parse(name);
        }
        // Parameters in the text of a PREPARE are its statement's.
        if starts_with_word(sql, "prepare") {
            return ErrorPhase::Simple;
        }
        if message.starts_with("cannot insert multiple commands into a prepared statement")
            || message.starts_with("could not determine data type of parameter $")
        {
            return ErrorPhase::Parse("");
        }
        // Only a simple query has parameters without a number of them.
        if message.starts_with("there is no parameter $") || count_placeholders(sql) == 0 {
            return ErrorPhase::Simple;
        }
        match entry.positioned {
            true => ErrorPhase::Parse(""),
            false => ErrorPhase::Execute,
        }
    }
}

/// Returns whether an error is about the messages of a statement, and not about its text.
fn is_about_messages(message: &str, sql: &str) -> bool {
    // SQL has such errors, too.
    if starts_with_word(sql, "execute") {
        return false;
    }
    [
        "bind message ",
        "invalid message format",
        "insufficient data left in message",
        "no data left in message",
        "incorrect binary data format in bind parameter ",
        "cached plan must not change result type",
        "portal \"",
    ]
    .iter()
    .any(|start| message.starts_with(start))
        || message.starts_with("cursor \"")
            && message.ends_with("\" already exists")
            && !starts_with_word(sql, "declare")
}

/// Name that a message of the extended protocol used, and that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownName<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

impl UnknownName<'_> {
    /// Returns whether SQL may have used the name: `EXECUTE name`. SQL calls a portal a cursor.
    pub(super) fn is_in(self, exchange: &Exchange) -> bool {
        match self {
            UnknownName::Statement(name) => !name.is_empty() && exchange.sql().contains(name),
            UnknownName::Portal(_) => false,
        }
    }
}

/// Reads the name from an error's message.
pub(super) fn unknown_name(message: &str) -> Option<UnknownName<'_>> {
    if message == "unnamed prepared statement does not exist" {
        return Some(UnknownName::Statement(""));
    }
    let rest = message.strip_suffix("\" does not exist")?;
    let statement = rest.strip_prefix("prepared statement \"");
    let portal = || rest.strip_prefix("portal \"").map(UnknownName::Portal);
    statement.map(UnknownName::Statement).or_else(portal)
}

/// Reads the name of `prepared statement "s" already exists`.
fn taken_name(message: &str) -> Option<&str> {
    let rest = message.strip_suffix("\" already exists")?;
    rest.strip_prefix("prepared statement \"")
}

/// Returns the code that a message always has, for logs without codes.
pub(super) fn implied_code(message: &str) -> Option<Sqlstate> {
    if message.starts_with("current transaction is aborted, commands ignored") {
        return Some(Sqlstate(*b"25P02"));
    }
    if taken_name(message).is_some() {
        return Some(Sqlstate(*b"42P05"));
    }
    Some(match unknown_name(message)? {
        UnknownName::Statement(_) => Sqlstate(*b"26000"),
        UnknownName::Portal(_) => Sqlstate(*b"34000"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_taken_names_are_read() {
        for (message, name, code) in [
            (
                "prepared statement \"a \"b\" does not exist",
                Some(UnknownName::Statement("a \"b")),
                Some("26000"),
            ),
            (
                "unnamed prepared statement does not exist",
                Some(UnknownName::Statement("")),
                Some("26000"),
            ),
            (
                "portal \"c\" does not exist",
                Some(UnknownName::Portal("c")),
                Some("34000"),
            ),
            ("cursor \"c\" does not exist", None, None),
            (
                "prepared statement \"s\" already exists",
                None,
                Some("42P05"),
            ),
            (
                "current transaction is aborted, commands ignored until end of transaction block",
                None,
                Some("25P02"),
            ),
            ("division by zero", None, None),
        ] {
            assert_eq!(unknown_name(message), name, "{message}");
            let code = code.and_then(Sqlstate::parse);
            assert_eq!(implied_code(message), code, "{message}");
        }
    }
}
