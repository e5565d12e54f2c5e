use proptest::prelude::*;

use super::super::infer::InferredPrefix;
use super::super::{Inference, Prefix, infer};
use super::*;
use crate::severity::Severity;

fn matched(prefix: &str, line: &str) -> Option<LineMatch> {
    Prefix::compile(prefix).matches(line.as_bytes(), &mut TimestampParser::default())
}

fn inferred<T: AsRef<str>>(lines: &[T]) -> Option<InferredPrefix> {
    match infer(lines.iter().map(|line| line.as_ref().as_bytes())) {
        Inference::Found(found) => Some(*found),
        _ => None,
    }
}

fn part(span: Span, line: &str) -> &str {
    span.of(line)
}

#[test]
fn fact_15_all_escapes() {
    let prefix = "%a|%u|%d|%r|%b|%p|%P|%t|%m|%n|%i|%e|%c|%l|%s|%v|%x|%Q|%%: ";
    let line = "my app|bob|shop|10.0.0.1(5432)|client backend|77||2026-03-01 09:30:05 UTC|2026-03-01 09:30:05.123 UTC|1772357405.123|SELECT|00000|68b1a2c3.4d|3|2026-03-01 09:30:00 UTC|3/14|0|-7|%: LOG:  x";
    let found = matched(prefix, line).unwrap();
    let fields = found.fields;
    assert_eq!(part(fields.application, line), "my app");
    assert_eq!(part(fields.user, line), "bob");
    assert_eq!(part(fields.database, line), "shop");
    assert_eq!(
        (part(fields.host, line), part(fields.port, line)),
        ("10.0.0.1", "5432")
    );
    assert_eq!(part(fields.backend, line), "client backend");
    assert_eq!(
        (fields.pid, fields.started, fields.line_number),
        (Some(77), 0x68b1_a2c3, 3)
    );
    assert_eq!(fields.wall_us, Some(1_772_357_405_123_000));
    assert_eq!(fields.sqlstate, Some(*b"00000"));
    assert!(!fields.has_leader && !fields.quit);
    assert_eq!(found.label, Label::Head(Severity::Log));
    assert_eq!(&line[found.text..], "x");
}

#[test]
fn fact_15_an_application_name_may_hold_anything() {
    for name in ["", "a b", "raw | client", "[1] x", "ü", "a@b"] {
        let line = format!("2026-03-01 09:30:05.123 UTC [7] bob@shop {name} | LOG:  x");
        let found = matched("%m [%p] %q%u@%d %a | ", &line).unwrap();
        assert_eq!(part(found.fields.application, &line), name);
    }
}

#[test]
fn fact_15_padding_is_taken_off() {
    for (prefix, line) in [
        (
            "%m [%10p] %-8u|",
            "2026-03-01 09:30:05.123 UTC [        77] bob     |LOG:  x",
        ),
        (
            "%m [%-10p] %8u|",
            "2026-03-01 09:30:05.123 UTC [77        ]      bob|LOG:  x",
        ),
        (
            "%m [%2p] %-2u|",
            "2026-03-01 09:30:05.123 UTC [77] bob|LOG:  x",
        ),
        (
            "%-30m[%p]%8u|",
            "2026-03-01 09:30:05.123 UTC   [77]     bob|LOG:  x",
        ),
    ] {
        let found = matched(prefix, line).unwrap_or_else(|| panic!("{prefix}"));
        assert_eq!(
            (found.fields.pid, part(found.fields.user, line)),
            (Some(77), "bob"),
            "{prefix}"
        );
    }
    assert_eq!(
        matched(
            "%m [%-10p] x ",
            "2026-03-01 09:30:05.123 UTC [77 ] x LOG:  y"
        ),
        None
    );
}

#[test]
fn fact_15_background_processes_stop_at_q() {
    let found = matched(
        "%m [%p] %q%u@%d ",
        "2026-03-01 09:30:05.123 UTC [7] LOG:  checkpoint starting: time",
    )
    .unwrap();
    assert!(found.fields.quit);
    let found = matched(
        "%m [%p] %q%u@%d ",
        "2026-03-01 09:30:05.123 UTC [7] a@b LOG:  x",
    )
    .unwrap();
    assert!(!found.fields.quit);
}

