use proptest::prelude::*;

use super::*;
use workload::{Event, EventKind, Outcome};

pub(super) fn mask() -> Mask {
    Mask::new(MaskKey::from_secret(b"a key for the tests"))
}

fn value(text: &str) -> String {
    let mut out = String::new();
    mask().mask_value(text, &mut out);
    out
}

fn sql(text: &str) -> String {
    let (mut out, mut account) = (String::new(), MaskAccount::default());
    mask().mask_sql(
        text,
        BackslashMeaning::Plain,
        &mut account,
        &mut ParameterRoles::default(),
        &mut out,
    );
    assert!(account.adds_up());
    // In a text that ends within a literal, words are masked too.
    let rules = BackslashMeaning::Plain.lexical_rules();
    let last = ::sql::Lexer::new(text).last();
    if !last.is_some_and(|last| last.is_unterminated(&text[last.start()..last.end()], rules)) {
        let normal = |text: &str| Fingerprinter::new().normalise(text).to_owned();
        assert_eq!(normal(text), normal(&out), "{text} {out}");
    }
    out
}

#[test]
fn tags_of_dollar_quotes_are_replaced() {
    let smith = value("Smith");
    for (text, masked) in [
        (
            "select $Smith$Smith$Smith$",
            format!("select $m${smith}$m$"),
        ),
        ("select $Smith$$Smith$", "select $m$$m$".to_owned()),
        (
            "do $Smith$begin perform $Jones$Smith $Jones$; end$Smith$",
            format!("do $mm$begin perform $m${smith} $m$; end$mm$"),
        ),
        ("select $Smith$Smith", format!("select $m${smith}$m$")),
    ] {
        assert_eq!(sql(text), masked);
    }
}

#[test]
fn literals_of_all_spellings_become_the_same() {
    let smith = value("Smith");
    for (before, after) in [
        ("'", "'"),
        ("E'", "'"),
        ("N'", "'"),
        ("U&'", "'"),
        ("$$", "$$"),
        ("$m$", "$m$"),
    ] {
        assert_eq!(
            sql(&format!(
                "select * from t where a = {before}Smith{after} and b"
            )),
            format!("select * from t where a = {before}{smith}{after} and b")
        );
    }
    let number = value("4711");
    for text in ["4711", "4_711", "0x1267"] {
        assert_eq!(sql(&format!("select {text}")), format!("select {number}"));
    }
    assert_eq!(
        sql("select '4711', -4711"),
        format!("select '{number}', -{number}")
    );
    for text in [
        "select E'a'$a$Smith$$a$, E'a'$$Smith$",
        "select E'a'$a$ $A$b$$c",
        "select $0, $70000, $1",
        "select 9copy--x",
        "select 12e-",
        "select 0x12g-1, 45_6, 1..10, 12.50e+03-4711",
    ] {
        sql(text);
    }
    assert_eq!(sql("select X'1267', B'101', 'cut"), {
        let masked = sql("select X'1267', B'101', 'cut");
        assert!(
            !masked.contains("1267") && !masked.contains("'cut"),
            "{masked}"
        );
        masked
    });
}

#[test]
fn what_says_what_to_do_stays() {
    for text in [
        "select a from t order by 2, 12 desc limit 100 offset 2000",
        "select a from t group by 1, 12 having true fetch first 50 rows only",
        "select a::varchar(120), cast(b as numeric(10, 2)) from t",
        "select * from t where at > now() - interval '36 hours' and b < now() - '3 days'::interval",
        "set work_mem = '64MB'; set local search_path = 'shop'; SET TIME ZONE 'Europe/Berlin'",
        "alter role app set work_mem to '128MB'",
        "select 'shop.orders'::regclass, nextval('orders_id_seq'), cast('orders' as regclass)",
        "select to_char(at, 'YYYY-MM-DD HH24'), date_trunc('month', at), at at time zone 'Europe/Berlin' from t",
        "select data->'address'->>'street', data #>> '{address,street}' from t where data ? 'street'",
        "select price * 119 / 100, id % 64 from t",
        "copy t (a, b) from stdin with (format csv, delimiter ',', null 'none', encoding 'latin1')",
        "create table t (a varchar(20) not null, b int default 4711 check (b < 9999)) with (fillfactor = 70)",
        "vacuum (parallel 12) t; select pg_sleep(0.25); analyze t; fetch 100 from c",
        "select * from generate_series(10, 99), unnest(a[10:20])",
        "select sum(a) over (order by b rows between 10 preceding and 20 following) from t",
        "select to_tsvector('english', a), set_config('work_mem', '64MB', true) from t",
        "/*+ IndexScan(t t_idx) */ select 1",
        "select $1, $22",
        "select extract('century' from a), extract(day from interval '36 hours') from t",
        "select jsonb_path_query(b, '$.address[*].\"a street\"'), b @? '$.c[12]' from t",
    ] {
        assert_eq!(sql(text), text);
    }
}

