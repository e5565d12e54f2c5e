//! What of an event is secret besides its text: parameters, the settings of a connection, a row that was
//! returned.

use std::sync::Arc;

use super::literal::holds_login;
use super::names::names_a_secret;
use super::text::{find, value_holds_secret};
use super::{BARE_NOTHING, mentions, without};
use crate::event::Unreplayable;
use crate::event_ref::{EventRef, KindRef, Parameters};
use crate::parameter::Parameter;
use crate::particulars::{Particulars, Setting};

/// Texts of prepared statements that have no secret, and do nothing that would make one of a parameter: they come
/// again and again, and are looked through once, if not too many others came in between.
#[derive(Debug, Default)]
pub struct Harmless(Vec<Box<str>>);

/// So many are remembered.
const REMEMBERED_MAX: usize = 16;
/// Longer texts are looked through each time, in bytes.
const REMEMBERED_BYTES_MAX: usize = 4096;

impl Harmless {
    fn place(sql: &str) -> usize {
        // Texts of one program are of many lengths.
        sql.len() % REMEMBERED_MAX
    }

    fn has(&self, sql: &str) -> bool {
        let known = self.0.get(Self::place(sql));
        !sql.is_empty() && known.is_some_and(|known| **known == *sql)
    }

    fn take(&mut self, sql: &str) {
        if sql.len() <= REMEMBERED_BYTES_MAX {
            self.0.resize(REMEMBERED_MAX, Box::default());
            self.0[Self::place(sql)] = sql.into();
        }
    }
}

/// Hands on an event without the secrets in it, if it has any; otherwise as it is. One whose statement
/// would do something else without them is marked as not replayable.
pub fn event_without_secrets<R>(
    event: &EventRef<'_>,
    harmless: &mut Harmless,
    take: impl FnOnce(&EventRef<'_>) -> R,
) -> R {
    match event.kind {
        KindRef::Connect { .. } => match connection(event) {
            Some(particulars) => take(&EventRef {
                particulars: Some(&Arc::new(particulars)),
                ..*event
            }),
            None => take(event),
        },
        _ => statement(event, harmless, take),
    }
}

fn statement<R>(
    event: &EventRef<'_>,
    harmless: &mut Harmless,
    take: impl FnOnce(&EventRef<'_>) -> R,
) -> R {
    let Some(sql) = event.kind.sql() else {
        return take(event);
    };
    let (mentioned, parameters) = match event.kind {
        KindRef::Execute { parameters, .. } => {
            let is_harmless = harmless.has(sql);
            let mentioned = !is_harmless && mentions(sql);
            let sets = !is_harmless && memchr::memmem::find(sql.as_bytes(), b"et_config").is_some();
            if !(is_harmless || mentioned || sets) {
                harmless.take(sql);
            }
            let looks_into = mentioned || sets;
            let values = without_secret_values(sql, looks_into, parameters);
            (mentioned, values)
        }
        _ => (mentions(sql), None),
    };
    let cleaned = if mentioned { without(sql) } else { None };
    if cleaned.is_none() && parameters.is_none() {
        return take(event);
    }
    let same_effect =
        parameters.is_none() && (cleaned.as_ref()).is_some_and(|cleaned| cleaned.only_comments);
    let kind = match &cleaned {
        Some(cleaned) => event.kind.with_sql(&cleaned.sql),
        None => event.kind,
    };
    let kind = match (kind, &parameters) {
        (
            KindRef::Execute {
                statement,
                portal,
                sql,
                ..
            },
            Some(values),
        ) => KindRef::Execute {
            statement,
            portal,
            sql,
            parameters: Parameters::Values(values),
        },
        (kind, _) => kind,
    };
    if same_effect {
        return take(&EventRef { kind, ..*event });
    }
    // What it returned may be what it was given.
    let silent = event.particulars.map(|known| match &known.first_row {
        Some(_) => Arc::new(Particulars {
            first_row: None,
            ..Particulars::clone(known)
        }),
        None => known.clone(),
    });
    take(&EventRef {
        kind,
        unreplayable: Some(Unreplayable::SecretRemoved),
        particulars: silent.as_ref(),
        ..*event
    })
}

/// The values with stars for those that are secret; `None` where none is. `looks_into`: the text may say which.
fn without_secret_values(
    sql: &str,
    looks_into: bool,
    parameters: Parameters<'_>,
) -> Option<Vec<Option<Parameter>>> {
    // Most are numbers.
    let is_number = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
    let by_value = |value: &str| !is_number(value) && value_holds_secret(value);
    if parameters.is_empty() {
        return None;
    }
    let readable = || {
        parameters
            .iter()
            .map(|value| value.and_then(|value| value.readable()))
    };
    if !looks_into && !readable().flatten().any(by_value) {
        return None;
    }
    let found = match looks_into {
        true => find(sql, 0),
        false => super::text::Found::default(),
    };
    let named = found.settings_by_place && readable().flatten().any(names_a_secret);
    let mut removed = false;
    let values = parameters.iter().zip(1..).map(|(value, number)| {
        let value = value?;
        let text = value.readable();
        let secret = found.template
            || found.places.contains(&number)
            || named && !text.is_some_and(names_a_secret)
            || text.is_some_and(by_value);
        if secret && text != Some(BARE_NOTHING) {
            removed = true;
            return Some(Parameter::from(BARE_NOTHING));
        }
        Some(value.to_parameter())
    });
    let values = values.collect();
    removed.then_some(values)
}

/// What the connection's settings are without secrets; `None` where they have none.
fn connection(event: &EventRef<'_>) -> Option<Particulars> {
    let known = event.particulars?;
    let settings: Vec<Setting> = known.settings.iter().map(setting).collect();
    (settings != known.settings).then(|| Particulars {
        settings,
        ..Particulars::clone(known)
    })
}

fn setting((name, value): &Setting) -> Setting {
    let value = if &**name == "options" {
        options(value)
    } else if names_a_secret(name) || holds_login(value) {
        BARE_NOTHING.into()
    } else {
        value.clone()
    };
    (name.clone(), value)
}

/// `-c name=value` and `--name=value`, where a backslash keeps a blank (PostgreSQL documentation,
/// 55.2.1).
fn options(options: &str) -> Box<str> {
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
        let (word, behind) = rest.split_at(end);
        match word.split_once('=') {
            Some((name, value))
                if names_a_secret(name) || holds_login(&value.replace('\\', "")) =>
            {
                written.push_str(name);
                written.push('=');
                written.push_str(BARE_NOTHING);
            }
            _ => written.push_str(word),
        }
        let blank = behind.len() - behind.trim_start().len();
        written.push_str(&behind[..blank]);
        rest = &behind[blank..];
    }
    written.into()
}
