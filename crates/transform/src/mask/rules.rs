//! Decides by the words around literals which of them are instructions rather than data.

/// Bit sets of arguments that are instructions: bit n (from 0) for argument n + 1.
const ALL: u32 = u32::MAX;
const FIRST: u32 = 1;
const SECOND: u32 = 1 << 1;
const THIRD: u32 = 1 << 2;
const FOURTH: u32 = 1 << 3;
const AFTER_FIRST: u32 = !FIRST;
/// Every other one, from the first on: keys.
const ODD: u32 = 0x5555_5555;

const FUNCTIONS: [(&str, u32); 88] = [
    ("to_char", SECOND),
    ("to_date", SECOND),
    ("to_timestamp", SECOND),
    ("to_number", SECOND),
    ("date_trunc", FIRST | THIRD),
    ("date_part", FIRST),
    ("date_bin", FIRST),
    ("extract", ALL),
    ("timezone", FIRST),
    ("make_interval", ALL),
    ("justify_interval", ALL),
    ("current_setting", ALL),
    ("nextval", ALL),
    ("currval", ALL),
    ("setval", FIRST | THIRD),
    ("pg_get_serial_sequence", ALL),
    ("to_regclass", ALL),
    ("to_regtype", ALL),
    ("to_regproc", ALL),
    ("to_regrole", ALL),
    ("to_regnamespace", ALL),
    ("has_table_privilege", ALL),
    ("has_schema_privilege", ALL),
    ("has_column_privilege", ALL),
    ("has_database_privilege", ALL),
    ("has_function_privilege", ALL),
    ("has_sequence_privilege", ALL),
    ("pg_has_role", ALL),
    ("pg_total_relation_size", ALL),
    ("pg_relation_size", ALL),
    ("pg_table_size", ALL),
    ("pg_indexes_size", ALL),
    ("pg_sleep", ALL),
    ("pg_sleep_for", ALL),
    ("pg_cancel_backend", ALL),
    ("pg_terminate_backend", ALL),
    ("encode", SECOND),
    ("decode", SECOND),
    ("convert", SECOND | THIRD),
    ("convert_from", SECOND),
    ("convert_to", SECOND),
    ("digest", SECOND),
    ("hmac", THIRD),
    ("gen_salt", ALL),
    ("gen_random_bytes", ALL),
    ("generate_series", ALL),
    ("generate_subscripts", ALL),
    ("random", ALL),
    ("setseed", ALL),
    ("substr", AFTER_FIRST),
    ("substring", THIRD),
    ("left", SECOND),
    ("right", SECOND),
    ("lpad", SECOND),
    ("rpad", SECOND),
    ("repeat", SECOND),
    ("split_part", THIRD),
    ("chr", ALL),
    ("round", SECOND),
    ("trunc", SECOND),
    ("mod", SECOND),
    ("power", SECOND),
    ("ntile", ALL),
    ("lag", SECOND),
    ("lead", SECOND),
    ("nth_value", SECOND),
    ("percentile_cont", ALL),
    ("percentile_disc", ALL),
    ("width_bucket", ALL),
    ("bernoulli", ALL),
    ("system", ALL),
    ("array_length", SECOND),
    ("regexp_replace", FOURTH),
    ("regexp_match", THIRD),
    ("regexp_matches", THIRD),
    ("regexp_split_to_table", THIRD),
    ("regexp_split_to_array", THIRD),
    ("regexp_like", THIRD),
    ("format", FIRST),
    ("json_extract_path", AFTER_FIRST),
    ("json_extract_path_text", AFTER_FIRST),
    ("jsonb_extract_path", AFTER_FIRST),
    ("jsonb_extract_path_text", AFTER_FIRST),
    ("jsonb_set", SECOND),
    ("jsonb_insert", SECOND),
    ("json_build_object", ODD),
    ("jsonb_build_object", ODD),
    ("similarity_threshold", ALL),
];

/// Functions whose first argument is a configuration if there are several arguments.
const CONFIGURED: [&str; 8] = [
    "to_tsvector",
    "to_tsquery",
    "plainto_tsquery",
    "phraseto_tsquery",
    "websearch_to_tsquery",
    "ts_headline",
    "json_to_tsvector",
    "jsonb_to_tsvector",
];

/// Functions whose second argument is a regular expression.
const EXPRESSIONS: [&str; 6] = [
    "regexp_replace",
    "regexp_match",
    "regexp_matches",
    "regexp_split_to_table",
    "regexp_split_to_array",
    "regexp_like",
];

/// Functions with a path with filters, and the number (from 0) of that argument.
const PATHS: [(&str, u32); 18] = [
    ("xpath", 0),
    ("xpath_exists", 0),
    ("xmlexists", 0),
    ("xmltable", 0),
    ("json_value", 1),
    ("json_query", 1),
    ("json_exists", 1),
    ("json_table", 1),
    ("jsonb_path_exists", 1),
    ("jsonb_path_exists_tz", 1),
    ("jsonb_path_match", 1),
    ("jsonb_path_match_tz", 1),
    ("jsonb_path_query", 1),
    ("jsonb_path_query_tz", 1),
    ("jsonb_path_query_array", 1),
    ("jsonb_path_query_array_tz", 1),
    ("jsonb_path_query_first", 1),
    ("jsonb_path_query_first_tz", 1),
];

