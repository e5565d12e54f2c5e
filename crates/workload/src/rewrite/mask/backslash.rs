//! Which sessions have `standard_conforming_strings` off: there a backslash in a plain literal escapes, so that
//! `'O\'Brien'` is one literal and not one and a half.
//!
//! What a session is told by what it said when it connected (the capture of the wire puts down there what its server
//! said of it) and by its SET, RESET and `set_config`. Deliberately absent: what a server's configuration says where only
//! a log tells of it, and names and values that a parameter gives.

use std::collections::{HashMap, HashSet};

use super::Spelling;
use crate::event_ref::{EventRef, KindRef};
use crate::rewrite::parts::{Lexeme, Part, parts};

/// The setting, as it is looked for.
const NAME: &str = "standard_conforming_strings";

/// What is known of a session that has said something of it.
#[derive(Debug, Clone, Copy, Default)]
struct Escaping {
    /// From the start: what RESET leads back to.
    at_first: bool,
    now: bool,
    /// What it was before the open transaction changed it.
    before: Option<bool>,
    /// What SET LOCAL says until the transaction ends.
    local: Option<bool>,
}

/// What is known of all sessions.
#[derive(Debug, Default)]
pub(super) struct Backslashes {
    sessions: HashMap<u64, Escaping>,
    in_transaction: HashSet<u64>,
}

impl Backslashes {
    /// Whether a backslash in a plain literal of this session escapes.
    pub(super) fn escape(&self, session: u64) -> bool {
        let known = self.sessions.get(&session);
        known.is_some_and(|known| known.local.unwrap_or(known.now))
    }

    /// Takes in an event, behind which it may be otherwise: a text is read as a whole before anything of it is done.
    pub(super) fn take(&mut self, event: &EventRef<'_>) {
        let session = event.session;
        match event.kind {
            KindRef::Connect { .. } => self.connected(event),
            KindRef::Disconnect => {
                self.sessions.remove(&session);
                self.in_transaction.remove(&session);
            }
            _ if event.outcome.sqlstate.is_some() => {}
            KindRef::Simple { sql } | KindRef::Execute { sql, .. } => {
                let first = first_word(sql);
                let says_something = begins(first)
                    || ends(first)
                    || self.sessions.contains_key(&session)
                    || names_it(sql);
                if says_something {
                    for part in parts(sql) {
                        self.step(session, &part);
                    }
                }
            }
            _ => {}
        }
    }

    fn connected(&mut self, event: &EventRef<'_>) {
        let settings = event.particulars.map(|known| &known.settings);
        let mut at_first = false;
        for (name, value) in settings.into_iter().flatten() {
            let given = match &**name {
                // `-c name=off`, `--name=off`, with either of `-` and `_`.
                "options" => value.split_whitespace().rev().find_map(|word| {
                    let word = word.trim_start_matches("-c").trim_start_matches('-');
                    let (name, value) = word.split_once('=')?;
                    is_name(&name.replace('-', "_")).then_some(value)
                }),
                name => is_name(name).then_some(&**value),
            };
            at_first = given.and_then(is_off).unwrap_or(at_first);
        }
        if at_first {
            let known = Escaping {
                at_first,
                now: at_first,
                ..Escaping::default()
            };
            self.sessions.insert(event.session, known);
        }
    }

