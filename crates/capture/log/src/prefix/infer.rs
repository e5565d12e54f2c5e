//! Recognises a prefix from lines alone.
//!
//! Common prefixes are tried first. Then each line's beginning is split into parts of a fixed form
//! (times, numbers, addresses) and words. The meaning of a word is inferred from the text before it
//! (`user=`) and from `connection authorized` lines. A result is accepted only if it matches nearly
//! all lines.

use std::collections::HashMap;

use super::{Escape, Prefix};
use crate::session_id::parse_session_id;
use crate::severity::label;
use crate::timestamp::TimestampParser;

/// A candidate prefix that matches.
#[derive(Debug, Clone)]
pub(crate) struct InferredPrefix {
    pub prefix: Prefix,
    /// Number of lines that it matches.
    pub lines: usize,
    /// Number of those lines whose user and database contain no blank. A short prefix of names
    /// swallows what a longer one would separate.
    clean: usize,
    /// Time of the first line.
    pub first_us: i64,
}

/// Prefixes of servers, distributions, clouds and pgBadger's manual, the simpler first. Of two that
/// match the same number of lines the first is taken.
const COMMON: &[&str] = &[
    "%m [%p] ",
    "%t [%p] ",
    "%m [%p] %q%u@%d ",
    // The prefix that `rehearse capture settings` recommends.
    "%m [%p] %c %l %e %q%u@%d %r %a ",
    "%t [%p] %q%u@%d ",
    "%m [%p] %u@%d ",
    "%t [%p] %u@%d ",
    "%t [%p]: ",
    "%m [%p]: ",
    "%t [%p]: [%l-1] ",
    "%m [%p]: [%l-1] ",
    "%m [%p] %q%u@%d/%a ",
    "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "%m [%p] %quser=%u,db=%d,app=%a,client=%h ",
    "%m [%p] %quser=%u,db=%d,app=%a ",
    "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] %quser=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] %quser=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%m [%p]: [%l-1] user=%u,db=%d ",
    "%t [%p]: [%l-1] %quser=%u,db=%d ",
    "%m [%p]: user=%u,db=%d ",
    "%t [%p]: user=%u,db=%d ",
    "%t:%r:%u@%d:[%p]:",
    "%t:%r:%u@%d:[%p]: ",
    "%m:%r:%u@%d:[%p]: ",
    "%m:%r:%u@%d:[%p]:",
    "%t:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%t [%p]: [%l-1] db=%d,user=%u ",
    "%m [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "%t [%p]: [%l-1] db=%d,user=%u,app=%a,client=%h ",
    "%t-%c-",
    "%m-%c-",
    "%m %c ",
    "%m [%c] ",
    "%n [%p] ",
];

/// Percentage of the lines with a severity that must match.
const MATCHED_PERCENT: usize = 80;

/// Number of the commonest shapes that are tried.
const SHAPES_TRIED: usize = 12;

/// Guesses the prefix of these lines.
pub(crate) fn infer<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<InferredPrefix> {
    let lines: Vec<(&[u8], usize)> = lines
        .filter(|line| !line.starts_with(b"\t"))
        .filter_map(|line| Some((line, find_label(line)?)))
        .collect();
    let mut best: Option<InferredPrefix> = None;
    let mut consider = |prefix: Prefix| {
        let Some(found) = score_prefix(prefix, &lines) else {
            return;
        };
        if best
            .as_ref()
            .is_none_or(|best| (found.clean, found.lines) > (best.clean, best.lines))
        {
            best = Some(found);
        }
    };
    for text in COMMON {
        consider(Prefix::compile(text));
    }
    for text in list_shapes(&lines) {
        consider(Prefix::compile(&text));
    }
    let best = best.filter(|best| best.lines * 100 >= lines.len() * MATCHED_PERCENT)?;
    Some(InferredPrefix {
        prefix: best.prefix.into_recognised(),
        ..best
    })
}

fn score_prefix(prefix: Prefix, lines: &[(&[u8], usize)]) -> Option<InferredPrefix> {
    if !prefix.has_time() {
        return None;
    }
    let mut times = TimestampParser::default();
    let (mut matched, mut clean, mut first_us) = (0, 0, None);
    let mut may_miss = lines.len() * (100 - MATCHED_PERCENT) / 100;
    for (line, _) in lines {
        if let Some(found) = prefix.matches(line, &mut times) {
            matched += 1;
            let names = [found.fields.user, found.fields.database];
            clean += usize::from(!names.iter().any(|name| line[name.range()].contains(&b' ')));
            first_us = first_us.or(found.fields.wall_us);
        } else {
            // A candidate that matches fewer lines is rejected without trying the rest.
            may_miss = may_miss.checked_sub(1)?;
        }
    }
    Some(InferredPrefix {
        prefix,
        lines: matched,
        clean,
        first_us: first_us?,
    })
}

/// Finds the first severity or label, which is where the prefix ends.
pub(crate) fn find_label(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b':', line)
        .filter(|colon| line.get(colon + 1..colon + 3) == Some(b"  "))
        .find_map(|colon| {
            let word = line[..colon]
                .iter()
                .rev()
                .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
                .count();
            // A literal in capitals may directly precede the severity.
            (colon - word..colon).find(|start| label(&line[*start..]).is_some())
        })
}

