//! Names known reasons why a statement may return other rows at another server or moment.
//!
//! The rules read the words of the statement and the facts of the two targets. They propose; only a look at the rows
//! tells which reason it is. Checksums do not depend on the order of rows, so a missing ORDER BY alone is no reason.

use std::collections::BTreeSet;

use run::{Facts, IndexFact, RelationFact};
use schemars::JsonSchema;
use serde::Serialize;
use sql::{Lexeme, SqlStatement, split_statements};

use crate::targets::{COLLATION_OF, TargetsComparison};

/// First version that prints floating-point numbers exactly by default (release notes of PostgreSQL 12).
const EXACT_FLOATS_VERSION: u32 = 12;

/// Known reason for other rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RowsReason {
    /// A function that it calls has another source on the two targets.
    FunctionDiffers {
        /// Name.
        function: String,
    },
    /// It compares or sorts text, and the targets have different collations.
    Collation {
        /// Column or database whose collation differs.
        of: String,
    },
    /// It returns floating-point numbers, which the servers print with different precision.
    FloatOutput,
    /// A setting that changes the text of its values differs.
    Setting {
        /// Name.
        name: String,
    },
    /// It uses something whose value depends on the moment, on chance, or on the server.
    Volatile {
        /// Name.
        name: String,
    },
    /// It adds floating-point numbers, whose sum depends on the order of rows.
    FloatSum,
    /// It collects values in an order that it does not give.
    AggregateOrder {
        /// Name of the aggregate or window function.
        function: String,
    },
    /// It has a limit and no order, so the server may return any rows.
    LimitWithoutOrder,
    /// It has a limit and an order, and rows with equal keys may be returned in either order.
    Ties,
    /// It returns values that the server generates, such as sequence numbers.
    Generated,
    /// The workload writes to a table that it reads, and sessions interleave differently in each replay.
    ConcurrentWrites {
        /// Table.
        table: String,
    },
}

/// Data from which reasons are inferred.
pub(crate) struct ReasonInputs<'a> {
    /// Facts of both targets, if known.
    pub(crate) facts: Option<[&'a Facts; 2]>,
    /// Comparison of the targets, if known.
    pub(crate) targets: Option<&'a TargetsComparison>,
    /// Tables that the workload writes to, in lower case and without their schemas.
    pub(crate) written: &'a BTreeSet<String>,
    /// Whether several runs of a side had equal rows, so that chance is no reason.
    pub(crate) is_steady: bool,
}

/// Words, keywords and symbols whose value depends on the moment, on chance, or on the server.
const VOLATILE: [&str; 32] = [
    "age",
    "clock_timestamp",
    "ctid",
    "current_date",
    "current_time",
    "current_timestamp",
    "currval",
    "gen_random_bytes",
    "gen_random_uuid",
    "gen_salt",
    "inet_server_addr",
    "inet_server_port",
    "information_schema",
    "lastval",
    "localtime",
    "localtimestamp",
    "nextval",
    "now",
    "random",
    "random_normal",
    "statement_timestamp",
    "tableoid",
    "timeofday",
    "transaction_timestamp",
    "txid_current",
    "uuid_generate_v1",
    "uuid_generate_v4",
    "uuidv4",
    "uuidv7",
    "version",
    "xmax",
    "xmin",
];

/// Names of [`VOLATILE`] that need no brackets.
const WITHOUT_BRACKETS: [&str; 10] = [
    "ctid",
    "current_date",
    "current_time",
    "current_timestamp",
    "information_schema",
    "localtime",
    "localtimestamp",
    "tableoid",
    "xmax",
    "xmin",
];

/// Aggregates and window functions whose result depends on the order of their input.
const ORDERED: [&str; 12] = [
    "array_agg",
    "first_value",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "lag",
    "last_value",
    "lead",
    "ntile",
    "row_number",
    "string_agg",
    "xmlagg",
];

/// Aggregates of floating-point numbers whose result depends on the order of rows.
const SUMS: [&str; 8] = [
    "avg",
    "corr",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "variance",
];

const FLOATS: [&str; 2] = ["real", "double precision"];

/// Settings that change the text of values, with the types that they concern.
const OUTPUT_SETTINGS: [(&str, &[&str]); 6] = [
    ("DateStyle", &["date", "timestamp"]),
    ("IntervalStyle", &["interval"]),
    ("TimeZone", &["with time zone"]),
    ("bytea_output", &["bytea"]),
    ("lc_monetary", &["money"]),
    ("search_path", &[]),
];

