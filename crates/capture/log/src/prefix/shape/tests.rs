use std::time::{Duration, Instant};

use super::super::{Inference, infer};

/// Infers the prefix of lines with this beginning, in which `#` counts the lines. Returns the prefix,
/// or both that fit.
fn inferred(start: &str, messages: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, message) in (1..).zip(messages) {
        let start = start.replace('#', &number.to_string());
        let start = match message.starts_with("connection received") {
            true => start
                .replace("bob", "[unknown]")
                .replace("shop", "[unknown]"),
            false => start,
        };
        lines.push(format!("{start}LOG:  {message}"));
    }
    match infer(lines.iter().map(String::as_bytes)) {
        Inference::Found(found) => vec![found.prefix.text().to_owned()],
        Inference::Undecided(prefixes) => prefixes.to_vec(),
        Inference::NoTime(prefix) => vec![format!("no time: {prefix}")],
        Inference::Nothing => Vec::new(),
    }
}

const STATEMENTS: [&str; 3] = [
    "statement: select 1",
    "statement: select 2",
    "statement: {\"a\": 1}",
];
const CONNECTED: [&str; 3] = [
    "connection received: host=10.0.0.1 port=5",
    "connection authorized: user=bob database=shop application_name=psql",
    "statement: select 1",
];

#[test]
fn a_key_or_a_convention_says_what_a_word_is() {
    for (start, prefix) in [
        (
            "t[2026-03-01 09:30:05.123 +03] p[7] h[10.0.0.1] db[shop] u[bob] x[0]",
            "t[%m] p[%p] h[%h] db[%d] u[%u] x[%x]",
        ),
        (
            "2026-03-01 09:30:05 UTC 68b1a2c3.7 psql user=bob,db=shop,host=10.0.0.1 ",
            "%t %c %a user=%u,db=%d,host=%h ",
        ),
        (
            "2026-03-01 09:30:05 UTC [7]: [#-1] user=bob,db=shop - PG-00000 ",
            "%t [%p]: [%l-1] user=%u,db=%d - PG-%e ",
        ),
        (
            "2026-03-01 09:30:05.123 UTC [7] (bob@shop:psql) ",
            "%m [%p] (%u@%d:%a) ",
        ),
        ("2026-03-01 09:30:05.123 UTC [7] SELECT ", "%m [%p] %i "),
        (
            "2026-03-01 09:30:05.123 UTC [7] client backend ",
            "%m [%p] %b ",
        ),
        ("2026-03-01 09:30:05.123 UTC [7] ::1 ", "%m [%p] %h "),
        ("2026-03-01 09:30:05.123 UTC 0 7 ", "%m %x %p "),
        ("# 7 2026-03-01 09:30:05.123 UTC ", "%l %p %m "),
        (
            "db1 2026-03-01 09:30:05.123 UTC [7] bob@shop ",
            "db1 %m [%p] %u@%d ",
        ),
        (
            "db=shop,user=bob,client=10.0.0.9",
            "no time: db=%d,user=%u,client=%h",
        ),
    ] {
        assert_eq!(inferred(start, &STATEMENTS), [prefix], "{start}");
    }
}

#[test]
fn words_that_may_have_changed_places_are_decided_by_connection_lines_alone() {
    for (words, prefix) in [
        ("shop bob [7]: ", "%m %d %u [%p]: "),
        ("bob shop [7]: ", "%m %u %d [%p]: "),
        ("[7] [shop] [bob] ", "%m [%p] [%d] [%u] "),
        ("[7] bob ", "%m [%p] %u "),
        ("[7] shop ", "%m [%p] %d "),
        ("[7] shop@bob ", "%m [%p] %d@%u "),
    ] {
        let start = format!("2026-03-01 09:30:05.123 UTC {words}");
        assert_eq!(inferred(&start, &CONNECTED), [prefix]);
        // Without them two prefixes fit, except where an at sign stands between the names.
        let found = inferred(&start, &STATEMENTS);
        assert_eq!(
            found.len(),
            if words.contains('@') { 1 } else { 2 },
            "{found:?}"
        );
    }
}

#[test]
fn prefix_of_a_line_of_many_words_is_inferred_quickly() {
    for (constant, varying) in [(400, 0), (400, 5), (34, 5), (0, 400)] {
        // Each word may have several meanings. More than three that vary have no meanings together.
        let lines = (1..=30).map(|number| {
            let constants = (0..constant).map(|word| format!("w{word} "));
            let varying = (0..varying).map(|word| format!("v{word}x{} ", number % 3));
            let words: String = constants.chain(varying).collect();
            format!("2026-03-01 09:30:05.123 UTC [7] {words}LOG:  x")
        });
        let lines: Vec<String> = lines.collect();
        let started = Instant::now();
        infer(lines.iter().map(String::as_bytes));
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{constant} {varying}"
        );
    }
}

#[test]
fn constant_words_after_an_application_name_are_read_as_its_part() {
    for name in ["PostgreSQL JDBC Driver", "raw | client"] {
        let start = format!("2026-03-01 09:30:05.123 UTC [7] bob@shop {name} ");
        assert_eq!(inferred(&start, &STATEMENTS), ["%m [%p] %u@%d %a "]);
    }
}
