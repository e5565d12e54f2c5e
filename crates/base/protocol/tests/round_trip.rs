//! Round trips of any fields and any bytes: encoded messages decode to the same fields, and decoded messages
//! are encoded to the same bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::backend;
use protocol::backend::FieldDescription;
use protocol::frame::next_frame;
use protocol::frontend;
use protocol::{Format, PROTOCOL_3_0};

mod laws;

/// The body of the one message in `out`.
fn body(out: &[u8], tag: u8) -> &[u8] {
    let frame = next_frame(out, out.len())
        .unwrap()
        .expect("a whole message");
    assert_eq!((frame.tag, frame.message_bytes()), (tag, out.len()));
    frame.body
}

/// A string: anything without NUL, often empty.
fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8..=255, 0..12)
}

/// A string that is not empty.
fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8..=255, 1..12)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..24)
}

fn values() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
    vec(proptest::option::of(bytes()), 0..6)
}

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![
        Just(Format::Text),
        Just(Format::Binary),
        any::<i16>().prop_map(Format::from_code)
    ]
}

fn formats() -> impl Strategy<Value = Vec<Format>> {
    vec(format(), 0..5)
}

fn oids() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..5)
}

fn is_same(
    found: impl IntoIterator<Item = Option<impl AsRef<[u8]>>>,
    expected: &[Option<Vec<u8>>],
) -> bool {
    let owned = |value: Option<_>| value.map(|value: _| AsRef::<[u8]>::as_ref(&value).to_vec());
    found.into_iter().map(owned).eq(expected.iter().cloned())
}

