//! Messages of the server by pattern.

use std::collections::{BTreeMap, HashMap};

use run::SourceLocation;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::{Literals, MessageSeverity, ServerEvent, Sqlstate, message_pattern};

/// Maximum number of distinct patterns. An extension or a function can write a new text each time.
pub const MESSAGE_PATTERNS_MAX: usize = 1_000;
/// Maximum number of examples of a pattern, each of another session.
pub const MESSAGE_EXAMPLES_MAX: usize = 2;

/// SQLSTATE class of `RAISE EXCEPTION` and `ASSERT` (documentation, appendix A).
const RAISED_CLASS: &str = "P0";

/// Messages of severity WARNING and more.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ServerMessages {
    /// Number of messages by severity.
    pub severities: BTreeMap<MessageSeverity, u64>,
    /// Patterns by descending count, at most [`MESSAGE_PATTERNS_MAX`].
    pub patterns: Vec<MessagePattern>,
    /// Number of messages with further patterns, which are counted only.
    pub further: u64,
}

/// Messages with one severity, SQLSTATE and pattern.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MessagePattern {
    /// Severity.
    pub severity: MessageSeverity,
    /// SQLSTATE; `null` if the log does not show it.
    pub sqlstate: Option<Sqlstate>,
    /// First line of the message, with numbers and quoted texts replaced. Of a message that a function raised: the
    /// function, unless literals were requested. Empty if masking removed the text.
    pub pattern: String,
    /// Number of messages.
    pub count: u64,
    /// First messages of different sessions, at most [`MESSAGE_EXAMPLES_MAX`].
    pub examples: Vec<MessageExample>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MessageExample {
    /// Time in microseconds from the workload's start.
    pub at_us: i64,
    /// Session, if the message is of one.
    pub session: Option<u64>,
    /// Process.
    pub pid: Option<u32>,
    /// Position in the source.
    pub place: SourceLocation,
    /// The statement that was running.
    pub fingerprint: Option<Fingerprint>,
    /// First line of the message. Unless literals were requested: with numbers and quoted texts replaced, and `null`
    /// if a function raised it.
    pub message: Option<String>,
}

type Key = (MessageSeverity, Option<Sqlstate>, String);

/// Counts messages by pattern.
#[derive(Debug, Default)]
pub(super) struct MessageCounter {
    literals: Literals,
    places: HashMap<Key, usize>,
    messages: ServerMessages,
}

