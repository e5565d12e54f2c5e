//! Takes statements from pgAudit's lines, if they are logged in no other way.
//!
//! `AUDIT: SESSION,statement_id,substatement_id,class,command,object_type,object_name,statement,parameter`,
//! quoted as CSV (pgAudit's README, "Format"; its `log_audit_event`). It is written while the
//! statement is executed: after the lines that mark a start, before those that mark an end.
//!
//! - Lines with the same statement_id are one statement: relations, functions and what these
//!   execute. The first has the client's text, except that `EXECUTE` follows what it executed.
//! - Each command of a text of several has its own statement_id and the whole text.
//! - Parameters are a CSV record within a field. NULL and an empty text look the same there, so a
//!   statement with such a value is not replayable.
//! - Numbers are without gaps, also if a statement is not logged.

use workload::{PackedParameters, Unreplayable};

use super::super::entry::Entry;
use super::super::first_words::starts_with_word;
use super::super::reconcile::SkipReason;
use super::super::statement::count_placeholders;
use super::Output;
use super::exchange::{Exchange, LogLines, Protocol, Sql, Stage, ValueSource};
use super::session::LiveSession;
use capture_sink::SinkError;

/// One line of pgAudit.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    number: u64,
    command: String,
    sql: String,
    parameters: String,
}

impl Record {
    /// Parses the text after `AUDIT: `; `None` if it is no line with a statement.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = split_csv(text)?;
        if fields.len() < 9 || !matches!(&*fields[0], "SESSION" | "OBJECT") {
            return None;
        }
        let mut take = |index: usize| std::mem::take(&mut fields[index]);
        let record = Record {
            number: take(1).parse().ok()?,
            command: take(4),
            sql: take(7),
            parameters: take(8),
        };
        let has_text = !matches!(&*record.sql, "" | "<not logged>" | "<previously logged>");
        (has_text && record.number > 0).then_some(record)
    }

    /// Returns whether the text is that of a PREPARE, of which an EXECUTE that is not logged executed
    /// the statement.
    fn is_of_execute(&self) -> bool {
        self.command != "PREPARE" && starts_with_word(&self.sql, "prepare")
    }
}

impl LiveSession {
    /// Handles a line of pgAudit.
    pub(super) fn handle_audit(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        record: &str,
    ) -> Result<(), SinkError> {
        let Some(record) = Record::parse(record) else {
            output.skip(SkipReason::Audit, entry);
            return Ok(());
        };
        let last = std::mem::replace(&mut self.audited.number, record.number);
        if record.number == last {
            return self.continue_audited(output, entry, &record);
        }
        if self.is_next_command(&record) {
            self.audited.commands -= 1;
            return self.continue_audited(output, entry, &record);
        }
        let commands = sql::split_statements(&record.sql).len();
        self.audited.commands = commands.saturating_sub(1);
        if let Some(pending) = &mut self.pending
            && is_logged_as(pending, &record)
        {
            pending.logged = LogLines::StatementAndAudit;
            output.skip(SkipReason::Audit, entry);
            return Ok(());
        }
        self.open(output, entry, entry.wall_us)?;
        self.finish_pending(output)?;
        self.skip_pending_durations(output);
        // A session that began before the log has an unknown first number.
        let before = if last == 0 && !self.is_whole() {
            record.number - 1
        } else {
            last
        };
        let tallies = &mut output.account.tallies;
        tallies.unaudited += record.number.saturating_sub(before + 1);
        tallies.audited += 1;
        self.pending = Some(audited_exchange(output, entry, &record));
        Ok(())
    }

    /// Returns whether a line is of another command of the pending text.
    fn is_next_command(&self, record: &Record) -> bool {
        self.audited.commands > 0
            && (self.pending.as_ref()).is_some_and(|pending| {
                matches!(
                    pending.logged,
                    LogLines::StatementAndAudit | LogLines::AuditOnly
                ) && pending.is_text(&record.sql)
            })
    }

    /// Handles another line of the last statement.
    fn continue_audited(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        record: &Record,
    ) -> Result<(), SinkError> {
        match &mut self.pending {
            Some(pending) if pending.logged == LogLines::AuditOnly => {
                if record.command == "EXECUTE" && starts_with_word(&record.sql, "execute") {
                    pending.replace_text(&record.sql);
                    pending.protocol = Protocol::Simple;
                    pending.value_source = ValueSource::None;
                    pending.unreplayable = None;
                }
                pending.lines += entry.lines;
            }
            _ => output.skip(SkipReason::Audit, entry),
        }
        Ok(())
    }

