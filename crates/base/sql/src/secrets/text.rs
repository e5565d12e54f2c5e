//! Finds the secrets of one text of SQL.
//!
//! A text is split into tokens, not parsed: a mistyped statement (`ALTER USER a PASSWORD = 'x'`) is sent, and
//! logged, with its password as well.

use std::ops::Range;

use super::super::fingerprint::lexer::{Backslash, Lexer, LexicalRules, Token};
use super::super::literal::{Spelling, read_quoted_name};
use super::findings::{NamePart, SecretFindings, SettingByParameter};
use super::literal::{comment_gives_secret, holds_login, is_template, is_verifier, may_have_login};
use super::names::{mentions_secret_setting, names_a_secret};
use super::time_words::is_time;
use super::{DEPTH_MAX, REDACTED_LITERAL, may_hold_secret};

/// Maximum number of tokens in the name of a setting.
const NAME_TOKENS_MAX: usize = 16;
const ARGUMENT_TOKENS_MAX: usize = 256;

/// Functions of `pgcrypto`, with the first argument (from 0) that is a key or a password.
const KEY_ARGUMENTS: [(&str, usize); 14] = [
    ("crypt", 0),
    ("hmac", 1),
    ("encrypt", 1),
    ("decrypt", 1),
    ("encrypt_iv", 1),
    ("decrypt_iv", 1),
    ("pgp_sym_encrypt", 1),
    ("pgp_sym_encrypt_bytea", 1),
    ("pgp_sym_decrypt", 1),
    ("pgp_sym_decrypt_bytea", 1),
    ("pgp_pub_encrypt", 1),
    ("pgp_pub_encrypt_bytea", 1),
    ("pgp_pub_decrypt", 1),
    ("pgp_pub_decrypt_bytea", 1),
];

/// Options of foreign servers and user mappings that say what to connect to, and how to plan.
const HARMLESS_OPTIONS: [&str; 24] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "database",
    "user",
    "username",
    "servername",
    "use_remote_estimate",
    "fdw_startup_cost",
    "fdw_tuple_cost",
    "extensions",
    "fetch_size",
    "batch_size",
    "async_capable",
    "updatable",
    "truncatable",
    "keep_connections",
    "parallel_commit",
    "parallel_abort",
    "sslmode",
    "connect_timeout",
    "client_encoding",
    "password_required",
];

/// A token other than a comment. Adjacent string literals are one token.
struct MergedToken<'a> {
    kind: MergedTokenKind,
    range: Range<usize>,
    text: &'a str,
    /// Decoded value of a string or a quoted name.
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergedTokenKind {
    Word,
    Quoted,
    Text,
    Number,
    Parameter,
    Symbol,
}

impl MergedToken<'_> {
    fn is(&self, word: &str) -> bool {
        self.kind == MergedTokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == MergedTokenKind::Symbol && self.text == symbol
    }

    /// Whether it is a string or a parameter.
    fn is_value(&self) -> bool {
        matches!(
            self.kind,
            MergedTokenKind::Text | MergedTokenKind::Parameter
        )
    }

    /// Returns the token as a name, if it is one.
    fn name(&self) -> Option<&str> {
        match self.kind {
            MergedTokenKind::Word => Some(self.text),
            MergedTokenKind::Quoted => Some(&self.value),
            _ => None,
        }
    }
}

