//! Reads a target's settings, extensions, databases, relations and indexes.

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection, Row};
use run::{
    DatabaseFact, ExtensionFact, FactNote, Facts, FunctionFact, IndexFact, IndexKey, RelationFact,
    SettingFact, TriggerFact,
};
use std::time::Duration;

use crate::catalogue;
use crate::code_facts;
use crate::secrets::may_be_secret;

/// Maximum number of databases to read.
pub const DATABASES_MAX: usize = 32;
/// Maximum number of relations to record, of all databases together. The largest ones are recorded.
pub const RELATIONS_MAX: usize = 10_000;
/// Maximum number of indexes to record, of all databases together. The largest ones are recorded.
pub const INDEXES_MAX: usize = 20_000;
/// Time after which no further database is read.
const FACTS_TIME: Duration = Duration::from_secs(120);
/// Time limit for the queries of one database.
const DATABASE_TIME: Duration = Duration::from_secs(60);

/// Maximum numbers of objects to record, of all databases together. The largest ones are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Relations.
    pub relations: usize,
    /// Indexes.
    pub indexes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            relations: RELATIONS_MAX,
            indexes: INDEXES_MAX,
        }
    }
}

/// Settings that differ in our own session and do not describe the target.
const SESSION_SETTINGS: [&str; 13] = [
    "application_name",
    "client_encoding",
    "in_hot_standby",
    "is_superuser",
    "lock_timeout",
    "quote_all_identifiers",
    "search_path",
    "seed",
    "session_authorization",
    "statement_timeout",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// Settings among these that are queried before our session changes them.
const SETTINGS_READ_BEFORE: [&str; 4] = [
    "search_path",
    "statement_timeout",
    "lock_timeout",
    "quote_all_identifiers",
];

/// Reads the facts of a target, over one connection for each database that the logins name. Settings are
/// those of the first login. It locks catalogues, and takes the weakest lock on each relation while its size
/// is read. Unavailable facts are listed in the notes.
pub fn facts(target: &Target, logins: &[Login], clock: &dyn Clock) -> Facts {
    facts_with_limits(target, logins, clock, Limits::default())
}

/// Reads the facts as [`facts`] does, with other limits.
pub fn facts_with_limits(
    target: &Target,
    logins: &[Login],
    clock: &dyn Clock,
    limits: Limits,
) -> Facts {
    let mut facts = Facts::default();
    let dialer = match Dialer::new(target) {
        Ok(dialer) => dialer,
        Err(error) => {
            note(&mut facts, "target", None, error.to_string());
            return facts;
        }
    };
    let mut by_database: Vec<&Login> = Vec::new();
    for login in logins {
        if !by_database.iter().any(|one| one.database == login.database) {
            by_database.push(login);
        }
    }
    let begun_ns = clock.now_ns();
    let mut looked_into = 0;
    for login in by_database.iter().take(DATABASES_MAX) {
        let taken_ns = u128::try_from(clock.now_ns() - begun_ns).unwrap_or(0);
        if taken_ns > FACTS_TIME.as_nanos() {
            break;
        }
        looked_into += 1;
        match dialer.open_query_connection(login) {
            Ok(questions) => read_database(&mut facts, questions, &login.database, limits),
            Err(error) => note(
                &mut facts,
                "target",
                Some(&login.database),
                format!(
                    "the database {} could not be asked: {}",
                    login.database, error.message
                ),
            ),
        }
    }
    if looked_into < by_database.len() {
        facts.notes.push(FactNote {
            about: "databases".to_owned(),
            text: format!(
                "only the first databases were looked into, up to {DATABASES_MAX} and for {} s",
                FACTS_TIME.as_secs()
            ),
            count: Some((by_database.len() - looked_into) as u64),
            database: None,
        });
    }
    facts
        .relations
        .sort_by(|a, b| (&a.database, &a.schema, &a.name).cmp(&(&b.database, &b.schema, &b.name)));
    facts
        .indexes
        .sort_by(|a, b| (&a.database, &a.schema, &a.name).cmp(&(&b.database, &b.schema, &b.name)));
    facts
        .extensions
        .sort_by(|a, b| (&a.database, &a.name).cmp(&(&b.database, &b.name)));
    facts.functions.sort_by(|a, b| {
        let key = |one: &FunctionFact| {
            [&one.database, &one.schema, &one.name, &one.arguments].map(String::clone)
        };
        key(a).cmp(&key(b))
    });
    facts.triggers.sort_by(|a, b| {
        let key = |one: &TriggerFact| {
            [&one.database, &one.schema, &one.table, &one.name].map(String::clone)
        };
        key(a).cmp(&key(b))
    });
    facts.databases.sort_by(|a, b| a.name.cmp(&b.name));
    // Records the basis, so that a run with facts can be told from one without.
    facts.notes.insert(
        0,
        FactNote {
            about: "target".to_owned(),
            text: "asked before the first statement".to_owned(),
            ..FactNote::default()
        },
    );
    facts
}

pub(crate) fn note(facts: &mut Facts, about: &str, database: Option<&str>, text: String) {
    facts.notes.push(FactNote {
        about: about.to_owned(),
        text,
        count: None,
        database: database.map(str::to_owned),
    });
}

/// Queries in a separate transaction, so that a failure has no effect on later queries.
pub(crate) fn query_in_transaction(
    questions: &mut QueryConnection<'_>,
    question: &str,
) -> Result<Vec<Row>, LoginError> {
    questions.query(catalogue::BEGIN)?;
    let answer = questions.query(question);
    if !questions.is_closed() {
        questions.query(catalogue::END)?;
    }
    answer
}

fn read_database(
    facts: &mut Facts,
    mut questions: QueryConnection<'_>,
    database: &str,
    limits: Limits,
) {
    questions.limit(DATABASE_TIME);
    let version = match questions.query("SHOW server_version_num") {
        Ok(rows) => text(&rows, 0).parse().unwrap_or(0),
        Err(error) => {
            note(
                facts,
                "target",
                Some(database),
                refusal_message(database, "its version", &error),
            );
            return;
        }
    };
    if facts.settings.is_empty() {
        settings(facts, &mut questions, database);
        code_facts::read_build(facts, &mut questions, version);
    }
    match query_in_transaction(&mut questions, catalogue::EXTENSIONS) {
        Ok(rows) => facts
            .extensions
            .extend(rows.into_iter().map(|row| ExtensionFact {
                database: database.to_owned(),
                name: text_at(&row, 0),
                version: text_at(&row, 1),
            })),
        Err(error) => note(
            facts,
            "extensions",
            Some(database),
            refusal_message(database, "extensions", &error),
        ),
    }
    match query_in_transaction(&mut questions, &catalogue::database(version)) {
        Ok(rows) => {
            for row in rows {
                facts.databases.push(DatabaseFact {
                    name: database.to_owned(),
                    encoding: text_at(&row, 0),
                    collate: text_at(&row, 1),
                    ctype: text_at(&row, 2),
                    provider: optional_text_at(&row, 3),
                    locale: optional_text_at(&row, 4),
                    collation_version: optional_text_at(&row, 5),
                    collation_version_now: optional_text_at(&row, 6),
                    bytes: query_in_transaction(&mut questions, catalogue::DATABASE_BYTES)
                        .ok()
                        .and_then(|rows| text(&rows, 0).parse().ok()),
                });
            }
        }
        Err(error) => note(
            facts,
            "databases",
            Some(database),
            refusal_message(database, "the database", &error),
        ),
    }
    relations(facts, &mut questions, database, version, limits.relations);
    indexes(facts, &mut questions, database, limits.indexes);
    code_facts::read_functions(facts, &mut questions, database, version);
    code_facts::read_triggers(facts, &mut questions, database, version);
}

fn settings(facts: &mut Facts, questions: &mut QueryConnection<'_>, database: &str) {
    let rows = match query_in_transaction(questions, catalogue::SETTINGS) {
        Ok(rows) => rows,
        Err(error) => {
            note(
                facts,
                "settings",
                None,
                refusal_message(database, "settings", &error),
            );
            return;
        }
    };
    let mut hidden = 0;
    for row in rows {
        let name = text_at(&row, 0);
        if SESSION_SETTINGS.contains(&name.as_str()) {
            continue;
        }
        let value = text_at(&row, 1);
        let boot_value = optional_text_at(&row, 5);
        let secret = may_be_secret(&name, &value);
        hidden += u64::from(secret && !value.is_empty());
        facts.settings.push(SettingFact {
            // Whether it is set at all is not secret.
            value: (!secret || value.is_empty()).then_some(value),
            name,
            unit: optional_text_at(&row, 2),
            category: text_at(&row, 3),
            source: text_at(&row, 4),
            boot_value: boot_value.filter(|_| !secret),
            pending_restart: text_at(&row, 6) == "t",
        });
    }
    // These are set by this connection. A session of the workload has the values read before.
    for name in SETTINGS_READ_BEFORE {
        let question = format!(
            "SELECT name, setting, unit, category, source, boot_val FROM pg_catalog.pg_settings WHERE name = '{name}'"
        );
        let Some(row) = questions
            .query(&question)
            .ok()
            .and_then(|rows| rows.into_iter().next())
        else {
            continue;
        };
        facts.settings.push(SettingFact {
            name: text_at(&row, 0),
            value: optional_text_at(&row, 1),
            unit: optional_text_at(&row, 2),
            category: text_at(&row, 3),
            source: text_at(&row, 4),
            boot_value: optional_text_at(&row, 5),
            pending_restart: false,
        });
    }
    facts.settings.sort_by(|a, b| a.name.cmp(&b.name));
    if hidden > 0 {
        facts.notes.push(FactNote {
            about: "secrets".to_owned(),
            text: "the values of settings that may hold a secret are not kept".to_owned(),
            count: Some(hidden),
            database: None,
        });
    }
    let may_see_all =
        "SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')";
    if query_in_transaction(questions, may_see_all).is_ok_and(|rows| text(&rows, 0) == "f") {
        note(
            facts,
            "settings",
            None,
            "the role may not see all settings; GRANT pg_read_all_settings to it for the rest"
                .to_owned(),
        );
    }
}

fn relations(
    facts: &mut Facts,
    questions: &mut QueryConnection<'_>,
    database: &str,
    version: u32,
    most: usize,
) {
    let room = most.saturating_sub(facts.relations.len());
    let question = |open, most| catalogue::relations(version, most, open);
    let Some(rows) = query_largest(facts, questions, database, "relations", room, question) else {
        return;
    };
    for row in rows {
        let columns = parse_columns(&text_at(&row, 9));
        let mut options: Vec<String> = serde_json::from_str(&text_at(&row, 8)).unwrap_or_default();
        options.sort();
        facts.relations.push(RelationFact {
            database: database.to_owned(),
            schema: text_at(&row, 0),
            name: text_at(&row, 1),
            kind: text_at(&row, 2),
            persistence: text_at(&row, 3),
            rows: text_at(&row, 4).parse().ok(),
            bytes: text_at(&row, 5).parse().ok(),
            partition_of: optional_text_at(&row, 6),
            partition_key: optional_text_at(&row, 7),
            options,
            column_names: columns.iter().map(|one| one.0.clone()).collect(),
            columns: columns.iter().map(|one| one.1.clone()).collect(),
            column_collations: list(&columns, |one| &one.2),
            column_statistics: list(&columns, |one| &one.3),
            partition_bound: optional_text_at(&row, 12),
            has_statistics: optional_text_at(&row, 13).map(|has| has == "t"),
            analysed_ago_s: text_at(&row, 14).parse().ok(),
            changed_since_analyze: text_at(&row, 15).parse().ok(),
        });
    }
}

fn indexes(facts: &mut Facts, questions: &mut QueryConnection<'_>, database: &str, most: usize) {
    let room = most.saturating_sub(facts.indexes.len());
    let question = |open, most| catalogue::indexes(most, open);
    let Some(rows) = query_largest(facts, questions, database, "indexes", room, question) else {
        return;
    };
    let mut undefined = 0;
    for row in rows {
        let Some(definition) = optional_text_at(&row, 3) else {
            undefined += 1;
            continue;
        };
        facts.indexes.push(IndexFact {
            database: database.to_owned(),
            schema: text_at(&row, 0),
            table: text_at(&row, 1),
            name: text_at(&row, 2),
            definition,
            bytes: text_at(&row, 4).parse().ok(),
            valid: text_at(&row, 5) == "t",
            ready: text_at(&row, 6) == "t",
            key: IndexKey::new(text_at(&row, 7) == "t", text_at(&row, 8) == "t"),
            tablespace: optional_text_at(&row, 9),
        });
    }
    if undefined > 0 {
        facts.notes.push(FactNote {
            about: "indexes".to_owned(),
            text: format!("indexes of locked tables of the database {database} are left out"),
            count: Some(undefined),
            database: Some(database.to_owned()),
        });
    }
}

/// Reads as many objects as the limit allows, and notes how many are left out. Sizes and columns need a lock
/// on each relation. If another session holds a conflicting lock, the objects are read without them.
fn query_largest(
    facts: &mut Facts,
    questions: &mut QueryConnection<'_>,
    database: &str,
    what: &str,
    room: usize,
    question: impl Fn(bool, usize) -> String,
) -> Option<Vec<Row>> {
    // At least one, since its row has the total count.
    let most = room.max(1);
    let mut rows = match query_in_transaction(questions, &question(true, most)) {
        Ok(rows) => rows,
        // Another session took a lock after the check for locks.
        Err(_) => match query_in_transaction(questions, &question(false, most)) {
            Ok(rows) => rows,
            Err(error) => {
                note(
                    facts,
                    what,
                    Some(database),
                    refusal_message(database, what, &error),
                );
                return None;
            }
        },
    };
    let in_all: usize = rows
        .first()
        .map_or(0, |row| text_at(row, 10).parse().unwrap_or(0));
    rows.truncate(room);
    note_left_out(facts, what, database, in_all.saturating_sub(rows.len()));
    let closed = rows.iter().filter(|row| text_at(row, 11) == "t").count();
    if closed > 0 {
        facts.notes.push(FactNote {
            about: "sizes".to_owned(),
            text: format!(
                "sizes and columns of {what} of the database {database} that were locked are not known"
            ),
            count: Some(closed as u64),
            database: Some(database.to_owned()),
        });
    }
    Some(rows)
}

fn note_left_out(facts: &mut Facts, what: &str, database: &str, count: usize) {
    if count > 0 {
        facts.notes.push(FactNote {
            about: what.to_owned(),
            text: format!("the smallest {what} of the database {database} are left out"),
            count: Some(count as u64),
            database: Some(database.to_owned()),
        });
    }
}

pub(crate) fn refusal_message(database: &str, what: &str, error: &LoginError) -> String {
    format!(
        "the database {database} was asked for {what}, and answered: {}",
        error.message
    )
}

/// Name, definition, collation and statistics target of a column.
type ColumnTexts = (String, String, Option<String>, Option<String>);

/// Parses a JSON list of columns.
fn parse_columns(json: &str) -> Vec<ColumnTexts> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Returns an attribute of each column; empty for its default.
fn list(columns: &[ColumnTexts], of: fn(&ColumnTexts) -> &Option<String>) -> Vec<String> {
    let all = columns.iter().map(|one| of(one).clone());
    all.map(Option::unwrap_or_default).collect()
}

fn text(rows: &[Row], column: usize) -> String {
    rows.first()
        .map_or_else(String::new, |row| text_at(row, column))
}

pub(crate) fn text_at(row: &Row, column: usize) -> String {
    optional_text_at(row, column).unwrap_or_default()
}

fn optional_text_at(row: &Row, column: usize) -> Option<String> {
    row.get(column).cloned().flatten()
}
