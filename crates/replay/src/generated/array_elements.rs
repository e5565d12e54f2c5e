//! Texts of the elements of an array, in its text and its binary format (PostgreSQL documentation, 8.15.6; `array_send` of
//! `arrayfuncs.c`).

use std::ops::Range;

use super::value::{ArrayType, Value};

/// Most elements that are read.
const ELEMENTS_MAX: usize = 1_000;

/// Appends the texts of an array in text format, and returns where they are, without NULLs; `None` if it is no array, or has
/// too many elements.
pub(super) fn add_text_elements(array: &str, texts: &mut Vec<u8>) -> Option<Vec<Range<usize>>> {
    let inner = array.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut found = Vec::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let start = texts.len();
        let is_null;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut characters = quoted.char_indices();
            let after = loop {
                match characters.next()? {
                    (at, '"') => break at + 1,
                    (_, '\\') => push(texts, characters.next()?.1),
                    (_, character) => push(texts, character),
                }
            };
            is_null = false;
            rest = &quoted[after..];
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let element = rest[..end].trim_end();
            // An array of arrays, or an escape outside of quotes.
            if element.is_empty() || element.contains(['{', '}', '"', '\\']) {
                return None;
            }
            is_null = element.eq_ignore_ascii_case("null");
            texts.extend_from_slice(element.as_bytes());
            rest = &rest[end..];
        }
        if !is_null {
            found.push(start..texts.len());
        }
        rest = rest.trim_start();
        if !rest.is_empty() {
            rest = rest.strip_prefix(',')?.trim_start();
            if rest.is_empty() {
                return None;
            }
        }
        if found.len() > ELEMENTS_MAX {
            return None;
        }
    }
    Some(found)
}

fn push(texts: &mut Vec<u8>, character: char) {
    texts.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Appends the texts of an array in binary format like [`add_text_elements`]. Only numbers, UUIDs and texts are read.
pub(super) fn add_binary_elements(array: &[u8], texts: &mut Vec<u8>) -> Option<Vec<Range<usize>>> {
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(array.get(at..at + 4)?.try_into().ok()?))
    };
    let (dimensions, element_type) = (number(0)?, number(8)?);
    let elements = ArrayType::with_elements(element_type)?;
    let count = match dimensions {
        0 => 0,
        1 => number(12)? as usize,
        _ => return None,
    };
    if count > ELEMENTS_MAX {
        return None;
    }
    let mut found = Vec::new();
    let mut at = 12 + 8 * dimensions as usize;
    for _ in 0..count {
        let length = number(at)?;
        at += 4;
        if length == u32::MAX {
            continue;
        }
        let element = array.get(at..at.checked_add(length as usize)?)?;
        at += element.len();
        let start = texts.len();
        match elements {
            ArrayType::Texts => texts.extend_from_slice(element),
            ArrayType::Numbers | ArrayType::Uuids | ArrayType::Unknown => {
                Value::of_binary(element)?.add_text(texts);
            }
        }
        found.push(start..texts.len());
    }
    (at == array.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(array: &str) -> Option<Vec<String>> {
        let mut texts = b"before".to_vec();
        let found = add_text_elements(array, &mut texts)?;
        Some(strings(&texts, found))
    }

    fn strings(texts: &[u8], ranges: Vec<Range<usize>>) -> Vec<String> {
        let text = |range| String::from_utf8_lossy(&texts[range]).into_owned();
        ranges.into_iter().map(text).collect()
    }

    #[test]
    fn elements_of_the_text_format_are_read_without_quotes_and_nulls() {
        let expected =
            |elements: &[&str]| Some(elements.iter().map(|one| one.to_string()).collect());
        assert_eq!(of_text("{}"), expected(&[]));
        assert_eq!(of_text(" { 1, -2 ,0}"), expected(&["1", "-2", "0"]));
        assert_eq!(of_text("{NULL,\"null\",a b}"), expected(&["null", "a b"]));
        assert_eq!(of_text(r#"{"a,}\"\\",ü}"#), expected(&["a,}\"\\", "ü"]));
        for other in [
            "",
            "1",
            "{1",
            "{1,}",
            "{{1},{2}}",
            "[0:1]={1,2}",
            r#"{"a}"#,
            r"{a\b}",
            "{1}{2}",
        ] {
            assert_eq!(of_text(other), None, "{other}");
        }
        let many = |count: usize| format!("{{{}}}", vec!["1"; count].join(","));
        assert!(of_text(&many(ELEMENTS_MAX)).is_some());
        assert_eq!(of_text(&many(ELEMENTS_MAX + 1)), None);
    }

    #[test]
    fn elements_of_the_binary_format_are_read_by_their_type() {
        let array = |type_oid: u32, elements: &[Option<&[u8]>]| {
            let header = [1, 1, type_oid, elements.len() as u32, 1];
            let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
            for element in elements {
                let length = element.map_or(u32::MAX, |element| element.len() as u32);
                bytes.extend(length.to_be_bytes());
                bytes.extend_from_slice(element.unwrap_or_default());
            }
            bytes
        };
        let read = |bytes: &[u8]| {
            let mut texts = Vec::new();
            let found = add_binary_elements(bytes, &mut texts)?;
            Some(strings(&texts, found))
        };
        let numbers = array(23, &[Some(&(-7_i32).to_be_bytes()), None, Some(&[0; 4])]);
        assert_eq!(read(&numbers).unwrap(), ["-7", "0"]);
        let texts = array(25, &[Some(b"ab"), Some(b"")]);
        assert_eq!(read(&texts).unwrap(), ["ab", ""]);
        // A timestamp is no key that is known.
        assert_eq!(read(&array(1184, &[Some(&[0; 8])])), None);
        assert_eq!(read(&numbers[..numbers.len() - 1]), None);
        let empty: Vec<u8> = [0_u32, 0, 23]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        assert_eq!(read(&empty).unwrap(), [""; 0]);
    }
}
