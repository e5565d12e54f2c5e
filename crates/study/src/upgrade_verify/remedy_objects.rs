//! Objects that remedies create or fill, and the questions whether a server has them.

use crate::environment::quote_literal;

/// First version in which `ANALYZE` creates the row of the data of extended statistics. Before, `CREATE STATISTICS` creates it without
/// values. Source: release notes of version 15.
const ROW_BY_ANALYZE: u16 = 15;
/// First version in which extended statistics have expressions.
const EXPRESSIONS: u16 = 14;
/// First version whose `pg_upgrade` keeps the statistics of columns. Source: release notes of version 18.
const KEPT: u16 = 18;

/// Reason why an `ANALYZE` is neither known to be in place nor missing.
const KEPT_REASON: &str = "The table has statistics, and no time of an ANALYZE on this server: pg_upgrade kept the statistics, or the \
     counters were reset. Execute the ANALYZE again if in doubt.";
/// Reason why it is not known whether extended statistics have data.
const EMPTY_REASON: &str = "Extended statistics have no values: ANALYZE was not executed since their creation, or found none.";

/// Object that a statement creates or fills.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RemedyObject<'s> {
    /// Statistics of a table.
    Statistics { table: &'s str },
    /// Index that is built again.
    RebuiltIndex { index: &'s str },
    /// Extended statistics, by their name with the schema.
    ExtendedStatistics { name: &'s str },
    /// Index, by its name and its table. Versions print definitions differently.
    Index { name: &'s str, table: &'s str },
}

/// Questions whether an object is in place, with the sentences on the answers.
pub(super) struct ObjectQuestions {
    /// Query that returns `t`, `f`, or the reason why neither is known.
    pub(super) question: String,
    /// Query for a role without access to the data of statistics, with the sentence on `t`. It finds only what is there.
    pub(super) substitute: Option<(String, &'static str)>,
    /// Sentence on `t`.
    pub(super) present: &'static str,
    /// Sentence on `f`.
    pub(super) missing: &'static str,
}

impl<'s> RemedyObject<'s> {
    /// Finds the object in a statement of this program, or in a definition that a server printed. `None` if there is none.
    pub(super) fn of_statement(statement: &'s str) -> Option<Self> {
        if let Some(table) = statement.strip_prefix("ANALYZE ") {
            return Some(RemedyObject::Statistics { table });
        }
        if let Some(index) = statement.strip_prefix("REINDEX INDEX ") {
            return Some(RemedyObject::RebuiltIndex { index });
        }
        if let Some(rest) = statement.strip_prefix("CREATE STATISTICS ") {
            let (name, _) = split_name(rest);
            return Some(RemedyObject::ExtendedStatistics { name });
        }
        let rest = statement.strip_prefix("CREATE ")?;
        let rest = rest.strip_prefix("UNIQUE ").unwrap_or(rest);
        let (name, rest) = split_name(rest.strip_prefix("INDEX ")?);
        let rest = rest.strip_prefix(" ON ")?;
        let (table, _) = split_name(rest.strip_prefix("ONLY ").unwrap_or(rest));
        Some(RemedyObject::Index { name, table })
    }

    /// Returns the questions to a server of this major version.
    pub(super) fn questions(&self, major: u16) -> ObjectQuestions {
        match self {
            RemedyObject::Statistics { table } => statistics_questions(table, major),
            RemedyObject::ExtendedStatistics { name } => extended_questions(name, major),
            RemedyObject::RebuiltIndex { index } => ObjectQuestions {
                question: format!(
                    "SELECT EXISTS (SELECT {} AND EXISTS (SELECT FROM pg_catalog.pg_index WHERE indexrelid = c.oid AND indisvalid))",
                    relation_named(index)
                ),
                substitute: None,
                present: "The index is valid. When it was built is not recorded.",
                missing: "The index is missing or invalid.",
            },
            RemedyObject::Index { name, table } => ObjectQuestions {
                question: format!(
                    "SELECT EXISTS (SELECT {} AND EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x \
                     ON x.oid = i.indexrelid WHERE i.indrelid = c.oid AND i.indisvalid AND pg_catalog.quote_ident(x.relname) = {}))",
                    relation_named(table),
                    quote_literal(name)
                ),
                substitute: None,
                present: "An index of this name exists on the table and is valid.",
                missing: "The index is missing or invalid.",
            },
        }
    }
}

/// Returns the questions on the effect of `ANALYZE`. Statistics that `pg_upgrade` kept are none of it.
fn statistics_questions(table: &str, major: u16) -> ObjectQuestions {
    let relation = relation_named(table);
    // The counters begin empty after an upgrade. The functions know foreign and partitioned tables, too.
    let is_analyzed = "coalesce(pg_catalog.pg_stat_get_last_analyze_time(c.oid), \
         pg_catalog.pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL";
    let [lacks, may_lack] = data_conditions(major).map(|condition| {
        format!(
            "EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s LEFT JOIN pg_catalog.pg_statistic_ext_data d \
             ON d.stxoid = s.oid WHERE s.stxrelid = c.oid AND {condition})"
        )
    });
    let unknown_age = match major >= KEPT {
        true => format!(
            "WHEN NOT ({is_analyzed}) THEN {}",
            quote_literal(KEPT_REASON)
        ),
        false => String::new(),
    };
    ObjectQuestions {
        question: format!(
            "SELECT coalesce((SELECT CASE WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_statistic WHERE starelid = c.oid) OR {lacks} \
             THEN 'f' WHEN {may_lack} THEN {} {unknown_age} ELSE 't' END {relation}), 'f')",
            quote_literal(EMPTY_REASON)
        ),
        substitute: Some((
            format!(
                "SELECT EXISTS (SELECT {relation} AND {is_analyzed} AND NOT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s \
                 JOIN pg_catalog.pg_namespace x ON x.oid = s.stxnamespace WHERE s.stxrelid = c.oid AND NOT EXISTS ({} \
                 AND v.statistics_schemaname = x.nspname AND v.statistics_name = s.stxname)))",
                visible_data(major)
            ),
            "The table was analyzed after the upgrade.",
        )),
        present: "The table and its extended statistics have data.",
        missing: "The table or an extended statistics object of it has no statistics.",
    }
}

/// Returns the questions on extended statistics with data.
fn extended_questions(name: &str, major: u16) -> ObjectQuestions {
    let [lacks, may_lack] = data_conditions(major);
    let name = quote_literal(name);
    let named = |schema: &str, name_column: &str| {
        format!(
            "pg_catalog.quote_ident({schema}) || '.' || pg_catalog.quote_ident({name_column}) = {name}"
        )
    };
    ObjectQuestions {
        question: format!(
            "SELECT coalesce((SELECT CASE WHEN {lacks} THEN 'f' WHEN {may_lack} THEN {} ELSE 't' END \
             FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace \
             LEFT JOIN pg_catalog.pg_statistic_ext_data d ON d.stxoid = s.oid WHERE {} LIMIT 1), 'f')",
            quote_literal(EMPTY_REASON),
            named("n.nspname", "s.stxname")
        ),
        substitute: Some((
            format!(
                "SELECT EXISTS ({} AND {})",
                visible_data(major),
                named("v.statistics_schemaname", "v.statistics_name")
            ),
            "The extended statistics exist and have data.",
        )),
        present: "The extended statistics exist and have data.",
        missing: "The extended statistics are missing or have no data.",
    }
}

/// Returns the conditions on which the extended statistics `s` with the data `d` lack data for certain, and on which they may lack
/// them. `ANALYZE` always counts distinct values, and finds other values in some data only.
fn data_conditions(major: u16) -> [String; 2] {
    if major >= ROW_BY_ANALYZE {
        return ["d.stxoid IS NULL".to_owned(), "false".to_owned()];
    }
    let expressions = match major >= EXPRESSIONS {
        true => " AND d.stxdexpr IS NULL",
        false => "",
    };
    [
        "d.stxdndistinct IS NULL AND 'd' = ANY (s.stxkind)".to_owned(),
        format!(
            "d.stxdndistinct IS NULL AND d.stxddependencies IS NULL AND d.stxdmcv IS NULL{expressions}"
        ),
    ]
}

/// Returns the query for the extended statistics whose data the role sees, such as the owner of the table. Conditions on `v` follow.
fn visible_data(major: u16) -> String {
    let has_values = match major >= ROW_BY_ANALYZE {
        true => "true",
        false => {
            "(v.n_distinct IS NOT NULL OR v.dependencies IS NOT NULL OR v.most_common_vals IS NOT NULL)"
        }
    };
    format!("SELECT FROM pg_catalog.pg_stats_ext v WHERE {has_values}")
}

/// Returns the part of a query that finds a relation `c` by its quoted name. `to_regclass` needs a right on the schema.
fn relation_named(name: &str) -> String {
    format!(
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) = {}",
        quote_literal(name)
    )
}

/// Splits a name, with its schema, from the text after it.
fn split_name(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    let end = text.find(|c: char| {
        is_quoted ^= c == '"';
        !is_quoted && c == ' '
    });
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_found_in_definitions_of_servers_and_in_statements() {
        for (statement, object) in [
            (
                "CREATE INDEX day ON public.facts USING btree (date_part('day'::text, at))",
                Some(RemedyObject::Index {
                    name: "day",
                    table: "public.facts",
                }),
            ),
            (
                "CREATE UNIQUE INDEX \"a \"\" ON b\" ON ONLY \"my app\".\"t\" USING btree (a)",
                Some(RemedyObject::Index {
                    name: "\"a \"\" ON b\"",
                    table: "\"my app\".\"t\"",
                }),
            ),
            (
                "CREATE STATISTICS app.\"s s\" (ndistinct) ON a, b FROM app.t",
                Some(RemedyObject::ExtendedStatistics {
                    name: "app.\"s s\"",
                }),
            ),
            (
                "ANALYZE public.facts",
                Some(RemedyObject::Statistics {
                    table: "public.facts",
                }),
            ),
            (
                "REINDEX INDEX public.i",
                Some(RemedyObject::RebuiltIndex { index: "public.i" }),
            ),
            ("ALTER TABLE t SET (fillfactor = 70)", None),
            ("CREATE EXTENSION hstore", None),
        ] {
            assert_eq!(RemedyObject::of_statement(statement), object, "{statement}");
        }
    }
}
