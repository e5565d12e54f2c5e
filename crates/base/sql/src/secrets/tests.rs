use proptest::prelude::*;

use super::*;

fn redacted(sql: &str) -> Option<String> {
    redact_sql(sql).map(|redacted| redacted.sql)
}

#[test]
fn passwords_are_taken_out() {
    for (sql, cleaned) in [
        (
            "ALTER ROLE app PASSWORD 'hunter2'",
            "ALTER ROLE app PASSWORD '********'",
        ),
        (
            "create user a with encrypted password E'hun\\'ter2' valid until '2030-01-01'; select 'x'",
            "create user a with encrypted password '********' valid until '2030-01-01'; select 'x'",
        ),
        (
            "ALTER USER a PASSWORD /* new */ $x$hunter2$x$",
            "ALTER USER a PASSWORD /**/ '********'",
        ),
        (
            "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password 'hunter2', \"password\" 'hunter2')",
            "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password '********', \"password\" '********')",
        ),
        (
            "CREATE SUBSCRIPTION s CONNECTION 'host=h Password = hunter2' PUBLICATION p",
            "CREATE SUBSCRIPTION s CONNECTION '********' PUBLICATION p",
        ),
        (
            "SELECT dblink_connect('é', 'password=hunter2')",
            "SELECT dblink_connect('é', '********')",
        ),
        (
            "DO $$ BEGIN CREATE ROLE app LOGIN PASSWORD 'hunter2'; END $$",
            "DO '********'",
        ),
        (
            "do $x$ begin execute 'alter role a password ''hunter2'''; end $x$; select 1",
            "do '********'; select 1",
        ),
        (
            "CREATE SUBSCRIPTION s CONNECTION 'postgresql://u:hunter2@h/db' PUBLICATION p",
            "CREATE SUBSCRIPTION s CONNECTION '********' PUBLICATION p",
        ),
    ] {
        assert_eq!(redacted(sql).as_deref(), Some(cleaned), "{sql}");
    }
}

#[test]
fn other_texts_are_left_alone() {
    for sql in [
        "SELECT 1",
        "SELECT password FROM users WHERE password = 'x'",
        "ALTER ROLE app PASSWORD NULL",
        "UPDATE users SET password = $1 WHERE id = $2",
        "INSERT INTO words VALUES ('the password is', 'nopassword=1')",
        "INSERT INTO links VALUES ('https://a@b.c', 'postgres://u@h/d:e')",
        "SELECT 'ann@b.c', $1 || '://', $$password$$, $$",
    ] {
        assert_eq!(redacted(sql), None, "{sql}");
    }
}

