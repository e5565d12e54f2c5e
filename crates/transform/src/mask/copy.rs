//! Masks COPY data: rows and fields of the text, CSV and binary formats (PostgreSQL documentation,
//! COPY).

use std::borrow::Cow;

use super::Mask;
use super::copy_format::{CopyFormat, Kind};
use super::outcome::MaskOutcome;
use workload::MaskedValues;

/// Signature of the binary format.
const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Position of the length of the header's extension, after signature and flags.
const EXTENSION_AT: usize = 15;

impl Mask {
    /// Masks COPY data as a whole.
    pub(super) fn mask_copy(
        &self,
        format: &CopyFormat,
        data: &[u8],
        counts: &mut MaskedValues,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(data.len());
        // The data itself shows the binary format, which would otherwise stay if the statement
        // says another one.
        if data.starts_with(BINARY_SIGNATURE) {
            self.mask_binary_rows(data, counts, &mut out);
            return out;
        }
        let text = CopyFormat::default();
        let format = match format.kind {
            Kind::Binary => &text,
            Kind::Text | Kind::Csv => format,
        };
        let mut header = format.header;
        let mut rest = data;
        while !rest.is_empty() {
            let mut end = record_end(format, rest);
            // Column names are in one line; a record over several lines may be quoted
            // differently.
            let one_line = !rest[..end - 1].contains(&b'\n');
            match std::mem::take(&mut header) && one_line {
                true => {
                    // Lines may end with a carriage return alone.
                    end = names_end(&rest[..end]);
                    out.extend_from_slice(&rest[..end]);
                }
                false => self.mask_copy_row(format, &rest[..end], |_| true, counts, &mut out),
            }
            rest = &rest[end..];
        }
        out
    }

    /// Masks the fields of one row, with its line end, if `wanted` selects their index, from 0.
    pub fn mask_copy_row(
        &self,
        format: &CopyFormat,
        row: &[u8],
        wanted: impl Fn(usize) -> bool,
        counts: &mut MaskedValues,
        out: &mut Vec<u8>,
    ) {
        let without = row.strip_suffix(b"\n").unwrap_or(row);
        let without = without.strip_suffix(b"\r").unwrap_or(without);
        let line_end = &row[without.len()..];
        if without == b"\\." {
            out.extend_from_slice(row);
            return;
        }
        let mut rest = without;
        for place in 0.. {
            let length = field_length(format, rest);
            let field = &rest[..length];
            match field == format.null.as_bytes() || !wanted(place) {
                true => out.extend_from_slice(field),
                false => self.mask_field(format, field, counts, out),
            }
            match rest.get(length) {
                Some(delimiter) => out.push(*delimiter),
                None => break,
            }
            rest = &rest[length + 1..];
        }
        out.extend_from_slice(line_end);
    }

    fn mask_field(
        &self,
        format: &CopyFormat,
        field: &[u8],
        counts: &mut MaskedValues,
        out: &mut Vec<u8>,
    ) {
        let quoted = format.kind == Kind::Csv && field.first() == Some(&format.quote);
        let value = match (format.kind, quoted) {
            (Kind::Text, _) => unescape(field),
            (_, true) => Cow::Owned(unquote(format, field)),
            (_, false) => Cow::Borrowed(field),
        };
        // Data that is no UTF-8 is treated as if each byte were a character.
        let latin = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| char::from(*byte))
                .collect::<String>()
        };
        let (text, is_utf8) = match std::str::from_utf8(&value) {
            Ok(text) => (Cow::Borrowed(text), true),
            Err(_) => (Cow::Owned(latin(&value)), false),
        };
        let mut masked = String::with_capacity(text.len());
        let outcome = self.mask_value(&text, &mut masked);
        outcome.count(counts);
        if matches!(outcome, MaskOutcome::Kept(_)) {
            out.extend_from_slice(field);
            return;
        }
        let masked = match is_utf8 {
            true => masked.into_bytes(),
            false => masked
                .chars()
                .map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?'))
                .collect(),
        };
        match (format.kind, quoted) {
            (Kind::Text, _) => escape_for(format.delimiter, &masked, out),
            (_, true) => {
                out.push(format.quote);
                for byte in masked {
                    if byte == format.quote || byte == format.escape {
                        out.push(format.escape);
                    }
                    out.push(byte);
                }
                out.push(format.quote);
            }
            (_, false) => out.extend_from_slice(&masked),
        }
    }

    /// Masks the binary format: a signature, flags and an extension; then rows of fields after
    /// their lengths.
    fn mask_binary_rows(&self, data: &[u8], counts: &mut MaskedValues, out: &mut Vec<u8>) {
        let word = |at: usize| Some(i32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?));
        out.extend_from_slice(&data[..EXTENSION_AT.min(data.len())]);
        let Some(length) = word(EXTENSION_AT) else {
            return;
        };
        // Readers skip an extension of unknown content.
        out.extend_from_slice(&[0; 4]);
        let mut at = usize::try_from(length).map_or(data.len(), |length| {
            (EXTENSION_AT + 4).saturating_add(length).min(data.len())
        });
        let mut row = || -> Option<()> {
            let fields = data.get(at..at + 2)?;
            out.extend_from_slice(fields);
            at += 2;
            for _ in 0..i16::from_be_bytes(fields.try_into().ok()?) {
                let length = word(at)?;
                at += 4;
                let Ok(length) = usize::try_from(length) else {
                    out.extend_from_slice(&length.to_be_bytes());
                    continue;
                };
                let value = data.get(at..at.checked_add(length)?)?;
                at += length;
                let (masked, outcome) = self.mask_binary(0, value);
                outcome.count(counts);
                out.extend_from_slice(&(masked.len() as u32).to_be_bytes());
                out.extend_from_slice(&masked);
            }
            Some(())
        };
        while row().is_some() {}
        // Truncated data does not stay, since its fields cannot be separated.
    }
}