    fn step(&mut self, session: u64, part: &Part<'_>) {
        let words = &part.words;
        let is =
            |place: usize, keyword: &str| words.get(place).is_some_and(|word| word.is(keyword));
        let first = words.first().map_or("", Lexeme::text);
        if begins(first) && (is(1, "transaction") || !is(0, "start")) {
            self.in_transaction.insert(session);
            return;
        }
        if ends(first)
            && !words
                .iter()
                .any(|word| word.is("to") || word.is("prepared"))
        {
            if let Some(known) = self.sessions.get_mut(&session) {
                known.local = None;
                if let Some(before) = known.before.take()
                    && (is(0, "rollback") || is(0, "abort"))
                {
                    known.now = before;
                }
            }
            if !words.iter().any(|word| word.is("chain")) || is(2, "no") || is(3, "no") {
                self.in_transaction.remove(&session);
            }
            return;
        }
        let in_transaction = self.in_transaction.contains(&session);
        let at_first = (self.sessions.get(&session)).is_some_and(|known| known.at_first);
        let Some((local, value)) = said_of_it(words, at_first) else {
            return;
        };
        let known = self.sessions.entry(session).or_default();
        if local {
            // Outside of a transaction it has no effect.
            known.local = in_transaction.then_some(value);
            return;
        }
        if in_transaction {
            known.before.get_or_insert(known.now);
        }
        known.now = value;
        known.local = None;
    }
}