/// Details of a database that concern the comparison of text.
const COLLATIONS: [&str; 5] = [
    "collation",
    "character type",
    "locale provider",
    "locale",
    "collation version",
];

/// Returns the known reasons why the rows of a statement may differ; none if nothing known explains it.
pub(crate) fn rows_reasons(sql: &str, inputs: &ReasonInputs<'_>) -> Vec<RowsReason> {
    let statements = split_statements(sql);
    let words = StatementWords::of(&statements);
    let relations = inputs.relations(&words);
    let mut found = Vec::new();
    words.add_target_reasons(inputs, &relations, &mut found);
    words.add_own_reasons(inputs, &relations, &mut found);
    found
}

/// Returns the tables that a statement writes to, in lower case and without their schemas.
pub(crate) fn written_tables(sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    for statement in split_statements(sql) {
        let words = &statement.words;
        for (place, word) in words.iter().enumerate() {
            let after = |word: &str| {
                place
                    .checked_sub(1)
                    .is_some_and(|last| words[last].is(word))
            };
            let truncates = place == 0 && word.is("truncate");
            let is_before_table = word.is("into")
                || word.is("copy") && copies_from(&words[place + 1..])
                || word.is("update") && !after("for") && !after("do")
                || word.is("from") && after("delete")
                || truncates;
            if !is_before_table {
                continue;
            }
            let is_option = |word: &Lexeme<'_>| word.is("only") || truncates && word.is("table");
            let mut rest = words[place + 1..].iter().filter(|word| !is_option(word));
            loop {
                let mut name = rest.next().and_then(Lexeme::name);
                let mut next = rest.next();
                if next.is_some_and(|next| next.is_symbol(".")) {
                    name = rest.next().and_then(Lexeme::name);
                    next = rest.next();
                }
                found.extend(name.map(|name| name.to_lowercase()));
                // TRUNCATE has a list of tables.
                if !truncates || !next.is_some_and(|next| next.is_symbol(",")) {
                    break;
                }
            }
        }
    }
    found
}

/// Whether COPY with these words after it is from a file or the client.
fn copies_from(words: &[Lexeme<'_>]) -> bool {
    let mut depth = 0_u32;
    let direction = words.iter().find(|word| {
        depth += u32::from(word.is_symbol("("));
        depth = depth.saturating_sub(u32::from(word.is_symbol(")")));
        depth == 0 && (word.is("from") || word.is("to"))
    });
    direction.is_some_and(|word| word.is("from"))
}

/// Returns the key columns of an index, without those that it only includes; `None` for a part of its table.
fn key_columns(definition: &str) -> Option<impl Iterator<Item = &str>> {
    let (_, columns) = definition.split_once(" USING ")?.1.split_once(" (")?;
    let (columns, rest) = columns.split_once(')')?;
    (!rest.contains(" WHERE ")).then(|| columns.split(", "))
}

impl<'a> ReasonInputs<'a> {
    /// Returns the relations whose names a statement has, of the target before, or of the one after.
    fn relations(&self, words: &StatementWords) -> Vec<&'a RelationFact> {
        let facts = self.facts.into_iter().flatten();
        let all = facts.map(|facts| {
            let named = facts.relations.iter();
            let named = named.filter(|one| words.names.contains(&one.name.to_lowercase()));
            named.collect::<Vec<_>>()
        });
        all.max_by_key(Vec::len).unwrap_or_default()
    }

    fn has_setting(&self, name: &str) -> bool {
        let settings = self.targets.map(|targets| targets.settings.iter());
        settings.is_some_and(|mut all| all.any(|one| one.name == name))
    }

    /// Whether the servers print floating-point numbers differently by default.
    fn has_other_floats(&self) -> bool {
        let version = |version: &Option<String>| -> Option<u32> {
            let digits = version.as_deref()?.split(|at: char| !at.is_ascii_digit());
            digits.into_iter().next()?.parse().ok()
        };
        let Some(targets) = self.targets else {
            return false;
        };
        let exact = |major: u32| major >= EXACT_FLOATS_VERSION;
        let versions = version(&targets.version_before).zip(version(&targets.version_after));
        versions.is_some_and(|(one, other)| exact(one) != exact(other))
            || self.has_setting("extra_float_digits")
    }
}

/// Words of a statement, in lower case.
#[derive(Debug, Default)]
struct StatementWords {
    /// Names, keywords among them; also `*` if it returns all columns of a table, and `<` if it compares.
    names: BTreeSet<String>,
    /// Names before an opening bracket.
    called: BTreeSet<String>,
    /// Words after ORDER BY outside brackets, or before one's end within them.
    ordered_by: BTreeSet<String>,
    has_limit: bool,
    has_order: bool,
}

