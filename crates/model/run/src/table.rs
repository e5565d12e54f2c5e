//! Columns of executions, and functions that write and read one row.

use archive::{ArchiveError, Batch, Column, ColumnType, TableWriter};
use sql::Fingerprint;
use workload::{ContextId, Sqlstate, TraceParent};

use crate::execution::{Captured, Execution, Outcome, SkipReason, SourceLocation, StatementKind};

use ColumnType::{I64, Text, U64};

/// Columns of `executions`.
pub(crate) const EXECUTION: &[Column] = &[
    Column::required("session", U64),
    Column::required("sequence", U64),
    Column::nullable("fingerprint", U64).low_cardinality(),
    Column::required("kind", Text),
    Column::required("outcome", Text),
    Column::nullable("reason", Text),
    Column::required("due_ns", I64),
    Column::nullable("sent_ns", I64),
    Column::nullable("first_byte_ns", I64),
    Column::nullable("done_ns", I64),
    Column::required("session_lag_ns", U64),
    Column::required("rows", U64),
    Column::required("bytes", U64),
    Column::nullable("sqlstate", Text),
    Column::nullable("message", Text),
    Column::nullable("captured_duration_us", U64),
    Column::nullable("captured_rows", U64),
    Column::nullable("captured_sqlstate", Text),
    Column::later("captured_source", U64),
    Column::later("captured_line", U64),
    // Since format 3.
    Column::later("result_digest", U64),
    Column::later("captured_result_digest", U64),
    // Since format 6.
    Column::later("stalled_ns", U64),
    // Since format 7.
    Column::later("context", U64).low_cardinality(),
    Column::later("traceparent", Text),
];

pub(crate) fn write_execution(
    table: &mut TableWriter,
    execution: &Execution,
) -> Result<(), ArchiveError> {
    let (outcome, reason, sqlstate) = match &execution.outcome {
        Outcome::Done => ("done", None, None),
        Outcome::Failed(sqlstate) => ("failed", None, Some(sqlstate)),
        Outcome::Skipped(reason) => ("skipped", Some(reason.name()), None),
    };
    table.u64(execution.session);
    table.u64(execution.sequence);
    table.u64(execution.fingerprint.map(|fingerprint| fingerprint.0));
    table.text(execution.kind.name());
    table.text(outcome);
    table.text(reason);
    table.i64(execution.due_ns);
    table.i64(execution.sent_ns);
    table.i64(execution.first_byte_ns);
    table.i64(execution.done_ns);
    table.u64(execution.session_lag_ns);
    table.u64(execution.rows);
    table.u64(execution.bytes);
    table.text(sqlstate.map(Sqlstate::as_str));
    table.text(execution.message.as_deref());
    table.u64(execution.captured.duration_us);
    table.u64(execution.captured.rows);
    table.text(execution.captured.sqlstate.as_ref().map(Sqlstate::as_str));
    let place = execution.captured.location;
    let place = place.filter(|_| execution.differs_from_capture());
    table.u64(place.map(|place| u64::from(place.source)));
    table.u64(place.map(|place| place.line));
    table.u64(execution.digest);
    table.u64(execution.captured.digest);
    table.u64((execution.stalled_ns > 0).then_some(execution.stalled_ns));
    table.u64(execution.captured.context.map(|context| context.0));
    let trace = execution.captured.trace.map(|trace| trace.to_string());
    table.text(trace.as_deref());
    table.end_row()
}

/// Reads the execution in a row of [`EXECUTION`]. An error describes what is wrong.
pub(crate) fn read_execution(batch: &Batch, row: usize) -> Result<Execution, String> {
    let sqlstate = |column| match batch.text(column, row) {
        None => Ok(None),
        Some(text) => Sqlstate::parse(text)
            .map(Some)
            .ok_or_else(|| format!("'{text}' is no SQLSTATE")),
    };
    let kind = batch.text(3, row).unwrap_or_default();
    let kind = StatementKind::from_name(kind)
        .ok_or_else(|| format!("an execution of unknown kind '{kind}'"))?;
    let outcome = match batch.text(4, row).unwrap_or_default() {
        "done" => Outcome::Done,
        "failed" => {
            Outcome::Failed(sqlstate(13)?.ok_or_else(|| "a failure without SQLSTATE".to_owned())?)
        }
        "skipped" => {
            let reason = batch.text(5, row).unwrap_or_default();
            Outcome::Skipped(
                SkipReason::from_name(reason)
                    .ok_or_else(|| format!("skipped for unknown reason '{reason}'"))?,
            )
        }
        other => return Err(format!("an execution of unknown outcome '{other}'")),
    };
    Ok(Execution {
        session: batch.u64(0, row).unwrap_or_default(),
        sequence: batch.u64(1, row).unwrap_or_default(),
        fingerprint: batch.u64(2, row).map(Fingerprint),
        kind,
        outcome,
        due_ns: batch.i64(6, row).unwrap_or_default(),
        sent_ns: batch.i64(7, row),
        first_byte_ns: batch.i64(8, row),
        done_ns: batch.i64(9, row),
        session_lag_ns: batch.u64(10, row).unwrap_or_default(),
        stalled_ns: batch.u64(22, row).unwrap_or_default(),
        rows: batch.u64(11, row).unwrap_or_default(),
        bytes: batch.u64(12, row).unwrap_or_default(),
        digest: batch.u64(20, row),
        message: batch.text(14, row).map(str::to_owned),
        captured: Captured {
            duration_us: batch.u64(15, row),
            rows: batch.u64(16, row),
            sqlstate: sqlstate(17)?,
            digest: batch.u64(21, row),
            context: batch.u64(23, row).map(ContextId),
            trace: batch.text(24, row).and_then(TraceParent::parse),
            location: batch
                .u64(18, row)
                .zip(batch.u64(19, row))
                .and_then(|(source, line)| SourceLocation::of(u32::try_from(source).ok()?, line)),
        },
    })
}
