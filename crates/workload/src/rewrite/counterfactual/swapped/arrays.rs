//! Arrays of keys: `{a,b}`, and the binary form of `array_send` (`src/backend/utils/adt/arrayfuncs.c`).

use super::Each;
use super::key::{INT8, KeyKind};

/// An array of one dimension in text form, with numbers in it.
pub(super) fn text(array: &str, kind: KeyKind, each: Each<'_>) -> Option<String> {
    let inner = array.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut out = String::from("{");
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (element, behind) = element(rest)?;
        if out.len() > 1 {
            out.push(',');
        }
        match element {
            Some(value) => out.push_str(&each(kind.read(&value)?).to_string()),
            None => out.push_str("NULL"),
        }
        rest = match behind.trim_start().strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => more.trim_start(),
            Some(_) => return None,
            None if behind.trim().is_empty() => "",
            None => return None,
        };
    }
    out.push('}');
    Some(out)
}

/// The first element, NULL as `None`, and what is behind it.
fn element(text: &str) -> Option<(Option<String>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        let bare = text[..end].trim();
        if bare.is_empty() || bare.contains(['{', '}', '"', '\\']) {
            return None;
        }
        let is_null = bare.eq_ignore_ascii_case("null");
        return Some(((!is_null).then(|| bare.to_owned()), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((Some(value), &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// An array of one dimension in binary form, with numbers in it.
pub(super) fn binary(array: &[u8], kind: KeyKind, each: Each<'_>) -> Option<Vec<u8>> {
    let mut at = 0;
    let mut word = || {
        let bytes = array.get(at..at + 4)?;
        at += 4;
        Some(i32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (dimensions, flags, _) = (word()?, word()?, word()?);
    let mut out = Vec::with_capacity(array.len());
    for number in [dimensions, flags, INT8 as i32] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    if dimensions == 0 {
        return (array.len() == 12).then_some(out);
    }
    let (count, bound) = (word()?, word()?);
    if dimensions != 1 {
        return None;
    }
    for number in [count, bound] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    let mut rest = array.get(20..)?;
    for _ in 0..count {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        rest = behind;
        if length < 0 {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        let (value, behind) = rest.split_at_checked(length as usize)?;
        rest = behind;
        out.extend_from_slice(&8_i32.to_be_bytes());
        out.extend_from_slice(&each(kind.read_binary(value)?).to_be_bytes());
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(array: &str) -> Option<String> {
        text(array, KeyKind::Text, &mut |value| value.len() as i64)
    }

    #[test]
    fn elements_of_every_spelling() {
        for (array, numbers) in [
            ("{}", Some("{}")),
            ("{a,bc, NULL ,\"d,\\\"e\"}", Some("{1,2,NULL,4}")),
            ("{a,}", None),
            ("{{a},{b}}", None),
            ("{\"a}", None),
            ("a", None),
            ("{a\"b\"}", None),
        ] {
            assert_eq!(lengths(array).as_deref(), numbers, "{array}");
        }
    }

    #[test]
    fn binary_arrays_have_their_elements_and_type() {
        let words = |words: &[i32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        let mut array = words(&[1, 1, 17, 3, 1, 2]);
        array.extend_from_slice(b"ab");
        array.extend(words(&[-1, 0]));
        let numbers = |array: &[u8]| binary(array, KeyKind::Bytea, &mut |value| value.len() as i64);
        assert_eq!(
            numbers(&array),
            Some(words(&[1, 1, 20, 3, 1, 8, 0, 2, -1, 8, 0, 0]))
        );
        for end in 0..array.len() {
            assert_eq!(numbers(&array[..end]), None, "{end}");
        }
        assert_eq!(numbers(&words(&[0, 0, 17])), Some(words(&[0, 0, 20])));
        assert_eq!(numbers(&words(&[2, 0, 17, 1, 1, 1, 1])), None);
        assert_eq!(numbers(&words(&[1, 0, 17, i32::MAX, 1])), None);
    }
}