impl MessageCounter {
    pub(super) fn new(literals: Literals) -> Self {
        MessageCounter {
            literals,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, event: &ServerEvent, fingerprint: Option<Fingerprint>) {
        let Some(severity) = event.severity else {
            return;
        };
        *self.messages.severities.entry(severity).or_default() += 1;
        let key = (severity, event.sqlstate, self.pattern(event));
        let Some(at) = self.place(&key) else {
            self.messages.further += 1;
            return;
        };
        let text = self.text(event);
        let pattern = &mut self.messages.patterns[at];
        pattern.count += 1;
        pattern.add_example(MessageExample {
            at_us: event.at_us,
            session: event.session,
            pid: event.pid,
            place: SourceLocation {
                source: event.source,
                line: event.line,
            },
            fingerprint,
            message: text,
        });
    }

    /// Returns the index of a pattern, which it adds; `None` if there are too many.
    fn place(&mut self, key: &Key) -> Option<usize> {
        if let Some(at) = self.places.get(key) {
            return Some(*at);
        }
        let at = self.messages.patterns.len();
        if at >= MESSAGE_PATTERNS_MAX {
            return None;
        }
        self.messages.patterns.push(MessagePattern {
            severity: key.0,
            sqlstate: key.1,
            pattern: key.2.clone(),
            count: 0,
            examples: Vec::new(),
        });
        self.places.insert(key.clone(), at);
        Some(at)
    }

    fn pattern(&self, event: &ServerEvent) -> String {
        match (&event.subject, &event.message) {
            (None, Some(_)) if self.literals == Literals::Hidden && has_raised_class(event) => {
                "message that a function raised".to_owned()
            }
            (None, Some(message)) => message_pattern(message),
            (Some(_), Some(message)) if self.literals == Literals::Shown => {
                message_pattern(message)
            }
            (Some(function), _) => format!("message raised by {function}"),
            (None, None) => String::new(),
        }
    }

    fn text(&self, event: &ServerEvent) -> Option<String> {
        let message = event.message.as_deref()?;
        let is_raised = event.subject.is_some() || has_raised_class(event);
        if self.literals == Literals::Hidden && is_raised {
            return None;
        }
        // A function can use any SQLSTATE, so none shows that quoted texts are names.
        Some(match self.literals {
            Literals::Hidden => message_pattern(message),
            Literals::Shown => message.to_owned(),
        })
    }

    pub(super) fn finish(self) -> ServerMessages {
        let mut messages = self.messages;
        // The sort is stable: of equal counts, the first comes first.
        (messages.patterns).sort_by_key(|pattern| std::cmp::Reverse(pattern.count));
        messages
    }
}

fn has_raised_class(event: &ServerEvent) -> bool {
    let code = event.sqlstate.as_ref().map(Sqlstate::as_str);
    code.is_some_and(|code| code.starts_with(RAISED_CLASS))
}

impl MessagePattern {
    /// Adds an example, unless there are enough or one is of the same session.
    fn add_example(&mut self, example: MessageExample) {
        let is_new = self
            .examples
            .iter()
            .all(|known| (known.session, known.pid) != (example.session, example.pid));
        if is_new && self.examples.len() < MESSAGE_EXAMPLES_MAX {
            self.examples.push(example);
        }
    }
}

impl ServerMessages {
    /// Number of messages.
    pub fn count(&self) -> u64 {
        self.severities.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use workload::ServerEventKind;

    use super::*;

    fn message(number: u64, text: &str) -> ServerEvent {
        ServerEvent {
            kind: ServerEventKind::Message,
            at_us: number as i64,
            session: Some(number / 2),
            severity: Some(MessageSeverity::Error),
            message: Some(text.into()),
            ..ServerEvent::default()
        }
    }

    fn counted(literals: Literals, events: &[ServerEvent]) -> ServerMessages {
        let mut counter = MessageCounter::new(literals);
        for event in events {
            counter.add(event, None);
        }
        counter.finish()
    }

    #[test]
    fn messages_of_one_pattern_have_examples_of_different_sessions() {
        let events: Vec<_> = (0..7)
            .map(|number| message(number, &format!("relation \"t{number}\" does not exist")))
            .chain([message(9, "division by zero")])
            .collect();
        let messages = counted(Literals::Hidden, &events);
        assert_eq!((messages.count(), messages.further), (8, 0));
        let [first, second] = &messages.patterns[..] else {
            panic!("{messages:?}");
        };
        assert_eq!((first.count, second.count), (7, 1));
        assert_eq!(first.pattern, "relation \"…\" does not exist");
        let times: Vec<i64> = first.examples.iter().map(|example| example.at_us).collect();
        assert_eq!(times, [0, 2]);
    }

    #[test]
    fn raised_text_is_shown_only_if_literals_are() {
        let mut raised = message(0, "no credit for Jane Doe");
        raised.subject = Some("PL/pgSQL function f() line 3 at RAISE".into());
        let mut without_context = message(0, "no credit for Jane Doe");
        without_context.sqlstate = Some(Sqlstate(*b"P0001"));
        let events = [raised, without_context];
        let hidden = counted(Literals::Hidden, &events);
        assert!(!format!("{hidden:?}").contains("Jane"), "{hidden:?}");
        assert!(hidden.patterns[0].pattern.ends_with("line 3 at RAISE"));
        let shown = counted(Literals::Shown, &events);
        assert!(
            shown
                .patterns
                .iter()
                .all(|one| one.pattern == "no credit for Jane Doe"),
            "{shown:?}"
        );
    }

    #[test]
    fn example_without_context_shows_quoted_texts_and_numbers_only_if_literals_are_shown() {
        let text = "\"Jane Doe\" has 4711 already";
        for code in [*b"23505", *b"42P01", *b"53200", *b"XX000", *b"22023"] {
            let mut event = message(0, text);
            event.sqlstate = Some(Sqlstate(code));
            for (literals, wanted) in [
                (Literals::Hidden, "\"…\" has # already"),
                (Literals::Shown, text),
            ] {
                let messages = counted(literals, &[event.clone()]);
                let example = &messages.patterns[0].examples[0];
                assert_eq!(example.message.as_deref(), Some(wanted), "{code:?}");
            }
        }
    }

    #[test]
    fn patterns_past_the_limit_are_counted() {
        // Letters, since the pattern has no numbers.
        let letter = |number: u64| char::from(b'a' + (number % 26) as u8);
        let name = |number: u64| [number / 676, number / 26, number].map(letter);
        let events: Vec<_> = (0..MESSAGE_PATTERNS_MAX as u64 + 3)
            .map(|number| message(number, &String::from_iter(name(number))))
            .collect();
        let messages = counted(Literals::Hidden, &events);
        assert_eq!(messages.patterns.len(), MESSAGE_PATTERNS_MAX);
        assert_eq!(messages.further, 3);
    }
}
