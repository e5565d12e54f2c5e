//! The event store: for each customer a table, its definitions, and an index for each.

use postgres::{Client, Row};

use super::definition::{Definition, literal, table};
use super::event::Events;
use super::ingest::insert;
use crate::{LabError, Scale};

/// Rows of a statement while tables are filled.
const FILLED_AT_ONCE: usize = 500;

/// Size of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of customers. Each has a table.
    pub customers: u32,
    /// Number of definitions, and of partial indexes, of each customer.
    pub definitions: u32,
    /// Number of initial events of each customer.
    pub events: u32,
}

impl Size {
    /// Returns the size for a scale of the lab.
    pub fn of(scale: Scale) -> Self {
        match scale {
            Scale::Small => Size {
                customers: 16,
                definitions: 50,
                events: 1_000,
            },
            Scale::Full => Size {
                customers: 200,
                definitions: 50,
                events: 10_000,
            },
        }
    }
}

/// The created store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Its size.
    pub size: Size,
    /// All definitions, as read from their table.
    pub definitions: Vec<Definition>,
    /// Lowest number that no event has yet.
    pub next_event: u64,
}

/// Creates and fills tables, stores definitions as data, and creates an index for each stored definition.
///
/// # Errors
/// If the server refuses.
pub fn create(client: &mut Client, size: Size) -> Result<Store, LabError> {
    let failed = LabError::server("the event store cannot be made");
    client
        .batch_execute(
            "CREATE TABLE definitions (customer int, number int, name text NOT NULL, type text NOT NULL, path text NOT NULL, selector text, property text, value text, PRIMARY KEY (customer, number))",
        )
        .map_err(&failed)?;
    let mut events = Events::new(size.customers, 1);
    for customer in 0..size.customers {
        let name = table(customer);
        client
            .batch_execute(&format!(
                "CREATE TABLE {name} (event_id bigint NOT NULL, user_id bigint NOT NULL, visit_id bigint NOT NULL, time timestamptz NOT NULL, type text NOT NULL, path text NOT NULL, hierarchy text, properties jsonb NOT NULL, PRIMARY KEY (user_id, event_id))"
            ))
            .map_err(&failed)?;
        let mut left = size.events as usize;
        while left > 0 {
            let count = left.min(FILLED_AT_ONCE);
            let rows: Vec<_> = (0..count).map(|_| events.of(customer)).collect();
            client
                .batch_execute(&insert(customer, &rows))
                .map_err(&failed)?;
            left -= count;
        }
        let rows: Vec<String> = Definition::of_customer(customer, size.definitions)
            .iter()
            .map(to_row)
            .collect();
        client
            .batch_execute(&format!(
                "INSERT INTO definitions VALUES {}",
                rows.join(", ")
            ))
            .map_err(&failed)?;
    }
    let rows = client
        .query("SELECT * FROM definitions ORDER BY customer, number", &[])
        .map_err(&failed)?;
    let definitions: Vec<Definition> = rows.iter().map(from_row).collect();
    for one in definitions.chunks(size.definitions.max(1) as usize) {
        let all: Vec<String> = one.iter().map(Definition::create_index).collect();
        client.batch_execute(&all.join(";")).map_err(&failed)?;
    }
    for sql in ["ANALYZE", "CHECKPOINT"] {
        client.batch_execute(sql).map_err(&failed)?;
    }
    Ok(Store {
        size,
        definitions,
        next_event: 1 + u64::from(size.customers) * u64::from(size.events),
    })
}

/// Returns a definition as a row of its table.
fn to_row(one: &Definition) -> String {
    let or_null = |text: Option<&str>| text.map_or_else(|| "NULL".to_owned(), literal);
    let property = one.property.as_ref();
    format!(
        "({}, {}, {}, {}, {}, {}, {}, {})",
        one.customer,
        one.number,
        literal(&one.name),
        literal(&one.kind),
        literal(&one.path),
        or_null(one.selector.as_deref()),
        or_null(property.map(|(name, _)| name.as_str())),
        or_null(property.map(|(_, value)| value.as_str())),
    )
}

fn from_row(row: &Row) -> Definition {
    let property: (Option<String>, Option<String>) = (row.get("property"), row.get("value"));
    Definition {
        customer: row.get::<_, i32>("customer") as u32,
        number: row.get::<_, i32>("number") as u32,
        name: row.get("name"),
        kind: row.get("type"),
        path: row.get("path"),
        selector: row.get("selector"),
        property: property.0.zip(property.1),
    }
}
