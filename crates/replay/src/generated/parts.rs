//! Values within a parameter: the elements of an array, and the numbers and texts of a JSON document.
//!
//! Both are found by their bytes alone, and only if these are an array or a document as a whole. So what is replaced keeps
//! its place, and all other bytes stay as they are (PostgreSQL documentation, 8.14 and 8.15; `array_send` of `arrayfuncs.c`,
//! `jsonb_send` of `jsonb.c`).

use std::ops::Range;

use workload::Parameter;

use super::value::{ArrayType, Value};
use crate::statement_cache::hash;

/// Longest parameter that is looked into, in bytes.
const BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of a document.
const DEPTH_MAX: usize = 32;
/// Type OIDs (`pg_type.dat`).
const JSON: u32 = 114;
const JSONB: u32 = 3802;
/// Version byte of the binary format of jsonb.
const JSONB_VERSION: u8 = 1;

/// Value within a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Its bytes in the parameter.
    pub(super) range: Range<usize>,
    pub(super) value: Value,
    /// Member of a document; `None` in an array.
    pub(super) member: Option<Member>,
}

/// Member of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Hash of the names from the outermost object to it. Elements of an array have that of the array.
    pub(super) path: u64,
    /// Its name; empty for elements of an array that is no member.
    pub(super) name: String,
}

/// Returns the values within a parameter of a declared type; 0 means that none was declared.
pub(super) fn parts_of(type_oid: u32, parameter: &Parameter) -> Vec<Part> {
    let (bytes, is_text) = match parameter {
        Parameter::Text(text) => (text.as_bytes(), true),
        Parameter::Binary(bytes) => (&bytes[..], false),
    };
    if bytes.len() > BYTES_MAX {
        return Vec::new();
    }
    let may_be_document = matches!(type_oid, 0 | JSON | JSONB);
    let array = ArrayType::of(type_oid);
    let found = match is_text {
        true => document_parts(bytes, 0)
            .filter(|_| may_be_document)
            .or_else(|| text_elements(bytes, array?)),
        false => binary_elements(bytes)
            .filter(|_| array.is_some())
            .or_else(|| match bytes {
                [JSONB_VERSION, ..] if type_oid != JSON => document_parts(bytes, 1),
                _ => document_parts(bytes, 0),
            })
            .filter(|_| array.is_some() || may_be_document),
    };
    let mut parts = found.unwrap_or_default();
    if let Some(array) = array {
        parts.retain(|part| part.member.is_some() || array.has(part.value));
    }
    parts
}

/// Finds the elements of an array in text format that need no quotes or are between them; `None` if it is no array.
fn text_elements(bytes: &[u8], array: ArrayType) -> Option<Vec<Part>> {
    if bytes.first() != Some(&b'{') || bytes.last() != Some(&b'}') {
        return None;
    }
    let mut parts = Vec::new();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return (at + 1 == bytes.len()).then_some(parts);
                }
            }
            b',' | b' ' => {}
            b'"' => {
                let start = at + 1;
                at = start;
                while *bytes.get(at)? != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
                parts.extend(element(bytes, start..at, array));
            }
            _ => {
                let start = at;
                while !matches!(bytes.get(at)?, b',' | b'}' | b'{' | b'"') {
                    at += 1;
                }
                parts.extend(element(bytes, start..at, array));
                continue;
            }
        }
        at += 1;
    }
    None
}