#[test]
fn what_is_data_does_not_stay() {
    for (text, secrets) in [
        (
            "select * from t where name like '%Smith%' or code = 4711",
            &["Smith", "4711"][..],
        ),
        (
            "select 1 -- by Smith\n from t /* for 4711 */ where a = 7",
            &["Smith", "4711"],
        ),
        (
            "insert into t values (4711, 'Smith', '{\"name\": \"Jones\"}'), (12, null, '{}')",
            &["4711", "Smith", "Jones", "12,"],
        ),
        (
            "explain analyze select * from t where a = 'Smith'",
            &["Smith"],
        ),
        ("explain (analyze) execute p('Smith')", &["Smith"]),
        (
            "set app.user = 'Smith'; set \"jwt.claims\" = '{\"sub\": \"Jones\"}'",
            &["Smith", "Jones"],
        ),
        ("set application_name = 'Smith'", &["Smith"]),
        ("set \"application_name\" = 'Smith'", &["Smith"]),
        ("select set_config($1, 'Smith', true)", &["Smith"]),
        ("select set_config('app.' || $1, 'Smith', true)", &["Smith"]),
        (
            "select extract(year from '1987-06-05'::date), extract('year' from timestamp '1986-06-05')",
            &["06-05"],
        ),
        (
            "select a from t where b @? '$.c ? (@.d == \"Smith\")' and b @@ '$.e == 4711'",
            &["Smith", "4711"],
        ),
        (
            "select jsonb_path_query_first(b, '$ ? (@ == \"Smith\")'), xpath('//a[.=\"Jones\"]', x) from t",
            &["Smith", "Jones"],
        ),
        ("select set_config('app.user', 'Smith', true)", &["Smith"]),
        (
            "do $$ begin update t set a = 'Smith' where b = 4711; -- Jones\n if a = 'Miller' then end if; end $$",
            &["Smith", "4711", "Jones", "Miller"],
        ),
        (
            "create function f() returns int language sql as 'select 4711 where a = ''Smith'''",
            &["Smith", "4711"],
        ),
        (
            "create procedure p() begin atomic insert into t values (4711, 'Smith'); update t set a = 4711; end",
            &["4711", "Smith"],
        ),
        (
            "create table x as select * from t where id = 4711",
            &["4711"],
        ),
        (
            "alter table t alter column a set default 'Smith'",
            &["Smith"],
        ),
        ("comment on table t is 'of Smith'", &["Smith"]),
        (
            "copy (select * from t where a = 'Smith') to stdout with (format csv)",
            &["Smith"],
        ),
        ("copy t from stdin where a <> 'Smith'", &["Smith"]),
        (
            "select * from t where a ~ '^Smith[0-9]+$' and b similar to 'Jones%'",
            &["Smith", "Jones"],
        ),
        (
            "select * from t order by a <-> 4711, b - 4712",
            &["4711", "4712"],
        ),
        (
            "notify c, 'Smith'; begin; prepare p as select 4711",
            &["Smith", "4711"],
        ),
        (
            "select * from t where data @> '{\"name\": \"Smith\"}'",
            &["Smith"],
        ),
    ] {
        let masked = sql(text);
        for secret in secrets {
            assert!(!masked.contains(secret), "{secret} in {masked}");
        }
    }
    assert_eq!(
        sql("do $$ begin perform 4711; end $$"),
        format!("do $$ begin perform {}; end $$", value("4711"))
    );
    assert!(sql("copy (select 'Smith') to stdout with (format csv)").ends_with("(format csv)"));
}

