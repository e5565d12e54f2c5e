//! Removes the carriage returns of files whose lines all end in CRLF, as on Windows, where the
//! server opens its log files in text mode (`syslogger.c`).
//!
//! The beginning of a file decides. So other files pass unchanged and at full speed, and carriage
//! returns in their statements stay.

use std::io::{self, Cursor, Read};

/// Number of bytes that decide.
const BEGINNING_BYTES: usize = 64 << 10;

/// Returns a reader without the carriage returns before newlines if all lines at the beginning end
/// in CRLF, otherwise one with the same bytes.
pub(super) fn without_carriage_returns(
    mut reader: Box<dyn Read + Send>,
) -> io::Result<Box<dyn Read + Send>> {
    let mut beginning = Vec::with_capacity(BEGINNING_BYTES);
    (&mut reader)
        .take(BEGINNING_BYTES as u64)
        .read_to_end(&mut beginning)?;
    let all_crlf = has_only_crlf(&beginning);
    let whole = Cursor::new(beginning).chain(reader);
    Ok(match all_crlf {
        false => Box::new(whole),
        true => Box::new(LineEnds {
            reader: whole,
            held: false,
        }),
    })
}

/// Returns whether there are lines, and each ends in CRLF.
fn has_only_crlf(bytes: &[u8]) -> bool {
    let mut newlines = memchr::memchr_iter(b'\n', bytes).peekable();
    newlines.peek().is_some() && newlines.all(|at| at > 0 && bytes[at - 1] == b'\r')
}

/// Removes a carriage return before each newline.
struct LineEnds<R> {
    reader: R,
    /// The last byte read was a carriage return; it has not been passed on.
    held: bool,
}

impl<R: Read> Read for LineEnds<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.len() < 2 {
            // The window always offers more.
            return self.reader.read(into);
        }
        loop {
            let start = usize::from(self.held);
            if self.held {
                into[0] = b'\r';
            }
            let read = self.reader.read(&mut into[start..])?;
            let mut length = start + read;
            if read == 0 {
                self.held = false;
                return Ok(length);
            }
            self.held = into[length - 1] == b'\r';
            length -= usize::from(self.held);
            let mut kept = 0;
            for at in 0..length {
                if into[at] == b'\r' && at + 1 < length && into[at + 1] == b'\n' {
                    continue;
                }
                into[kept] = into[at];
                kept += 1;
            }
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> String {
        let mut all = String::new();
        let reader = without_carriage_returns(Box::new(text.as_bytes())).unwrap();
        // Small buffers, so that lines end at their borders.
        let mut reader = io::BufReader::with_capacity(3, reader);
        reader.read_to_string(&mut all).unwrap();
        all
    }

    #[test]
    fn only_a_file_with_crlf_everywhere_loses_its_carriage_returns() {
        assert_eq!(read("a\r\n\tb\r\r\nc"), "a\n\tb\r\nc");
        assert_eq!(read("a\r\n\tb\nc"), "a\r\n\tb\nc");
        assert_eq!(read("abc\r"), "abc\r");
        assert_eq!(read("a\r\nbc\r"), "a\nbc\r");
    }
}
