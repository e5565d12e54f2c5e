//! Tracks how a session parses a backslash in a plain literal: if `standard_conforming_strings` is
//! off it escapes, so that `'O\'Brien'` is one literal instead of one and a half.
//!
//! The setting is known from the session's connection parameters, and from the server's reports in
//! a capture of the wire. Later changes are not followed through transactions, savepoints and
//! functions: once a session names the setting, nothing within a literal by either reading is kept.
//!
//! This module does not use [`workload::SessionState`]. That model may miss a setting that a
//! function makes, which costs a replay an error; here it would leave a value unmasked.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;

use sql::{Lexeme, Spelling, split_statements};
use workload::{
    EventRef, KindRef, REPORTED_STANDARD_CONFORMING_STRINGS, STANDARD_CONFORMING_STRINGS,
};

/// Meaning of a backslash in a plain literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackslashMeaning {
    /// A plain character.
    Plain,
    /// An escape character.
    Escapes,
    /// Either of the two.
    Unsure,
}

/// Meaning of backslashes in all sessions.
#[derive(Debug)]
pub(super) struct BackslashTracker {
    /// Sessions in which it may be an escape character.
    sessions: HashMap<u64, BackslashMeaning>,
    setting: AhoCorasick,
}

impl Default for BackslashTracker {
    fn default() -> Self {
        let setting = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build([STANDARD_CONFORMING_STRINGS]);
        BackslashTracker {
            sessions: HashMap::new(),
            setting: setting.expect("one word is not too much"),
        }
    }
}

impl BackslashTracker {
    /// Returns the meaning in this session.
    pub(super) fn meaning_in(&self, session: u64) -> BackslashMeaning {
        let known = self.sessions.get(&session).copied();
        known.unwrap_or(BackslashMeaning::Plain)
    }

    /// Updates the state by an event. A setting in a text applies to the texts after it, since a
    /// text is parsed as a whole before it is executed.
    pub(super) fn update(&mut self, event: &EventRef<'_>) {
        let session = event.session;
        let parameters = match event.kind {
            KindRef::Connect { .. } => return self.handle_connect(event),
            KindRef::Disconnect => {
                self.sessions.remove(&session);
                return;
            }
            KindRef::Execute { parameters, .. } => Some(parameters),
            _ => None,
        };
        let is_named = event
            .kind
            .sql()
            .is_some_and(|sql| self.may_change(session, sql))
            || (parameters.iter())
                .flat_map(|parameters| parameters.iter().flatten())
                .any(|value| value.readable().is_some_and(is_name));
        if is_named {
            self.sessions.insert(session, BackslashMeaning::Unsure);
        }
    }

    /// Returns whether a text may change the setting. Many clients begin with SET … = on.
    fn may_change(&self, session: u64, sql: &str) -> bool {
        if !self.setting.is_match(sql) {
            return false;
        }
        let says = match &split_statements(sql)[..] {
            [part] => sets_it_off(&part.words),
            _ => None,
        };
        let now = self.meaning_in(session);
        !matches!(
            (now, says),
            (BackslashMeaning::Plain, Some(false)) | (BackslashMeaning::Escapes, Some(true))
        )
    }

    fn handle_connect(&mut self, event: &EventRef<'_>) {
        let settings = event.wire_details.map(|known| &known.settings);
        let mut is_off_now = false;
        for (name, value) in settings.into_iter().flatten() {
            let given = match &**name {
                REPORTED_STANDARD_CONFORMING_STRINGS => Some(&**value),
                // `-c name=off`, `--name=off`, with either `-` or `_`.
                "options" => value.split_whitespace().rev().find_map(|word| {
                    let word = word.trim_start_matches("-c").trim_start_matches('-');
                    let (name, value) = word.split_once('=')?;
                    is_name(&name.replace('-', "_")).then_some(value)
                }),
                name => is_name(name).then_some(&**value),
            };
            is_off_now = given.and_then(is_off).unwrap_or(is_off_now);
        }
        if is_off_now {
            self.sessions
                .insert(event.session, BackslashMeaning::Escapes);
        }
    }
}

