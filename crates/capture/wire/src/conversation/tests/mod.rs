//! Tests conversations of messages, passed as a whole and cut at every byte.

use protocol::frontend::{
    Close, CopyData, CopyDone, Describe, Execute, Flush, Parse, Query, Sync, Target, Terminate,
    bind, parse, startup,
};
use protocol::{Format, PROTOCOL_3_0};
use workload::{
    Boundary, Event, EventKind, Parameter, ResultFormat, RowDigest, Unreplayable, WireDetails,
};

mod connections;
mod too_long;
mod unreplayable;

use super::*;
use capture_sink::EventCollector;

/// The traffic in order.
#[derive(Debug, Clone, Default)]
struct Talk(Vec<(Side, Vec<u8>)>);

impl Talk {
    fn says(mut self, side: Side, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.0.push((side, bytes));
        self
    }

    fn client(self, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.says(Side::Client, write)
    }

    /// Adds messages of the server: tags and bodies.
    fn server(self, messages: &[(u8, &[u8])]) -> Self {
        self.says(Side::Server, |out| {
            for (tag, body) in messages {
                out.push(*tag);
                out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
                out.extend_from_slice(body);
            }
        })
    }

    /// Returns a session that has begun.
    fn begun() -> Self {
        Talk::default()
            .client(|out| {
                let parameters: [(&[u8], &[u8]); 4] = [
                    (b"user", b"ann"),
                    (b"database", b"shop"),
                    (b"application_name", b"till"),
                    (b"TimeZone", b"UTC"),
                ];
                startup::encode(PROTOCOL_3_0, parameters, out).unwrap();
            })
            .server(&[
                (b'R', b"\0\0\0\0"),
                (b'S', b"client_encoding\0UTF8\0"),
                (b'K', b"\0\0\0\x07wxyz"),
                (b'Z', b"I"),
            ])
    }

    fn query(self, sql: &str) -> Self {
        self.client(|out| query(sql, out))
    }

    /// Decodes the traffic, with each piece a millisecond after the previous one.
    fn hear(&self) -> (EventCollector, DecoderAccount) {
        self.hear_cut(&Side::Client, 0, usize::MAX)
    }

    fn hear_cut(&self, side: &Side, piece: usize, cut: usize) -> (EventCollector, DecoderAccount) {
        let mut sink = EventCollector::default();
        let mut conversations = ProtocolDecoder::new(DecoderOptions {
            digest: true,
            ..DecoderOptions::default()
        });
        conversations.start_recording(0, &mut sink).unwrap();
        conversations.open_connection(1, "10.0.0.1:5000", 0, true);
        for (index, (whose, bytes)) in self.0.iter().enumerate() {
            let at_us = 1000 * index as i64;
            let cut = match index == piece && whose == side {
                true => cut.min(bytes.len()),
                false => bytes.len(),
            };
            for part in [&bytes[..cut], &bytes[cut..]] {
                conversations
                    .handle_bytes(1, *whose, at_us, 0, part, &mut sink)
                    .unwrap();
            }
        }
        let end_us = 1000 * self.0.len() as i64;
        conversations
            .close_connection(1, end_us, &mut sink)
            .unwrap();
        (sink, conversations.account().clone())
    }

    /// Returns the events, after checking that cuts change nothing.
    fn events(&self) -> Vec<Event> {
        let (whole, account) = self.hear();
        assert_eq!(account.unreadable, Default::default());
        for (piece, (side, bytes)) in self.0.iter().enumerate() {
            for cut in 0..bytes.len() {
                let (cut_sink, cut_account) = self.hear_cut(side, piece, cut);
                assert_eq!(cut_sink, whole, "piece {piece} cut at {cut}");
                assert_eq!(cut_account, account, "piece {piece} cut at {cut}");
            }
        }
        assert_eq!(account.events, whole.events.len() as u64);
        for (sequence, event) in whole.events.iter().enumerate() {
            assert_eq!(event.sequence, sequence as u64);
        }
        whole.events
    }