/// Returns the length of the first record, with its line end.
fn record_end(format: &CopyFormat, data: &[u8]) -> usize {
    let mut quoted = false;
    for (at, byte) in data.iter().enumerate() {
        match *byte {
            byte if format.kind == Kind::Csv && byte == format.quote => quoted = !quoted,
            b'\n' if !quoted => return at + 1,
            _ => {}
        }
    }
    data.len()
}

/// Returns the length of the line of column names at the start of a record, with its line end.
fn names_end(record: &[u8]) -> usize {
    match record.iter().position(|byte| *byte == b'\r') {
        Some(at) if record.get(at + 1) != Some(&b'\n') => at + 1,
        _ => record.len(),
    }
}

fn field_length(format: &CopyFormat, row: &[u8]) -> usize {
    let (mut at, mut quoted) = (0, false);
    while at < row.len() {
        match row[at] {
            b'\\' if format.kind == Kind::Text => at += 1,
            byte if format.kind == Kind::Csv && byte == format.quote => quoted = !quoted,
            byte if byte == format.delimiter && !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    row.len()
}

fn unquote(format: &CopyFormat, field: &[u8]) -> Vec<u8> {
    let inner = &field[1..];
    let inner = inner.strip_suffix(&[format.quote]).unwrap_or(inner);
    let mut value = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escapes = byte == format.escape
            && bytes
                .peek()
                .is_some_and(|next| *next == format.quote || *next == format.escape);
        value.push(if escapes {
            bytes.next().unwrap_or(byte)
        } else {
            byte
        });
    }
    value
}

fn unescape(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.contains(&b'\\') {
        return Cow::Borrowed(field);
    }
    let mut value = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let byte = field[at];
        at += 1;
        let Some(escaped) = field.get(at).copied().filter(|_| byte == b'\\') else {
            value.push(byte);
            continue;
        };
        at += 1;
        let digits = |from: usize, most: usize, is: fn(&u8) -> bool| {
            field[from..]
                .iter()
                .take(most)
                .take_while(|digit| is(digit))
                .count()
        };
        let (from, length, radix) = match escaped {
            b'x' => (at, digits(at, 2, u8::is_ascii_hexdigit), 16),
            b'0'..=b'7' => (
                at - 1,
                digits(at - 1, 3, |digit| (b'0'..=b'7').contains(digit)),
                8,
            ),
            _ => (at, 0, 10),
        };
        if length > 0 {
            let text = std::str::from_utf8(&field[from..from + length]).unwrap_or("0");
            value.push(u32::from_str_radix(text, radix).unwrap_or(0) as u8);
            at = from + length;
            continue;
        }
        value.push(match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            other => other,
        });
    }
    Cow::Owned(value)
}

/// Writes a field in COPY's text format, as `pg_dump` does.
pub(crate) fn escape_text(value: &[u8], out: &mut Vec<u8>) {
    escape_for(b'\t', value, out);
}