impl StatementWords {
    fn of(statements: &[SqlStatement<'_>]) -> Self {
        let mut found = Self::default();
        for statement in statements {
            found.add(&statement.words);
        }
        found
    }

    fn add(&mut self, words: &[Lexeme<'_>]) {
        let mut is_in_order = false;
        for (place, word) in words.iter().enumerate() {
            let next = words.get(place + 1);
            let is = |word: &str| next.is_some_and(|next| next.is(word));
            if word.is("order") && is("by") {
                self.has_order = true;
                is_in_order = true;
            }
            let ends_order = ["limit", "fetch", "offset", "for", "union", "rows", "range"];
            if word.is_symbol(")") || ends_order.iter().any(|end| word.is(end)) {
                is_in_order = false;
            }
            self.has_limit |= word.is("limit") || word.is("fetch") || word.is("offset");
            self.has_limit |= word.is("distinct") && is("on");
            let previous = place.checked_sub(1).map(|place| &words[place]);
            let begins_column = |word: &Lexeme<'_>| {
                [",", "."].iter().any(|one| word.is_symbol(one))
                    || ["select", "distinct", "returning"]
                        .iter()
                        .any(|one| word.is(one))
            };
            if word.is_symbol("*") && previous.is_some_and(begins_column) {
                self.names.insert("*".to_owned());
            }
            if ["<", ">", "~"].iter().any(|one| word.is_symbol(one)) {
                self.names.insert("<".to_owned());
            }
            let Some(name) = word.name().map(|name| name.to_lowercase()) else {
                continue;
            };
            if next.is_some_and(|next| next.is_symbol("(")) {
                self.called.insert(name.clone());
            }
            if is_in_order {
                self.ordered_by.insert(name.clone());
            }
            self.names.insert(name);
        }
    }

    fn first_called(&self, functions: &[&str]) -> Option<String> {
        let found = functions.iter().find(|one| self.called.contains(**one));
        found.map(|name| (*name).to_owned())
    }

    /// Whether one of the relations has a column of one of these types that the statement may return or use.
    fn uses_type(&self, relations: &[&RelationFact], types: &[&str]) -> bool {
        let columns = relations
            .iter()
            .flat_map(|one| one.column_names.iter().zip(&one.columns));
        let mut used = columns.filter(|(name, _)| {
            self.names.contains("*") || self.names.contains(&name.to_lowercase())
        });
        used.any(|(_, definition)| types.iter().any(|one| definition.contains(one)))
    }

    fn add_target_reasons(
        &self,
        inputs: &ReasonInputs<'_>,
        relations: &[&RelationFact],
        found: &mut Vec<RowsReason>,
    ) {
        let Some(targets) = inputs.targets else {
            return;
        };
        for function in &targets.functions {
            let name = function.name.split('(').next().unwrap_or_default();
            let name = name.rsplit('.').next().unwrap_or_default();
            if self.called.contains(&name.to_lowercase()) {
                let function = function.name.clone();
                found.push(RowsReason::FunctionDiffers { function });
            }
        }
        // An order alone does not matter, since checksums do not depend on it.
        let sorts = self.has_limit || self.names.contains("<") || self.names.contains("over");
        let compares = sorts
            || ["min", "max", "greatest", "least", "upper", "lower"]
                .iter()
                .any(|one| self.called.contains(*one));
        let database = targets.databases.iter().find(|database| {
            let mut details = database.details.iter();
            details.any(|detail| COLLATIONS.contains(&detail.what.as_str()))
        });
        if let Some(database) = database.filter(|_| compares) {
            let of = format!("the database {}", database.name);
            found.push(RowsReason::Collation { of });
        }
        let columns = targets.relations.iter().flat_map(|relation| {
            let details = relation.details.iter();
            let columns = details.filter_map(|one| one.what.strip_prefix(COLLATION_OF));
            columns.map(move |column| (relation, column))
        });
        for (relation, column) in columns {
            let table = relation.name.rsplit('.').next().unwrap_or_default();
            let is_named = [table, column]
                .iter()
                .all(|name| self.names.contains(&name.to_lowercase()));
            if is_named && compares {
                let of = format!("the column {}.{column}", relation.name);
                found.push(RowsReason::Collation { of });
            }
        }
        if self.uses_type(relations, &FLOATS) && inputs.has_other_floats() {
            found.push(RowsReason::FloatOutput);
        }
        for (name, types) in OUTPUT_SETTINGS {
            let concerns = types.is_empty() || self.uses_type(relations, types);
            if concerns && inputs.has_setting(name) {
                let name = name.to_owned();
                found.push(RowsReason::Setting { name });
            }
        }
    }

    fn add_own_reasons(
        &self,
        inputs: &ReasonInputs<'_>,
        relations: &[&RelationFact],
        found: &mut Vec<RowsReason>,
    ) {
        let volatile = VOLATILE.iter().copied().find(|name| {
            self.called.contains(*name)
                || WITHOUT_BRACKETS.contains(name) && self.names.contains(*name)
        });
        let functions = inputs.facts.into_iter().flatten();
        let functions = functions.flat_map(|facts| &facts.functions);
        let own_volatile = functions
            .filter(|one| one.definition.contains(" volatile"))
            .find(|one| self.called.contains(&one.name.to_lowercase()));
        let volatile = volatile.or(own_volatile.map(|one| one.name.as_str()));
        let catalogue = self.names.iter().find(|name| name.starts_with("pg_"));
        let volatile = volatile.or(catalogue.map(String::as_str));
        if let Some(name) = volatile.map(str::to_owned) {
            found.push(RowsReason::Volatile { name });
        }
        if self.first_called(&SUMS).is_some() && self.uses_type(relations, &FLOATS) {
            found.push(RowsReason::FloatSum);
        }
        if let Some(function) = self.first_called(&ORDERED).filter(|_| !self.has_order) {
            found.push(RowsReason::AggregateOrder { function });
        }
        match (self.has_limit, self.has_order) {
            (true, false) => found.push(RowsReason::LimitWithoutOrder),
            (true, true) if !self.has_unique_order(inputs, relations) => {
                found.push(RowsReason::Ties);
            }
            _ => {}
        }
        if self.names.contains("returning") {
            found.push(RowsReason::Generated);
        }
        let written = relations
            .iter()
            .find(|one| inputs.written.contains(&one.name.to_lowercase()));
        if let Some(relation) = written.filter(|_| !inputs.is_steady) {
            let table = format!("{}.{}", relation.schema, relation.name);
            found.push(RowsReason::ConcurrentWrites { table });
        }
    }

    /// Whether it reads one relation and sorts by all columns of a unique index of it.
    fn has_unique_order(&self, inputs: &ReasonInputs<'_>, relations: &[&RelationFact]) -> bool {
        let ([relation], Some([facts, _])) = (relations, inputs.facts) else {
            return false;
        };
        let is_unique = |index: &IndexFact| {
            key_columns(&index.definition).is_some_and(|mut columns| {
                columns.all(|column| self.ordered_by.contains(&column.to_lowercase()))
            })
        };
        let mut indexes = facts.indexes.iter();
        indexes.any(|index| {
            (&index.schema, &index.table) == (&relation.schema, &relation.name)
                && index.key.is_unique()
                && index.valid
                && is_unique(index)
        })
    }
}

#[cfg(test)]
mod tests {
    use run::IndexKey;

