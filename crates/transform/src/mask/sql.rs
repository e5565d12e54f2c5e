//! Masks literals in the text of a statement. They are found with the lexer of the fingerprints, so
//! that a masked statement has the fingerprint of the original (except if a backslash escapes,
//! which fingerprints ignore).

mod escaped_literals;
mod reading;
mod scanner;

use sql::{Lexer, Token};

use super::Mask;
use super::backslash::BackslashMeaning;
use super::codes::mask_bits;
use super::number::Number;
use super::outcome::MaskOutcome;
use super::words::{TextSyntax, mask_text};
pub(super) use reading::Reading;
use scanner::SqlScanner;
use sql::Spelling;
use workload::{KeepReason, MaskAccount};

/// Maximum nesting depth of code in code; deeper code is masked as text.
const DEPTH_MAX: u32 = 4;

/// Role of a parameter, by the position of its `$1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterRole {
    Data,
    Expression,
    /// A path with filters.
    Path,
    /// The value of the setting that this parameter (from 1) names.
    SettingOf(usize),
    Kept(KeepReason),
}

/// Roles of all parameters.
#[derive(Debug, Default)]
pub(super) struct ParameterRoles(Vec<Option<ParameterRole>>);

impl ParameterRoles {
    /// Records a role. A parameter in several positions is data if one of them is.
    fn add(&mut self, number: usize, role: ParameterRole) {
        if self.0.len() < number {
            self.0.resize(number, None);
        }
        let known = &mut self.0[number - 1];
        *known = match *known {
            None => Some(role),
            Some(known) if known == role => Some(known),
            Some(_) => Some(ParameterRole::Data),
        };
    }

    /// Returns the role of the parameter at `index`, from 0.
    pub(super) fn get(&self, index: usize) -> ParameterRole {
        self.0
            .get(index)
            .copied()
            .flatten()
            .unwrap_or(ParameterRole::Data)
    }
}

/// Returns the number of a `$1`.
fn parameter_number(token: &str) -> Option<usize> {
    let number = token.strip_prefix('$')?.parse().ok()?;
    (1..=usize::from(u16::MAX))
        .contains(&number)
        .then_some(number)
}

impl Mask {
    /// Masks the literals of one or several statements, and blanks out comments.
    pub(super) fn mask_sql(
        &self,
        sql: &str,
        reading: impl Into<Reading>,
        account: &mut MaskAccount,
        roles: &mut ParameterRoles,
        out: &mut String,
    ) {
        roles.0.clear();
        self.mask_sql_within(sql, (reading.into(), 0), account, roles, out);
    }

    fn mask_sql_within(
        &self,
        sql: &str,
        (reading, depth): (Reading, u32),
        account: &mut MaskAccount,
        roles: &mut ParameterRoles,
        out: &mut String,
    ) {
        let rules = reading.backslash.lexical_rules();
        let tokens: Vec<Token> = Lexer::with_rules(sql, rules).collect();
        let either = reading.uncertain_parts(sql, &tokens);
        let escapes = reading.backslash == BackslashMeaning::Escapes;
        let mut scanner = SqlScanner::new(sql, tokens, escapes, either);
        let mut copied = 0;
        for index in 0..scanner.tokens.len() {
            let token = scanner.tokens[index];
            out.push_str(&sql[copied..token.start()]);
            copied = token.end();
            let text = &sql[token.start()..token.end()];
            match token {
                Token::Comment { .. } => {
                    let is_hint = text.starts_with("/*+") && !token.is_unterminated(text, rules);
                    self.mask_comment(text, is_hint, account, out);
                    continue;
                }
                Token::Value { .. } if Spelling::of(text).0 == Spelling::Placeholder => {
                    out.push_str(text);
                    // `$0` and `$70000` refer to no parameter.
                    if let Some(number) = parameter_number(text).filter(|_| depth == 0) {
                        roles.add(number, scanner.parameter_role(index));
                    }
                }
                Token::Value { .. } => {
                    self.mask_literal(&scanner, index, (reading, depth), account, out)
                }
                _ if scanner.is_client_name(index) => self.mask_client_name(text, account, out),
                _ if scanner.is_escaped_literal(token) => {
                    mask_text(&self.key, text, TextSyntax::Plain, out);
                    MaskOutcome::Masked.count(&mut account.literals);
                }
                _ => out.push_str(text),
            }
            scanner.advance(index);
        }
        out.push_str(&sql[copied..]);
    }

    /// Masks a comment; planner hints (`pg_hint_plan`), which name tables and indexes, stay.
    fn mask_comment(&self, text: &str, is_hint: bool, account: &mut MaskAccount, out: &mut String) {
        if is_hint {
            out.push_str(text);
            return;
        }
        account.comments += 1;
        out.push_str(if text.starts_with("--") { "--" } else { "/**/" });
    }

    /// Masks the name of a savepoint or a channel. A channel is the same in `pg_notify('channel', …)`, as the server
    /// folds it.
    fn mask_client_name(&self, text: &str, account: &mut MaskAccount, out: &mut String) {
        let folded = match text.contains('"') {
            true => text.to_owned(),
            false => text.to_ascii_lowercase(),
        };
        match mask_text(&self.key, &folded, TextSyntax::Plain, out) {
            true => MaskOutcome::Masked,
            false => MaskOutcome::Kept(KeepReason::Small),
        }
        .count(&mut account.names);
    }

