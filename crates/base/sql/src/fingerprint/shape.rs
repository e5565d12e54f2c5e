//! A statement's shape: its text without the contents of plain numbers and strings.
//!
//! Texts of one shape have one fingerprint, so that one of them is cut into tokens for all. The
//! shape is quickly made, because it leaves all that is not plain alone: where a text has
//! anything whose end is not told by its own bytes (comments, dollar quotes, `E''`, `1e-5`), it has
//! no shape, and is looked at as a whole.

/// Stands for a value in a shape. Not a byte that SQL outside of quotes has.
const VALUE: u8 = 1;

/// What a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Digit,
    Quote,
    /// `"`, to be copied as it is.
    Name,
    /// `$`, `-`, `/`: begins what has no shape, or is plain.
    Odd,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    let mut digit = b'0';
    while digit <= b'9' {
        classes[digit as usize] = Class::Digit;
        digit += 1;
    }
    classes[b'\'' as usize] = Class::Quote;
    classes[b'"' as usize] = Class::Name;
    classes[b'$' as usize] = Class::Odd;
    classes[b'-' as usize] = Class::Odd;
    classes[b'/' as usize] = Class::Odd;
    classes
};

/// Whether a byte may stand in a name, or behind a dollar: digits behind it are no number.
fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

/// Makes shapes, in space that is used again.
#[derive(Debug, Default)]
pub struct Shaper {
    shape: Vec<u8>,
}

impl Shaper {
    /// The shape; `None` where the text has none.
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
                Class::Plain => {
                    at = skip_plain(bytes, at + 1);
                    continue;
                }
                Class::Digit if continues_name(before(at)) => {
                    at += 1;
                    continue;
                }
                Class::Digit => number_end(bytes, at)?,
                Class::Quote if continues_name(before(at)) || before(at) == b'&' => return None,
                Class::Quote => quote_end(bytes, at)?,
                Class::Name => {
                    at = quote_end(bytes, at)?;
                    continue;
                }
                Class::Odd => match (bytes[at], bytes.get(at + 1)) {
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

/// The next byte that may be of another class than [`Class::Plain`], or some place before it. All of
/// them are between the blank and the colon; eight bytes are looked at together (S. E. Anderson,
/// "Bit Twiddling Hacks", whether a word has a byte between two).
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

/// Digits, perhaps with a point and more digits; anything more is not plain.
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

/// Behind the quote that closes the one at `from`.
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
        /// The law that a shape stands on.
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
