//! A related limit: a backend caches 32 compiled regular expressions. If every row evaluates all expressions of a
//! table's indexes, one more than that makes each row compile all of them.

use postgres::Client;

use crate::{LabError, ProcessorTime};

/// Rows of a statement.
const ROWS: u32 = 50;

/// Measurement of one table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PatternCost {
    /// Number of different regular expressions of its indexes. Each row evaluates all of them.
    pub patterns: u32,
    /// Rows of a statement.
    pub rows: u32,
    /// CPU time of the server's processes for each row, in microseconds.
    pub cpu_us: f64,
}

/// Creates a table with the given number of indexes, each with an expression that every row evaluates. Then writes
/// rows from one connection, in statements of 1 row and of 50. Empty if the server's processes cannot be observed.
///
/// # Errors
/// If the server refuses.
pub fn measure_patterns(
    client: &mut Client,
    processor_time: &ProcessorTime<'_>,
    patterns: u32,
    statements: u32,
) -> Result<Vec<PatternCost>, LabError> {
    let failed = LabError::server("the table of expressions cannot be written");
    let name = format!("expressions_{patterns}");
    let mut made =
        format!("CREATE TABLE {name} (time timestamptz NOT NULL, hierarchy text NOT NULL);");
    for number in 0..patterns {
        made.push_str(&format!(
            r"CREATE INDEX {name}_{number} ON {name} (time) WHERE hierarchy ~ '@div;#page-{number}-of-1;(.*;)?@button;(\.[a-z]+;)*\.click-[0-4]';"
        ));
    }
    client.batch_execute(&made).map_err(&failed)?;
    let mut measured = Vec::new();
    for rows in [1, ROWS] {
        let row = |at: u32| {
            format!(
                "(now(), '@html;@body;@div;#page-{at}-of-2;@main;@form;.wide;@button;.primary;.click-7')"
            )
        };
        let insert = |at: u32| {
            let rows: Vec<String> = (0..rows).map(|number| row(at * rows + number)).collect();
            format!("INSERT INTO {name} VALUES {}", rows.join(", "))
        };
        // Fills the caches, including that of compiled expressions.
        client.batch_execute(&insert(0)).map_err(&failed)?;
        let begun = processor_time();
        for at in 1..=statements {
            client.batch_execute(&insert(at)).map_err(&failed)?;
        }
        let ended = processor_time();
        if let Some((begun, ended)) = begun.zip(ended) {
            measured.push(PatternCost {
                patterns,
                rows,
                cpu_us: ended.saturating_sub(begun) as f64
                    / 1e3
                    / f64::from(statements * rows).max(1.0),
            });
        }
    }
    Ok(measured)
}