/// Returns whether a SET sets it to off.
fn sets_it_off(words: &[Lexeme<'_>]) -> Option<bool> {
    let is = |place: usize, keyword: &str| words.get(place).is_some_and(|word| word.is(keyword));
    let place = 1 + usize::from(is(1, "session") || is(1, "local"));
    let name = words.get(place).and_then(Lexeme::name)?;
    match (is(0, "set") && is_name(&name), words.get(place + 2)?) {
        (true, Lexeme::Value(text)) => {
            let (spelling, inner) = Spelling::of(text);
            is_off(&spelling.read(inner, '\\'))
        }
        (true, word) => is_off(word.text()),
        (false, _) => None,
    }
}

fn is_name(name: &str) -> bool {
    name.eq_ignore_ascii_case(STANDARD_CONFORMING_STRINGS)
}

/// Parses a boolean as PostgreSQL does (`parse_bool`), and negates it; `None` if it is none.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::BackslashMeaning::{Escapes, Plain, Unsure};
    use super::*;
    use workload::{Event, EventKind, Outcome, Parameter, WireDetails};

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
            wire_details: Some(Arc::new(WireDetails {
                settings: (settings.iter())
                    .map(|(name, value)| ((*name).into(), (*value).into()))
                    .collect(),
                ..WireDetails::default()
            })),
        }
    }

    fn connected(settings: &[(&str, &str)]) -> BackslashTracker {
        let mut known = BackslashTracker::default();
        let (database, user, application) = ("d".into(), "u".into(), "".into());
        let kind = EventKind::Connect {
            database,
            user,
            application,
        };
        known.update(&event(kind, settings).borrowed());
        known
    }

    fn after(settings: &[(&str, &str)], sql: &str) -> BackslashMeaning {
        let mut known = connected(settings);
        let sql = sql.into();
        known.update(&event(EventKind::Simple { sql }, &[]).borrowed());
        known.meaning_in(1)
    }

    const OFF: &[(&str, &str)] = &[("standard_conforming_strings", "off")];

    #[test]
    fn a_session_says_it_when_it_connects_or_its_server_does() {
        for (settings, escapes) in [
            (&[][..], Plain),
            (OFF, Escapes),
            (&[("reported.standard_conforming_strings", "off")], Escapes),
            (&[("Standard_Conforming_Strings", "FALSE")], Escapes),
            (&[("standard_conforming_strings", "on")], Plain),
            (
                &[("options", "-c standard_conforming_strings=off")],
                Escapes,
            ),
            (
                &[("options", "-cstandard_conforming_strings=0 -c geqo=off")],
                Escapes,
            ),
            (&[("options", "--standard-conforming-strings=no")], Escapes),
            (&[("options", "-c work_mem=64MB")], Plain),
        ] {
            assert_eq!(connected(settings).meaning_in(1), escapes, "{settings:?}");
            assert_eq!(connected(settings).meaning_in(2), Plain);
        }
    }

    #[test]
    fn who_names_it_later_may_have_changed_it() {
        for sql in [
            "set standard_conforming_strings = off",
            "/* app */ SET LOCAL Standard_Conforming_Strings TO 'off'",
            "select set_config('search_path', '', false), set_config('standard_conforming_strings', 'off'::text, true)",
            "update pg_settings set setting = 'off' where name = 'standard_conforming_strings'",
            "select 1; set standard_conforming_strings = on",
            "set standard_conforming_strings = default",
            "reset standard_conforming_strings",
        ] {
            assert_eq!(after(&[], sql), Unsure, "{sql}");
            assert_ne!(after(OFF, sql), Plain, "{sql}");
        }
        // By a parameter.
        let mut known = connected(&[]);
        let kind = EventKind::Execute {
            statement: "".into(),
            portal: "".into(),
            sql: "select set_config($1, $2, $3)".into(),
            parameters: ["standard_conforming_strings", "off", "f"]
                .map(|value| Some(Parameter::from(value)))
                .into(),
        };
        known.update(&event(kind, &[]).borrowed());
        assert_eq!(known.meaning_in(1), Unsure);
        known.update(&event(EventKind::Disconnect, &[]).borrowed());
        assert_eq!(known.meaning_in(1), Plain);
    }

    #[test]
    fn who_says_what_holds_changes_nothing() {
        for sql in [
            "set standard_conforming_strings = on",
            "SET SESSION standard_conforming_strings TO 'true'",
            "set work_mem = '1MB'",
            "discard all",
        ] {
            assert_eq!(after(&[], sql), Plain, "{sql}");
        }
        assert_eq!(
            after(OFF, "set standard_conforming_strings to off"),
            Escapes
        );
        assert_eq!(after(OFF, "reset all"), Escapes);
        assert_eq!(after(OFF, "set standard_conforming_strings to on"), Unsure);
    }
}
