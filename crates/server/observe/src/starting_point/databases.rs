//! Sequences, extensions, locale and small tables of each database.

use connect::login::{Dialer, Login, LoginError, QueryConnection, Row};
use workload::{DatabaseState, SequenceValue, StartingPoint, TableRows};

use super::{open, text};
use crate::DATABASES_MAX;

/// Databases of providers, which no other role may enter.
const DATABASES_SQL: &str = "SELECT datname, pg_encoding_to_char(encoding), datcollate, datctype \
     FROM pg_database WHERE datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT') \
     AND datname NOT IN ('rdsadmin', 'cloudsqladmin', 'alloydbadmin', 'azure_maintenance', 'azure_sys') \
     ORDER BY datname <> current_database(), datname";

const DATABASE_SQL: &str = "SELECT datname, pg_encoding_to_char(encoding), datcollate, datctype \
     FROM pg_database WHERE datname = current_database()";

const EXTENSIONS_SQL: &str = "SELECT extname, extversion FROM pg_extension";

const SEQUENCES_SQL: &str = "SELECT nspname, relname, format('%I.%I', nspname, relname), \
     has_sequence_privilege(pg_class.oid, 'SELECT') AND has_schema_privilege(relnamespace, 'USAGE') \
     FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
     WHERE relkind = 'S' AND relpersistence <> 't' AND nspname !~ '^pg_' ORDER BY 1, 2 LIMIT 10000";

/// Tables of at most 256 kB, without row security, which would hide rows.
const SMALL_TABLES_SQL: &str = "SELECT nspname, relname, format('%I.%I', nspname, relname) \
     FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
     WHERE relkind = 'r' AND relpersistence = 'p' AND NOT relrowsecurity AND nspname !~ '^pg_' \
     AND nspname <> 'information_schema' AND relpages <= 32 \
     AND has_table_privilege(pg_class.oid, 'SELECT') AND has_schema_privilege(relnamespace, 'USAGE') \
     AND pg_relation_size(pg_class.oid) <= 262144 ORDER BY 1, 2 LIMIT 200";

/// Relations that one query reads. More would make a deep plan.
const RELATIONS_PER_QUERY: usize = 100;

/// A relation to read.
struct Relation {
    schema: String,
    name: String,
    quoted: String,
}

/// Reads the state of one database, over its own connection.
pub(super) struct DatabaseReader<'d> {
    questions: QueryConnection<'d>,
    state: DatabaseState,
    sequences: Vec<Relation>,
}

impl<'d> DatabaseReader<'d> {
    /// Opens a connection to each database, and reads what does not depend on the moment.
    pub(super) fn open_all(
        dialer: &'d Dialer,
        login: &Login,
        questions: &mut QueryConnection<'_>,
        point: &mut StartingPoint,
    ) -> Vec<Self> {
        let found = questions.query(DATABASES_SQL);
        let rows = found.unwrap_or_else(|error| {
            point.missing.push(format!("databases: {error}"));
            Vec::new()
        });
        if rows.len() > DATABASES_MAX {
            point.missing.push(format!(
                "all but the first {DATABASES_MAX} of {} databases",
                rows.len()
            ));
        }
        let mut readers = Vec::new();
        for row in rows.iter().take(DATABASES_MAX) {
            let mut login = login.clone();
            login.database = text(row, 0).into();
            match open(dialer, &login) {
                Ok(questions) => {
                    readers.push(Self::begin(questions, row, &mut point.missing));
                }
                Err(error) => {
                    let name = text(row, 0);
                    point.missing.push(format!("database {name}: {error}"));
                }
            }
        }
        readers
    }

