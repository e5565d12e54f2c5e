//! Lines with a name before each: Kubernetes' CRI format, `docker compose logs`, `kubectl logs
//! --prefix`, `stern`, and `grep -H`.
//!
//! Every physical line has the name, also those after a newline in a message. CRI splits a long
//! line: all pieces but the last have the flag `P`.

use super::reassemble::{Part, PartKind};
use super::time::parse_iso;
use super::{RecordContent, Unwrap};
use crate::entry::{line_end, trim_line_end};
use crate::{SkipReason, UnreadableReason};

/// Form of the text before each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `2026-03-01T09:00:00.123Z stderr F …`
    Cri,
    /// `db-1  | …`
    Compose,
    /// `[pod/db-0/postgres] …`
    Kubectl,
    /// `db-0 postgres …`
    Stern,
    /// `2026-03-01T09:00:00Z {pod="db-0"} …`, as `logcli` prints it.
    Labels,
    /// `postgresql.log:…`
    File,
}

impl Layout {
    /// All layouts, the most demanding first.
    pub(super) const ALL: [Layout; 6] = [
        Layout::Cri,
        Layout::Kubectl,
        Layout::Labels,
        Layout::Compose,
        Layout::Stern,
        Layout::File,
    ];
}

/// Removes the names.
#[derive(Debug)]
pub(super) struct Container {
    pub layout: Layout,
    /// The stream whose line is incomplete.
    partial: Option<String>,
}

impl Container {
    pub(super) fn new(layout: Layout) -> Self {
        Container {
            layout,
            partial: None,
        }
    }
}

/// The parts of one line.
#[derive(Debug, PartialEq, Eq)]
struct NamedLine<'a> {
    server: &'a [u8],
    program: &'a [u8],
    wall_us: Option<i64>,
    /// The line continues in the next one of its stream.
    partial: bool,
    text: &'a [u8],
}

impl Unwrap for Container {
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)> {
        let end = line_end(bytes, 0).or(complete.then_some(bytes.len()))?;
        let line = trim_line_end(&bytes[..end]);
        let Some(named) = split(self.layout, line) else {
            let content = match line {
                [] => RecordContent::Skipped(SkipReason::Blank),
                // stern lists the pods that come and go; grep separates groups of lines.
                [b'+' | b'-', b' ', ..] | b"--" => RecordContent::Skipped(SkipReason::Wrapping),
                [b'\t', ..] => RecordContent::Unreadable(UnreadableReason::LooseContinuation),
                _ => RecordContent::Unreadable(UnreadableReason::NoRecord),
            };
            return Some((content, end));
        };
        let mut part = Part::new(PartKind::Line { loose: false }, named.text);
        part.wall_us = named.wall_us;
        part.server = String::from_utf8_lossy(named.server);
        part.program = String::from_utf8_lossy(named.program);
        if self.partial.as_deref() == Some(&*part.program) {
            part.joined = true;
            self.partial = None;
        }
        if named.partial {
            self.partial = Some(part.program.clone().into_owned());
        }
        parts(part);
        Some((RecordContent::Parts, end))
    }
}

/// Splits a line; `None` if it does not have the layout.
fn split(layout: Layout, line: &[u8]) -> Option<NamedLine<'_>> {
    let named = |server, text| NamedLine {
        server,
        program: b"",
        wall_us: None,
        partial: false,
        text,
    };
    match layout {
        Layout::Cri => split_cri(line),
        Layout::Kubectl => {
            let rest = line.strip_prefix(b"[pod/")?;
            let close = memchr::memchr(b']', rest)?;
            let text = rest.get(close + 1..)?;
            Some(named(
                &rest[..close],
                text.strip_prefix(b" ").unwrap_or(text),
            ))
        }
        Layout::Labels => {
            let (wall_us, length) = parse_iso(line)?;
            let rest = line.get(length..)?.trim_ascii_start();
            let close = memchr::memmem::find(rest, b"\"} ").filter(|_| rest[0] == b'{')?;
            Some(NamedLine {
                wall_us: Some(wall_us),
                ..named(&rest[..close + 2], &rest[close + 3..])
            })
        }
        Layout::Compose => split_compose(line),
        Layout::Stern => {
            let pod = memchr::memchr(b' ', line)?;
            let container = memchr::memchr(b' ', &line[pod + 1..])?;
            let names = &line[..pod + 1 + container];
            let is_name = |name: &[u8]| {
                !name.is_empty()
                    && name
                        .iter()
                        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
            };
            (is_pod(&line[..pod]) && is_name(&names[pod + 1..]))
                .then(|| named(names, &line[names.len() + 1..]))
        }
        Layout::File => {
            let colon = memchr::memchr(b':', line)?;
            let name = &line[..colon];
            let is_log = memchr::memmem::find(name, b".log").is_some() && !name.contains(&b' ');
            is_log.then(|| named(name, &line[colon + 1..]))
        }
    }
}

