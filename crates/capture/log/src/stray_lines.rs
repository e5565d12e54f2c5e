//! Classifies lines without a prefix that stand between the server's messages.
//!
//! Such a line may be the rest of the message before it: its tab was lost, the message was torn, or
//! its beginning stands in another file. Then that message is cut. All of this is off the hot path.

use super::prefix::Prefix;
use super::severity::{find_label, foreign_word};
use super::timestamp::TimestampParser;

/// Text that RDS writes at the end of a message that its download cut.
const TRUNCATED: &str = "[Your log message was truncated]";

/// Size from which a message may be written in several pieces (`PIPE_BUF`), so that another
/// process's message may stand within it.
pub(super) const PIECE_BYTES: usize = 4_096;

/// Number of bytes by which the beginning of a prefix is recognised.
const PREFIX_BYTES_COMPARED: usize = 4;

/// Maximum length of a prefix that is searched within a line.
const PREFIX_BYTES_MAX: usize = 400;

/// Returns whether RDS cut a text.
#[inline]
pub(super) fn is_truncated(text: &str) -> bool {
    text.as_bytes().last() == Some(&b']') && text.ends_with(TRUNCATED)
}

/// Recognises a line of the memory dump that an out-of-memory error causes
/// (`MemoryContextStatsPrint` in the server's mcxt.c): `NAME: N total in N blocks; …`.
pub(super) fn is_memory_context(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    let sizes = [" total in ", " bytes in ", " free (", " used"];
    let counts = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && sizes.iter().any(|size| text[digits..].starts_with(size))
    };
    let line_start = line.trim_start();
    if let Some((_, rest)) = line_start
        .split_once(" more child contexts containing ")
        .filter(|(count, _)| count.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return counts(rest);
    }
    line.ends_with(" used")
        && line.contains(" blocks; ")
        && line
            .match_indices(": ")
            .any(|(at, _)| counts(&line[at + 2..]))
}

/// Returns whether the lines at the start of `bytes`, none of which has the prefix, show that the
/// message before them, which starts with `head`, is cut. `None` if more bytes are needed.
pub(super) fn continues_message(
    head: &[u8],
    bytes: &[u8],
    complete: bool,
    times: &mut TimestampParser,
) -> Option<bool> {
    let mut at = 0;
    loop {
        let end = match memchr::memchr(b'\n', &bytes[at..]) {
            Some(length) => at + length,
            None if complete => bytes.len(),
            None => return None,
        };
        let line = bytes[at..end].trim_ascii_end();
        if line.is_empty() && end < bytes.len() {
            // An empty line ends a message, or is a line of it whose tab was lost.
            at = end + 1;
            continue;
        }
        // The input may end within the prefix of the next message.
        let begins_prefix = end == bytes.len() && {
            let common = line.len().min(PREFIX_BYTES_COMPARED);
            head.starts_with(&line[..common])
        };
        let other_message = begins_prefix
            || times.read(line).is_some() && find_label(line).is_some()
            || std::str::from_utf8(line).is_ok_and(|text| foreign_word(text).is_some());
        return Some(!line.is_empty() && !other_message && !is_memory_context(line));
    }
}

/// Returns whether another message begins within a line of `text`: two processes wrote at once.
pub(super) fn holds_other_message(
    text: &str,
    prefix: &Prefix,
    times: &mut TimestampParser,
) -> bool {
    text.split('\n').any(|line| {
        let line = line.as_bytes();
        let labels = memchr::memmem::find_iter(line, b":  ").skip(1);
        labels.into_iter().any(|label_at| {
            let word = line[..label_at]
                .iter()
                .rev()
                .take_while(|byte| byte.is_ascii_uppercase())
                .count();
            let starts = label_at.saturating_sub(PREFIX_BYTES_MAX).max(1)..label_at - word;
            word > 0
                && starts.into_iter().any(|start| {
                    line[start].is_ascii_graphic()
                        && prefix
                            .matches(&line[start..], times)
                            .is_some_and(|found| start + found.label_at == label_at - word)
                })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_contexts_are_recognised() {
        for line in [
            "TopMemoryContext: 101672 total in 12 blocks; 5232 free (18 chunks); 96440 used",
            "  RI compare cache: 8192 total in 1 blocks; 1800 free (0 chunks); 6392 used",
            "      CachedPlan: select 1: 2048 total in 2 blocks; 40 free (1 chunks); 2008 used",
            "    105 more child contexts containing 1234 total in 110 blocks; 10 free (1 chunks); 1224 used",
            "Grand total: 1048576 bytes in 191 blocks; 152400 free (5 chunks); 896176 used",
        ] {
            assert!(is_memory_context(line.as_bytes()), "{line}");
        }
        for line in [
            "    where id = 2",
            "used",
            "a: 12 used",
            "x: 1 total in all",
        ] {
            assert!(!is_memory_context(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_message_within_a_line_is_found() {
        let prefix = Prefix::compile("%m [%p] ");
        let mut times = TimestampParser::default();
        let mut holds = |text: &str| holds_other_message(text, &prefix, &mut times);
        let torn = "2026-03-01 09:00:01.000 UTC [1] LOG:  statement: select 'AAA2026-03-01 09:00:01.002 UTC [2] LOG:  statement: select 42";
        assert!(holds(torn));
        let whole = "2026-03-01 09:00:01.000 UTC [1] LOG:  statement: select 'LOG:  x'";
        assert!(!holds(whole));
    }
}
