//! Calls in the conditions of a text whose results differ between executions: they depend on the time, on chance, or on
//! the server's processes and transactions.
//!
//! A condition decides which rows a statement finds. What is only written into a row, or returned, is no condition.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::literal::Spelling;
use super::statement_splitter::{Lexeme, SqlStatement, split_statements};

/// Source of a result that differs between executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnrepeatableSource {
    /// The time of the execution.
    Time,
    /// Chance.
    Chance,
    /// Numbers of the server's processes, transactions and log positions.
    Server,
}

impl UnrepeatableSource {
    /// Describes what a statement depends on.
    pub fn description(self) -> &'static str {
        match self {
            UnrepeatableSource::Time => "the time of its execution",
            UnrepeatableSource::Chance => "chance",
            UnrepeatableSource::Server => "the server's processes and transactions",
        }
    }
}

/// Call, keyword or literal whose value differs between executions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct UnrepeatableCall {
    /// Source of the value.
    pub source: UnrepeatableSource,
    /// Spelling: `now()`, `current_date`, `'today'`.
    pub name: &'static str,
}

/// Functions, with the spelling of their calls.
const FUNCTIONS: [(&str, &str, UnrepeatableSource); 28] = {
    use UnrepeatableSource::{Chance, Server, Time};
    [
        ("clock_timestamp", "clock_timestamp()", Time),
        ("gen_random_bytes", "gen_random_bytes()", Chance),
        ("gen_random_uuid", "gen_random_uuid()", Chance),
        ("inet_client_port", "inet_client_port()", Server),
        ("now", "now()", Time),
        ("pg_backend_pid", "pg_backend_pid()", Server),
        ("pg_conf_load_time", "pg_conf_load_time()", Time),
        ("pg_current_snapshot", "pg_current_snapshot()", Server),
        (
            "pg_current_wal_insert_lsn",
            "pg_current_wal_insert_lsn()",
            Server,
        ),
        ("pg_current_wal_lsn", "pg_current_wal_lsn()", Server),
        ("pg_current_xact_id", "pg_current_xact_id()", Server),
        (
            "pg_current_xact_id_if_assigned",
            "pg_current_xact_id_if_assigned()",
            Server,
        ),
        (
            "pg_postmaster_start_time",
            "pg_postmaster_start_time()",
            Time,
        ),
        ("random", "random()", Chance),
        ("random_normal", "random_normal()", Chance),
        ("statement_timestamp", "statement_timestamp()", Time),
        ("timeofday", "timeofday()", Time),
        ("transaction_timestamp", "transaction_timestamp()", Time),
        ("txid_current", "txid_current()", Server),
        (
            "txid_current_if_assigned",
            "txid_current_if_assigned()",
            Server,
        ),
        ("txid_current_snapshot", "txid_current_snapshot()", Server),
        ("uuid_generate_v1", "uuid_generate_v1()", Chance),
        ("uuid_generate_v1mc", "uuid_generate_v1mc()", Chance),
        ("uuid_generate_v4", "uuid_generate_v4()", Chance),
        ("uuidv4", "uuidv4()", Chance),
        ("uuidv7", "uuidv7()", Chance),
        // With one argument, a time is subtracted from today's date.
        ("age", "age()", Time),
        // Rows are chosen by chance.
        ("tablesample", "tablesample", Chance),
    ]
};

/// Keywords that are values (`SQLValueFunction` of `gram.y`).
const KEYWORDS: [&str; 5] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
];

/// Literals of date and time types (manual, 8.5.1.4), with their quotes.
const LITERALS: [(&str, &str); 4] = [
    ("now", "'now'"),
    ("today", "'today'"),
    ("tomorrow", "'tomorrow'"),
    ("yesterday", "'yesterday'"),
];

/// Date and time types.
const TIME_TYPES: [&str; 5] = ["date", "time", "timestamp", "timestamptz", "timetz"];

/// First words of statements whose conditions are evaluated when they are executed.
const WITH_CONDITIONS: [&str; 12] = [
    "select", "with", "insert", "update", "delete", "merge", "declare", "copy", "explain",
    "prepare", "values", "table",
];

impl UnrepeatableCall {
    /// Finds those in the conditions of a text, each once, in order of their sources and names.
    pub fn find_in_conditions(sql: &str) -> Vec<UnrepeatableCall> {
        let mut found = BTreeSet::new();
        for statement in split_statements(sql) {
            if has_conditions(&statement) {
                Reader::new(&statement.words).read(&mut found);
            }
        }
        found.into_iter().collect()
    }
}

