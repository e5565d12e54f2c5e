//! Masks text: letters by letters, digits by digits, word by word; the characters between words
//! stay.
//!
//! A word is masked as a whole, by a permutation of the words with the same character classes,
//! ignoring case, which is restored. So `Smith` in a name, in an address and in `LIKE '%smith%'`
//! becomes the same word, and different words stay different. A run of digits is masked as a
//! number; zeros before it stay.

use super::key::{Domain, MaskKey};
use super::number;

/// Classes of interchangeable letters, in addition to those of ASCII: the first and last lower-case
/// letter, and the offset of the upper case (0 if there is none).
const LETTERS: [(u32, u32, u32); 15] = [
    // Latin-1, without the signs between the letters.
    (0xe0, 0xf6, 0x20),
    (0xf8, 0xfe, 0x20),
    (0x100, 0x17f, 0),
    // Greek, without the final sigma, which has no upper case.
    (0x3b1, 0x3c1, 0x20),
    (0x3c3, 0x3c9, 0x20),
    (0x430, 0x44f, 0x20),
    (0x561, 0x586, 0x30),
    (0x5d0, 0x5ea, 0),
    (0x621, 0x63a, 0),
    (0x641, 0x64a, 0),
    (0x905, 0x939, 0),
    (0xe01, 0xe2e, 0),
    (0x3041, 0x3096, 0),
    (0x30a1, 0x30fa, 0),
    (0xac00, 0xd7a3, 0),
];
/// The common ideographs.
const IDEOGRAPHS: (u32, u32) = (0x4e00, 0x9fa5);

/// Characters that may replace a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CharacterClass {
    /// First character of the class.
    first: u32,
    size: u32,
    /// Index of the character in the class.
    index: u32,
    /// Offset of the upper case from the lower case.
    upper: u32,
}

impl CharacterClass {
    fn of(character: char) -> Self {
        let code = u32::from(character);
        let class = |first: u32, last: u32, code: u32, upper: u32| CharacterClass {
            first,
            size: last - first + 1,
            index: code - first,
            upper,
        };
        match character {
            '0'..='9' => return class(0x30, 0x39, code, 0),
            'a'..='z' => return class(0x61, 0x7a, code, 0),
            'A'..='Z' => return class(0x61, 0x7a, code + 0x20, 0x20),
            _ => {}
        }
        let (first, last) = IDEOGRAPHS;
        if (first..=last).contains(&code) {
            return class(first, last, code, 0);
        }
        for (first, last, upper) in LETTERS {
            if (first..=last).contains(&code) {
                return class(first, last, code, 0);
            }
            if upper > 0 && (first - upper..=last - upper).contains(&code) {
                return class(first, last, code + upper, upper);
            }
        }
        // Letters of other scripts become ASCII letters, since there is no table of all scripts.
        class(0x61, 0x7a, 0x61 + code % 26, 0)
    }

    fn character_at(self, place: u32) -> char {
        char::from_u32(self.first + place - self.upper).unwrap_or('x')
    }
}

/// Syntax of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextSyntax {
    /// As it stands.
    Plain,
    /// A regular expression: the contents of brackets and braces, and characters after a backslash,
    /// are syntax and stay.
    Expression,
}

/// Masks the words of a text. Returns true if a character was replaced, possibly by the same one.
pub(super) fn mask_text(key: &MaskKey, text: &str, reading: TextSyntax, out: &mut String) -> bool {
    let mut masked = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if reading == TextSyntax::Expression {
            let stays = expression_syntax_length(rest);
            if stays > 0 {
                out.push_str(&rest[..stays]);
                rest = &rest[stays..];
                continue;
            }
        }
        let length = rest
            .find(|character: char| !character.is_alphanumeric())
            .unwrap_or(rest.len());
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        masked |= mask_word(key, &rest[..length], out);
        rest = &rest[length..];
    }
    masked
}

/// Returns the length of the syntax at the start of a regular expression, in bytes.
fn expression_syntax_length(text: &str) -> usize {
    let closing = match text.as_bytes()[0] {
        b'\\' => {
            let escaped = text[1..].chars().next().map_or(0, char::len_utf8);
            return 1 + escaped;
        }
        b'[' => ']',
        b'{' => '}',
        _ => return 0,
    };
    // A closing bracket that comes first is literal.
    let from = match text[1..].strip_prefix('^').unwrap_or(&text[1..]) {
        tail if closing == ']' && tail.starts_with(']') => text.len() - tail.len() + 1,
        _ => 1,
    };
    match text[from..].find(closing) {
        Some(at) => from + at + 1,
        None => 0,
    }
}

