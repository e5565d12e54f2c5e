//! What an index's definition says: method, keys, predicate.

use run::IndexFact;

/// `CREATE INDEX … ON … USING btree (a, b DESC) INCLUDE (c) WHERE (d IS NULL)`, as the server words it
/// (`pg_get_indexdef`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IndexShape {
    /// `btree`, `gin` …
    pub(super) method: String,
    /// Its keys in order: columns, or expressions, with their operator class and order.
    pub(super) keys: Vec<String>,
    /// The columns that it has beside.
    pub(super) include: Vec<String>,
    /// Of a partial index.
    pub(super) predicate: Option<String>,
}

impl IndexShape {
    pub(super) fn of(index: &IndexFact) -> Self {
        let definition = index.definition.as_str();
        let rest = definition
            .split_once(" USING ")
            .map_or("", |(_, rest)| rest);
        let (method, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (keys, mut rest) = enclosed(rest);
        let mut shape = IndexShape {
            method: method.to_owned(),
            keys: listed(keys),
            ..IndexShape::default()
        };
        if let Some(include) = rest.trim_start().strip_prefix("INCLUDE ") {
            let (columns, behind) = enclosed(include);
            shape.include = listed(columns);
            rest = behind;
        }
        if let Some((_, predicate)) = rest.split_once("WHERE ") {
            shape.predicate = Some(predicate.to_owned());
        }
        shape
    }

    /// The column of each key, without its order; of an expression, its text.
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

    /// Whether a change of this column has to be written into it: it is a key, beside, or in the text
    /// of an expression or of the predicate.
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

/// What stands in the parentheses that the text begins with, and what behind them.
fn enclosed(text: &str) -> (&str, &str) {
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

/// Cut at the commas that are in no parentheses.
fn listed(text: &str) -> Vec<String> {
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
    fn a_definition_is_read_as_the_server_words_it() {
        let index = IndexFact {
            definition:
                "CREATE UNIQUE INDEX i ON public.t USING btree (a, lower((b)::text), \"C d\" DESC) \
                         INCLUDE (e) WHERE ((f IS NULL) AND (g ~ 'x, (y'::text))"
                    .to_owned(),
            ..IndexFact::default()
        };
        let shape = IndexShape::of(&index);
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
