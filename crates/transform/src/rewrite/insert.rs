//! Parses inserts of one row by their keywords.

use sql::{Lexeme, split_statements};

/// An insert of one row, split at its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SingleRowInsert<'a> {
    /// `INSERT INTO t (a, b) VALUES`
    pub(super) head: &'a str,
    /// `(1, $2)`
    pub(super) row: &'a str,
    /// Empty, or `ON CONFLICT … DO NOTHING`.
    pub(super) tail: &'a str,
}

/// Reason why a statement stays unchanged.
pub(super) type Reason = &'static str;

/// Splits an insert; `None` if the statement is no insert.
///
/// # Errors
/// Returns the reason if it is an insert that cannot be merged with others.
pub(super) fn split_insert(sql: &str) -> Option<Result<SingleRowInsert<'_>, Reason>> {
    let mut all = split_statements(sql);
    let first = all.first()?;
    if !first.words.first()?.is("insert") {
        return None;
    }
    if all.len() > 1 {
        return Some(Err("several statements in one text"));
    }
    Some(split_words(sql, &all.remove(0).words))
}

fn split_words<'a>(sql: &'a str, words: &[Lexeme<'a>]) -> Result<SingleRowInsert<'a>, Reason> {
    let begins = |word: &Lexeme<'a>| word.text().as_ptr() as usize - sql.as_ptr() as usize;
    let ends = |word: &Lexeme<'a>| begins(word) + word.text().len();
    let is_open = |word: &Lexeme<'_>| word.is_symbol("(");
    let mut depth = 0_i32;
    let mut values = None;
    for (at, word) in words.iter().enumerate() {
        match word {
            Lexeme::Symbol("(") => depth += 1,
            Lexeme::Symbol(")") => depth -= 1,
            word if depth == 0 && word.is("values") => {
                values = Some(at);
                break;
            }
            word if depth == 0 && word.is("select") => break,
            _ => {}
        }
    }
    let values = values.ok_or("rows of a query")?;
    let open = values + 1;
    if !words.get(open).is_some_and(is_open) {
        return Err("default values");
    }
    let mut depth = 0_i32;
    let mut close = None;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word {
            Lexeme::Symbol("(") => depth += 1,
            Lexeme::Symbol(")") => depth -= 1,
            word if word.is("select") => return Err("a query within the row"),
            _ => {}
        }
        if depth == 0 {
            close = Some(at);
            break;
        }
    }
    let close = close.ok_or("not understood")?;
    let tail = &words[close + 1..];
    match tail.first() {
        None => {}
        Some(word) if word.is_symbol(",") => return Err("several rows already"),
        Some(word) if word.is("returning") => {
            return Err("RETURNING: the client waits for its row");
        }
        Some(word) if word.is("on") => {
            if tail.iter().any(|word| word.is("returning")) {
                return Err("RETURNING: the client waits for its row");
            }
            let does_nothing = tail
                .windows(2)
                .any(|two| two[0].is("do") && two[1].is("nothing"));
            // A row cannot be updated twice by one statement.
            if !does_nothing {
                return Err("ON CONFLICT DO UPDATE");
            }
            if tail.iter().any(|word| matches!(word, Lexeme::Value(_))) {
                return Err("not understood");
            }
        }
        Some(_) => return Err("not understood"),
    }
    let tail = match (tail.first(), tail.last()) {
        (Some(first), Some(last)) => &sql[begins(first)..ends(last)],
        _ => "",
    };
    Ok(SingleRowInsert {
        head: &sql[begins(&words[0])..ends(&words[values])],
        row: &sql[begins(&words[open])..ends(&words[close])],
        tail,
    })
}

/// Renumbers the parameters of a row: `$1` after 4 others is `$5`.
pub(super) fn renumber_parameters(row: &str, by: usize) -> String {
    let mut out = String::with_capacity(row.len() + 4);
    let mut from = 0;
    let all = split_statements(row);
    let words = all.iter().flat_map(|part| &part.words);
    for word in words {
        let Lexeme::Value(text) = word else { continue };
        let Some(number) = text
            .strip_prefix('$')
            .and_then(|one| one.parse::<usize>().ok())
        else {
            continue;
        };
        let at = text.as_ptr() as usize - row.as_ptr() as usize;
        out.push_str(&row[from..at]);
        out.push_str(&format!("${}", number + by));
        from = at + text.len();
    }
    out.push_str(&row[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_cut_out_or_a_reason_given() {
        let cut =
            |sql| split_insert(sql).map(|found| found.map(|one| (one.head, one.row, one.tail)));
        assert_eq!(
            cut("INSERT INTO t (a, \"values\") VALUES (1, f('x)', (2))) ;"),
            Some(Ok((
                "INSERT INTO t (a, \"values\") VALUES",
                "(1, f('x)', (2)))",
                ""
            )))
        );
        assert_eq!(
            cut("insert into t values ($1, $2) on conflict (id) do nothing"),
            Some(Ok((
                "insert into t values",
                "($1, $2)",
                "on conflict (id) do nothing"
            )))
        );
        assert_eq!(cut("select 1"), None);
        assert_eq!(cut(""), None);
        for (sql, why) in [
            ("insert into t values (1), (2)", "several rows already"),
            ("insert into t select 1", "rows of a query"),
            ("insert into t default values", "default values"),
            (
                "insert into t values (1) returning id",
                "RETURNING: the client waits for its row",
            ),
            (
                "insert into t values (1) on conflict (a) do update set b = 1",
                "ON CONFLICT DO UPDATE",
            ),
            (
                "insert into t values ((select max(a) from t))",
                "a query within the row",
            ),
            (
                "insert into t values (1); select 2",
                "several statements in one text",
            ),
        ] {
            assert_eq!(cut(sql), Some(Err(why)), "{sql}");
        }
    }

    #[test]
    fn parameters_are_counted_on_and_nothing_else() {
        assert_eq!(
            renumber_parameters("($1, '$2', $2::int, $10, \"$1\")", 10),
            "($11, '$2', $12::int, $20, \"$1\")"
        );
    }
}
