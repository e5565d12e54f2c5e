//! Finds the tables and columns in a statement's normalised SQL, without a grammar.
//!
//! Normalised SQL has keywords and plain names in lower case, single blanks, and `$n` for values.
//! That is enough to find a table after `insert into` and the columns after `set`. Nothing is
//! guessed.

/// Maximum length of a statement in a title, in characters.
const TITLE_CHARACTERS_MAX: usize = 60;

/// Shortens SQL for a title.
pub(super) fn shorten(sql: &str) -> String {
    match sql.char_indices().nth(TITLE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &sql[..end]),
        None => sql.to_owned(),
    }
}

/// Splits normalised SQL into words and symbols; a dotted name is one word.
pub(super) fn words(sql: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '"');
    let mut words = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = if is_name(first) {
            let mut quoted = false;
            rest.char_indices()
                .find(|(_, c)| {
                    quoted ^= *c == '"';
                    !quoted && !is_name(*c)
                })
                .map_or(rest.len(), |(at, _)| at)
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            words.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    words
}

/// Returns a name as the catalogue has it: without quotes, with its schema if it has one.
pub(super) fn parse_name(word: &str) -> (Option<String>, String) {
    let bare = |part: &str| part.trim_matches('"').to_owned();
    match word.rsplit_once('.') {
        Some((schema, table)) => {
            let schema = schema.rsplit('.').next().unwrap_or(schema);
            (Some(bare(schema)), bare(table))
        }
        None => (None, bare(word)),
    }
}

/// Returns a name with its schema, in SQL.
pub fn qualified_name(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// Quotes an identifier for SQL if necessary.
pub(super) fn quote_identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Returns the columns of a table that the list of a `SELECT` from this table alone reads, also in expressions and aggregates. `None` if it
/// reads whole rows.
pub(super) fn selected_columns(sql: &str, columns: &[String]) -> Option<Vec<String>> {
    let words = words(sql);
    let is_simple = words.first() == Some(&"select")
        && !words
            .iter()
            .any(|word| matches!(*word, "join" | "for" | "union" | "with"))
        && words.iter().filter(|word| **word == "select").count() == 1
        && tables(sql).len() == 1;
    let from = words.iter().position(|word| *word == "from")?;
    let ends = |word: &&&str| !matches!(**word, "where" | "group" | "order" | "limit");
    let mut from_list = words[from..].iter().take_while(ends);
    if !is_simple || from_list.any(|word| *word == ",") {
        return None;
    }
    let list = &words[1..from];
    // `count(*)` reads no column.
    let is_star = |place: usize| {
        let counts = place > 1 && list[place - 2] == "count" && list[place - 1] == "(";
        list[place] == "*"
            && !counts
            && list
                .get(place + 1)
                .is_none_or(|next| matches!(*next, "," | ")"))
    };
    if (0..list.len()).any(is_star) || list.iter().any(|word| word.ends_with('.')) {
        return None;
    }
    let names = list.iter().map(|word| parse_name(word).1);
    Some(names.filter(|name| columns.contains(name)).collect())
}

/// Returns the first table that the statement writes.
pub(super) fn written_table(sql: &str) -> Option<(Option<String>, String)> {
    let words = words(sql);
    let at = |place: usize| words.get(place).copied();
    for place in 0..words.len() {
        let target = match (words[place], at(place + 1)) {
            ("insert", Some("into")) | ("delete", Some("from")) | ("merge", Some("into")) => {
                place + 2
            }
            // Not `for update`, `do update` or `for no key update`.
            ("update", _)
                if place == 0 || !matches!(words[place - 1], "for" | "do" | "key" | "then") =>
            {
                place + 1
            }
            _ => continue,
        };
        let target = if at(target) == Some("only") {
            target + 1
        } else {
            target
        };
        return at(target)
            .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '"')))
            .map(parse_name);
    }
    None
}