proptest! {
    #[test]
    fn bind(
        portal in text(), statement in text(), parameter_formats in formats(),
        parameters in values(), result_formats in formats(),
    ) {
        let mut out = Vec::new();
        frontend::bind::encode(
            &portal, &statement, parameter_formats.iter().copied(),
            parameters.iter().map(Option::as_ref), result_formats.iter().copied(), &mut out,
        ).unwrap();
        let message = frontend::Bind::decode(body(&out, b'B')).unwrap();
        prop_assert_eq!((message.portal, message.statement), (&portal[..], &statement[..]));
        prop_assert!(message.parameter_formats.iter().eq(parameter_formats));
        prop_assert!(is_same(message.parameters, &parameters));
        prop_assert!(message.result_formats.iter().eq(result_formats));
        laws::frontend(&out);
    }

    #[test]
    fn parse(statement in text(), sql in text(), types in oids()) {
        let mut out = Vec::new();
        frontend::parse::encode(&statement, &sql, types.iter().copied(), &mut out).unwrap();
        let message = frontend::Parse::decode(body(&out, b'P')).unwrap();
        prop_assert_eq!((message.statement, message.sql), (&statement[..], &sql[..]));
        prop_assert!(message.parameter_types.iter().eq(types));
        laws::frontend(&out);
    }

    #[test]
    fn clients_messages_of_one_string(text in text(), rows_max in any::<i32>(), data in bytes()) {
        use frontend::*;
        for target in [Target::Statement(&text), Target::Portal(&text)] {
            for message in [Message::Describe(Describe { target }), Message::Close(Close { target })] {
                decodes_to_itself(message)?;
            }
        }
        decodes_to_itself(Message::Query(Query { sql: &text }))?;
        decodes_to_itself(Message::Execute(Execute { portal: &text, rows_max }))?;
        decodes_to_itself(Message::CopyFail(CopyFail { reason: &text }))?;
        decodes_to_itself(Message::CopyData(CopyData { data: &data }))?;
        decodes_to_itself(Message::AuthenticationReply(AuthenticationReply { body: &data }))?;
    }

    #[test]
    fn sasl_initial_response(mechanism in text(), data in proptest::option::of(bytes())) {
        let message = frontend::SaslInitialResponse { mechanism: &mechanism, data: data.as_deref() };
        let mut out = Vec::new();
        message.encode(&mut out).unwrap();
        prop_assert_eq!(frontend::SaslInitialResponse::decode(body(&out, b'p')), Ok(message));
        laws::frontend(&out);
    }

    #[test]
    fn function_call(
        function in any::<u32>(), argument_formats in formats(), arguments in values(),
        result_format in format(),
    ) {
        let mut out = Vec::new();
        frontend::function_call::encode(
            function, argument_formats.iter().copied(), arguments.iter().map(Option::as_ref),
            result_format, &mut out,
        ).unwrap();
        let message = frontend::FunctionCall::decode(body(&out, b'F')).unwrap();
        prop_assert_eq!((message.function, message.result_format), (function, result_format));
        prop_assert!(message.argument_formats.iter().eq(argument_formats));
        prop_assert!(is_same(message.arguments, &arguments));
        laws::frontend(&out);
    }

    #[test]
    fn startup(parameters in vec((name(), text()), 0..5)) {
        let pairs = parameters.iter().map(|(name, value)| (&name[..], &value[..]));
        let mut out = Vec::new();
        frontend::startup::encode(PROTOCOL_3_0, pairs.clone(), &mut out).unwrap();
        let message = frontend::startup::StartupMessage::decode(&out[4..]).unwrap();
        prop_assert!(message.parameters.iter().eq(pairs));
        laws::frontend(&out);
    }

    #[test]
    fn data_row(columns in values()) {
        let mut out = Vec::new();
        backend::data_row::encode(columns.iter().map(Option::as_ref), &mut out).unwrap();
        let message = backend::DataRow::decode(body(&out, b'D')).unwrap();
        prop_assert!(is_same(message.columns, &columns));
        laws::backend(&out);
    }

    #[test]
    fn row_description(fields in vec(
        (text(), any::<u32>(), any::<i16>(), any::<u32>(), any::<i16>(), any::<i32>(), format()), 0..5,
    )) {
        let fields: Vec<_> = fields.iter().map(|field| FieldDescription {
            name: &field.0, table_oid: field.1, column_number: field.2, type_oid: field.3,
            type_bytes: field.4, type_modifier: field.5, format: field.6,
        }).collect();
        let mut out = Vec::new();
        backend::row_description::encode(fields.iter().copied(), &mut out).unwrap();
        let message = backend::RowDescription::decode(body(&out, b'T')).unwrap();
        prop_assert!(message.iter().eq(fields));
        laws::backend(&out);
    }

    #[test]
    fn error_and_notice(fields in vec((1u8..=255, text()), 0..6)) {
        for (report, tag) in [(backend::Report::Error, b'E'), (backend::Report::Notice, b'N')] {
            let pairs = fields.iter().map(|(letter, value)| (*letter, &value[..]));
            let mut out = Vec::new();
            backend::error_notice::encode(report, pairs.clone(), &mut out).unwrap();
            let message = backend::ErrorNotice::decode(report, body(&out, tag)).unwrap();
            prop_assert!(message.iter().eq(pairs));
            laws::backend(&out);
        }
    }

    #[test]
    fn lists_of_servers(
        types in oids(), column_formats in formats(), mechanisms in vec(name(), 0..4),
        options in vec(text(), 0..4),
    ) {
        use backend::*;
        let mut out = Vec::new();
        parameter_description::encode(types.iter().copied(), &mut out).unwrap();
        let message = ParameterDescription::decode(body(&out, b't')).unwrap();
        prop_assert!(message.types.iter().eq(types));

        for direction in [CopyDirection::In, CopyDirection::Out, CopyDirection::Both] {
            out.clear();
            let columns = column_formats.iter().copied();
            copy_response::encode(direction, Format::Binary, columns.clone(), &mut out).unwrap();
            let message = CopyResponse::decode(direction, body(&out, direction.tag())).unwrap();
            prop_assert_eq!(message.format, Format::Binary);
            prop_assert!(message.column_formats.iter().eq(columns));
        }

        out.clear();
        let names = mechanisms.iter().map(|name| &name[..]);
        authentication::encode_sasl(names.clone(), &mut out).unwrap();
        let Ok(Authentication::Sasl { mechanisms }) = Authentication::decode(body(&out, b'R'))
            else { panic!("not SASL") };
        prop_assert!(mechanisms.iter().eq(names));

        out.clear();
        let options: Vec<&[u8]> = options.iter().map(|option| &option[..]).collect();
        negotiate_protocol_version::encode(PROTOCOL_3_0, &options, &mut out).unwrap();
        let message = NegotiateProtocolVersion::decode(body(&out, b'v')).unwrap();
        prop_assert!(message.options.iter().eq(options));
    }

    #[test]
    fn servers_messages_of_strings(
        a in text(), b in text(), process_id in any::<i32>(), secret_key in vec(any::<u8>(), 4..=256),
        data in bytes(), salt in any::<[u8; 4]>(), rows in any::<u64>(),
    ) {
        use backend::*;
        served(Message::CommandComplete(CommandComplete { tag: &a }))?;
        served(Message::ParameterStatus(ParameterStatus { name: &a, value: &b }))?;
        served(Message::Notification(Notification { process_id, channel: &a, payload: &b }))?;
        served(Message::KeyData(KeyData { process_id, secret_key: &secret_key }))?;
        served(Message::CopyData(CopyData { data: &data }))?;
        for result in [None, Some(&data[..])] {
            served(Message::FunctionCallResponse(FunctionCallResponse { result }))?;
        }
        for message in [
            Authentication::Md5Password { salt },
            Authentication::GssContinue { data: &data },
            Authentication::SaslContinue { data: &data },
            Authentication::SaslFinal { data: &data },
        ] {
            served(Message::Authentication(message))?;
        }
        let tag = format!("INSERT 0 {rows}");
        prop_assert_eq!(CommandComplete { tag: tag.as_bytes() }.rows(), Some(rows));
    }

    #[test]
    fn any_bytes(data in vec(any::<u8>(), 0..200)) {
        laws::frontend(&data);
        laws::backend(&data);
    }

    /// Small numbers, so that counts and lengths are often right.
    #[test]
    fn any_bytes_that_look_like_a_message(
        tag in proptest::sample::select(&b"BCcDdEFfHIKNnPpQRSsTtVvWXZ123A"[..]),
        data in vec(prop_oneof![8 => Just(0u8), 4 => 1u8..6, 1 => any::<u8>()], 0..60),
    ) {
        let data = [&[tag][..], &data].concat();
        laws::frontend(&data);
        laws::backend(&data);
    }
}

fn decodes_to_itself(message: frontend::Message<'_>) -> Result<(), TestCaseError> {
    let mut out = Vec::new();
    message.encode(&mut out).unwrap();
    prop_assert_eq!(
        frontend::Message::decode(out[0], body(&out, out[0])),
        Ok(message)
    );
    laws::frontend(&out);
    Ok(())
}

fn served(message: backend::Message<'_>) -> Result<(), TestCaseError> {
    let mut out = Vec::new();
    message.encode(&mut out).unwrap();
    prop_assert_eq!(
        backend::Message::decode(out[0], body(&out, out[0])),
        Ok(message)
    );
    laws::backend(&out);
    Ok(())
}