/// Each has `S3cret` where it must not stay.
const WITH_SECRETS: &[&str] = &[
    // Commands.
    "copy t from program 'PGPASSWORD=S3cret psql -h x'",
    "copy t from program 'psql --password=S3cret'",
    "copy t from program 'curl -u u:S3cret http://h/'",
    "copy t to program 'curl http://u:S3cret@h/'",
    "copy t from program 'mysql -pS3cret'",
    // Comments.
    "/* alter role a password 'S3cret' */ select 1",
    "select 1 -- alter role a password 'S3cret'",
    "select 'a' -- alter role a password 'S3cret'\n'b'",
    "select U&'a' /* alter role a password 'S3cret' */ uescape '!'",
    "select 1 --\r; alter role a password 'S3cret'",
    "alter role a password U&\"d!0061ta\" uescape '!' 'S3cret'",
    "alter role a password /* password 'S3cret' */ null",
    "alter role a password /* 'S3cret' */ null",
    "alter role a password 'x' -- was 'S3cret' before",
    "select 1 /* postgres://u:S3cret@h/d */",
    // SQL in literals.
    "do $$ declare pw text := 'S3cret'; begin execute format('alter role a password %L', pw); end $$",
    "do $$ begin execute format('create role r login password %L', 'S3cret'); end $$",
    "do $$ begin execute 'alter role r password ' || quote_literal('S3cret'); end $$",
    "select format('alter role %I password %L', 'r', 'S3cret')",
    "select 'alter role a password $$S3cret$$'",
    "select $a$alter role x password 'S3cret'$a$",
    "select 'alter role x password ' || '''S3cret'''",
    "select 'host=h password=' || 'S3cret'",
    "create function f() returns void language sql as $f$ alter role a password 'S3cret' $f$",
    // Options, verifiers.
    "create user mapping for u server s options (user 'p', sslpassword 'S3cret')",
    "create user mapping for u server s options (\"user\" 'p', \"Password\" 'S3cret')",
    "alter user mapping for u server s options (set password 'S3cret', passwd 'S3cret', secret 'S3cret')",
    "update pg_authid set rolpassword = 'SCRAM-SHA-256$4096:S3cret$a:b' where rolname = 'z'",
    "update pg_authid set rolpassword = 'S3cret'",
    // Connection strings.
    "alter subscription s connection E'host=x password=\\'S3cret\\''",
    "alter subscription s connection 'host=x pass'\n'word=S3cret'",
    "alter subscription s connection E'host=x pass\\x77ord=S3cret'",
    "create subscription s connection $$host=x sslpassword=S3cret$$ publication p",
    "execute pw('user=x password=S3cret')",
    "insert into links values ('http://u:S3cret@h')",
    "explain select dblink('host=h passwd = S3cret', 'x')",
    // Settings.
    "set app.password = 'S3cret'",
    "set local app.jwt_secret to S3cret",
    "set \"app.token\" = 'a', \"S3cret\", S3cret",
    "alter role a set app.password = 'S3cret'",
    "set app.password = 'S3cret' select 'postgres://u:S3cret@h/d'",
    "create function f() returns int set app.secret = 'S3cret' as 'select dblink(''password=S3cret'')'",
    "select set_config('app.password', 'S3cret', false), 'postgres://u:S3cret@h/d'",
    "alter database d set app.api_key to 'S3cret'",
    "create function f() returns int language sql set app.secret = 'S3cret' as 'select 1'",
    "select set_config('app.password', 'S3cret', false)",
    "alter system set primary_conninfo = 'host=h password=S3cret'",
    "set app.jwt = 'S3cret'",
    "set vault.sid = 'S3cret'",
    "set app.key = 'S3cret'",
    "select set_config('app.' || 'password', 'S3cret', false)",
    "select set_config('request.headers', '{\"authorization\":\"Bearer S3cret123\"}', true)",
    "alter system set archive_command = 'aws S3cret cp'",
    // By place.
    "create server s foreign data wrapper w options (host 'h', passfile 'S3cret', other 'S3cret')",
    "alter user mapping for u server s options (add anything 'S3cret', set \"x\" 'S3cret')",
    "create function f() returns text language plpython3u as $$token = 'S3cret'$$",
    "do language plperl $$ my $password = q(S3cret); $$",
    "select pgp_sym_encrypt('data', 'S3cret'), crypt('S3cret', gen_salt('bf'))",
    "select hmac('d', 'S3cret', 'sha256')",
    "select login('a', password => 'S3cret'), f(token := 'S3cret')",
    "-- password: S3cret\nselect 1",
    "select 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.S3cret'",
    "select \"set_config\"('app.secret', 'S3cret', true)",
    "set U&\"app.\\0073ecret\" = 'S3cret'",
    "select set_config(n, v, false) from (values ('app.secret', 'S3cret')) x(n, v)",
    "select set_config('app.secret', v, false) from (values ('S3cret')) x(v)",
    "select set_config(k, v, true) from jsonb_each_text('{\"app.secret\": \"S3cret\"}') x(k, v)",
    "execute s('app.secret', 'S3cret')",
    "select f(secret => 'a' || 'S3cret' || 'S3cret', 'x')",
    "select http_header('Authorization', 'S3cret'), http_header('X-Api-Key', 'S3cret')",
    "select '-----BEGIN PRIVATE KEY-----S3cret'",
    // Mistyped.
    "alter role u pasword 'S3cret'",
    "create user u passwrod 'S3cret'",
    "alter user a password \"S3cret\"",
    "alter user a password=S3cret",
    "alter user a password = 'S3cret'",
    "alter user a password('S3cret')",
    "alter user a password S3cret!S3cret; select 1",
    "alter user a set password 'S3cret'",
    "alter user a identified by 'S3cret'",
    "alter user a identified with x by S3cret",
    "alter user a passwort 'S3cret'",
    "alter user a password\u{a0}'S3cret'",
    "alter\u{a0}user\u{a0}a\u{a0}password\u{a0}=\u{a0}'S3cret'",
    "alter user a password 'x' valid until 'S3cret'",
    "create role a in role b password U&'\\0053S3cret'",
    // A backslash may escape, or not.
    "alter role a password 'x\\'S3cret'",
    "select dblink_connect('password=x\\'S3cret')",
];