fn split_cri(line: &[u8]) -> Option<NamedLine<'_>> {
    let (wall_us, length) = parse_iso(line)?;
    let rest = line.get(length..)?.strip_prefix(b" ")?;
    let program = [&b"stderr"[..], b"stdout"]
        .into_iter()
        .find(|stream| rest.starts_with(stream))?;
    let rest = rest[program.len()..].strip_prefix(b" ")?;
    let tags = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    let flag = rest[..tags].split(|byte| *byte == b':').next()?;
    matches!(flag, b"F" | b"P").then(|| NamedLine {
        server: b"",
        program,
        wall_us: Some(wall_us),
        partial: flag == b"P",
        text: rest.get(tags + 1..).unwrap_or_default(),
    })
}

/// Splits `db-1  | …`, with or without colours and with the time of `-t`.
fn split_compose(line: &[u8]) -> Option<NamedLine<'_>> {
    let line = without_colour(line);
    let bar = memchr::memchr(b'|', line)?;
    let name = line[..bar].trim_ascii_end();
    // The name is padded; a prefix of the server's hardly has two blanks before a bar.
    if name.is_empty() || bar < name.len() + 2 || name.contains(&b' ') {
        return None;
    }
    let text = without_colour(&line[bar + 1..]);
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let text = without_colour(text);
    let (wall_us, text) = match parse_iso(text) {
        Some((wall_us, length)) if text.get(length) == Some(&b' ') => {
            (Some(wall_us), &text[length + 1..])
        }
        _ => (None, text),
    };
    Some(NamedLine {
        server: name,
        program: b"",
        wall_us,
        partial: false,
        text,
    })
}

/// Removes a terminal's colour from the start of some text.
fn without_colour(text: &[u8]) -> &[u8] {
    let Some(rest) = text.strip_prefix(b"\x1b[") else {
        return text;
    };
    match rest.iter().position(|byte| *byte == b'm') {
        Some(end) if end < 12 => &rest[end + 1..],
        _ => text,
    }
}

/// Returns whether a word is the name of a pod: its set's name, and a number or a random suffix.
fn is_pod(name: &[u8]) -> bool {
    let Some(dash) = memchr::memrchr(b'-', name) else {
        return false;
    };
    let suffix = &name[dash + 1..];
    let number = !suffix.is_empty() && suffix.iter().all(u8::is_ascii_digit);
    let random = suffix.len() == 5
        && suffix
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    dash > 0
        && (number || random)
        && name[..dash]
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_its_names_removed() {
        for (layout, line, server, text) in [
            (
                Layout::Cri,
                "2026-03-01T09:00:00.000000123Z stderr F \twhere",
                "",
                "\twhere",
            ),
            (Layout::Compose, "db-1  | LOG:  x", "db-1", "LOG:  x"),
            (
                Layout::Compose,
                "\x1b[36mdb-1   | \x1b[0m2026-03-01T09:00:00.1Z LOG:  x",
                "db-1",
                "LOG:  x",
            ),
            (Layout::Compose, "db-1  | ", "db-1", ""),
            (
                Layout::Kubectl,
                "[pod/db-0/postgres] \tx",
                "db-0/postgres",
                "\tx",
            ),
            (Layout::Stern, "db-0 postgres \tx", "db-0 postgres", "\tx"),
            (
                Layout::Stern,
                "db-7d9f8b6c5-x2x4z postgres x",
                "db-7d9f8b6c5-x2x4z postgres",
                "x",
            ),
            (
                Layout::Labels,
                "2026-03-01T09:00:00Z {app=\"db\", pod=\"db-0\"} \tx",
                "{app=\"db\", pod=\"db-0\"}",
                "\tx",
            ),
            (Layout::File, "a/pg.log:\tx", "a/pg.log", "\tx"),
        ] {
            let found = split(layout, line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(found.server, server.as_bytes(), "{line}");
            assert_eq!(found.text, text.as_bytes(), "{line}");
        }
        for (layout, line) in [
            (Layout::Cri, "2026-03-01T09:00:00Z LOG:  x"),
            (Layout::Compose, "app | shop | LOG:  x"),
            (Layout::Stern, "alice shop 2026-03-01 LOG:  x"),
            (Layout::File, "2026-03-01 09:00:00 LOG:  x"),
        ] {
            assert_eq!(split(layout, line.as_bytes()), None, "{line}");
        }
    }
}
