//! Reads the server's log, from the first statement of a replay to the last, for messages about the server
//! itself. Lines that quote statements or values are counted, not recorded.

use std::collections::BTreeMap;
use std::fmt::Write;

use run::{Artefact, Moment};

use super::{ArtefactList, reason};
use crate::probe_connection::{ProbeConnection, ProbeError};

const LOG_POSITION: &str = "server/log-place";
const LOG: &str = "server/log";
/// Maximum number of bytes to read.
const BYTES_MAX: u64 = 1 << 20;

/// Beginnings of messages about the server itself, which hold fixed words and names of relations only
/// (PostgreSQL's sources: `xlog.c`, `vacuumlazy.c`, `postmaster.c`, `autovacuum.c`, `guc.c`, `proc.c`).
const OWN_MESSAGES: [&str; 22] = [
    "checkpoint starting",
    "checkpoint complete",
    "checkpoints are occurring too frequently",
    "restartpoint ",
    "automatic vacuum of table",
    "automatic aggressive vacuum of table",
    "automatic analyze of table",
    "autovacuum launcher",
    "database system",
    "all server processes terminated",
    "starting PostgreSQL",
    "listening on",
    "received ",
    "shutting down",
    "aborting any active transactions",
    "server process ",
    "terminating any other active server processes",
    "background worker ",
    "redo ",
    "process ",
    "temporary file:",
    "logical replication ",
];

/// Runs a query with one row of texts.
fn row(
    connection: &mut ProbeConnection<'_>,
    question: &str,
) -> Result<Vec<Option<String>>, ProbeError> {
    let rows = connection.query(question)?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

pub(super) fn gather(
    artefacts: &mut ArtefactList,
    connection: &mut ProbeConnection<'_>,
    moment: Moment,
    begun: &[Artefact],
) {
    const HOW: &str =
        "SELECT pg_current_logfile('stderr') AS file, (pg_stat_file(file, true)).size";
    let question = "SELECT f, (pg_stat_file(f, true)).size FROM pg_current_logfile('stderr') f";
    let place = match row(connection, question) {
        Ok(row) => match row.as_slice() {
            [Some(file), Some(size)] => Ok((file.clone(), size.parse::<u64>().unwrap_or(0))),
            _ => Err(
                "the server collects no log of its own in plain text (logging_collector, log_destination)"
                    .to_owned(),
            ),
        },
        Err(unable) => Err(reason(unable)),
    };
    match (&place, moment) {
        (Ok((file, size)), Moment::Before) => {
            artefacts.add(LOG_POSITION, HOW, format!("{size} {file}"))
        }
        (Err(reason), Moment::Before) => artefacts.add_missing(LOG_POSITION, HOW, reason.clone()),
        (Ok((file, size)), Moment::After) => {
            let before = begun
                .iter()
                .find(|one| one.name == LOG_POSITION)
                .and_then(|one| one.content.as_deref())
                .and_then(|place| place.split_once(' '));
            let from = match before {
                Some((size, known)) if known == file => size.parse().unwrap_or(0),
                // The log was rotated meanwhile. The rest of the previous file is not available.
                _ => 0,
            };
            read(artefacts, connection, file, from.min(*size), *size);
        }
        (Err(reason), Moment::After) => artefacts.add_missing(LOG, HOW, reason.clone()),
    }
}

fn read(
    artefacts: &mut ArtefactList,
    connection: &mut ProbeConnection<'_>,
    file: &str,
    from: u64,
    until: u64,
) {
    let bytes = (until - from).min(BYTES_MAX);
    let quoted = file.replace('\'', "''");
    let how = format!("SELECT pg_read_binary_file('{quoted}', {from}, {bytes})");
    let question =
        format!("SELECT encode(pg_read_binary_file('{quoted}', {from}, {bytes}), 'escape')");
    match row(connection, &question) {
        Ok(row) => {
            let text = row.into_iter().next().flatten().unwrap_or_default();
            let mut kept = own_lines(&text);
            if until - from > bytes {
                let rest = until - from - bytes;
                let _ = writeln!(kept, "({rest} bytes more were not read)");
            }
            artefacts.add(
                LOG,
                &format!("{how}, and of that what the server says of itself"),
                kept,
            );
        }
        Err(unable) => artefacts.add_missing(LOG, &how, reason(unable)),
    }
}

/// Returns the lines about the server itself, and the number of other lines.
fn own_lines(log: &str) -> String {
    let mut kept = String::new();
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    let mut is_kept = false;
    for line in log.lines() {
        if line.starts_with('\t') {
            // Continuation of the message above.
            if is_kept {
                kept.push_str(line);
                kept.push('\n');
            }
            continue;
        }
        let message = line.split_once(":  ");
        let severity = message.map_or("", |(before, _)| {
            before.rsplit([' ', ']']).next().unwrap_or_default()
        });
        is_kept = severity == "LOG"
            && message.is_some_and(|(_, message)| {
                OWN_MESSAGES
                    .iter()
                    .any(|opening| message.starts_with(opening))
            });
        if is_kept {
            kept.push_str(line);
            kept.push('\n');
        } else {
            let is_severity =
                !severity.is_empty() && severity.bytes().all(|b| b.is_ascii_uppercase());
            *others
                .entry(if is_severity { severity } else { "other" })
                .or_default() += 1;
        }
    }
    for (severity, count) in others {
        let _ = writeln!(kept, "({count} lines {severity}, not kept)");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_that_quote_statements_are_only_counted() {
        let log = "\
2026-01-01 10:00:00.000 UTC [1] LOG:  checkpoint starting: time\n\
2026-01-01 10:00:00.100 UTC [7] app@shop LOG:  duration: 1 ms  statement: SELECT 'secret'\n\
\t, 'more of it'\n\
2026-01-01 10:00:00.200 UTC [7] app@shop ERROR:  value \"secret\" is wrong\n\
2026-01-01 10:00:00.200 UTC [7] app@shop STATEMENT:  checkpoint starting: secret\n\
2026-01-01 10:00:00.300 UTC [9] LOG:  automatic vacuum of table \"shop.public.item\": index scans: 0\n\
\tpages: 0 removed, 1 remain\n\
secret without a severity\n";
        let kept = own_lines(log);
        assert!(!kept.contains("secret"), "{kept}");
        assert_eq!(
            kept,
            "2026-01-01 10:00:00.000 UTC [1] LOG:  checkpoint starting: time\n\
2026-01-01 10:00:00.300 UTC [9] LOG:  automatic vacuum of table \"shop.public.item\": index scans: 0\n\
\tpages: 0 removed, 1 remain\n\
(1 lines ERROR, not kept)\n(1 lines LOG, not kept)\n(1 lines STATEMENT, not kept)\n(1 lines other, not kept)\n"
        );
    }
}