/// Whether a statement sets it: for the transaction only, and whether to off.
fn said_of_it(words: &[Lexeme<'_>], at_first: bool) -> Option<(bool, bool)> {
    let is = |place: usize, keyword: &str| words.get(place).is_some_and(|word| word.is(keyword));
    let is_it =
        |place: usize| (words.get(place).and_then(Lexeme::name)).is_some_and(|name| is_name(&name));
    if is(0, "reset") && (is(1, "all") || is_it(1)) || is(0, "discard") && is(1, "all") {
        return Some((false, at_first));
    }
    if is(0, "set") {
        let place = 1 + usize::from(is(1, "session") || is(1, "local"));
        let value = words.get(place + 2).filter(|_| is_it(place))?;
        let value = match value.is("default") {
            true => at_first,
            false => is_off(&plain(value))?,
        };
        return Some((is(1, "local"), value));
    }
    let place = words.iter().position(|word| word.is("set_config"))?;
    let argument = |number: usize| words.get(place + 2 * number).map(plain);
    let value = argument(2).filter(|_| argument(1).is_some_and(|name| is_name(&name)))?;
    let local = argument(3).is_some_and(|local| is_off(&local) == Some(false));
    Some((local, is_off(&value)?))
}

fn is_name(name: &str) -> bool {
    name.eq_ignore_ascii_case(NAME)
}

/// Whether the name stands in a text at all.
fn names_it(sql: &str) -> bool {
    (sql.as_bytes().windows(NAME.len())).any(|piece| piece.eq_ignore_ascii_case(NAME.as_bytes()))
}

/// What stands in a literal, or the word itself.
fn plain(lexeme: &Lexeme<'_>) -> String {
    match lexeme {
        Lexeme::Value(text) => {
            let (spelling, inner) = Spelling::of(text);
            spelling.read(inner, '\\').into_owned()
        }
        other => other.text().to_owned(),
    }
}

/// A boolean as PostgreSQL reads it (`parse_bool`), turned round; nothing where it is none.
fn is_off(value: &str) -> Option<bool> {
    let value = value.trim().to_ascii_lowercase();
    let is = |word: &str, at_least: usize| value.len() >= at_least && word.starts_with(&value);
    match &*value {
        "1" => Some(false),
        "0" => Some(true),
        _ if is("true", 1) || is("yes", 1) || is("on", 2) => Some(false),
        _ if is("false", 1) || is("no", 1) || is("off", 2) => Some(true),
        _ => None,
    }
}

fn first_word(sql: &str) -> &str {
    let sql = sql.trim_start();
    let end = sql.find(|character: char| !character.is_ascii_alphabetic());
    &sql[..end.unwrap_or(sql.len())]
}

fn begins(word: &str) -> bool {
    word.eq_ignore_ascii_case("begin") || word.eq_ignore_ascii_case("start")
}

fn ends(word: &str) -> bool {
    ["commit", "end", "rollback", "abort"]
        .iter()
        .any(|end| word.eq_ignore_ascii_case(end))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{Event, EventKind, Outcome};
    use crate::particulars::Particulars;

    fn event(kind: EventKind, settings: &[(&str, &str)]) -> Event {
        Event {
            session: 1,
            sequence: 0,
            due_us: 0,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            particulars: Some(Arc::new(Particulars {
                settings: (settings.iter())
                    .map(|(name, value)| ((*name).into(), (*value).into()))
                    .collect(),
                ..Particulars::default()
            })),
        }
    }

    fn connected(settings: &[(&str, &str)]) -> Backslashes {
        let mut known = Backslashes::default();
        let (database, user, application) = ("d".into(), "u".into(), "".into());
        let kind = EventKind::Connect {
            database,
            user,
            application,
        };
        known.take(&event(kind, settings).borrowed());
        known
    }

    /// After each of these whether a backslash escapes.
    fn after(known: &mut Backslashes, said: &[(&str, bool)]) {
        for (sql, escapes) in said {
            let sql = (*sql).into();
            known.take(&event(EventKind::Simple { sql }, &[]).borrowed());
            assert_eq!(known.escape(1), *escapes, "{said:?}: {known:?}");
        }
    }

    #[test]
    fn a_session_says_it_when_it_connects() {
        for (settings, escapes) in [
            (&[][..], false),
            (&[("standard_conforming_strings", "off")], true),
            (&[("Standard_Conforming_Strings", "FALSE")], true),
            (&[("standard_conforming_strings", "on")], false),
            (&[("options", "-c standard_conforming_strings=off")], true),
            (
                &[("options", "-cstandard_conforming_strings=0 -c geqo=off")],
                true,
            ),
            (&[("options", "--standard-conforming-strings=no")], true),
            (&[("options", "-c work_mem=64MB")], false),
        ] {
            assert_eq!(connected(settings).escape(1), escapes, "{settings:?}");
        }
    }

    #[test]
    fn a_session_changes_it() {
        let mut known = connected(&[]);
        after(
            &mut known,
            &[
                ("set standard_conforming_strings = off", true),
                ("SET SESSION STANDARD_CONFORMING_STRINGS TO 'on'", false),
                (
                    "select set_config('standard_conforming_strings', 'off', false)",
                    true,
                ),
                ("reset standard_conforming_strings", false),
                ("set standard_conforming_strings to off; select 1", true),
                ("discard all", false),
                // Of another setting, and in a text.
                ("set work_mem = '1MB'", false),
                ("select 'set standard_conforming_strings = off'", false),
                // Without a transaction it is for nothing.
                ("set local standard_conforming_strings = off", false),
            ],
        );
        let mut off = connected(&[("standard_conforming_strings", "off")]);
        after(
            &mut off,
            &[
                ("set standard_conforming_strings = on", false),
                ("set standard_conforming_strings = default", true),
                ("set standard_conforming_strings = on", false),
                ("reset all", true),
            ],
        );
        off.take(&event(EventKind::Disconnect, &[]).borrowed());
        assert!(!off.escape(1));
    }

    #[test]
    fn what_a_transaction_said_ends_as_it_does() {
        let mut known = connected(&[]);
        after(
            &mut known,
            &[
                ("begin", false),
                ("set standard_conforming_strings = off", true),
                ("rollback to savepoint a", true),
                ("rollback", false),
                ("begin", false),
                ("set local standard_conforming_strings = off", true),
                ("commit", false),
                ("start transaction", false),
                ("set standard_conforming_strings = off", true),
                ("end", true),
                ("rollback", true),
            ],
        );
    }

    #[test]
    fn what_failed_changes_nothing() {
        let mut known = connected(&[]);
        let sql = "set standard_conforming_strings = off".into();
        let mut failed = event(EventKind::Simple { sql }, &[]);
        failed.outcome.sqlstate = Some(crate::event::Sqlstate::UNKNOWN);
        known.take(&failed.borrowed());
        assert!(!known.escape(1));
    }
}
