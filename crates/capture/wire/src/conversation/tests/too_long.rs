//! Tests messages that are too long to be kept, and the names that later messages use.

use super::*;

#[test]
fn answers_after_a_message_that_is_too_long_are_of_the_right_names() {
    let too_long = "x".repeat(65 << 20);
    let refused = b"SERROR\0VERROR\0C42601\0Msyntax\0\0";
    let use_of = |talk: Talk, name: &str| {
        talk.client(|out| {
            bound("", name, &["1"], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'2', b""), (b'C', b"SELECT 1\0"), (b'Z', b"I")])
    };
    let statements = |talk: &Talk| -> Vec<String> {
        let (sink, account) = talk.hear();
        assert_eq!(account.too_long, 1);
        let events = sink.events.iter();
        let events = events.filter(|event| event.kind.is_statement());
        events
            .map(|event| format!("{} {:?}", said(event), event.unreplayable))
            .collect()
    };
    let known = Talk::begun()
        .client(|out| {
            prepare("a", "SELECT 'old', $1", out);
            Sync.encode(out);
        })
        .server(&[(b'1', b""), (b'Z', b"I")]);
    // In one group, whose first message is refused.
    let group = known
        .clone()
        .client(|out| {
            prepare("a", "SELECT 'new', $1", out);
            prepare("", &too_long, out);
            Sync.encode(out);
        })
        .server(&[(b'E', refused), (b'Z', b"I")]);
    // In two groups, of which the second is refused.
    let groups = known
        .clone()
        .client(|out| {
            prepare("", &too_long, out);
            Sync.encode(out);
            prepare("a", "SELECT 'new', $1", out);
            Sync.encode(out);
        })
        .server(&[(b'1', b""), (b'Z', b"I"), (b'E', refused), (b'Z', b"I")]);
    for talk in [group, groups] {
        let found = statements(&use_of(talk, "a"));
        let last = found.last().unwrap();
        assert!(
            last.contains("SELECT 'old'") && last.ends_with("None"),
            "{found:?}"
        );
    }
    // A Bind.
    let long_bind = known
        .client(|out| {
            prepare("a", "SELECT 'new', $1", out);
            bound("", "a", &[&too_long], out);
            Sync.encode(out);
        })
        .server(&[(b'E', refused), (b'Z', b"I")]);
    let found = statements(&use_of(long_bind, "a"));
    assert!(found.last().unwrap().contains("SELECT 'old'"), "{found:?}");
    // The statement itself has no text.
    let itself = Talk::begun()
        .client(|out| {
            prepare("", &too_long, out);
            Sync.encode(out);
        })
        .server(&[(b'1', b""), (b'Z', b"I")]);
    let found = statements(&use_of(itself, ""));
    assert!(
        found.last().unwrap().ends_with("Some(TooLong)"),
        "{found:?}"
    );
}
