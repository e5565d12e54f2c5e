//! Proposes to leave out `MATERIALIZED`, which keeps conditions and indexes from reaching a CTE.

use diagnose::Change;
use sql::{Fingerprinter, Lexer, Token};

use super::super::intervention::{Action, Intervention, MeasuredStatement};

/// Proposes it for a statement that has the word. The rows are the same unless the CTE calls a volatile function.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Option<Intervention> {
    let example = &statement.sets[statement.representative];
    let rewritten = without_materialized(&example.sql)?;
    let mut normal_form = Fingerprinter::new();
    let normal_form = normal_form.normalise(&rewritten);
    Some(Intervention {
        cause: "MATERIALIZED makes the server compute all rows of a CTE, of which the statement needs few".to_owned(),
        change: Change::manual(format!(
            "leave out MATERIALIZED; the rows are the same unless the CTE calls a volatile function: {normal_form}"
        )),
        action: Action::Rewrite(without_materialized),
        risk: "the CTE may be computed more than once if it is read several times".to_owned(),
    })
}

/// Removes `MATERIALIZED` after `AS`; `None` if there is none.
fn without_materialized(sql: &str) -> Option<String> {
    let mut rewritten = String::with_capacity(sql.len());
    let (mut kept, mut after_as) = (0, false);
    for token in Lexer::new(sql) {
        let word = match token {
            Token::Word { start, end } => &sql[start..end],
            Token::Comment { .. } => continue,
            _ => "",
        };
        if after_as && word.eq_ignore_ascii_case("materialized") {
            rewritten.push_str(&sql[kept..token.start()]);
            kept = token.end();
        }
        after_as = word.eq_ignore_ascii_case("as");
    }
    (kept > 0).then(|| rewritten + &sql[kept..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keyword_after_as_is_removed() {
        let all = |sql| without_materialized(sql);
        assert_eq!(
            all("WITH a AS MATERIALIZED (SELECT 'as materialized') SELECT * FROM a").as_deref(),
            Some("WITH a AS  (SELECT 'as materialized') SELECT * FROM a")
        );
        for other in [
            "WITH a AS NOT MATERIALIZED (SELECT 1) SELECT * FROM a",
            "SELECT materialized FROM a",
            "SELECT 'x AS MATERIALIZED'",
        ] {
            assert_eq!(all(other), None, "{other}");
        }
    }
}
