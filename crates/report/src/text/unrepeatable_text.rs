//! Text on statements whose conditions depend on the time, on chance or on the server.

use workload::UnrepeatableStatement;

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted};

/// Maximum number of statements.
const STATEMENTS_MAX: usize = 8;

/// Returns the section, starting with an empty line; nothing if there are no such statements.
pub(super) fn lines(statements: &[UnrepeatableStatement], style: TextStyle) -> Vec<String> {
    if statements.is_empty() {
        return Vec::new();
    }
    let executions = statements.iter().map(|one| one.executions).sum();
    let title = format!(
        "Conditions that may find other rows in a replay, of {} with {}",
        counted(statements.len() as u64, "statement"),
        counted(executions, "execution")
    );
    let mut table = Table::new(&[Align::Right, Align::Left]);
    let width = style.columns();
    for one in statements.iter().take(STATEMENTS_MAX) {
        let calls = calls(one.calls.iter().map(|call| call.name));
        let room = width.saturating_sub(calls.chars().count() + 16);
        let sql = one_line(&one.sql, room);
        table.row([
            format!("  {}", count(one.executions)),
            format!("{calls}  {sql}"),
        ]);
    }
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    lines.extend(table.lines());
    let rest = statements.len().saturating_sub(STATEMENTS_MAX);
    if rest > 0 {
        lines.push(format!("  and {} more; --json has all", count(rest as u64)));
    }
    lines
}

/// Lists the names of calls.
pub(super) fn calls<'c>(names: impl Iterator<Item = &'c str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
