//! Lexer, splitter, normal form and literals of any SQL text.

use sql::{
    Backslash, Fingerprinter, Lexeme, Lexer, LexicalRules, NumberSyntax, Spelling, Token,
    split_statements_with,
};

/// Checks a text by all lexical rules.
pub fn check(data: &[u8]) {
    let sql = crate::text(data);
    for backslash in [Backslash::Plain, Backslash::Escape] {
        for numbers in [NumberSyntax::From15, NumberSyntax::Until14] {
            check_by(sql, LexicalRules { backslash, numbers });
        }
    }
}

fn check_by(sql: &str, rules: LexicalRules) {
    let tokens: Vec<Token> = Lexer::with_rules(sql, rules).collect();
    check_cover(sql, &tokens);
    check_statements(sql, &tokens, rules);
    check_normal_form(sql, rules);
    for token in &tokens {
        if let Token::Value { start, end } = *token {
            check_literal(&sql[start..end], rules);
        }
    }
}

/// Every byte outside of white space is in one token, and no token is empty or cuts a character.
fn check_cover(sql: &str, tokens: &[Token]) {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let mut covered = 0;
    for token in tokens {
        let gap = &sql.as_bytes()[covered..token.start()];
        assert!(gap.iter().all(is_space), "{sql:?}: {gap:?} is in no token");
        assert!(token.start() < token.end(), "{sql:?}: {token:?}");
        assert!(sql.is_char_boundary(token.start()) && sql.is_char_boundary(token.end()));
        covered = token.end();
    }
    let rest = &sql.as_bytes()[covered..];
    assert!(
        rest.iter().all(is_space),
        "{sql:?}: {rest:?} is in no token"
    );
}

/// Splitting loses no token, and statements that are split or joined again stay the same.
fn check_statements(sql: &str, tokens: &[Token], rules: LexicalRules) {
    let statements = split_statements_with(sql, rules);
    let mut words = statements
        .iter()
        .flat_map(|statement| &statement.words)
        .peekable();
    for token in tokens {
        let text = &sql[token.start()..token.end()];
        match token {
            Token::Comment { .. } => {}
            // Only semicolons are left out.
            _ => match words.next_if(|word| std::ptr::eq(word.text(), text)) {
                Some(_) => {}
                None => assert_eq!(text, ";", "{sql:?} loses a token"),
            },
        }
    }
    assert!(words.next().is_none(), "{sql:?} gains a word");

    let texts: Vec<&str> = statements.iter().map(|statement| statement.text).collect();
    for statement in &statements {
        let first = statement.words.first().map(Lexeme::text);
        let last = statement.words.last().map(Lexeme::text);
        assert!(first.is_some_and(|first| statement.text.starts_with(first)));
        assert!(last.is_some_and(|last| statement.text.ends_with(last)));
        let again = split_statements_with(statement.text, rules);
        let again: Vec<&str> = again.iter().map(|statement| statement.text).collect();
        assert_eq!(again, [statement.text], "of {sql:?}");
    }
    let joined = texts.join(";\n");
    let again = split_statements_with(&joined, rules);
    let again: Vec<&str> = again.iter().map(|statement| statement.text).collect();
    assert_eq!(again, texts, "{sql:?}");
}

/// The normal form of a normal form is the same, and comments and letter case do not change it.
fn check_normal_form(sql: &str, rules: LexicalRules) {
    let mut fingerprinter = Fingerprinter::new();
    let normal = fingerprinter.normalise_with(sql, rules).to_owned();
    // Numbers are replaced, and a backslash is left in no literal.
    assert_eq!(
        fingerprinter.normalise_with(&normal, rules),
        normal,
        "{sql:?}"
    );
    let surrounded = format!("/* a */\n{sql}");
    assert_eq!(
        fingerprinter.normalise_with(&surrounded, rules),
        normal,
        "{sql:?}"
    );
}

/// A value that is written in the spelling of a literal is one literal with this value.
fn check_literal(token: &str, rules: LexicalRules) {
    let (spelling, inner) = Spelling::of(token);
    let spelling = match spelling {
        Spelling::Plain(prefix) if rules.backslash == Backslash::Escape => {
            Spelling::Escapes(prefix)
        }
        Spelling::Placeholder | Spelling::Number => return,
        other => other,
    };
    let value = spelling.read(inner);
    let mut written = String::new();
    spelling.write(&value, &mut written);
    let mut tokens = Lexer::with_rules(&written, rules);
    let whole = Token::Value {
        start: 0,
        end: written.len(),
    };
    assert_eq!(
        tokens.next(),
        Some(whole),
        "{token:?} is written as {written:?}"
    );
    let (spelling, inner) = Spelling::of(&written);
    let spelling = match spelling {
        Spelling::Plain(prefix) if rules.backslash == Backslash::Escape => {
            Spelling::Escapes(prefix)
        }
        other => other,
    };
    assert_eq!(
        spelling.read(inner),
        value,
        "{token:?} is written as {written:?}"
    );
}
