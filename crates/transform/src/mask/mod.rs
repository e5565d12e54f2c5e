//! Masking: values of people's data become others of the same type, length and order of magnitude,
//! the same value always the same other one, by a key.
//!
//! A value is masked as what its text looks like (`value.rs`), in binary form as the text of its type
//! (`binary.rs`): so a number is masked to the same number in a literal, in a parameter of either form
//! and in a row of COPY. Numbers, short words, dates and UUIDs are permuted (`key.rs`), so that what
//! was different stays different. In the text of statements literals are found with the lexer of the
//! fingerprints (`sql.rs`), as the session reads them (`backslash.rs`);
//! which of them say what is to be done, and stay, is told by the words
//! around them (`rules.rs`), as for parameters by where their `$1` stands.
//!
//! Who drives: `capture_sink::MaskSink` between a source and a writer, the program between a reader and a
//! writer and over the rows of a dump. Deliberately absent: files, and names: databases, roles,
//! tables, statements and portals keep theirs, since a replay needs them. What this does and does not
//! hide is documented in `docs/masking.md`.

mod backslash;
mod became;
mod binary;
mod calendar;
mod codes;
mod copy;
mod copy_format;
mod key;
mod number;
mod path;
mod rules;
mod sql;
mod structured;
mod value;
mod words;

use std::sync::Arc;

use ::sql::{Fingerprinter, Pattern};
use workload::{
    CopyIn, EventRef, FirstRow, KindRef, PackedParameters, Parameter, ParameterRef, Particulars,
    REPORTED_STRINGS, ServerEvent, Session,
};

use backslash::{Backslash, Backslashes};
use became::Became;
pub(crate) use copy::escape_text;
pub use copy_format::CopyFormat;
pub use key::{MaskKey, NotAKey};
use sql::{Role, Roles};
use words::{Reading, mask_text};
use workload::{Kept, MaskAccount, MaskNote, MaskedValues};

/// How values are masked.
#[derive(Debug, Clone)]
pub struct Mask {
    key: MaskKey,
    keep_values: Vec<Pattern>,
    keep_statements: Vec<Pattern>,
}

impl Mask {
    /// By this key.
    pub fn new(key: MaskKey) -> Self {
        Mask {
            key,
            keep_values: Vec::new(),
            keep_statements: Vec::new(),
        }
    }

    /// Leaves values that match as a whole as they are, such as the labels of an enumeration.
    pub fn keep_value(&mut self, pattern: Pattern) {
        self.keep_values.push(pattern);
    }

    /// Leaves the literals, parameters and data of statements that match as they are.
    pub fn keep_statement(&mut self, pattern: Pattern) {
        self.keep_statements.push(pattern);
    }

    /// The key.
    pub fn key(&self) -> &MaskKey {
        &self.key
    }

    /// What is kept as it is, as it was given: values, and statements.
    pub fn kept(&self) -> (Vec<String>, Vec<String>) {
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
    backslashes: Backslashes,
    roles: Roles,
    sql: String,
    application: String,
    parameters: PackedParameters,
}

impl Masker {
    /// With this mask.
    pub fn new(mask: Mask) -> Self {
        Masker {
            mask,
            account: MaskAccount::default(),
            fingerprinter: Fingerprinter::new(),
            backslashes: Backslashes::default(),
            roles: Roles::default(),
            sql: String::new(),
            application: String::new(),
            parameters: PackedParameters::default(),
        }
    }

    /// The mask.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// What became of every value so far.
    pub fn account(&self) -> &MaskAccount {
        &self.account
    }

    /// Describes the masking so far for the manifest.
    pub fn note(&self) -> MaskNote {
        let (keep_values, keep_statements) = self.mask.kept();
        MaskNote {
            key: self.mask.key.fingerprint().to_owned(),
            keep_values,
            keep_statements,
            account: self.account.clone(),
        }
    }