/// Finds the elements of an array in binary format; `None` if it is no array of numbers, UUIDs or texts.
fn binary_elements(bytes: &[u8]) -> Option<Vec<Part>> {
    let number = |at: usize| -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (dimensions, has_nulls, element_type) = (number(0)?, number(4)?, number(8)?);
    let array = ArrayType::with_elements(element_type)?;
    if !(1..=6).contains(&dimensions) || has_nulls > 1 {
        return None;
    }
    let mut count = 1_u32;
    for dimension in 0..dimensions as usize {
        count = count.checked_mul(number(12 + 8 * dimension)?)?;
    }
    let mut at = 12 + 8 * dimensions as usize;
    let mut parts = Vec::new();
    for _ in 0..count {
        let length = number(at)?;
        at += 4;
        if length == u32::MAX {
            continue;
        }
        let range = at..at.checked_add(length as usize)?;
        let element = bytes.get(range.clone())?;
        at = range.end;
        let value = match array {
            ArrayType::Texts => Value::of_text(element),
            ArrayType::Numbers | ArrayType::Uuids | ArrayType::Unknown => Value::of_binary(element),
        };
        let value = value.filter(|value| array.has(*value));
        parts.extend(value.map(|value| Part {
            range,
            value,
            member: None,
        }));
    }
    (at == bytes.len()).then_some(parts)
}

/// Returns an element in text format, if it may have been generated.
fn element(bytes: &[u8], range: Range<usize>, array: ArrayType) -> Option<Part> {
    let text = &bytes[range.clone()];
    let digits = || Value::of_uuid_digits(text).filter(|_| array == ArrayType::Uuids);
    let value = Value::of_text(text).or_else(digits)?;
    Some(Part {
        range,
        value,
        member: None,
    })
}

/// Finds the numbers and texts of a document that begins at `from`; `None` if it is no object or array.
fn document_parts(bytes: &[u8], from: usize) -> Option<Vec<Part>> {
    let mut scanner = Scanner {
        bytes,
        at: from,
        parts: Vec::new(),
    };
    scanner.skip_blanks();
    if !matches!(scanner.peek()?, b'{' | b'[') {
        return None;
    }
    scanner.value(0, "", 0)?;
    scanner.skip_blanks();
    (scanner.at == bytes.len()).then_some(scanner.parts)
}

