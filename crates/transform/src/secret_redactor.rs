//! Redaction of the secrets of events: in their text, their parameters, the settings of a connection and a returned row.

use std::sync::Arc;

use sql::secrets::{
    REDACTED, may_hold_secret, may_name_settings_by_parameter, redact_setting, redact_sql,
    secret_parameters,
};
use workload::{
    Event, EventKind, EventRef, KindRef, Parameter, Parameters, Redactor, Setting, Unreplayable,
    WireDetails,
};

/// Redacts the secrets of everything that a workload writer receives. A statement that would have
/// another effect without its secrets is marked as not replayable.
#[derive(Debug, Default)]
pub struct SecretRedactor {
    cache: RedactionCache,
}

impl Redactor for SecretRedactor {
    fn redact_event(&mut self, event: &EventRef<'_>) -> Option<Event> {
        match event.kind {
            KindRef::Connect { .. } => redact_connection(event),
            _ => self.redact_statement(event),
        }
    }

    fn redact_sql(&mut self, sql: &str) -> Option<String> {
        redact_sql(sql).map(|redacted| redacted.sql)
    }
}

impl SecretRedactor {
    fn redact_statement(&mut self, event: &EventRef<'_>) -> Option<Event> {
        let sql = event.kind.sql()?;
        let (redacted, parameters) = match event.kind {
            KindRef::Execute { parameters, .. } if self.cache.contains(sql) => {
                (None, redact_parameters(None, parameters))
            }
            KindRef::Execute { parameters, .. } => {
                let may_hold_secret = may_hold_secret(sql);
                let is_relevant = may_hold_secret || may_name_settings_by_parameter(sql);
                if !is_relevant {
                    self.cache.insert(sql);
                }
                let redacted = if may_hold_secret {
                    redact_sql(sql)
                } else {
                    None
                };
                let parameters = redact_parameters(is_relevant.then_some(sql), parameters);
                (redacted, parameters)
            }
            KindRef::FunctionCall { parameters, .. } => (None, redact_parameters(None, parameters)),
            _ => (redact_sql(sql), None),
        };
        if redacted.is_none() && parameters.is_none() {
            return None;
        }
        let has_same_effect =
            parameters.is_none() && (redacted.as_ref()).is_some_and(|sql| sql.only_comments);
        let mut event = match &redacted {
            Some(redacted) => EventRef {
                kind: event.kind.with_sql(&redacted.sql),
                ..*event
            }
            .to_event(),
            None => event.to_event(),
        };
        if let (
            EventKind::Execute { parameters, .. } | EventKind::FunctionCall { parameters, .. },
            Some(redacted),
        ) = (&mut event.kind, parameters)
        {
            *parameters = redacted;
        }
        if !has_same_effect {
            event.unreplayable = Some(Unreplayable::SecretRemoved);
            // The returned row may repeat the secret.
            if let Some(particulars) = &mut event.wire_details
                && particulars.first_rows.is_some()
            {
                Arc::make_mut(particulars).first_rows = None;
            }
        }
        Some(event)
    }
}

/// Returns the parameters with the secret ones redacted, or `None` if none is secret. `sql` is given if it may say
/// which ones are.
fn redact_parameters(
    sql: Option<&str>,
    parameters: Parameters<'_>,
) -> Option<Vec<Option<Parameter>>> {
    if parameters.is_empty() {
        return None;
    }
    let values = || {
        let values = parameters.iter();
        values.map(|value| value.and_then(|value| value.readable()))
    };
    let secrets = secret_parameters(sql, values);
    if secrets.is_empty() {
        return None;
    }
    let mut is_redacted = false;
    let values = parameters.iter().enumerate().map(|(index, value)| {
        let value = value?;
        if secrets.contains(&index) {
            is_redacted = true;
            return Some(Parameter::from(REDACTED));
        }
        Some(value.to_parameter())
    });
    let values = values.collect();
    is_redacted.then_some(values)
}

/// Texts of prepared statements without secrets, and without a `set_config` that could make a parameter secret. Such
/// texts repeat; a cached one is not searched again.
#[derive(Debug, Default)]
struct RedactionCache(Vec<Box<str>>);

impl RedactionCache {
    const ENTRIES: usize = 16;
    /// Longer texts are searched each time, in bytes.
    const TEXT_BYTES_MAX: usize = 4096;

    fn index(sql: &str) -> usize {
        // The texts of one program differ in length.
        sql.len() % Self::ENTRIES
    }

    fn contains(&self, sql: &str) -> bool {
        let cached = self.0.get(Self::index(sql));
        !sql.is_empty() && cached.is_some_and(|cached| **cached == *sql)
    }

    fn insert(&mut self, sql: &str) {
        if sql.len() <= Self::TEXT_BYTES_MAX {
            self.0.resize(Self::ENTRIES, Box::default());
            self.0[Self::index(sql)] = sql.into();
        }
    }
}

/// Redacts the settings of a connection.
fn redact_connection(event: &EventRef<'_>) -> Option<Event> {
    let particulars = event.wire_details?;
    let redact = |(name, value): &Setting| redact_setting(name, value);
    let redacted: Vec<_> = particulars.settings.iter().map(redact).collect();
    if redacted.iter().all(Option::is_none) {
        return None;
    }
    let mut particulars = WireDetails::clone(particulars);
    for ((_, value), redacted) in particulars.settings.iter_mut().zip(redacted) {
        *value = redacted.unwrap_or_else(|| std::mem::take(value));
    }
    Some(Event {
        wire_details: Some(Arc::new(particulars)),
        ..event.to_event()
    })
}

#[cfg(test)]
mod tests;