/// Returns the tables after `from`, `join`, `into`, `update`, and after commas of a `from`.
pub(super) fn tables(sql: &str) -> Vec<(Option<String>, String)> {
    let words = words(sql);
    let mut found: Vec<(Option<String>, String)> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let is_before = matches!(*word, "from" | "join" | "into")
            || (*word == "update"
                && (place == 0 || !matches!(words[place - 1], "for" | "do" | "key" | "then")));
        if !is_before {
            continue;
        }
        let next = words.get(place + 1).copied();
        let next = if next == Some("only") {
            words.get(place + 2).copied()
        } else {
            next
        };
        let Some(next) = next
            .filter(|next| next.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '"')))
        else {
            continue;
        };
        let one = parse_name(next);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Returns the columns that an `UPDATE` sets.
pub(super) fn set_columns(sql: &str) -> Vec<String> {
    let words = words(sql);
    let Some(set) = words.iter().position(|word| *word == "set") else {
        return Vec::new();
    };
    let mut columns = Vec::new();
    let mut depth = 0_i32;
    let mut at_column = true;
    for (place, word) in words.iter().enumerate().skip(set + 1) {
        match *word {
            "(" if at_column => {}
            "(" => depth += 1,
            ")" if at_column => {}
            ")" => {
                depth -= 1;
                if depth < 0 {
                    break;
                }
            }
            "," if depth == 0 => at_column = true,
            "where" | "from" | "returning" if depth == 0 => break,
            word if at_column => {
                columns.push(parse_name(word).1);
                // `set (a, b) = (…)` has several names before the equals sign.
                at_column = words.get(place + 1).copied() == Some(",");
            }
            _ => {}
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_columns_are_found_in_each_clause() {
        let to =
            |schema: Option<&str>, table: &str| Some((schema.map(str::to_owned), table.to_owned()));
        assert_eq!(
            written_table("insert into shop.orders (a, b) values ($1, ...)"),
            to(Some("shop"), "orders")
        );
        assert_eq!(
            written_table("update only \"Links\" set a = $1"),
            to(None, "Links")
        );
        assert_eq!(
            written_table("select * from t for update skip locked"),
            None
        );
        assert_eq!(
            written_table(
                "with x as (select $1) insert into t select * from x on conflict do update set a = $2"
            ),
            to(None, "t")
        );
        assert_eq!(
            tables(
                "select a from b join c.d on b.x = d.y where b.x in (select z from e for update)"
            ),
            [
                (None, "b".to_owned()),
                (Some("c".to_owned()), "d".to_owned()),
                (None, "e".to_owned())
            ]
        );
    }

    #[test]
    fn columns_of_select_lists_are_found_unless_whole_rows_are_read() {
        let columns = ["a", "b", "c"].map(str::to_owned);
        let list = |sql: &str| selected_columns(sql, &columns);
        let found = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(
            list("select a, t.b from t where c = $1"),
            found(&["a", "b"])
        );
        assert_eq!(
            list("select sum(a * b), count(*) from t where c = $1"),
            found(&["a", "b"])
        );
        assert_eq!(list("select count(*) from t"), found(&[]));
        for other in [
            "select * from t",
            "select t.* from t",
            "select a, * from t",
            "select a from t join u on t.a = u.a",
            "select a from t, u",
            "select a from t for update skip locked",
            "select a, (select max(b) from t) from t",
            "update t set a = $1",
        ] {
            assert_eq!(list(other), None, "{other}");
        }
    }

    #[test]
    fn updated_columns_are_found() {
        assert_eq!(
            set_columns(
                "update t set a = b + $1, queued_at = coalesce(x, $2), c = $3 where d = $4"
            ),
            ["a", "queued_at", "c"]
        );
        assert_eq!(
            set_columns("update t set (a, b) = ($1, ...) where c = $2"),
            ["a", "b"]
        );
        assert_eq!(set_columns("select a from t"), Vec::<String>::new());
    }
}
