//! Derives candidate prefixes from the beginnings of lines, which are split into parts of a fixed
//! form (times, numbers, addresses) and words.
//!
//! The meaning of a word is restricted by the text before it (`user=`), by messages that repeat the
//! names of their session, and by whether it differs between lines. If several meanings remain, each
//! gives a candidate.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::evidence::{LabelledLine, LineFacts, Origin};
use super::server_words::{BACKENDS, TAGS};
use crate::session_id::parse_session_id;
use crate::timestamp::TimestampParser;

/// Number of the commonest shapes that are tried.
const SHAPES_TRIED: usize = 12;

/// Maximum number of candidates of one shape.
const CANDIDATES_MAX: usize = 24;

/// Maximum number of words, numbers and values of a shape: there are 19 escapes. The time to combine the
/// meanings of words grows with the cube of their number.
const VALUES_MAX: usize = 40;

/// A part of a line's beginning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Literal(u8),
    Escape(char),
    Number,
    Word,
}

/// Lines of one shape.
#[derive(Debug, Default)]
struct ShapeLines<'a> {
    values: Vec<Vec<String>>,
    facts: Vec<&'a LineFacts<'a>>,
    /// Index of the first of them.
    first: usize,
}

/// Lists prefixes that the lines' beginnings suggest, the commonest first.
pub(super) fn list_shapes(lines: &[LabelledLine<'_>], facts: &[LineFacts<'_>]) -> Vec<String> {
    let mut by_shape: HashMap<Vec<Part>, ShapeLines<'_>> = HashMap::new();
    for (index, ((line, end), facts)) in lines.iter().zip(facts).enumerate() {
        let (shape, values) = split_parts(&line[..*end]);
        if values.len() > VALUES_MAX {
            continue;
        }
        let lines = by_shape.entry(shape).or_insert_with(|| ShapeLines {
            first: index,
            ..ShapeLines::default()
        });
        lines.values.push(values);
        lines.facts.push(facts);
    }
    let mut shapes: Vec<_> = by_shape.into_iter().collect();
    shapes.sort_by_key(|(shape, lines)| {
        let count = std::cmp::Reverse(lines.values.len());
        (count, shape.len(), lines.first)
    });
    let shapes = shapes.iter().take(SHAPES_TRIED);
    let texts: Vec<String> = shapes
        .flat_map(|(shape, lines)| describe(shape, lines))
        .flat_map(|text| [with_spaces_in_name(&text), Some(text)])
        .flatten()
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
    // A line within a JSON object is no line of the server's.
    let texts = texts.into_iter().chain(with_quit);
    texts.filter(|text| !text.contains("\":")).collect()
}

/// Returns the prefix that reads the words at its end as a part of the application's name before
/// them: `%a ` for `%a JDBC Driver `. It also fits the lines of sessions with other names.
fn with_spaces_in_name(prefix: &str) -> Option<String> {
    let (before, words) = prefix.rsplit_once("%a")?;
    let last = words.strip_suffix(' ')?.bytes().next_back()?;
    let are_words = words.starts_with(' ') && !words.contains('%') && is_word_byte(last);
    are_words.then(|| format!("{before}%a "))
}

fn split_parts(text: &[u8]) -> (Vec<Part>, Vec<String>) {
    let mut times = TimestampParser::default();
    let (mut parts, mut values) = (Vec::new(), Vec::new());
    let (mut at, mut timed) = (0, false);
    while at < text.len() {
        let rest = &text[at..];
        let is_start = at == 0 || !is_word_byte(text[at - 1]);
        let (part, length) = next_part(rest, is_start, &mut times, &mut timed);
        if !matches!(part, Part::Literal(_)) {
            values.push(String::from_utf8_lossy(&rest[..length]).into_owned());
            parts.push(part);
        } else {
            parts.extend(rest[..length].iter().map(|byte| Part::Literal(*byte)));
        }
        at += length;
    }
    (parts, values)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') || byte >= 0x80
}