#[test]
fn fact_23_rds_prefixes_with_any_address() {
    for host in [
        "10.0.0.1(5)",
        "::1(5)",
        "fe80::1(5)",
        "db-1.example.com(5)",
        "[local]",
    ] {
        for prefix in [
            "%t:%r:%u@%d:[%p]:",
            "%t:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
        ] {
            let rest = match prefix.ends_with("%a") {
                true => "3:00000:2026-03-01 09:30:00 UTC:3/14:0:68b1a2c3.4d:psql",
                false => "",
            };
            let line = format!("2026-03-01 09:30:05 UTC:{host}:bob@shop:[7]:{rest}LOG:  x");
            let found = matched(prefix, &line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(part(found.fields.user, &line), "bob");
            assert_eq!(part(found.fields.database, &line), "shop");
        }
    }
    let line = "2026-03-01 09:30:05.000 UTC ::1: LOG:  x";
    let found = matched("%m %h: ", line).unwrap();
    assert_eq!(part(found.fields.host, line), "::1");
}

/// An escape, what the server prints for it, and the text between it and the next.
fn piece() -> impl Strategy<Value = (&'static str, String, &'static str)> {
    let value = prop_oneof![
        "[a-z][a-z0-9_]{0,9}".prop_map(|name| ("u", name)),
        "[a-z][a-z0-9_]{0,9}".prop_map(|name| ("d", name)),
        "[a-zA-Z ]{0,12}[a-z]".prop_map(|name| ("a", name)),
        (1u32..99_999).prop_map(|number| ("l", number.to_string())),
        (0u32..99_999).prop_map(|number| ("x", number.to_string())),
        (0u32..999, 0u32..999).prop_map(|(a, b)| ("v", format!("{a}/{b}"))),
        (1u32..0xff_ffff).prop_map(|pid| ("c", format!("68b1a2c3.{pid:x}"))),
        "[0-9A-Z]{5}".prop_map(|code| ("e", code)),
        (1u16..9).prop_map(|port| ("r", format!("10.0.0.1({port})"))),
        Just(("r", "[local]".to_owned())),
        Just(("h", "fe80::7".to_owned())),
    ];
    let between = prop::sample::select(vec!["|", "] ", "; ", "> ", "&&"]);
    (value, between).prop_map(|((escape, value), between)| (escape, value, between))
}

proptest! {
    #[test]
    fn fact_15_what_the_server_prints_is_read_back(
        pieces in prop::collection::vec(piece(), 0..8),
        widths in prop::collection::vec(-14i32..14, 8),
        pid in 1u32..4_000_000,
    ) {
        let (mut prefix, mut line) = ("%m [%p] ".to_owned(), format!("2026-03-01 09:30:05.123 UTC [{pid}] "));
        let mut values = std::collections::HashMap::new();
        for ((escape, value, between), width) in pieces.iter().zip(&widths) {
            // An escape that stands twice says the same twice.
            let value = *values.entry(escape).or_insert(value);
            let width = *width;
            let size = width.unsigned_abs() as usize;
            match width {
                0 => line.push_str(value),
                1.. => line.push_str(&format!("{value:>size$}")),
                _ => line.push_str(&format!("{value:<size$}")),
            }
            let number = if width == 0 { String::new() } else { width.to_string() };
            prefix.push_str(&format!("%{number}{escape}{between}"));
            line.push_str(between);
        }
        line.push_str("ERROR:  it failed");
        let found = matched(&prefix, &line).unwrap();
        prop_assert_eq!(found.label, Label::Head(Severity::Error));
        prop_assert_eq!(&line[found.text..], "it failed");
        for (escape, span) in [("u", found.fields.user), ("d", found.fields.database)] {
            if let Some(value) = values.get(&escape) {
                prop_assert_eq!(part(span, &line), *value);
            }
        }
        if !pieces.iter().any(|(escape, ..)| *escape == "c") {
            prop_assert_eq!(found.fields.pid, Some(pid));
        }
    }

    #[test]
    fn any_prefix_and_any_line_are_no_panic(prefix in "[%a-z0-9\\- |]{0,20}", line in ".{0,60}") {
        let _ = matched(&prefix, &line);
        let _ = infer([line.as_bytes()].into_iter());
    }
}

#[test]
fn fact_15_a_prefix_is_recognised_from_its_lines() {
    let client = [
        (
            "%m [%p] %q%u@%d ",
            "2026-03-01 09:30:05.123 UTC [7] bob@shop ",
        ),
        ("%m [%p] ", "2026-03-01 09:30:05.123 UTC [7] "),
        (
            "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
            "2026-03-01 09:30:05 UTC [7]: [3-1] user=bob,db=shop,app=my app,client=10.0.0.1 ",
        ),
        (
            "%t:%r:%u@%d:[%p]:",
            "2026-03-01 09:30:05 UTC:10.0.0.1(5):bob@shop:[7]:",
        ),
        // Not among the common ones.
        (
            "%m|%p|%c|%r|%e|",
            "2026-03-01 09:30:05.123 UTC|77|68b1a2c3.4d|10.0.0.1(5)|00000|",
        ),
        (
            "<%m> pid=%p db=%d user=%u xid=%x: ",
            "<2026-03-01 09:30:05.123 UTC> pid=7 db=shop user=bob xid=0: ",
        ),
        ("%n %p u=%u/d=%d> ", "1772357405.123 7 u=bob/d=shop> "),
    ];
    for (prefix, start) in client {
        let lines: Vec<String> = (0..20)
            .map(|number| format!("{start}LOG:  statement: select {number}"))
            .collect();
        let found = inferred(&lines).unwrap_or_else(|| panic!("{prefix}"));
        let as_given = matched(prefix, &lines[0]).unwrap().fields;
        let as_guessed = found
            .prefix
            .matches(lines[0].as_bytes(), &mut TimestampParser::default())
            .unwrap()
            .fields;
        assert_eq!(
            as_guessed,
            as_given,
            "{prefix} guessed as {}",
            found.prefix.text()
        );
    }
    assert!(inferred(&["no log at all"; 9]).is_none());
}

#[test]
fn a_guessed_prefix_with_background_lines_has_q() {
    let lines = [
        "<2026-03-01 09:30:05.123 UTC> 7: LOG:  checkpoint starting: time",
        "<2026-03-01 09:30:05.123 UTC> 8: db=shop user=bob | LOG:  statement: select 1",
        "<2026-03-01 09:30:05.123 UTC> 8: db=shop user=bob | LOG:  statement: select 2",
    ];
    let found = inferred(&lines).unwrap();
    assert_eq!(found.prefix.text(), "<%m> %p: %qdb=%d user=%u | ");
    assert_eq!(found.lines, 3);
}

#[test]
fn a_guess_takes_other_letters_and_half_a_number() {
    let lines = ["2026-03-01 09:30:05.123 UTC [7] ü: user=bob LOG:  x"; 3];
    let found = inferred(&lines).unwrap();
    assert_eq!(found.prefix.text(), "%m [%p] ü: user=%u ");
    for line in ["1772357405.1LOG:  x", "desconexão=1LOG:  x"] {
        assert!(inferred(&[line]).is_none());
    }
}

/// Checks that a long line with many possible splits into names is given up soon.
#[test]
fn fact_15_a_line_that_does_not_match_is_given_up_soon() {
    let prefix = Prefix::compile("%n %u %d %a %i %p ");
    let line = format!(
        "1772355600.123 {}LOG:  statement: select 1",
        "a ".repeat(500)
    );
    // Without a bound this would not end in a lifetime.
    assert!(
        prefix
            .matches(line.as_bytes(), &mut TimestampParser::default())
            .is_none()
    );
    let line =
        b"1772355600.123 me shop my own app idle in transaction 77 LOG:  statement: select 1";
    let found = prefix
        .matches(line, &mut TimestampParser::default())
        .unwrap();
    assert_eq!(found.fields.pid, Some(77));
}

#[test]
fn a_recognised_prefix_learns_where_the_servers_own_lines_end() {
    for (prefix, client, server, learnt) in [
        (
            "%m [%p] %c %l %e %u@%d %r %a ",
            "2026-03-01 09:30:05.123 UTC [7] 68b1a2c3.7 3 00000 bob@shop 10.0.0.1(5432) my app LOG:  x",
            "2026-03-01 09:30:05.123 UTC [9] 68b1a2c3.9 1 00000 LOG:  checkpoint starting: time",
            "%m [%p] %c %l %e %q%u@%d %r %a ",
        ),
        // In the middle of what was taken for one literal; the text as it would be given.
        (
            "%m [%p] 5%% [user=%-4u,db=%d] ",
            "2026-03-01 09:30:05.123 UTC [7] 5% [user=bob ,db=shop] LOG:  x",
            "2026-03-01 09:30:05.123 UTC [9] 5% LOG:  checkpoint starting: time",
            "%m [%p] 5%% %q[user=%-4u,db=%d] ",
        ),
    ] {
        let mut times = TimestampParser::default();
        let mut own = Prefix::compile(prefix).into_recognised();
        let line = server.as_bytes();
        assert!(own.matches(line, &mut times).is_none(), "{prefix}");
        // What is no line of the server's teaches nothing.
        for other in [
            "",
            "LOG:  x",
            "[9] LOG:  x",
            "2026-03-01 09:30:05.123 UTC [9] x LOG:  y",
        ] {
            assert!(!own.learn_quit(other.as_bytes(), &mut times));
        }
        assert!(own.learn_quit(line, &mut times), "{prefix}");
        assert_eq!(own.text(), learnt);
        assert_eq!(own.pieces, Prefix::compile(learnt).pieces);
        assert!(own.matches(line, &mut times).unwrap().fields.quit);
        let found = own.matches(client.as_bytes(), &mut times).unwrap();
        assert_eq!(part(found.fields.database, client), "shop");
        // One that was given is taken at its word.
        assert!(!Prefix::compile(prefix).learn_quit(line, &mut times));
    }
}

#[test]
fn line_of_colons_is_split_into_hosts_in_bounded_time() {
    let line = format!("{}LOG:  x", ":".repeat(200));
    for prefix in [
        "%h:%h:%h:%h:%h:%h:%h:%h:%h:%h:%h:%h|",
        "%r:%r:%r:%r:%r:%r:%r:%r|",
    ] {
        assert!(matched(prefix, &line).is_none());
    }
}
