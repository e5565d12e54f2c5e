//! Accounts for every physical line that was read: it is in an event, skipped with a reason, or
//! unreadable. The three add up to the total.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quality_counters::QualityCounters;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $words:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Describes the reason, and the change that avoids it next time if there is one.
            pub fn explanation(self) -> &'static str {
                match self { $($name::$variant => $words,)* }
            }
        }
    };
}

reasons! {
    /// Reason why a valid line is no part of an event.
    SkipReason {
        /// An empty line.
        Blank = "empty lines",
        /// LOG messages without a client's statement.
        ServerMessage = "other messages of the server",
        /// Warnings, notices and debug messages.
        Notice = "warnings and notices to clients",
        /// Checkpoints and restartpoints.
        Checkpoint = "checkpoints",
        /// Automatic vacuum and analyze.
        Autovacuum = "autovacuum",
        /// Lock waits.
        LockWait = "lock waits",
        /// Temporary files.
        TemporaryFile = "temporary files",
        /// Plans of auto_explain.
        Plan = "plans written by auto_explain",
        /// pgAudit's lines.
        Audit = "audit lines of pgAudit that hold no statement of a client, or one that is logged otherwise",
        /// Replication connections.
        Replication = "replication connections; they are no clients' traffic",
        /// Parallel workers.
        ParallelWorker = "parallel workers; their leader's statement counts",
        /// The server's own processes.
        BackgroundProcess = "the server's own processes",
        /// Connections that never became a session.
        ConnectionWithoutSession = "connections that never became a session: cancel requests, health checks, failed logins",
        /// Bare durations.
        DurationWithoutStatement = "durations without a statement; set log_min_duration_statement = 0",
        /// Texts that look like the server's but came from a statement.
        Forged = "messages that statements wrote with RAISE and that look like the server's own",
        /// Lines that can be read in two ways.
        Ambiguous = "lines with two readings, since a user, database or application name contains text like the log's own; write csvlog or jsonlog, or a log_line_prefix without %u, %d and %a",
        /// Calls by the fast-path protocol.
        FastPath = "fast-path function calls; their arguments are not in a log",
        /// Errors without a statement.
        ErrorOutsideStatement = "errors without their statement; set log_min_error_statement = error",
        /// Messages in another language, which may be statements.
        Translated = "messages in another language; set lc_messages = 'C'",
        /// DETAIL, CONTEXT or STATEMENT without the message that they belong to.
        Detached = "lines that belong to a message which does not stand before them",
        /// Memory dumps of out-of-memory errors.
        MemoryContexts = "memory contexts of an out-of-memory error",
        /// Lines that another file has, too.
        Duplicate = "lines that another of the files has as well; they count once",
        /// Brackets around records, other lines of a command.
        Wrapping = "lines of the file's own format around the server's messages",
        /// Lines of other programs, such as cron's in a syslog.
        OtherProgram = "lines of other programs than the server",
        /// Lines of another host, instance or pod.
        OtherServer = "lines of another server than the one with the most messages at the beginning; capture each server's log separately",
    }
}

reasons! {
    /// Reason why a line could not be read.
    UnreadableReason {
        /// It does not match the prefix.
        NoPrefix = "it does not start with the log_line_prefix",
        /// An envelope split it into parts, and one of them is missing.
        PartMissing = "a part of the message is missing between its other parts",
        /// It continues an entry that is missing.
        LooseContinuation = "it continues an entry whose beginning is not there",
        /// Two processes wrote at once.
        Torn = "another process's message is written into it",
        /// It is no record of the format.
        NoRecord = "it is no record of this format",
        /// It has an unknown number of columns.
        Columns = "it has another number of columns than any csvlog",
        /// It is not UTF-8.
        Encoding = "it is not in UTF-8; databases of other encodings cannot be replayed yet",
        /// It is in another language.
        Translated = "it is in another language; set lc_messages = 'C'",
        /// The input ends within it.
        CutAtEnd = "the input ends within it",
        /// Longer than 256 MiB.
        TooLong = "longer than 256 MiB",
    }
}

/// A position in the inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// Index into the sources.
    pub source: u32,
    /// The physical line, from 1.
    pub line: u64,
}

/// Lines that were skipped for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Number of physical lines.
    pub lines: u64,
    /// Position of the first one.
    pub first: Location,
}