/// Masks a run of letters and digits. A single character stays: it identifies nobody, and is often
/// a flag.
fn mask_word(key: &MaskKey, word: &str, out: &mut String) -> bool {
    if word.chars().nth(1).is_none() {
        out.push_str(word);
        return false;
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        let digits = word.trim_start_matches('0');
        out.push_str(&word[..word.len() - digits.len()]);
        number::mask_integer(key, digits, out);
        return digits.len() > 1;
    }
    let classes: Vec<CharacterClass> = word.chars().map(CharacterClass::of).collect();
    // The words that may replace it: those of the same classes.
    let mut shape = Vec::with_capacity(4 * classes.len());
    let mut size = Some(1u128);
    for class in &classes {
        shape.extend_from_slice(&class.first.to_le_bytes()[..3]);
        size = size.and_then(|size| size.checked_mul(class.size.into()));
    }
    let shape = key.hash(Domain::Word, 0, &shape);
    match size {
        Some(size) => {
            let number = classes.iter().fold(0u128, |number, class| {
                number * u128::from(class.size) + u128::from(class.index)
            });
            let mut left = key.permute(Domain::Word, shape, size, number);
            let mut places = vec![0u32; classes.len()];
            for (place, class) in places.iter_mut().zip(&classes).rev() {
                *place = (left % u128::from(class.size)) as u32;
                left /= u128::from(class.size);
            }
            out.extend(
                classes
                    .iter()
                    .zip(places)
                    .map(|(class, place)| class.character_at(place)),
            );
        }
        // Too many to number: each character is replaced by a hash of the whole word.
        None => {
            let folded: Vec<u8> = classes
                .iter()
                .flat_map(|class| (class.first + class.index).to_le_bytes())
                .collect();
            let seed = key.hash(Domain::LongWord, shape, &folded);
            let mut drawn = key.stream(Domain::LongWord, seed);
            out.extend(classes.iter().map(|class| {
                let bytes = [(); 4].map(|()| drawn.next().unwrap_or(0));
                class.character_at(u32::from_le_bytes(bytes) % class.size)
            }));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn key() -> MaskKey {
        MaskKey::from_secret(b"a key for the tests")
    }

    fn masked(text: &str) -> String {
        let mut out = String::new();
        mask_text(&key(), text, TextSyntax::Plain, &mut out);
        out
    }

    #[test]
    fn words_keep_their_shape_and_are_the_same_everywhere() {
        let email = masked("John.Smith@Example.com");
        let (john, smith) = (masked("john"), masked("smith"));
        assert_eq!(
            email.to_lowercase(),
            format!("{john}.{smith}@{}.{}", masked("example"), masked("com"))
        );
        assert!(
            email.starts_with(|first: char| first.is_ascii_uppercase()),
            "{email}"
        );
        assert_eq!(masked("%SMITH_"), format!("%{}_", smith.to_uppercase()));
        assert_eq!(
            masked("ORD-00042"),
            format!("{}-000{}", masked("ORD"), masked("42"))
        );
        assert_eq!(masked("F"), "F");
        assert_eq!(
            masked("Größe Ωμέγα Привет 日本").chars().count(),
            "Größe Ωμέγα Привет 日本".chars().count()
        );
    }

    #[test]
    fn words_of_one_shape_never_collide() {
        let mut all = HashSet::new();
        for first in 'a'..='z' {
            for second in 'a'..='z' {
                for digit in '0'..='9' {
                    all.insert(masked(&format!("{first}{second}{digit}")));
                }
            }
        }
        assert_eq!(all.len(), 6760);
    }

    #[test]
    fn an_expression_still_says_how_to_match() {
        let mut out = String::new();
        mask_text(
            &key(),
            r"^smith[A-Za-z0-9]{2,30}\d+(one|two)$",
            TextSyntax::Expression,
            &mut out,
        );
        let word = masked;
        assert_eq!(
            out,
            format!(
                r"^{}[A-Za-z0-9]{{2,30}}\d+({}|{})$",
                word("smith"),
                word("one"),
                word("two")
            )
        );
    }

    proptest! {
        #[test]
        fn classes_stay_in_place(text in "\\PC{0,40}") {
            let other = masked(&text);
            prop_assert_eq!(text.chars().count(), other.chars().count());
            for (one, other) in text.chars().zip(other.chars()) {
                prop_assert_eq!(one.is_alphanumeric(), other.is_alphanumeric(), "{} {}", one, other);
                prop_assert_eq!(one.is_ascii_digit(), other.is_ascii_digit());
                prop_assert_eq!(one.is_ascii_uppercase(), other.is_ascii_uppercase());
                if !one.is_alphanumeric() {
                    prop_assert_eq!(one, other);
                }
            }
        }
    }
}
