//! Writes statistics into the catalogues of a private server.
//!
//! All versions get them in the same way, through `pg_statistic` and `pg_statistic_ext_data`: a superuser may write
//! there, and each slot arrives as it was. `pg_restore_attribute_stats` (from 18) refuses the kinds of extensions, and
//! has no counterpart in earlier versions. `array_in` makes an array of any type from a text. For a domain it executes the
//! checks, which are code of the export. So the owner of the database inserts, through a view of the superuser.

use connect::login::{LoginError, QueryConnection};

use crate::document::{ColumnStatistics, ExtendedStatistics, PlannerExport, StatisticsSlot};
use crate::not_restored::NotRestored;
use crate::quoting::{quote_identifier, quote_literal};
use crate::restore_combinations;
use crate::restore_connections::{OWNER, RestoreConnections};
use crate::restore_ranges::INDEX_VALUE_MAJOR;

/// First version with collations of statistics.
const COLLATIONS_MAJOR: u16 = 12;
/// First version with a catalogue for the data of extended statistics.
const EXTENDED_DATA_MAJOR: u16 = 12;
/// First version in which that catalogue distinguishes inheritance.
const EXTENDED_INHERIT_MAJOR: u16 = 15;
/// Schema of the view through which statistics are written.
const WRITING: &str = "rehearse_statistics";
/// Rows that one query writes.
const BATCH: usize = 50;
/// Number of slots of `pg_statistic`.
const SLOTS: usize = 5;

/// Permits the owner of the database to write statistics of columns, and to read those that it makes.
pub(crate) fn permit_writes(superuser: &mut QueryConnection<'_>) -> Result<(), LoginError> {
    let owner = quote_identifier(OWNER);
    superuser.query(&format!(
        "CREATE SCHEMA {WRITING}; CREATE VIEW {WRITING}.pg_statistic AS SELECT * FROM pg_catalog.pg_statistic; \
         GRANT USAGE ON SCHEMA {WRITING} TO {owner}; GRANT SELECT, INSERT ON {WRITING}.pg_statistic TO {owner}; \
         GRANT SELECT ON ALL TABLES IN SCHEMA pg_catalog TO PUBLIC"
    ))?;
    Ok(())
}

/// Ends the permission to write.
pub(crate) fn end_writes(superuser: &mut QueryConnection<'_>) -> Result<(), LoginError> {
    superuser.query(&format!(
        "DROP VIEW {WRITING}.pg_statistic; DROP SCHEMA {WRITING}"
    ))?;
    Ok(())
}

/// Writes the statistics of columns.
pub(crate) fn write_columns(
    owner: &mut QueryConnection<'_>,
    export: &PlannerExport,
    major: u16,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    for batch in export.statistics.chunks(BATCH) {
        let texts: Vec<String> = batch.iter().map(|one| insert(one, major)).collect();
        if owner.query(&texts.join(";\n")).is_ok() {
            continue;
        }
        for (column, text) in batch.iter().zip(&texts) {
            if let Err(error) = owner.query(text) {
                if owner.is_closed() {
                    return Err(error);
                }
                left_out.push(NotRestored {
                    subject: format!("statistics of {}", column.describe()),
                    // Its message may have a value.
                    reason: format!(
                        "the server refuses them ({})",
                        String::from_utf8_lossy(&error.sqlstate)
                    ),
                });
            }
        }
    }
    Ok(())
}

