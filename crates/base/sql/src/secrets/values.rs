//! Secrets outside of a statement's text: parameters, and settings of a connection.

use super::findings::{NamePart, SecretFindings, SettingByParameter};
use super::literal::{has_password_placeholder, holds_login};
use super::names::{mentions_secret_setting, names_a_secret};
use super::text::{find, value_holds_secret};
use super::{REDACTED, may_hold_secret};

/// Returns whether a text may call `set_config` with the setting's name in a parameter.
pub fn may_name_settings_by_parameter(sql: &str) -> bool {
    memchr::memmem::find(sql.as_bytes(), b"et_config").is_some()
}

/// Returns the indices of the parameters that are secrets. `sql` is given if it may say which ones are:
/// [`super::may_hold_secret`] or [`may_name_settings_by_parameter`] is true for it. `values` iterates over the
/// parameters; `None` stands for NULL and for a value that cannot be read.
pub fn secret_parameters<'v, I>(sql: Option<&str>, values: impl Fn() -> I) -> Vec<usize>
where
    I: Iterator<Item = Option<&'v str>>,
{
    // Most values are numbers.
    let is_number = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
    let is_secret = |value: &str| !is_number(value) && value_holds_secret(value);
    let is_template = |value: &str| !is_number(value) && has_password_placeholder(value);
    if sql.is_none()
        && !values()
            .flatten()
            .any(|value| is_secret(value) || is_template(value))
    {
        return Vec::new();
    }
    let found = sql.map_or_else(SecretFindings::default, |sql| find(sql, 0));
    let named = values_of_named_settings(&found, &values);
    // Which value belongs to the name, or to the placeholder, is not known.
    let is_any = |value: &str| {
        found.names_open_setting && mentions_secret_setting(value)
            || may_hold_secret(value) && has_password_placeholder(value)
    };
    let all = found.is_concatenated || values().flatten().any(is_any);
    let secrets = values().enumerate().filter(|(index, value)| {
        let secret = all
            || found.parameters.contains(&(index + 1))
            || named.contains(&(index + 1))
            || value.is_some_and(is_secret);
        secret && *value != Some(REDACTED)
    });
    secrets.map(|(index, _)| index).collect()
}

/// Returns the numbers of the parameters (from 1) that are values of settings which other parameters name.
fn values_of_named_settings<'v, I>(found: &SecretFindings, values: &impl Fn() -> I) -> Vec<usize>
where
    I: Iterator<Item = Option<&'v str>>,
{
    let name = |call: &&SettingByParameter| -> bool {
        let parts = call.name.iter().map(|part| match part {
            NamePart::Text(text) => text.as_str(),
            NamePart::Parameter(number) => {
                let value = number.checked_sub(1).and_then(|index| values().nth(index));
                value.flatten().unwrap_or("")
            }
        });
        names_a_secret(&parts.collect::<String>())
    };
    let calls = found.settings_by_parameter.iter().filter(name);
    calls.flat_map(|call| call.values.iter().copied()).collect()
}

/// Returns the value of a connection's setting without secrets, or `None` if it has none.
pub fn redact_setting(name: &str, value: &str) -> Option<Box<str>> {
    let redacted = if name == "options" {
        redact_options(value)
    } else if names_a_secret(name) || holds_login(value) {
        REDACTED.into()
    } else {
        return None;
    };
    (*redacted != *value).then_some(redacted)
}

/// Redacts `-c name=value` and `--name=value`, where a backslash escapes a blank (PostgreSQL documentation,
/// 55.2.1).
fn redact_options(options: &str) -> Box<str> {
    let mut written = String::with_capacity(options.len());
    let mut rest = options;
    while !rest.is_empty() {
        let mut escaped = false;
        let end = rest.find(|character: char| {
            let ends = character.is_whitespace() && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        match word.split_once('=') {
            Some((name, value))
                if names_a_secret(name) || holds_login(&value.replace('\\', "")) =>
            {
                written.push_str(name);
                written.push('=');
                written.push_str(REDACTED);
            }
            _ => written.push_str(word),
        }
        let blank = tail.len() - tail.trim_start().len();
        written.push_str(&tail[..blank]);
        rest = &tail[blank..];
    }
    written.into()
}