/// A part of a line's beginning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Literal(u8),
    Escape(Escape, char),
    Number,
    Word,
}

/// Prefixes that the lines' beginnings suggest, the commonest first.
fn list_shapes(lines: &[(&[u8], usize)]) -> Vec<String> {
    let mut by_shape: HashMap<Vec<Part>, Vec<Vec<String>>> = HashMap::new();
    for (line, end) in lines {
        let (shape, values) = split_parts(&line[..*end]);
        by_shape.entry(shape).or_default().push(values);
    }
    let authorized: Vec<(String, String)> = lines
        .iter()
        .filter_map(|(line, _)| authorized_names(line))
        .collect();
    let mut shapes: Vec<_> = by_shape.into_iter().collect();
    shapes.sort_by_key(|(shape, values)| (std::cmp::Reverse(values.len()), shape.len()));
    let texts: Vec<String> = shapes
        .iter()
        .take(SHAPES_TRIED)
        .map(|(shape, values)| describe(shape, values, &authorized))
        .collect();
    // If one is the beginning of another, the server's own processes stop there.
    let mut with_quit = Vec::new();
    for short in &texts {
        for long in &texts {
            if let Some(rest) = long.strip_prefix(short.as_str())
                && !rest.is_empty()
                && !short.is_empty()
            {
                with_quit.push(format!("{short}%q{rest}"));
            }
        }
    }
    texts.into_iter().chain(with_quit).collect()
}

/// Returns the user and database of a `connection authorized` line.
fn authorized_names(line: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, rest) = line.split_once("connection authorized: user=")?;
    let (user, rest) = rest.split_once(" database=")?;
    let database = rest.split(' ').next()?;
    Some((user.to_owned(), database.to_owned()))
}

fn split_parts(text: &[u8]) -> (Vec<Part>, Vec<String>) {
    let mut times = TimestampParser::default();
    let (mut parts, mut values) = (Vec::new(), Vec::new());
    let (mut at, mut timed) = (0, false);
    let run = |from: usize, keep: fn(&u8) -> bool| {
        text[from..].iter().take_while(|byte| keep(byte)).count()
    };
    while at < text.len() {
        let rest = &text[at..];
        let (part, length) = if let Some(stamp) = times.read(rest) {
            let part = match (stamp.milliseconds, timed) {
                (true, _) => Part::Escape(Escape::TimeMilliseconds, 'm'),
                (false, false) => Part::Escape(Escape::Time, 't'),
                (false, true) => Part::Escape(Escape::SessionStart, 's'),
            };
            timed = true;
            (part, stamp.length)
        } else if let Some((_, _, length)) = parse_any_session(rest) {
            (Part::Escape(Escape::Session, 'c'), length)
        } else if rest.starts_with(b"[local]") {
            (Part::Escape(Escape::Remote, 'r'), 7)
        } else if rest.starts_with(b"[unknown]") {
            (Part::Word, 9)
        } else {
            let digits = run(at, u8::is_ascii_digit);
            let word = run(at, |byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') || *byte >= 0x80
            });
            let next = rest.get(digits);
            if digits == 10
                && next == Some(&b'.')
                && rest
                    .get(11..14)
                    .is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
            {
                (Part::Escape(Escape::Epoch, 'n'), 14)
            } else if digits > 0
                && next == Some(&b'/')
                && rest.get(digits + 1).is_some_and(u8::is_ascii_digit)
            {
                (
                    Part::Escape(Escape::VirtualTransaction, 'v'),
                    digits + 1 + run(at + digits + 1, u8::is_ascii_digit),
                )
            } else if let Some(port) = host_and_port_length(rest) {
                (Part::Escape(Escape::Remote, 'r'), port)
            } else if is_address(&rest[..word]) {
                (Part::Escape(Escape::Host, 'h'), word)
            } else if word == 5 && is_code(&rest[..5]) {
                (Part::Escape(Escape::Sqlstate, 'e'), 5)
            } else if digits > 0 && (digits == word || next == Some(&b'-')) {
                (Part::Number, digits)
            } else if word > 0 && rest.get(word) == Some(&b'=') {
                parts.extend(rest[..=word].iter().map(|byte| Part::Literal(*byte)));
                at += word + 1;
                continue;
            } else if word > 0 && rest[0] != b'-' && rest[0] != b'.' {
                (Part::Word, word)
            } else {
                (Part::Literal(rest[0]), 1)
            }
        };
        if !matches!(part, Part::Literal(_)) {
            values.push(String::from_utf8_lossy(&rest[..length]).into_owned());
        }
        parts.push(part);
        at += length;
    }
    (parts, values)
}

/// Parses `%c` of a time since 1979 that fits 32 bits: eight digits, which distinguishes it from
/// `%n`.
fn parse_any_session(text: &[u8]) -> Option<(u64, u32, usize)> {
    parse_session_id(text).filter(|(started, ..)| (1..16).contains(&(started >> 28)))
}

