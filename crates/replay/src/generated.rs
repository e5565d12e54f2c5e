//! Values that the server generated in the capture (sequence numbers, UUIDs, snapshots), and the values that it
//! generates in the replay.
//!
//! ```text
//! workload ─► Provenance (one pass) ─► ValueTracker (dispatcher) ─► Job: expected values, used values
//!                                                                      │              │
//!                                                         answer ─► ReplayedValues ─► messages to send
//! ```
//!
//! A value is followed by its *origin*: the column of the result in which it came. [`Provenance`] decides, for each
//! place of each statement, which origins its values have. [`ValueTracker`] finds the execution that a used value comes
//! from, in any session. So a quantity of 1,001 stays as it is if the order number 1,001 became 6,001.
//!
//! The first row of a result is known, and all rows of `INSERT … RETURNING`. Values are followed into the elements of arrays
//! and the members of JSON documents that are parameters ([`parts`]), not into longer texts, and not into literals of arrays
//! and documents.

mod array_elements;
mod event_values;
mod expected_rows;
mod key_columns;
mod parts;
mod provenance;
mod replayed_values;
mod rewrite;
mod tracker;
mod value;

pub(crate) use event_values::{
    PlacedValue, PlacesCache, StatementPlaces, add_elements_at, add_result_texts, add_text_at,
};
pub(crate) use expected_rows::{ExpectedRows, READ_BYTES_MAX, ReplayedValue};
pub(crate) use key_columns::{ColumnName, KeyColumns};
pub(crate) use provenance::{Place, Provenance, ProvenancePass, names_column};
pub(crate) use replayed_values::{ReplayedValues, VALUES_MAX};
pub(crate) use rewrite::replace_values;
pub(crate) use tracker::{Tracked, UsedValue, ValueSource, ValueTracker};
pub(crate) use value::Value;

#[cfg(test)]
mod tests;
