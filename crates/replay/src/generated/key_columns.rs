//! Key columns of the target's tables, and the columns that they reference.

use std::collections::{BTreeSet, HashMap};

use crate::connect::Dialer;
use crate::target_databases::TargetDatabases;

/// One row for each unique index (with its columns), one for each column of a foreign key (with the table and column
/// that it references), and one for each table (with its columns, and an empty text). Columns of an index are separated by a character that no name has.
const KEYS_SQL: &str = "SELECT t.relname, pg_catalog.string_agg(a.attname, E'\\x1f' ORDER BY k.place), NULL, NULL \
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class t ON t.oid = i.indrelid \
    CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place) \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum \
    WHERE i.indisunique AND t.relnamespace >= 2200 \
      AND k.place <= coalesce((pg_catalog.to_jsonb(i) ->> 'indnkeyatts')::int, i.indnatts) \
    GROUP BY t.oid, t.relname, i.indexrelid \
    UNION ALL \
    SELECT t.relname, a.attname, f.relname, b.attname FROM pg_catalog.pg_constraint c \
    JOIN pg_catalog.pg_class t ON t.oid = c.conrelid JOIN pg_catalog.pg_class f ON f.oid = c.confrelid \
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(c.conkey), pg_catalog.unnest(c.confkey)) k (own, other) \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.own \
    JOIN pg_catalog.pg_attribute b ON b.attrelid = f.oid AND b.attnum = k.other \
    WHERE c.contype = 'f' \
    UNION ALL \
    SELECT t.relname, pg_catalog.string_agg(a.attname, E'\\x1f' ORDER BY a.attnum), '', NULL \
    FROM pg_catalog.pg_class t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid \
    WHERE t.relkind IN ('r', 'p') AND t.relnamespace >= 2200 AND a.attnum > 0 AND NOT a.attisdropped \
    GROUP BY t.oid, t.relname";

/// Table and column, without the schema.
pub(crate) type ColumnName = (String, String);

/// Keys and references of all databases that a workload uses. Tables of the same name are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyColumns {
    /// Columns of each unique index, by table.
    keys: HashMap<String, BTreeSet<Vec<String>>>,
    /// All columns of each table, in their order.
    columns: HashMap<String, Vec<String>>,
    /// Referenced column of each column of a foreign key.
    references: HashMap<ColumnName, ColumnName>,
    /// Databases that could not be asked, each with the reason. Columns called `id` and `…_id` count as keys then.
    pub(crate) unknown: Vec<String>,
}

impl KeyColumns {
    /// Asks the target for the keys of all databases of a workload.
    pub(crate) fn load(databases: &TargetDatabases, dialer: &Dialer) -> Self {
        let mut keys = KeyColumns::default();
        keys.unknown = databases.ask(dialer, KEYS_SQL, |row, _| keys.add(row));
        keys
    }

    fn add(&mut self, row: &[Option<String>]) {
        match row {
            [Some(table), Some(columns), None, None] => {
                let columns = columns.split('\x1f').map(str::to_owned).collect();
                self.keys.entry(table.clone()).or_default().insert(columns);
            }
            [Some(table), Some(columns), Some(_), None] => {
                let columns = columns.split('\x1f').map(str::to_owned).collect();
                self.columns.insert(table.clone(), columns);
            }
            [Some(table), Some(column), Some(other), Some(key)] => {
                let own = (table.clone(), column.clone());
                self.references.insert(own, (other.clone(), key.clone()));
            }
            _ => {}
        }
    }

    /// Adds the columns of a unique index.
    #[cfg(test)]
    pub(crate) fn with_key(mut self, table: &str, columns: &str) -> Self {
        self.add(&[
            Some(table.to_owned()),
            Some(columns.replace(',', "\x1f")),
            None,
            None,
        ]);
        self
    }

    /// Sets the columns of a table.
    #[cfg(test)]
    pub(crate) fn with_columns(mut self, table: &str, columns: &str) -> Self {
        let columns = columns.split(',').map(str::to_owned).collect();
        self.columns.insert(table.to_owned(), columns);
        self
    }

    /// Adds a foreign key.
    #[cfg(test)]
    pub(crate) fn with_reference(
        mut self,
        table: &str,
        column: &str,
        other: &str,
        key: &str,
    ) -> Self {
        self.add(&[table, column, other, key].map(|text| Some(text.to_owned())));
        self
    }

    /// Returns the column of a table with a number from 0.
    pub(crate) fn column(&self, table: &str, number: usize) -> Option<&String> {
        self.columns.get(table)?.get(number)
    }

    /// Returns the column that a column references; `None` if it is in no foreign key.
    pub(crate) fn referenced(&self, table: &str, column: &str) -> Option<&ColumnName> {
        self.references.get(&(table.to_owned(), column.to_owned()))
    }

    /// Returns the column whose values a column has, through all references.
    pub(crate) fn origin(&self, table: &str, column: &str) -> ColumnName {
        let mut origin = (table.to_owned(), column.to_owned());
        // References may form a cycle.
        for _ in 0..8 {
            match self.references.get(&origin) {
                Some(referenced) => origin.clone_from(referenced),
                None => break,
            }
        }
        origin
    }

    /// Whether rows are found by this column: it is part of a key or of a foreign key.
    pub(crate) fn is_key_column(&self, table: &str, column: &str) -> bool {
        let keys = self.keys.get(table);
        keys.is_some_and(|keys| keys.iter().flatten().any(|one| one == column))
            || self.referenced(table, column).is_some()
            || !self.unknown.is_empty() && (column == "id" || column.ends_with("_id"))
    }

    /// Whether the table has a key of this column alone.
    pub(crate) fn is_key(&self, table: &str, column: &str) -> bool {
        let keys = self.keys.get(table);
        keys.is_some_and(|keys| {
            keys.iter()
                .any(|key| matches!(&key[..], [one] if one == column))
        }) || !self.unknown.is_empty() && column == "id"
    }

    /// Returns the columns that are keys of a table alone.
    pub(crate) fn single_keys(&self, table: &str) -> impl Iterator<Item = &str> {
        let keys = self.keys.get(table).into_iter().flatten();
        let single = keys.filter_map(|key| match &key[..] {
            [column] => Some(column.as_str()),
            _ => None,
        });
        // What is a key by its name, if the database could not be asked.
        single.chain((!self.unknown.is_empty()).then_some("id"))
    }

    /// Returns the keys of a table with several columns.
    pub(crate) fn composite_keys(&self, table: &str) -> impl Iterator<Item = &Vec<String>> {
        let keys = self.keys.get(table).into_iter().flatten();
        keys.filter(|key| key.len() > 1)
    }
}