/// Whether a text may have a literal such as `'now'` or `'today'`. Few texts have one.
pub fn may_have_time_literal(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    memchr::memchr_iter(b'\'', bytes).any(|at| {
        let rest = bytes[at + 1..].trim_ascii_start();
        LITERALS.iter().any(|(word, _)| {
            let start = rest.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        })
    })
}

fn has_conditions(statement: &SqlStatement<'_>) -> bool {
    let Some(first) = statement.words.first() else {
        return false;
    };
    let makes_table = || {
        let kinds = ["table", "temp", "temporary", "unlogged", "materialized"];
        let second = statement.words.get(1);
        let is_one = |word: &Lexeme<'_>| kinds.iter().any(|kind| word.is(kind));
        first.is("create") && second.is_some_and(is_one)
    };
    first.is_symbol("(") || WITH_CONDITIONS.iter().any(|word| first.is(word)) || makes_table()
}

/// Part of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Values that are returned or written.
    Values,
    /// Tables and functions that return rows.
    From,
    /// Expressions that decide which rows are found, their order and their number.
    Condition,
}

/// Pair of brackets.
#[derive(Debug)]
struct Bracket {
    /// Whether all within is part of a condition.
    is_condition: bool,
    /// Whether a query is in it, so that FROM begins a clause. In `extract(epoch FROM at)` it begins an argument.
    has_query: bool,
    part: Part,
    /// Parts in which the open CASE expressions began.
    cases: Vec<Part>,
}

impl Bracket {
    fn new(is_condition: bool, has_query: bool) -> Self {
        Bracket {
            is_condition,
            has_query,
            part: Part::Values,
            cases: Vec::new(),
        }
    }
}

/// Reader of the words of one statement.
struct Reader<'w, 'a> {
    words: &'w [Lexeme<'a>],
    brackets: Vec<Bracket>,
}

