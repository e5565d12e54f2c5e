//! Masking of statements, parameters and COPY data.

use std::sync::Arc;

use sql::{Fingerprinter, Lexer, LexicalRules, Token, split_statements};
use transform::mask::{Mask, MaskKey, Masker};
use workload::{
    CopyIn, Event, EventKind, KeepReason, MaskAccount, MaskedValues, Outcome, Parameter,
    WireDetails,
};

/// A value that no masked text may hold.
const CANARY: &str = "Geheimniswort";
/// Character in an input that stands for the value.
const PLACE: char = '\u{a7}';

const COPIES: [&str; 4] = [
    "copy t from stdin",
    "copy t from stdin (format csv)",
    "copy t (a, b) from stdin with (format text, delimiter ',', null 'x')",
    "copy t from stdin csv header quote '\"'",
];

/// Checks the statement after the first byte. A parameter and COPY data follow a NUL.
pub fn check(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let all = crate::text(data);
    if all
        .to_ascii_lowercase()
        .contains(&CANARY.to_ascii_lowercase())
    {
        return;
    }
    let (sql, rest) = all.split_once('\0').unwrap_or((all, ""));
    let may_escape = mode % 2 == 1;
    check_statement(&plant(sql), may_escape);
    if !rest.is_empty() {
        let value = rest.replace(PLACE, CANARY);
        check_parameter(&plant(sql), &value);
        check_copy(COPIES[usize::from(mode / 2) % COPIES.len()], &value);
    }
}

/// Puts the value into all literals and comments. The words of code in a literal stay, so none are put there unless
/// it lacks its end.
fn plant(sql: &str) -> String {
    let mut planted = String::with_capacity(sql.len());
    let mut copied = 0;
    let mut first = None;
    for token in Lexer::new(sql) {
        let text = &sql[token.start()..token.end()];
        let is_code = first.is_some_and(|word| ["do", "create"].contains(&word));
        match token {
            Token::Value { .. } if !is_code => {}
            Token::Value { .. } | Token::Quoted { .. }
                if token.is_unterminated(text, LexicalRules::default()) => {}
            Token::Comment { .. } => {}
            _ if text == ";" => {
                first = None;
                continue;
            }
            _ => {
                first = first.or(match text.to_ascii_lowercase().as_str() {
                    "do" => Some("do"),
                    "create" => Some("create"),
                    _ => Some(""),
                });
                continue;
            }
        }
        planted.push_str(&sql[copied..token.start()]);
        planted.push_str(&text.replace(PLACE, CANARY));
        copied = token.end();
    }
    planted.push_str(&sql[copied..]);
    planted
}

/// Masks events one after the other. Returns the last one, and the account of all.
fn mask(kinds: Vec<EventKind>, details: Option<WireDetails>) -> (Event, MaskAccount) {
    let key = MaskKey::parse("0123456789abcdef".repeat(4).as_bytes()).expect("a key");
    let mut masker = Masker::new(Mask::new(key));
    let details = details.map(Arc::new);
    let mut masked = None;
    for (sequence, kind) in kinds.into_iter().enumerate() {
        let event = Event {
            session: 1,
            sequence: sequence as u64,
            due_us: 0,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 1,
            prelude: false,
            wire_details: details.clone(),
        };
        masked = Some(masker.mask_event(&event.borrowed(), |event| event.to_event()));
    }
    let account = masker.account().clone();
    assert!(account.adds_up(), "{account:?}");
    (masked.expect("an event"), account)
}

fn check_statement(sql: &str, may_escape: bool) {
    let simple = |sql: &str| EventKind::Simple { sql: sql.into() };
    let mut kinds = vec![simple(sql)];
    if may_escape {
        kinds.insert(0, simple("set standard_conforming_strings = off"));
    }
    let (event, account) = mask(kinds.clone(), None);
    let masked = event.kind.sql().expect("a statement").to_string();
    assert_eq!(mask(kinds, None).0, event, "{sql:?}");
    if !has_names(sql) && is_all_masked(&account.literals) {
        assert!(!holds_canary(masked.as_bytes()), "{sql:?}: {masked:?}");
    }
    if !may_escape {
        let (before, after) = (split_statements(sql), split_statements(&masked));
        assert_eq!(before.len(), after.len(), "{sql:?}: {masked:?}");
        if account.names.values == 0 && !is_unterminated(sql) {
            let normal = |sql: &str| Fingerprinter::new().normalise(sql).to_owned();
            assert_eq!(normal(sql), normal(&masked), "{sql:?}: {masked:?}");
        }
    }
}

/// Whether a text may have paths or hints, in which names stay.
fn has_names(sql: &str) -> bool {
    let lower = sql.to_lowercase();
    ["json", "xpath", "xml", "@?", "@@", "/*+"]
        .iter()
        .any(|word| lower.contains(word))
}

/// Whether the text ends within a literal, a quoted name or a comment.
fn is_unterminated(sql: &str) -> bool {
    Lexer::new(sql).last().is_some_and(|last| {
        let text = &sql[last.start()..last.end()];
        last.is_unterminated(text, LexicalRules::default())
    })
}

fn check_parameter(sql: &str, value: &str) {
    let kind = EventKind::Execute {
        statement: "".into(),
        portal: "".into(),
        sql: sql.into(),
        parameters: vec![
            Some(Parameter::from(value)),
            None,
            Some(Parameter::from(value.as_bytes())),
        ],
    };
    let (event, account) = mask(vec![kind], None);
    let EventKind::Execute { parameters, .. } = &event.kind else {
        unreachable!("masking keeps the kind");
    };
    assert!(parameters[1].is_none());
    if !has_names(sql) && is_all_masked(&account.parameters) {
        for masked in parameters.iter().flatten() {
            assert!(!holds_canary(masked.as_bytes()), "{value:?}: {masked:?}");
        }
    }
}

fn check_copy(sql: &str, data: &str) {
    let details = WireDetails {
        copy: Some(CopyIn {
            data: data.as_bytes().into(),
            failed: None,
        }),
        ..WireDetails::default()
    };
    let (event, account) = mask(vec![EventKind::Simple { sql: sql.into() }], Some(details));
    let details = event.wire_details.as_ref().expect("details");
    let masked = &details.copy.as_ref().expect("data").data;
    if is_all_masked(&account.copy_fields) && !sql.contains("header") {
        assert!(
            !holds_canary(masked),
            "{data:?}: {:?}",
            String::from_utf8_lossy(masked)
        );
    }
    let lines = |data: &[u8]| data.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines(masked), lines(data.as_bytes()), "{sql}: {data:?}");
}

/// Whether no value is kept but those that identify nobody.
fn is_all_masked(values: &MaskedValues) -> bool {
    values
        .kept
        .keys()
        .all(|reason| *reason == KeepReason::Small)
}

fn holds_canary(bytes: &[u8]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let canary = CANARY.to_ascii_lowercase();
    lower
        .windows(canary.len())
        .any(|window| window == canary.as_bytes())
}
