//! Fast parser for rows as the server writes them: one flat object without blanks between its
//! tokens.
//!
//! It returns `None` for any other JSON; [`super::JsonReader`] then uses a general parser, which
//! also reports errors.

use std::borrow::Cow;

use super::Row;
use crate::byte_search::{parse_number, string_end};

/// Bits of the mandatory fields: `timestamp`, `pid` and `error_severity`.
const NEEDED: u32 = 1 | 1 << 3 | 1 << 8;
/// Bit of an ignored field.
const OTHER: u32 = 31;

/// Parses a row in the server's own layout.
pub(super) fn parse_row(text: &str) -> Option<Row<'_>> {
    let mut rest = Parser { text, at: 0 };
    rest.expect(b'{')?;
    let mut row = Row::default();
    let mut given = 0u32;
    loop {
        let Cow::Borrowed(key) = rest.string()? else {
            return None;
        };
        rest.expect(b':')?;
        let bit = rest.field(key, &mut row)?;
        if bit != OTHER && given & 1 << bit != 0 {
            // A duplicate key is left to the general parser, which refuses it.
            return None;
        }
        given |= 1 << bit;
        match rest.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    (given & NEEDED == NEEDED && rest.at == text.len()).then_some(row)
}

fn to_u32(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// The unparsed rest of a row.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Parses the value of a field into the row. Returns the field's bit.
    #[inline(always)]
    fn field(&mut self, key: &str, row: &mut Row<'a>) -> Option<u32> {
        let bit = match key {
            "timestamp" => {
                row.timestamp = self.string()?;
                0
            }
            "user" => {
                row.user = self.string()?;
                1
            }
            "dbname" => {
                row.dbname = self.string()?;
                2
            }
            "pid" => {
                row.pid = to_u32(self.number()?)?;
                3
            }
            "remote_host" => {
                row.remote_host = self.string()?;
                4
            }
            "remote_port" => {
                row.remote_port = Some(to_u32(self.number()?)?);
                5
            }
            "session_id" => {
                row.session_id = self.string()?;
                6
            }
            "line_num" => {
                row.line_num = self.number()?;
                7
            }
            "error_severity" => {
                row.error_severity = self.string()?;
                8
            }
            "state_code" => {
                row.state_code = self.string()?;
                9
            }
            "message" => {
                row.message = self.string()?;
                10
            }
            "detail" => {
                row.detail = self.string()?;
                11
            }
            "context" => {
                row.context = self.string()?;
                12
            }
            "statement" => {
                row.statement = self.string()?;
                13
            }
            "cursor_position" => {
                row.cursor_position = Some(to_u32(self.number()?)?);
                14
            }
            "application_name" => {
                row.application_name = self.string()?;
                15
            }
            "backend_type" => {
                row.backend_type = self.string()?;
                16
            }
            "leader_pid" => {
                row.leader_pid = Some(to_u32(self.number()?)?);
                17
            }
            "vxid" => {
                row.vxid = self.string()?;
                18
            }
            _ => {
                self.skip_value()?;
                OTHER
            }
        };
        Some(bit)
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// Parses a string; it is borrowed if it has no escapes.
    #[inline]
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let mut end = string_end(bytes, begin)?;
        let mut escapes = false;
        while bytes[end] == b'\\' {
            escapes = true;
            end = string_end(bytes, end + 2)?;
        }
        if bytes[end] != b'"' {
            // JSON does not allow raw control characters in strings.
            return None;
        }
        self.at = end + 1;
        Some(match escapes {
            false => Cow::Borrowed(&self.text[begin..end]),
            true => Cow::Owned(serde_json::from_str(&self.text[begin - 1..=end]).ok()?),
        })
    }

    /// Parses a non-negative integer.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let digits = &self.text.as_bytes()[self.at..];
        let (number, length) = parse_number(digits)?;
        self.at += length;
        (length == 1 || digits[0] != b'0').then_some(number)
    }

    /// Skips a string or an integer of either sign.
    fn skip_value(&mut self) -> Option<()> {
        match *self.text.as_bytes().get(self.at)? {
            b'"' => self.string().map(drop),
            b'-' => {
                self.at += 1;
                self.number().map(drop)
            }
            _ => self.number().map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(row: &Row<'_>) -> String {
        format!("{row:?}")
    }

    /// Checks that the fast parser returns what the general parser returns.
    fn check(text: &str) -> bool {
        let quick = parse_row(text).map(|row| told(&row));
        let any = serde_json::from_str::<Row>(text).ok().map(|row| told(&row));
        assert!(
            quick.is_none() || quick == any,
            "{text}: {quick:?} but {any:?}"
        );
        quick.is_some()
    }

    #[test]
    fn rows_of_servers_are_read_quickly() {
        for log in [
            include_str!("../../tests/fixtures/both.json"),
            include_str!("../../tests/fixtures/server15.json"),
        ] {
            for line in log.lines() {
                assert!(check(line), "{line}");
            }
        }
    }

    #[test]
    fn what_no_server_writes_is_left_to_the_other_reader() {
        let whole = r#"{"timestamp":"t","pid":1,"error_severity":"LOG","message":"a\"b"}"#;
        assert!(check(whole));
        for other in [
            whole.replace(":1,", ": 1,"),
            whole.replace(":1,", ":01,"),
            whole.replace(":1,", ":1.5,"),
            whole.replace(":1,", ":-1,"),
            whole.replace(":1,", ":4294967296,"),
            whole.replace(":1,", ":1,\"pid\":2,"),
            whole.replace(":1,", ":null,"),
            whole.replace(":1,", ":1,\"new\":[1],"),
            whole.replace("\"pid\":1,", ""),
            whole.replace("LOG", "L\tOG"),
            whole.replace("\\\"", "\\x"),
            format!("{whole} "),
            format!("{whole}x"),
            format!("[{whole}]"),
        ] {
            assert!(parse_row(&other).is_none(), "{other}");
            check(&other);
        }
        for cut in 0..whole.len() {
            assert!(!check(&whole[..cut]));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_quickly_is_what_it_says(
            texts in prop::collection::vec(any::<String>(), 4), pid in any::<u32>(), number in any::<i64>(),
            cut in 0usize..400, byte in any::<u8>(),
        ) {
            let text = serde_json::json!({
                "timestamp": texts[0], "pid": pid, "error_severity": texts[1], "message": texts[2],
                "unknown": texts[3], "query_id": number, "line_num": number,
            })
            .to_string();
            prop_assert_eq!(check(&text), number >= 0);
            let mut bytes = text.into_bytes();
            let at = cut % bytes.len();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes) {
                check(&text);
            }
        }
    }
}
