//! Compares the lexer with real servers, on generated texts: number of commands, values of literals, and normal
//! forms with the grouping of `pg_stat_statements`.

mod texts;

use std::collections::HashMap;

use postgres::{Client, SimpleQueryMessage};
use sql::{
    Backslash, Fingerprinter, Lexer, LexicalRules, NumberSyntax, Spelling, Token,
    split_statements_with,
};
use texts::{Statements, Texts};

/// Texts per server, setting and kind.
const TEXTS: usize = 4_000;
/// Statements per server whose grouping is compared.
const STATEMENTS: usize = 1_500;
const TABLE: &str = "CREATE TABLE orders (id int, name text, price numeric, flags bit(2))";

#[test]
fn lexer_reads_generated_texts_as_servers_do() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    for major in [13, 15, 18] {
        let (_sandbox, server) = test_support::server().major(major).start();
        let mut client = test_support::connect(&server);
        for backslash in [Backslash::Plain, Backslash::Escape] {
            let setting = match backslash {
                Backslash::Plain => "on",
                Backslash::Escape => "off",
            };
            let settings = format!(
                "SET standard_conforming_strings = {setting}; SET escape_string_warning = off;
                 SET client_min_messages = error"
            );
            client.batch_execute(&settings).unwrap();
            let rules = LexicalRules {
                backslash,
                numbers: NumberSyntax::of_major(u32::from(major)),
            };
            let mut texts = Texts::new(u64::from(major));
            compare(&mut client, rules, &mut || texts.well_formed());
            compare(&mut client, rules, &mut || texts.mutated());
        }
    }
}

/// Compares the commands and literals of the texts that the server accepts.
fn compare(client: &mut Client, rules: LexicalRules, text: &mut dyn FnMut() -> String) {
    let (mut accepted, mut literals) = (0, 0);
    for _ in 0..TEXTS {
        let sql = text();
        let Some(expected) = Answer::of(client, &sql) else {
            continue;
        };
        accepted += 1;
        let statements = split_statements_with(&sql, rules);
        assert_eq!(statements.len(), expected.commands, "{rules:?} {sql:?}");
        if let Some(values) = literals_of_plain_lists(&sql, rules) {
            assert_eq!(values, expected.values, "{rules:?} {sql:?}");
            literals += values.len();
        }
    }
    println!("{rules:?}: {TEXTS} texts, {accepted} accepted, {literals} literals compared");
    assert!(accepted > TEXTS / 20, "{accepted} of {TEXTS} accepted");
}

/// Answer of a server to a text.
struct Answer {
    commands: usize,
    values: Vec<String>,
}

impl Answer {
    /// Runs a text; `None` if the server refuses it.
    fn of(client: &mut Client, sql: &str) -> Option<Self> {
        let mut answer = Answer {
            commands: 0,
            values: Vec::new(),
        };
        for message in client.simple_query(sql).ok()? {
            match message {
                SimpleQueryMessage::CommandComplete(_) => answer.commands += 1,
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).filter_map(|column| row.get(column));
                    answer.values.extend(values.map(comparable));
                }
                _ => {}
            }
        }
        Some(answer)
    }
}

/// Returns the values of the literals of statements that select literals only; `None` if there are others.
fn literals_of_plain_lists(sql: &str, rules: LexicalRules) -> Option<Vec<String>> {
    let mut values = Vec::new();
    let mut is_operand_next = false;
    for token in Lexer::with_rules(sql, rules) {
        let text = &sql[token.start()..token.end()];
        match token {
            Token::Comment { .. } => {}
            Token::Word { .. } if text.eq_ignore_ascii_case("select") => is_operand_next = true,
            Token::Symbol { .. } if text == "," => is_operand_next = true,
            Token::Symbol { .. } if text == ";" => {}
            Token::Value { .. } if is_operand_next => {
                is_operand_next = false;
                values.push(comparable(&read(text, rules)));
            }
            _ => return None,
        }
    }
    Some(values)
}

fn read(token: &str, rules: LexicalRules) -> String {
    let (spelling, inner) = Spelling::of(token);
    let spelling = match spelling {
        Spelling::Plain(prefix) if rules.backslash == Backslash::Escape => {
            Spelling::Escapes(prefix)
        }
        other => other,
    };
    let value = spelling.read(inner);
    let based = |radix| {
        let digits = value[2..].to_owned();
        i64::from_str_radix(&digits, radix).unwrap().to_string()
    };
    let start = value.get(..2).unwrap_or("").to_ascii_lowercase();
    match (spelling, &*start) {
        (Spelling::Number, "0x") => based(16),
        (Spelling::Number, "0o") => based(8),
        (Spelling::Number, "0b") => based(2),
        (Spelling::HexBits(_), _) => (value.chars())
            .map(|digit| format!("{:04b}", digit.to_digit(16).unwrap()))
            .collect(),
        _ => value.into_owned(),
    }
}

/// Returns a value so that equal numbers are equal.
fn comparable(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) => number.to_string(),
        Err(_) => value.to_owned(),
    }
}

#[test]
fn normal_form_groups_statements_as_pg_stat_statements_does() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    for major in [13, 15, 18] {
        let (_sandbox, server) = test_support::server()
            .major(major)
            .settings(&[
                ("shared_preload_libraries", "pg_stat_statements"),
                ("pg_stat_statements.track_utility", "off"),
            ])
            .start();
        let mut client = test_support::connect(&server);
        client
            .batch_execute(&format!("CREATE EXTENSION pg_stat_statements; {TABLE}"))
            .unwrap();
        let statements = Statements {
            texts: Texts::new(u64::from(major)),
            folds_lists: major >= 18,
            has_new_numbers: major >= 16,
        };
        let rules = LexicalRules {
            numbers: NumberSyntax::of_major(u32::from(major)),
            ..LexicalRules::default()
        };
        compare_groups(&mut client, statements, rules);
    }
}

/// Checks that two statements have one normal form if and only if the server gives them one identifier.
fn compare_groups(client: &mut Client, mut statements: Statements, rules: LexicalRules) {
    let mut fingerprinter = Fingerprinter::new();
    let mut by_normal: HashMap<String, (i64, String)> = HashMap::new();
    let mut by_query: HashMap<i64, (String, String)> = HashMap::new();
    for _ in 0..STATEMENTS {
        let sql = statements.statement();
        let query = query_id(client, &sql);
        let normal = fingerprinter.normalise_with(&sql, rules).to_owned();
        let (known, first) = by_normal
            .entry(normal.clone())
            .or_insert((query, sql.clone()));
        assert_eq!(*known, query, "one normal form {normal}: {first:?} {sql:?}");
        let (known, first) = by_query
            .entry(query)
            .or_insert((normal.clone(), sql.clone()));
        assert_eq!(*known, normal, "one query: {first:?} {sql:?}");
    }
    let groups = by_query.len();
    println!("{rules:?}: {STATEMENTS} statements, {groups} groups");
    assert!((50..STATEMENTS).contains(&groups), "{groups} groups");
}

/// Returns the identifier that the server gives a statement.
fn query_id(client: &mut Client, sql: &str) -> i64 {
    client
        .simple_query("SELECT pg_stat_statements_reset()")
        .unwrap();
    if let Err(error) = client.simple_query(sql) {
        panic!("{sql:?}: {error:?}");
    }
    let question = "SELECT queryid FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_%'";
    let rows = client.query(question, &[]).unwrap();
    assert_eq!(rows.len(), 1, "{sql:?}");
    rows[0].get(0)
}
