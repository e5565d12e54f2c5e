//! Rows as the server writes them: one flat object, without blanks between its parts. What is
//! written otherwise, or is no row, is left to a reader of any JSON.
//!
//! Who drives: [`super::JsonReader`]. Deliberately absent: errors, since that other reader has them.

use std::borrow::Cow;

use super::Row;
use crate::scan::{number, string_end};

/// The fields without which there is no row: `timestamp`, `pid` and `error_severity`, by their bits.
const NEEDED: u32 = 1 | 1 << 3 | 1 << 8;
/// The bit of a field that is passed over.
const OTHER: u32 = 31;

/// The row, where it is written as the server writes it.
pub(super) fn row(text: &str) -> Option<Row<'_>> {
    let mut rest = Rest { text, at: 0 };
    rest.pass(b'{')?;
    let mut row = Row::default();
    let mut given = 0u32;
    loop {
        let Cow::Borrowed(key) = rest.string()? else {
            return None;
        };
        rest.pass(b':')?;
        let bit = match key {
            "timestamp" => {
                row.timestamp = rest.string()?;
                0
            }
            "user" => {
                row.user = rest.string()?;
                1
            }
            "dbname" => {
                row.dbname = rest.string()?;
                2
            }
            "pid" => {
                row.pid = small(rest.number()?)?;
                3
            }
            "remote_host" => {
                row.remote_host = rest.string()?;
                4
            }
            "remote_port" => {
                row.remote_port = Some(small(rest.number()?)?);
                5
            }
            "session_id" => {
                row.session_id = rest.string()?;
                6
            }
            "line_num" => {
                row.line_num = rest.number()?;
                7
            }
            "error_severity" => {
                row.error_severity = rest.string()?;
                8
            }
            "state_code" => {
                row.state_code = rest.string()?;
                9
            }
            "message" => {
                row.message = rest.string()?;
                10
            }
            "detail" => {
                row.detail = rest.string()?;
                11
            }
            "context" => {
                row.context = rest.string()?;
                12
            }
            "statement" => {
                row.statement = rest.string()?;
                13
            }
            "cursor_position" => {
                row.cursor_position = Some(small(rest.number()?)?);
                14
            }
            "application_name" => {
                row.application_name = rest.string()?;
                15
            }
            "backend_type" => {
                row.backend_type = rest.string()?;
                16
            }
            "leader_pid" => {
                row.leader_pid = Some(small(rest.number()?)?);
                17
            }
            _ => {
                rest.any()?;
                OTHER
            }
        };
        if bit != OTHER && given & 1 << bit != 0 {
            // What is there twice, the other reader refuses.
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

fn small(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// What is left of a row.
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn pass(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// A string, borrowed where it has no escapes.
    #[inline]
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.pass(b'"')?;
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let mut end = string_end(bytes, begin)?;
        let mut escapes = false;
        while bytes[end] == b'\\' {
            escapes = true;
            end = string_end(bytes, end + 2)?;
        }
        if bytes[end] != b'"' {
            // A control character, which no string may hold as it is.
            return None;
        }
        self.at = end + 1;
        Some(match escapes {
            false => Cow::Borrowed(&self.text[begin..end]),
            true => Cow::Owned(serde_json::from_str(&self.text[begin - 1..=end]).ok()?),
        })
    }

    /// A whole number that is not negative.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let digits = &self.text.as_bytes()[self.at..];
        let (number, length) = number(digits)?;
        self.at += length;
        (length == 1 || digits[0] != b'0').then_some(number)
    }

    /// A string, or a whole number of either sign.
    fn any(&mut self) -> Option<()> {
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

    /// What is read quickly is what any reader reads.
    fn check(text: &str) -> bool {
        let quick = row(text).map(|row| told(&row));
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
            assert!(row(&other).is_none(), "{other}");
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
