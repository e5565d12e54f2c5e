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

use sql::{Backslash, LexicalRules, STANDARD_CONFORMING_STRINGS};
use workload::{EventRef, KindRef};

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

impl BackslashMeaning {
    /// Returns the rules of a lexer; those of a plain character if unsure.
    pub(super) fn lexical_rules(self) -> LexicalRules {
        LexicalRules {
            backslash: match self {
                BackslashMeaning::Escapes => Backslash::Escape,
                BackslashMeaning::Plain | BackslashMeaning::Unsure => Backslash::Plain,
            },
            ..LexicalRules::default()
        }
    }
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

    /// Returns the meaning in the text of an event, and updates the state by it.
    pub(super) fn advance(&mut self, event: &EventRef<'_>) -> BackslashMeaning {
        let meaning = self.meaning_in(event.session);
        self.update(event);
        meaning
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
        let now = self.meaning_in(session);
        !matches!(
            (now, Backslash::set_by(sql)),
            (BackslashMeaning::Plain, Some(Backslash::Plain))
                | (BackslashMeaning::Escapes, Some(Backslash::Escape))
        )
    }

    fn handle_connect(&mut self, event: &EventRef<'_>) {
        if event.prelude {
            // The statements before a slice, or before a part of a series, are not there. One of them may have changed it.
            self.sessions
                .insert(event.session, BackslashMeaning::Unsure);
            return;
        }
        if event.backslash_at_start() == Backslash::Escape {
            // A connection that is repeated at the beginning of a part changes nothing.
            let meaning = self.sessions.entry(event.session);
            meaning.or_insert(BackslashMeaning::Escapes);
        }
    }
}

fn is_name(name: &str) -> bool {
    name.eq_ignore_ascii_case(STANDARD_CONFORMING_STRINGS)
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

    #[test]
    fn session_that_begins_with_a_prelude_is_unsure() {
        let mut known = BackslashTracker::default();
        let kind = EventKind::Connect {
            database: "d".into(),
            user: "u".into(),
            application: "".into(),
        };
        let connect = Event {
            prelude: true,
            ..event(kind, &[])
        };
        known.update(&connect.borrowed());
        assert_eq!(known.meaning_in(1), Unsure);
    }

    #[test]
    fn connection_repeated_after_the_setting_was_named_keeps_the_meaning_unsure() {
        let mut known = connected(OFF);
        let kind = EventKind::Simple {
            sql: "set standard_conforming_strings to on".into(),
        };
        known.update(&event(kind, &[]).borrowed());
        let kind = EventKind::Connect {
            database: "d".into(),
            user: "u".into(),
            application: "".into(),
        };
        known.update(&event(kind, OFF).borrowed());
        assert_eq!(known.meaning_in(1), Unsure);
    }
}