    /// Hands the masked event to `then`.
    pub fn event<T>(&mut self, event: &EventRef<'_>, then: impl FnOnce(&EventRef<'_>) -> T) -> T {
        let backslash = self.backslashes.of(event.session);
        self.backslashes.take(event);
        let kept = self.keeps(event.kind.sql(), backslash);
        let account = &mut self.account;
        self.sql.clear();
        self.application.clear();
        self.parameters.clear();
        if let Some(sql) = event.kind.sql() {
            match kept {
                true => self.sql.push_str(sql),
                false => {
                    let roles = &mut self.roles;
                    self.mask.sql(sql, backslash, account, roles, &mut self.sql);
                }
            }
        }
        let sql = self.sql.as_str();
        let particulars = event.particulars.filter(|particulars| {
            particulars.copy.is_some()
                || particulars.first_row.is_some()
                || particulars.result_digest.is_some()
                || !particulars.settings.is_empty()
        });
        let particulars = particulars.map(|particulars| {
            Arc::new(particulars_masked(
                &self.mask,
                (event.kind.sql().unwrap_or(""), backslash),
                kept,
                particulars,
                account,
            ))
        });
        let kind = match event.kind {
            KindRef::Connect {
                database,
                user,
                application,
            } => {
                let became = self.mask.value(application, &mut self.application);
                became.count(&mut account.names);
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
                    .particulars
                    .map_or(&[][..], |known| &known.parameter_types);
                for (index, value) in parameters.iter().enumerate() {
                    let oid = types.get(index).copied().unwrap_or(0);
                    let role = match self.roles.of(index) {
                        _ if kept => Role::Kept(Kept::Asked),
                        Role::SettingOf(name) => {
                            let name = parameters.iter().nth(name - 1).flatten();
                            match name.and_then(|name| name.readable()) {
                                Some(name) if !rules::is_data_setting(name) => {
                                    Role::Kept(Kept::Setting)
                                }
                                _ => Role::Data,
                            }
                        }
                        role => role,
                    };
                    push(
                        &self.mask,
                        role,
                        oid,
                        value,
                        &mut account.parameters,
                        &mut self.parameters,
                    );
                }
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
            KindRef::Cancel => KindRef::Cancel,
            KindRef::Disconnect => KindRef::Disconnect,
        };
        then(&EventRef {
            kind,
            particulars: particulars.as_ref().or(event.particulars),
            ..*event
        })
    }

    fn keeps(&mut self, sql: Option<&str>, backslash: Backslash) -> bool {
        let patterns = &self.mask.keep_statements;
        let Some(sql) = sql.filter(|_| !patterns.is_empty()) else {
            return false;
        };
        // What is a word of the statement, and what one within a literal, is told without such backslashes only.
        if backslash != Backslash::Plain && sql.contains("\\'") {
            return false;
        }
        let normal = self.fingerprinter.normalise(sql);
        patterns
            .iter()
            .any(|pattern| pattern.matches_statement(normal))
    }

    /// Masks who the client was.
    pub fn session(&mut self, mut session: Session) -> Session {
        for text in [&mut session.application, &mut session.client] {
            if text.is_empty() {
                continue;
            }
            let mut masked = String::with_capacity(text.len());
            let became = self.mask.value(text, &mut masked);
            became.count(&mut self.account.names);
            *text = masked.into();
        }
        session
    }

    /// Masks the statement that the server was busy with.
    pub fn server_event(&mut self, mut event: ServerEvent) -> ServerEvent {
        if let Some(sql) = event.sql.take() {
            let backslash = match event.session {
                Some(session) => self.backslashes.of(session),
                None => Backslash::Plain,
            };
            let kept = self.keeps(Some(&sql), backslash);
            let mut masked = String::with_capacity(sql.len());
            match kept {
                true => masked.push_str(&sql),
                false => {
                    let (account, roles) = (&mut self.account, &mut self.roles);
                    self.mask.sql(&sql, backslash, account, roles, &mut masked);
                }
            }
            event.sql = Some(masked.into());
        }
        event
    }
}

fn push(
    mask: &Mask,
    role: Role,
    oid: u32,
    value: Option<ParameterRef<'_>>,
    counts: &mut MaskedValues,
    out: &mut PackedParameters,
) {
    let Some(value) = value else {
        out.push_null();
        return;
    };
    let became = match (role, value) {
        (Role::Kept(reason), ParameterRef::Text(text)) => {
            out.push_text(text);
            out.end_value();
            Became::Kept(reason)
        }
        (Role::Kept(reason), ParameterRef::Binary(bytes)) => {
            out.push_binary(bytes);
            Became::Kept(reason)
        }
        (role, ParameterRef::Text(text)) => {
            let (masked, became) = text_masked(mask, role, oid, text);
            out.push_text(&masked);
            out.end_value();
            became
        }
        (_, ParameterRef::Binary(bytes)) => {
            let (masked, became) = mask.binary(oid, bytes);
            out.push_binary(&masked);
            became
        }
    };
    became.count(counts);
}

fn text_masked(mask: &Mask, role: Role, oid: u32, text: &str) -> (String, Became) {
    /// bit, varbit: as text they look like numbers.
    const BITS: [u32; 2] = [1560, 1562];
    let mut masked = String::with_capacity(text.len());
    if role == Role::Expression && mask.stays(text).is_none() {
        mask_text(&mask.key, text, Reading::Expression, &mut masked);
        return (masked, Became::Masked);
    }
    if role == Role::Path && mask.stays(text).is_none() {
        let became = mask.path(text, &mut masked);
        return (masked, became);
    }
    if BITS.contains(&oid) && codes::mask_bits(&mask.key, text, &mut masked) {
        return (masked, Became::Masked);
    }
    let became = mask.value(text, &mut masked);
    (masked, became)
}

fn particulars_masked(
    mask: &Mask,
    (sql, backslash): (&str, Backslash),
    kept: bool,
    particulars: &Particulars,
    account: &mut MaskAccount,
) -> Particulars {
    let mut masked = particulars.clone();
    account.digests += u64::from(masked.result_digest.take().is_some());
    for (name, value) in &mut masked.settings {
        let became = match rules::is_data_setting(name) {
            // `-c app.user=42 -c work_mem=64MB`: told apart by blanks.
            _ if &**name == "options" => {
                let words = value.split(' ').map(|word| option_masked(mask, word));
                *value = words.collect::<Vec<_>>().join(" ").into();
                Became::Kept(Kept::Setting)
            }
            _ if &**name == REPORTED_STRINGS => Became::Kept(Kept::Setting),
            false => Became::Kept(Kept::Setting),
            true => {
                let mut text = String::with_capacity(value.len());
                let became = mask.value(value, &mut text);
                *value = text.into();
                became
            }
        };
        became.count(&mut account.names);
    }
    if kept {
        return masked;
    }
    masked.copy = particulars.copy.as_ref().map(|copy| CopyIn {
        data: mask
            .copy(
                &CopyFormat::read(sql, backslash),
                &copy.data,
                &mut account.copy_fields,
            )
            .into(),
        failed: copy.failed.as_ref().map(|reason| {
            let mut text = String::with_capacity(reason.len());
            mask.value(reason, &mut text).count(&mut account.names);
            text.into()
        }),
    });
    masked.first_row = particulars.first_row.as_ref().map(|row| FirstRow {
        columns: row.columns.clone(),
        values: row
            .values
            .iter()
            .map(|value| {
                let (value, became) = match value.as_ref()? {
                    Parameter::Text(text) => {
                        let (text, became) = text_masked(mask, Role::Data, 0, text);
                        (Parameter::from(text), became)
                    }
                    Parameter::Binary(bytes) => {
                        let (bytes, became) = mask.binary(0, bytes);
                        (Parameter::from(&bytes[..]), became)
                    }
                };
                became.count(&mut account.result_values);
                Some(value)
            })
            .collect(),
    });
    masked
}

/// A word of the options that a client starts a session with.
fn option_masked(mask: &Mask, word: &str) -> String {
    let assigned = word.split_once('=');
    let Some((name, value)) = assigned.filter(|(name, _)| rules::is_data_setting(name)) else {
        return word.to_owned();
    };
    let mut masked = format!("{name}=");
    mask.value(value, &mut masked);
    masked
}

#[cfg(test)]
mod tests;
