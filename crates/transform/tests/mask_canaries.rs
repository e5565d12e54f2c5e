//! Plants words in every position of a workload that holds values, masks it, and searches the artefact for them.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use transform::mask::{Mask, MaskKey, Masker};
use workload::{
    CopyIn, Event, EventKind, FirstRows, MessageSeverity, NoRedaction, Outcome, Parameter,
    Provenance, ServerEvent, ServerEventKind, Session, WireDetails, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

/// Statements with a `@` for a word.
const STATEMENTS: &[&str] = &[
    "select '@', E'@\\n', U&'@\\0041', N'@', $$@$$, $t$@$t$, '@'::text, text '@'",
    "select E'a'\n'b\\'@ x'",
    "select 'a' -- @'\n'@'",
    "select 'a'\r'@'",
    "select u&'d!0061@' /* @ */ uescape '!'",
    "select 1 --\r, '@'",
    "-- @\nselect /* @ /* @ */ */ 1",
    "select 1 /*route='@',controller='@'*/",
    "/*application:@,job:@*/ select 1",
    "select $x$ a $$@$$ $x$",
    "select $@$x$@$, $@$$@$",
    "do $@$begin perform $x@$y$x@$; end$@$",
    "select $@$x",
    "select * from t where a in ('@', '@') and b like '%@%' and c ~ '^@$' and d similar to '@(a|b)'",
    "insert into t values ('@', 1), ('@', 2) on conflict (a) do update set b = '@' returning '@'",
    "select '{\"k\": \"@\"}'::jsonb, '{@,b}'::text[], array['@'], row('@', 1), '(@,1)'",
    "set app.user = '@'",
    "set application_name = '@'",
    "select set_config('app.x', '@', false)",
    "select pg_notify('@', '@')",
    "notify @, '@'",
    "listen @",
    "unlisten \"@\"",
    "savepoint @",
    "release savepoint @",
    "release @",
    "rollback to savepoint \"@\"",
    "rollback work to @",
    "begin; savepoint @; select '@'; rollback to @; commit",
    "comment on table t is '@'",
    "create table t2 (a text default '@', check (a <> '@'))",
    "create view v as select '@'",
    "do $$begin perform '@'; execute 'select ''@'''; raise exception '@'; end$$",
    "do $$ begin /* @ */ null; -- @\n end$$",
    "do language plperl $$ my $x = q(@); # @ $$",
    "create function f() returns text language sql as $$select '@'$$",
    "create function f() returns text as $$ return '@' # @ $$ language plpython3u",
    "create function f() returns text language 'plv8' as $$ return `@`; // @ $$",
    "prepare p as select '@'",
    "execute p('@')",
    "declare c cursor for select '@'",
    "explain (analyze) select '@'",
    "copy t to '/data/@'",
    "copy t from '/data/@' (format csv)",
    "copy t from program 'cat @'",
    "copy (select '@') to stdout",
    "load '@'",
    "select lo_import('/data/@')",
    "call p('@')",
    "create server s foreign data wrapper w options (host '@', passfile '@')",
    "create user mapping for u server s options (user '@', password '@')",
    "security label on table t is '@'",
    "alter role a set app.z = '@'",
    "select 1/0, '@'",
    "select '@",
    "select xmlparse(content '<a>@</a>'), to_tsvector('english', '@')",
    "update t set j = jsonb_set(j, '{a}', '\"@\"') where j @? '$.a ? (@@ == \"@\")'",
];

fn event(sequence: usize, kind: EventKind, details: WireDetails) -> Event {
    Event {
        session: 1,
        sequence: sequence as u64,
        due_us: 1_700_000_000_000_000 + sequence as i64,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1,
        prelude: false,
        wire_details: Some(Arc::new(details)),
    }
}

/// Returns events with the word in every position.
fn events(word: &str) -> Vec<Event> {
    let with_word = |text: &str| {
        let kept = text.replace("@@", "\u{1}").replace("@?", "\u{2}");
        let planted = kept.replace('@', word);
        planted.replace('\u{1}', "@").replace('\u{2}', "@?")
    };
    let plain = WireDetails::default;
    let connect = WireDetails {
        settings: vec![
            ("application_name".into(), word.into()),
            ("app.tenant".into(), word.into()),
            ("options".into(), format!("-c app.user={word}").into()),
        ],
        ..plain()
    };
    let kind = EventKind::Connect {
        database: "shop".into(),
        user: "app".into(),
        application: word.into(),
    };
    let mut events = vec![event(0, kind, connect)];
    for text in STATEMENTS {
        let sql: Arc<str> = with_word(text).into();
        let simple = EventKind::Simple { sql: sql.clone() };
        events.push(event(events.len(), simple, plain()));
        let statement: Arc<str> = "".into();
        let prepare = EventKind::Prepare { statement, sql };
        events.push(event(events.len(), prepare, plain()));
    }
    let values = [
        Parameter::from(word),
        Parameter::from(word.as_bytes()),
        Parameter::from(format!("{{\"a\": \"{word}\"}}").as_str()),
        Parameter::from(format!("{{{word}}}").as_str()),
    ];
    let details = WireDetails {
        first_rows: Some(FirstRows {
            columns: vec!["a".into(); values.len()],
            values: values.iter().cloned().map(Some).collect(),
        }),
        ..plain()
    };
    let execute = EventKind::Execute {
        statement: "".into(),
        portal: "".into(),
        sql: "select set_config('app.a', $1, false), $2, $3, $4".into(),
        parameters: values.into_iter().map(Some).collect(),
    };
    events.push(event(events.len(), execute, details));
    for (sql, data) in [
        ("copy t from stdin", format!("1\t{word}\n2\ta\\t{word}\n")),
        (
            "copy t from stdin (format csv)",
            format!("1,\"{word}, \"\"{word}\"\"\"\n"),
        ),
    ] {
        let details = WireDetails {
            copy: Some(CopyIn {
                data: data.into_bytes().into(),
                failed: Some(word.into()),
            }),
            ..plain()
        };
        let kind = EventKind::Simple { sql: sql.into() };
        events.push(event(events.len(), kind, details));
    }
    events
}

/// Returns server events with the word in each text that may hold a value.
fn server_events(word: &str) -> Vec<ServerEvent> {
    let at = |kind| ServerEvent {
        at_us: 1_700_000_000_000_000,
        kind,
        sql: Some(format!("select '{word}' -- {word}").into()),
        ..ServerEvent::default()
    };
    let mut events = vec![ServerEvent {
        severity: Some(MessageSeverity::Error),
        message: Some(format!("no credit for {word}: \"{word}\"").into()),
        subject: Some("PL/pgSQL function f() line 3 at RAISE".into()),
        ..at(ServerEventKind::Message)
    }];
    for kind in [
        ServerEventKind::OutOfMemory,
        ServerEventKind::DiskFull,
        ServerEventKind::TooManyConnections,
        ServerEventKind::RecoveryConflict,
        ServerEventKind::ArchivingFailed,
    ] {
        events.push(ServerEvent {
            subject: Some(word.into()),
            ..at(kind)
        });
    }
    for lock in ["advisory lock", "user lock"] {
        events.push(ServerEvent {
            subject: Some(format!("ExclusiveLock on {lock} [5,0,{word},1]").into()),
            ..at(ServerEventKind::LockWait)
        });
    }
    events
}

/// Writes a masked workload with the word in every position.
fn write_masked(path: &Path, word: &str) {
    let key = MaskKey::parse("0123456789abcdef".repeat(4).as_bytes()).unwrap();
    let mut masker = Masker::new(Mask::new(key));
    let options = WriterOptions::default();
    let mut writer = WorkloadWriter::create(path, options, NoRedaction).unwrap();
    for event in events(word) {
        masker
            .mask_event(&event.borrowed(), |event| writer.event(event))
            .unwrap();
    }
    let session = Session {
        id: 1,
        database: "shop".into(),
        user: "app".into(),
        application: word.into(),
        client: word.into(),
        start_us: 1_700_000_000_000_000,
        end_us: 1_700_000_000_001_000,
        start_seen: true,
        end_seen: true,
        statements: 0,
    };
    writer.session(masker.mask_session(session)).unwrap();
    for server_event in server_events(word) {
        writer
            .server_event(masker.mask_server_event(server_event))
            .unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
}

/// Returns everything in a workload as bytes: its files as they are, and their rows.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap().path();
        all.push((file.display().to_string(), std::fs::read(&file).unwrap()));
    }
    let reader = WorkloadReader::open(path).unwrap();
    for event in reader.events().unwrap() {
        let (event, _) = event.unwrap();
        let name = event.kind.sql().map_or(String::new(), ToString::to_string);
        all.push((name, format!("{event:?}").into_bytes()));
        let details = event.wire_details.iter();
        for copy in details.filter_map(|details| details.copy.clone()) {
            all.push(("COPY".to_owned(), copy.data.to_vec()));
        }
        if let EventKind::Execute { parameters, .. } = &event.kind {
            for value in parameters.iter().flatten() {
                all.push(("parameter".to_owned(), value.as_bytes().to_vec()));
            }
        }
    }
    for statement in reader.statements().unwrap() {
        let sql = statement.unwrap().sql;
        all.push((sql.clone(), sql.into_bytes()));
    }
    for context in reader.contexts().unwrap() {
        let text = format!("{:?}", context.unwrap());
        all.push(("context".to_owned(), text.into_bytes()));
    }
    for session in reader.sessions().unwrap() {
        let text = format!("{:?}", session.unwrap());
        all.push(("session".to_owned(), text.into_bytes()));
    }
    for event in reader.server_events().unwrap() {
        let text = format!("{:?}", event.unwrap());
        all.push(("server event".to_owned(), text.into_bytes()));
    }
    all
}

fn holds(bytes: &[u8], word: &str) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let word = word.to_ascii_lowercase();
    let hex: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    [word, hex].iter().any(|word| {
        let mut windows = lower.windows(word.len());
        windows.any(|window| window == word.as_bytes())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_support::cases(200)))]

    #[test]
    fn no_planted_word_is_in_the_bytes_of_a_masked_workload(
        word in "[A-Z][a-z]{9,14}[A-Z][a-z]{2}",
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        write_masked(&path, &word);
        for (place, bytes) in contents(&path) {
            prop_assert!(!holds(&bytes, &word), "{} is left: {}", word, place);
        }
    }
}

#[test]
fn planted_word_is_found_in_a_workload_that_is_not_masked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let options = WriterOptions::default();
    let mut writer = WorkloadWriter::create(&path, options, NoRedaction).unwrap();
    let planted = events("Geheimniswort");
    for event in &planted {
        writer.event(&event.borrowed()).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
    let found = contents(&path);
    let found = (found.iter()).filter(|(_, bytes)| holds(bytes, "Geheimniswort"));
    assert!(found.count() >= planted.len());
}
