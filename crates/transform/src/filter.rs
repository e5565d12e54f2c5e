//! Selects the sessions and statements of a slice.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

use sql::{
    ContextKey, ContextReader, Fingerprinter, Pattern, StatementClass, StatementContext, classify,
};
use workload::ExclusionReason;

/// Name patterns to include and to exclude. Without patterns to include, all names are included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternFilter {
    /// Patterns to include: one of them must match, if there are any.
    pub included: Vec<Pattern>,
    /// Patterns to exclude: none of them may match.
    pub excluded: Vec<Pattern>,
}

impl PatternFilter {
    pub(super) fn is_all(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }

    fn matches(&self, matches: impl Fn(&Pattern) -> bool) -> bool {
        (self.included.is_empty() || self.included.iter().any(&matches))
            && !self.excluded.iter().any(&matches)
    }
}

/// A part of the context that a comment names, with the values to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextPattern {
    /// The part.
    pub key: ContextKey,
    /// Pattern of its whole value.
    pub value: Pattern,
}

impl ContextPattern {
    fn matches(&self, context: &StatementContext<'_>) -> bool {
        let value = context.value(self.key);
        value.is_some_and(|value| self.value.matches_name(value))
    }
}

impl FromStr for ContextPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=');
        let named = parts.and_then(|(key, value)| Some((ContextKey::from_name(key)?, value)));
        let (key, value) = named.ok_or_else(|| {
            let keys = ContextKey::ALL.map(ContextKey::name).join(", ");
            format!("'{text}' is no KEY=VALUE; give one of {keys}, such as route=/orders/*")
        })?;
        Ok(ContextPattern {
            key,
            value: Pattern::name(value),
        })
    }
}

impl fmt::Display for ContextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key.name(), self.value.given())
    }
}

/// Contexts to include and to exclude. Without patterns to include, all statements are included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextFilter {
    /// Patterns to include: of each key that has some, one must match.
    pub included: Vec<ContextPattern>,
    /// Patterns to exclude: none of them may match.
    pub excluded: Vec<ContextPattern>,
}

impl ContextFilter {
    fn is_all(&self) -> bool {
        self.included.is_empty() && self.excluded.is_empty()
    }

    fn matches(&self, context: &StatementContext<'_>) -> bool {
        let matches_key = |key| {
            let mut patterns = self.included.iter().filter(|one| one.key == key).peekable();
            patterns.peek().is_none() || patterns.any(|one| one.matches(context))
        };
        ContextKey::ALL.into_iter().all(matches_key)
            && !self.excluded.iter().any(|one| one.matches(context))
    }
}

/// Kind of statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Statements of one class.
    Class(StatementClass),
    /// Statements that cannot write, judged by their first words ([`StatementClass::may_write`]).
    Read,
    /// Statements that may write.
    Write,
}

impl StatementKind {
    /// Lists all valid names.
    pub fn names() -> Vec<&'static str> {
        let classes = StatementClass::ALL.into_iter().map(StatementClass::name);
        ["read", "write"].into_iter().chain(classes).collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StatementKind::Class(class) => class.name(),
            StatementKind::Read => "read",
            StatementKind::Write => "write",
        }
    }

    fn matches(self, class: StatementClass) -> bool {
        match self {
            StatementKind::Class(this) => this == class,
            StatementKind::Read => !class.may_write(),
            StatementKind::Write => class.may_write(),
        }
    }
}

impl FromStr for StatementKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "read" => Ok(StatementKind::Read),
            "write" => Ok(StatementKind::Write),
            name => StatementClass::from_name(name)
                .map(StatementKind::Class)
                .ok_or_else(|| {
                    format!(
                        "'{name}' is no kind; give one of {}",
                        Self::names().join(", ")
                    )
                }),
        }
    }
}

/// Selection of sessions and statements. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Sessions by database.
    pub databases: PatternFilter,
    /// Sessions by role.
    pub users: PatternFilter,
    /// Sessions by `application_name` at their start.
    pub applications: PatternFilter,
    /// Statements by their normalised text.
    pub statements: PatternFilter,
    /// Kinds of statements to include: one of them must match, if there are any.
    pub kinds: Vec<StatementKind>,
    /// Kinds of statements to exclude.
    pub excluded_kinds: Vec<StatementKind>,
    /// Statements by the context that their comment names.
    pub contexts: ContextFilter,
}

impl Filter {
    /// Returns whether every statement of a selected session is selected.
    pub fn takes_all_statements(&self) -> bool {
        self.statements.is_all()
            && self.kinds.is_empty()
            && self.excluded_kinds.is_empty()
            && self.contexts.is_all()
    }

    pub(super) fn check_session(
        &self,
        database: &str,
        user: &str,
        application: &str,
    ) -> Result<(), ExclusionReason> {
        for (choice, name, by) in [
            (&self.databases, database, ExclusionReason::Database),
            (&self.users, user, ExclusionReason::User),
            (
                &self.applications,
                application,
                ExclusionReason::Application,
            ),
        ] {
            if !choice.matches(|pattern| pattern.matches_name(name)) {
                return Err(by);
            }
        }
        Ok(())
    }

