//! Masks people's data: values are replaced by others of the same type, length and order of
//! magnitude, consistently by a key.
//!
//! A value is masked by the appearance of its text (`value.rs`), in binary form as the text of its
//! type (`binary.rs`). So a number is masked to the same number in a literal, in a parameter of
//! either form and in a row of COPY. Numbers, short words, dates and UUIDs are permuted (`key.rs`),
//! so that different values stay different. The literals of statements are found with the lexer of
//! the fingerprints (`sql.rs`), as the session parses them (`backslash.rs`). The words around a
//! literal decide whether it is an instruction, which stays (`rules.rs`); for a parameter, the
//! words around its `$1` do.
//!
//! `capture_sink::MaskSink` masks between a source and a writer; the program masks between a reader
//! and a writer, and the rows of a dump. This module handles no files. Databases, roles, tables,
//! statements and portals keep their names, since a replay needs them. `docs/reference/masking.md` documents
//! what masking hides.

mod backslash;
mod binary;
mod calendar;
mod codes;
mod copy;
mod copy_format;
mod key;
mod number;
mod outcome;
mod path;
mod rules;
mod sql;
mod structured;
mod value;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::sql::{Fingerprinter, Pattern};
use workload::{
    CopyIn, EventRef, FirstRows, KindRef, LargeObjectFunction, PackedParameters, Parameter,
    ParameterRef, Parameters, ServerEvent, Session, WireDetails, is_reported, without_advisory_key,
};

use backslash::{BackslashMeaning, BackslashTracker};
pub(crate) use copy::escape_text;
pub use copy_format::CopyFormat;
pub use key::{InvalidMaskKey, MaskKey};
use outcome::MaskOutcome;
use sql::{ParameterRole, ParameterRoles, Reading};
use words::{TextSyntax, mask_text};
use workload::{KeepReason, MaskAccount, MaskNote, MaskedValues};

/// OID of the type `bytea`.
const BYTEA: u32 = 17;

/// Keys of objects in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonKeys {
    /// They stay, as statements have them as names.
    Kept,
    /// They are masked as values.
    Masked,
}

/// Rules and key for masking values.
#[derive(Debug, Clone)]
pub struct Mask {
    key: MaskKey,
    json_keys: JsonKeys,
    keep_values: Vec<Pattern>,
    keep_statements: Vec<Pattern>,
}

impl Mask {
    /// Creates a mask with this key.
    pub fn new(key: MaskKey) -> Self {
        Mask {
            key,
            json_keys: JsonKeys::Kept,
            keep_values: Vec::new(),
            keep_statements: Vec::new(),
        }
    }

    /// Masks the keys of JSON, too. They can be data, such as identifiers of people.
    pub fn mask_json_keys(&mut self) {
        self.json_keys = JsonKeys::Masked;
    }

    /// Keeps values that match as a whole, such as the labels of an enumeration. A pattern that begins with `*` is
    /// compared with the elements of an array and the values of JSON, and not with the whole text.
    pub fn keep_value(&mut self, pattern: Pattern) {
        self.keep_values.push(pattern);
    }

    /// Keeps the literals, parameters and data of matching statements.
    pub fn keep_statement(&mut self, pattern: Pattern) {
        self.keep_statements.push(pattern);
    }

    /// Returns the replacement of a value in text form, as that of a parameter without a type. The elements of an array
    /// are replaced one by one.
    pub fn replace(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        self.mask_value(text, &mut masked);
        masked
    }

    /// The key.
    pub fn key(&self) -> &MaskKey {
        &self.key
    }

    /// The patterns of kept values and statements, as given.
    pub fn kept_patterns(&self) -> (Vec<String>, Vec<String>) {
        let given =
            |patterns: &[Pattern]| patterns.iter().map(|one| one.given().to_owned()).collect();
        (given(&self.keep_values), given(&self.keep_statements))
    }
}

/// Masks events, and counts.
#[derive(Debug)]
pub struct Masker {
    mask: Mask,
    account: MaskAccount,
    fingerprinter: Fingerprinter,
    /// State of the sessions, which may be common to maskers of several outputs.
    backslashes: Arc<Mutex<BackslashTracker>>,
    roles: ParameterRoles,
    sql: String,
    application: String,
    parameters: PackedParameters,
}

