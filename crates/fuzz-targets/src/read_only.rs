//! The check of texts in a replay that must not write.

use sql::{
    Backslash, LexicalRules, NumberSyntax, ReadOnlyText, ReadOnlyTreatment, UnrestrictedNames,
    split_statements, split_statements_with,
};

/// Checks a text. A line after a NUL is a parameter.
pub fn check(data: &[u8]) {
    let all = crate::text(data);
    let (sql, parameters) = all.split_once('\0').unwrap_or((all, ""));
    let mut unrestricted = UnrestrictedNames::default();
    unrestricted.add_called("lo_create");
    let treat = |sql: &str| {
        let text = ReadOnlyText::of(sql, &unrestricted);
        text.treatment(parameters.lines()).clone()
    };
    let treatment = treat(sql);

    if let ReadOnlyTreatment::Rewritten(instead) = &treatment {
        assert_eq!(split_statements(instead).len(), 1, "{sql:?}: {instead:?}");
        assert_eq!(
            treat(instead),
            ReadOnlyTreatment::Unchanged,
            "{sql:?}: {instead:?}"
        );
    }
    // What is withheld alone is withheld between others.
    for command in [
        "CALL p()",
        "DO 'x'",
        "SELECT lo_create(7)",
        "COPY t TO PROGRAM 'x'",
    ] {
        let before = format!("{command}; {sql}");
        assert_eq!(treat(&before), ReadOnlyTreatment::Withheld, "{before:?}");
        let after = format!("{sql}\n;{command}");
        if every_reading(&after, command) {
            assert_eq!(treat(&after), ReadOnlyTreatment::Withheld, "{after:?}");
        }
    }
    // A text never becomes harmless by a comment or by letter case.
    let commented = format!("/* a */ {sql}");
    assert_eq!(
        is_withheld(&treat(&commented)),
        is_withheld(&treatment),
        "{sql:?}"
    );
    let lower = sql.to_ascii_lowercase();
    if !lower.contains('$') && !lower.contains("u&") {
        assert_eq!(
            is_withheld(&treat(&lower)),
            is_withheld(&treatment),
            "{sql:?}"
        );
    }
    // A mode that a text asks for is not left in a text that is sent.
    for statement in split_statements(sql) {
        let words = &statement.words;
        let opens = ["begin", "start", "set"]
            .iter()
            .any(|word| words[0].is(word));
        let asks = words
            .windows(2)
            .any(|pair| pair[0].is("read") && pair[1].is("write"));
        if opens && asks && split_statements(sql).len() == 1 {
            assert_ne!(treatment, ReadOnlyTreatment::Unchanged, "{sql:?}");
        }
    }
    for end in ["COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'x'"] {
        let text = ReadOnlyText::of(&format!("{end}; {sql}"), &unrestricted);
        assert!(text.ends_transaction, "{end}; {sql:?}");
    }
}

fn is_withheld(treatment: &ReadOnlyTreatment) -> bool {
    *treatment == ReadOnlyTreatment::Withheld
}

/// Whether a text ends with this command by one of the readings that a server may have of it.
fn every_reading(sql: &str, command: &str) -> bool {
    [Backslash::Plain, Backslash::Escape]
        .into_iter()
        .any(|backslash| {
            let numbers = NumberSyntax::default();
            let statements = split_statements_with(sql, LexicalRules { backslash, numbers });
            statements.last().is_some_and(|last| last.text == command)
        })
}
