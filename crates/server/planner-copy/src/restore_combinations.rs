//! Makes the list of common combinations of extended statistics (`pg_mcv_list`) from texts.
//!
//! The type has no input function, and its bytes hold values as the server stores them. So the server itself makes a
//! list, by `ANALYZE` of an auxiliary table with each combination. Then the shares are replaced by those of the export.

use std::collections::HashMap;

use connect::login::{LoginError, QueryConnection};

use crate::document::{Combination, ExtendedStatistics};
use crate::quoting::quote_literal;
use crate::restore_ranges::from_hex;

/// First version with extended statistics on expressions.
const EXPRESSIONS_MAJOR: u16 = 14;
/// Largest statistics target, and so number of combinations (`MAX_STATISTICS_TARGET`).
const TARGET_MAX: u32 = 10_000;

/// Item of a list that the server made.
struct MadeItem {
    /// Share that the server computed.
    frequency: f64,
    /// Shares of the export.
    wanted: (f64, f64),
}

/// Returns the bytes of the list in hexadecimal, or the reason why there are none.
pub(crate) fn serialise(
    connection: &mut QueryConnection<'_>,
    (statistics, list): (&ExtendedStatistics, &[Combination]),
    major: u16,
) -> Result<Option<String>, String> {
    let Some(dimensions) = list.first().map(|item| item.values.len()) else {
        return Ok(None);
    };
    // Its message may have a value.
    let refused = |error: LoginError| {
        format!(
            "the server refuses them ({})",
            String::from_utf8_lossy(&error.sqlstate)
        )
    };
    connection
        .query("CREATE SCHEMA rehearse_combinations")
        .map_err(refused)?;
    let made = make(connection, (statistics, list), dimensions, major);
    connection
        .query("DROP SCHEMA rehearse_combinations CASCADE")
        .map_err(refused)?;
    let (bytes, items) = made.map_err(refused)?;
    replace_shares(bytes, &items, dimensions)
        .map(|bytes| Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        .ok_or_else(|| "the private server's list of them has an unknown form".to_owned())
}

/// Makes a list, and returns its bytes and its items by number.
fn make(
    connection: &mut QueryConnection<'_>,
    (statistics, list): (&ExtendedStatistics, &[Combination]),
    dimensions: usize,
    major: u16,
) -> Result<(Vec<u8>, Vec<MadeItem>), LoginError> {
    let columns = match major >= EXPRESSIONS_MAJOR {
        true => "pg_get_statisticsobjdef_columns(s.oid)",
        false => {
            "(SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a \
             WHERE a.attrelid = s.stxrelid AND a.attnum = ANY (s.stxkeys::int2[]))"
        }
    };
    let sql = format!(
        "SELECT {columns}, s.stxrelid::regclass::text FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace \
         WHERE n.nspname = {} AND s.stxname = {}",
        quote_literal(&statistics.schema),
        quote_literal(&statistics.name)
    );
    let rows = connection.query(&sql)?;
    let Some([Some(source), Some(table)]) = rows.first().map(Vec::as_slice) else {
        // The object could not be created, which is reported there.
        return Ok((Vec::new(), Vec::new()));
    };
    let names: Vec<String> = (1..=dimensions)
        .map(|number| format!("c{number}"))
        .collect();
    let names = names.join(", ");
    connection.query(&format!(
        "CREATE TABLE rehearse_combinations.t (place, {names}) AS SELECT 0, {source} FROM {table} WITH NO DATA"
    ))?;
    for (batch, items) in list.chunks(500).enumerate() {
        let rows: Vec<String> = (batch * 500..)
            .zip(items)
            .map(|(place, item)| format!("({place}, {})", literals(item)))
            .collect();
        connection.query(&format!(
            "INSERT INTO rehearse_combinations.t VALUES {}",
            rows.join(", ")
        ))?;
    }
    let targets: Vec<String> = (1..=dimensions)
        .map(|number| format!("ALTER c{number} SET STATISTICS {TARGET_MAX}"))
        .collect();
    // A list has values that occur more than once.
    connection.query(&format!(
        "INSERT INTO rehearse_combinations.t SELECT * FROM rehearse_combinations.t; \
         ALTER TABLE rehearse_combinations.t {}; \
         CREATE STATISTICS rehearse_combinations.s (mcv) ON {names} FROM rehearse_combinations.t; \
         ANALYZE rehearse_combinations.t",
        targets.join(", ")
    ))?;
    read_made(connection, list, dimensions)
}

fn literals(item: &Combination) -> String {
    let values = item.values.iter().map(|value| match value {
        Some(text) => quote_literal(text),
        None => "NULL".to_owned(),
    });
    values.collect::<Vec<_>>().join(", ")
}

fn read_made(
    connection: &mut QueryConnection<'_>,
    list: &[Combination],
    dimensions: usize,
) -> Result<(Vec<u8>, Vec<MadeItem>), LoginError> {
    const DATA: &str = "pg_statistic_ext_data d JOIN pg_statistic_ext s ON s.oid = d.stxoid \
         WHERE s.stxnamespace = 'rehearse_combinations'::regnamespace";
    let rows = connection.query(&format!(
        "SELECT encode(d.stxdmcv::bytea, 'hex') FROM {DATA}"
    ))?;
    let text = rows.into_iter().flatten().flatten().next();
    let bytes = text.as_deref().and_then(from_hex).unwrap_or_default();
    // `format` writes a value as the output function of its type does, as `pg_mcv_list_items` does.
    let values: Vec<String> = (1..=dimensions)
        .map(|number| {
            format!("CASE WHEN t.c{number} IS NOT NULL THEN format('%s', t.c{number}) END")
        })
        .collect();
    let rows = connection.query(&format!(
        "SELECT DISTINCT i.index, i.frequency, t.place \
         FROM (SELECT (pg_mcv_list_items(d.stxdmcv)).* FROM {DATA}) i \
         JOIN rehearse_combinations.t ON i.values = ARRAY[{}]",
        values.join(", ")
    ))?;
    let mut items: HashMap<usize, MadeItem> = HashMap::new();
    for row in rows {
        let number = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        let (Ok(index), Ok(frequency), Ok(place)) = (
            number(0).parse(),
            number(1).parse(),
            number(2).parse::<usize>(),
        ) else {
            continue;
        };
        let item = items.entry(index).or_insert(MadeItem {
            frequency,
            wanted: (0.0, 0.0),
        });
        if let Some(one) = list.get(place) {
            item.wanted.0 += one.frequency;
            item.wanted.1 += one.base_frequency;
        }
    }
    let mut numbered: Vec<(usize, MadeItem)> = items.into_iter().collect();
    numbered.sort_by_key(|(index, _)| *index);
    let is_complete = (0..).zip(&numbered).all(|(at, (index, _))| at == *index);
    let items = numbered.into_iter().map(|(_, item)| item);
    let items = items.take_while(|_| is_complete).collect();
    Ok((bytes, items))
}

/// Replaces the shares in the items, which end the list (`statext_mcv_serialize` in `mcv.c`). An item has a number of two
/// bytes and a mark of one byte for each dimension, and two shares. Their order depends on the version.
fn replace_shares(mut bytes: Vec<u8>, items: &[MadeItem], dimensions: usize) -> Option<Vec<u8>> {
    let size = dimensions * 3 + 16;
    let start = bytes.len().checked_sub(items.len() * size)?;
    let share = |bytes: &[u8], at: usize| {
        let eight = bytes.get(at..at + 8)?;
        Some(f64::from_ne_bytes(eight.try_into().ok()?))
    };
    let offset = [dimensions, dimensions * 3].into_iter().find(|offset| {
        let all = items.iter().enumerate();
        !items.is_empty()
            && all
                .into_iter()
                .all(|(at, item)| share(&bytes, start + at * size + offset) == Some(item.frequency))
    })?;
    for (at, item) in items.iter().enumerate() {
        let at = start + at * size + offset;
        bytes[at..at + 8].copy_from_slice(&item.wanted.0.to_ne_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&item.wanted.1.to_ne_bytes());
    }
    Some(bytes)
}