impl Masker {
    /// Creates a masker with this mask.
    pub fn new(mask: Mask) -> Self {
        Masker {
            mask,
            account: MaskAccount::default(),
            fingerprinter: Fingerprinter::new(),
            backslashes: Arc::default(),
            roles: ParameterRoles::default(),
            sql: String::new(),
            application: String::new(),
            parameters: PackedParameters::default(),
        }
    }

    /// Creates a masker for another output with the same sessions. It has an account of its own.
    pub fn for_another_output(&self) -> Self {
        Masker {
            backslashes: self.backslashes.clone(),
            ..Masker::new(self.mask.clone())
        }
    }

    fn backslashes(&self) -> MutexGuard<'_, BackslashTracker> {
        (self.backslashes.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// The mask.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Account of all values so far.
    pub fn account(&self) -> &MaskAccount {
        &self.account
    }

    /// Describes the masking so far for the manifest.
    pub fn note(&self) -> MaskNote {
        let (keep_values, keep_statements) = self.mask.kept_patterns();
        MaskNote {
            key: self.mask.key.fingerprint().to_owned(),
            keep_values,
            keep_statements,
            account: self.account.clone(),
        }
    }

    /// Passes the masked event to `then`.
    pub fn mask_event<T>(
        &mut self,
        event: &EventRef<'_>,
        then: impl FnOnce(&EventRef<'_>) -> T,
    ) -> T {
        let backslash = self.backslashes().advance(event);
        let kept = self.is_kept_statement(event.kind.sql(), backslash);
        let reading = Reading::of(backslash, &event.outcome);
        self.mask_text(event.kind.sql(), kept, reading);
        let account = &mut self.account;
        let sql = self.sql.as_str();
        // The result of a function call is recorded only if it identifies a large object.
        let is_result_kept = kept || matches!(event.kind, KindRef::FunctionCall { .. });
        let details = event.wire_details.filter(|details| holds_values(details));
        let particulars = details.map(|details| {
            let statement = (event.kind.sql().unwrap_or(""), backslash);
            let mask = &self.mask;
            Arc::new(mask_details(
                mask,
                statement,
                is_result_kept,
                details,
                account,
            ))
        });
        self.application.clear();
        self.parameters.clear();
        let mut mask_all = |parameters: Parameters<'_>, types: &[u32], role: &RoleOf<'_>| {
            let role = |index| match kept {
                true => ParameterRole::Kept(KeepReason::Requested),
                false => role(index),
            };
            let (counts, out) = (&mut account.parameters, &mut self.parameters);
            mask_parameters(&self.mask, role, types, parameters, counts, out);
        };
        let kind = match event.kind {
            KindRef::Connect {
                database,
                user,
                application,
            } => {
                let outcome = self.mask.mask_value(application, &mut self.application);
                outcome.count(&mut account.names);
                KindRef::Connect {
                    database,
                    user,
                    application: &self.application,
                }
            }
            KindRef::Simple { .. } => KindRef::Simple { sql },
            KindRef::Prepare { statement, .. } => KindRef::Prepare { statement, sql },
            KindRef::Execute {
                statement,
                portal,
                parameters,
                ..
            } => {
                let types = event
                    .wire_details
                    .map_or(&[][..], |known| &known.parameter_types);
                mask_all(parameters, types, &|index| self.roles.get(index));
                KindRef::Execute {
                    statement,
                    portal,
                    sql,
                    parameters: self.parameters.borrowed(),
                }
            }
            KindRef::Fetch {
                statement, portal, ..
            } => KindRef::Fetch {
                statement,
                portal,
                sql,
            },
            KindRef::FunctionCall {
                function,
                parameters,
                ..
            } => {
                let types = argument_types(function);
                mask_all(parameters, types, &|index| argument_role(types, index));
                KindRef::FunctionCall {
                    function,
                    sql,
                    parameters: self.parameters.borrowed(),
                }
            }
            KindRef::Cancel => KindRef::Cancel,
            KindRef::Disconnect => KindRef::Disconnect,
        };
        then(&EventRef {
            kind,
            wire_details: particulars.as_ref().or(event.wire_details),
            ..*event
        })
    }

    /// Masks a statement's text into `self.sql`.
    fn mask_text(&mut self, sql: Option<&str>, kept: bool, reading: Reading) {
        self.sql.clear();
        match sql {
            Some(sql) if kept => self.sql.push_str(sql),
            Some(sql) => {
                let (account, roles) = (&mut self.account, &mut self.roles);
                self.mask
                    .mask_sql(sql, reading, account, roles, &mut self.sql);
            }
            None => (),
        }
    }

    fn is_kept_statement(&mut self, sql: Option<&str>, backslash: BackslashMeaning) -> bool {
        let patterns = &self.mask.keep_statements;
        let Some(sql) = sql.filter(|_| !patterns.is_empty()) else {
            return false;
        };
        // Without such backslashes only can words of the statement be told from text within a
        // literal.
        if backslash != BackslashMeaning::Plain && sql.contains("\\'") {
            return false;
        }
        let normal = self.fingerprinter.normalise(sql);
        patterns
            .iter()
            .any(|pattern| pattern.matches_statement(normal))
    }

    /// Masks the identity of the client.
    pub fn mask_session(&mut self, mut session: Session) -> Session {
        for text in [&mut session.application, &mut session.client] {
            if text.is_empty() {
                continue;
            }
            let mut masked = String::with_capacity(text.len());
            let outcome = self.mask.mask_value(text, &mut masked);
            outcome.count(&mut self.account.names);
            *text = masked.into();
        }
        session
    }

    /// Masks the statement of a server event, and removes its texts that may hold values: messages, which quote
    /// them, and the keys of advisory locks.
    pub fn mask_server_event(&mut self, mut event: ServerEvent) -> ServerEvent {
        let texts = &mut self.account.server_texts;
        *texts += u64::from(event.message.take().is_some());
        if event.kind.may_hold_values() {
            *texts += u64::from(event.subject.take().is_some());
        }
        let advisory = event.subject.as_deref().and_then(without_advisory_key);
        if let Some(lock) = advisory {
            *texts += 1;
            event.subject = Some(lock.into());
        }
        if let Some(sql) = event.sql.take() {
            let backslash = match event.session {
                Some(session) => self.backslashes().meaning_in(session),
                None => BackslashMeaning::Plain,
            };
            let kept = self.is_kept_statement(Some(&sql), backslash);
            let mut masked = String::with_capacity(sql.len());
            match kept {
                true => masked.push_str(&sql),
                false => {
                    let (account, roles) = (&mut self.account, &mut self.roles);
                    self.mask
                        .mask_sql(&sql, backslash, account, roles, &mut masked);
                }
            }
            event.sql = Some(masked.into());
        }
        event
    }
}

/// Returns the role of the parameter with this index.
type RoleOf<'a> = dyn Fn(usize) -> ParameterRole + 'a;

/// Returns whether details hold values of the client or of its results.
fn holds_values(details: &WireDetails) -> bool {
    details.copy.is_some()
        || details.first_rows.is_some()
        || details.result_digest.is_some()
        || !details.settings.is_empty()
}

/// Returns the types of a called function's arguments, if it is one for large objects.
fn argument_types(function: &str) -> &'static [u32] {
    let called = function.parse().ok().and_then(LargeObjectFunction::of);
    called.map_or(&[], |called| called.arguments)
}

/// Returns the role of an argument of a function for large objects. Bytes are data; others are
/// identifiers, positions and lengths.
fn argument_role(types: &[u32], index: usize) -> ParameterRole {
    match types.get(index) {
        Some(&oid) if oid != BYTEA => ParameterRole::Kept(KeepReason::Instruction),
        _ => ParameterRole::Data,
    }
}

/// Masks the parameters of an execution by their roles and types.
fn mask_parameters(
    mask: &Mask,
    role_of: impl Fn(usize) -> ParameterRole,
    types: &[u32],
    parameters: Parameters<'_>,
    counts: &mut MaskedValues,
    out: &mut PackedParameters,
) {
    for (index, value) in parameters.iter().enumerate() {
        let oid = types.get(index).copied().unwrap_or(0);
        let role = match role_of(index) {
            ParameterRole::SettingOf(name) => {
                let name = parameters.iter().nth(name - 1).flatten();
                match name.and_then(|name| name.readable()) {
                    Some(name) if !rules::is_data_setting(name) => {
                        ParameterRole::Kept(KeepReason::Setting)
                    }
                    _ => ParameterRole::Data,
                }
            }
            role => role,
        };
        mask_parameter(mask, role, oid, value, counts, out);
    }
}

fn mask_parameter(
    mask: &Mask,
    role: ParameterRole,
    oid: u32,
    value: Option<ParameterRef<'_>>,
    counts: &mut MaskedValues,
    out: &mut PackedParameters,
) {
    let Some(value) = value else {
        out.push_null();
        return;
    };
    let outcome = match (role, value) {
        (ParameterRole::Kept(reason), ParameterRef::Text(text)) => {
            out.push_text(text);
            out.end_value();
            MaskOutcome::Kept(reason)
        }
        (ParameterRole::Kept(reason), ParameterRef::Binary(bytes)) => {
            out.push_binary(bytes);
            MaskOutcome::Kept(reason)
        }
        (role, ParameterRef::Text(text)) => {
            let (masked, outcome) = mask_text_parameter(mask, role, oid, text);
            out.push_text(&masked);
            out.end_value();
            outcome
        }
        (_, ParameterRef::Binary(bytes)) => {
            let (masked, outcome) = mask.mask_binary(oid, bytes);
            out.push_binary(&masked);
            outcome
        }
    };
    outcome.count(counts);
}

fn mask_text_parameter(
    mask: &Mask,
    role: ParameterRole,
    oid: u32,
    text: &str,
) -> (String, MaskOutcome) {
    /// bit, varbit: their text looks like numbers.
    const BITS: [u32; 2] = [1560, 1562];
    let mut masked = String::with_capacity(text.len());
    if role == ParameterRole::Expression && mask.kept_reason(text).is_none() {
        mask_text(&mask.key, text, TextSyntax::Expression, &mut masked);
        return (masked, MaskOutcome::Masked);
    }
    if role == ParameterRole::Path && mask.kept_reason(text).is_none() {
        let outcome = mask.mask_path(text, &mut masked);
        return (masked, outcome);
    }
    if BITS.contains(&oid) && codes::mask_bits(&mask.key, text, &mut masked) {
        return (masked, MaskOutcome::Masked);
    }
    let outcome = mask.mask_value(text, &mut masked);
    (masked, outcome)
}

fn mask_details(
    mask: &Mask,
    (sql, backslash): (&str, BackslashMeaning),
    kept: bool,
    particulars: &WireDetails,
    account: &mut MaskAccount,
) -> WireDetails {
    let mut masked = particulars.clone();
    account.digests += u64::from(masked.result_digest.take().is_some());
    for (name, value) in &mut masked.settings {
        let outcome = match rules::is_data_setting(name) {
            // `-c app.user=42 -c work_mem=64MB`: separated by blanks.
            _ if &**name == "options" => {
                let words = value.split(' ').map(|word| mask_option(mask, word));
                *value = words.collect::<Vec<_>>().join(" ").into();
                MaskOutcome::Kept(KeepReason::Setting)
            }
            _ if is_reported(name) => MaskOutcome::Kept(KeepReason::Setting),
            false => MaskOutcome::Kept(KeepReason::Setting),
            true => {
                let mut text = String::with_capacity(value.len());
                let outcome = mask.mask_value(value, &mut text);
                *value = text.into();
                outcome
            }
        };
        outcome.count(&mut account.names);
    }
    if kept {
        return masked;
    }
    masked.copy = particulars.copy.as_ref().map(|copy| CopyIn {
        data: mask
            .mask_copy(
                &CopyFormat::parse(sql, backslash),
                &copy.data,
                &mut account.copy_fields,
            )
            .into(),
        failed: copy.failed.as_ref().map(|reason| {
            let mut text = String::with_capacity(reason.len());
            mask.mask_value(reason, &mut text).count(&mut account.names);
            text.into()
        }),
    });
    masked.first_rows = particulars.first_rows.as_ref().map(|row| FirstRows {
        columns: row.columns.clone(),
        values: row
            .values
            .iter()
            .map(|value| {
                let (value, outcome) = match value.as_ref()? {
                    Parameter::Text(text) => {
                        let (text, outcome) =
                            mask_text_parameter(mask, ParameterRole::Data, 0, text);
                        (Parameter::from(text), outcome)
                    }
                    Parameter::Binary(bytes) => {
                        let (bytes, outcome) = mask.mask_binary(0, bytes);
                        (Parameter::from(&bytes[..]), outcome)
                    }
                };
                outcome.count(&mut account.result_values);
                Some(value)
            })
            .collect(),
    });
    masked
}

/// Masks a word of a client's connection option `options`.
fn mask_option(mask: &Mask, word: &str) -> String {
    let assigned = word.split_once('=');
    let Some((name, value)) = assigned.filter(|(name, _)| rules::is_data_setting(name)) else {
        return word.to_owned();
    };
    let mut masked = format!("{name}=");
    mask.mask_value(value, &mut masked);
    masked
}

#[cfg(test)]
mod tests;
