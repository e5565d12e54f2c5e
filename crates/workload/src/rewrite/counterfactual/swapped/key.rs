//! A key whose type is swapped: its name, its columns, its values and the numbers that they become.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::rewrite::parts::{Lexeme, parts};

/// A key by its column, as a user names it: `image_links.link_hash`, `shop."Order".id`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyName {
    /// The schema, where it is named.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
}

impl KeyName {
    /// Reads a name; unquoted parts are folded to lower case, as SQL does it. `None` of what is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = parts(text);
        if all.len() != 1 || all[0].text != text.trim() {
            return None;
        }
        let words = all.remove(0).words;
        let mut names = Vec::new();
        for (at, word) in words.iter().enumerate() {
            match at % 2 {
                0 => names.push(word.name()?),
                _ if word.is_symbol(".") => {}
                _ => return None,
            }
        }
        let is_whole = words.len() % 2 == 1;
        let column = names.pop().filter(|_| is_whole)?;
        let table = names.pop()?;
        let schema = names.pop();
        names.is_empty().then_some(KeyName {
            schema,
            table,
            column,
        })
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", as_name(schema))?;
        }
        write!(f, "{}.{}", as_name(&self.table), as_name(&self.column))
    }
}

/// Quoted where it has to be, so that it is read again as it was meant.
fn as_name(name: &str) -> String {
    let mut all = parts(name);
    let is_plain = match all.pop().map(|part| part.words) {
        Some(words) => matches!(&words[..], [Lexeme::Word(word)] if *word == name),
        None => false,
    };
    match is_plain && name.to_lowercase() == name {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// What a key's values are before they are swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// `uuid`
    Uuid,
    /// `bytea`
    Bytea,
    /// `text`, `varchar` and `char`
    Text,
}

/// OIDs of `pg_type.dat`: the types, and their arrays.
const OIDS: [(KeyKind, u32, u32); 5] = [
    (KeyKind::Uuid, 2950, 2951),
    (KeyKind::Bytea, 17, 1001),
    (KeyKind::Text, 25, 1009),
    (KeyKind::Text, 1043, 1015),
    (KeyKind::Text, 1042, 1014),
];
/// `int8` and its array.
pub(super) const INT8: u32 = 20;
const INT8_ARRAY: u32 = 1016;

/// Shorter text may be anything.
const SURELY_A_KEY: usize = 16;

impl KeyKind {
    /// Whether a type's name is of it, in lower case and without modifiers.
    pub(super) fn is_named(self, name: &str) -> bool {
        match self {
            KeyKind::Uuid => name == "uuid",
            KeyKind::Bytea => name == "bytea",
            KeyKind::Text => matches!(name, "text" | "varchar" | "char" | "bpchar" | "character"),
        }
    }

    /// What the type of a parameter becomes; others stay.
    pub(super) fn swapped_oid(self, oid: u32) -> u32 {
        let of = |known: &&(KeyKind, u32, u32)| known.0 == self;
        for (_, scalar, array) in OIDS.iter().filter(of) {
            match oid {
                _ if oid == *scalar => return INT8,
                _ if oid == *array => return INT8_ARRAY,
                _ => {}
            }
        }
        oid
    }

    /// Whether a parameter of this type can be a key: one that the client left to the server, or the type itself.
    pub(super) fn may_be(self, oid: u32) -> bool {
        /// `unknown`
        const UNKNOWN: u32 = 705;
        matches!(oid, 0 | UNKNOWN) || self.swapped_oid(oid) != oid
    }

    /// The value that a text in the type's text form says; `None` where it says none.
    pub fn read(self, text: &str) -> Option<Box<[u8]>> {
        match self {
            KeyKind::Text => Some(text.as_bytes().into()),
            KeyKind::Bytea => hex(text.trim().strip_prefix("\\x")?),
            KeyKind::Uuid => {
                let text = text.trim();
                let inner = text.strip_prefix('{').and_then(|one| one.strip_suffix('}'));
                let value = hex(&inner.unwrap_or(text).replace('-', ""))?;
                (value.len() == 16).then_some(value)
            }
        }
    }

    /// The value that bytes in the type's binary form say.
    pub(super) fn read_binary(self, bytes: &[u8]) -> Option<Box<[u8]>> {
        (self != KeyKind::Uuid || bytes.len() == 16).then(|| bytes.into())
    }

    /// A value in the type's text form.
    pub fn text(self, value: &[u8]) -> String {
        let digits =
            |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        match self {
            KeyKind::Text => String::from_utf8_lossy(value).into_owned(),
            KeyKind::Bytea => format!("\\x{}", digits(value)),
            KeyKind::Uuid => digits(value),
        }
    }

    /// Whether a value is so long that only a key of the data can be the same.
    pub(super) fn is_unmistakable(self, value: &[u8]) -> bool {
        value.len() >= SURELY_A_KEY
    }
}

fn hex(digits: &str) -> Option<Box<[u8]>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((nibble(*high)? * 16 + nibble(*low)?) as u8),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

/// A column that has values of a key: its own, or one that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// Its place among the table's columns, from 0: an insert without a list of columns has them so.
    pub place: usize,
}

