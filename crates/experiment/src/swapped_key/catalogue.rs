//! A key in the server's catalogue: its columns, what refers to it, and what stands against swapping it.

use target::login::{Questions, Row, Value};
use workload::rewrite::{KeyColumn, KeyKind, KeyName};

use super::answered;
use crate::error::ExperimentError;

/// A column with values of the key, in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPlace {
    pub(super) column: KeyColumn,
    /// The table's OID.
    relation: String,
    /// The column's number in `pg_attribute`.
    number: String,
}

/// A foreign key on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignKey {
    /// The table that has it, quoted.
    pub(super) table: String,
    /// Quoted.
    pub(super) name: String,
    pub(super) definition: String,
}

/// A key with all that has to be changed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeySchema {
    pub(super) kind: KeyKind,
    /// As the server writes it: `character varying(64)`.
    pub(super) type_name: String,
    /// Its own first.
    pub(super) columns: Vec<KeyPlace>,
    pub(super) foreign_keys: Vec<ForeignKey>,
    /// As [`workload::rewrite::SwappedKey::namesakes`].
    pub(super) namesakes: Vec<(String, String)>,
    /// Rows may get a key of the server's making.
    pub(super) has_default: bool,
}

const COLUMN: &str = "\
SELECT c.oid, n.nspname, c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.atttypid::regtype::text, c.relkind, \
  (SELECT count(*) FROM pg_attribute o WHERE o.attrelid = a.attrelid AND o.attnum > 0 AND o.attnum < a.attnum AND NOT o.attisdropped), \
  pg_get_expr(e.adbin, e.adrelid), a.attnotnull, \
  EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnatts = 1 AND i.indkey[0] = a.attnum), \
  a.attinhcount > 0 OR EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = c.oid OR h.inhrelid = c.oid) \
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
  LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum \
WHERE a.attnum > 0 AND NOT a.attisdropped";

/// Those that refer to a column, with the foreign key by which they do.
const REFERRING: &str = "\
SELECT f.conrelid, k.own, f.conrelid::regclass::text, quote_ident(f.conname), pg_get_constraintdef(f.oid) \
FROM pg_constraint f, LATERAL unnest(f.conkey, f.confkey) AS k(own, other) \
WHERE f.contype = 'f' AND f.confrelid = $1::oid AND k.other = $2::int2 ORDER BY f.oid";

/// What a column refers to.
const REFERRED: &str = "\
SELECT f.confrelid, k.other, f.confrelid::regclass::text, f.conname \
FROM pg_constraint f, LATERAL unnest(f.conkey, f.confkey) AS k(own, other) \
WHERE f.contype = 'f' AND f.conrelid = $1::oid AND k.own = $2::int2 ORDER BY f.oid";

/// Indexes whose operators or order are not those of every type.
const INDEXES: &str = "\
SELECT 'index ' || i.indexrelid::regclass::text || ' (its operator class, collation or method)' \
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam \
  CROSS JOIN LATERAL generate_subscripts(i.indclass, 1) AS s(k) \
  JOIN pg_opclass o ON o.oid = i.indclass[s.k] JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[s.k] \
WHERE i.indrelid = $1::oid AND a.attnum = $2::int2 \
  AND (NOT o.opcdefault OR m.amname NOT IN ('btree', 'hash', 'brin') OR i.indcollation[s.k] NOT IN (0, a.attcollation))";

/// Other tables' columns of these names.
const NAMESAKES: &str = "\
SELECT c.oid, a.attnum, c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
WHERE a.attname = ANY ($1::text[]) AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

/// What depends on a column, but for its own default, plain indexes, statistics, and constraints that are keys.
const AGAINST: &str = "\
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d \
LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid \
LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid \
LEFT JOIN pg_attrdef e ON d.classid = 'pg_attrdef'::regclass AND e.oid = d.objid \
WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = $1::oid AND d.refobjsubid = $2::int2 \
  AND (k.contype IN ('p', 'u', 'f', 'n') \
    OR i.indexrelid IS NOT NULL AND i.indexprs IS NULL AND i.indpred IS NULL \
    OR e.adrelid = $1::oid AND e.adnum = $2::int2 \
    OR d.classid = 'pg_statistic_ext'::regclass) IS NOT TRUE";

