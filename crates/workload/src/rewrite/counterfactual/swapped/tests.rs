//! Keys as numbers, in each form in which a client sends them.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::rewrite::counterfactual::tests::event as made_event;
use crate::rewrite::counterfactual::{RewriteAccount, Rewriter};

/// A server whose table `links` has the keys `00…`, `01…` and so on as its rows 1, 2 and so on.
struct Made {
    kind: KeyKind,
    rows: u8,
}

impl KeySource for Made {
    type Error = Infallible;

    fn columns(&mut self, name: &KeyName) -> Result<SwappedKey, Infallible> {
        let column = |table: &str, column: &str, place| KeyColumn {
            schema: "public".to_owned(),
            table: table.to_owned(),
            column: column.to_owned(),
            place,
        };
        assert_eq!(name.to_string(), "links.id");
        Ok(SwappedKey {
            kind: self.kind,
            columns: vec![column("links", "id", 0), column("visits", "link", 1)],
            namesakes: Vec::new(),
        })
    }

    fn numbers(
        &mut self,
        _: &KeyName,
        values: HashSet<Box<[u8]>>,
    ) -> Result<KeyNumbers, Infallible> {
        let number = |value: &[u8]| {
            let row = value.iter().all(|byte| *byte == value[0]) && value[0] < self.rows;
            row.then(|| i64::from(value[0]) + 1)
        };
        let known = values.into_iter().filter_map(|value| {
            let number = number(&value)?;
            Some((value, number))
        });
        Ok(KeyNumbers::new(known.collect(), i64::from(self.rows) + 1))
    }
}

fn event(kind: EventKind, particulars: Option<Particulars>) -> Event {
    Event {
        particulars: particulars.map(Arc::new),
        ..made_event(1, 0, kind)
    }
}

fn simple(sql: &str) -> Event {
    event(EventKind::Simple { sql: sql.into() }, None)
}

fn execute(sql: &str, values: &[Parameter], types: &[u32]) -> Event {
    event(
        EventKind::Execute {
            statement: "s".into(),
            portal: "".into(),
            sql: sql.into(),
            parameters: values.iter().cloned().map(Some).collect(),
        },
        Some(Particulars {
            parameter_types: types.to_vec(),
            ..Particulars::default()
        }),
    )
}

fn swapped(kind: KeyKind, events: &[Event]) -> (Vec<Event>, RewriteAccount) {
    swapped_with(&mut Made { kind, rows: 10 }, events)
}

fn swapped_with(
    source: &mut dyn KeySource<Error = Infallible>,
    events: &[Event],
) -> (Vec<Event>, RewriteAccount) {
    let mut rewriter = Rewriter::new(&"swap-key=links.id".parse().unwrap());
    let Ok(()) = rewriter.begin(source);
    assert!(rewriter.surveys());
    for one in events {
        rewriter.survey(one);
    }
    let Ok(()) = rewriter.surveyed(source);
    let mut out = Vec::new();
    let mut give = |event| {
        out.push(event);
        Ok::<(), Infallible>(())
    };
    for one in events {
        let Ok(()) = rewriter.event(one.clone(), &mut give);
    }
    let Ok(account) = rewriter.finish(&mut give);
    assert!(account.adds_up());
    (out, account)
}

fn hash(byte: u8) -> String {
    KeyKind::Bytea.text(&[byte; 32])
}

fn uuid(byte: u8) -> String {
    KeyKind::Uuid.text(&[byte; 16])
}

fn texts(events: &[Event]) -> Vec<&str> {
    let text = |event: &'_ Event| event.kind.sql().cloned();
    assert!(events.iter().all(|event| text(event).is_some()));
    events
        .iter()
        .filter_map(|event| event.kind.sql().map(|sql| &**sql))
        .collect()
}

#[test]
fn literals_become_numbers_of_rows_and_what_is_new_is_numbered_on() {
    let events = [
        simple(&format!("select * from links where id = '{}'", hash(3))),
        simple(&format!(
            r"select 1 from links where id = E'\{}'::bytea and a = 'x'",
            hash(0)
        )),
        simple(&format!("insert into links values ('{}', 7)", hash(200))),
        simple(&format!(
            "insert into visits (link) values ('{}')",
            hash(201)
        )),
        simple(&format!(
            "select * from links where id = any('{{\"\\\\{}\",\"\\\\{}\"}}'::bytea[])",
            &hash(1)[0..],
            &hash(200)[0..]
        )),
        simple(&format!(
            "delete from links where id = bytea '{}'",
            hash(200)
        )),
        simple(&format!("select * from others where id = '{}'", hash(1))),
        simple(&format!("select f('{}') from links", hash(1))),
        simple("select * from links where id = 'no key'"),
    ];
    let (out, account) = swapped(KeyKind::Bytea, &events);
    assert_eq!(
        texts(&out),
        [
            "select * from links where id = 4",
            "select 1 from links where id = 1::bigint and a = 'x'",
            "insert into links values (11, 7)",
            "insert into visits (link) values (12)",
            "select * from links where id = any('{2,11}'::bigint[])",
            "delete from links where id = bigint '11'",
            texts(&events)[6],
            texts(&events)[7],
            texts(&events)[8],
        ]
    );
    assert_eq!((account.reworded, account.unchanged), (6, 3));
    let left: Vec<(&str, u64)> = account
        .left_alone
        .iter()
        .map(|(why, count)| (why.as_str(), *count))
        .collect();
    assert_eq!(left, [(ELSEWHERE, 1), (NO_KEY, 1)]);
}