/// Reads a JSON document (RFC 8259). Literals of letters are not checked; the server does that.
struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
    parts: Vec<Part>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips blanks and takes this character.
    fn take(&mut self, wanted: u8) -> Option<()> {
        self.skip_blanks();
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Reads a value with the hash of its path and its name.
    fn value(&mut self, path: u64, name: &str, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_blanks();
        match self.peek()? {
            b'{' => self.members(path, depth),
            b'[' => self.elements(path, name, depth),
            b'"' => {
                let range = self.text()?;
                self.add(range, path, name);
                Some(())
            }
            _ => {
                let start = self.at;
                while !matches!(
                    self.peek(),
                    None | Some(
                        b',' | b'}'
                            | b']'
                            | b' '
                            | b'\t'
                            | b'\n'
                            | b'\r'
                            | b'"'
                            | b'{'
                            | b'['
                            | b':'
                    )
                ) {
                    self.at += 1;
                }
                self.add(start..self.at, path, name);
                (self.at > start).then_some(())
            }
        }
    }

    fn add(&mut self, range: Range<usize>, path: u64, name: &str) {
        let value = Value::of_text(&self.bytes[range.clone()]);
        self.parts.extend(value.map(|value| Part {
            range,
            value,
            member: Some(Member {
                path,
                name: name.to_owned(),
            }),
        }));
    }

    fn members(&mut self, path: u64, depth: usize) -> Option<()> {
        self.at += 1;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.skip_blanks();
            let range = self.text()?;
            let name = std::str::from_utf8(&self.bytes[range]).ok()?.to_owned();
            self.take(b':')?;
            self.value(hash(&(path, &name)), &name, depth + 1)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn elements(&mut self, path: u64, name: &str, depth: usize) -> Option<()> {
        self.at += 1;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(path, name, depth + 1)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    /// Reads a text in quotes. Returns the bytes between them.
    fn text(&mut self) -> Option<Range<usize>> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let mut at = start;
        while *self.bytes.get(at)? != b'"' {
            at += 1 + usize::from(self.bytes[at] == b'\\');
        }
        self.at = at + 1;
        Some(start..at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INT4_ARRAY: u32 = 1007;
    const INT8_ARRAY: u32 = 1016;
    const UUID_ARRAY: u32 = 2951;
    const TEXT_ARRAY: u32 = 1009;
    const UUID: &str = "0191d8a0-6b7c-7abc-8def-0123456789ab";

    fn found(type_oid: u32, text: &str) -> Vec<(String, String)> {
        let parts = parts_of(type_oid, &Parameter::from(text));
        let described = parts.into_iter().map(|part| {
            let name = part.member.map_or_else(String::new, |member| member.name);
            (name, text[part.range].to_owned())
        });
        described.collect()
    }

    fn named(all: &[(&str, &str)]) -> Vec<(String, String)> {
        let all = all.iter();
        all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn elements_of_arrays_are_found_by_type() {
        let numbers = named(&[("", "12"), ("", "345")]);
        assert_eq!(found(INT8_ARRAY, "{12,NULL,345}"), numbers);
        assert_eq!(found(0, "{{12},{345}}"), numbers);
        assert_eq!(
            found(UUID_ARRAY, &format!("{{{UUID}}}")),
            named(&[("", UUID)])
        );
        let digits = UUID.replace('-', "");
        assert_eq!(
            found(UUID_ARRAY, &format!("{{{digits}}}")),
            named(&[("", &digits)])
        );
        assert_eq!(found(0, &format!("{{{digits}}}")), []);
        // Numbers of texts are not generated.
        let texts = format!("{{12,\"{UUID}\",\"a\\\"12\"}}");
        assert_eq!(found(TEXT_ARRAY, &texts), named(&[("", UUID)]));
        for (type_oid, text) in [
            (25, "{12}"),
            (INT8_ARRAY, "{12"),
            (INT8_ARRAY, "{12}}"),
            (INT8_ARRAY, "12"),
        ] {
            assert_eq!(found(type_oid, text), [], "{text}");
        }
    }

    #[test]
    fn members_of_documents_have_their_names() {
        let text = format!(
            r#"{{"order_id": 12, "lines": [{{"id":7}}, {{"id": 8}}], "n": 1.5, "ref": "{UUID}", "ok": true}}"#
        );
        let expected = named(&[("order_id", "12"), ("id", "7"), ("id", "8"), ("ref", UUID)]);
        assert_eq!(found(3802, &text), expected);
        assert_eq!(found(0, &text), expected);
        assert_eq!(found(25, &text), []);
        assert_eq!(found(3802, r#"{"a": 12"#), []);
        let binary = Parameter::Binary([&[1], text.as_bytes()].concat().into());
        let parts = parts_of(3802, &binary);
        assert_eq!(parts.len(), 4);
        let paths = |part: &Part| part.member.clone().unwrap().path;
        assert_eq!(paths(&parts[1]), paths(&parts[2]));
        assert_ne!(paths(&parts[0]), paths(&parts[1]));
    }

    #[test]
    fn elements_of_binary_arrays_are_found() {
        let mut bytes = Vec::new();
        for number in [1, 1, 23, 3, 1] {
            bytes.extend(u32::to_be_bytes(number));
        }
        for number in [7_u32, 9] {
            bytes.extend(4_u32.to_be_bytes());
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(u32::MAX.to_be_bytes());
        let parts = |bytes: &[u8]| parts_of(INT4_ARRAY, &Parameter::Binary(bytes.into()));
        let values: Vec<_> = parts(&bytes)
            .into_iter()
            .map(|part| (part.range, part.value))
            .collect();
        assert_eq!(
            values,
            [(24..28, Value::Integer(7)), (32..36, Value::Integer(9))]
        );
        assert_eq!(parts(&bytes[..bytes.len() - 1]), []);
    }

    proptest! {
        #[test]
        fn parts_are_within_any_parameter(text in "[{}\\[\\]\",:0-9a \\\\-]{0,40}", type_oid in prop::sample::select(vec![0, 114, 3802, 1007, 2951])) {
            let binary = Parameter::Binary(text.as_bytes().into());
            for parameter in [Parameter::from(&*text), binary] {
                for part in parts_of(type_oid, &parameter) {
                    prop_assert!(part.range.end <= text.len());
                }
            }
        }
    }
}