/// Returns the next part and its length.
fn next_part(
    rest: &[u8],
    is_start: bool,
    times: &mut TimestampParser,
    timed: &mut bool,
) -> (Part, usize) {
    let run = |keep: fn(&u8) -> bool| rest.iter().take_while(|byte| keep(byte)).count();
    if let Some(stamp) = times.read(rest) {
        let letter = match (stamp.milliseconds, *timed) {
            (true, _) => 'm',
            (false, false) => 't',
            (false, true) => 's',
        };
        *timed = true;
        return (Part::Escape(letter), stamp.length);
    }
    if let Some((_, _, length)) = parse_any_session(rest) {
        return (Part::Escape('c'), length);
    }
    if rest.starts_with(b"[local]") {
        return (Part::Escape('r'), 7);
    }
    if rest.starts_with(b"[unknown]") {
        return (Part::Word, 9);
    }
    let digits = run(u8::is_ascii_digit);
    let word = run(|byte| is_word_byte(*byte));
    let next = rest.get(digits);
    let is_digit = |at: usize| rest.get(at).is_some_and(u8::is_ascii_digit);
    if digits == 10 && next == Some(&b'.') && (11..14).all(is_digit) {
        return (Part::Escape('n'), 14);
    }
    if digits > 0 && next == Some(&b'/') && is_digit(digits + 1) {
        let after = rest[digits + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        return (Part::Escape('v'), digits + 1 + after.count());
    }
    if let Some(length) = host_and_port_length(rest) {
        return (Part::Escape('r'), length);
    }
    if let Some(length) = address_length(rest, word) {
        return (Part::Escape('h'), length);
    }
    let whole = |known: &&&str| {
        let after = rest.get(known.len());
        rest.starts_with(known.as_bytes()) && after.is_none_or(|byte| !is_word_byte(*byte))
    };
    if is_start && let Some(backend) = BACKENDS.iter().find(whole) {
        return (Part::Escape('b'), backend.len());
    }
    if is_start && let Some(tag) = TAGS.iter().find(whole) {
        return (Part::Escape('i'), tag.len());
    }
    if word == 5 && is_code(&rest[..5]) {
        return (Part::Escape('e'), 5);
    }
    // A query's number has a sign, or nearly always more digits than other numbers.
    let signed = usize::from(rest[0] == b'-' && is_digit(1));
    let long = signed
        + rest[signed..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
    if long >= 15 && long >= word {
        return (Part::Escape('Q'), long);
    }
    if digits > 0 && (digits == word || next == Some(&b'-')) {
        return (Part::Number, digits);
    }
    if word > 0 && rest.get(word) == Some(&b'=') {
        return (Part::Literal(0), word + 1);
    }
    if word > 0 && rest[0] != b'-' && rest[0] != b'.' {
        // A code after a word and a hyphen: `PG-42P01`.
        let coded = word > 6 && rest[word - 6] == b'-' && is_code(&rest[word - 5..word]);
        return match coded {
            true => (Part::Literal(0), word - 5),
            false => (Part::Word, word),
        };
    }
    (Part::Literal(rest[0]), 1)
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

/// Returns the length of an address at the start of text whose first word has that length. A colon
/// that follows an IPv6 address looks like a part of it.
fn address_length(text: &[u8], word: usize) -> Option<usize> {
    let parses = |length: usize| {
        let text = std::str::from_utf8(&text[..length]).ok();
        text.is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok())
    };
    if parses(word) {
        return Some(word);
    }
    let long = text
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        .count();
    (2..=long.min(45)).rev().find(|length| parses(*length))
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

/// Returns the key before a value: `user` for `user=`. A letter of an escape is no key.
pub(super) fn key_before(text: &str) -> String {
    let key = text.trim_end_matches([' ', '[', '(']);
    let text = match key.strip_suffix(['=', ':']) {
        Some(key) => key,
        None if text[key.len()..].starts_with(['[', '(']) => key,
        None => return String::new(),
    };
    let (before, word) = match text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        Some(at) => text.split_at(at + text[at..].chars().next().map_or(0, char::len_utf8)),
        None => ("", text),
    };
    match before.ends_with('%') {
        true => String::new(),
        false => word.to_ascii_lowercase(),
    }
}

/// Returns the escape that a key stands for.
pub(super) fn escape_of_key(key: &str) -> Option<char> {
    Some(match key {
        "user" | "usr" | "u" | "username" | "role" => 'u',
        "db" | "database" | "d" | "dbname" => 'd',
        "app" | "application" | "a" | "appname" | "application_name" => 'a',
        "client" | "host" | "h" | "remote" | "from" | "ip" => 'h',
        "tag" | "cmd" | "command" | "i" | "ps" => 'i',
        "backend" | "backend_type" | "b" | "type" => 'b',
        _ => return None,
    })
}

/// Returns the escape of a number that a key stands for.
fn number_of_key(key: &str) -> Option<char> {
    Some(match key {
        "pid" | "p" | "process" => 'p',
        "line" | "l" | "log_line" => 'l',
        "xid" | "x" | "txid" | "tx" | "trx" => 'x',
        "query_id" | "queryid" | "qid" => 'Q',
        _ => return None,
    })
}

/// Meaning of literal text in place of an escape.
const LITERAL: char = '=';

/// Writes a shape as prefixes, one for each meaning that its words and numbers may have.
fn describe(shape: &[Part], lines: &ShapeLines<'_>) -> Vec<String> {
    let mut choices: Vec<Vec<char>> = Vec::new();
    // The text before each value, as far as it is literal or of a fixed form.
    let mut before = String::new();
    let mut parts = shape.iter().peekable();
    let mut contexts: Vec<(String, Option<u8>)> = Vec::new();
    while let Some(part) = parts.next() {
        let next = match parts.peek() {
            Some(Part::Literal(byte)) => Some(*byte),
            _ => None,
        };
        match part {
            Part::Literal(byte) => before.push(char::from(*byte)),
            part => {
                contexts.push((before.clone(), next));
                choices.push(match part {
                    Part::Escape(letter) => vec![*letter],
                    Part::Number => Vec::new(),
                    _ => word_meanings(&before, next, choices.len(), lines),
                });
                match choices.last() {
                    Some(of) if of[..] == [LITERAL] => {
                        before.push_str(&lines.values[0][choices.len() - 1]);
                    }
                    // Any escape; only its end matters.
                    _ => before.push_str("%_"),
                }
            }
        }
    }
    assign_numbers(shape, lines, &contexts, &mut choices);
    settle_words(shape, lines, &mut choices);
    let mut texts = Vec::new();
    let mut chosen = Vec::new();
    // It breaks once there are enough.
    let _ = combine(&choices, &mut chosen, &mut |letters| {
        texts.push(write(shape, letters, &lines.values[0]));
        match texts.len() < CANDIDATES_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    texts
}

/// Returns the meanings that a word may have.
fn word_meanings(
    before: &str,
    next: Option<u8>,
    index: usize,
    lines: &ShapeLines<'_>,
) -> Vec<char> {
    if let Some(letter) = escape_of_key(&key_before(before)) {
        return vec![letter];
    }
    let values = || lines.values.iter().map(|values| values[index].as_str());
    let first = &lines.values[0][index];
    let mut may_be = [('u', true), ('d', true), ('a', true), ('h', false)];
    let mut deny = |letters: &[char]| {
        for (letter, allowed) in &mut may_be {
            *allowed &= !letters.contains(letter);
        }
    };
    let is_constant = values().all(|value| value == first);
    let mut is_literal = is_constant && first != "[unknown]";
    let mut is_host = true;
    let mut hosts = 0;
    for (value, facts) in values().zip(&lines.facts) {
        if facts.user.is_some_and(|user| user != value) {
            deny(&['u']);
        }
        if facts.database.is_some_and(|database| database != value) {
            deny(&['d']);
        }
        if let Some(host) = facts.host {
            hosts += 1;
            is_host &= host == value;
        }
        match (
            value == "[unknown]",
            (facts.origin == Origin::Receipt),
            (facts.origin == Origin::Authorization),
        ) {
            // The names are not known when a connection is received.
            (false, true, _) => deny(&['u', 'd', 'a']),
            (true, _, true) => deny(&['u', 'd']),
            (false, _, true) => deny(&['a']),
            _ => (),
        }
        let repeats = facts.user == Some(value) || facts.database == Some(value);
        let is_unknown = facts.origin == Origin::Receipt && value == "[unknown]";
        is_literal &= !repeats && !is_unknown;
    }
    if is_host && hosts > 0 {
        return vec!['h'];
    }
    // A word before a bracket or an equals sign labels the value after it.
    let starts_word = before.is_empty() || before.ends_with(' ');
    let labels = matches!(next, Some(b'[' | b'(' | b'=' | b':'));
    if is_literal && starts_word && labels {
        return vec![LITERAL];
    }
    let letters = may_be.iter().filter(|(_, allowed)| *allowed);
    let mut letters: Vec<char> = letters.map(|(letter, _)| *letter).collect();
    if is_literal {
        letters.push(LITERAL);
    }
    letters
}

/// Restricts the meanings of words by those of others.
fn settle_words(shape: &[Part], lines: &ShapeLines<'_>, choices: &mut [Vec<char>]) {
    // Two words around an at sign are user and database, unless that is contradicted. So are two
    // equal ones: a database has its user's name by default.
    let are_equal = |index: usize| {
        let mut values = lines.values.iter();
        values.all(|values| values[index] == values[index + 1] && values[index] != "[unknown]")
    };
    let mut index = 0;
    let mut around = Vec::new();
    for (at, part) in shape.iter().enumerate() {
        if matches!(part, Part::Literal(_)) {
            continue;
        }
        let is_pair = matches!((part, shape.get(at + 2)), (Part::Word, Some(Part::Word)));
        if is_pair
            && let Some(Part::Literal(between)) = shape.get(at + 1)
            && (*between == b'@' || are_equal(index))
        {
            around.push(index);
        }
        index += 1;
    }
    for index in around {
        if choices[index].contains(&'u') && choices[index + 1].contains(&'d') {
            (choices[index], choices[index + 1]) = (vec!['u'], vec!['d']);
        }
    }
    for _ in 0..choices.len() {
        let settled: Vec<char> = choices
            .iter()
            .filter(|letters| letters.len() == 1 && letters[0] != LITERAL)
            .map(|letters| letters[0])
            .collect();
        for letters in choices.iter_mut().filter(|letters| letters.len() > 1) {
            letters.retain(|letter| !settled.contains(letter));
        }
    }
    // Whether a constant word is text or an application's name makes no other difference. Before
    // the time it is mostly a host's name.
    let time = choices
        .iter()
        .position(|letters| matches!(letters[..], ['m' | 't' | 'n']));
    let mut has_application = choices.iter().any(|letters| letters[..] == ['a']);
    for (index, letters) in choices.iter_mut().enumerate() {
        if letters[..] == ['a', LITERAL] {
            let is_text = has_application || time.is_some_and(|time| index < time);
            has_application |= !is_text;
            *letters = vec![if is_text { LITERAL } else { 'a' }];
        }
        if letters.is_empty() {
            letters.push(LITERAL);
        }
    }
}

/// Assigns meanings to the numbers of a shape.
fn assign_numbers(
    shape: &[Part],
    lines: &ShapeLines<'_>,
    contexts: &[(String, Option<u8>)],
    choices: &mut [Vec<char>],
) {
    let parts = shape
        .iter()
        .filter(|part| !matches!(part, Part::Literal(_)));
    let mut numbers: Vec<usize> = parts
        .enumerate()
        .filter(|(_, part)| **part == Part::Number)
        .map(|(index, _)| index)
        .collect();
    let values = |index: usize| {
        lines
            .values
            .iter()
            .map(move |values| values[index].as_str())
    };
    let session = choices.iter().position(|letters| letters[..] == ['c']);
    numbers.retain(|&index| {
        let (before, _) = &contexts[index];
        let mut letter = number_of_key(&key_before(before));
        let constant = values(index).all(|value| value == lines.values[0][index]);
        // The constant of pgBadger's manual: `[%l-1]`.
        if letter.is_none() && constant && before.ends_with('-') {
            letter = Some(LITERAL);
        }
        if letter.is_none()
            && let Some(session) = session
            && values(index).zip(values(session)).all(|(pid, session)| {
                parse_any_session(session.as_bytes())
                    .is_some_and(|(_, process, _)| pid == process.to_string())
            })
        {
            letter = Some('p');
        }
        choices[index].extend(letter);
        letter.is_none()
    });
    // The number before that constant is the line's, unless no other number can be the process's.
    if numbers.len() > 1 || session.is_some() {
        numbers.retain(|&index| {
            let is_line = contexts[index].1 == Some(b'-')
                && choices
                    .get(index + 1)
                    .is_some_and(|next| next[..] == [LITERAL]);
            if is_line {
                choices[index] = vec!['l'];
            }
            !is_line
        });
    }
    let is_taken = |choices: &[Vec<char>], letter| choices.iter().any(|of| of[..] == [letter]);
    let may_be_process = |index: usize| values(index).all(|value| !value.starts_with('0'));
    if session.is_none() && !is_taken(choices, 'p') {
        let processes: Vec<usize> = numbers
            .iter()
            .copied()
            .filter(|index| may_be_process(*index))
            .collect();
        // A count of each process's lines tells both.
        let counted = processes.iter().filter(|process| {
            let mut others = numbers.iter().filter(|index| index != process);
            others.any(|line| counts_lines(lines, **process, *line))
        });
        let counted: Vec<usize> = counted.copied().collect();
        match (&counted[..], &processes[..]) {
            ([process], _) | ([], [process]) => {
                choices[*process] = vec!['p'];
                numbers.retain(|index| index != process);
            }
            _ => {
                for index in &processes {
                    choices[*index] = vec!['p', 'x'];
                }
                numbers.retain(|index| !processes.contains(index));
            }
        }
    }
    let process = choices
        .iter()
        .position(|letters| letters[..] == ['p'] || letters[..] == ['c']);
    for index in numbers {
        let (before, next) = &contexts[index];
        let is_line = process.is_some_and(|process| counts_lines(lines, process, index))
            || before.ends_with('[') && matches!(next, Some(b'-' | b']'))
            || before.ends_with('-') && *next == Some(b']');
        let letter = match (is_line, is_taken(choices, 'l'), is_taken(choices, 'x')) {
            (true, false, _) => 'l',
            (_, _, false) => 'x',
            _ => 'Q',
        };
        choices[index] = vec![letter];
    }
}

/// Returns whether a number counts the lines of each process.
fn counts_lines(lines: &ShapeLines<'_>, process: usize, line: usize) -> bool {
    let mut last: HashMap<&str, u64> = HashMap::new();
    let (mut steps, mut single_steps) = (0, 0);
    for (values, facts) in lines.values.iter().zip(&lines.facts) {
        let Ok(number) = values[line].parse::<u64>() else {
            return false;
        };
        // A connection's receipt is the first line of its process.
        if (facts.origin == Origin::Receipt) && number != 1 {
            return false;
        }
        if let Some(before) = last.insert(&values[process], number) {
            // Lines of other shapes may be between; a reused process starts anew.
            if number <= before && number > 2 {
                return false;
            }
            steps += usize::from(number > before);
            single_steps += usize::from(number == before + 1);
        }
    }
    steps > 0 && single_steps * 2 >= steps
}

/// Calls `each` for every choice of distinct meanings, until it breaks.
fn combine(
    choices: &[Vec<char>],
    chosen: &mut Vec<char>,
    each: &mut dyn FnMut(&[char]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(letters) = choices.get(chosen.len()) else {
        return each(chosen);
    };
    for letter in letters {
        // Text and the form of a session's start may come twice, a name may not.
        if *letter == LITERAL || !chosen.contains(letter) || !"udaplxQ".contains(*letter) {
            chosen.push(*letter);
            combine(choices, chosen, each)?;
            chosen.pop();
        }
    }
    ControlFlow::Continue(())
}

/// Writes a shape with the chosen meanings.
fn write(shape: &[Part], letters: &[char], values: &[String]) -> String {
    let mut text = Vec::new();
    let mut chosen = letters.iter().zip(values);
    for part in shape {
        match part {
            Part::Literal(b'%') => text.extend_from_slice(b"%%"),
            Part::Literal(byte) => text.push(*byte),
            _ => match chosen.next() {
                Some((&LITERAL, value)) => {
                    text.extend_from_slice(value.replace('%', "%%").as_bytes());
                }
                Some((letter, _)) => {
                    text.push(b'%');
                    text.push(*letter as u8);
                }
                None => (),
            },
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests;
