//! Shape of a statement: its text without the contents of plain numbers and strings.
//!
//! Texts of one shape have one fingerprint, so only one of them has to be split into tokens. A shape is fast
//! to compute because it handles plain tokens only. A text has no shape if the end of a token is not evident
//! from its own bytes (comments, dollar quotes, `E''`, `1e-5`). Such a text is split into tokens.

use super::quotes::continuation;

/// Byte that replaces a value in a shape. It does not occur in SQL outside of quotes.
const VALUE: u8 = 1;

/// ByteClass of a byte by the token that it may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Plain,
    Digit,
    Quote,
    /// `"`, whose content is copied.
    Name,
    /// `$`, `-`, `/`: the start of a token without a shape, or a plain byte.
    Special,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Plain; 256];
    let mut digit = b'0';
    while digit <= b'9' {
        classes[digit as usize] = ByteClass::Digit;
        digit += 1;
    }
    classes[b'\'' as usize] = ByteClass::Quote;
    classes[b'"' as usize] = ByteClass::Name;
    classes[b'$' as usize] = ByteClass::Special;
    classes[b'-' as usize] = ByteClass::Special;
    classes[b'/' as usize] = ByteClass::Special;
    classes
};

/// Whether a byte may continue a name or a dollar sign. Digits after it are not a number.
fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

/// Computes shapes in a reused buffer.
#[derive(Debug, Default)]
pub struct Shaper {
    shape: Vec<u8>,
}

impl Shaper {
    /// Returns the shape; `None` if the text has none.
    pub fn shape(&mut self, sql: &str) -> Option<&[u8]> {
        self.shape.clear();
        let bytes = sql.as_bytes();
        if bytes.contains(&VALUE) {
            return None;
        }
        let (mut at, mut copied) = (0, 0);
        while at < bytes.len() {
            let before = |at: usize| at.checked_sub(1).map_or(b' ', |before| bytes[before]);
            let end = match CLASSES[bytes[at] as usize] {
                ByteClass::Plain => {
                    at = skip_plain(bytes, at + 1);
                    continue;
                }
                ByteClass::Digit if continues_name(before(at)) => {
                    at += 1;
                    continue;
                }
                // The number begins before it.
                ByteClass::Digit if before(at) == b'.' => return None,
                ByteClass::Digit => number_end(bytes, at)?,
                ByteClass::Quote if continues_name(before(at)) || before(at) == b'&' => {
                    return None;
                }
                ByteClass::Quote => {
                    let end = quote_end(bytes, at)?;
                    if continuation(bytes, end).is_some() {
                        return None;
                    }
                    end
                }
                // It may have Unicode escapes.
                ByteClass::Name if before(at) == b'&' => return None,
                ByteClass::Name => {
                    at = quote_end(bytes, at)?;
                    continue;
                }
                ByteClass::Special => match (bytes[at], bytes.get(at + 1)) {
                    (b'$', Some(b'0'..=b'9')) if !continues_name(before(at)) => {
                        at += 2;
                        continue;
                    }
                    (b'-', Some(b'-')) | (b'/', Some(b'*')) | (b'$', _) => return None,
                    _ => {
                        at += 1;
                        continue;
                    }
                },
            };
            self.shape.extend_from_slice(&bytes[copied..at]);
            self.shape.push(VALUE);
            (at, copied) = (end, end);
        }
        self.shape.extend_from_slice(&bytes[copied..]);
        Some(&self.shape)
    }
}

/// Returns an offset at or before the next byte that may be of another class than [`ByteClass::Plain`]. All
/// such bytes are between the blank and the colon, and eight bytes are tested together (S. E. Anderson, "Bit
/// Twiddling Hacks", whether a word has a byte between two values).
#[inline]
fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let low = word & (ONES * 127);
        let below = (ONES * (127 + b':' as u64)).wrapping_sub(low);
        let above = low.wrapping_add(ONES * (127 - b' ' as u64));
        let between = below & !word & above & (ONES * 128);
        if between != 0 {
            return at + between.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// Returns the end of digits with an optional fraction; `None` if the number is not plain.
fn number_end(bytes: &[u8], from: usize) -> Option<usize> {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut end = from + digits(from);
    if bytes.get(end) == Some(&b'.') {
        let decimals = digits(end + 1);
        if decimals == 0 {
            return None;
        }
        end += 1 + decimals;
    }
    match bytes.get(end) {
        Some(byte) if continues_name(*byte) || *byte == b'.' => None,
        _ => Some(end),
    }
}

/// Returns the offset after the quote that closes the one at `from`.
fn quote_end(bytes: &[u8], from: usize) -> Option<usize> {
    let quote = bytes[from];
    let mut at = from + 1;
    loop {
        at += bytes[at..].iter().position(|byte| *byte == quote)? + 1;
        if bytes.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fingerprinter;
    use super::*;
    use proptest::prelude::*;

    fn shape(sql: &str) -> Option<String> {
        let mut shaper = Shaper::default();
        let shape = std::str::from_utf8(shaper.shape(sql)?).unwrap();
        Some(shape.replace('\u{1}', "#"))
    }

    #[test]
    fn shapes() {
        for (sql, expected) in [
            (
                "select 1, 'a''b', t1.x2 from t1",
                Some("select #, #, t1.x2 from t1"),
            ),
            ("a=-5.25 and b = $12", Some("a=-# and b = $12")),
            ("select \"a 1\", 'ü'", Some("select \"a 1\", #")),
            ("select e'\\'', 1", None),
            ("select 1 -- 2", None),
            ("select 1e-5", None),
            ("select $$1$$", None),
            ("select 1..2", None),
            ("select 'open", None),
        ] {
            assert_eq!(shape(sql).as_deref(), expected, "{sql}");
        }
    }

    proptest! {
        /// The invariant that shapes rely on.
        #[test]
        fn texts_of_one_shape_have_one_fingerprint(
            pieces in prop::collection::vec(
                prop_oneof![
                    Just("select"), Just(" "), Just("-"), Just("+"), Just("("), Just(")"), Just(","),
                    Just("."), Just("a"), Just("e"), Just("E"), Just("in"), Just("$"), Just("/"), Just("*"),
                    Just("\""), Just("'"), Just("''"), Just("_"), Just("::"), Just("x"), Just("&"),
                    Just("N"), Just("N"), Just("S"), Just("S"),
                ],
                0..24,
            ),
            one in (0u32..1_000, "[a-z0-9 ]{0,4}"),
            other in (0u32..100_000, "[a-z0-9 $]{0,6}"),
        ) {
            let text = |(number, string): &(u32, String)| -> String {
                pieces
                    .iter()
                    .map(|piece| match *piece {
                        "N" => number.to_string(),
                        "S" => format!("'{string}'"),
                        piece => piece.to_owned(),
                    })
                    .collect()
            };
            let (one, other) = (text(&one), text(&other));
            if let (Some(first), Some(second)) = (shape(&one), shape(&other))
                && first == second
            {
                let mut fingerprinter = Fingerprinter::new();
                prop_assert_eq!(
                    fingerprinter.fingerprint(&one),
                    fingerprinter.fingerprint(&other),
                    "{} | {}", one, other
                );
            }
        }
    }
}