    fn begin(mut questions: QueryConnection<'d>, row: &Row, missing: &mut Vec<String>) -> Self {
        let mut state = DatabaseState {
            name: text(row, 0).to_owned(),
            encoding: text(row, 1).to_owned(),
            collate: text(row, 2).to_owned(),
            ctype: text(row, 3).to_owned(),
            ..DatabaseState::default()
        };
        let extensions = questions.query(EXTENSIONS_SQL).unwrap_or_default();
        let pair = |row: &Row| (text(row, 0).to_owned(), text(row, 1).to_owned());
        state.extensions = extensions.iter().map(pair).collect();
        let tables = questions.query(SMALL_TABLES_SQL).unwrap_or_default();
        state.small_tables = count_rows(&mut questions, &relations(&tables));
        let listed = questions.query(SEQUENCES_SQL).unwrap_or_default();
        let (readable, hidden): (Vec<Row>, Vec<Row>) =
            listed.into_iter().partition(|row| text(row, 3) == "t");
        if !hidden.is_empty() {
            missing.push(format!(
                "{} sequences of database {}: the role may not read them (GRANT SELECT ON ALL SEQUENCES, or pg_read_all_data)",
                hidden.len(),
                state.name
            ));
        }
        DatabaseReader {
            questions,
            state,
            sequences: relations(&readable),
        }
    }

    /// Reads the values of the sequences.
    pub(super) fn read_sequences(&mut self, missing: &mut Vec<String>) {
        for chunk in self.sequences.chunks(RELATIONS_PER_QUERY) {
            let sql = for_each(chunk, "last_value, is_called");
            match self.questions.query(&sql) {
                Ok(rows) => self.state.sequences.extend(rows.iter().filter_map(|row| {
                    let relation = chunk.get(text(row, 0).parse::<usize>().ok()?)?;
                    Some(SequenceValue {
                        schema: relation.schema.clone(),
                        name: relation.name.clone(),
                        last_value: text(row, 1).parse().ok()?,
                        is_called: text(row, 2) == "t",
                    })
                })),
                Err(error) => missing.push(format!(
                    "{} sequences of database {}: {error}",
                    chunk.len(),
                    self.state.name
                )),
            }
        }
    }

    /// Returns the state.
    pub(super) fn finish(self) -> DatabaseState {
        self.state
    }
}

/// Reads the state of the login's database.
///
/// # Errors
/// If the server cannot be reached, or refuses.
pub fn database_state(dialer: &Dialer, login: &Login) -> Result<DatabaseState, LoginError> {
    let mut questions = open(dialer, login)?;
    let rows = questions.query(DATABASE_SQL)?;
    let row = rows.into_iter().next().unwrap_or_default();
    let mut reader = DatabaseReader::begin(questions, &row, &mut Vec::new());
    reader.read_sequences(&mut Vec::new());
    Ok(reader.finish())
}

fn relations(rows: &[Row]) -> Vec<Relation> {
    let relation = |row: &Row| Relation {
        schema: text(row, 0).to_owned(),
        name: text(row, 1).to_owned(),
        quoted: text(row, 2).to_owned(),
    };
    rows.iter().map(relation).collect()
}

/// Returns a query for these columns of each relation, after its index.
fn for_each(relations: &[Relation], columns: &str) -> String {
    let one = |(index, relation): (usize, &Relation)| {
        format!("SELECT {index}, {columns} FROM {}", relation.quoted)
    };
    let all: Vec<String> = relations.iter().enumerate().map(one).collect();
    all.join(" UNION ALL ")
}

/// Counts rows. Tables that are locked are left out, together with the others of their query.
fn count_rows(questions: &mut QueryConnection<'_>, tables: &[Relation]) -> Vec<TableRows> {
    let mut counts = Vec::new();
    for chunk in tables.chunks(RELATIONS_PER_QUERY) {
        let rows = questions.query(&for_each(chunk, "count(*)"));
        counts.extend(rows.unwrap_or_default().iter().filter_map(|row| {
            let relation = chunk.get(text(row, 0).parse::<usize>().ok()?)?;
            Some(TableRows {
                schema: relation.schema.clone(),
                name: relation.name.clone(),
                rows: text(row, 1).parse().ok()?,
            })
        }));
    }
    counts
}
