//! Proposes `NOT EXISTS` instead of `NOT IN` of a subquery, which the planner cannot make a join: it must give no row
//! if the subquery has a NULL. Without enough memory for a hash table, the subquery is searched for each row.

use diagnose::Change;
use sql::{Fingerprinter, Lexer, Token};

use super::super::intervention::{Action, Intervention, MeasuredStatement};

/// Words before an operand that may be rewritten alone.
const BEFORE: [&str; 4] = ["where", "and", "or", "on"];
/// Name of the subquery's column. No column of the statement has it.
const VALUE: &str = "excluded_value";

/// Proposes it for a statement that has the words.
pub(super) fn propose(statement: &MeasuredStatement<'_>) -> Option<Intervention> {
    let example = &statement.sets[statement.representative];
    let rewritten = with_not_exists(&example.sql)?;
    let mut normal_form = Fingerprinter::new();
    let normal_form = normal_form.normalise(&rewritten);
    Some(Intervention {
        cause: "NOT IN of a subquery searches the subquery for each row, since a NULL in it must exclude all rows".to_owned(),
        change: Change::manual(format!(
            "NOT EXISTS instead of NOT IN; the rows are the same if neither side can be NULL: {normal_form}"
        )),
        action: Action::Rewrite(with_not_exists),
        risk: "NOT IN gives no row if the subquery has a NULL, and NOT EXISTS does: make sure that neither side can be NULL"
            .to_owned(),
    })
}

/// Replaces `column NOT IN (SELECT …)` by `NOT EXISTS`; `None` if there is none with a plain column.
fn with_not_exists(sql: &str) -> Option<String> {
    if sql.to_ascii_lowercase().contains(VALUE) {
        return None;
    }
    let tokens: Vec<Token> = Lexer::new(sql)
        .filter(|token| !matches!(token, Token::Comment { .. }))
        .collect();
    let text = |place: usize| {
        tokens
            .get(place)
            .map_or("", |one| &sql[one.start()..one.end()])
    };
    let is = |place: usize, word: &str| text(place).eq_ignore_ascii_case(word);
    let mut rewritten = String::with_capacity(sql.len() * 2);
    let (mut kept, mut place) = (0, 0);
    while place < tokens.len() {
        let begins = is(place, "not")
            && is(place + 1, "in")
            && is(place + 2, "(")
            && is(place + 3, "select");
        let operand = begins
            .then(|| operand_before(&tokens, sql, place))
            .flatten();
        let close = operand.and_then(|_| closing_bracket(&tokens, sql, place + 2));
        if let (Some(operand), Some(close)) = (operand, close) {
            let column = sql[tokens[operand].start()..tokens[place - 1].end()].trim();
            let subquery = &sql[tokens[place + 2].start()..tokens[close].end()];
            rewritten.push_str(&sql[kept..tokens[operand].start()]);
            rewritten.push_str(&format!(
                "NOT EXISTS (SELECT FROM {subquery} AS excluded ({VALUE}) WHERE excluded.{VALUE} = {column})"
            ));
            kept = tokens[close].end();
            place = close;
        }
        place += 1;
    }
    (kept > 0).then(|| rewritten + &sql[kept..])
}

/// Returns the first token of the column before a token, if nothing else belongs to the operand.
fn operand_before(tokens: &[Token], sql: &str, end: usize) -> Option<usize> {
    let text = |place: usize| &sql[tokens[place].start()..tokens[place].end()];
    let mut first = end.checked_sub(1)?;
    while matches!(tokens[first], Token::Word { .. } | Token::Quoted { .. })
        && first >= 2
        && text(first - 1) == "."
    {
        first -= 2;
    }
    let before = text(first.checked_sub(1)?);
    let is_column = matches!(tokens[first], Token::Word { .. } | Token::Quoted { .. });
    let stands_alone = before == "(" || BEFORE.iter().any(|word| before.eq_ignore_ascii_case(word));
    (is_column && stands_alone).then_some(first)
}

/// Returns the bracket that closes the one at a place.
fn closing_bracket(tokens: &[Token], sql: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match &sql[token.start()..token.end()] {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_columns_are_rewritten_and_nothing_else() {
        assert_eq!(
            with_not_exists(
                "SELECT 1 FROM a WHERE x = 1 AND a.id NOT IN (SELECT f(b) FROM b WHERE c IN (1, 2)) LIMIT 3"
            )
            .as_deref(),
            Some(
                "SELECT 1 FROM a WHERE x = 1 AND NOT EXISTS (SELECT FROM (SELECT f(b) FROM b WHERE c IN (1, 2)) AS excluded \
                 (excluded_value) WHERE excluded.excluded_value = a.id) LIMIT 3"
            )
        );
        for other in [
            "SELECT 1 FROM a WHERE x + id NOT IN (SELECT b FROM b)",
            "SELECT 1 FROM a WHERE (x, id) NOT IN (SELECT b, c FROM b)",
            "SELECT 1 FROM a WHERE id NOT IN (1, 2)",
            "SELECT 1 FROM a WHERE id IN (SELECT b FROM b)",
            "SELECT 'id NOT IN (SELECT 1)'",
        ] {
            assert_eq!(with_not_exists(other), None, "{other}");
        }
    }
}