    fn mask_literal(
        &self,
        scanner: &SqlScanner<'_>,
        index: usize,
        (reading, depth): (Reading, u32),
        account: &mut MaskAccount,
        out: &mut String,
    ) {
        let token = scanner.tokens[index];
        let text = &scanner.sql[token.start()..token.end()];
        let (spelling, inner) = scanner.spelling_of(index, out);
        let spelling = with_neutral_tag(spelling);
        let value = spelling.read(inner);
        let is_code = depth < DEPTH_MAX
            && scanner.either.is_empty()
            && scanner.is_code(index)
            && spelling != Spelling::Number;
        if is_code && self.kept_reason(&value) != Some(KeepReason::Requested) {
            // Its literals are counted individually.
            let mut masked = String::with_capacity(value.len());
            self.mask_sql_within(
                &value,
                (reading, depth + 1),
                account,
                &mut ParameterRoles::default(),
                &mut masked,
            );
            spelling.write(&masked, out);
            return;
        }
        let reason = match scanner.either.is_empty() {
            true => scanner.kept_reason(index, spelling, &value),
            // The words around it may not be words of the statement.
            false => None,
        };
        // A kept literal must be parsed the same under either setting, too.
        // Between its segments may be comments.
        let is_respelled = spelling != Spelling::of(text).0 || !Spelling::gaps(text).is_empty();
        let stays = |out: &mut String| match is_respelled {
            true => spelling.write(&value, out),
            false => out.push_str(text),
        };
        if let Some(reason) = reason {
            stays(out);
            MaskOutcome::Kept(reason).count(&mut account.literals);
            return;
        }
        let mut masked = String::with_capacity(value.len());
        let outcome = match spelling {
            Spelling::Number => {
                let outcome = self.mask_number(&value, &mut masked);
                // The decimal number for `0x1F.a` and `0b1e5` would be longer.
                let after = scanner.sql[token.end()..].bytes().next();
                if after.is_some_and(|byte| byte == b'.' || byte.is_ascii_alphanumeric())
                    && masked != value
                    && is_based(&value)
                {
                    masked.push(' ');
                }
                outcome
            }
            Spelling::Bits(_) if mask_bits(&self.key, &value, &mut masked) => MaskOutcome::Masked,
            Spelling::HexBits(_) => self.mask_hex_bits(&value, &mut masked),
            // The words around it may not be words of the statement.
            _ if !scanner.either.is_empty() => self.mask_value(&value, &mut masked),
            _ if scanner.is_expression_operand() => match self.kept_reason(&value) {
                Some(reason) => MaskOutcome::Kept(reason),
                None => {
                    mask_text(&self.key, &value, TextSyntax::Expression, &mut masked);
                    MaskOutcome::Masked
                }
            },
            _ if scanner.is_path_operand(&value) && self.kept_reason(&value).is_none() => {
                self.mask_path(&value, &mut masked)
            }
            _ => self.mask_value(&value, &mut masked),
        };
        outcome.count(&mut account.literals);
        match outcome {
            MaskOutcome::Kept(_) => stays(out),
            _ => spelling.write(&masked, out),
        }
    }

    /// Masks a number; spellings with another base are written as decimal numbers.
    fn mask_number(&self, text: &str, out: &mut String) -> MaskOutcome {
        let unsigned = text.trim_start_matches(['-', '+']);
        let radix = match unsigned.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ if Number::parse(unsigned).is_some() => return self.mask_value(text, out),
            _ => return self.mask_digits(text, out),
        };
        match u128::from_str_radix(&unsigned[2..], radix) {
            Ok(number) => {
                let sign = &text[..text.len() - unsigned.len()];
                self.mask_value(&format!("{sign}{number}"), out)
            }
            Err(_) => self.mask_digits(text, out),
        }
    }

    /// Masks a token that begins as a number: `5x` is 5 with a name after it, up to PostgreSQL 14.
    /// Letters stay; others could extend the number, as an `e` before a minus would.
    fn mask_digits(&self, text: &str, out: &mut String) -> MaskOutcome {
        let mut masked = false;
        let mut rest = text;
        while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
            out.push_str(&rest[..at]);
            let after = rest[at..].trim_start_matches(|character: char| character.is_ascii_digit());
            let run = &rest[at..rest.len() - after.len()];
            masked |= mask_text(&self.key, run, TextSyntax::Plain, out);
            rest = after;
        }
        out.push_str(rest);
        match masked {
            true => MaskOutcome::Masked,
            false => MaskOutcome::Kept(KeepReason::Small),
        }
    }

    fn mask_hex_bits(&self, digits: &str, out: &mut String) -> MaskOutcome {
        let bits: Option<String> = digits
            .chars()
            .map(|digit| digit.to_digit(16).map(|digit| format!("{digit:04b}")))
            .collect();
        let mut masked = String::new();
        match bits {
            Some(bits) if mask_bits(&self.key, &bits, &mut masked) => {
                let digit = |bits: &[u8]| {
                    bits.iter()
                        .fold(0u32, |digit, bit| digit * 2 + u32::from(bit - b'0'))
                };
                out.extend(
                    masked
                        .as_bytes()
                        .chunks(4)
                        .filter_map(|bits| char::from_digit(digit(bits), 16)),
                );
                MaskOutcome::Masked
            }
            _ => self.mask_value(digits, out),
        }
    }
}

/// Replaces the tag of a dollar-quoted literal, which a client chooses: `$smith$`.
fn with_neutral_tag(spelling: Spelling<'_>) -> Spelling<'_> {
    match spelling {
        Spelling::Dollars("$$") => spelling,
        Spelling::Dollars(_) => Spelling::Dollars("$m$"),
        _ => spelling,
    }
}

/// Returns whether a number has another base than ten.
fn is_based(number: &str) -> bool {
    let unsigned = number.trim_start_matches(['-', '+']).as_bytes();
    unsigned.first() == Some(&b'0') && unsigned.get(1).is_some_and(u8::is_ascii_alphabetic)
}
