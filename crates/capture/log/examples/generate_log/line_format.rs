//! Writes entries as PostgreSQL does (`elog.c`, `csvlog.c`, `jsonlog.c` of versions 13 to 18).

use super::entry::{Backend, Entry, push_number};

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    Stderr,
    Csv,
    Json,
}

/// Writes entries in one format.
pub struct LineWriter {
    format: LineFormat,
    major: u16,
    prefix: Vec<Piece>,
    /// The last second written, as text.
    second: (i64, String),
}

/// A part of a `log_line_prefix`.
enum Piece {
    Text(String),
    Escape(char),
}

impl LineWriter {
    /// Creates a writer.
    ///
    /// # Errors
    /// If the prefix has an unknown escape, which the error names.
    pub fn new(format: LineFormat, major: u16, prefix: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut letters = prefix.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => match letters.next() {
                    Some('%') => pieces.push(Piece::Text("%".to_owned())),
                    Some(escape) if "mtpudarhclsveixq".contains(escape) => {
                        pieces.push(Piece::Escape(escape));
                    }
                    other => return Err(format!("the prefix has %{}", other.unwrap_or(' '))),
                },
                letter => match pieces.last_mut() {
                    Some(Piece::Text(text)) => text.push(letter),
                    _ => pieces.push(Piece::Text(letter.to_string())),
                },
            }
        }
        Ok(LineWriter {
            format,
            major,
            prefix: pieces,
            second: (i64::MIN, String::new()),
        })
    }

    /// Appends an entry.
    pub fn write(&mut self, out: &mut String, entry: &Entry, backend: &mut Backend) {
        match self.format {
            LineFormat::Stderr => self.stderr(out, entry, backend),
            LineFormat::Csv => self.csv(out, entry, backend),
            LineFormat::Json => self.json(out, entry, backend),
        }
    }

    fn time(&mut self, out: &mut String, wall_us: i64, milliseconds: bool) {
        let second = wall_us.div_euclid(1_000_000);
        if self.second.0 != second {
            self.second.0 = second;
            self.second.1.clear();
            push_second(&mut self.second.1, second);
        }
        out.push_str(&self.second.1);
        if milliseconds {
            out.push('.');
            push_padded(out, wall_us.rem_euclid(1_000_000) / 1_000, 3);
        }
        out.push_str(" UTC");
    }

    fn stderr(&mut self, out: &mut String, entry: &Entry, backend: &mut Backend) {
        self.prefix(out, entry, backend);
        out.push_str(entry.severity);
        out.push_str(":  ");
        push_tabbed(out, &entry.message);
        if entry.position > 0 {
            out.push_str(" at character ");
            push_number(out, entry.position.into());
        }
        out.push('\n');
        for (label, text) in [
            ("DETAIL:  ", &entry.detail),
            ("HINT:  ", &entry.hint),
            ("CONTEXT:  ", &entry.context),
            ("STATEMENT:  ", &entry.statement),
        ] {
            if !text.is_empty() {
                self.prefix(out, entry, backend);
                out.push_str(label);
                push_tabbed(out, text);
                out.push('\n');
            }
        }
    }

    fn prefix(&mut self, out: &mut String, entry: &Entry, backend: &mut Backend) {
        backend.line += 1;
        let unless_known = |known: bool, name: &'static str| match known && !name.is_empty() {
            true => name,
            false => "[unknown]",
        };
        let own = backend.host.is_empty();
        let pieces = std::mem::take(&mut self.prefix);
        for piece in &pieces {
            let escape = match piece {
                Piece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Piece::Escape(escape) => *escape,
            };
            match escape {
                'm' => self.time(out, entry.wall_us, true),
                't' => self.time(out, entry.wall_us, false),
                'p' => push_number(out, backend.pid.into()),
                'l' => push_number(out, backend.line as i64),
                'c' => push_session(out, backend),
                's' => self.time(out, backend.started * 1_000_000, false),
                'e' => out.push_str(entry.sqlstate),
                'x' => push_number(out, entry.transaction.into()),
                'v' => push_virtual(out, entry, backend),
                'q' if own => break,
                'u' if !own => out.push_str(unless_known(entry.authenticated, backend.user)),
                'd' if !own => out.push_str(unless_known(entry.authenticated, backend.database)),
                'a' if !own => out.push_str(unless_known(entry.named, backend.application)),
                'i' if !own => out.push_str(entry.tag),
                'r' | 'h' if !own => {
                    out.push_str(backend.host);
                    if escape == 'r' && backend.port > 0 {
                        out.push('(');
                        push_number(out, backend.port.into());
                        out.push(')');
                    }
                }
                _ => (),
            }
        }
        self.prefix = pieces;
    }

    fn csv(&mut self, out: &mut String, entry: &Entry, backend: &mut Backend) {
        backend.line += 1;
        let own = backend.host.is_empty();
        self.time(out, entry.wall_us, true);
        out.push(',');
        if entry.authenticated && !own {
            push_csv(out, backend.user);
            out.push(',');
            push_csv(out, backend.database);
        } else {
            out.push(',');
        }
        out.push(',');
        push_number(out, backend.pid.into());
        out.push(',');
        if !own {
            out.push('"');
            out.push_str(backend.host);
            if backend.port > 0 {
                out.push(':');
                push_number(out, backend.port.into());
            }
            out.push('"');
        }
        out.push(',');
        push_session(out, backend);
        out.push(',');
        push_number(out, backend.line as i64);
        out.push(',');
        if !own {
            push_csv(out, entry.tag);
        }
        out.push(',');
        self.time(out, backend.started * 1_000_000, false);
        out.push(',');
        push_virtual(out, entry, backend);
        out.push(',');
        push_number(out, entry.transaction.into());
        out.push(',');
        out.push_str(entry.severity);
        out.push(',');
        out.push_str(entry.sqlstate);
        out.push(',');
        push_csv(out, &entry.message);
        // Then the internal query and its position, which are always empty here, and after the
        // cursor position the location, which only verbose errors have.
        for (text, commas) in [
            (&entry.detail, ","),
            (&entry.hint, ","),
            (&entry.context, ",,,"),
            (&entry.statement, ","),
        ] {
            out.push_str(commas);
            if !text.is_empty() {
                push_csv(out, text);
            }
        }
        out.push(',');
        if entry.position > 0 {
            push_number(out, entry.position.into());
        }
        out.push_str(",,");
        push_csv(
            out,
            if entry.named && !own {
                backend.application
            } else {
                ""
            },
        );
        out.push(',');
        push_csv(out, entry.backend_type);
        if self.major >= 14 {
            out.push_str(",,0");
        }
        out.push('\n');
    }

    fn json(&mut self, out: &mut String, entry: &Entry, backend: &mut Backend) {
        backend.line += 1;
        let own = backend.host.is_empty();
        out.push_str("{\"timestamp\":\"");
        self.time(out, entry.wall_us, true);
        out.push('"');
        if entry.authenticated && !own {
            push_member(out, "user", backend.user);
            push_member(out, "dbname", backend.database);
        }
        push_numbered(out, "pid", backend.pid.into());
        if !own {
            push_member(out, "remote_host", backend.host);
            if backend.port > 0 {
                push_numbered(out, "remote_port", backend.port.into());
            }
        }
        out.push_str(",\"session_id\":\"");
        push_session(out, backend);
        out.push('"');
        push_numbered(out, "line_num", backend.line as i64);
        if !own {
            push_member(out, "ps", entry.tag);
        }
        out.push_str(",\"session_start\":\"");
        self.time(out, backend.started * 1_000_000, false);
        out.push('"');
        if entry.local_transaction.is_some() {
            out.push_str(",\"vxid\":\"");
            push_virtual(out, entry, backend);
            out.push('"');
        }
        push_numbered(out, "txid", entry.transaction.into());
        push_member(out, "error_severity", entry.severity);
        if entry.sqlstate != "00000" {
            push_member(out, "state_code", entry.sqlstate);
        }
        push_member(out, "message", &entry.message);
        for (key, text) in [
            ("detail", &entry.detail),
            ("hint", &entry.hint),
            ("context", &entry.context),
            ("statement", &entry.statement),
        ] {
            if !text.is_empty() {
                push_member(out, key, text);
            }
        }
        if entry.position > 0 {
            push_numbered(out, "cursor_position", entry.position.into());
        }
        if entry.named && !own && !backend.application.is_empty() {
            push_member(out, "application_name", backend.application);
        }
        push_member(out, "backend_type", entry.backend_type);
        out.push_str(",\"query_id\":0}\n");
    }
}

