use super::*;

fn found(text: &str) -> Vec<String> {
    let mut reader = StderrReader::new(Prefix::compile("%m [%p] "));
    let (mut at, mut all, mut line) = (0, Vec::new(), 1);
    while at < text.len() {
        let place = Location { source: 0, line };
        let (found, length) = reader.next(text.as_bytes()[at..].into(), true, place);
        line += text[at..at + length].matches('\n').count() as u64;
        at += length;
        all.push(match found {
            ReadResult::Entry(entry) => {
                format!(
                    "{}|{}|{}|{}|{}",
                    entry.message, entry.detail, entry.context, entry.statement, entry.lines
                )
            }
            other => format!("{other:?}"),
        });
    }
    all
}

const TIME: &str = "2026-03-01 09:30:05.123 UTC";

#[test]
fn fact_13_an_entry_goes_on_behind_a_tab_and_a_genuine_tab_becomes_two() {
    let text =
        format!("{TIME} [7] LOG:  statement: select\n\t\tone\n\t\n\ttwo\n{TIME} [7] LOG:  x\n");
    assert_eq!(
        found(&text),
        ["statement: select\n\tone\n\ntwo||||4", "x||||1"]
    );
}

#[test]
fn fact_10_what_follows_an_error_belongs_to_it() {
    let text = format!(
        "{TIME} [7] ERROR:  no\n{TIME} [7] DETAIL:  d\n\te\n{TIME} [7] HINT:  h\n\ti\n{TIME} [7] CONTEXT:  c\n{TIME} [7] STATEMENT:  s\n\tt\n"
    );
    assert_eq!(found(&text), ["no|d\ne|c|s\nt|8"]);
}

#[test]
fn fact_14_verbose_messages_carry_a_code() {
    let text = format!(
        "{TIME} [7] ERROR:  22012: no: x\n{TIME} [7] LOCATION:  int4div, int.c:1\n{TIME} [7] STATEMENT:  s\n"
    );
    let mut reader = StderrReader::new(Prefix::compile("%m [%p] "));
    let (ReadResult::Entry(entry), _) =
        reader.next(text.as_bytes().into(), true, Location::default())
    else {
        panic!("no entry");
    };
    assert_eq!((entry.message, entry.statement), ("no: x", "s"));
    assert_eq!(entry.sqlstate, Sqlstate::parse("22012"));
}

#[test]
fn fact_19_lines_of_another_encoding_are_unreadable_and_nothing_else() {
    let mut text = format!("{TIME} [7] LOG:  statement: select 'x'\n").into_bytes();
    let quote = text.len() - 3;
    text[quote] = 0xe4;
    let mut reader = StderrReader::new(Prefix::compile("%m [%p] "));
    let (found, length) = reader.next(text[..].into(), true, Location::default());
    assert_eq!(
        found,
        ReadResult::Unreadable {
            lines: 1,
            reason: UnreadableReason::Encoding
        }
    );
    assert_eq!(length, text.len());
}

#[test]
fn what_does_not_start_with_the_prefix_is_unreadable() {
    let text = format!(
        "\tx\nsh: no such file\n\n{TIME} [7] LOG:  x\nnoise\n{TIME} [8] DETAIL:  y\n{TIME} [7] LOG:  cu"
    );
    let all = found(&text);
    assert!(all[0].contains("LooseContinuation"));
    assert!(all[1].contains("NoPrefix"));
    assert!(all[2].contains("Blank"));
    assert_eq!(all[3], "x||||1");
    assert!(all[4].contains("NoPrefix"));
    assert!(all[5].contains("Detached"));
    assert!(all[6].contains("CutAtEnd"));
}

#[test]
fn line_that_may_change_the_prefix_waits_for_what_follows_it() {
    const PREFIX: &str = "%m [%p] %u@%d ";
    // RAISE, with the names of the session in the places of each other.
    let start = format!("{TIME} [7] app@shop ");
    let raised = format!("{start}LOG:  connection authorized: user=shop database=app\n");
    let detail = format!("{start}DETAIL:  x\n");
    let rest = format!("{start}STATEMENT:  select f()\n{start}LOG:  statement: select 1\n");
    let text = [&raised[..], &detail, &rest].concat();
    // The window may end anywhere before the line that tells.
    for end in [0, 20, detail.len(), detail.len() + 40] {
        let mut reader = StderrReader::new(Prefix::compile(PREFIX));
        let place = Location::default();
        let window = &text.as_bytes()[..raised.len() + end];
        assert!(matches!(
            reader.next(window.into(), false, place),
            (ReadResult::More, _)
        ));
        assert_eq!(reader.prefix.text(), PREFIX, "{end}");
        let (read, _) = reader.next(text.as_bytes().into(), true, place);
        assert!(matches!(read, ReadResult::Entry(_)), "{end}");
        assert_eq!(reader.prefix.text(), PREFIX, "{end}");
    }
}
