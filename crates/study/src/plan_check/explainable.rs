//! Statements with a plan that are no queries themselves: cursors, `COPY (query)`, `CREATE TABLE AS`.

use std::sync::Arc;

use sql::{Lexeme, StatementClass, classify, split_statements};

/// Reason why a statement in a text with others is not planned.
pub(super) const SENT_WITH_OTHERS: &str =
    "it is sent with others in one text, and a server plans one at a time";

/// Way in which a server plans a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Explainable {
    /// `EXPLAIN` and `PREPARE` take it.
    Query,
    /// `EXPLAIN` takes it, and `PREPARE` does not.
    Statement,
    /// `EXPLAIN` takes the query in its brackets.
    QueryOfCopy,
    /// It executes a query that cannot be planned, for this reason.
    Hidden(&'static str),
    /// It executes no query.
    None,
}

impl Explainable {
    /// Returns the way for a statement of this class.
    pub(super) fn of(class: StatementClass, text: &str) -> Self {
        if class.is_planned() || class == StatementClass::Other {
            return Explainable::Query;
        }
        let statements = split_statements(text);
        // The class is that of the first one, such as SET and BEGIN, unless another may write.
        if statements.len() > 1 {
            let mut ways = statements
                .iter()
                .map(|one| Self::of(classify(one.text), one.text));
            return match ways.any(|way| way != Explainable::None) {
                true => Explainable::Hidden(SENT_WITH_OTHERS),
                false => Explainable::None,
            };
        }
        let words = statements.first().map_or(&[][..], |one| &one.words[..]);
        let word = |place: usize, keyword| words.get(place).is_some_and(|one| one.is(keyword));
        if word(0, "declare") {
            Explainable::Statement
        } else if word(0, "copy") && words.get(1).is_some_and(|one| one.is_symbol("(")) {
            Explainable::QueryOfCopy
        } else if word(0, "execute") || query_of_create(words).is_some_and(|one| one.is("execute"))
        {
            Explainable::Hidden("it executes the query of a PREPARE, which is another statement")
        } else if query_of_create(words).is_some() {
            Explainable::Statement
        } else if word(0, "call") || word(0, "do") {
            Explainable::Hidden("the workload does not have the statements that its body executes")
        } else if word(0, "refresh") {
            Explainable::Hidden("servers show no plan of REFRESH MATERIALIZED VIEW")
        } else {
            Explainable::None
        }
    }

    /// Returns the text for `EXPLAIN`; `None` if it cannot be found.
    pub(super) fn text(self, sql: &Arc<str>) -> Option<Arc<str>> {
        match self {
            Explainable::QueryOfCopy => query_of_copy(sql).map(Arc::from),
            _ => Some(Arc::clone(sql)),
        }
    }
}

/// Returns the first word of the query from which a statement creates a table or a materialized view.
fn query_of_create<'w, 'a>(words: &'w [Lexeme<'a>]) -> Option<&'w Lexeme<'a>> {
    if !words.first()?.is("create") {
        return None;
    }
    let mut brackets = 0_u32;
    let mut is_table = false;
    for (place, word) in words.iter().enumerate() {
        match word {
            Lexeme::Symbol("(") => brackets += 1,
            Lexeme::Symbol(")") => brackets = brackets.saturating_sub(1),
            _ if brackets > 0 => {}
            // Anything else that is created has its kind before these words.
            word if word.is("function") || word.is("procedure") || word.is("rule") => return None,
            word if word.is("table") || word.is("materialized") => is_table = true,
            word if word.is("as") && is_table => return words.get(place + 1),
            _ => {}
        }
    }
    None
}

/// Returns the query in the brackets of `COPY (query) TO …`.
fn query_of_copy(sql: &str) -> Option<&str> {
    let statements = split_statements(sql);
    let words = &statements.first()?.words;
    let place = |word: &Lexeme<'_>| word.text().as_ptr() as usize - sql.as_ptr() as usize;
    let mut brackets = 0_u32;
    for word in words.get(1..)? {
        match word {
            Lexeme::Symbol("(") => brackets += 1,
            Lexeme::Symbol(")") => brackets = brackets.checked_sub(1)?,
            _ => {}
        }
        if brackets == 0 {
            return sql.get(place(&words[1]) + 1..place(word));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(text: &str) -> Explainable {
        Explainable::of(classify(text), text)
    }

    #[test]
    fn statements_with_a_query_are_planned_or_have_a_reason() {
        for (text, expected) in [
            ("WITH a AS (SELECT 1) SELECT * FROM a", Explainable::Query),
            (
                "DECLARE c NO SCROLL CURSOR FOR SELECT 1",
                Explainable::Statement,
            ),
            (
                "/* job */ COPY (SELECT 1) TO STDOUT",
                Explainable::QueryOfCopy,
            ),
            ("COPY orders TO STDOUT", Explainable::None),
            ("CREATE TEMP TABLE t AS SELECT 1", Explainable::Statement),
            (
                "create table t (a, b) as (values (1, 2))",
                Explainable::Statement,
            ),
            (
                "CREATE MATERIALIZED VIEW v AS SELECT 1",
                Explainable::Statement,
            ),
            (
                "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY)",
                Explainable::None,
            ),
            ("CREATE VIEW v AS SELECT 1", Explainable::None),
            (
                "CREATE FUNCTION f() RETURNS TABLE (a int) AS 'SELECT 1' LANGUAGE sql",
                Explainable::None,
            ),
            ("BEGIN", Explainable::None),
        ] {
            assert_eq!(way(text), expected, "{text}");
        }
        for text in [
            "SET LOCAL statement_timeout = $1; SELECT * FROM t WHERE a = $2",
            "BEGIN; SELECT 1; COMMIT",
            "BEGIN; DECLARE c CURSOR FOR SELECT 1",
            "SET LOCAL work_mem = $1; CALL p()",
            "COPY t TO STDOUT; EXECUTE p(1)",
        ] {
            assert_eq!(way(text), Explainable::Hidden(SENT_WITH_OTHERS), "{text}");
        }
        assert_eq!(way("SET a.b = $1; BEGIN; COMMIT;"), Explainable::None);
        for text in [
            "EXECUTE p(1)",
            "CREATE TABLE t AS EXECUTE p",
            "create temp table t (a) as execute p(1)",
            "CALL p()",
            "REFRESH MATERIALIZED VIEW v",
        ] {
            assert!(matches!(way(text), Explainable::Hidden(_)), "{text}");
        }
    }

    #[test]
    fn query_of_copy_ends_at_its_bracket() {
        let text = "/* ( */ COPY (SELECT ')', (a) FROM t -- )\n) TO STDOUT (FORMAT csv)";
        assert_eq!(query_of_copy(text), Some("SELECT ')', (a) FROM t -- )\n"));
        assert_eq!(query_of_copy("COPY (SELECT 1"), None);
    }
}
