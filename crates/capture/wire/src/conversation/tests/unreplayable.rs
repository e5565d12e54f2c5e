//! Tests statements that cannot be sent again, and those that nothing prepared.

use super::*;

#[test]
fn what_cannot_be_sent_again_says_why() {
    let talk = Talk::begun()
        .client(|out| {
            bound("", "gone", &["1"], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'2', b""), (b'C', b"SELECT 1\0"), (b'Z', b"I")])
        .client(|out| {
            Query {
                sql: b"SELECT '\xe9'",
            }
            .encode(out)
            .unwrap()
        })
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")]);
    assert_eq!(
        talk.statements(),
        [
            "execute gone/(1)  rows=1 statement_unknown",
            "simple SELECT '\u{fffd}' rows=1 not_utf8",
        ]
    );
    assert_eq!(talk.hear().1.statements_unknown, 1);
    assert_eq!(Unreplayable::ALL.len(), 14);
}

#[test]
fn executions_of_a_name_whose_prepare_failed_are_not_counted_as_lost() {
    let unknown = b"SERROR\0C26000\0Mprepared statement \"p\" does not exist\0\0";
    let talk = Talk::begun()
        .client(|out| {
            Query {
                sql: b"PREPARE p AS SELECT * FROM nix WHERE id = $1",
            }
            .encode(out)
            .unwrap()
        })
        .server(&[(b'E', b"SERROR\0C42P01\0Mno\0\0"), (b'Z', b"I")])
        .client(|out| {
            bound("", "p", &["1"], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'E', unknown), (b'Z', b"I")]);
    assert_eq!(
        talk.statements(),
        [
            "simple PREPARE p AS SELECT * FROM nix WHERE id = $1 42P01",
            "execute p/(1)  26000 statement_unknown",
        ]
    );
    assert_eq!(talk.hear().1.statements_unknown, 0);
}