/// Types with modifiers in brackets.
const MODIFIED: [&str; 20] = [
    "varchar",
    "char",
    "character",
    "varying",
    "bpchar",
    "nchar",
    "numeric",
    "decimal",
    "dec",
    "bit",
    "varbit",
    "timestamp",
    "timestamptz",
    "time",
    "timetz",
    "interval",
    "float",
    "vector",
    "halfvec",
    "geometry",
];

/// Types whose values are names in the catalogue, or durations.
const NAMES: [&str; 13] = [
    "regclass",
    "regproc",
    "regprocedure",
    "regtype",
    "regrole",
    "regnamespace",
    "regconfig",
    "regdictionary",
    "regoper",
    "regoperator",
    "regcollation",
    "name",
    "interval",
];

/// Words directly before a text that is an instruction.
const INSTRUCTION_PREFIXES: [&str; 14] = [
    "zone",
    "language",
    "encoding",
    "version",
    "uescape",
    "escape",
    "provider",
    "locale",
    "lc_collate",
    "lc_ctype",
    "isolation",
    "interval",
    "schema",
    "collation",
];

/// Statements without data.
const NO_DATA: [&str; 12] = [
    "vacuum",
    "analyze",
    "analyse",
    "reindex",
    "cluster",
    "repack",
    "checkpoint",
    "show",
    "reset",
    "load",
    "fetch",
    "move",
];

/// First words of statements with data after EXPLAIN ANALYZE.
const DATA: [&str; 11] = [
    "select", "insert", "update", "delete", "merge", "with", "execute", "values", "call", "create",
    "declare",
];

fn is_one(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether argument `argument`, from 0, of a function is an instruction. `alone`: it is the
/// only one.
pub(super) fn is_instruction(function: &str, argument: u32, alone: bool) -> bool {
    if is_one(&CONFIGURED, function) {
        return argument == 0 && !alone;
    }
    let found = FUNCTIONS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(function));
    found.is_some_and(|(_, arguments)| argument < 32 && arguments >> argument & 1 == 1)
}

/// Returns whether argument `argument`, from 0, of a function is a regular expression.
pub(super) fn is_expression(function: &str, argument: u32) -> bool {
    argument == 1 && is_one(&EXPRESSIONS, function)
}

/// Returns whether argument `argument`, from 0, of a function is a path with filters.
pub(super) fn is_path(function: &str, argument: u32) -> bool {
    PATHS
        .iter()
        .any(|(name, path)| *path == argument && name.eq_ignore_ascii_case(function))
}

/// Returns whether numbers in brackets after this word are a type's modifiers.
pub(super) fn has_modifiers(word: &str) -> bool {
    is_one(&MODIFIED, word)
}

/// Returns whether a value of this type is a name, or a duration.
pub(super) fn is_naming_type(word: &str) -> bool {
    is_one(&NAMES, word)
}

/// Returns whether a text after this word is an instruction.
pub(super) fn precedes_instruction(word: &str) -> bool {
    is_one(&INSTRUCTION_PREFIXES, word) || is_naming_type(word)
}

/// Returns whether a number after this word counts rows.
pub(super) fn precedes_row_count(word: &str) -> bool {
    is_one(&["limit", "offset", "first", "next"], word)
}

/// Returns whether a number before this word counts rows.
pub(super) fn follows_row_count(word: &str) -> bool {
    is_one(&["preceding", "following", "rows", "row"], word)
}

/// Returns whether an operator takes a path, or a key, on its right.
pub(super) fn is_path_operator(operator: &str) -> bool {
    is_one(&["->", "->>", "#>", "#>>", "#-", "?", "?|", "?&"], operator)
}

/// Returns whether an operator takes a regular expression on its right.
pub(super) fn is_expression_operator(operator: &str) -> bool {
    is_one(&["~", "~*", "!~", "!~*"], operator)
}

/// Returns whether the value of a setting is data: names with a dot are those of applications.
pub(super) fn is_data_setting(name: &str) -> bool {
    name.contains('.') || name.ends_with("application_name")
}

/// Returns whether a statement without data has some from this word on.
pub(super) fn begins_data(word: &str) -> bool {
    is_one(&DATA, word)
}

/// Kind of a statement, for the literals in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum StatementContext {
    /// A statement with data.
    #[default]
    Plain,
    /// SET and the like. The values of names with a dot, and of `application_name`, are data.
    Setting,
    /// A definition: its numbers are no data.
    Definition,
    /// A statement with code: DO, CREATE FUNCTION.
    Code,
    /// COPY: after its table or query come options.
    Copy,
    /// A statement without data.
    NoData,
}

impl StatementContext {
    pub(super) fn of(first: &str) -> Option<Self> {
        let word = first.to_ascii_lowercase();
        Some(match word.as_str() {
            // The word after it decides.
            "explain" | "verbose" => return None,
            "set" => StatementContext::Setting,
            "create" | "alter" | "drop" | "comment" | "grant" | "revoke" | "security" => {
                StatementContext::Definition
            }
            "do" => StatementContext::Code,
            "copy" => StatementContext::Copy,
            word if is_one(&NO_DATA, word) => StatementContext::NoData,
            _ => StatementContext::Plain,
        })
    }
}