fn push_padded(out: &mut String, number: i64, width: u32) {
    for place in (0..width).rev() {
        out.push(char::from(b'0' + (number / 10_i64.pow(place) % 10) as u8));
    }
}

/// Appends `YYYY-MM-DD HH:MM:SS`, by the civil calendar.
fn push_second(out: &mut String, second: i64) {
    let (days, rest) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years from 1 March on, in
    // eras of 400.
    let day = days + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let month_day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    push_padded(out, year, 4);
    for (before, number) in [
        ('-', month),
        ('-', month_day),
        (' ', rest / 3_600),
        (':', rest / 60 % 60),
        (':', rest % 60),
    ] {
        out.push(before);
        push_padded(out, number, 2);
    }
}

fn push_hex(out: &mut String, number: u64) {
    let digits = 64_u32
        .saturating_sub(number.leading_zeros())
        .div_ceil(4)
        .max(1);
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place)) & 15;
        out.push(char::from_digit(digit as u32, 16).expect("below 16"));
    }
}

fn push_session(out: &mut String, backend: &Backend) {
    push_hex(out, backend.started as u64);
    out.push('.');
    push_hex(out, backend.pid.into());
}

fn push_virtual(out: &mut String, entry: &Entry, backend: &Backend) {
    if let Some(local) = entry.local_transaction {
        push_number(out, backend.slot.into());
        out.push('/');
        push_number(out, local.into());
    }
}

/// Appends text of a stderr line: a tab follows each newline.
fn push_tabbed(out: &mut String, text: &str) {
    let mut lines = text.split('\n');
    out.push_str(lines.next().unwrap_or_default());
    for line in lines {
        out.push_str("\n\t");
        out.push_str(line);
    }
}

fn push_csv(out: &mut String, text: &str) {
    out.push('"');
    let mut parts = text.split('"');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str("\"\"");
        out.push_str(part);
    }
    out.push('"');
}

fn push_numbered(out: &mut String, key: &str, number: i64) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
    push_number(out, number);
}

fn push_member(out: &mut String, key: &str, text: &str) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":\"");
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(escape);
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}