impl KeySchema {
    /// Reads what there is of a key.
    ///
    /// # Errors
    /// Where there is no such column, it is no key, or something stands against another type.
    pub(super) fn read(
        questions: &mut Questions<'_>,
        name: &KeyName,
    ) -> Result<Self, ExperimentError> {
        let refused = |why: String| ExperimentError::Usage(format!("swap-key={name}: {why}"));
        let mut table = quoted(&name.table);
        if let Some(schema) = &name.schema {
            table = format!("{}.{table}", quoted(schema));
        }
        let found = ask(
            questions,
            &format!("{COLUMN} AND a.attrelid = to_regclass($1) AND a.attname = $2"),
            &[&table, &name.column],
        )?;
        let own = found.into_iter().next().map(Column::of).ok_or_else(|| {
            refused(format!(
                "there is no column {} in a table {table} there; give TABLE.COLUMN or SCHEMA.TABLE.COLUMN of the database with the data",
                quoted(&name.column)
            ))
        })?;
        let kind = own.kind().ok_or_else(|| {
            refused(format!(
                "its type is {}, and only keys of uuid, bytea, text or varchar can become bigint",
                own.type_name
            ))
        })?;
        let refers = ask(
            questions,
            REFERRED,
            &[&own.place.relation, &own.place.number],
        )?;
        if let Some(row) = refers.into_iter().next() {
            let [_, _, other, _] = fields(row);
            return Err(refused(format!(
                "it refers to {other}; give the key of that table, and this column goes with it"
            )));
        }
        let has_default = own.default.is_some();
        if own
            .default
            .as_ref()
            .is_some_and(|default| !default.contains('('))
            || has_default && !own.is_not_null
        {
            return Err(refused(
                "its default is a constant, or it may be NULL and has a default; neither can be that of a number".to_owned(),
            ));
        }
        if !own.is_unique {
            return Err(refused(
                "it has no unique index of its own, so its values are no key; give a primary key or a unique column".to_owned(),
            ));
        }
        let mut schema = KeySchema {
            kind,
            type_name: own.type_name.clone(),
            columns: vec![own.place.clone()],
            foreign_keys: Vec::new(),
            namesakes: Vec::new(),
            has_default,
        };
        // From here on names come with their schemas, wherever the script will look.
        answered(questions.ask("SET search_path = ''"))?;
        let mut columns = vec![own];
        // Those that refer to it, those that refer to these, and so on.
        let mut at = 0;
        while at < columns.len() {
            let place = columns[at].place.clone();
            for row in ask(questions, REFERRING, &[&place.relation, &place.number])? {
                let [relation, number, table, name, definition] = fields(row);
                let foreign = ForeignKey {
                    table,
                    name,
                    definition,
                };
                if !schema.foreign_keys.contains(&foreign) {
                    schema.foreign_keys.push(foreign);
                }
                let is_known =
                    |one: &Column| one.place.relation == relation && one.place.number == number;
                if columns.iter().any(is_known) {
                    continue;
                }
                let question = format!("{COLUMN} AND a.attrelid = $1::oid AND a.attnum = $2::int2");
                let found = ask(questions, &question, &[&relation, &number])?;
                columns.extend(found.into_iter().map(Column::of));
            }
            at += 1;
        }
        schema.columns = columns.iter().map(|one| one.place.clone()).collect();
        for column in &columns {
            let what = column.place.named();
            if column.kind() != Some(kind) {
                return Err(refused(format!(
                    "{what} refers to it and is of another type, {}",
                    column.type_name
                )));
            }
            if column.relation_kind != "r" {
                return Err(refused(format!(
                    "{what} is not in an ordinary table (pg_class.relkind '{}'), and the type of a column of partitions cannot be changed in place",
                    column.relation_kind
                )));
            }
            let place = [&*column.place.relation, &*column.place.number];
            let mut against: Vec<String> = Vec::new();
            for question in [AGAINST, INDEXES] {
                let rows = ask(questions, question, &place)?;
                against.extend(rows.into_iter().map(|row| fields::<1>(row).join("")));
            }
            for row in ask(questions, REFERRED, &place)? {
                let [relation, number, other, name] = fields(row);
                let is_of_it =
                    |one: &Column| one.place.relation == relation && one.place.number == number;
                if !columns.iter().any(is_of_it) {
                    against.push(format!(
                        "foreign key {name} to {other}, which keeps its type"
                    ));
                }
            }
            if let Some(default) = column
                .default
                .as_ref()
                .filter(|_| column.place != schema.columns[0])
            {
                against.push(format!("its default {default}"));
            }
            if column.is_inherited {
                against.push("a table that it inherits from, or that inherits from it".to_owned());
            }
            if !against.is_empty() {
                return Err(refused(format!(
                    "{what} cannot get another type while these depend on it: {}; take them away in a copy of the data, with --change or by hand, and try it there",
                    against.join(", ")
                )));
            }
        }
        schema.namesakes = namesakes(questions, &columns)?;
        Ok(schema)
    }
}