/// Finds the secrets of a text, which is nested `depth` literals deep in the one that was sent.
pub(super) fn find(sql: &str, depth: usize) -> SecretFindings {
    let mut found = find_with_lexer(sql, Lexer::new(sql), depth);
    if sql.contains("\\'") {
        // The meaning of a backslash depends on a setting that the text does not show.
        let rules = LexicalRules {
            backslash: Backslash::Escape,
            ..LexicalRules::default()
        };
        let other = find_with_lexer(sql, Lexer::with_rules(sql, rules), depth);
        found.secrets.extend(other.secrets);
        found.comments.extend(other.comments);
        found.all_comments.extend(other.all_comments);
        found.parameters.extend(other.parameters);
        found.is_concatenated |= other.is_concatenated;
        found.concerns_role |= other.concerns_role;
        found.names_open_setting |= other.names_open_setting;
        found
            .settings_by_parameter
            .extend(other.settings_by_parameter);
    }
    found.secrets = merge_overlapping(found.secrets);
    if found.concerns_role {
        let quoted = |range: &Range<usize>| sql[range.clone()].contains(['\'', '"']);
        found.comments.extend(
            found
                .all_comments
                .iter()
                .filter(|range| quoted(range))
                .cloned(),
        );
    }
    if !found.secrets.is_empty() {
        found.comments.append(&mut found.all_comments);
    }
    found.comments = merge_overlapping(found.comments);
    found
}

fn merge_overlapping(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn find_with_lexer(sql: &str, lexer: Lexer<'_>, depth: usize) -> SecretFindings {
    let mut found = SecretFindings::default();
    let tokens = read_tokens(sql, lexer, depth, &mut found);
    for statement in tokens.split(|token| token.is_symbol(";")) {
        Statement { sql, statement }.read(depth, &mut found);
    }
    // A body may concatenate values in one statement (DECLARE) and run them in another (EXECUTE).
    let joins = tokens.iter().any(|token| {
        token.is_symbol("||")
            || ["format", "concat", "concat_ws"]
                .iter()
                .any(|name| token.is(name))
    });
    found.is_concatenated = joins
        && (tokens.iter())
            .any(|token| token.kind == MergedTokenKind::Text && is_template(&token.value));
    if found.is_concatenated {
        let others = tokens
            .iter()
            .filter(|token| token.kind == MergedTokenKind::Text && !is_template(&token.value));
        let names = |value: &str| {
            let mut characters = value.chars();
            characters.all(|character| character.is_whitespace() || matches!(character, '\'' | ';'))
        };
        found.secrets.extend(
            others
                .filter(|token| !names(&token.value))
                .map(|token| token.range.clone()),
        );
    }
    found
        .secrets
        .retain(|range| &sql[range.clone()] != REDACTED_LITERAL);
    found
}

/// Returns the tokens of a text without comments, which are searched for secrets here.
fn read_tokens<'a>(
    sql: &'a str,
    lexer: Lexer<'a>,
    depth: usize,
    found: &mut SecretFindings,
) -> Vec<MergedToken<'a>> {
    let mut tokens: Vec<MergedToken<'a>> = Vec::new();
    for token in lexer {
        let range = token.start()..token.end();
        let text = &sql[range.clone()];
        let kind = match token {
            Token::Comment { .. } => {
                read_comment(sql, range, depth, found);
                continue;
            }
            Token::Word { .. } => {
                push_words(sql, range, &mut tokens);
                continue;
            }
            Token::Quoted { .. } => MergedTokenKind::Quoted,
            Token::Symbol { .. } => MergedTokenKind::Symbol,
            Token::Value { .. } => match Spelling::of(text).0 {
                Spelling::Placeholder => MergedTokenKind::Parameter,
                Spelling::Number => MergedTokenKind::Number,
                _ => MergedTokenKind::Text,
            },
        };
        let value = match kind {
            MergedTokenKind::Text => {
                for gap in Spelling::gaps(text) {
                    for comment in Lexer::new(&text[gap.clone()]) {
                        if let Token::Comment { start, end } = comment {
                            let from = range.start + gap.start;
                            read_comment(sql, from + start..from + end, depth, found);
                        }
                    }
                }
                let (spelling, inner) = Spelling::of(text);
                spelling.read(inner).into_owned()
            }
            MergedTokenKind::Quoted => read_quoted_name(text),
            _ => String::new(),
        };
        match tokens.last_mut() {
            Some(last) if kind == MergedTokenKind::Text && last.kind == MergedTokenKind::Text => {
                last.value.push_str(&value);
                last.range.end = range.end;
                last.text = &sql[last.range.clone()];
            }
            _ => tokens.push(MergedToken {
                kind,
                range,
                text,
                value,
            }),
        }
    }
    tokens
}

