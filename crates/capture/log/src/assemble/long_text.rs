//! Keeps only the beginning of long texts if events are only counted: a statement of 100 MB is in
//! the window once, and a check of the log need not copy it. Facts about the whole text are kept
//! with the beginning.

use xxhash_rust::xxh3::xxh3_64;

use super::super::statement::copies_from_client;

/// Number of bytes kept of a simple query, if texts are only counted.
pub(super) const BEGINNING_BYTES: usize = 64 << 10;

/// Facts about a text of which only the beginning is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongText {
    bytes: usize,
    hash: u64,
    /// Whether it copies from its client.
    pub(super) copies: bool,
}

impl LongText {
    /// Creates it from a text; also returns the text's beginning.
    pub(super) fn split(text: &str) -> (Self, &str) {
        let long = LongText {
            bytes: text.len(),
            hash: xxh3_64(text.as_bytes()),
            copies: copies_from_client(text),
        };
        (long, &text[..text.floor_char_boundary(BEGINNING_BYTES)])
    }

    /// Returns whether it is this text.
    pub(super) fn matches(self, text: &str) -> bool {
        self.bytes == text.len() && self.hash == xxh3_64(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use crate::capture_bytes;
    use capture_sink::{EventCollector, EventCounter};

    #[test]
    fn long_texts_that_are_only_counted_count_as_what_they_are() {
        let mut text = String::new();
        let long = |word: &str| format!("{word} {}", "'ä', ".repeat(40_000));
        for (second, pid, said) in [
            (10, 1, format!("LOG:  statement: {}", long("select"))),
            (11, 1, "LOG:  duration: 1.000 ms".to_owned()),
            (12, 1, format!("LOG:  statement: {}", long("insert"))),
            (13, 1, "ERROR:  no".to_owned()),
            (13, 1, format!("STATEMENT:  {}", long("insert"))),
            // Another text, so that it is a different statement.
            (14, 1, format!("LOG:  statement: {}", long("update"))),
            (15, 1, "ERROR:  no".to_owned()),
            (15, 1, format!("STATEMENT:  {}x", long("update"))),
            (
                16,
                1,
                format!("LOG:  statement: {}; copy t from stdin", long("select")),
            ),
        ] {
            text.push_str(&format!(
                "2026-03-01 09:00:{second}.000 UTC [{pid}] {said}\n"
            ));
        }
        let (mut collected, mut counted) = (EventCollector::default(), EventCounter::default());
        let prefix = Some("%m [%p] ");
        let kept = capture_bytes(text.clone(), None, prefix, &mut collected).unwrap();
        let only_counted = capture_bytes(text, None, prefix, &mut counted).unwrap();
        assert_eq!(kept.reconciliation, only_counted.reconciliation);
        let tallies = &kept.reconciliation.tallies;
        assert_eq!(
            (tallies.statements, tallies.failed, tallies.copies),
            (5, 2, 1)
        );
        assert_eq!(counted.statements, 5);
        let times = collected.events.iter().map(|event| event.due_us);
        let (first_us, last_us) = (times.clone().min().unwrap(), times.max().unwrap());
        assert_eq!(counted.times_us, Some((first_us, last_us)));
        assert_eq!(counted.span_us(), 6_000_000);
    }
}
