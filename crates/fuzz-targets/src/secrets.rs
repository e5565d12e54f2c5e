//! Redaction of secrets in any SQL text.

use sql::secrets::{redact_setting, redact_sql, secret_parameters};
use sql::{Lexer, Token, split_statements};

/// A secret that no redacted text may hold.
const CANARY: &str = "c4nAry7Zq";

/// Statements with the secret. They are put before and after the text.
const WITH_SECRETS: [&str; 8] = [
    "ALTER ROLE a PASSWORD 'c4nAry7Zq'",
    "CREATE USER a PASSWORD $x$c4nAry7Zq$x$ VALID UNTIL 'infinity'",
    "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password 'c4nAry7Zq')",
    "CREATE SUBSCRIPTION s CONNECTION 'host=h password=c4nAry7Zq' PUBLICATION p",
    "SELECT dblink_connect('host=h password=c4nAry7Zq')",
    "DO $y$ BEGIN ALTER ROLE a PASSWORD 'c4nAry7Zq'; END $y$",
    "SET app.password = 'c4nAry7Zq'",
    "SELECT 'postgres://u:c4nAry7Zq@h/d'",
];

/// Checks a text; a parameter follows a NUL.
pub fn check(data: &[u8]) {
    let all = crate::text(data);
    let (sql, parameter) = all.split_once('\0').unwrap_or((all, ""));
    if all
        .to_ascii_lowercase()
        .contains(&CANARY.to_ascii_lowercase())
    {
        return;
    }
    check_stable(sql);
    for statement in WITH_SECRETS {
        check_hidden(&format!("{statement}; {sql}"));
        check_hidden(&format!("{statement} {sql}"));
        let after = format!("{sql}\n;{statement}");
        let is_statement = |last: &str| last == statement;
        if split_statements(&after)
            .last()
            .is_some_and(|last| is_statement(last.text))
        {
            check_hidden(&after);
        }
    }
    check_planted(sql);
    check_parameters(sql, parameter);
    let value = redact_setting("app.password", parameter);
    assert!(value.is_some() || parameter.is_empty() || parameter == "********");
}

/// A redacted text has no secrets.
fn check_stable(sql: &str) {
    if let Some(redacted) = redact_sql(sql) {
        let again = redact_sql(&redacted.sql);
        assert!(again.is_none(), "{sql:?} {redacted:?} {again:?}");
        let commands = split_statements(sql).len();
        if redacted.only_comments {
            assert_eq!(split_statements(&redacted.sql).len(), commands, "{sql:?}");
        }
    }
}

fn check_hidden(sql: &str) {
    let redacted = redact_sql(sql).unwrap_or_else(|| panic!("nothing is redacted in {sql:?}"));
    assert!(!redacted.sql.contains(CANARY), "{sql:?}: {redacted:?}");
}

/// A password in the place of any literal of the text is redacted.
fn check_planted(sql: &str) {
    let literal = Lexer::new(sql).find(|token| matches!(token, Token::Value { .. }));
    let Some(Token::Value { start, end }) = literal else {
        return;
    };
    let planted = format!("{} PASSWORD '{CANARY}' {}", &sql[..start], &sql[end..]);
    let words = split_statements(&planted);
    let concerns_role = words.iter().any(|statement| {
        let [first, second, ..] = &statement.words[..] else {
            return false;
        };
        let alters = first.is("alter") || first.is("create");
        let names_role = ["role", "user", "group"].iter().any(|word| second.is(word));
        alters && names_role && statement.text.contains(CANARY)
    });
    if concerns_role {
        check_hidden(&planted);
    }
}

/// A parameter that is a password is a secret, whatever follows it.
fn check_parameters(sql: &str, parameter: &str) {
    let values = || [Some(CANARY), Some(parameter)].into_iter();
    let role = format!("ALTER ROLE a PASSWORD $1; {sql}");
    assert!(
        secret_parameters(Some(&role), values).contains(&0),
        "{role:?}"
    );
    let connection = format!("host=h password={CANARY}");
    let values = || [Some(connection.as_str()), Some(parameter)].into_iter();
    assert!(secret_parameters(Some(sql), values).contains(&0), "{sql:?}");
    let found = secret_parameters(None, values);
    assert!(found.iter().all(|index| *index < 2));
}
