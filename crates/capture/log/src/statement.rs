//! Parses the little of a statement's text that is needed: its name, its number of parameters, and
//! whether it copies from its client.

/// The names of a step of the extended protocol, and its SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedStatement<'a> {
    /// Empty for the unnamed statement.
    pub statement: &'a str,
    /// Empty for the unnamed portal.
    pub portal: &'a str,
    pub sql: &'a str,
}

/// Maximum number of possible ends of a name that are tried, and of possible starts of a portal for
/// each.
const CANDIDATES_MAX: usize = 64;

/// Maximum length of a name, in bytes. A text may contain any number of `: ` and `/`.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Splits `NAME: SQL` or `NAME/PORTAL: SQL`. Names may contain `: ` and `/`; `known` returns the
/// SQL that the session has under a name. Without that, a name ends at the first `: ` that an SQL
/// command follows, or else at the first one; a portal starts after the first `/`.
pub(super) fn split_name<'a, 'k>(
    text: &'a str,
    has_portal: bool,
    known: impl Fn(&str) -> Option<&'k str>,
) -> Option<NamedStatement<'a>> {
    if let Some(sql) = text.strip_prefix("<unnamed>: ") {
        return Some(NamedStatement {
            statement: "",
            portal: "",
            sql,
        });
    }
    // The hot case: a plain name that is known.
    if let Some((name, sql)) = memchr::memchr(b':', text.as_bytes())
        .and_then(|colon| Some((&text[..colon], text[colon + 1..].strip_prefix(' ')?)))
        && known(name) == Some(sql)
    {
        return Some(NamedStatement {
            statement: name,
            portal: "",
            sql,
        });
    }
    let mut first = None;
    let mut plausible = None;
    for (colon, _) in text.match_indices(": ").take(CANDIDATES_MAX) {
        if colon > NAME_BYTES_MAX && first.is_some() {
            break;
        }
        let (name, sql) = (&text[..colon], &text[colon + 2..]);
        let parts = std::iter::once((name, "")).chain(
            name.match_indices('/')
                .filter(|_| has_portal && colon <= NAME_BYTES_MAX)
                .take(CANDIDATES_MAX)
                .map(|(slash, _)| (&name[..slash], &name[slash + 1..])),
        );
        for (statement, portal) in parts {
            let statement = if statement == "<unnamed>" {
                ""
            } else {
                statement
            };
            if known(statement) == Some(sql) {
                return Some(NamedStatement {
                    statement,
                    portal,
                    sql,
                });
            }
        }
        first = first.or(Some((name, sql)));
        if plausible.is_none() && starts_command(sql) {
            plausible = Some((name, sql));
        }
    }
    let (name, sql) = plausible.or(first)?;
    let (statement, portal) = match name.split_once('/') {
        Some((statement, portal)) if has_portal => (statement, portal),
        _ => (name, ""),
    };
    let statement = if statement == "<unnamed>" {
        ""
    } else {
        statement
    };
    Some(NamedStatement {
        statement,
        portal,
        sql,
    })
}

const COMMANDS: &[&str] = &[
    "select",
    "insert",
    "update",
    "delete",
    "with",
    "merge",
    "values",
    "table",
    "begin",
    "commit",
    "rollback",
    "start",
    "end",
    "abort",
    "savepoint",
    "release",
    "set",
    "show",
    "reset",
    "copy",
    "call",
    "do",
    "execute",
    "prepare",
    "deallocate",
    "declare",
    "fetch",
    "move",
    "close",
    "discard",
    "explain",
    "analyze",
    "vacuum",
    "create",
    "alter",
    "drop",
    "truncate",
    "grant",
    "revoke",
    "lock",
    "listen",
    "notify",
    "unlisten",
    "refresh",
    "reindex",
    "cluster",
    "repack",
    "comment",
    "checkpoint",
    "import",
    "reassign",
    "security",
    "load",
    "wait",
];

fn starts_command(sql: &str) -> bool {
    let sql = sql.trim_start();
    if sql.is_empty()
        || sql.starts_with(['(', ';'])
        || sql.starts_with("--")
        || sql.starts_with("/*")
    {
        return true;
    }
    let word = sql
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or("");
    COMMANDS
        .iter()
        .any(|command| command.eq_ignore_ascii_case(word))
}