fn execute(sql: &str, parameters: Vec<Option<Parameter>>, particulars: WireDetails) -> Event {
    Event {
        session: 1,
        sequence: 1,
        due_us: 0,
        kind: EventKind::Execute {
            statement: "s".into(),
            portal: "".into(),
            sql: sql.into(),
            parameters,
        },
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1,
        prelude: false,
        wire_details: Some(Arc::new(particulars)),
    }
}

fn masked(masker: &mut Masker, event: &Event) -> Event {
    masker.mask_event(&event.borrowed(), |event| event.to_event())
}

#[test]
fn parameters_are_masked_by_their_place_and_type() {
    let event = execute(
        "select * from t where a = $1 and b = $2 and c ~ $3 limit $4",
        vec![
            Some("4711".into()),
            Some(Parameter::from(&4711i32.to_be_bytes()[..])),
            Some("^Smith[A-Z]+".into()),
            Some("50".into()),
            None,
        ],
        WireDetails {
            parameter_types: vec![0, 23],
            result_digest: Some(17),
            copy: None,
            first_rows: Some(FirstRows {
                columns: vec!["name".into()],
                values: vec![Some("Smith".into()), None],
            }),
            ..WireDetails::default()
        },
    );
    let mut masker = Masker::new(mask());
    let masked = masked(&mut masker, &event);
    let EventKind::Execute { parameters, .. } = &masked.kind else {
        panic!("{masked:?}");
    };
    let number: i32 = value("4711").parse().unwrap();
    assert_eq!(parameters[0], Some(value("4711").into()));
    assert_eq!(
        parameters[1],
        Some(Parameter::from(&number.to_be_bytes()[..]))
    );
    assert_eq!(
        parameters[2],
        Some(format!("^{}[A-Z]+", value("Smith")).into())
    );
    assert_eq!(parameters[3], Some("50".into()));
    assert_eq!(parameters[4], None);
    let particulars = masked.wire_details.unwrap();
    assert_eq!(particulars.result_digest, None);
    assert_eq!(
        particulars.first_rows.as_ref().unwrap().values,
        [Some(value("Smith").into()), None]
    );
    let account = masker.account();
    assert!(account.adds_up());
    assert_eq!(
        (account.parameters.values, account.parameters.masked),
        (4, 3)
    );
    assert_eq!(account.parameters.kept[&KeepReason::Position], 1);
    assert_eq!((account.result_values.values, account.digests), (1, 1));
}

#[test]
fn the_value_of_a_setting_that_a_parameter_names_is_data_where_applications_made_it_up() {
    let texts = |values: &[&str]| -> Vec<Option<Parameter>> {
        values.iter().map(|value| Some((*value).into())).collect()
    };
    let mut masker = Masker::new(mask());
    for (values, after) in [
        (["app.user", "Smith"], ["app.user", &*value("Smith")]),
        (["search_path", "shop"], ["search_path", "shop"]),
    ] {
        let sql = "select set_config($1, $2, true)";
        let masked = masked(
            &mut masker,
            &execute(sql, texts(&values), WireDetails::default()),
        );
        let EventKind::Execute { parameters, .. } = &masked.kind else {
            panic!("{masked:?}");
        };
        assert_eq!(parameters, &texts(&after));
    }
    let event = execute(
        "select a from t where b @? $1::jsonpath",
        texts(&["$.a ? (@ == \"Smith\")"]),
        WireDetails::default(),
    );
    let EventKind::Execute { parameters, .. } = &masked(&mut masker, &event).kind else {
        panic!("{event:?}");
    };
    let path = format!("$.a ? (@ == \"{}\")", value("Smith"));
    assert_eq!(parameters, &texts(&[&path]));
    assert!(masker.account().adds_up());
}

