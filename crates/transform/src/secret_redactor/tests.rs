use std::sync::Arc;

use super::*;
use workload::{FirstRows, Outcome};

fn event<'a>(kind: KindRef<'a>, particulars: Option<&'a Arc<WireDetails>>) -> EventRef<'a> {
    EventRef {
        session: 1,
        sequence: 0,
        due_us: 0,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: particulars,
    }
}

/// Redacts a statement, whatever was executed before it.
fn executed(sql: &str, values: &[&str]) -> (Vec<String>, bool) {
    let mut redactor = SecretRedactor::default();
    let first = executed_after(&mut redactor, sql, values);
    // Another text of the same length without a secret.
    let other = "select $1 ".repeat(9);
    let other = &other[..sql.len().min(other.len())];
    executed_after(&mut redactor, other, &["5"]);
    executed_after(&mut redactor, sql, &["5"]);
    assert_eq!(executed_after(&mut redactor, sql, values), first, "{sql}");
    first
}

fn executed_after(
    redactor: &mut SecretRedactor,
    sql: &str,
    values: &[&str],
) -> (Vec<String>, bool) {
    let values: Vec<_> = values
        .iter()
        .map(|value| Some(Parameter::from(*value)))
        .collect();
    let row = Arc::new(WireDetails {
        first_rows: Some(FirstRows {
            columns: vec!["x".into()],
            values: vec![Some(Parameter::from("S3cret"))],
        }),
        ..WireDetails::default()
    });
    let kind = KindRef::Execute {
        statement: "",
        portal: "",
        sql,
        parameters: Parameters::Values(&values),
    };
    let event = event(kind, Some(&row));
    let redacted = redactor.redact_event(&event);
    let event = redacted.as_ref().map_or(event, Event::borrowed);
    let KindRef::Execute { parameters, .. } = event.kind else {
        unreachable!("it is executed still");
    };
    let marked = event.unreplayable == Some(Unreplayable::SecretRemoved);
    let row_is_gone = event.wire_details.unwrap().first_rows.is_none();
    assert_eq!(row_is_gone, marked, "{sql}");
    let values = parameters.iter().map(|value| {
        let value = value.expect("none is NULL").readable();
        value.expect("all are text").to_owned()
    });
    (values.collect(), marked)
}

#[test]
fn secrets_in_parameters_are_taken_out() {
    for (sql, values, kept) in [
        (
            "select dblink_connect($1)",
            &["host=h password=S3cret"][..],
            &[][..],
        ),
        ("select f($1)", &["postgres://u:S3cret@h/d"], &[]),
        (
            "select dblink_exec($1, $2)",
            &["host=h", "alter role x password 'S3cret'"],
            &["host=h"],
        ),
        (
            "select set_config($1, $2, false)",
            &["app.password", "S3cret"],
            &["app.password"],
        ),
        (
            "select set_config('app.token', $1, $2)",
            &["S3cret", "f"],
            &[],
        ),
        ("set app.token = $1", &["S3cret"], &[]),
        (
            "select set_config(k, v, true) from unnest($1::text[], $2::text[]) x(k, v)",
            &["{app.secret}", "{S3cret}"],
            &[],
        ),
        (
            "select format($1, $2::text)",
            &["alter role u password %L", "S3cret"],
            &[],
        ),
        (
            "select http_header($1, $2)",
            &["Authorization", "S3cret"],
            &["Authorization"],
        ),
        ("alter role a password $1", &["S3cret"], &[]),
        (
            "alter role a with encrypted password = $2",
            &["x", "S3cret"],
            &["x"],
        ),
        (
            "select format('alter role %I password %L', $1, $2)",
            &["x", "S3cret"],
            &[],
        ),
        ("update pg_authid set rolpassword = $1", &["S3cret"], &[]),
        (
            "insert into t values ($1)",
            &["SCRAM-SHA-256$4096:S3cret$a:b"],
            &[],
        ),
    ] {
        let (after, marked) = executed(sql, values);
        assert!(marked, "{sql}");
        assert!(
            !after.iter().any(|value| value.contains("S3cret")),
            "{sql}: {after:?}"
        );
        for value in kept {
            assert!(after.iter().any(|after| after == value), "{sql}: {after:?}");
        }
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        assert_eq!(executed(sql, &after).0, after, "{sql}");
    }
    for (sql, values) in [
        (
            "select set_config($1, $2, true)",
            &["request.jwt.claims", "{}"][..],
        ),
        (
            "update users set password = $1 where name = $2",
            &["x", "y"],
        ),
        (
            "insert into posts values ($1)",
            &["Forgot your password? See https://a.b/token"],
        ),
    ] {
        let (after, marked) = executed(sql, values);
        assert!(!marked && after == values, "{sql}: {after:?}");
    }
}

#[test]
fn secrets_in_a_connections_settings_are_taken_out() {
    let settings = |settings: &[(&str, &str)]| {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Arc::new(WireDetails {
            settings: settings.collect(),
            ..WireDetails::default()
        })
    };
    let before = settings(&[
        ("TimeZone", "UTC"),
        ("app.password", "S3cret"),
        (
            "options",
            "-c app.password=S3cret\\ S3cret  -c work_mem=4MB --app.dsn=password=S3cret -c a=b",
        ),
    ]);
    let after = settings(&[
        ("TimeZone", "UTC"),
        ("app.password", "********"),
        (
            "options",
            "-c app.password=********  -c work_mem=4MB --app.dsn=******** -c a=b",
        ),
    ]);
    let kind = KindRef::Connect {
        database: "d",
        user: "u",
        application: "",
    };
    let event = event(kind, Some(&before));
    let redacted = SecretRedactor::default().redact_event(&event);
    let redacted = redacted.expect("it has secrets");
    assert_eq!(redacted.wire_details, Some(after));
    assert_eq!(redacted.unreplayable, None);
}

#[test]
fn value_of_a_setting_that_a_parameter_names_is_redacted_by_its_place() {
    for value in ["hunter2abc", "mypassword1", "Tokenizer99", "app.secret"] {
        let (values, marked) = executed("select set_config($1, $2, false)", &["app.secret", value]);
        assert_eq!(values, ["app.secret", "********"], "{value}");
        assert!(marked);
    }
    let (values, _) = executed(
        "select set_config($2 || $3, $1, false), $4",
        &["mypassword1", "app.", "secret", "x"],
    );
    assert_eq!(values, ["********", "app.", "secret", "x"]);
    let (values, marked) = executed(
        "select set_config($1, $2, false), set_config('app.secret', $3, true)",
        &["app.tenant", "password", "S3cret"],
    );
    assert_eq!(values, ["app.tenant", "password", "********"]);
    assert!(marked);
}