/// Records a comment, and whether it holds a secret.
fn read_comment(sql: &str, range: Range<usize>, depth: usize, found: &mut SecretFindings) {
    let inner = sql[range.clone()].trim_start_matches(['-', '/', '*']);
    let inner = inner.trim_end_matches(['*', '/']);
    if may_hold_secret(inner) && (comment_gives_secret(inner) || holds_secret(inner, depth)) {
        found.comments.push(range.clone());
    }
    found.all_comments.push(range);
}

/// Adds a word. It is several if it holds blanks that the server does not treat as blanks (U+00A0).
fn push_words<'a>(sql: &'a str, range: Range<usize>, tokens: &mut Vec<MergedToken<'a>>) {
    let text = &sql[range.clone()];
    let mut from = 0;
    for word in text.split(char::is_whitespace) {
        let at = from + text[from..].find(word).unwrap_or(0);
        from = at + word.len();
        if !word.is_empty() {
            let range = range.start + at..range.start + from;
            tokens.push(MergedToken {
                kind: MergedTokenKind::Word,
                text: &sql[range.clone()],
                range,
                value: String::new(),
            });
        }
    }
}

/// Whether a value is or contains a secret, regardless of its context.
fn holds_secret(value: &str, depth: usize) -> bool {
    if holds_login(value) || is_verifier(value) {
        return true;
    }
    // Deeper levels are not searched, so the whole value is a secret.
    may_hold_secret(value) && (depth >= DEPTH_MAX || !find(value, depth + 1).is_empty())
}

/// Whether a value without context is or contains a secret.
pub(super) fn value_holds_secret(value: &str) -> bool {
    may_hold_secret(value) && holds_secret(value, 0)
}

/// One statement of a text.
struct Statement<'a> {
    sql: &'a str,
    statement: &'a [MergedToken<'a>],
}

