//! Valid conversations, one side each: what the fuzzers start from, and what the tests of
//! truncation cut.

use protocol::backend;
use protocol::backend::{
    Authentication, CommandComplete, CopyDirection, FieldDescription, ReadyForQuery, Report,
    TransactionStatus,
};
use protocol::frontend;
use protocol::frontend::Target;
use protocol::{Format, PROTOCOL_3_0, PROTOCOL_3_2};

/// A name for a file, and bytes.
pub type Sample = (&'static str, Vec<u8>);

fn sample(name: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> Sample {
    let mut bytes = Vec::new();
    write(&mut bytes);
    (name, bytes)
}

const NO_FORMATS: [Format; 0] = [];

/// Packets of the start-up phase.
pub fn startup() -> Vec<Sample> {
    use frontend::startup::{CancelRequest, StartupPacket, encode};
    let parameters = [
        (&b"user"[..], &b"ann"[..]),
        (b"database", b"shop"),
        (b"application_name", b""),
    ];
    vec![
        sample("startup", |out| {
            encode(PROTOCOL_3_0, parameters, out).unwrap()
        }),
        sample("startup-3.2", |out| {
            encode(
                PROTOCOL_3_2,
                [(&b"user"[..], &b"u"[..]), (b"_pq_.x", b"1")],
                out,
            )
            .unwrap();
        }),
        sample("ssl-request", |out| {
            StartupPacket::SslRequest.encode(out).unwrap()
        }),
        sample("gssenc-request", |out| {
            StartupPacket::GssEncRequest.encode(out).unwrap()
        }),
        sample("cancel-request", |out| {
            let secret_key = b"a longer key of thirty-two bytes";
            CancelRequest {
                process_id: 4711,
                secret_key,
            }
            .encode(out)
            .unwrap();
        }),
    ]
}

/// Messages of clients.
pub fn frontend() -> Vec<Sample> {
    let terminate = sample("terminate", |out| frontend::Terminate.encode(out));
    [
        queries(),
        copies_and_calls(),
        authentication_responses(),
        vec![terminate],
    ]
    .concat()
}

/// Queries in the simple and in the extended protocol.
fn queries() -> Vec<Sample> {
    use frontend::{Close, Describe, Execute, Flush, Query, Sync, bind, parse};
    vec![
        sample("query", |out| {
            Query {
                sql: b"BEGIN; SELECT 1",
            }
            .encode(out)
            .unwrap();
            Query { sql: b"" }.encode(out).unwrap();
        }),
        sample("extended-unnamed", |out| {
            parse::encode(b"", b"SELECT $1::int, $2", [23, 0], out).unwrap();
            let parameters = [Some(&b"42"[..]), None];
            bind::encode(b"", b"", NO_FORMATS, parameters, [Format::Text], out).unwrap();
            Describe {
                target: Target::Portal(b""),
            }
            .encode(out)
            .unwrap();
            Execute {
                portal: b"",
                rows_max: 0,
            }
            .encode(out)
            .unwrap();
            Sync.encode(out);
        }),
        sample("extended-named", |out| {
            parse::encode(b"s1", b"SELECT $1", [], out).unwrap();
            Describe {
                target: Target::Statement(b"s1"),
            }
            .encode(out)
            .unwrap();
            Flush.encode(out);
            let formats = [Format::Binary, Format::Text, Format::Other(7)];
            let parameters = [Some(&b"\0\0\0\x07"[..]), Some(b""), None];
            bind::encode(b"p1", b"s1", formats, parameters, formats, out).unwrap();
            Execute {
                portal: b"p1",
                rows_max: 100,
            }
            .encode(out)
            .unwrap();
            Close {
                target: Target::Portal(b"p1"),
            }
            .encode(out)
            .unwrap();
            Close {
                target: Target::Statement(b"s1"),
            }
            .encode(out)
            .unwrap();
            Sync.encode(out);
        }),
    ]
}

/// COPY's data, and a function call.
fn copies_and_calls() -> Vec<Sample> {
    use frontend::{CopyData, CopyDone, CopyFail, function_call};
    vec![
        sample("copy-in", |out| {
            CopyData { data: b"1\tone\n" }.encode(out).unwrap();
            CopyData { data: b"" }.encode(out).unwrap();
            CopyDone.encode(out);
        }),
        sample("copy-fail", |out| {
            CopyFail { reason: b"no more" }.encode(out).unwrap()
        }),
        sample("function-call", |out| {
            let arguments = [Some(&b"\0\0\0\x01"[..]), None];
            function_call::encode(954, [Format::Binary], arguments, Format::Binary, out).unwrap();
        }),
    ]
}

/// Answers to authentication requests.
fn authentication_responses() -> Vec<Sample> {
    use frontend::{GssResponse, PasswordMessage, SaslInitialResponse, SaslResponse};
    vec![
        sample("password", |out| {
            PasswordMessage {
                password: b"secret",
            }
            .encode(out)
            .unwrap()
        }),
        sample("sasl", |out| {
            let mechanism = b"SCRAM-SHA-256";
            SaslInitialResponse {
                mechanism,
                data: Some(b"n,,n=,r=abc"),
            }
            .encode(out)
            .unwrap();
            SaslInitialResponse {
                mechanism,
                data: None,
            }
            .encode(out)
            .unwrap();
            SaslResponse {
                data: b"c=biws,r=abcdef,p=proof",
            }
            .encode(out)
            .unwrap();
        }),
        sample("gss", |out| {
            GssResponse { data: b"\x60token" }.encode(out).unwrap()
        }),
    ]
}

fn column(name: &[u8], type_oid: u32, format: Format) -> FieldDescription<'_> {
    FieldDescription {
        name,
        table_oid: 16_384,
        column_number: 1,
        type_oid,
        type_bytes: -1,
        type_modifier: -1,
        format,
    }
}

fn ready(status: TransactionStatus, out: &mut Vec<u8>) {
    ReadyForQuery { status }.encode(out);
}

fn complete(tag: &[u8], out: &mut Vec<u8>) {
    CommandComplete { tag }.encode(out).unwrap();
}

/// Messages of servers.
pub fn backend() -> Vec<Sample> {
    [
        authentication_requests(),
        welcomes(),
        results(),
        reports(),
        copies_and_call_results(),
    ]
    .concat()
}

/// Requests of authentication.
fn authentication_requests() -> Vec<Sample> {
    use backend::authentication;
    vec![
        sample("authentication-requests", |out| {
            Authentication::CleartextPassword.encode(out).unwrap();
            Authentication::Md5Password { salt: *b"salt" }
                .encode(out)
                .unwrap();
            Authentication::KerberosV5.encode(out).unwrap();
            Authentication::Gss.encode(out).unwrap();
            Authentication::Sspi.encode(out).unwrap();
            Authentication::GssContinue { data: b"token" }
                .encode(out)
                .unwrap();
        }),
        sample("sasl", |out| {
            let mechanisms = [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-256"];
            authentication::encode_sasl(mechanisms, out).unwrap();
            Authentication::SaslContinue {
                data: b"r=abc,s=,i=4096",
            }
            .encode(out)
            .unwrap();
            Authentication::SaslFinal {
                data: b"v=signature",
            }
            .encode(out)
            .unwrap();
        }),
    ]
}

/// Messages that end the start-up phase.
fn welcomes() -> Vec<Sample> {
    use backend::{KeyData, ParameterStatus, negotiate_protocol_version};
    vec![
        sample("welcome", |out| {
            Authentication::Ok.encode(out).unwrap();
            ParameterStatus {
                name: b"server_version",
                value: b"18.1",
            }
            .encode(out)
            .unwrap();
            KeyData {
                process_id: 4711,
                secret_key: b"wxyz",
            }
            .encode(out)
            .unwrap();
            ready(TransactionStatus::Idle, out);
        }),
        sample("welcome-3.2", |out| {
            negotiate_protocol_version::encode(PROTOCOL_3_2, &[b"_pq_.x"], out).unwrap();
            let secret_key = b"a longer key of thirty-two bytes";
            KeyData {
                process_id: 1,
                secret_key,
            }
            .encode(out)
            .unwrap();
        }),
    ]
}

/// Results of statements.
fn results() -> Vec<Sample> {
    use backend::{Acknowledgement as Ack, data_row, parameter_description, row_description};
    vec![
        sample("rows", |out| {
            let columns = [
                column(b"id", 23, Format::Text),
                column(b"note", 25, Format::Binary),
            ];
            row_description::encode(columns, out).unwrap();
            data_row::encode([Some(&b"1"[..]), Some(b"one")], out).unwrap();
            data_row::encode([Some(&b"2"[..]), None], out).unwrap();
            data_row::encode([Some(&b""[..]), Some(b"\0\xff")], out).unwrap();
            complete(b"SELECT 3", out);
            ready(TransactionStatus::InTransaction, out);
        }),
        sample("no-columns", |out| {
            row_description::encode([], out).unwrap();
            data_row::encode([None::<&[u8]>; 0], out).unwrap();
            complete(b"SELECT 1", out);
        }),
        sample("extended", |out| {
            Ack::ParseComplete.encode(out);
            parameter_description::encode([23, 25], out).unwrap();
            Ack::NoData.encode(out);
            Ack::BindComplete.encode(out);
            Ack::PortalSuspended.encode(out);
            complete(b"INSERT 0 5", out);
            Ack::EmptyQueryResponse.encode(out);
            Ack::CloseComplete.encode(out);
        }),
    ]
}

/// Errors, notices and notifications.
fn reports() -> Vec<Sample> {
    use backend::{Notification, error_notice};
    vec![
        sample("error", |out| {
            let fields = [
                (b'S', &b"FEHLER"[..]),
                (b'V', b"ERROR"),
                (b'C', b"42P01"),
                (b'M', b"relation \"x\" does not exist"),
                (b'P', b"15"),
            ];
            error_notice::encode(Report::Error, fields, out).unwrap();
            ready(TransactionStatus::Failed, out);
        }),
        sample("notice", |out| {
            let fields = [(b'V', &b"NOTICE"[..]), (b'C', b"00000"), (b'M', b"")];
            error_notice::encode(Report::Notice, fields, out).unwrap();
            error_notice::encode(Report::Notice, [], out).unwrap();
        }),
        sample("notification", |out| {
            Notification {
                process_id: 7,
                channel: b"jobs",
                payload: b"",
            }
            .encode(out)
            .unwrap();
        }),
    ]
}

/// COPY's start and data, and results of function calls.
fn copies_and_call_results() -> Vec<Sample> {
    use backend::{CopyData, CopyDone, FunctionCallResponse, copy_response};
    vec![
        sample("copy-out", |out| {
            let formats = [Format::Text, Format::Text];
            copy_response::encode(CopyDirection::Out, Format::Text, formats, out).unwrap();
            CopyData { data: b"1\tone\n" }.encode(out).unwrap();
            CopyDone.encode(out);
            complete(b"COPY 1", out);
        }),
        sample("copy-in-both", |out| {
            let formats = [Format::Binary];
            copy_response::encode(CopyDirection::In, Format::Binary, formats, out).unwrap();
            copy_response::encode(CopyDirection::Both, Format::Text, [], out).unwrap();
        }),
        sample("function-call", |out| {
            FunctionCallResponse {
                result: Some(b"\0\0\0\x01"),
            }
            .encode(out)
            .unwrap();
            FunctionCallResponse { result: None }.encode(out).unwrap();
        }),
    ]
}