fn namesakes(
    questions: &mut Questions<'_>,
    columns: &[Column],
) -> Result<Vec<(String, String)>, ExperimentError> {
    let names: Vec<String> = columns
        .iter()
        .map(|one| {
            format!(
                "\"{}\"",
                one.place
                    .column
                    .column
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
            )
        })
        .collect();
    let array = format!("{{{}}}", names.join(","));
    let rows = ask(questions, NAMESAKES, &[&array])?;
    let others = rows
        .into_iter()
        .map(fields)
        .filter(|[relation, number, _, _]| {
            !columns
                .iter()
                .any(|one| one.place.relation == *relation && one.place.number == *number)
        });
    // One of the same name elsewhere is told from it by the search path, which nobody knows here.
    let is_other = |table: &String| columns.iter().all(|one| one.place.column.table != *table);
    let others = others.filter(|[_, _, table, _]| is_other(table));
    Ok(others
        .map(|[_, _, table, column]| (table, column))
        .collect())
}

/// A column as the catalogue has it.
struct Column {
    place: KeyPlace,
    type_name: String,
    base_type: String,
    relation_kind: String,
    /// Its expression.
    default: Option<String>,
    is_not_null: bool,
    is_unique: bool,
    is_inherited: bool,
}

impl Column {
    fn of(row: Row) -> Self {
        let default = row.get(9).cloned().flatten();
        let [
            relation,
            schema,
            table,
            column,
            number,
            type_name,
            base_type,
            relation_kind,
            before,
            _,
            not_null,
            unique,
            inherited,
        ] = fields(row);
        Column {
            place: KeyPlace {
                column: KeyColumn {
                    schema,
                    table,
                    column,
                    place: before.parse().unwrap_or_default(),
                },
                relation,
                number,
            },
            type_name,
            base_type,
            relation_kind,
            default,
            is_not_null: not_null == "t",
            is_unique: unique == "t",
            is_inherited: inherited == "t",
        }
    }

    fn kind(&self) -> Option<KeyKind> {
        match self.base_type.as_str() {
            "uuid" => Some(KeyKind::Uuid),
            "bytea" => Some(KeyKind::Bytea),
            "text" | "character varying" => Some(KeyKind::Text),
            _ => None,
        }
    }
}

impl KeyPlace {
    /// The table, quoted.
    pub(super) fn table(&self) -> String {
        format!(
            "{}.{}",
            quoted(&self.column.schema),
            quoted(&self.column.table)
        )
    }

    /// The column, quoted.
    pub(super) fn name(&self) -> String {
        quoted(&self.column.column)
    }

    fn named(&self) -> String {
        format!("{}.{}", self.table(), self.name())
    }
}

fn ask(
    questions: &mut Questions<'_>,
    question: &str,
    values: &[&str],
) -> Result<Vec<Row>, ExperimentError> {
    // All are text: what they are compared with says what they are cast to.
    const TEXT: u32 = 25;
    let types = vec![TEXT; values.len()];
    let values: Vec<_> = values.iter().map(|text| Some(Value::Text(text))).collect();
    answered(questions.ask_with(question, &types, &values))
}

/// The first fields of a row; NULL is empty.
fn fields<const N: usize>(row: Row) -> [String; N] {
    let mut all = row.into_iter();
    std::array::from_fn(|_| all.next().flatten().unwrap_or_default())
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
