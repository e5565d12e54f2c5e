//! Values that a server generates: sequence numbers, UUIDs and names of exported snapshots, in text and binary format.

use std::io::Write;

use protocol::Format;

/// Length of a UUID's text format, in bytes: 32 digits and four hyphens.
const UUID_BYTES: usize = 36;

/// Length of the shortest name of a snapshot, in bytes: `00000003-0000001B-1`.
const SNAPSHOT_BYTES_MIN: usize = 19;

/// Offsets of a UUID's hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Hexadecimal digits of a UUID's text format.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Type OIDs (`pg_type.dat`).
pub(super) const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const OID: u32 = 26;
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
const NUMERIC: u32 = 1700;
const UUID: u32 = 2950;
const INT2_ARRAY: u32 = 1005;
const INT4_ARRAY: u32 = 1007;
const TEXT_ARRAY: u32 = 1009;
const BPCHAR_ARRAY: u32 = 1014;
const VARCHAR_ARRAY: u32 = 1015;
pub(super) const INT8_ARRAY: u32 = 1016;
const OID_ARRAY: u32 = 1028;
const NUMERIC_ARRAY: u32 = 1231;
const UUID_ARRAY: u32 = 2951;

/// Value that may have been generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Value {
    Integer(i64),
    Uuid([u8; 16]),
    /// Name of an exported snapshot: two numbers of eight hexadecimal digits, and its number in the transaction
    /// (`ExportSnapshot` of `snapmgr.c`).
    Snapshot([u32; 3]),
}

impl Value {
    /// Parses the text format of a server: numbers without sign, spaces and leading zeros, UUIDs with hyphens and
    /// letters of either case.
    pub(crate) fn of_text(text: &[u8]) -> Option<Value> {
        if text.len() == UUID_BYTES {
            return Value::of_uuid_text(text);
        }
        if text.len() >= SNAPSHOT_BYTES_MIN && text[8] == b'-' {
            return Value::of_snapshot(text);
        }
        let (&first, rest) = text.split_first()?;
        let is_number = matches!(first, b'1'..=b'9') && rest.iter().all(u8::is_ascii_digit);
        if !is_number {
            return None;
        }
        let number = std::str::from_utf8(text).ok()?.parse().ok()?;
        Some(Value::Integer(number))
    }

    fn of_snapshot(text: &[u8]) -> Option<Value> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split('-');
        let (first, second, number) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hexadecimal =
            |part: &str| part.len() == 8 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        if parts.next().is_some() || !is_hexadecimal(first) || !is_hexadecimal(second) {
            return None;
        }
        let read = |part: &str| u32::from_str_radix(part, 16).ok();
        Some(Value::Snapshot([
            read(first)?,
            read(second)?,
            number.parse().ok()?,
        ]))
    }

    /// Parses the text format of a value that was generated, which may be a number of any sign.
    pub(crate) fn of_generated(text: &str) -> Option<Value> {
        match text.parse() {
            Ok(number) => Some(Value::Integer(number)),
            Err(_) => Value::of_text(text.as_bytes()),
        }
    }

    /// Decodes the binary format by its length alone: int2, int4, int8, uuid.
    pub(crate) fn of_binary(bytes: &[u8]) -> Option<Value> {
        match bytes.len() {
            // Texts in binary format.
            SNAPSHOT_BYTES_MIN.. => {
                return Value::of_text(bytes).filter(|value| !matches!(value, Value::Integer(_)));
            }
            2 => Some(i64::from(i16::from_be_bytes(bytes.try_into().ok()?))),
            4 => Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            8 => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
            16 => return Some(Value::Uuid(bytes.try_into().ok()?)),
            _ => None,
        }
        .map(Value::Integer)
    }

    /// Parses a UUID's text format.
    pub(crate) fn of_uuid_text(text: &[u8]) -> Option<Value> {
        if text.len() != UUID_BYTES {
            return None;
        }
        let mut bytes = [0; 16];
        let mut digits = 0;
        for (index, &letter) in text.iter().enumerate() {
            if HYPHENS.contains(&index) {
                if letter != b'-' {
                    return None;
                }
                continue;
            }
            let digit = char::from(letter).to_digit(16)? as u8;
            bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
            digits += 1;
        }
        Some(Value::Uuid(bytes))
    }

    /// Parses the digits of a UUID without hyphens, as some clients send a value of that type.
    pub(super) fn of_uuid_digits(text: &[u8]) -> Option<Value> {
        let mut bytes = [0; 16];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(Value::Uuid(bytes))
    }

    /// Whether both values have the same type.
    pub(crate) fn is_like(self, other: Value) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns the text format.
    pub(crate) fn text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(UUID_BYTES);
        self.add_text(&mut text);
        text
    }

    /// Returns the text format, which is ASCII.
    pub(crate) fn text_format(self) -> String {
        String::from_utf8(self.text()).expect("digits and hyphens")
    }

    /// Appends the text format.
    pub(super) fn add_text(self, text: &mut Vec<u8>) {
        let written = match self {
            Value::Integer(number) => write!(text, "{number}"),
            Value::Snapshot([first, second, number]) => {
                write!(text, "{first:08X}-{second:08X}-{number}")
            }
            Value::Uuid(bytes) => {
                let start = text.len();
                for byte in bytes {
                    if HYPHENS.contains(&(text.len() - start)) {
                        text.push(b'-');
                    }
                    text.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
                }
                Ok(())
            }
        };
        written.expect("writing to memory does not fail");
    }

    /// Returns the binary format of `bytes` bytes, for a UUID also that of its text; `None` if it does not fit.
    pub(crate) fn binary(self, bytes: usize) -> Option<Vec<u8>> {
        match (self, bytes) {
            (Value::Uuid(_), UUID_BYTES) | (Value::Snapshot(_), _) => Some(self.text()),
            (Value::Integer(number), 2) => Some(i16::try_from(number).ok()?.to_be_bytes().into()),
            (Value::Integer(number), 4) => Some(i32::try_from(number).ok()?.to_be_bytes().into()),
            (Value::Integer(number), 8) => Some(number.to_be_bytes().into()),
            (Value::Uuid(uuid), 16) => Some(uuid.into()),
            _ => None,
        }
    }
}

