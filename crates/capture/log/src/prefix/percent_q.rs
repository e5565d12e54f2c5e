//! Adds `%q` to a recognised prefix. If the sample had no line of a process without a client, the
//! first such line shows where its prefix ends.
//!
//! Adding it is safe: a client's line has the whole prefix in either case.

use super::evidence::LineFacts;
use super::matching::label_after;
use super::{Escape, Piece, Prefix};
use crate::severity::{Label, find_label};
use crate::timestamp::TimestampParser;

impl Prefix {
    /// Marks a prefix as recognised rather than given: it may lack `%q`.
    pub(super) fn into_recognised(self) -> Self {
        let learns_quit = !self.pieces.contains(&Piece::Quit);
        Prefix {
            may_learn_quit: learns_quit,
            ..self
        }
    }

    /// Treats a non-matching line as that of a process without a client, if it starts with a
    /// beginning of the prefix that has time and process, and an entry begins after it. Returns
    /// whether the prefix has changed, which now has `%q` there.
    #[cold]
    pub(crate) fn learn_quit(&mut self, line: &[u8], times: &mut TimestampParser) -> bool {
        if !self.may_learn_quit {
            return false;
        }
        let Some(pieces) = self.with_quit(line, times) else {
            return false;
        };
        (self.may_learn_quit, self.learnt) = (false, true);
        self.text = describe(&pieces);
        self.pieces = pieces;
        true
    }

    /// Creates the same prefix that learns no more.
    pub(crate) fn without_learning(&self) -> Self {
        Prefix {
            may_learn_quit: false,
            ..self.clone()
        }
    }

    /// Returns whether [`Self::learn_quit`] has added `%q`.
    pub(crate) fn has_learnt(&self) -> bool {
        self.learnt
    }

    /// Describes what [`Self::learn_quit`] added, in one sentence.
    pub(crate) fn learnt_note(&self) -> Option<String> {
        self.learnt.then(|| {
            format!(
                "lines of the server's own processes showed that log_line_prefix has %q: '{}'",
                self.text
            )
        })
    }

    fn with_quit(&self, line: &[u8], times: &mut TimestampParser) -> Option<Vec<Piece>> {
        for (index, piece) in self.pieces.iter().enumerate() {
            // After the whole of a field, or after any byte of a literal.
            let cuts = match piece {
                Piece::Literal(text) => 1..text.len() + 1,
                _ => 0..1,
            };
            for cut in cuts {
                let mut before = self.pieces[..index].to_vec();
                let mut later_pieces = self.pieces[index + 1..].to_vec();
                match piece {
                    Piece::Literal(text) => {
                        before.push(Piece::Literal(text[..cut].into()));
                        if cut < text.len() {
                            later_pieces.insert(0, Piece::Literal(text[cut..].into()));
                        }
                    }
                    other => before.push(other.clone()),
                }
                if later_pieces.is_empty() || !has_time_and_process(&before) {
                    continue;
                }
                if let Some(Label::Head(_)) = label_after(&before, line, times)
                    && !is_of_client(line)
                {
                    before.push(Piece::Quit);
                    before.append(&mut later_pieces);
                    return Some(before);
                }
            }
        }
        None
    }
}

/// Returns whether only a client's process writes this line.
fn is_of_client(line: &[u8]) -> bool {
    find_label(line).is_some_and(|label_at| LineFacts::of(&(line, label_at)).is_of_client())
}

fn has_time_and_process(pieces: &[Piece]) -> bool {
    let has = |wanted: &[Escape]| {
        pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Field { escape, .. } if wanted.contains(escape)))
    };
    has(&[Escape::Time, Escape::TimeMilliseconds, Escape::Epoch])
        && has(&[Escape::Pid, Escape::Session])
}

/// Writes pieces as a prefix.
fn describe(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => {
                text.push_str(&String::from_utf8_lossy(literal).replace('%', "%%"));
            }
            Piece::Field { escape, width } => {
                text.push('%');
                if *width != 0 {
                    text.push_str(&width.to_string());
                }
                text.push(escape.letter());
            }
            Piece::Quit => text.push_str("%q"),
        }
    }
    text
}