#[test]
fn the_user_has_the_last_word() {
    let mut with = mask();
    with.keep_value(Pattern::name("ship*"));
    with.keep_statement(Pattern::statement("from holidays").unwrap());
    let mut masker = Masker::new(with);
    let keeps = |masker: &mut Masker, sql: &str| {
        let event = execute(sql, vec![Some("Smith".into())], WireDetails::default());
        masked(masker, &event)
    };
    let event = keeps(&mut masker, "select 4711 from holidays where a = $1");
    assert_eq!(
        &**event.kind.sql().unwrap(),
        "select 4711 from holidays where a = $1"
    );
    assert!(
        matches!(&event.kind, EventKind::Execute { parameters, .. } if parameters[0] == Some("Smith".into()))
    );
    let event = keeps(
        &mut masker,
        "update orders set state = 'shipped' where a = 'Smith'",
    );
    let sql = event.kind.sql().unwrap();
    assert!(sql.contains("'shipped'") && !sql.contains("Smith"), "{sql}");
    assert_eq!(masker.account().literals.kept[&KeepReason::Requested], 1);
}

#[test]
fn other_keys_give_other_values() {
    let other = Mask::new(MaskKey::from_secret(b"another key for tests"));
    for text in [
        "4711",
        "Smith",
        "2026-03-05 11:22:33.456",
        "6f1b8a3e-9c4d-4e2f-8a1b-0c2d3e4f5a6b",
        "10.1.2.3",
        "12.57",
        "\\x0123",
    ] {
        let mut out = String::new();
        other.mask_value(text, &mut out);
        assert_ne!(out, value(text));
        assert_ne!(value(text), text);
        assert_eq!(value(text), value(text));
    }
}

proptest! {
    #[test]
    fn any_text_keeps_its_fingerprint(
        text in "(select|set|do|copy|create function|alter|[a-z_$(),;:.<>=*/%|~-]|'|''|E'|\\$a\\$|--|/\\*|\\*/|[0-9.]{1,4}| |\\n|\"|\\\\|é){0,40}"
    ) {
        sql(&text);
    }

    #[test]
    fn values_keep_their_length(text in "[a-zA-Z0-9@. _%-]{0,30}") {
        // `1e1` is ten, and becomes `1.7e1`.
        let has_exponent = text.contains(['e', 'E']) && text.parse::<f64>().is_ok();
        prop_assume!(!has_exponent);
        prop_assert_eq!(value(&text).chars().count(), text.chars().count());
    }

    #[test]
    fn different_values_stay_different(one in "[a-z]{1,3}[0-9]{0,3}", other in "[a-z]{1,3}[0-9]{0,3}") {
        prop_assert_eq!(one == other, value(&one) == value(&other));
    }

    #[test]
    fn any_bytes_can_be_masked(bytes in prop::collection::vec(any::<u8>(), 0..40), oid in prop::sample::select(vec![0u32, 16, 17, 20, 23, 25, 700, 701, 869, 1007, 1082, 1114, 1186, 1266, 1560, 1700, 2950, 3802, 99_999])) {
        mask().mask_binary(oid, &bytes);
        let mut counts = MaskedValues::default();
        for sql in ["copy t from stdin", "copy t from stdin csv", "copy t from stdin binary"] {
            mask().mask_copy(&CopyFormat::from_statement(sql), &bytes, &mut counts);
        }
        prop_assert!(counts.adds_up());
    }
}

#[test]
fn settings_at_the_start_of_a_session_are_told_apart() {
    let setting = |name: &str, value: &str| (name.into(), value.into());
    let event = Event {
        kind: EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: "Smith".into(),
        },
        ..execute(
            "",
            Vec::new(),
            WireDetails {
                settings: vec![
                    setting("TimeZone", "Europe/Berlin"),
                    setting("app.user", "Smith"),
                    // A client's setting with a similar name.
                    setting("reported.name", "Smith"),
                    setting("options", "-c work_mem=64MB -c app.user=Smith"),
                ],
                ..WireDetails::default()
            },
        )
    };
    let mut masker = Masker::new(mask());
    let masked = masked(&mut masker, &event);
    let smith = value("Smith");
    assert_eq!(
        masked.wire_details.unwrap().settings,
        [
            setting("TimeZone", "Europe/Berlin"),
            setting("app.user", &smith),
            setting("reported.name", &smith),
            setting("options", &format!("-c work_mem=64MB -c app.user={smith}")),
        ]
    );
    assert!(
        matches!(&masked.kind, EventKind::Connect { application, user, .. } if **application == *smith && &**user == "app")
    );
    assert!(masker.account().adds_up());
}