/// Returns the statement that writes the statistics of one column. It writes nothing if there is no such column.
fn insert(column: &ColumnStatistics, major: u16) -> String {
    let mut names = vec![
        "starelid",
        "staattnum",
        "stainherit",
        "stanullfrac",
        "stawidth",
        "stadistinct",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    let mut values = vec![
        "a.attrelid".to_owned(),
        "a.attnum".to_owned(),
        column.inherited.to_string(),
        column.null_fraction.to_string(),
        column.width.to_string(),
        column.distinct.to_string(),
    ];
    for place in 0..SLOTS {
        let slot = column.slots.get(place);
        let number = place + 1;
        let mut add = |name: &str, value: String| {
            names.push(format!("{name}{number}"));
            values.push(value);
        };
        add("stakind", slot.map_or(0, |slot| slot.kind).to_string());
        let operator = slot.and_then(|slot| slot.operator.as_ref());
        add(
            "staop",
            operator.map_or("0".to_owned(), |name| {
                format!("{}::pg_catalog.regoperator", quote_literal(name))
            }),
        );
        if major >= COLLATIONS_MAJOR {
            let collation = operator.map_or("0", |_| "a.attcollation");
            add("stacoll", collation.to_owned());
        }
        let numbers = slot.and_then(|slot| slot.numbers.as_ref());
        add(
            "stanumbers",
            numbers.map_or("NULL".to_owned(), |text| {
                format!("{}::real[]", quote_literal(text))
            }),
        );
        let range = column.range.as_ref().filter(|_| major < INDEX_VALUE_MAJOR);
        add(
            "stavalues",
            slot.map_or("NULL".to_owned(), |slot| array(slot, range)),
        );
    }
    let condition = match &column.column {
        Some(name) => format!("a.attname = {}", quote_literal(name)),
        None => format!("a.attnum = {}", column.number),
    };
    format!(
        "INSERT INTO {WRITING}.pg_statistic ({}) SELECT {} FROM pg_catalog.pg_attribute a \
         WHERE a.attrelid = pg_catalog.to_regclass({}) AND {condition} AND NOT a.attisdropped",
        names.join(", "),
        values.join(", "),
        quote_literal(&format!(
            "{}.{}",
            quote_identifier(&column.schema),
            quote_identifier(&column.relation)
        ))
    )
}

/// Returns an expression for the values of a slot. `range` replaces the ends of a histogram.
fn array(slot: &StatisticsSlot, range: Option<&(String, String)>) -> String {
    let (Some(values), Some(value_type)) = (&slot.values, &slot.value_type) else {
        return "NULL".to_owned();
    };
    let values = quote_literal(values);
    let text = match range {
        // The planner replaces an end only of a histogram of more than two values.
        Some((low, high)) if slot.kind == 2 => format!(
            "(SELECT CASE WHEN pg_catalog.array_length(v, 1) > 2 THEN (ARRAY[{}] || v[2:pg_catalog.array_length(v, 1) - 1] \
             || ARRAY[{}])::text ELSE v::text END FROM (SELECT {values}::text[] AS v) AS bounds)",
            quote_literal(low),
            quote_literal(high)
        ),
        _ => format!("{values}::text"),
    };
    format!(
        "pg_catalog.array_in(pg_catalog.textout({text}), {}::pg_catalog.regtype, -1)",
        quote_literal(value_type)
    )
}

/// Writes the data of extended statistics.
pub(crate) fn write_extended(
    connections: &mut RestoreConnections<'_>,
    export: &PlannerExport,
    major: u16,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    if export.extended_statistics.is_empty() {
        return Ok(());
    }
    // The types accept no text. A cast from bytes is possible, since both are stored alike.
    let mut types = vec!["pg_ndistinct", "pg_dependencies"];
    if major >= EXTENDED_DATA_MAJOR {
        types.push("pg_mcv_list");
    }
    for name in types {
        connections.superuser.query(&format!(
            "CREATE CAST (bytea AS pg_catalog.{name}) WITHOUT FUNCTION"
        ))?;
    }
    for one in &export.extended_statistics {
        let list = one.combinations.as_deref();
        let mcv = match list.filter(|_| major >= EXTENDED_DATA_MAJOR) {
            Some(list) => {
                restore_combinations::serialise(&mut connections.owner, (one, list), major)
                    .unwrap_or_else(|reason| {
                        left_out.push(NotRestored {
                            subject: format!(
                                "most common values of the extended statistics {}.{}",
                                one.schema, one.name
                            ),
                            reason,
                        });
                        None
                    })
            }
            None => None,
        };
        let sql = write_one(one, mcv.as_ref(), major);
        if let Err(error) = connections.superuser.query(&sql) {
            left_out.push(NotRestored {
                subject: format!(
                    "data of the extended statistics {}.{}",
                    one.schema, one.name
                ),
                reason: error.message,
            });
        }
    }
    Ok(())
}

fn write_one(one: &ExtendedStatistics, mcv: Option<&String>, major: u16) -> String {
    let value = |hex: Option<&String>, name: &str| match hex {
        Some(hex) => format!(
            "{}::bytea::pg_catalog.{name}",
            quote_literal(&format!("\\x{hex}"))
        ),
        None => "NULL".to_owned(),
    };
    let ndistinct = value(one.ndistinct.as_ref(), "pg_ndistinct");
    let dependencies = value(one.dependencies.as_ref(), "pg_dependencies");
    let condition = format!(
        "s.stxnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = {}) AND s.stxname = {}",
        quote_literal(&one.schema),
        quote_literal(&one.name)
    );
    if major < EXTENDED_DATA_MAJOR {
        return format!(
            "UPDATE pg_catalog.pg_statistic_ext s SET stxndistinct = {ndistinct}, stxdependencies = {dependencies} WHERE {condition}"
        );
    }
    let mcv = value(mcv, "pg_mcv_list");
    let (column, inherited) = match major >= EXTENDED_INHERIT_MAJOR {
        true => ("stxdinherit, ", format!("{}, ", one.inherited)),
        false => ("", String::new()),
    };
    // Up to 14, CREATE STATISTICS makes an empty row.
    let same = match major >= EXTENDED_INHERIT_MAJOR {
        true => format!(" AND stxdinherit = {}", one.inherited),
        false => String::new(),
    };
    format!(
        "DELETE FROM pg_catalog.pg_statistic_ext_data WHERE stxoid IN (SELECT s.oid FROM pg_catalog.pg_statistic_ext s \
         WHERE {condition}){same}; \
         INSERT INTO pg_catalog.pg_statistic_ext_data (stxoid, {column}stxdndistinct, stxddependencies, stxdmcv) \
         SELECT s.oid, {inherited}{ndistinct}, {dependencies}, {mcv} FROM pg_catalog.pg_statistic_ext s WHERE {condition}"
    )
}
