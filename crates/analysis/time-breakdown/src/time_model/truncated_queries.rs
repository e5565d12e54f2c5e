//! Matches truncated queries with their statements: `pg_stat_activity` truncates texts at
//! `track_activity_query_size` bytes.

use std::collections::{BTreeMap, HashMap};

use run::SampledStatement;
use sql::Fingerprint;
use workload::StatementText;

/// Characters ignored at the end of a truncated text: it may end within a word, which normalises
/// differently.
const END_LEFT_OUT_CHARS: usize = 16;
/// Minimum length of a usable beginning.
const BEGINNING_MIN_CHARS: usize = 32;

/// Returns for each truncated text the one statement of the run that begins with it. A text that
/// matches several statements is left out.
pub fn match_truncated_queries<'s>(
    seen: impl IntoIterator<Item = &'s SampledStatement>,
    texts: &BTreeMap<Fingerprint, StatementText>,
) -> HashMap<Fingerprint, Fingerprint> {
    let mut whole = HashMap::new();
    for one in seen.into_iter().filter(|one| one.is_truncated) {
        if texts.contains_key(&one.fingerprint) {
            continue;
        }
        let length = one.sql.chars().count().saturating_sub(END_LEFT_OUT_CHARS);
        if length < BEGINNING_MIN_CHARS {
            continue;
        }
        let end = one.sql.char_indices().nth(length).map(|(at, _)| at);
        let beginning = &one.sql[..end.unwrap_or(one.sql.len())];
        let mut fitting = texts
            .values()
            .filter(|text| text.sql.starts_with(beginning));
        if let (Some(text), None) = (fitting.next(), fitting.next()) {
            whole.insert(one.fingerprint, text.fingerprint);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::StatementClass;

    #[test]
    fn truncated_query_matches_a_unique_statement() {
        let long = |end: &str| format!("SELECT {} FROM t WHERE {end}", "a, ".repeat(40));
        let texts: BTreeMap<Fingerprint, StatementText> =
            [(1, long("x = $1")), (2, "SELECT 1".into())]
                .into_iter()
                .map(|(id, sql)| {
                    let fingerprint = Fingerprint(id);
                    let text = StatementText {
                        fingerprint,
                        class: StatementClass::Select,
                        sql,
                    };
                    (fingerprint, text)
                })
                .collect();
        let seen = |id, sql: &str, cut| SampledStatement {
            fingerprint: Fingerprint(id),
            class: StatementClass::Select,
            sql: sql.to_owned(),
            is_truncated: cut,
        };
        let beginning = &long("x = $1")[..100];
        let all = [
            seen(7, beginning, true),
            seen(8, beginning, false),
            seen(9, "SELECT 1", true),
        ];
        let whole = match_truncated_queries(&all, &texts);
        assert_eq!(whole, HashMap::from([(Fingerprint(7), Fingerprint(1))]));
        let mut two = texts.clone();
        two.insert(
            Fingerprint(3),
            StatementText {
                fingerprint: Fingerprint(3),
                class: StatementClass::Select,
                sql: long("y = $1"),
            },
        );
        assert_eq!(match_truncated_queries(&all, &two), HashMap::new());
    }
}