    /// Returns the statements as texts.
    fn statements(&self) -> Vec<String> {
        let events = self.events();
        let statements = events.iter().filter(|event| event.kind.is_statement());
        statements.map(said).collect()
    }
}

fn query(sql: &str, out: &mut Vec<u8>) {
    let sql = sql.as_bytes();
    Query { sql }.encode(out).unwrap();
}

fn prepare(name: &str, sql: &str, out: &mut Vec<u8>) {
    parse::encode(name.as_bytes(), sql.as_bytes(), [], out).unwrap();
}

fn bound(portal: &str, name: &str, values: &[&str], out: &mut Vec<u8>) {
    let values = values.iter().map(|value| Some(value.as_bytes()));
    bind::encode(portal.as_bytes(), name.as_bytes(), [], values, [], out).unwrap();
}

fn describe(target: Target<'_>, out: &mut Vec<u8>) {
    Describe { target }.encode(out).unwrap();
}

fn execute(portal: &str, rows_max: i32, out: &mut Vec<u8>) {
    let portal = portal.as_bytes();
    Execute { portal, rows_max }.encode(out).unwrap();
}

/// Summarises an event: the request and its result.
fn said(event: &Event) -> String {
    let particulars = event.wire_details.clone().unwrap_or_default();
    let mut said = format!("{} ", event.kind.name());
    if let EventKind::Execute {
        statement,
        portal,
        parameters,
        ..
    } = &event.kind
    {
        let values = parameters.iter().map(|value| match value {
            Some(value) => value.readable().unwrap_or("?").to_owned(),
            None => "NULL".to_owned(),
        });
        let values = values.collect::<Vec<_>>().join(",");
        said += &format!("{statement}/{portal}({values}) ");
    }
    said += event.kind.sql().map_or("", |sql| sql);
    if let Some(rows) = event.outcome.rows {
        said += &format!(" rows={rows}");
    }
    if let Some(sqlstate) = event.outcome.sqlstate {
        said += &format!(" {sqlstate}");
    }
    if !particulars.awaited {
        said += " piped";
    }
    if particulars.boundary != Boundary::Sync {
        said += &format!(" {}", particulars.boundary.name());
    }
    if let Some(reason) = event.unreplayable {
        said += &format!(" {}", reason.name());
    }
    said
}

const ROW: &[u8] = b"\0\x01\0\0\0\x0242";
const ID: &[u8] = b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const ERROR: &[u8] = b"SERROR\0VERROR\0C42P01\0Mno such table\0\0";

#[test]
fn what_backslashes_mean_is_known_from_the_servers_word() {
    let begins = |strings: &'static [u8]| {
        let talk = Talk::default().client(|out| {
            startup::encode(PROTOCOL_3_0, [(&b"user"[..], &b"ann"[..])], out).unwrap();
        });
        let talk = talk.server(&[(b'R', b"\0\0\0\0"), (b'S', strings), (b'Z', b"I")]);
        let talk = talk.query("SELECT 1");
        talk.server(&[
            (b'C', b"SELECT 1\0"),
            (b'S', b"standard_conforming_strings\0off\0"),
            (b'Z', b"I"),
        ])
    };
    let settings = |talk: Talk| {
        let particulars = talk.events()[0].wire_details.clone();
        particulars.map_or_else(Vec::new, |known| known.settings.clone())
    };
    assert_eq!(
        settings(begins(b"standard_conforming_strings\0off\0")),
        [("reported.standard_conforming_strings".into(), "off".into())]
    );
    assert_eq!(settings(begins(b"what is none")), []);
    assert_eq!(settings(begins(b"standard_conforming_strings\0on\0")), []);
}

