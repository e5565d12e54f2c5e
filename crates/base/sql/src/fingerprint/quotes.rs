//! Ends of quoted literals and names, and the parts of a literal that continues on another line.
//!
//! Source: `scan.l`, states `xb`, `xh`, `xq`, `xe`, `xus`, `xd`, `xui` and `xqs`.

use std::ops::Range;

/// Rule by which a quote within a literal or name does not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuoteRules {
    /// A doubled quote.
    Doubled,
    /// A doubled quote, or one after a backslash: `E'…'`.
    Escapes,
    /// None: `B'…'` and `X'…'`.
    Bits,
}

/// Returns the offset after the quote that closes the one at `from`. The end of the text closes any.
pub(crate) fn segment_end(bytes: &[u8], from: usize, rules: QuoteRules) -> usize {
    closed_segment_end(bytes, from, rules).unwrap_or(bytes.len())
}

/// Returns the offset after the quote that closes the one at `from`; `None` if the text ends before it.
pub(crate) fn closed_segment_end(bytes: &[u8], from: usize, rules: QuoteRules) -> Option<usize> {
    let quote = bytes[from];
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if rules == QuoteRules::Escapes => at += 2,
            byte if byte == quote => {
                if rules != QuoteRules::Bits && bytes.get(at + 1) == Some(&quote) {
                    at += 2;
                } else {
                    return Some(at + 1);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// Returns the offset after a literal whose first quote is at `from`, with all segments that continue it.
pub(crate) fn literal_end(bytes: &[u8], from: usize, rules: QuoteRules) -> usize {
    let mut end = segment_end(bytes, from, rules);
    while let Some(quote) = continuation(bytes, end) {
        end = segment_end(bytes, quote, rules);
    }
    end
}

/// Returns the offset of the quote that continues the literal which ends at `at`: only white space with a
/// newline and `--` comments are between them.
pub(crate) fn continuation(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut has_newline = false;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'\n' | b'\r', _) => has_newline = true,
            (b' ' | b'\t' | 0x0b | 0x0c, _) => {}
            (b'-', Some(b'-')) => {
                let newline = |byte: &u8| matches!(byte, b'\n' | b'\r');
                at += bytes[at..].iter().position(newline)?;
                continue;
            }
            (b'\'', _) if has_newline => return Some(at),
            _ => return None,
        }
        at += 1;
    }
}

/// Returns the parts of a literal's token that are outside of its quotes: between its segments, and the clause
/// `UESCAPE`. `first` is the offset of its first quote.
pub(crate) fn gaps(bytes: &[u8], first: usize, rules: QuoteRules) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    let mut end = segment_end(bytes, first, rules);
    while let Some(quote) = continuation(bytes, end) {
        gaps.push(end..quote);
        end = segment_end(bytes, quote, rules);
    }
    if end < bytes.len() {
        gaps.push(end..bytes.len());
    }
    gaps
}