/// Position of an unreadable line. Its text may contain the user's data, and is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableLine {
    /// Name of the input, as the user gave it.
    pub file: String,
    /// Position of the line; of several lines that belong together, the first.
    #[serde(flatten)]
    pub at: Location,
    /// Number of lines that belong together.
    pub lines: u64,
    /// Reason.
    pub reason: UnreadableReason,
}

/// Unreadable lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// Number of physical lines.
    pub lines: u64,
    /// Lines by reason.
    pub reasons: BTreeMap<UnreadableReason, u64>,
    /// Number of lines in which a log daemon reports that it dropped messages.
    #[serde(default)]
    pub rate_limited: u64,
    /// Positions of the first ones, at most 100.
    pub first: Vec<UnreadableLine>,
}

/// Number of unreadable lines whose positions are kept; the rest is only counted.
pub const UNREADABLE_KEPT_MAX: usize = 100;

/// Words by which rsyslog and systemd-journald report dropped lines.
const RATE_LIMIT_WORDS: [&[u8]; 2] = [b"rate-limit", b"Suppressed "];

/// Leading bytes of an unreadable line that are searched for [`RATE_LIMIT_WORDS`].
const SEARCHED_BYTES_MAX: usize = 200;

/// The account of a capture. `lines` = `lines_in_events` + all skipped + unreadable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reconciliation {
    /// Number of physical lines read.
    pub lines: u64,
    /// Number of lines that became events, of clients or of the server, or a session's begin or
    /// end.
    pub lines_in_events: u64,
    /// Number of events.
    pub events: u64,
    /// Number of events of the server's own activity. An error of a client that is also a server event, such as a
    /// deadlock, counts here and as an event. Messages and ends of sessions do not count.
    #[serde(default)]
    pub server_events: u64,
    /// Lines left out, by reason.
    pub skipped: BTreeMap<SkipReason, Skipped>,
    /// Lines that could not be read.
    pub unreadable: Unreadable,
    /// Counts for judging the log's quality.
    #[serde(default)]
    pub tallies: QualityCounters,
}

impl Reconciliation {
    /// Number of lines skipped, for all reasons.
    pub fn lines_skipped(&self) -> u64 {
        self.skipped.values().map(|skipped| skipped.lines).sum()
    }

    /// Returns whether every line is accounted for, which must hold.
    pub fn adds_up(&self) -> bool {
        self.lines == self.lines_in_events + self.lines_skipped() + self.unreadable.lines
    }

    pub(super) fn skip(&mut self, reason: SkipReason, lines: u64, place: Location) {
        let skipped = self.skipped.entry(reason).or_insert(Skipped {
            lines: 0,
            first: place,
        });
        skipped.lines += lines;
    }

    pub(super) fn unreadable(
        &mut self,
        reason: UnreadableReason,
        lines: u64,
        place: Location,
        bytes: &[u8],
    ) {
        self.unreadable.lines += lines;
        *self.unreadable.reasons.entry(reason).or_default() += lines;
        let start = &bytes[..bytes.len().min(SEARCHED_BYTES_MAX)];
        let is_drop = |words: &&[u8]| memchr::memmem::find(start, words).is_some();
        self.unreadable.rate_limited += u64::from(RATE_LIMIT_WORDS.iter().any(is_drop));
        if self.unreadable.first.len() < UNREADABLE_KEPT_MAX {
            self.unreadable.first.push(UnreadableLine {
                // The caller knows the file, and fills it in at the end.
                file: String::new(),
                at: place,
                lines,
                reason,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_written_and_read_back() {
        let mut account = Reconciliation {
            lines: 8,
            lines_in_events: 5,
            ..Reconciliation::default()
        };
        account.skip(SkipReason::Checkpoint, 2, Location { source: 1, line: 7 });
        account.unreadable(
            UnreadableReason::NoPrefix,
            1,
            Location::default(),
            b"imuxsock lost 17 messages of Jane's due to rate-limiting",
        );
        assert!(account.adds_up());
        assert_eq!(account.unreadable.rate_limited, 1);
        let json = serde_json::to_string(&account).unwrap();
        assert!(!json.contains("Jane"), "{json}");
        assert!(json.contains("\"checkpoint\":{\"lines\":2"), "{json}");
        assert_eq!(
            serde_json::from_str::<Reconciliation>(&json).unwrap(),
            account
        );
    }
}