/// A key that becomes `bigint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwappedKey {
    /// What its values were.
    pub kind: KeyKind,
    /// All columns that have them; its own first.
    pub columns: Vec<KeyColumn>,
    /// Tables and columns that are none of them and have the name of one: said without its table, such a column may be
    /// either's.
    pub namesakes: Vec<(String, String)>,
}

/// Which number each value becomes.
#[derive(Debug, Clone, Default)]
pub struct KeyNumbers {
    known: HashMap<Box<[u8]>, i64>,
    /// The number of the next value that is in no row.
    next: i64,
}

impl KeyNumbers {
    /// Those of values that rows have; others are numbered from `next` on, in the order in which they are sent.
    pub fn new(known: HashMap<Box<[u8]>, i64>, next: i64) -> Self {
        KeyNumbers { known, next }
    }

    pub(super) fn of(&mut self, value: Box<[u8]>) -> i64 {
        let next = &mut self.next;
        *self.known.entry(value).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    pub(super) fn knows(&self, value: &[u8]) -> bool {
        self.known.contains_key(value)
    }
}

/// Where a key's columns and numbers are from: a server that has the data.
pub trait KeySource {
    /// Why it could not be asked.
    type Error;

    /// The columns of a key.
    ///
    /// # Errors
    /// Where there is none of this name, or it cannot be swapped; with the reason.
    fn columns(&mut self, name: &KeyName) -> Result<SwappedKey, Self::Error>;

    /// The numbers of these values.
    ///
    /// # Errors
    /// Where the server cannot be asked.
    fn numbers(
        &mut self,
        name: &KeyName,
        values: HashSet<Box<[u8]>>,
    ) -> Result<KeyNumbers, Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, written) in [
            ("image_links.link_hash", Some("image_links.link_hash")),
            ("Shop.Orders.ID", Some("shop.orders.id")),
            (
                " \"Shop\".\"or\"\"ders\" . id",
                Some("\"Shop\".\"or\"\"ders\".id"),
            ),
            ("orders", None),
            ("a.b.c.d", None),
            ("a.b.", None),
            ("a.b; c.d", None),
            ("a.'b'", None),
            ("", None),
        ] {
            let name = KeyName::parse(text);
            let again = name.as_ref().map(ToString::to_string);
            assert_eq!(again.as_deref(), written, "{text}");
            assert_eq!(written.and_then(KeyName::parse), name, "{text}");
        }
    }

    #[test]
    fn values_are_read_in_every_form_and_written_in_one() {
        let uuid = "0b0c7f4e-3f05-4a4f-9f8e-0a0b0c0d0e0f";
        let value = KeyKind::Uuid.read(uuid).unwrap();
        for other in [
            "{0B0C7F4E-3F05-4A4F-9F8E-0A0B0C0D0E0F}",
            "0b0c7f4e3f054a4f9f8e0a0b0c0d0e0f",
        ] {
            assert_eq!(KeyKind::Uuid.read(other).as_ref(), Some(&value));
        }
        assert_eq!(KeyKind::Uuid.text(&value), uuid.replace('-', ""));
        assert_eq!(KeyKind::Uuid.read("0b0c"), None);
        assert_eq!(KeyKind::Uuid.read(""), None);
        assert_eq!(
            KeyKind::Bytea.read("\\xAB00").as_deref(),
            Some(&[0xab, 0][..])
        );
        assert_eq!(KeyKind::Bytea.text(&[0xab, 0]), "\\xab00");
        assert_eq!(KeyKind::Bytea.read("ab"), None);
        assert_eq!(KeyKind::Bytea.read("\\xabc"), None);
        assert_eq!(KeyKind::Bytea.read("\\xgg"), None);
        assert_eq!(KeyKind::Text.read("a b").as_deref(), Some(&b"a b"[..]));
    }

    #[test]
    fn what_no_row_has_is_numbered_on() {
        let known = [(Box::from(&b"a"[..]), 7)].into();
        let mut numbers = KeyNumbers::new(known, 100);
        let mut of = |value: &str| numbers.of(value.as_bytes().into());
        assert_eq!([of("b"), of("a"), of("c"), of("b")], [100, 7, 101, 100]);
    }
}
