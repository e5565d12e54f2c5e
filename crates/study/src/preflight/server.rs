//! The state and limits of the target, and what is between it and the replay.

use connect::login::QueryConnection;

use super::{Context, Preflight, Severity};
use crate::connection_limit::{Shortage, TargetRoom, find_shortage};

const SERVER_SQL: &str = "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'), pg_backend_pid()";

pub(super) fn check(
    context: &Context<'_>,
    questions: &mut QueryConnection<'_>,
    result: &mut Preflight,
) {
    let announced = questions.process_id();
    let Some(row) = questions
        .query(&format!("{SERVER_SQL}, {}", TargetRoom::COLUMNS))
        .ok()
        .and_then(|mut rows| rows.pop())
    else {
        return;
    };
    let text = |column: usize| {
        row.get(column)
            .and_then(Option::as_deref)
            .unwrap_or_default()
    };
    let writes = context.reader.info().writes;
    let will_write = writes > 0 && !context.options.read_only.is_on();
    if text(0) == "t" && will_write {
        result.add(
            Severity::Fails,
            writes,
            "the target is in recovery, as a standby is: it refuses writes (25006)".to_owned(),
            "end the recovery with SELECT pg_promote() (pg_ctl promote), or replay with --read-only".to_owned(),
        );
    } else if text(1) == "on" && will_write {
        result.add(
            Severity::Fails,
            writes,
            "default_transaction_read_only is on for the target's sessions: they refuse writes (25006)".to_owned(),
            "ALTER DATABASE … SET default_transaction_read_only = off, or ALTER ROLE".to_owned(),
        );
    }
    if text(2).parse() != Ok(announced) {
        result.add(
            Severity::MayDiffer,
            0,
            format!(
                "a pooler or proxy answers at {}: the process that serves is not the one that was announced",
                context.target.address()
            ),
            "give the server's own address in --target: a pooler adds its own waits, shares sessions' state, and limits connections".to_owned(),
        );
    }
    if let Some(room) = row.get(3..).and_then(TargetRoom::from_columns)
        && let Some(Shortage { message, remedy }) = find_shortage(
            replay::connections_needed(context.reader, context.options),
            room,
        )
    {
        result.add(Severity::Fails, 0, message, remedy);
    }
}