/// Returns the length of `host(port)`.
fn host_and_port_length(text: &[u8]) -> Option<usize> {
    let open = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-'))
        .count();
    if open == 0 || text.get(open) != Some(&b'(') {
        return None;
    }
    let digits = text[open + 1..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (digits > 0 && text.get(open + 1 + digits) == Some(&b')')).then_some(open + digits + 2)
}

fn is_address(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| word.parse::<std::net::Ipv4Addr>().is_ok())
}

/// Returns whether a word is `00000` or an error code: its class has two characters, and it
/// contains a digit and is no number.
fn is_code(word: &[u8]) -> bool {
    word == b"00000"
        || (word[0].is_ascii_digit()
            && word
                .iter()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
            && word.iter().any(u8::is_ascii_uppercase))
}

/// Writes a shape as a prefix, inferring the meaning of its numbers and words.
fn describe(shape: &[Part], lines: &[Vec<String>], authorized: &[(String, String)]) -> String {
    let column = |index: usize| lines.iter().map(move |values| values[index].as_str());
    let has = |wanted: Escape| {
        shape
            .iter()
            .any(|part| matches!(part, Part::Escape(escape, _) if *escape == wanted))
    };
    let mut text = String::new();
    let mut used = String::new();
    let mut index = 0;
    for part in shape {
        let letter = match part {
            Part::Literal(byte) => {
                text.push(char::from(*byte));
                if *byte == b'%' {
                    text.push('%');
                }
                continue;
            }
            Part::Escape(_, letter) => *letter,
            Part::Number => {
                let constant = column(index).all(|value| value == lines[0][index]);
                if constant && text.ends_with('-') && !used.is_empty() {
                    text.push_str(&lines[0][index]);
                    index += 1;
                    continue;
                }
                describe_number(&text, &used, has(Escape::Session), lines, index)
            }
            Part::Word => describe_word(&text, &used, column(index), authorized),
        };
        text.push('%');
        text.push(letter);
        used.push(letter);
        index += 1;
    }
    // Literals were added byte by byte, each as the character of the same number.
    let bytes = text.chars().map(|c| c as u8).collect();
    String::from_utf8(bytes).unwrap_or(text)
}

/// Returns the key before a value: `user` for `user=`.
fn key_before(text: &str) -> String {
    let text = text.trim_end_matches([' ', '[', '(']);
    let Some(text) = text.strip_suffix(['=', ':']) else {
        return String::new();
    };
    let word = text
        .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    word.to_ascii_lowercase()
}

fn describe_number(
    text: &str,
    used: &str,
    has_session: bool,
    lines: &[Vec<String>],
    index: usize,
) -> char {
    match key_before(text).as_str() {
        "pid" | "p" | "process" => return 'p',
        "line" | "l" | "log_line" => return 'l',
        "xid" | "x" | "txid" | "tx" | "trx" => return 'x',
        "query_id" | "queryid" | "qid" => return 'Q',
        _ => (),
    }
    if has_session {
        // The second half of the session is the process number.
        let is_pid = lines.iter().all(|values| {
            let pid = values
                .iter()
                .find_map(|value| parse_any_session(value.as_bytes()));
            pid.is_none_or(|(_, pid, _)| values[index] == pid.to_string())
        });
        if is_pid && !used.contains('p') {
            return 'p';
        }
    } else if !used.contains('p') {
        return 'p';
    }
    match used.contains('l') {
        false => 'l',
        true => 'x',
    }
}

fn describe_word<'a>(
    text: &str,
    used: &str,
    values: impl Iterator<Item = &'a str> + Clone,
    authorized: &[(String, String)],
) -> char {
    match key_before(text).as_str() {
        "user" | "usr" | "u" | "username" | "role" => return 'u',
        "db" | "database" | "d" | "dbname" => return 'd',
        "app" | "application" | "a" | "appname" | "application_name" => return 'a',
        "client" | "host" | "h" | "remote" | "from" | "ip" => return 'h',
        "tag" | "cmd" | "command" | "i" | "ps" => return 'i',
        "backend" | "backend_type" | "b" | "type" => return 'b',
        _ => (),
    }
    let among = |names: &mut dyn Iterator<Item = &String>| {
        let names: Vec<&str> = names.map(String::as_str).collect();
        !names.is_empty()
            && values
                .clone()
                .filter(|value| *value != "[unknown]")
                .all(|value| names.contains(&value))
    };
    let user = among(&mut authorized.iter().map(|(user, _)| user));
    let database = among(&mut authorized.iter().map(|(_, database)| database));
    match (user, database) {
        (true, false) if !used.contains('u') => return 'u',
        (false, true) if !used.contains('d') => return 'd',
        _ => (),
    }
    const TAGS: [&str; 8] = [
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "BEGIN",
        "COMMIT",
        "idle",
        "authentication",
    ];
    if values.clone().all(|value| TAGS.contains(&value)) {
        return 'i';
    }
    ['u', 'd', 'a']
        .into_iter()
        .find(|letter| !used.contains(*letter))
        .unwrap_or('i')
}
