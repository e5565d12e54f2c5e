//! Fast path for matching a line: each piece ends at the first possible position, without
//! backtracking. Its result is the first result of the thorough matching. If it finds nothing, or a
//! prefix has pieces that it does not support, the thorough matching is used.

use super::matching::{FREE_BYTES_MAX, Fields, Span, match_typed, set_field};
use super::{Escape, Piece};
use crate::byte_search::{find_near, parse_number, word_at};
use crate::severity::{Label, label};
use crate::timestamp::TimestampParser;

/// A compiled piece.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Up to eight bytes, as a word, and the mask of the bytes they take.
    Short {
        text: u64,
        mask: u64,
        length: usize,
    },
    Long(Box<[u8]>),
    TimeMilliseconds,
    Pid,
    /// Any text up to a byte.
    Until {
        escape: Escape,
        stop: u8,
    },
    Typed(Escape),
}

/// A prefix compiled for the fast path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FastPath(Vec<Step>);

fn is_name(piece: &Piece) -> bool {
    matches!(piece, Piece::Field { escape, .. } if escape.is_client_chosen())
}

impl FastPath {
    /// Compiles a prefix; `None` if it has pieces that need backtracking.
    pub(super) fn compile(pieces: &[Piece]) -> Option<Self> {
        let mut steps = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.iter().enumerate() {
            steps.push(match piece {
                Piece::Quit => continue,
                Piece::Literal(text) if text.len() <= 8 => {
                    let mut bytes = [0; 8];
                    bytes[..text.len()].copy_from_slice(text);
                    Step::Short {
                        text: u64::from_le_bytes(bytes),
                        mask: u64::MAX >> (64 - 8 * text.len()),
                        length: text.len(),
                    }
                }
                Piece::Literal(text) => Step::Long(text.clone()),
                &Piece::Field { escape, width: 0 } => match escape {
                    Escape::TimeMilliseconds => Step::TimeMilliseconds,
                    Escape::Pid => Step::Pid,
                    Escape::Host => return None,
                    // Their values contain blanks, and a name may follow.
                    Escape::BackendType | Escape::CommandTag
                        if pieces[index + 1..].iter().any(is_name) =>
                    {
                        return None;
                    }
                    _ if escape.is_free() => match pieces.get(index + 1) {
                        Some(Piece::Literal(stop)) => Step::Until {
                            escape,
                            stop: stop[0],
                        },
                        _ => return None,
                    },
                    _ => Step::Typed(escape),
                },
                Piece::Field { .. } => return None,
            });
        }
        Some(FastPath(steps))
    }

    /// Returns whether its first piece is a time with milliseconds.
    pub(super) fn starts_with_time(&self) -> bool {
        self.0.first() == Some(&Step::TimeMilliseconds)
    }

    /// Matches the start of a line; returns the label, its start and its end.
    #[inline(always)]
    pub(super) fn matches(
        &self,
        line: &[u8],
        fields: &mut Fields,
        times: &mut TimestampParser,
    ) -> Option<(Label, usize, usize)> {
        let mut at = 0;
        for step in &self.0 {
            match step {
                Step::Short { text, mask, length } => {
                    // A line that ends within a word is left to the thorough matching.
                    if word_at(line, at)? & mask != *text {
                        return None;
                    }
                    at += length;
                }
                Step::TimeMilliseconds => {
                    let stamp = times.read(line.get(at..)?)?;
                    if !stamp.milliseconds {
                        return None;
                    }
                    fields.wall_us = Some(stamp.wall_us);
                    at += stamp.length;
                }
                Step::Pid => {
                    let (pid, length) = parse_number(line.get(at..)?)?;
                    fields.pid = Some(u32::try_from(pid).ok()?);
                    at += length;
                }
                Step::Until { escape, stop } => {
                    let end = find_near(line, at, *stop)?;
                    if end - at > FREE_BYTES_MAX {
                        return None;
                    }
                    set_field(*escape, Span::new(at, end), fields);
                    at = end;
                }
                Step::Typed(escape) => at = match_typed(*escape, line, at, fields, times)?,
                Step::Long(text) => {
                    if !line.get(at..)?.starts_with(text) {
                        return None;
                    }
                    at += text.len();
                }
            }
        }
        let (label, length) = label(line.get(at..)?)?;
        Some((label, at, at + length))
    }
}