    fn check_statement(
        &self,
        sql: &str,
        fingerprinter: &mut Fingerprinter,
    ) -> Result<(), ExclusionReason> {
        let by_kind = !self.kinds.is_empty() || !self.excluded_kinds.is_empty();
        let class = by_kind.then(|| classify(sql));
        let of = |kind: &StatementKind| class.is_some_and(|class| kind.matches(class));
        if !self.kinds.is_empty() && !self.kinds.iter().any(of)
            || self.excluded_kinds.iter().any(of)
        {
            return Err(ExclusionReason::Kind);
        }
        if !self.contexts.is_all() {
            let comment = ContextReader::default().read(sql);
            let context = comment.map(|comment| comment.context).unwrap_or_default();
            if !self.contexts.matches(&context) {
                return Err(ExclusionReason::Context);
            }
        }
        if self.statements.is_all() {
            return Ok(());
        }
        let normal = fingerprinter.normalise(sql);
        if !self
            .statements
            .matches(|pattern| pattern.matches_statement(normal))
        {
            return Err(ExclusionReason::Statement);
        }
        Ok(())
    }
}

/// Maximum number of cached decisions about statement texts.
const CACHED_DECISIONS_MAX: usize = 1 << 16;

/// Decides about statements, with a cache.
#[derive(Debug)]
pub(super) struct StatementFilter {
    fingerprinter: Fingerprinter,
    known: HashMap<u64, Result<(), ExclusionReason>>,
}

impl StatementFilter {
    pub(super) fn new() -> Self {
        StatementFilter {
            fingerprinter: Fingerprinter::new(),
            known: HashMap::new(),
        }
    }

    pub(super) fn check(&mut self, filter: &Filter, sql: &str) -> Result<(), ExclusionReason> {
        if filter.takes_all_statements() {
            return Ok(());
        }
        let text_hash = xxh3_64(sql.as_bytes());
        if let Some(&known) = self.known.get(&text_hash) {
            return known;
        }
        let judged = filter.check_statement(sql, &mut self.fingerprinter);
        if self.known.len() >= CACHED_DECISIONS_MAX {
            self.known.clear();
        }
        self.known.insert(text_hash, judged);
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_and_unwanted() {
        let filter = Filter {
            databases: PatternFilter {
                included: vec![Pattern::name("shop*"), Pattern::name("bank")],
                excluded: vec![Pattern::name("*_test")],
            },
            users: PatternFilter {
                excluded: vec![Pattern::name("monitor")],
                ..PatternFilter::default()
            },
            ..Filter::default()
        };
        assert_eq!(filter.check_session("shop", "app", "x"), Ok(()));
        assert_eq!(filter.check_session("bank", "app", ""), Ok(()));
        assert_eq!(
            filter.check_session("shop_test", "app", ""),
            Err(ExclusionReason::Database)
        );
        assert_eq!(
            filter.check_session("other", "monitor", ""),
            Err(ExclusionReason::Database)
        );
        assert_eq!(
            filter.check_session("shop", "monitor", ""),
            Err(ExclusionReason::User)
        );
    }

    #[test]
    fn contexts_of_one_key_are_alternatives_and_keys_must_all_match() {
        let patterns = |given: &[&str]| given.iter().map(|text| text.parse().unwrap()).collect();
        let filter = Filter {
            contexts: ContextFilter {
                included: patterns(&["route=/polls/*", "route=/", "application=shop"]),
                excluded: patterns(&["action=destroy"]),
            },
            ..Filter::default()
        };
        let mut judge = StatementFilter::new();
        for (comment, judged) in [
            ("route='/polls/%3Cint%3E',application='shop'", Ok(())),
            ("route:/,application:shop", Ok(())),
            ("route='/polls/1'", Err(ExclusionReason::Context)),
            (
                "route='/cart',application='shop'",
                Err(ExclusionReason::Context),
            ),
            (
                "route='/',application='shop',action='destroy'",
                Err(ExclusionReason::Context),
            ),
            ("no context", Err(ExclusionReason::Context)),
        ] {
            let sql = format!("SELECT 1 /*{comment}*/");
            assert_eq!(judge.check(&filter, &sql), judged, "{sql}");
        }
        let refused = "path=/x".parse::<ContextPattern>().unwrap_err();
        assert!(
            refused.contains("give one of route, controller"),
            "{refused}"
        );
    }

    #[test]
    fn kinds_and_statements() {
        let mut judge = StatementFilter::new();
        let filter = Filter {
            kinds: vec![StatementKind::Read, "delete".parse().unwrap()],
            excluded_kinds: vec!["utility".parse().unwrap()],
            statements: PatternFilter {
                included: vec![Pattern::statement("from orders").unwrap()],
                excluded: vec![Pattern::statement("id = $1").unwrap()],
            },
            ..Filter::default()
        };
        for _ in 0..2 {
            for (sql, judged) in [
                ("SELECT 1 FROM orders", Ok(())),
                ("DELETE FROM Orders", Ok(())),
                ("UPDATE orders SET a = 1", Err(ExclusionReason::Kind)),
                ("SHOW a", Err(ExclusionReason::Kind)),
                ("SELECT 1 FROM items", Err(ExclusionReason::Statement)),
                (
                    "SELECT 1 FROM orders WHERE id = 7",
                    Err(ExclusionReason::Statement),
                ),
            ] {
                assert_eq!(judge.check(&filter, sql), judged, "{sql}");
            }
        }
        let said = "selects".parse::<StatementKind>().unwrap_err();
        assert!(
            said.contains("'selects' is no kind; give one of read, write, select"),
            "{said}"
        );
    }
}