#[test]
fn a_query_has_its_rows_times_and_digest() {
    let talk = Talk::begun()
        .query("SELECT id FROM t")
        .server(&[(b'T', ID), (b'D', ROW), (b'D', ROW), (b'C', b"SELECT 2\0")])
        .server(&[(b'Z', b"I")])
        .client(|out| Terminate.encode(out));
    let events = talk.events();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(kinds, ["connect", "simple", "disconnect"]);
    let connect = events[0].wire_details.as_ref().unwrap();
    assert_eq!(
        connect.settings,
        [
            ("TimeZone".into(), "UTC".into()),
            ("reported.process_id".into(), "7".into())
        ]
    );
    let select = &events[1];
    assert_eq!(
        (select.due_us, select.outcome.duration_us),
        (2000, Some(2000))
    );
    assert_eq!(select.outcome.rows, Some(2));
    let digest = RowDigest::of(ROW).wrapping_mul(2);
    let particulars = WireDetails {
        result_digest: Some(digest),
        ..WireDetails::default()
    };
    assert_eq!(select.wire_details.as_deref(), Some(&particulars));
    assert_eq!(events[2].due_us, 5000);
    let (sink, account) = talk.hear();
    let session = &sink.sessions[0];
    assert_eq!((&*session.user, &*session.client), ("ann", "10.0.0.1:5000"));
    assert!(session.start_seen && session.end_seen);
    assert_eq!((session.statements, session.end_us), (1, 5000));
    assert_eq!((account.sessions, account.statements), (1, 1));
}

#[test]
fn rows_that_are_copied_out_are_summed_up_in_any_order() {
    let digest = |rows: [&[u8]; 3]| {
        let copied = rows.map(|row| (b'd', row));
        let talk = Talk::begun()
            .query("COPY t TO STDOUT")
            .server(&[(b'H', b"\0\0\x01\0\0")])
            .server(&copied)
            .server(&[(b'c', b""), (b'C', b"COPY 3\0"), (b'Z', b"I")]);
        let copy = talk.events().remove(1);
        assert_eq!(copy.outcome.rows, Some(3));
        copy.wire_details.unwrap().result_digest.unwrap()
    };
    let sum = [&b"1\n"[..], b"2\n", b"2\n"].map(RowDigest::of);
    let sum = sum.into_iter().fold(0, u64::wrapping_add);
    assert_eq!(digest([b"1\n", b"2\n", b"2\n"]), sum);
    assert_eq!(digest([b"2\n", b"1\n", b"2\n"]), sum);
    assert_ne!(digest([b"1\n", b"1\n", b"2\n"]), sum);
}

