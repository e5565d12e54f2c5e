//! Queries for the statistics that a role without the rights of a superuser may read.
//!
//! `pg_stats` shows columns that the role may select from, unless row security applies to it (`system_views.sql`). It has
//! no operators: those of `ANALYZE` are the default ones of a type for B-trees (`std_typanalyze`, `array_typanalyze`).

/// Relations of users.
const USER_RELATIONS: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";
/// First version whose view has the statistics of ranges.
const RANGES_VERSION: u32 = 170_000;
/// Strategies of B-tree operators (`stratnum.h`).
const LESS: u8 = 1;
const EQUAL: u8 = 3;

/// Rows of `pg_stats`, in the form of those of `pg_statistic`.
pub(crate) fn columns(version: u32) -> String {
    let value_type = |values: &str| {
        format!(
            "format_type(('x' || encode(substring(array_send(s.{values}) FROM 9 FOR 4), 'hex'))::bit(32)::int::oid, -1)"
        )
    };
    let slot = |kind: i16, operator: &str, numbers: &str, values: Option<&str>| {
        let (present, text, name) = match values {
            Some(values) => (
                format!("s.{values}"),
                format!("s.{values}::text"),
                format!(
                    "CASE WHEN s.{values} IS NOT NULL THEN {} END",
                    value_type(values)
                ),
            ),
            None => (numbers.to_owned(), "NULL".to_owned(), "NULL".to_owned()),
        };
        format!(
            "json_build_object('kind', CASE WHEN {present} IS NOT NULL THEN {kind} ELSE 0 END, 'operator', {operator}, \
             'numbers', ({numbers})::text, 'values', {text}, 'value_type', {name})"
        )
    };
    let (equal, less) = (operator("b.oid", EQUAL), operator("b.oid", LESS));
    // The elements of a tsvector are texts.
    let element = operator(
        "CASE WHEN b.oid = 'tsvector'::regtype THEN 'text'::regtype ELSE b.typelem END",
        EQUAL,
    );
    let mut slots = vec![
        slot(1, &equal, "s.most_common_freqs", Some("most_common_vals")),
        slot(2, &less, "NULL::real[]", Some("histogram_bounds")),
        slot(
            3,
            &less,
            "CASE WHEN s.correlation IS NOT NULL THEN ARRAY[s.correlation] END",
            None,
        ),
        slot(
            4,
            &element,
            "s.most_common_elem_freqs",
            Some("most_common_elems"),
        ),
        slot(5, &element, "s.elem_count_histogram", None),
    ];
    if version >= RANGES_VERSION {
        let of_float = "'<(double precision,double precision)'";
        slots.push(slot(
            6,
            of_float,
            "CASE WHEN s.range_empty_frac IS NOT NULL THEN ARRAY[s.range_empty_frac] END",
            Some("range_length_histogram"),
        ));
        slots.push(slot(
            7,
            "NULL",
            "NULL::real[]",
            Some("range_bounds_histogram"),
        ));
    }
    format!(
        "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, c.relname AS relation, \
         CASE WHEN c.relkind NOT IN ('i', 'I') THEN a.attname END AS column, a.attnum AS number, s.inherited, \
         s.null_frac AS null_fraction, s.avg_width AS width, s.n_distinct AS distinct, json_build_array({}) AS slots \
         FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname \
         JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname AND NOT a.attisdropped \
         JOIN pg_type t ON t.oid = a.atttypid \
         JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END \
         WHERE c.relpersistence <> 't' AND {USER_RELATIONS} ORDER BY c.oid, a.attnum, s.inherited) x",
        slots.join(", ")
    )
}

/// Returns an expression for the operator of the default class of a type for B-trees (`GetDefaultOpClass`).
fn operator(type_oid: &str, strategy: u8) -> String {
    format!(
        "(SELECT o.amopopr::regoperator::text FROM pg_type y JOIN pg_am m ON m.amname = 'btree' \
         JOIN pg_opclass k ON k.opcmethod = m.oid AND k.opcdefault AND k.opcintype IN (y.oid, CASE \
          WHEN y.typtype = 'e' THEN 'anyenum'::regtype WHEN y.typtype = 'r' THEN 'anyrange'::regtype \
          WHEN y.typtype = 'm' THEN to_regtype('anymultirange') WHEN y.typtype = 'c' THEN 'record'::regtype \
          WHEN y.typcategory = 'A' THEN 'anyarray'::regtype WHEN y.oid = 'varchar'::regtype THEN 'text'::regtype \
          WHEN y.oid = 'cidr'::regtype THEN 'inet'::regtype END) \
         JOIN pg_amop o ON o.amopfamily = k.opcfamily AND o.amopstrategy = {strategy} \
          AND o.amoplefttype = k.opcintype AND o.amoprighttype = k.opcintype \
         WHERE y.oid = {type_oid} ORDER BY k.opcintype = y.oid DESC LIMIT 1)"
    )
}

/// Relations with columns that the role may not read: schema, name, whether row security hides them all, names of the
/// columns, whether it is an index on expressions.
pub(crate) fn unreadable() -> String {
    format!(
        "SELECT n.nspname, c.relname, c.relrowsecurity AND row_security_active(c.oid), \
         string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), c.relkind IN ('i', 'I') \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid \
         LEFT JOIN pg_index i ON i.indexrelid = c.oid \
         WHERE (c.relkind IN ('r', 'm', 'p') OR c.relkind = 'i' AND i.indkey[a.attnum - 1] = 0) \
         AND a.attnum > 0 AND NOT a.attisdropped AND c.relpersistence <> 't' AND {USER_RELATIONS} \
         AND (NOT has_column_privilege(c.oid, a.attnum, 'select') OR c.relrowsecurity AND row_security_active(c.oid)) \
         GROUP BY n.nspname, c.oid, c.relname, c.relrowsecurity, c.relkind ORDER BY 1, 2"
    )
}

/// Columns of which the role sees only a part of the statistics: schema, relation, column, type, whether it is a range.
///
/// The view has the kinds of statistics that the server itself computes, those of ranges from version 17 on. A type with
/// an analysis of its own, such as one of an extension, may have further kinds.
pub(crate) fn hidden_kinds(version: u32) -> String {
    let ranges = match version >= RANGES_VERSION {
        true => "",
        false => " OR f.proname IN ('range_typanalyze', 'multirange_typanalyze')",
    };
    format!(
        "SELECT DISTINCT n.nspname, c.relname, a.attname, format_type(t.oid, NULL), f.pronamespace = 'pg_catalog'::regnamespace \
         FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname \
         JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname AND NOT a.attisdropped \
         JOIN pg_type t ON t.oid = a.atttypid JOIN pg_proc f ON f.oid = t.typanalyze::oid \
         WHERE (f.pronamespace <> 'pg_catalog'::regnamespace{ranges}) AND c.relpersistence <> 't' AND {USER_RELATIONS} \
         ORDER BY 1, 2, 3"
    )
}

/// Extended statistics without data that the role may read: name.
pub(crate) fn extended_without_data() -> String {
    format!(
        "SELECT format('%I.%I', n.nspname, s.stxname) FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace \
         WHERE {USER_RELATIONS} AND s.stxkind::text[] <> ARRAY['e'] \
         AND NOT EXISTS (SELECT FROM pg_stats_ext v WHERE v.statistics_schemaname = n.nspname AND v.statistics_name = s.stxname) \
         ORDER BY 1"
    )
}
