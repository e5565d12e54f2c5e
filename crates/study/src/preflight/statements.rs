//! Relations, columns, functions and types that statements name, and the target does not have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use connect::login::{Login, LoginError, QueryConnection, Value};
use sql::{Fingerprint, StatementClass};
use workload::{ArchiveError, EventKind, FIRST_USER_OID, Sqlstate};

use super::{CheckedPart, Context, Preflight, Severity};

/// Most different statements that are kept.
const STATEMENTS_MAX: usize = 20_000;
/// Fewest events of a workload that are read for its statements before a replay …
const EVENTS_MIN: u64 = 100_000;
/// … and the time after which no more are read. A replay of a long workload must not wait until all of it was read.
const READING_TIME: Duration = Duration::from_millis(500);
/// Events between two reads of the clock.
const EVENTS_PER_CLOCK_READ: u64 = 1_024;
/// Time for parsing statements at the target.
const PARSE_TIME: Duration = Duration::from_secs(10);

/// Codes of names that do not exist: table, column, function, object, schema, database.
const MISSING: [&[u8; 5]; 5] = [b"42P01", b"42703", b"42883", b"42704", b"3F000"];

/// Whether a name exists somewhere in the database. Sessions that set `search_path` may find it.
const ELSEWHERE_SQL: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = $1) \
     OR EXISTS (SELECT FROM pg_catalog.pg_proc WHERE proname = $1) \
     OR EXISTS (SELECT FROM pg_catalog.pg_type WHERE typname = $1)";

/// A statement of the workload, and how often a login executes it.
struct UsedStatement {
    /// Index of its login.
    login: usize,
    sql: Arc<str>,
    types: Vec<u32>,
    executions: u64,
    /// Codes with which it failed in the capture.
    failed: Vec<Sqlstate>,
}

/// Number of events and of different statements that were read, of those of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadPart {
    pub(super) events: u64,
    pub(super) events_in_all: u64,
    pub(super) statements: usize,
    pub(super) statements_in_all: usize,
}

impl ReadPart {
    /// Whether enough is read for [`CheckedPart::Beginning`].
    fn is_enough(&self, since_ns: i64) -> bool {
        if self.events < EVENTS_MIN {
            return false;
        }
        let is_late = || {
            self.events.is_multiple_of(EVENTS_PER_CLOCK_READ)
                && clock::monotonic_ns() - since_ns >= READING_TIME.as_nanos() as i64
        };
        self.statements >= self.statements_in_all || is_late()
    }
}

/// Statements of a workload.
pub(super) struct StatementUse {
    logins: Vec<Login>,
    /// The most frequent first.
    statements: Vec<UsedStatement>,
    /// Texts that create objects, in lower case.
    creating: Vec<String>,
    /// Whether a statement or a session's start sets `search_path`.
    sets_search_path: bool,
    /// Part of the workload that was read.
    pub(super) read: ReadPart,
}