    use crate::targets::{Detail, ObjectDifference, Presence};

    use super::*;

    fn facts() -> Facts {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Facts {
            relations: vec![RelationFact {
                schema: "public".to_owned(),
                name: "item".to_owned(),
                column_names: texts(&["id", "name", "weight"]),
                columns: texts(&["integer not null", "text", "double precision"]),
                ..RelationFact::default()
            }],
            indexes: vec![IndexFact {
                schema: "public".to_owned(),
                table: "item".to_owned(),
                definition: "CREATE UNIQUE INDEX item_pkey ON public.item USING btree (id)"
                    .to_owned(),
                valid: true,
                key: IndexKey::Primary,
                ..IndexFact::default()
            }],
            ..Facts::default()
        }
    }

    fn reasons(sql: &str, targets: &TargetsComparison, written: &[&str]) -> Vec<RowsReason> {
        let facts = facts();
        let written = written.iter().map(|name| (*name).to_owned()).collect();
        let inputs = ReasonInputs {
            facts: Some([&facts, &facts]),
            targets: Some(targets),
            written: &written,
            is_steady: false,
        };
        rows_reasons(sql, &inputs)
    }

    fn of_itself(sql: &str) -> Vec<RowsReason> {
        reasons(sql, &TargetsComparison::default(), &[])
    }

    #[test]
    fn statement_that_determines_its_rows_has_no_reason() {
        for sql in [
            "select name from item where id = $1",
            "select * from item where name = $1 order by id limit $2",
            "select id, name from item order by name",
            "select count(*), max(id) from item",
        ] {
            assert_eq!(of_itself(sql), [], "{sql}");
        }
    }