#[test]
fn what_is_prepared_and_executed_in_one_group_is_one_event() {
    let talk = Talk::begun()
        .client(|out| {
            prepare("", "SELECT $1", out);
            bound("", "", &["7"], out);
            describe(Target::Portal(b""), out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[
            (b'1', b""),
            (b'2', b""),
            (b'T', ID),
            (b'D', ROW),
            (b'C', b"SELECT 1\0"),
            (b'Z', b"I"),
        ])
        // Prepared in a group of its own: that is an event, and each execution is one.
        .client(|out| {
            prepare("s1", "UPDATE t SET a = $1", out);
            describe(Target::Statement(b"s1"), out);
            Sync.encode(out);
        })
        .server(&[
            (b'1', b""),
            (b't', b"\0\x01\0\0\0\x17"),
            (b'n', b""),
            (b'Z', b"I"),
        ]);
    let executes = |talk: Talk, value: &str, rows: &str| {
        talk.client(|out| {
            bound("", "s1", &[value], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[
            (b'2', b""),
            (b'C', format!("UPDATE {rows}\0").as_bytes()),
            (b'Z', b"I"),
        ])
    };
    let talk = executes(executes(talk, "1", "3"), "2", "0");
    assert_eq!(
        talk.statements(),
        [
            "execute /(7) SELECT $1 rows=1",
            "prepare UPDATE t SET a = $1",
            "execute s1/(1) UPDATE t SET a = $1 rows=3",
            "execute s1/(2) UPDATE t SET a = $1 rows=0",
        ]
    );
}

#[test]
fn a_pipeline_is_seen_as_one_and_what_fails_takes_the_rest_of_its_group() {
    let one = |value: &str, out: &mut Vec<u8>| {
        prepare("", "SELECT $1", out);
        bound("", "", &[value], out);
        execute("", 0, out);
    };
    let talk = Talk::begun()
        .client(|out| {
            one("1", out);
            one("2", out);
            Flush.encode(out);
            one("3", out);
            Sync.encode(out);
            one("4", out);
            Sync.encode(out);
        })
        .server(&[
            (b'1', b""),
            (b'2', b""),
            (b'C', b"SELECT 1\0"),
            (b'1', b""),
            (b'E', ERROR),
            (b'Z', b"I"),
            (b'1', b""),
            (b'2', b""),
            (b'C', b"SELECT 1\0"),
            (b'Z', b"I"),
        ]);
    assert_eq!(
        talk.statements(),
        [
            "execute /(1) SELECT $1 rows=1 nothing",
            "execute /(2) SELECT $1 42P01 piped flush",
            "execute /(3) SELECT $1 piped",
            "execute /(4) SELECT $1 rows=1 piped",
        ]
    );
}

#[test]
fn a_statement_that_does_not_parse_fails_with_its_values() {
    let talk = Talk::begun()
        .client(|out| {
            prepare("", "SELEC $1", out);
            bound("", "", &["1"], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'E', ERROR), (b'Z', b"I")])
        // A Parse that waits for its answer and fails never gets to executing.
        .client(|out| {
            prepare("s", "SELEC", out);
            Flush.encode(out);
        })
        .server(&[(b'E', ERROR)])
        .client(|out| Sync.encode(out))
        .server(&[(b'Z', b"I")])
        .query("SELECT 1")
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")]);
    assert_eq!(
        talk.statements(),
        [
            "execute /(1) SELEC $1 42P01",
            "prepare SELEC 42P01",
            "simple SELECT 1 rows=1",
        ]
    );
}

#[test]
fn portals_are_fetched_from_and_closed() {
    let talk = Talk::begun()
        .query("BEGIN")
        .server(&[(b'C', b"BEGIN\0"), (b'Z', b"T")])
        .client(|out| {
            prepare("", "SELECT * FROM t", out);
            bound("p", "", &[], out);
            execute("p", 2, out);
            Flush.encode(out);
        })
        .server(&[
            (b'1', b""),
            (b'2', b""),
            (b'D', ROW),
            (b'D', ROW),
            (b's', b""),
        ])
        .client(|out| {
            execute("p", 2, out);
            let target = Target::Portal(b"p");
            Close { target }.encode(out).unwrap();
            Sync.encode(out);
        })
        .server(&[
            (b'D', ROW),
            (b'C', b"SELECT 1\0"),
            (b'3', b""),
            (b'Z', b"T"),
        ]);
    let events = talk.events();
    let statements: Vec<String> = events[2..4].iter().map(said).collect();
    assert_eq!(
        statements,
        [
            "execute /p() SELECT * FROM t rows=2 flush",
            "fetch SELECT * FROM t rows=1",
        ]
    );
    let rows_max = |event: &Event| event.wire_details.as_ref().unwrap().rows_max;
    assert_eq!(
        (rows_max(&events[2]), rows_max(&events[3])),
        (Some(2), Some(2))
    );
}

#[test]
fn copy_data_belong_to_their_statement_in_either_protocol() {
    let data = |out: &mut Vec<u8>, pieces: &[&[u8]]| {
        for data in pieces {
            CopyData { data }.encode(out).unwrap();
        }
        CopyDone.encode(out);
    };
    let talk = Talk::begun()
        .query("COPY t FROM STDIN")
        .server(&[(b'G', b"\0\0\x01\0\0")])
        .client(|out| data(out, &[b"1\n2", b"\n"]))
        .server(&[(b'C', b"COPY 2\0"), (b'Z', b"I")])
        // A library sends its Sync at once, which the server ignores, and another one at the
        // end.
        .client(|out| {
            prepare("", "COPY u FROM STDIN", out);
            bound("", "", &[], out);
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[(b'1', b""), (b'2', b""), (b'G', b"\0\0\x01\0\0")])
        .client(|out| {
            data(out, &[b"3\n"]);
            Sync.encode(out);
        })
        .server(&[(b'C', b"COPY 1\0"), (b'Z', b"I")])
        .query("COPY t TO STDOUT")
        .server(&[
            (b'H', b"\0\0\x01\0\0"),
            (b'd', b"1\n"),
            (b'c', b""),
            (b'C', b"COPY 1\0"),
            (b'Z', b"I"),
        ]);
    let events = talk.events();
    let statements: Vec<String> = events[1..4].iter().map(said).collect();
    assert_eq!(
        statements,
        [
            "simple COPY t FROM STDIN rows=2",
            "execute /() COPY u FROM STDIN rows=1",
            "simple COPY t TO STDOUT rows=1",
        ]
    );
    let copied = |event: &Event| {
        let copy = event.wire_details.as_ref().unwrap().copy.as_ref();
        copy.map(|copy| copy.data.to_vec())
    };
    assert_eq!(copied(&events[1]), Some(b"1\n2\n".to_vec()));
    assert_eq!(copied(&events[2]), Some(b"3\n".to_vec()));
    assert_eq!(copied(&events[3]), None);
}

#[test]
fn copy_data_that_come_unasked_are_kept_for_what_asks_for_them() {
    let data = |out: &mut Vec<u8>| {
        CopyData { data: b"1\n" }.encode(out).unwrap();
        CopyDone.encode(out);
    };
    let talk = Talk::begun()
        .client(|out| {
            query("COPY t FROM STDIN", out);
            data(out);
        })
        .server(&[(b'G', b"\0\0\x01\0\0")])
        .server(&[(b'C', b"COPY 1\0"), (b'Z', b"I")])
        // In messages, with a Sync that is ignored and one that is not.
        .client(|out| {
            prepare("", "COPY u FROM STDIN", out);
            bound("", "", &[], out);
            execute("", 0, out);
            Sync.encode(out);
            data(out);
            Sync.encode(out);
            query("SELECT 1", out);
        })
        .server(&[(b'1', b""), (b'2', b""), (b'G', b"\0\0\x01\0\0")])
        .server(&[(b'C', b"COPY 1\0"), (b'Z', b"I")])
        .server(&[(b'C', b"SELECT 1\0"), (b'Z', b"I")])
        // For one that the server refuses, and then one that it takes.
        .client(|out| {
            query("COPY nowhere FROM STDIN", out);
            data(out);
        })
        .server(&[(b'E', ERROR), (b'Z', b"I")])
        .query("COPY t FROM STDIN")
        .server(&[(b'G', b"\0\0\x01\0\0")])
        .client(|out| CopyDone.encode(out))
        .server(&[(b'C', b"COPY 0\0"), (b'Z', b"I")]);
    let events = talk.events();
    let statements: Vec<String> = events[1..6].iter().map(said).collect();
    assert_eq!(
        statements,
        [
            "simple COPY t FROM STDIN rows=1",
            "execute /() COPY u FROM STDIN rows=1",
            "simple SELECT 1 rows=1 piped",
            "simple COPY nowhere FROM STDIN 42P01",
            "simple COPY t FROM STDIN rows=0",
        ]
    );
    let copied = |event: &Event| {
        let copy = event.wire_details.as_ref().unwrap().copy.as_ref();
        copy.map(|copy| copy.data.to_vec())
    };
    let copied: Vec<_> = events[1..6].iter().map(copied).collect();
    let one = Some(b"1\n".to_vec());
    assert_eq!(copied, [one.clone(), one, None, None, Some(Vec::new())]);
}

#[test]
fn a_copy_whose_end_was_not_seen_is_not_one_that_was_done() {
    let begins = || {
        Talk::begun()
            .query("COPY t FROM STDIN")
            .server(&[(b'G', b"\0\0\x01\0\0")])
            .client(|out| CopyData { data: b"1\n" }.encode(out).unwrap())
    };
    let copy = |event: &Event| event.wire_details.as_ref().unwrap().copy.clone();
    // The server rejects the rest: a replay fails in the same way.
    let failed = begins().server(&[(b'E', ERROR), (b'Z', b"I")]).events();
    assert_eq!(said(&failed[1]), "simple COPY t FROM STDIN 42P01");
    let copied = copy(&failed[1]).unwrap();
    assert!(copied.failed.is_some() && *copied.data == *b"1\n");
    // The outcome is unknown.
    let open = begins().events();
    assert_eq!(said(&open[1]), "simple COPY t FROM STDIN copy_data_missing");
    assert_eq!(copy(&open[1]), None);
    // The other results of a cut-off answer are unknown, too.
    let cut = Talk::begun()
        .query("SELECT id FROM t")
        .server(&[(b'T', ID), (b'D', ROW)])
        .events();
    let particulars = cut[1].wire_details.as_ref().unwrap();
    assert_eq!(
        (particulars.result_digest, cut[1].outcome.rows),
        (None, None)
    );
}

#[test]
fn types_forms_and_made_up_values_are_kept() {
    let talk = Talk::begun()
        .client(|out| {
            Parse::encode(
                &Parse::decode(b"s\0INSERT INTO t VALUES ($1) RETURNING id\0\0\x01\0\0\0\x17")
                    .unwrap(),
                out,
            )
            .unwrap();
            describe(Target::Statement(b"s"), out);
            Sync.encode(out);
        })
        .server(&[
            (b'1', b""),
            (b't', b"\0\x01\0\0\0\x17"),
            (b'T', ID),
            (b'Z', b"I"),
        ])
        .client(|out| {
            let value = [Some(&b"\0\0\0\x07"[..])];
            let formats = [Format::Binary];
            bind::encode(b"", b"s", formats, value, formats, out).unwrap();
            execute("", 0, out);
            Sync.encode(out);
        })
        .server(&[
            (b'2', b""),
            (b'D', b"\0\x01\0\0\0\x04\0\0\x01\0"),
            (b'C', b"INSERT 0 1\0"),
            (b'Z', b"I"),
        ]);
    let events = talk.events();
    let particulars = events[2].wire_details.as_ref().unwrap();
    assert_eq!(particulars.parameter_types, [23]);
    assert_eq!(particulars.result_formats, [ResultFormat::Binary]);
    let row = particulars.first_rows.as_ref().unwrap();
    assert_eq!(row.columns, ["id".into()]);
    assert_eq!(
        row.values,
        [Some(Parameter::Binary((*b"\0\0\x01\0").into()))]
    );
    let EventKind::Execute { parameters, .. } = &events[2].kind else {
        panic!("{:?}", events[2])
    };
    assert_eq!(
        parameters,
        &[Some(Parameter::Binary((*b"\0\0\0\x07").into()))]
    );
}

#[test]
fn all_rows_of_an_insert_and_the_first_of_others_are_kept() {
    for (sql, kept) in [
        (
            "INSERT INTO a VALUES (1), (2) RETURNING id",
            &["7", "8"][..],
        ),
        ("UPDATE a SET n = 1 RETURNING id", &["7"]),
        // The rows of the second one are not appended to those of the first.
        (
            "INSERT INTO a VALUES (1) RETURNING id; INSERT INTO a VALUES (2) RETURNING id",
            &["7"],
        ),
    ] {
        let row = |text: &str| [b"\0\x01\0\0\0\x01", text.as_bytes()].concat();
        let (first, second) = (row("7"), row("8"));
        let mut messages = vec![(b'T', ID), (b'D', &first[..])];
        if sql.contains(';') {
            messages.extend([
                (b'C', &b"INSERT 0 1\0"[..]),
                (b'T', ID),
                (b'D', &first),
                (b'D', &second),
            ]);
        } else {
            messages.push((b'D', &second));
        }
        messages.extend([(b'C', &b"INSERT 0 2\0"[..]), (b'Z', b"I")]);
        let talk = Talk::begun()
            .client(|out| query(sql, out))
            .server(&messages);
        let events = talk.events();
        let details = events[1].wire_details.as_ref().unwrap();
        let rows = details.first_rows.as_ref().unwrap();
        let kept = kept.iter().map(|text| Some(Parameter::from(*text)));
        assert_eq!(rows.values, kept.collect::<Vec<_>>(), "{sql}");
    }
}