#[test]
fn a_literal_is_read_as_its_session_reads_it() {
    let (brien, ann) = (value("O'Brien").replace('\'', "''"), value("Ann"));
    let mut out = String::new();
    let mut off = |text: &str| {
        let (mut account, mut roles) = (MaskAccount::default(), ParameterRoles::default());
        out.clear();
        mask().mask_sql(
            text,
            BackslashMeaning::Escapes,
            &mut account,
            &mut roles,
            &mut out,
        );
        assert!(account.adds_up());
        out.clone()
    };
    // With its E, the output is parsed the same under either setting.
    assert_eq!(
        off(r"select 'O\'Brien', 'Ann', x from t where y='O\'Brien'"),
        format!("select E'{brien}', '{ann}', x from t where y=E'{brien}'")
    );
    assert_eq!(off(r"select'O\'Brien'"), format!("select E'{brien}'"));
    // Unchanged if there is no backslash, and in other spellings.
    assert_eq!(off("select 'Ann', $$Ann$$"), sql("select 'Ann', $$Ann$$"));
    assert_eq!(
        sql(&off(r"select 'C:\\Ann\\'")),
        sql(&format!(
            r"select E'{}'",
            value(r"C:\Ann\").replace('\\', r"\\")
        ))
    );
    // In code within a literal as well.
    let code = off(r"do 'begin perform f(\'Ann\'); end'");
    assert!(code.contains(&ann) && !code.contains("Ann"), "{code}");
    // The segments of a continued literal are one value.
    let joined = value(r"HelloC:\temp").replace('\\', r"\\");
    assert_eq!(
        off("select 'Hello'\n'C:\\\\temp'"),
        format!("select E'{joined}'")
    );
    assert_eq!(
        off("select 'Hello' -- Ann\r'Ann'"),
        format!("select '{}'", value("HelloAnn"))
    );
    assert_eq!(
        off(r"select N'O\'Brien', 1"),
        format!("select N'{brien}', 1")
    );
    assert_eq!(off(r"select a$'O\'Brien'"), format!("select a$ E'{brien}'"));
    // Kept literals as well.
    assert_eq!(
        off(r"copy t from stdin null '\\N'"),
        r"copy t from stdin null E'\\N'"
    );
    // Otherwise a backslash is a plain character.
    assert_eq!(
        sql(r"select 'C:\', 'Ann'"),
        format!(r"select '{}', '{ann}'", value(r"C:\"))
    );
}

#[test]
fn where_it_is_not_sure_what_a_backslash_is_nothing_in_a_literal_stays() {
    let mut out = String::new();
    let mut unsure = |text: &str| {
        let (mut account, mut roles) = (MaskAccount::default(), ParameterRoles::default());
        out.clear();
        mask().mask_sql(
            text,
            BackslashMeaning::Unsure,
            &mut account,
            &mut roles,
            &mut out,
        );
        assert!(account.adds_up());
        out.clone()
    };
    for text in [
        r"select 'O\'Brien Secretname', 1",
        r"select 'C:\', 'Secretname'",
        r"select 'C:\', interval 'Secretname'",
        r"select 'it\'s; set Secretname = on; --Secretname'",
        r"select N'O\'Brien Secretname', 1",
        r#"select 'a\'b "Secretname" $$Secretname$$'"#,
    ] {
        let masked = unsure(text);
        assert!(!masked.contains("Secretname"), "{text} {masked}");
    }
    // If both readings agree, the text is masked as usual.
    for text in [
        "select 'Ann', x from t",
        r"select 'C:\Ann', x",
        r"select E'O\'Brien', x",
    ] {
        assert_eq!(unsure(text), sql(text));
    }
}

#[test]
fn a_session_that_says_so_is_masked_so() {
    let particulars = WireDetails {
        settings: vec![("reported.standard_conforming_strings".into(), "off".into())],
        ..WireDetails::default()
    };
    let connect = Event {
        kind: EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: "".into(),
        },
        ..execute("", Vec::new(), particulars)
    };
    let asks = |session| Event {
        session,
        ..execute(
            r"select 'O\'Brien secret\'', 1",
            Vec::new(),
            WireDetails::default(),
        )
    };
    let mut masker = Masker::new(mask());
    assert_eq!(
        masked(&mut masker, &connect).wire_details,
        connect.wire_details
    );
    let text = |event: Event| event.kind.sql().unwrap().to_string();
    let off = text(masked(&mut masker, &asks(connect.session)));
    assert!(!off.contains("secret") && !off.contains("Brien"), "{off}");
    // Nothing is known of another session.
    let on = text(masked(&mut masker, &asks(connect.session + 1)));
    assert!(on.contains("secret"), "{on}");
    // Unless it may have changed the setting: then no literal of either reading is kept.
    let says = execute(
        "select set_config($1, $2, $3)",
        vec![Some("standard_conforming_strings".into())],
        WireDetails::default(),
    );
    let says = Event {
        session: connect.session + 1,
        ..says
    };
    masked(&mut masker, &says);
    let unsure = text(masked(&mut masker, &asks(connect.session + 1)));
    assert!(!unsure.contains("secret"), "{unsure}");
}

#[test]
fn text_that_ends_within_a_token_keeps_no_word_of_a_value() {
    let masked = |text: &str| {
        let (mut out, mut account) = (String::new(), MaskAccount::default());
        let roles = &mut ParameterRoles::default();
        mask().mask_sql(text, BackslashMeaning::Plain, &mut account, roles, &mut out);
        assert!(account.adds_up());
        out
    };
    for text in [
        "do $$ begin Secretname := 1",
        "do $$ begin x := 'a'; perform Secretname; $x$ $",
        "do 'begin Secretname := 1",
        "create function f() returns int as $f$ select Secretname",
        "create function f() returns int as 'select Secretname",
        "select 'Secretname",
        "select E'a\\'Secretname'",
        "select U&'Secretname\\",
        "select U&'a' uescape 'Secretname",
        "select N'Secretname",
        "select B'Secretname",
        "select X'Secretname",
        "select 1 as \"Secretname",
        "select 1 as U&\"Secretname",
        "select 1 /* Secretname",
        "select 1 /*+ Secretname",
        "select 1 /* a /* Secretname */",
        "set app.x = 'Secretname",
        "set work_mem = 'Secretname",
        "select * from t where a ~ '[Secretname]",
        "select * from t where a = interval 'Secretname",
        "copy t from '/a' with (delimiter 'Secretname",
        // A quote in a value that is not doubled shifts all quotes after it.
        "select * from t where a = 'O'Brien Secretname'",
        "select * from t where a = 'O'Brien' and b = 'Secretname'",
        "select * from t where a = 'O'Brien \"Secretname\"' or b = 1",
        "insert into t values ('a', 'it's Secretname', 'b')",
        "select * from t where a = \"O\"Secretname\" or b = 1",
        // Code without its statement.
        "+ do $$ begin Secretname := 1; end $$",
    ] {
        let masked = masked(text);
        assert!(!masked.contains("Secretname"), "{text}: {masked}");
    }
    // The names before the first literal stay, so that a truncated statement can be recognised.
    let truncated = masked("select \"id\" from orders where \"name\" = 'Smi");
    assert!(truncated.starts_with("select \"id\" from orders where \"name\" = '"));
}

#[test]
fn text_with_a_syntax_error_keeps_no_word_after_its_first_literal() {
    let masked = |sqlstate: Option<&[u8; 5]>| {
        let mut event = Event {
            session: 1,
            sequence: 0,
            due_us: 0,
            // With an even number of quotes, no literal is unterminated.
            kind: EventKind::Simple {
                sql: "select a from t where b = 'O'Brien Secretname and c = 'x'".into(),
            },
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        };
        event.outcome.sqlstate = sqlstate.map(|code| workload::Sqlstate(*code));
        let mut masker = Masker::new(mask());
        let masked = masker.mask_event(&event.borrowed(), |event| event.to_event());
        masked.kind.sql().unwrap().to_string()
    };
    assert!(masked(None).contains("Secretname"));
    let refused = masked(Some(b"42601"));
    assert!(!refused.contains("Secretname"), "{refused}");
    assert!(refused.starts_with("select a from t where b = 'O'"));
}