#[test]
fn parameters_become_numbers_in_either_form_and_their_types_too() {
    let sql = "select * from links where id = $1 and n = $2";
    let binary = |bytes: &[u8]| Parameter::from(bytes);
    let mut array: Vec<u8> = [1, 0, 2950, 1, 1, 16]
        .iter()
        .flat_map(|word: &i32| word.to_be_bytes())
        .collect();
    array.extend_from_slice(&[5; 16]);
    let events = [
        execute(sql, &[uuid(2).into(), "5".into()], &[2950, 23]),
        execute(sql, &[binary(&[2; 16]), "5".into()], &[0, 23]),
        execute(
            "select * from visits where link = any($1::uuid[])",
            &[binary(&array)],
            &[2951],
        ),
        execute("select n from visits where n = $1", &["6".into()], &[23]),
    ];
    let (out, account) = swapped(KeyKind::Uuid, &events);
    let of = |event: &Event| {
        let EventKind::Execute { parameters, .. } = &event.kind else {
            panic!("an execution");
        };
        let types = event.particulars.as_ref().unwrap().parameter_types.clone();
        (parameters[0].clone().unwrap(), types)
    };
    assert_eq!(of(&out[0]), ("3".into(), vec![20, 23]));
    assert_eq!(of(&out[1]), (binary(&3_i64.to_be_bytes()), vec![0, 23]));
    let numbers: Vec<u8> = [1, 0, 20, 1, 1, 8, 0, 6]
        .iter()
        .flat_map(|word: &i32| word.to_be_bytes())
        .collect();
    assert_eq!(of(&out[2]), (binary(&numbers), vec![1016]));
    assert_eq!(
        texts(&out)[2],
        "select * from visits where link = any($1::bigint[])"
    );
    assert_eq!(out[3].kind, events[3].kind);
    assert_eq!(out[3].particulars, events[3].particulars);
    assert_eq!((account.reworded, account.unchanged), (3, 1));
}

#[test]
fn a_parameter_is_swapped_once_and_only_where_it_is_a_key() {
    let own = "select * from links where id = $1 or id = $1";
    let events = [
        execute(own, &["a key of sixteen".into()], &[0]),
        execute(own, &["another of sixteen".into()], &[25]),
        // A place that is none by its type.
        execute(own, &["5".into()], &[23]),
        simple("select f('a key of sixteen') from links"),
        simple("select f('nowhere is this a key') from links"),
    ];
    let (out, account) = swapped_with(&mut OneText, &events);
    let first = |event: &Event| match &event.kind {
        EventKind::Execute { parameters, .. } => parameters[0].clone().unwrap(),
        _ => panic!("an execution"),
    };
    assert_eq!(first(&out[0]), "7".into());
    assert_eq!(first(&out[1]), "50".into());
    assert_eq!(first(&out[2]), "5".into());
    assert_eq!((account.reworded, account.unchanged), (2, 3));
    assert_eq!(account.left_alone.get(OTHER_TYPE), Some(&1));
    assert_eq!(account.left_alone.get(ELSEWHERE), Some(&1));
    // Also where it stands nowhere else.
    let (_, account) = swapped_with(&mut OneText, &events[3..]);
    assert_eq!(account.left_alone.get(ELSEWHERE), Some(&1));
}

/// A server with one row.
struct OneText;

impl KeySource for OneText {
    type Error = Infallible;

    fn columns(&mut self, name: &KeyName) -> Result<SwappedKey, Infallible> {
        let kind = KeyKind::Text;
        Made { kind, rows: 0 }.columns(name)
    }

    fn numbers(
        &mut self,
        _: &KeyName,
        values: HashSet<Box<[u8]>>,
    ) -> Result<KeyNumbers, Infallible> {
        let known = values
            .into_iter()
            .filter(|one| **one == *b"a key of sixteen");
        Ok(KeyNumbers::new(known.map(|one| (one, 7)).collect(), 50))
    }
}