/// Returns the highest `$n` outside of quotes and comments, which is the number of parameters.
pub(super) fn count_placeholders(sql: &str) -> usize {
    let bytes = sql.as_bytes();
    if memchr::memchr(b'$', bytes).is_none() {
        return 0;
    }
    let (mut at, mut most) = (0, 0);
    while at < bytes.len() {
        let after_name = at > 0 && is_name(bytes[at - 1]);
        match bytes[at] {
            quote @ (b'\'' | b'"') => {
                // `E'…'` has backslash escapes.
                let escapes = quote == b'\''
                    && at > 0
                    && matches!(bytes[at - 1], b'e' | b'E')
                    && !(at > 1 && is_name(bytes[at - 2]));
                at = quote_end(bytes, at, quote, escapes);
            }
            b'-' if bytes[at..].starts_with(b"--") => {
                at = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
            }
            b'/' if bytes[at..].starts_with(b"/*") => at = comment_end(bytes, at),
            b'$' if !after_name => {
                let digits = bytes[at + 1..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                if digits > 0 {
                    most = most.max(sql[at + 1..at + 1 + digits].parse().unwrap_or(0));
                    at += 1 + digits;
                } else {
                    at = dollar_end(sql, at);
                }
            }
            _ => at += 1,
        }
    }
    most
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn quote_end(bytes: &[u8], from: usize, quote: u8, escapes: bool) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 2,
            // A doubled quote closes and reopens.
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn comment_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the end of `$tag$ … $tag$`, or the position after a single dollar.
fn dollar_end(sql: &str, from: usize) -> usize {
    let tag_length = sql.as_bytes()[from + 1..]
        .iter()
        .take_while(|byte| is_name(**byte) && **byte != b'$')
        .count();
    let open_end = from + 1 + tag_length;
    if sql.as_bytes().get(open_end) != Some(&b'$') {
        return from + 1;
    }
    let tag = &sql[from..=open_end];
    match sql[open_end + 1..].find(tag) {
        Some(close) => open_end + 1 + close + tag.len(),
        None => sql.len(),
    }
}

/// Returns whether it is `COPY … FROM STDIN`, alone or among other statements.
#[inline]
pub(super) fn copies_from_client(sql: &str) -> bool {
    (may_copy(sql) || !is_alone(sql)) && any_copies_from_client(sql)
}

/// Prefilter: a statement that begins with a letter other than C is no COPY.
#[inline]
pub(super) fn may_copy(sql: &str) -> bool {
    sql.as_bytes()
        .first()
        .is_some_and(|first| matches!(first, b'c' | b'C') || !first.is_ascii_alphabetic())
}

/// Returns whether it has no semicolon except at its end.
#[inline]
fn is_alone(sql: &str) -> bool {
    memchr::memchr(b';', sql.as_bytes()).is_none_or(|at| at + 1 == sql.len())
}

fn any_copies_from_client(sql: &str) -> bool {
    if !contains_word(sql, "stdin") || !contains_word(sql, "copy") {
        return false;
    }
    let mut words = sql
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty());
    words.any(|word| word.eq_ignore_ascii_case("copy"))
        && words.clone().zip(words.skip(1)).any(|(from, stdin)| {
            from.eq_ignore_ascii_case("from") && stdin.eq_ignore_ascii_case("stdin")
        })
}

fn contains_word(sql: &str, word: &str) -> bool {
    let first = word.as_bytes()[0];
    memchr::memchr2_iter(first, first.to_ascii_uppercase(), sql.as_bytes()).any(|at| {
        sql.as_bytes()
            .get(at..at + word.len())
            .is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_06_names_and_portals_are_told_from_the_sql() {
        let known = |name: &str| match name {
            "odd: name/with blank" => Some("select ': '"),
            "S_9" => Some("nonsense: x"),
            _ => None,
        };
        for (text, statement, portal, sql) in [
            ("<unnamed>: select 1", "", "", "select 1"),
            ("S_1: select 'a: b'", "S_1", "", "select 'a: b'"),
            ("S_2/C_3: select 1", "S_2", "C_3", "select 1"),
            ("<unnamed>/C_3: select 1", "", "C_3", "select 1"),
            (
                "odd: name/with blank: select ': '",
                "odd: name/with blank",
                "",
                "select ': '",
            ),
            (
                "odd: name/with blank/p: 1: select ': '",
                "odd: name/with blank",
                "p: 1",
                "select ': '",
            ),
            ("never: seen: select 1", "never: seen", "", "select 1"),
            ("S_9: nonsense: x", "S_9", "", "nonsense: x"),
            ("q: what: ever", "q", "", "what: ever"),
        ] {
            assert_eq!(
                split_name(text, true, known),
                Some(NamedStatement {
                    statement,
                    portal,
                    sql
                }),
                "{text}"
            );
        }
        assert_eq!(
            split_name("a/b: select 1", false, known).unwrap().statement,
            "a/b"
        );
        assert_eq!(split_name("nothing", true, known), None);
    }

    #[test]
    fn placeholders_are_counted_outside_of_quotes() {
        for (sql, count) in [
            ("select $1, $12", 12),
            ("select '$1', \"$2\", 'it''s $3', E'\\'$4'", 0),
            ("select $$ $1 $$, $q$ $2 $q$, $3", 3),
            ("select a$1 from t -- $2\n/* $3 /* $4 */ */", 0),
            ("select 1", 0),
            ("select '$1", 0),
            ("select $", 0),
            ("select 'ü$1' = $1", 1),
        ] {
            assert_eq!(count_placeholders(sql), count, "{sql}");
        }
    }

    #[test]
    fn fact_24_copy_from_the_client_is_told() {
        for (sql, copies) in [
            ("COPY t (a, b) FROM STDIN WITH (FORMAT csv)", true),
            ("begin; copy t from stdin", true),
            ("copy t to stdout", false),
            ("copy t from '/var/stdin'", false),
            ("select 'copy', stdin from t", false),
        ] {
            assert_eq!(copies_from_client(sql), copies, "{sql}");
        }
    }
}