    /// Drops the pending statement of pgAudit if a line at its end logs it as well.
    #[inline]
    pub(super) fn drop_audited(
        &mut self,
        output: &mut Output<'_>,
        sql: &str,
        duration_us: Option<u64>,
    ) {
        let is_same = |pending: &mut Box<Exchange>| {
            pending.logged == LogLines::AuditOnly && duration_us.is_some() && pending.is_text(sql)
        };
        if let Some(audited) = self.pending.take_if(is_same) {
            output.account.tallies.audited -= 1;
            (output.account).skip(SkipReason::Audit, audited.lines, audited.place);
            output.recycle(audited);
        }
    }
}

/// Returns whether a statement in progress, of which other lines are in the log, is that of a record.
fn is_logged_as(pending: &Exchange, record: &Record) -> bool {
    let in_progress = pending.sqlstate.is_none() && pending.stage != Stage::Done;
    let executes = starts_with_word(pending.sql(), "execute");
    pending.logged == LogLines::Statement
        && in_progress
        && (executes || pending.is_text(&record.sql))
}

fn audited_exchange(output: &mut Output<'_>, entry: &Entry<'_>, record: &Record) -> Box<Exchange> {
    let no_name = output.no_name.clone();
    let count = count_placeholders(&record.sql);
    let protocol = match count {
        0 => Protocol::Simple,
        _ => Protocol::Extended,
    };
    let names = (&no_name, &no_name, Sql::Own(&record.sql));
    let mut exchange = output.exchange((protocol, Stage::Running), names, entry, None);
    exchange.logged = LogLines::AuditOnly;
    if record.is_of_execute() {
        exchange.unreplayable = Some(Unreplayable::StatementUnknown);
    } else if count > 0 && parse_values(&record.parameters, count, &mut exchange.parameters) {
        exchange.value_source = ValueSource::Detail;
    }
    exchange
}

/// Parses the values of a parameter field. Returns whether they are all known.
fn parse_values(field: &str, count: usize, values: &mut PackedParameters) -> bool {
    values.clear();
    let Some(fields) = split_csv(field) else {
        return false;
    };
    let is_known = |value: &String| {
        !matches!(
            &**value,
            "" | "<none>" | "<not logged>" | "<long param suppressed>"
        )
    };
    if fields.len() != count || !fields.iter().all(is_known) {
        return false;
    }
    for value in &fields {
        values.push_text(value);
        values.end_value();
    }
    true
}

/// Splits a CSV record; `None` if a quote is not closed.
fn split_csv(mut text: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    loop {
        let mut field = String::new();
        if let Some(quoted) = text.strip_prefix('"') {
            text = quoted;
            loop {
                let end = text.find('"')?;
                field.push_str(&text[..end]);
                text = &text[end + 1..];
                match text.strip_prefix('"') {
                    Some(rest) => {
                        field.push('"');
                        text = rest;
                    }
                    None => break,
                }
            }
        }
        let end = text.find(',').unwrap_or(text.len());
        field.push_str(&text[..end]);
        fields.push(field);
        match text.get(end + 1..) {
            Some(rest) => text = rest,
            None => return Some(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_record_is_csv_within_csv() {
        let text = "SESSION,2,1,WRITE,INSERT,,,\"insert into t values ($1,\n\"\"x\"\")\",\"1,\"\"a,\"\"\"\"b\"\"\"\"\"\"\"";
        let record = Record::parse(text).unwrap();
        assert_eq!(record.sql, "insert into t values ($1,\n\"x\")");
        assert_eq!(split_csv(&record.parameters).unwrap(), ["1", "a,\"b\""]);
        for unusable in [
            "SESSION,1,1,READ,SELECT,,,<not logged>,<not logged>",
            "SESSION,1,1,READ,SELECT,,,<previously logged>,<previously logged>",
            "SESSION,1,1,READ,SELECT,,,\"select 1",
            "SESSION,x,1,READ,SELECT,,,select 1,<none>",
            "OTHER,1,1,READ,SELECT,,,select 1,<none>",
        ] {
            assert_eq!(Record::parse(unusable), None, "{unusable}");
        }
    }
}
