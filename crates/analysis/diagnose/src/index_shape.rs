//! Parses an index definition: method, keys, predicate.

use run::IndexFact;

/// Parsed form of `CREATE INDEX … ON … USING btree (a, b DESC) INCLUDE (c) WHERE (d IS NULL)`, as
/// the server writes it (`pg_get_indexdef`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IndexShape {
    /// Access method: `btree`, `gin` …
    pub(super) method: String,
    /// Keys in order: columns or expressions, with their operator class and order.
    pub(super) keys: Vec<String>,
    /// Included columns.
    pub(super) include: Vec<String>,
    /// Predicate of a partial index.
    pub(super) predicate: Option<String>,
}

impl IndexShape {
    pub(super) fn parse(index: &IndexFact) -> Self {
        let definition = index.definition.as_str();
        let rest = definition
            .split_once(" USING ")
            .map_or("", |(_, rest)| rest);
        let (method, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (keys, mut rest) = split_parenthesised(rest);
        let mut shape = IndexShape {
            method: method.to_owned(),
            keys: split_at_commas(keys),
            ..IndexShape::default()
        };
        if let Some(include) = rest.trim_start().strip_prefix("INCLUDE ") {
            let (columns, remainder) = split_parenthesised(include);
            shape.include = split_at_commas(columns);
            rest = remainder;
        }
        if let Some((_, predicate)) = rest.split_once("WHERE ") {
            shape.predicate = Some(predicate.to_owned());
        }
        shape
    }

    /// Returns the column of each key without its order; for an expression, its text.
    pub(super) fn columns(&self) -> Vec<&str> {
        let column = |key: &'_ String| -> usize {
            let bare = key.strip_prefix('"').and_then(|rest| rest.find('"'));
            match bare {
                Some(end) => end + 2,
                None if key.starts_with('(') || key.contains('(') => key.len(),
                None => key.find(' ').unwrap_or(key.len()),
            }
        };
        let all = self.keys.iter();
        all.map(|key| key[..column(key)].trim_matches('"'))
            .collect()
    }

    /// Whether a change of this column must be written to the index: it is a key, included, or in
    /// the text of an expression or of the predicate.
    pub(super) fn has_column(&self, column: &str) -> bool {
        let is_word = |text: &str| {
            let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            words.any(|word| word == column)
        };
        self.keys
            .iter()
            .chain(&self.include)
            .chain(&self.predicate)
            .any(|text| is_word(text))
    }
}

/// Splits a text that begins with parentheses into their content and the rest.
fn split_parenthesised(text: &str) -> (&str, &str) {
    let Some(text) = text.trim_start().strip_prefix('(') else {
        return ("", text);
    };
    let mut depth = 1;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return (&text[..at], &text[at + 1..]);
                }
            }
            (None, _) => {}
        }
    }
    (text, "")
}

/// Splits a text at the commas outside parentheses.
fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut quote = None;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(text[from..at].trim().to_owned());
                from = at + 1;
            }
            (None, _) => {}
        }
    }
    let last = text[from..].trim();
    if !last.is_empty() {
        parts.push(last.to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_definition_is_parsed_as_the_server_writes_it() {
        let index = IndexFact {
            definition:
                "CREATE UNIQUE INDEX i ON public.t USING btree (a, lower((b)::text), \"C d\" DESC) \
                         INCLUDE (e) WHERE ((f IS NULL) AND (g ~ 'x, (y'::text))"
                    .to_owned(),
            ..IndexFact::default()
        };
        let shape = IndexShape::parse(&index);
        assert_eq!(shape.method, "btree");
        assert_eq!(shape.columns(), ["a", "lower((b)::text)", "C d"]);
        assert_eq!(shape.include, ["e"]);
        assert!(
            shape
                .predicate
                .as_deref()
                .unwrap()
                .starts_with("((f IS NULL)")
        );
        for column in ["a", "b", "e", "f", "g"] {
            assert!(shape.has_column(column), "{column}");
        }
        assert!(!shape.has_column("lo"));
    }
}