impl StatementUse {
    /// Reads the statements of the workload, with one text of each.
    pub(super) fn of_workload(context: &Context<'_>) -> Result<Self, ArchiveError> {
        let mut creating = Vec::new();
        let mut sets_search_path = context.options.logins.startup_options.name_search_path();
        let mut read = ReadPart {
            events: 0,
            events_in_all: context.reader.info().events,
            statements: 0,
            statements_in_all: 0,
        };
        for text in context.reader.statements()? {
            let text = text?;
            read.statements_in_all += 1;
            let lower = text.sql.to_lowercase();
            sets_search_path |= lower.contains("search_path");
            if creates_relations(text.class, &lower) {
                creating.push(lower);
            }
        }
        let mut logins: Vec<Login> = Vec::new();
        // Index of the login of each live session.
        let mut sessions: HashMap<u64, usize> = HashMap::new();
        let mut found: HashMap<(usize, Fingerprint), UsedStatement> = HashMap::new();
        let mut fingerprints: HashSet<Fingerprint> = HashSet::new();
        let begun_ns = clock::monotonic_ns();
        for event in context.reader.events()? {
            let (event, fingerprint) = event?;
            if context.part == CheckedPart::Beginning && read.is_enough(begun_ns) {
                break;
            }
            read.events += 1;
            fingerprints.extend(fingerprint);
            read.statements = fingerprints.len();
            if let EventKind::Connect { database, user, .. } = &event.kind {
                let map = &context.options.logins;
                let login = map.login(context.target, user, database, "");
                let known = logins.iter().position(|one| *one == login);
                let index = known.unwrap_or(logins.len());
                if known.is_none() {
                    logins.push(login);
                }
                sessions.insert(event.session, index);
                sets_search_path |= starts_with_search_path(event.wire_details.as_deref());
            }
            if event.kind == EventKind::Disconnect {
                sessions.remove(&event.session);
            }
            let sql = match &event.kind {
                EventKind::Simple { sql } | EventKind::Execute { sql, .. } => sql,
                _ => continue,
            };
            let (Some(fingerprint), Some(&login)) = (fingerprint, sessions.get(&event.session))
            else {
                continue;
            };
            if event.unreplayable.is_some() || event.prelude {
                continue;
            }
            let key = (login, fingerprint);
            if found.len() >= STATEMENTS_MAX && !found.contains_key(&key) {
                continue;
            }
            let used = found.entry(key).or_insert_with(|| UsedStatement {
                login,
                sql: sql.clone(),
                types: parameter_types(event.wire_details.as_deref()),
                executions: 0,
                failed: Vec::new(),
            });
            used.executions += 1;
            used.failed.extend(
                event
                    .outcome
                    .sqlstate
                    .filter(|code| !used.failed.contains(code)),
            );
        }
        let mut statements: Vec<UsedStatement> = found.into_values().collect();
        statements.sort_by_key(|one| std::cmp::Reverse(one.executions));
        Ok(StatementUse {
            logins,
            statements,
            creating,
            sets_search_path,
            read,
        })
    }

    /// Returns the number of executions that were read.
    pub(super) fn executions(&self) -> u64 {
        self.statements.iter().map(|one| one.executions).sum()
    }

    /// Whether a statement of the workload may create this name.
    fn creates(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.creating.iter().any(|text| text.contains(&name))
    }
}

/// Whether a client set `search_path` when it connected.
fn starts_with_search_path(details: Option<&workload::WireDetails>) -> bool {
    let mut settings = details.iter().flat_map(|known| &known.settings);
    settings.any(|(name, value)| {
        name.eq_ignore_ascii_case("search_path")
            || &**name == "options" && value.to_lowercase().contains("search_path")
    })
}

/// Whether a statement may create what later ones name: `CREATE`, `ALTER … RENAME`, `SELECT … INTO`.
fn creates_relations(class: StatementClass, lower: &str) -> bool {
    match class {
        StatementClass::Ddl => {
            (lower.starts_with("create") || lower.starts_with("alter"))
                && !lower.contains(" index ")
        }
        StatementClass::Select => lower.contains(" into "),
        _ => false,
    }
}

/// Returns the types that the client declared, without those that the target may number otherwise.
fn parameter_types(details: Option<&workload::WireDetails>) -> Vec<u32> {
    let types = details.map_or_else(Vec::new, |known| known.parameter_types.clone());
    let known = |oid: u32| if oid < FIRST_USER_OID { oid } else { 0 };
    types.into_iter().map(known).collect()
}

/// Statements that one missing name affects.
#[derive(Default)]
struct Affected {
    executions: u64,
    statements: u64,
}

/// Collects the names that the target does not know.
pub(super) struct NameCheck {
    used: StatementUse,
    /// By database and message.
    missing: BTreeMap<(String, String), Affected>,
    /// Time after which nothing more is parsed, on the monotonic clock.
    until_ns: i64,
}

impl NameCheck {
    /// Begins a check of these statements.
    pub(super) fn new(used: StatementUse) -> Self {
        let time_ns = i64::try_from(PARSE_TIME.as_nanos()).unwrap_or(i64::MAX);
        NameCheck {
            used,
            missing: BTreeMap::new(),
            until_ns: clock::monotonic_ns().saturating_add(time_ns),
        }
    }