#[test]
fn results_with_keys_in_them_are_not_compared() {
    let with = |sql: &str| Event {
        particulars: Some(Arc::new(Particulars {
            result_digest: Some(5),
            ..Particulars::default()
        })),
        ..simple(sql)
    };
    let events = [with("select * from links where n = 1"), with("select 1")];
    let (out, account) = swapped(KeyKind::Uuid, &events);
    let digest = |event: &Event| event.particulars.as_ref().unwrap().result_digest;
    assert_eq!((digest(&out[0]), digest(&out[1])), (None, Some(5)));
    assert_eq!(account.unchanged, 2);
}

#[test]
fn rows_of_a_copy_have_numbers_in_the_field_of_the_key() {
    let data = format!(
        "7\t\\{}\tx\n8\t\\N\ty\n9\t\\{}\tz\n\\.\n",
        hash(4),
        hash(99)
    );
    let copy = |sql: &str| {
        event(
            EventKind::Simple { sql: sql.into() },
            Some(Particulars {
                copy: Some(CopyIn {
                    data: data.as_bytes().into(),
                    failed: None,
                }),
                ..Particulars::default()
            }),
        )
    };
    let events = [
        copy("copy visits (at, link, n) from stdin"),
        copy("copy visits (at, n, a) from stdin"),
        copy("copy visits (at, link, n) from stdin csv"),
    ];
    let (out, account) = swapped(KeyKind::Bytea, &events);
    let data = |event: &Event| {
        let copy = event.particulars.as_ref().unwrap().copy.as_ref().unwrap();
        String::from_utf8(copy.data.to_vec()).unwrap()
    };
    assert_eq!(data(&out[0]), "7\t5\tx\n8\t\\N\ty\n9\t11\tz\n\\.\n");
    for at in [1, 2] {
        assert_eq!(data(&out[at]), data(&events[at]));
        assert_eq!(out[at].kind, events[at].kind);
    }
    assert_eq!((account.reworded, account.unchanged), (1, 2));
    assert_eq!(account.left_alone.len(), 1);
}

proptest! {
    /// The same value has the same number in every form, and another value another one.
    #[test]
    fn what_was_equal_stays_equal(bytes in prop::collection::vec(0u8..30, 1..40)) {
        let events: Vec<Event> = bytes
            .iter()
            .enumerate()
            .map(|(at, byte)| match at % 4 {
                0 => simple(&format!("select * from links where id = '{}'", uuid(*byte))),
                1 => simple(&format!("insert into links (a, id) values (1, '{}'::uuid)", uuid(*byte))),
                2 => execute("select * from visits v where v.link = $1", &[uuid(*byte).into()], &[2950]),
                _ => execute("select * from visits v where $1 = v.link", &[Parameter::from(&[*byte; 16][..])], &[0]),
            })
            .collect();
        let (out, _) = swapped(KeyKind::Uuid, &events);
        let number = |event: &Event| -> i64 {
            match &event.kind {
                EventKind::Execute { parameters, .. } => match parameters[0].as_ref().unwrap() {
                    Parameter::Text(text) => text.parse().unwrap(),
                    Parameter::Binary(bytes) => i64::from_be_bytes((**bytes).try_into().unwrap()),
                },
                kind => {
                    let sql = kind.sql().unwrap();
                    let digits: String = sql.rsplit([' ']).next().unwrap().chars().take_while(char::is_ascii_digit).collect();
                    digits.parse().unwrap()
                }
            }
        };
        for (at, one) in bytes.iter().enumerate() {
            for (other_at, other) in bytes.iter().enumerate() {
                prop_assert_eq!(one == other, number(&out[at]) == number(&out[other_at]));
            }
            if *one < 10 {
                prop_assert_eq!(number(&out[at]), i64::from(*one) + 1);
            }
        }
    }

    /// Whatever a text is, its places are within it, in order, and each once.
    #[test]
    fn places_are_in_any_text(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..24)) {
        let sql = words.join(" ");
        let mut source = Made { kind: KeyKind::Uuid, rows: 1 };
        let Ok(key) = source.columns(&KeyName::parse("links.id").unwrap());
        let found = places(&sql, &key);
        let mut end = 0;
        for place in &found.values {
            prop_assert!(place.token.start >= end && sql.get(place.token.clone()).is_some(), "{}", sql);
            end = place.token.end;
            prop_assert!(!found.others.iter().any(|other| other.token == place.token));
        }
        prop_assert!(found.types.iter().all(|range| sql.get(range.clone()).is_some()));
    }
}

const WORDS: [&str; 40] = [
    "select",
    "*",
    "from links",
    "from visits v",
    "join links l",
    "where",
    "and",
    "id",
    "v.link",
    "l . id",
    "=",
    "<",
    "<>",
    "(",
    ")",
    "[",
    "]",
    ",",
    "::",
    "uuid",
    "varchar(3)",
    "cast(",
    "as",
    "$1",
    "$2",
    "'a'",
    "7",
    "in",
    "any",
    "array[",
    "between",
    "not",
    "is distinct from",
    "case",
    "insert into links",
    "values",
    "copy visits",
    "from stdin",
    ";",
    "like",
];