/// Format of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Numbers in text format.
    Numbers,
    /// UUIDs and snapshots in text format.
    Texts,
    /// Binary format.
    Binary,
}

impl Form {
    /// Chooses the format; `None` for types whose values are not generated.
    pub(crate) fn of(type_oid: u32, format: Format) -> Option<Form> {
        match (type_oid, format) {
            (INT2 | INT4 | INT8 | UUID, Format::Binary) => Some(Form::Binary),
            (INT2 | INT4 | INT8 | OID | NUMERIC, Format::Text) => Some(Form::Numbers),
            // UUIDs are also stored as text, whose binary format is the text.
            (TEXT | VARCHAR | BPCHAR, Format::Text | Format::Binary) | (UUID, Format::Text) => {
                Some(Form::Texts)
            }
            _ => None,
        }
    }

    pub(crate) fn read(self, value: &[u8]) -> Option<Value> {
        let read = match self {
            Form::Binary => return Value::of_binary(value),
            Form::Numbers | Form::Texts => Value::of_text(value)?,
        };
        let is_text = !matches!(read, Value::Integer(_));
        let as_wanted = is_text == (self == Form::Texts);
        as_wanted.then_some(read)
    }
}

/// Arrays whose elements may have been generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayType {
    Numbers,
    Uuids,
    /// Only UUIDs and snapshots in texts are followed.
    Texts,
    /// No type was declared.
    Unknown,
}

impl ArrayType {
    /// Returns the kind of a declared type; `None` for other types.
    pub(super) fn of(type_oid: u32) -> Option<Self> {
        Some(match type_oid {
            0 => ArrayType::Unknown,
            INT2_ARRAY | INT4_ARRAY | INT8_ARRAY | OID_ARRAY | NUMERIC_ARRAY => ArrayType::Numbers,
            UUID_ARRAY => ArrayType::Uuids,
            TEXT_ARRAY | VARCHAR_ARRAY | BPCHAR_ARRAY => ArrayType::Texts,
            _ => return None,
        })
    }

    /// Returns the kind of the binary format with elements of this type. That of numeric has no plain numbers.
    pub(super) fn with_elements(type_oid: u32) -> Option<Self> {
        Some(match type_oid {
            INT2 | INT4 | INT8 | OID => ArrayType::Numbers,
            UUID => ArrayType::Uuids,
            TEXT | VARCHAR | BPCHAR => ArrayType::Texts,
            _ => return None,
        })
    }

    /// Whether a value may be an element.
    pub(super) fn has(self, value: Value) -> bool {
        match (self, value) {
            (ArrayType::Unknown, _) => true,
            (ArrayType::Numbers, Value::Integer(_)) => true,
            (ArrayType::Uuids, Value::Uuid(_)) => true,
            (ArrayType::Texts, Value::Uuid(_) | Value::Snapshot(_)) => true,
            (ArrayType::Numbers | ArrayType::Uuids | ArrayType::Texts, _) => false,
        }
    }
}

/// Whether a type is an array of smallint or integer.
pub(super) fn is_smaller_integer_array(type_oid: u32) -> bool {
    matches!(type_oid, INT2_ARRAY | INT4_ARRAY)
}

/// Whether a type is smallint or integer.
pub(super) fn is_smaller_integer(type_oid: u32) -> bool {
    matches!(type_oid, INT2 | INT4)
}

/// Decodes a parameter of a declared type; 0 means that none was declared.
pub(super) fn of_parameter(type_oid: u32, format: Format, bytes: &[u8]) -> Option<Value> {
    match (type_oid, format) {
        (UUID, Format::Text) => Value::of_uuid_text(bytes).or_else(|| Value::of_uuid_digits(bytes)),
        (0 | INT2 | INT4 | INT8 | OID | NUMERIC | TEXT | VARCHAR | BPCHAR, Format::Text) => {
            Value::of_text(bytes)
        }
        // Two letters of text would also decode as a number.
        (0, Format::Binary) if bytes.len() > 2 => {
            Value::of_uuid_text(bytes).or_else(|| Value::of_binary(bytes))
        }
        (INT2 | INT4 | INT8 | OID | UUID, Format::Binary) => Value::of_binary(bytes),
        (TEXT | VARCHAR | BPCHAR, Format::Binary) => Value::of_uuid_text(bytes),
        _ => None,
    }
}
