//! `%q` in a prefix that was recognised: where no process without a client had a line in what it
//! was recognised by, its first line shows where theirs end.
//!
//! Adding it takes nothing away: a client's line has the whole prefix, with or without.

use super::matching::starts;
use super::{Escape, Piece, Prefix};
use crate::severity::Label;
use crate::timestamp::Timestamps;

impl Prefix {
    /// A prefix that was recognised, not given: it may lack `%q`.
    pub(super) fn recognised(self) -> Self {
        let learns_quit = !self.pieces.contains(&Piece::Quit);
        Prefix {
            learns_quit,
            ..self
        }
    }

    /// Takes a line that did not match for that of a process without a client, if its beginning
    /// is one of the prefix, with time and process, and an entry begins behind it. Returns whether the
    /// prefix has changed: it has `%q` there then.
    #[cold]
    pub(crate) fn learn_quit(&mut self, line: &[u8], times: &mut Timestamps) -> bool {
        if !self.learns_quit {
            return false;
        }
        let Some(pieces) = self.with_quit(line, times) else {
            return false;
        };
        (self.learns_quit, self.learnt) = (false, true);
        self.text = describe(&pieces);
        self.pieces = pieces;
        true
    }

    /// [`Self::learn_quit`] has added something.
    pub(crate) fn has_learnt(&self) -> bool {
        self.learnt
    }

    /// What is to be known of what [`Self::learn_quit`] added, a sentence.
    pub(crate) fn learnt(&self) -> Option<String> {
        self.learnt.then(|| {
            format!(
                "lines of the server's own processes showed that log_line_prefix has %q: '{}'",
                self.text
            )
        })
    }

    fn with_quit(&self, line: &[u8], times: &mut Timestamps) -> Option<Vec<Piece>> {
        for (index, piece) in self.pieces.iter().enumerate() {
            // Behind the whole of a field, or anywhere behind a literal's byte.
            let cuts = match piece {
                Piece::Literal(text) => 1..text.len() + 1,
                _ => 0..1,
            };
            for cut in cuts {
                let mut before = self.pieces[..index].to_vec();
                let mut behind = self.pieces[index + 1..].to_vec();
                match piece {
                    Piece::Literal(text) => {
                        before.push(Piece::Literal(text[..cut].into()));
                        if cut < text.len() {
                            behind.insert(0, Piece::Literal(text[cut..].into()));
                        }
                    }
                    other => before.push(other.clone()),
                }
                if behind.is_empty() || !has_time_and_process(&before) {
                    continue;
                }
                if let Some(Label::Head(_)) = starts(&before, line, times) {
                    before.push(Piece::Quit);
                    before.append(&mut behind);
                    return Some(before);
                }
            }
        }
        None
    }
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

/// As it would be given.
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