fn escape_for(delimiter: u8, value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        let letter = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            byte if *byte == delimiter => *byte,
            byte => {
                out.push(*byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::mask;
    use super::*;
    use workload::KeepReason;

    fn text(text: &str) -> String {
        let mut out = String::new();
        mask().mask_value(text, &mut out);
        out
    }

    fn copied(sql: &str, data: &str) -> (String, MaskedValues) {
        let mut counts = MaskedValues::default();
        let out = mask().mask_copy(
            &CopyFormat::from_statement(sql),
            data.as_bytes(),
            &mut counts,
        );
        assert!(counts.adds_up());
        (String::from_utf8(out).unwrap(), counts)
    }

    #[test]
    fn the_text_format() {
        let (out, counts) = copied(
            "COPY t FROM STDIN",
            "4711\tSmith\\tJones\t\\N\n7\t\\\\x00ff\t\n\\.\n",
        );
        let bytes = text("\\x00ff").replace('\\', "\\\\");
        assert_eq!(
            out,
            format!(
                "{}\t{}\\t{}\t\\N\n7\t{bytes}\t\n\\.\n",
                text("4711"),
                text("Smith"),
                text("Jones")
            )
        );
        assert_eq!(
            (
                counts.values,
                counts.masked,
                counts.kept[&KeepReason::Small]
            ),
            (5, 3, 2)
        );
    }

    #[test]
    fn csv_and_its_options() {
        let (out, _) = copied(
            "COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';')",
            "a;b\n4711;\"Smith, \"\"Bob\"\";\nJones\"\n;x\n",
        );
        assert_eq!(
            out,
            format!(
                "a;b\n{};\"{}, \"\"{}\"\";\n{}\"\n;x\n",
                text("4711"),
                text("Smith"),
                text("Bob"),
                text("Jones")
            )
        );
    }

    #[test]
    fn only_a_header_that_was_asked_for_stays() {
        for sql in [
            "COPY t (header, csv) FROM STDIN WITH (FORMAT csv)",
            "COPY header FROM STDIN CSV WHERE header",
        ] {
            let (out, _) = copied(sql, "Smith,Jones\n");
            assert_eq!(out, format!("{},{}\n", text("Smith"), text("Jones")));
        }
        // Lines may end with a carriage return alone.
        let (out, _) = copied("COPY t FROM STDIN CSV HEADER", "a,b\rSmith,4711\rJones");
        assert!(out.starts_with("a,b\r"), "{out}");
        for value in ["Smith", "4711", "Jones"] {
            assert!(!out.contains(value), "{out}");
        }
        // It would extend to the end, if its quotes differed from the statement's.
        let (out, _) = copied(
            "COPY t FROM STDIN CSV HEADER",
            "a,\"b\nSmith,4711\nJones,4712\n",
        );
        for value in ["Smith", "4711", "Jones", "4712"] {
            assert!(!out.contains(value), "{out}");
        }
    }

    #[test]
    fn what_is_said_to_be_binary_and_is_not_is_masked_all_the_same() {
        let said = "COPY t FROM STDIN (FORMAT binary)";
        let (out, counts) = copied(said, "Smith, of the long road\tJones\n");
        assert!(!out.contains("Smith") && !out.contains("Jones"), "{out}");
        assert_eq!(counts.masked, 2);
        // The content of the header's extension is unknown.
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x05Smith\0\x01\0\0\0\x05".to_vec();
        data.extend(b"Jones");
        let mut counts = MaskedValues::default();
        let out = mask().mask_copy(&CopyFormat::default(), &data, &mut counts);
        let mut expected = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x05".to_vec();
        expected.extend(text("Jones").as_bytes());
        assert_eq!(out, expected);
    }

    #[test]
    fn the_binary_format() {
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        data.extend([
            0, 3, 0, 0, 0, 4, 0, 0, 0x12, 0x67, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 5,
        ]);
        data.extend(b"Smith");
        data.extend([0xff, 0xff]);
        let mut counts = MaskedValues::default();
        let out = mask().mask_copy(
            &CopyFormat::from_statement("copy t from stdin binary"),
            &data,
            &mut counts,
        );
        assert_eq!(out.len(), data.len());
        let number = i32::from_be_bytes(out[25..29].try_into().unwrap());
        assert_eq!(number.to_string(), text("4711"));
        assert_eq!(&out[37..42], text("Smith").as_bytes());
        assert_eq!(counts.masked, 2);
    }
}