    /// Has the target parse each statement of a login.
    pub(super) fn check(
        &mut self,
        login: &Login,
        questions: &mut QueryConnection<'_>,
        result: &mut Preflight,
    ) {
        questions.limit(PARSE_TIME);
        let mut elsewhere: HashSet<String> = HashSet::new();
        let StatementUse {
            statements, logins, ..
        } = &self.used;
        let own = statements.iter().filter(|one| logins[one.login] == *login);
        for statement in own {
            if clock::monotonic_ns() >= self.until_ns || questions.is_closed() {
                result.unparsed += 1;
                continue;
            }
            result.parsed += 1;
            let Some(error) = parse(questions, statement) else {
                continue;
            };
            let name = quoted_name(&error.message);
            if self.used.creates(&name) || elsewhere.contains(&name) {
                continue;
            }
            if self.used.sets_search_path && is_elsewhere(questions, &name) {
                elsewhere.insert(name);
                continue;
            }
            let key = (login.database.to_string(), error.message);
            let affected = self.missing.entry(key).or_default();
            affected.executions += statement.executions;
            affected.statements += 1;
        }
    }

    /// Adds a finding for each name.
    pub(super) fn finish(self, result: &mut Preflight) {
        for ((database, message), affected) in self.missing {
            result.add(
                Severity::Fails,
                affected.executions,
                format!("{message} (database {database}; {} different)", affected.statements),
                "the copy has another schema than the captured server: restore all of it, create the extension that has the name, or set the role's search_path".to_owned(),
            );
        }
    }
}

/// Parses each statement of a text. Returns the first error of a missing name that the capture did not have.
fn parse(questions: &mut QueryConnection<'_>, statement: &UsedStatement) -> Option<LoginError> {
    for text in sql::statement_texts(&statement.sql) {
        let error = questions.parse(text, &statement.types).err();
        let is_new = |error: &LoginError| {
            MISSING.contains(&&error.sqlstate)
                && !statement.failed.contains(&Sqlstate(error.sqlstate))
        };
        if let Some(error) = error.filter(is_new) {
            return Some(error);
        }
    }
    None
}

fn is_elsewhere(questions: &mut QueryConnection<'_>, name: &str) -> bool {
    const TEXT: u32 = 25;
    let rows = questions.query_with(ELSEWHERE_SQL, &[TEXT], &[Some(Value::Text(name))]);
    rows.is_ok_and(|rows| {
        rows.first()
            .is_some_and(|row| row[0].as_deref() == Some("t"))
    })
}

/// Returns the name in a message, without its schema: `relation "shop.orders" does not exist`, `function next_id(integer)
/// does not exist`. Servers write quotation marks as their language does.
fn quoted_name(message: &str) -> String {
    let is_mark = |one: char| matches!(one, '"' | '«' | '»' | '„' | '“' | '”');
    let name = match message.split(is_mark).nth(1) {
        Some(quoted) => quoted.trim(),
        None => {
            let before = message.split('(').next().unwrap_or(message);
            before.rsplit(' ').next().unwrap_or(before)
        }
    };
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_is_read_until_each_statement_was_found_or_the_time_has_passed() {
        let now_ns = clock::monotonic_ns();
        let long_ago_ns = now_ns - READING_TIME.as_nanos() as i64;
        let is_enough = |events, statements, since_ns| {
            let read = ReadPart {
                events,
                events_in_all: u64::MAX,
                statements,
                statements_in_all: 5,
            };
            read.is_enough(since_ns)
        };
        assert!(!is_enough(EVENTS_MIN - 1, 5, long_ago_ns));
        assert!(is_enough(EVENTS_MIN, 5, i64::MAX / 2));
        assert!(!is_enough(EVENTS_MIN, 4, i64::MAX / 2));
        let next_clock_read = EVENTS_MIN.next_multiple_of(EVENTS_PER_CLOCK_READ);
        assert!(is_enough(next_clock_read, 4, long_ago_ns));
    }

    #[test]
    fn name_is_the_quoted_one_or_the_one_before_the_parenthesis() {
        let same = |message, name: &str| assert_eq!(quoted_name(message), name);
        same("relation \"shop.orders\" does not exist", "orders");
        same("function shop.next_id(integer) does not exist", "next_id");
        same("Relation „orders“ existiert nicht", "orders");
    }
}