impl<'w, 'a> Reader<'w, 'a> {
    fn new(words: &'w [Lexeme<'a>]) -> Self {
        Reader {
            words,
            brackets: vec![Bracket::new(false, true)],
        }
    }

    fn read(mut self, found: &mut BTreeSet<UnrepeatableCall>) {
        for at in 0..self.words.len() {
            let word = &self.words[at];
            if word.is_symbol("(") {
                let is_condition = self.is_condition() || self.is_row_source_call(at);
                self.brackets.push(Bracket::new(is_condition, false));
            } else if word.is_symbol(")") {
                if self.brackets.len() > 1 {
                    self.brackets.pop();
                }
            } else {
                self.read_keyword(at);
                if self.is_condition() || self.is_sampling(at) {
                    found.extend(self.call_at(at));
                }
            }
        }
    }

    /// Updates the innermost bracket, if a word is a keyword.
    fn read_keyword(&mut self, at: usize) {
        if self.before(at, 1).is_some_and(|one| one.is_symbol(".")) {
            return;
        }
        let part = self.part_begun_at(at);
        let word = &self.words[at];
        let Some(bracket) = self.brackets.last_mut() else {
            return;
        };
        if word.is("case") {
            bracket.cases.push(bracket.part);
        } else if word.is("end") {
            bracket.cases.pop();
        }
        let begins_query = ["select", "update", "delete"];
        bracket.has_query |= begins_query.iter().any(|one| word.is(one));
        if let Some(part) = part {
            bracket.part = part;
        }
    }

    fn is_condition(&self) -> bool {
        let bracket = self.brackets.last();
        bracket.is_some_and(|one| one.is_condition || one.part == Part::Condition)
    }

    /// Whether a bracket has the arguments of a function in FROM, such as `generate_series(…)`.
    fn is_row_source_call(&self, at: usize) -> bool {
        let in_from = self
            .brackets
            .last()
            .is_some_and(|one| one.part == Part::From);
        let no_calls = ["from", "join", "lateral", "as", "only", "values"];
        let name = self.before(at, 1);
        in_from
            && name.is_some_and(|name| {
                matches!(name, Lexeme::Word(_) | Lexeme::Quoted(_))
                    && !no_calls.iter().any(|word| name.is(word))
            })
    }

    /// Whether a word is a TABLESAMPLE that is not repeatable.
    fn is_sampling(&self, at: usize) -> bool {
        let is_repeatable = || self.words[at..].iter().any(|word| word.is("repeatable"));
        self.words[at].is("tablesample") && !is_repeatable()
    }

    /// Returns the part that begins with a keyword.
    fn part_begun_at(&self, at: usize) -> Option<Part> {
        let word = &self.words[at];
        let is_any = |keywords: &[&str]| keywords.iter().any(|one| word.is(one));
        let next_is = |keyword: &str| self.words.get(at + 1).is_some_and(|next| next.is(keyword));
        let is_after = |keyword: &str| self.before(at, 1).is_some_and(|one| one.is(keyword));
        let bracket = self.brackets.last()?;
        // `DISTINCT ON` and `ON CONFLICT` name columns.
        if word.is("on") && (next_is("conflict") || is_after("distinct")) {
            return None;
        }
        if is_any(&["where", "on", "having", "limit", "offset", "fetch", "when"])
            || word.is("order") && next_is("by")
        {
            return Some(Part::Condition);
        }
        if is_any(&["join", "using"])
            || word.is("from") && bracket.has_query && !self.is_after_is_distinct(at)
        {
            return Some(Part::From);
        }
        // The results of a CASE belong to the part that it is in.
        if is_any(&["then", "else", "end"]) {
            return Some(bracket.cases.last().copied().unwrap_or(Part::Values));
        }
        let begins_values = [
            "select",
            "set",
            "returning",
            "values",
            "group",
            "window",
            "do",
            "union",
            "intersect",
            "except",
        ];
        is_any(&begins_values).then_some(Part::Values)
    }

    /// Whether a word follows `IS DISTINCT` or `IS NOT DISTINCT`.
    fn is_after_is_distinct(&self, at: usize) -> bool {
        let is = |distance, keyword| {
            let word = self.before(at, distance);
            word.is_some_and(|word| word.is(keyword))
        };
        is(1, "distinct") && (is(2, "is") || is(2, "not") && is(3, "is"))
    }

    fn before(&self, at: usize, distance: usize) -> Option<&'w Lexeme<'a>> {
        at.checked_sub(distance).map(|at| &self.words[at])
    }

    /// Returns the call, keyword or literal that begins at a place, if it is unrepeatable.
    fn call_at(&self, at: usize) -> Option<UnrepeatableCall> {
        match &self.words[at] {
            Lexeme::Value(text) => self.time_literal(at, text),
            word => {
                let name = word.name()?;
                // A column, or a function of another schema.
                if self.before(at, 1).is_some_and(|one| one.is_symbol("."))
                    && !self.before(at, 2).is_some_and(|one| one.is("pg_catalog"))
                {
                    return None;
                }
                let keyword = KEYWORDS.iter().find(|keyword| word.is(keyword));
                if let Some(keyword) = keyword {
                    return Some(UnrepeatableCall {
                        source: UnrepeatableSource::Time,
                        name: keyword,
                    });
                }
                if word.is("tablesample") && !self.is_sampling(at) {
                    return None;
                }
                let is_called = (self.words.get(at + 1)).is_some_and(|next| next.is_symbol("("));
                let of = FUNCTIONS.iter().find(|(function, ..)| *function == name)?;
                let (_, name, source) = *of;
                let is_one = match name {
                    "tablesample" => true,
                    "age()" => is_called && self.has_one_argument(at + 1),
                    _ => is_called,
                };
                is_one.then_some(UnrepeatableCall { source, name })
            }
        }
    }

    /// Whether brackets hold one expression.
    fn has_one_argument(&self, open: usize) -> bool {
        let mut depth = 0;
        for word in &self.words[open..] {
            if word.is_symbol("(") || word.is_symbol("[") {
                depth += 1;
            } else if word.is_symbol(")") || word.is_symbol("]") {
                depth -= 1;
                if depth == 0 {
                    return true;
                }
            } else if word.is_symbol(",") && depth == 1 {
                return false;
            }
        }
        false
    }

    /// Returns a literal that is cast to a date or time: `'now'::date`, `date 'now'`, `CAST('now' AS date)`.
    fn time_literal(&self, at: usize, text: &str) -> Option<UnrepeatableCall> {
        let (spelling, inner) = Spelling::of(text);
        let content = spelling.read(inner);
        let first = content.split_ascii_whitespace().next()?;
        let (_, name) = (LITERALS.iter()).find(|(word, _)| first.eq_ignore_ascii_case(word))?;
        let is_type = |word: Option<&Lexeme<'_>>| {
            word.is_some_and(|word| TIME_TYPES.iter().any(|of| word.is(of)))
        };
        let after = |distance: usize| self.words.get(at + distance);
        let is_symbol = |distance: usize, symbol: &str| {
            after(distance).is_some_and(|word| word.is_symbol(symbol))
        };
        let cast_at = if is_symbol(1, "::") {
            Some(2)
        } else if is_symbol(1, ":") && is_symbol(2, ":") {
            Some(3)
        } else if after(1).is_some_and(|word| word.is("as")) {
            Some(2)
        } else {
            None
        };
        // `timestamp with time zone 'now'`.
        let zone = self.before(at, 1).is_some_and(|word| word.is("zone"));
        let is_cast = is_type(self.before(at, 1))
            || zone && is_type(self.before(at, 4))
            || cast_at.is_some_and(|distance| is_type(after(distance)));
        is_cast.then_some(UnrepeatableCall {
            source: UnrepeatableSource::Time,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sql: &str) -> Vec<&'static str> {
        let found = UnrepeatableCall::find_in_conditions(sql);
        found.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn call_in_a_condition_is_found_and_one_in_a_list_of_values_is_not() {
        for (sql, expected) in [
            ("SELECT now(), random() FROM t WHERE id = 1", vec![]),
            (
                "SELECT 1 FROM t WHERE at > now() - interval '1 day'",
                vec!["now()"],
            ),
            ("select 1 from t where at > PG_CATALOG.Now()", vec!["now()"]),
            ("SELECT 1 FROM t WHERE at > \"now\"()", vec!["now()"]),
            (
                "SELECT 1 FROM t WHERE at > CURRENT_DATE",
                vec!["current_date"],
            ),
            (
                "SELECT 1 FROM a JOIN b ON b.at < localtimestamp",
                vec!["localtimestamp"],
            ),
            (
                "SELECT 1 FROM t GROUP BY a HAVING max(at) < clock_timestamp()",
                vec!["clock_timestamp()"],
            ),
            (
                "SELECT 1 FROM t LIMIT (random() * 10)::int",
                vec!["random()"],
            ),
            (
                "SELECT 1 FROM t ORDER BY random() LIMIT 1",
                vec!["random()"],
            ),
            (
                "UPDATE t SET at = now(), pid = pg_backend_pid() WHERE id = 1",
                vec![],
            ),
            (
                "UPDATE t SET at = now() WHERE pid = pg_backend_pid()",
                vec!["pg_backend_pid()"],
            ),
            (
                "DELETE FROM t WHERE at < now() RETURNING random()",
                vec!["now()"],
            ),
            ("INSERT INTO t VALUES (now(), gen_random_uuid())", vec![]),
            (
                "INSERT INTO t SELECT now() FROM s WHERE a = txid_current()",
                vec!["txid_current()"],
            ),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET at = now()",
                vec![],
            ),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 1 WHERE t.at < now()",
                vec!["now()"],
            ),
            (
                "SELECT CASE WHEN at < now() THEN 1 ELSE random() END FROM t",
                vec!["now()"],
            ),
            (
                "SELECT count(*) FILTER (WHERE at < now()), now() FROM t",
                vec!["now()"],
            ),
            // A list within a condition is part of it.
            (
                "SELECT 1 FROM t WHERE d IN (SELECT current_date FROM s)",
                vec!["current_date"],
            ),
            (
                "SELECT 1 FROM (SELECT now() AS n FROM t WHERE at > localtime) x",
                vec!["localtime"],
            ),
            (
                "SELECT g FROM generate_series(now(), $1, $2) g",
                vec!["now()"],
            ),
            (
                "WITH w AS (DELETE FROM t WHERE at < now() RETURNING id) SELECT * FROM w",
                vec!["now()"],
            ),
            (
                "SELECT 1 FROM t TABLESAMPLE SYSTEM (1)",
                vec!["tablesample"],
            ),
            (
                "SELECT 1 FROM t TABLESAMPLE SYSTEM (1) REPEATABLE (7)",
                vec![],
            ),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
        }
    }

    #[test]
    fn case_in_a_condition_is_part_of_it_to_its_end_and_after() {
        for (sql, expected) in [
            (
                "SELECT 1 FROM t WHERE CASE WHEN a THEN 1 ELSE 2 END = 1 AND at < now()",
                vec!["now()"],
            ),
            (
                "SELECT 1 FROM t WHERE CASE a WHEN 1 THEN now() END > at",
                vec!["now()"],
            ),
            (
                "SELECT 1 FROM t WHERE CASE WHEN a THEN CASE WHEN b THEN 1 END ELSE random() END = 1",
                vec!["random()"],
            ),
            (
                "SELECT CASE WHEN a THEN CASE WHEN b THEN 1 ELSE random() END ELSE now() END, now() FROM t",
                vec![],
            ),
            (
                "SELECT 1 FROM t ORDER BY CASE WHEN a THEN 1 END, random()",
                vec!["random()"],
            ),
            (
                "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET at = now()",
                vec![],
            ),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
        }
    }

    #[test]
    fn from_is_a_clause_only_in_a_query() {
        for sql in [
            "SELECT extract(epoch FROM age(now(), at)) FROM t",
            "SELECT substring(a FROM f(now())) FROM t",
            "SELECT trim(both ' ' FROM f(now())) FROM t",
            "SELECT overlay(a PLACING b FROM f(now())) FROM t",
            "SELECT a IS DISTINCT FROM f(now()), b IS NOT DISTINCT FROM f(now()) FROM t",
            "SELECT (SELECT a IS DISTINCT FROM f(now()))",
        ] {
            assert!(names(sql).is_empty(), "{sql}");
        }
        for sql in [
            "SELECT 1 FROM t WHERE extract(epoch FROM age(now(), at)) > 5",
            "SELECT 1 FROM t WHERE at IS DISTINCT FROM f(now())",
            "SELECT (SELECT max(g) FROM f(now()) g)",
            "SELECT t.distinct FROM f(now()) t",
            "WITH w AS (DELETE FROM t USING f(now()) g RETURNING 1) SELECT 1",
            "WITH w AS (UPDATE t SET a = 1 FROM f(now()) g) SELECT 1",
            "SELECT 1 FROM ((SELECT 1) UNION SELECT g FROM f(now()) g) x",
            "SELECT 1 FROM (t CROSS JOIN f(now()))",
        ] {
            assert_eq!(names(sql), ["now()"], "{sql}");
        }
    }

    #[test]
    fn age_depends_on_the_time_only_with_one_argument() {
        assert_eq!(names("SELECT 1 FROM t WHERE age(at) > $1"), ["age()"]);
        assert_eq!(names("SELECT 1 FROM t WHERE age(f(a, b)) > $1"), ["age()"]);
        assert!(names("SELECT 1 FROM t WHERE age(at, until) > $1").is_empty());
    }

    #[test]
    fn literal_is_a_time_only_with_a_cast() {
        for (sql, expected) in [
            (
                "SELECT 1 FROM t WHERE at > 'now'::timestamptz",
                vec!["'now'"],
            ),
            ("SELECT 1 FROM t WHERE at > date 'Today'", vec!["'today'"]),
            (
                "SELECT 1 FROM t WHERE at > CAST(' tomorrow 12:00' AS timestamp)",
                vec!["'tomorrow'"],
            ),
            (
                "SELECT 1 FROM t WHERE at > timestamp with time zone 'yesterday'",
                vec!["'yesterday'"],
            ),
            ("SELECT 1 FROM t WHERE word = 'now'", vec![]),
            ("SELECT 1 FROM t WHERE word = 'now'::text", vec![]),
            ("SELECT 'now'::timestamptz", vec![]),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
            assert!(may_have_time_literal(sql), "{sql}");
        }
        assert!(!may_have_time_literal("SELECT now() WHERE a = 'then'"));
    }

    #[test]
    fn comments_strings_names_and_definitions_are_no_calls() {
        for sql in [
            "SELECT 1 FROM t WHERE a = 1 -- AND at > now()",
            "SELECT 1 FROM t WHERE a = 1 /* now() */",
            "SELECT 1 FROM t WHERE a = 'now() current_date'",
            "SELECT 1 FROM t WHERE a = $$now()$$",
            "SELECT 1 FROM t WHERE t.now = 1 AND \"current_date\" = 2 AND now = 3",
            "SELECT 1 FROM t WHERE other.random() = 1",
            "CREATE INDEX i ON t (a) WHERE a > random()",
            "CREATE VIEW v AS SELECT 1 FROM t WHERE at > now()",
            "SELECT t.where, now() FROM t",
        ] {
            assert!(names(sql).is_empty(), "{sql}");
        }
    }
}