    #[test]
    fn statement_that_leaves_its_rows_open_has_a_reason() {
        let volatile = |name: &str| RowsReason::Volatile {
            name: name.to_owned(),
        };
        let order = |function: &str| RowsReason::AggregateOrder {
            function: function.to_owned(),
        };
        for (sql, reason) in [
            ("select * from item limit $1", RowsReason::LimitWithoutOrder),
            (
                "select id from item fetch first $1 rows only",
                RowsReason::LimitWithoutOrder,
            ),
            (
                "select name from item order by name limit $1",
                RowsReason::Ties,
            ),
            ("select id, now() from item", volatile("now")),
            ("select id, \"now\"() from item", volatile("now")),
            ("select current_date", volatile("current_date")),
            (
                "select relname from pg_catalog.pg_class",
                volatile("pg_catalog"),
            ),
            ("select sum(weight) from item", RowsReason::FloatSum),
            ("select string_agg(name, $1) from item", order("string_agg")),
            (
                "insert into item(name) values ($1) returning id",
                RowsReason::Generated,
            ),
        ] {
            assert_eq!(of_itself(sql), [reason], "{sql}");
        }
        assert_eq!(of_itself("select now from item"), []);
    }

    #[test]
    fn differences_of_the_targets_are_reasons_for_what_they_concern() {
        let targets = TargetsComparison {
            version_before: Some("11.22".to_owned()),
            version_after: Some("17.2".to_owned()),
            ..TargetsComparison::default()
        };
        let found = |sql: &str| reasons(sql, &targets, &[]);
        assert_eq!(found("select weight from item"), [RowsReason::FloatOutput]);
        assert_eq!(found("select name from item"), []);
    }

    #[test]
    fn collation_of_a_column_is_a_reason_for_what_sorts_and_limits() {
        let detail = Detail {
            what: format!("{COLLATION_OF}name"),
            before: Some("\"C\"".to_owned()),
            after: Some("\"en-x-icu\"".to_owned()),
        };
        let targets = TargetsComparison {
            relations: vec![ObjectDifference {
                database: "shop".to_owned(),
                name: "public.item".to_owned(),
                presence: Presence::Differs,
                details: vec![detail],
            }],
            ..TargetsComparison::default()
        };
        let collation = RowsReason::Collation {
            of: "the column public.item.name".to_owned(),
        };
        let found = |sql: &str| reasons(sql, &targets, &[]);
        let sql = "select name from item order by name limit $1";
        assert_eq!(found(sql), [collation, RowsReason::Ties]);
        assert_eq!(found("select name from item order by name"), []);
    }

    #[test]
    fn only_the_key_of_a_whole_index_is_unique() {
        let columns = |rest: &str| {
            let definition = format!("CREATE UNIQUE INDEX i ON public.t USING btree {rest}");
            key_columns(&definition).map(|all| all.map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(columns("(a, b)").unwrap(), ["a", "b"]);
        assert_eq!(columns("(a, b) INCLUDE (id)").unwrap(), ["a", "b"]);
        assert_eq!(columns("(a) WITH (fillfactor='70')").unwrap(), ["a"]);
        assert_eq!(columns("(a) WHERE (b)"), None);
    }

    #[test]
    fn copies_to_the_client_write_nothing_and_truncate_does() {
        for (sql, written) in [
            ("copy t to stdout", &[][..]),
            ("copy s.t (a, b) to stdout", &[]),
            ("copy (select a from t) to stdout", &[]),
            ("copy t from stdin", &["t"]),
            ("copy s.t (a, \"from\") from stdin", &["t"]),
            ("truncate t", &["t"]),
            ("truncate table only s.t, u restart identity", &["t", "u"]),
        ] {
            assert_eq!(written_tables(sql), written, "{sql}");
        }
    }

    #[test]
    fn concurrent_writes_are_a_reason_only_if_chance_is_one() {
        let targets = TargetsComparison::default();
        let table = "public.item".to_owned();
        assert_eq!(
            reasons("select name from item", &targets, &["item"]),
            [RowsReason::ConcurrentWrites { table }]
        );
        assert_eq!(
            written_tables(
                "with a as (delete from only public.item i returning id) insert into b select 1 for update"
            ),
            ["item", "b"]
        );
        assert_eq!(
            written_tables("insert into c values ($1) on conflict do update set x = $2"),
            ["c"]
        );
    }
}
