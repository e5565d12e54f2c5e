//! Settings that change plans, and values as `ALTER ... SET` expects them.

use crate::quoting::quote_literal;

/// SQL condition on `pg_settings`: settings that change plans, or how values in statements and statistics are read. Those of
/// query tuning are found by the categories of four of them, since names of categories depend on `lc_messages`.
pub(crate) const EXPORTED_SETTINGS: &str = "(category IN (SELECT q.category FROM pg_catalog.pg_settings q \
     WHERE q.name IN ('enable_seqscan', 'seq_page_cost', 'geqo', 'default_statistics_target')) OR name IN ('work_mem', 'hash_mem_multiplier', 'temp_buffers', \
     'effective_io_concurrency', 'max_parallel_workers', 'max_parallel_workers_per_gather', 'parallel_leader_participation', \
     'DateStyle', 'IntervalStyle', 'TimeZone', 'bytea_output', 'search_path', 'default_text_search_config', 'array_nulls', \
     'xmloption', 'standard_conforming_strings', 'backslash_quote', 'transform_null_equals', 'row_security', \
     'lo_compat_privileges', 'default_with_oids', 'operator_precedence_warning', 'createrole_self_grant'))";

/// Kind of the elements of a list setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elements {
    /// Names of objects, which are in lower case unless they are quoted. The list may be empty.
    Identifiers,
    /// Names of files.
    Files,
}

/// Settings that read each literal as one quoted element, with the first version that does. Sources: `GUC_LIST_QUOTE` in
/// `guc_tables.c`, and `variable_is_guc_list_quote` of `pg_dump`.
const QUOTED_LISTS: [(&str, Elements, u32); 7] = [
    ("local_preload_libraries", Elements::Files, 0),
    ("oauth_validator_libraries", Elements::Files, 18),
    ("search_path", Elements::Identifiers, 0),
    ("session_preload_libraries", Elements::Files, 0),
    ("shared_preload_libraries", Elements::Files, 0),
    ("temp_tablespaces", Elements::Identifiers, 0),
    ("unix_socket_directories", Elements::Files, 14),
];

/// Returns the right side of a statement that gives the setting this value on a server of the major version. `None` if no
/// literal has the value.
pub fn assigned_value(name: &str, value: &str, major: u32) -> Option<String> {
    let known = QUOTED_LISTS.iter();
    let list = known
        .filter(|(_, _, first)| major >= *first)
        .find(|(list, _, _)| list.eq_ignore_ascii_case(name));
    let Some((_, kind, _)) = list else {
        return Some(quote_literal(value));
    };
    let elements = split_list(value, *kind)?;
    match (elements.is_empty(), kind) {
        (true, Elements::Identifiers) => Some("''".to_owned()),
        // The server would store a file without a name, and not start.
        (_, Elements::Files) if elements.iter().all(String::is_empty) => None,
        _ => {
            let literals: Vec<String> = elements.iter().map(|one| quote_literal(one)).collect();
            Some(literals.join(", "))
        }
    }
}

/// Splits a list as the server does. `None` if the text is no list. Source: `SplitIdentifierString` and
/// `SplitDirectoriesString` in `varlena.c`.
fn split_list(text: &str, kind: Elements) -> Option<Vec<String>> {
    let mut elements = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(elements);
    }
    loop {
        let element;
        (element, rest) = match rest.strip_prefix('"') {
            Some(quoted) => split_quoted(quoted)?,
            None => {
                let (plain, rest) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                let plain = plain.trim_end();
                match kind {
                    _ if plain.is_empty() => return None,
                    Elements::Identifiers if plain.contains(char::is_whitespace) => return None,
                    Elements::Identifiers => (plain.to_ascii_lowercase(), rest),
                    Elements::Files => (plain.to_owned(), rest),
                }
            }
        };
        elements.push(element);
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(elements);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// Returns an element up to its closing quote, and the text after it.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut element = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        element.push_str(part);
        rest = match after.strip_prefix('"') {
            Some(after) => {
                element.push('"');
                after
            }
            None => return Some((element, after)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigned_value_of_a_quoted_list_has_one_literal_for_each_element() {
        for (name, value, expected) in [
            (
                "search_path",
                "\"$user\", App,\"O'x, y\"",
                "'$user', 'app', 'O''x, y'",
            ),
            ("search_path", "", "''"),
            ("search_path", "\"\"", "''"),
            (
                "shared_preload_libraries",
                "pg_stat_statements,Auto x",
                "'pg_stat_statements', 'Auto x'",
            ),
            ("temp_tablespaces", "\"a\"\"b\"", "'a\"b'"),
            (
                "search_path",
                "x;copy/**/(select/**/1)to/**/program/**/$$touch$$",
                "'x;copy/**/(select/**/1)to/**/program/**/$$touch$$'",
            ),
            ("DateStyle", "ISO, DMY", "'ISO, DMY'"),
        ] {
            let found = assigned_value(name, value, 18);
            assert_eq!(found.as_deref(), Some(expected), "{name} {value}");
        }
    }

    #[test]
    fn assigned_value_that_the_server_would_refuse_or_read_otherwise_is_none() {
        for (name, value) in [
            ("shared_preload_libraries", ""),
            ("shared_preload_libraries", "\"\""),
            ("search_path", "a b"),
            ("search_path", "a,"),
            ("search_path", "\"a"),
            // `SET ... FROM CURRENT` stores any text.
            (
                "search_path",
                "x;copy/**/(select/**/1)to/**/program/**/$$touch${IFS}/tmp/owned$$ x",
            ),
        ] {
            assert_eq!(assigned_value(name, value, 18), None, "{name} {value}");
        }
    }

    #[test]
    fn assigned_value_of_socket_directories_is_one_literal_before_version_14() {
        let value = |major| assigned_value("unix_socket_directories", "/a, /b", major);
        assert_eq!(value(13).as_deref(), Some("'/a, /b'"));
        assert_eq!(value(14).as_deref(), Some("'/a', '/b'"));
    }
}
