//! Splits the text of a prefix or of a connection line into user and database. Both names may
//! contain the text that separates them.
//!
//! The connection line decides, if the log has it. Otherwise the database is the text after the last
//! separator, and another session with the same database confirms that. If none does, the split is a
//! guess, which a note reports.

use std::collections::{BTreeMap, HashSet};

use super::super::entry::Entry;
use super::super::message::split_authorized;

/// Maximum number of names kept.
const NAMES_MAX: usize = 1_000;

/// Databases whose names are known, and splits that are guesses.
#[derive(Debug, Default)]
pub(super) struct SplitNames {
    databases: HashSet<Box<str>>,
    /// For each user and database, the number of sessions.
    guessed: BTreeMap<(Box<str>, Box<str>), u64>,
}

impl SplitNames {
    /// Returns user and database of a `connection authorized` line that was split in the first
    /// possible way.
    pub(super) fn of_authorized<'a>(
        &mut self,
        entry: &Entry<'a>,
        first: (&'a str, &'a str),
    ) -> (&'a str, &'a str) {
        let message = entry.message;
        let keys = [" database=", " application_name="];
        let in_line = entry.who.splits();
        let own = entry.who.names();
        let agrees = own.user.is_empty() || own.database.is_empty() || in_line.contains(&first);
        if agrees && keys.iter().all(|key| message.matches(key).count() < 2) {
            self.add_certain(first.1);
            return first;
        }
        let mut fitting = split_authorized(message);
        fitting.retain(|names| in_line.contains(names));
        match fitting[..] {
            [only] => {
                self.add_certain(only.1);
                only
            }
            _ => {
                let names = fitting.first().copied().unwrap_or(first);
                self.add_guess(names);
                names
            }
        }
    }

    /// Returns user and database of a session whose connection line is missing.
    pub(super) fn of_line<'a>(&mut self, entry: &Entry<'a>) -> (&'a str, &'a str) {
        let names = entry.who.names();
        if names.user.is_empty() || names.database.is_empty() {
            return (names.user, names.database);
        }
        let mut splits = entry.who.splits();
        // Blanks and separators belong to the application's name, and rarely to a database's.
        splits.sort_by_key(|(user, database)| (user.len() + database.len(), database.len()));
        let chosen = splits[0];
        match splits.len() {
            1 => self.add_certain(chosen.1),
            _ => self.add_guess(chosen),
        }
        chosen
    }

    fn add_certain(&mut self, database: &str) {
        if self.databases.len() < NAMES_MAX && !self.databases.contains(database) {
            self.databases.insert(database.into());
        }
    }

    fn add_guess(&mut self, (user, database): (&str, &str)) {
        if self.guessed.len() < NAMES_MAX {
            let names = (user.into(), database.into());
            *self.guessed.entry(names).or_default() += 1;
        }
    }

    /// Describes the splits that nothing confirms, in one sentence.
    pub(super) fn note(&self) -> Option<String> {
        let unconfirmed = || {
            let guessed = self.guessed.iter();
            guessed.filter(|((_, database), _)| !self.databases.contains(database))
        };
        let ((user, database), _) = unconfirmed().next()?;
        let sessions: u64 = unconfirmed().map(|(_, sessions)| sessions).sum();
        Some(format!(
            "the names of {sessions} sessions can be split in several ways, and user '{user}' with database '{database}' is a guess; log_connections = on writes both, and csvlog or jsonlog keeps them apart"
        ))
    }
}