#[test]
fn nothing_of_a_secret_is_left() {
    for sql in WITH_SECRETS {
        let cleaned = redacted(sql).unwrap_or_else(|| panic!("kept as it is: {sql}"));
        assert!(!cleaned.contains("S3cret"), "{sql}\n{cleaned}");
        assert_eq!(redacted(&cleaned), None, "{cleaned}");
    }
}

#[test]
fn redaction_keeps_texts_that_resemble_a_secret() {
    for sql in [
        "ALTER ROLE app SET search_path = 'a', 'b'",
        "ALTER ROLE app VALID UNTIL '2030-01-01'",
        "SET password_encryption = 'md5'",
        "SET app.tenant = 'token'",
        "SELECT set_config(k, v, true) FROM unnest(array['app.user'], array['x']) AS t(k, v)",
        "EXECUTE s('app.user', 'x')",
        "SELECT set_config('app.token', gen_random_uuid()::text, true)",
        "SELECT http_header('Accept', 'text/html')",
        "SET app.token TO DEFAULT",
        "SELECT set_config('app.tenant', 'x', false)",
        "COPY t TO PROGRAM 'gzip > /tmp/x.gz'",
        "INSERT INTO pages VALUES ('Your password: ', 'x')",
        "SELECT * FROM settings WHERE name = 'password' OR name = 'a' || 'b'",
        "SELECT label FROM texts /* users#change_password, action='edit' */ WHERE key = 'x'",
        "CREATE FUNCTION set_pw(u text, p text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('alter role %I password %L', u, p); END $$",
        "COMMENT ON ROLE a IS 'has no password'",
        "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'p')",
        "SELECT 'http://a.b/c:d@e', 'token'",
    ] {
        assert_eq!(redacted(sql), None, "{sql}");
    }
}

#[test]
fn a_comment_alone_does_not_change_the_statement() {
    let cleaned = redact_sql("select 1 -- postgres://u:S3cret@h\n, /* a */ 2").unwrap();
    assert_eq!(cleaned.sql, "select 1 --\n, /* a */ 2");
    assert!(cleaned.only_comments);
    let cleaned = redact_sql("alter role a password 'x' -- password 'y'").unwrap();
    assert_eq!(cleaned.sql, "alter role a password '********' --");
    assert!(!cleaned.only_comments);
}

/// With a step for each byte of the text at each of these words, this would not end.
#[test]
fn long_texts_are_gone_over_a_few_times_and_not_for_each_word() {
    for (begin, again) in [
        ("alter user a ", "password="),
        ("alter user a password ", "identified by "),
        ("alter x ", "set "),
        ("alter x ", "set token = 1 "),
        ("select ", "set_config('token', "),
        ("select '", "postgres://"),
        ("select '", "a://b:"),
        ("select '", "password "),
        ("do ", "$$ password '"),
        ("", "/* password "),
        ("", "select token;"),
    ] {
        let text = begin.to_owned() + &again.repeat((1 << 18) / again.len());
        if let Some(cleaned) = redacted(&text) {
            assert!(redacted(&cleaned).is_none(), "{begin}{again}");
        }
    }
}

fn texts() -> impl Strategy<Value = String> {
    let marks = vec![
        "password ",
        "alter role a ",
        "'",
        "''",
        "\\",
        "\\'",
        "E'",
        "$$",
        "$a$",
        "--",
        "/*",
        "*/",
        "\n",
        ";",
        "=",
        "(",
        "$1",
        "\"",
        "||",
        "format",
        "set ",
        "token",
        "://",
        "u:p@h",
        "é",
        " ",
    ];
    let piece = prop_oneof![
        prop::sample::select(WITH_SECRETS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(marks).prop_map(str::to_owned),
        "[a-z '=]{0,6}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn redaction_is_idempotent(sql in texts()) {
        if let Some(cleaned) = redacted(&sql) {
            prop_assert_eq!(redacted(&cleaned), None, "{}", cleaned);
        }
    }
}

#[test]
fn quick_search_finds_every_secret() {
    for word in MENTIONS {
        assert!(may_have_pair(word.as_bytes(), PAIRS), "{word}");
        assert!(may_hold_secret(&format!(
            "select 1 {}",
            word.to_uppercase()
        )));
    }
}