impl Statement<'_> {
    fn read(&self, depth: usize, found: &mut SecretFindings) {
        let is_role = self.sets_role_password();
        found.concerns_role |= is_role;
        let copies = self.starts_with(&["copy"]);
        let is_foreign = self.has_foreign_body();
        let options = self.foreign_options();
        for (at, token) in self.statement.iter().enumerate() {
            let name = self.name_before(at);
            match token.kind {
                MergedTokenKind::Text => {
                    let secret = name.is_some_and(names_a_secret)
                        || is_role && !self.is_expiry_time(at)
                        || copies
                            && name.is_some_and(|name| name.eq_ignore_ascii_case("program"))
                            && may_have_login(&token.value)
                        || options.is_some_and(|from| at > from) && !Self::is_harmless_option(name)
                        || is_foreign && may_hold_secret(&token.value)
                        || holds_secret(&token.value, depth);
                    if secret {
                        found.secrets.push(token.range.clone());
                        self.find_joined(at, found);
                    }
                }
                MergedTokenKind::Parameter if name.is_some_and(names_a_secret) => {
                    found.parameters.extend(token.text[1..].parse::<usize>());
                }
                _ => (),
            }
            if is_role {
                self.find_unquoted_password(at, found);
            }
            if token
                .name()
                .is_some_and(|name| name.eq_ignore_ascii_case("rolpassword"))
                && let [equals, value, ..] = &self.statement[at + 1..]
                && equals.is_symbol("=")
            {
                self.add_secret(value, found);
            }
            // `http_header` takes a name and its value, too.
            if token.name().is_some_and(|name| {
                ["set_config", "http_header"]
                    .iter()
                    .any(|function| name.eq_ignore_ascii_case(function))
            }) {
                self.find_set_config(at, found);
            }
            self.find_key_argument(at, found);
        }
        self.find_settings(found);
        let is_open = found.names_open_setting || self.starts_with(&["execute"]);
        let texts = || (self.statement.iter()).filter(|token| token.kind == MergedTokenKind::Text);
        if is_open && texts().any(|token| mentions_secret_setting(&token.value)) {
            for value in self.statement.iter().filter(|token| token.is_value()) {
                self.add_secret(value, found);
            }
        }
    }

    /// Adds the texts that are concatenated to the secret at `at`.
    fn find_joined(&self, at: usize, found: &mut SecretFindings) {
        for pair in self.statement[at + 1..].chunks_exact(2) {
            if !pair[0].is_symbol("||") || !pair[1].is_value() {
                return;
            }
            self.add_secret(&pair[1], found);
        }
    }

    fn starts_with(&self, words: &[&str]) -> bool {
        let mut tokens = self.statement.iter();
        words
            .iter()
            .all(|word| tokens.next().is_some_and(|token| token.is(word)))
    }

    /// Whether it is `CREATE ROLE`, `ALTER USER` or the like, with a password. User mappings, whose options
    /// have names, and settings of a role are excluded.
    fn sets_role_password(&self) -> bool {
        // In a body the command follows BEGIN, THEN or another word.
        let Some(at) = self.statement.windows(2).position(|pair| {
            ["create", "alter"].iter().any(|word| pair[0].is(word))
                && ["role", "user", "group"]
                    .iter()
                    .any(|word| pair[1].is(word))
        }) else {
            return false;
        };
        let rest = &self.statement[at + 2..];
        let mapping = rest.first().is_some_and(|token| token.is("mapping"));
        // At the start of a text, any other literal is a mistyped password. A body has words of other statements.
        let has_password = at == 0
            || rest.iter().any(|token| {
                token.name().is_some_and(|name| {
                    names_a_secret(name) || name.to_ascii_lowercase().contains("passw")
                })
            });
        let identified = rest.iter().any(|token| token.is("identified"));
        let setting = rest.windows(2).any(|pair| {
            pair[0].is("set")
                && !pair[1]
                    .name()
                    .is_some_and(|name| name.eq_ignore_ascii_case("password"))
        });
        !mapping && !setting && (has_password || identified)
    }

    /// Whether the literal is the time in `VALID UNTIL '2030-01-01'` or `'Jan 1 2030'`.
    fn is_expiry_time(&self, at: usize) -> bool {
        at > 0 && self.statement[at - 1].is("until") && is_time(&self.statement[at].value)
    }

    /// Finds a role's password that is not a literal: it was typed without quotes, or with wrong ones.
    fn find_unquoted_password(&self, at: usize, found: &mut SecretFindings) {
        let token = &self.statement[at];
        let is_password = token
            .name()
            .is_some_and(|name| name.eq_ignore_ascii_case("password"));
        let is_identified = token.is("by") && at > 0 && {
            let from = at.saturating_sub(3);
            self.statement[from..at]
                .iter()
                .any(|token| token.is("identified"))
        };
        if !is_password && !is_identified {
            return;
        }
        let value = self.statement[at + 1..].iter().find(|token| {
            !["=", "(", ":", ":="]
                .iter()
                .any(|symbol| token.is_symbol(symbol))
        });
        let is_placeholder = |value: &MergedToken<'_>| {
            let rest = &self.sql[value.range.start..];
            ["%L", "%s", "%I"]
                .iter()
                .any(|placeholder| rest.starts_with(placeholder))
                || rest.starts_with('%') && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
        };
        if let Some(value) = value.filter(|value| !value.is("null") && !is_placeholder(value)) {
            self.add_secret(value, found);
        }
    }

    /// Adds a value that is a secret in any spelling. Without quotes it extends to the next blank.
    fn add_secret(&self, value: &MergedToken<'_>, found: &mut SecretFindings) {
        match value.kind {
            MergedTokenKind::Parameter => found.parameters.extend(value.text[1..].parse::<usize>()),
            MergedTokenKind::Text | MergedTokenKind::Quoted => {
                found.secrets.push(value.range.clone())
            }
            // This part is covered already; each part is scanned once only.
            _ if found.covers(value.range.start) => {}
            MergedTokenKind::Word | MergedTokenKind::Number | MergedTokenKind::Symbol => {
                let rest = &self.sql[value.range.start..];
                let end =
                    rest.find(|character: char| character.is_whitespace() || character == ';');
                let end = value.range.start + end.unwrap_or(rest.len());
                found
                    .secrets
                    .push(value.range.start..end.max(value.range.end));
            }
        }
    }

    /// Reads `set_config('app.password', …)`. What is before the first comma makes the name.
    fn find_set_config(&self, at: usize, found: &mut SecretFindings) {
        let arguments = self.arguments(at);
        let Some((name, values)) = arguments.split_first() else {
            return;
        };
        let mut call = SettingByParameter::default();
        for token in *name {
            match token.kind {
                MergedTokenKind::Text => call.name.push(NamePart::Text(token.value.clone())),
                MergedTokenKind::Parameter => {
                    let number = token.text[1..].parse();
                    call.name.extend(number.map(NamePart::Parameter));
                }
                _ => {}
            }
        }
        let texts = call.name.iter().filter_map(|part| match part {
            NamePart::Text(text) => Some(&**text),
            NamePart::Parameter(_) => None,
        });
        let is_secret = names_a_secret(&texts.collect::<String>());
        // The rows that give the name, or a secret value, are in the same statement. A call (`gen_random_uuid()`) is none.
        let is_column = values.first().is_some_and(|value| {
            !(value.iter()).any(|token| token.is_value() || token.is_symbol("("))
        });
        found.names_open_setting |= call.name.is_empty() || is_secret && is_column;
        for value in values.iter().take(1).copied().flatten() {
            match value.kind {
                MergedTokenKind::Text | MergedTokenKind::Parameter if is_secret => {
                    self.add_secret(value, found);
                }
                MergedTokenKind::Parameter => call.values.extend(value.text[1..].parse::<usize>()),
                _ => {}
            }
        }
        let is_open = |part: &NamePart| matches!(part, NamePart::Parameter(_));
        if !is_secret && call.name.iter().any(is_open) {
            found.settings_by_parameter.push(call);
        }
    }

    /// Returns the arguments of the call whose function is at `at`, split at the commas.
    fn arguments(&self, at: usize) -> Vec<&[MergedToken<'_>]> {
        let Some([bracket, rest @ ..]) = self.statement.get(at + 1..) else {
            return Vec::new();
        };
        if !bracket.is_symbol("(") {
            return Vec::new();
        }
        let (mut depth, mut from, mut arguments) = (0_u32, 0, Vec::new());
        for (place, token) in rest.iter().enumerate().take(ARGUMENT_TOKENS_MAX) {
            if token.is_symbol("(") {
                depth += 1;
            } else if token.is_symbol(")") {
                if depth == 0 {
                    arguments.push(&rest[from..place]);
                    return arguments;
                }
                depth -= 1;
            } else if token.is_symbol(",") && depth == 0 {
                arguments.push(&rest[from..place]);
                from = place + 1;
            }
        }
        // The call is cut, or long.
        arguments.push(&rest[from..rest.len().min(ARGUMENT_TOKENS_MAX)]);
        arguments
    }

    /// Reads a call of `pgcrypto`, such as `pgp_sym_encrypt(data, key)`.
    fn find_key_argument(&self, at: usize, found: &mut SecretFindings) {
        let Some(function) = self.statement[at].name() else {
            return;
        };
        if !self
            .statement
            .get(at + 1)
            .is_some_and(|next| next.is_symbol("("))
        {
            return;
        }
        let is_called = |(name, _): &&(&str, usize)| function.eq_ignore_ascii_case(name);
        let Some((_, first)) = KEY_ARGUMENTS.iter().find(is_called) else {
            return;
        };
        for value in self
            .arguments(at)
            .into_iter()
            .skip(*first)
            .take(2)
            .flatten()
        {
            if matches!(
                value.kind,
                MergedTokenKind::Text | MergedTokenKind::Parameter
            ) {
                self.add_secret(value, found);
            }
        }
    }

    /// Returns the place after which literals are options of a foreign server, wrapper or user mapping.
    fn foreign_options(&self) -> Option<usize> {
        let is_any =
            |token: &MergedToken<'_>, words: &[&str]| words.iter().any(|word| token.is(word));
        let defines = is_any(self.statement.first()?, &["create", "alter"]);
        let place = self
            .statement
            .iter()
            .position(|token| token.is("options"))?;
        let before = &self.statement[..place];
        let is_foreign = before
            .iter()
            .any(|token| is_any(token, &["server", "mapping", "wrapper"]));
        let is_table = before.iter().any(|token| token.is("table"));
        (defines && is_foreign && !is_table).then_some(place)
    }

    /// Whether an option says what to connect to, or how to plan.
    fn is_harmless_option(name: Option<&str>) -> bool {
        let name = name.unwrap_or("");
        HARMLESS_OPTIONS
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    }

    /// Returns the name that the value at `at` is given to: before it, or before `=>` or `:=`.
    fn name_before(&self, at: usize) -> Option<&str> {
        match &self.statement[..at] {
            [.., name, first, second]
                if first.is_symbol("=") && second.is_symbol(">")
                    || first.is_symbol(":") && second.is_symbol("=") =>
            {
                name.name()
            }
            [.., name] => name.name(),
            [] => None,
        }
    }

    /// Whether the statement defines a function in a language whose text is not SQL.
    fn has_foreign_body(&self) -> bool {
        let mut words = self.statement.iter();
        let defines = self
            .statement
            .first()
            .is_some_and(|first| first.is("create") || first.is("do"));
        defines
            && words.any(|token| token.is("language"))
            && words.next().is_some_and(|language| {
                let name = match language.kind {
                    MergedTokenKind::Text => &*language.value,
                    _ => language.name().unwrap_or(""),
                };
                !["sql", "plpgsql"]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known))
            })
    }

    /// Reads `SET app.password = …`, alone or for a role, a database or a function.
    fn find_settings(&self, found: &mut SecretFindings) {
        let may_set = self
            .statement
            .first()
            .is_some_and(|first| ["set", "alter", "create"].iter().any(|word| first.is(word)));
        if !may_set {
            return;
        }
        for (at, _) in (self.statement.iter().enumerate()).filter(|(_, token)| token.is("set")) {
            let rest = &self.statement[at + 1..];
            let skipped = usize::from(
                rest.first()
                    .is_some_and(|token| token.is("local") || token.is("session")),
            );
            let rest = &rest[skipped..];
            let Some(equals) = rest
                .iter()
                .take(NAME_TOKENS_MAX)
                .position(|token| token.is_symbol("=") || token.is("to"))
            else {
                continue;
            };
            let name: Option<String> = rest[..equals]
                .iter()
                .map(|token| token.name().or(token.is_symbol(".").then_some(".")))
                .collect();
            let (Some(name), Some(first)) = (name, rest.get(equals + 1)) else {
                continue;
            };
            let known = found.covers(first.range.start);
            if known || !names_a_secret(&name) || first.is("default") {
                continue;
            }
            let values = rest[equals + 1..].split(|token| token.is("as")).next();
            let Some([.., last]) = values else {
                continue;
            };
            for parameter in values.into_iter().flatten() {
                if parameter.kind == MergedTokenKind::Parameter {
                    self.add_secret(parameter, found);
                }
            }
            if first.kind != MergedTokenKind::Parameter {
                found.secrets.push(first.range.start..last.range.end);
            }
        }
    }
}
