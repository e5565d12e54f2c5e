//! Errors that prevent the capture of a log. Unreadable lines are no errors; they are in the
//! account.

use capture_sink::SinkError;
use capture_sink::compression::UnsupportedFormat;

/// An error that prevents the capture of a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No input was given.
    #[error("no log was given; name one or more files, or - for standard input")]
    NoInput,
    /// An input cannot be opened or read.
    #[error("cannot read {name}: {error}{}", next_step(.error))]
    Read {
        /// Name as the user gave it.
        name: String,
        /// Error of the operating system.
        #[source]
        error: std::io::Error,
    },
    /// An input has no bytes.
    #[error("{name} is empty: there is nothing to capture; give a server log that has lines")]
    Empty {
        /// Name as the user gave it.
        name: String,
    },
    /// An input is an archive, or compressed in an unsupported format.
    #[error(
        "{name} is {what}; UTF-8, plain or in gzip, zstd, bzip2 or xz, is read here; unpack or convert it first, or pipe it in: {command} {} | rehearse capture log - -o NAME.workload",
        command_argument(.name)
    )]
    Foreign {
        /// Name as the user gave it.
        name: String,
        /// Kind of the file: "a zip archive".
        what: &'static str,
        /// Command that prints its text to standard output.
        command: &'static str,
    },
    /// An input to follow is compressed, so it is not being written.
    #[error(
        "{name} is compressed as {compression}: nothing is being written to it; follow the file that the server writes, or capture this one without --follow"
    )]
    FollowCompressed {
        /// Name as the user gave it.
        name: String,
        /// Name of the compression.
        compression: &'static str,
    },
    /// Nothing of an input could be decompressed.
    #[error("nothing of {name} can be read: {damage}; fetch the file again")]
    Damaged {
        /// Name as the user gave it.
        name: String,
        /// Description of the damage.
        damage: String,
    },
    /// A pattern matches no file or is invalid.
    #[error(
        "{pattern} {reason}; name the files, a directory, or quote a pattern such as 'log/*.gz'"
    )]
    Pattern {
        /// Pattern as the user gave it.
        pattern: String,
        /// Reason for the refusal.
        reason: String,
    },
    /// A directory has no log.
    #[error("no log was found in {name}{left_out}; {advice}")]
    NoLogThere {
        /// Name as the user gave it.
        name: String,
        /// Description of the files in it.
        left_out: String,
        /// Suggested argument.
        advice: String,
    },
    /// No format was recognised.
    #[error(
        "{name} is no PostgreSQL log that can be recognised: no line of its beginning is one of a stderr log, a csvlog, a jsonlog, a syslog or a cloud's export; if it is a stderr log, give its log_line_prefix (SHOW log_line_prefix)"
    )]
    NotALog {
        /// Name as the user gave it.
        name: String,
    },
    /// The log has severities, but no prefix that fits.
    #[error(
        "no one log_line_prefix fits the lines at the beginning of {name}, though they have severities such as 'LOG:  '; give it with --prefix (SHOW log_line_prefix)"
    )]
    NoOnePrefix {
        /// Name as the user gave it.
        name: String,
    },
    /// The log has a known format that is not read.
    #[error("{name} is {what}; {advice}")]
    Unsupported {
        /// Name as the user gave it.
        name: String,
        /// Description of the format.
        what: &'static str,
        /// Way to a log that is read.
        advice: &'static str,
    },
    /// A syslog's lines have no process.
    #[error(
        "{name} is a syslog whose tag has no process number, as in 'postgres[123]:', and the server's log_line_prefix has none (%p) either, so that sessions cannot be told apart; set log_line_prefix = '%m [%p] %c %l %e %q%r ', or have the daemon write the tag as the server sends it"
    )]
    SyslogWithoutProcess {
        /// Name as the user gave it.
        name: String,
    },
    /// An input is binary.
    #[error(
        "{name} is no PostgreSQL log: its beginning is binary data; give a server log as text, or compressed with gzip, zstd, bzip2 or xz"
    )]
    Binary {
        /// Name as the user gave it.
        name: String,
    },
    /// An input does not have the given format.
    #[error(
        "the beginning of {name} has no server's message that --format {format} could take out; {advice}"
    )]
    NotThatFormat {
        /// Name as the user gave it.
        name: String,
        /// Name of the format.
        format: &'static str,
        /// Suggested option.
        advice: String,
    },
    /// A log goes back in time.
    #[error(
        "{name} begins with its newest message and goes back in time, in which order sessions cannot be followed; {turn}"
    )]
    NewestFirst {
        /// Name as the user gave it.
        name: String,
        /// Command that reverses it.
        turn: &'static str,
    },
    /// The given prefix matches no line.
    #[error(
        "no line at the beginning of {name} starts with the prefix '{prefix}' and a severity such as 'LOG:  '; the first line is '{line}'; {advice}"
    )]
    PrefixMatchesNothing {
        /// Name as the user gave it.
        name: String,
        /// Prefix as the user gave it.
        prefix: String,
        /// The first line, or its beginning.
        line: String,
        /// Suggested option.
        advice: String,
    },
    /// Two prefixes fit equally and read different names or processes.
    #[error(
        "cannot tell the log_line_prefix of {name}: its lines fit '{one}' and '{other}' equally, which read different names; pass --prefix with what SHOW log_line_prefix prints"
    )]
    PrefixUndecided {
        /// Name as the user gave it.
        name: String,
        /// One of the prefixes.
        one: String,
        /// Another of them.
        other: String,
    },
    /// Lines contradict the given prefix.
    #[error("the prefix '{prefix}' is not that of {name}: at line {line} {reason}; {advice}")]
    PrefixContradicted {
        /// Name as the user gave it.
        name: String,
        /// Prefix as the user gave it.
        prefix: String,
        /// Number of the first such line, from 1.
        line: u64,
        /// Contradiction in that line.
        reason: String,
        /// Suggested option.
        advice: String,
    },
    /// The prefix lacks a needed escape.
    #[error(
        "the log_line_prefix '{prefix}' has no {what}, without which {why}; a log written with log_line_prefix = '%m [%p] %c %l %e %q%r ' can be captured (`rehearse capture settings` has it)"
    )]
    PrefixLacks {
        /// Prefix as given or recognised.
        prefix: String,
        /// Escapes, one of which is needed.
        what: &'static str,
        /// Reason why it is needed.
        why: &'static str,
    },
    /// The times have an unknown time zone.
    #[error(
        "the times in {name} are in the time zone '{zone}', which is not known here; log_timezone = 'UTC' on the server avoids it"
    )]
    Zone {
        /// Name as the user gave it.
        name: String,
        /// Time zone as the log prints it.
        zone: String,
    },
    /// The given time zone is unknown.
    #[error(
        "the time zone '{zone}' is not known; give --log-timezone a name such as Asia/Kolkata, or an offset such as +08"
    )]
    TimeZoneUnknown {
        /// Time zone as the user gave it.
        zone: String,
    },
    /// A log was written with another `lc_messages`.
    #[error(
        "{name} is written in another language than English (it says '{word}'), in which statements cannot be told from other messages; set lc_messages = 'C' on the server (it needs no restart) and capture a log written after that"
    )]
    Translated {
        /// Name as the user gave it.
        name: String,
        /// A word of that language in the log.
        word: String,
    },
    /// The sink failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Name of an input in a command line: standard input has none there.
fn command_argument(name: &str) -> &str {
    match name {
        "standard input" => "FILE",
        name => name,
    }
}

/// Suggests what to do about a file that cannot be read.
fn next_step(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            "; give the name of a log file, a directory or a quoted pattern"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; run this as a user that may read it, such as with sudo -u postgres, or pipe it in: sudo cat FILE | rehearse capture log -"
        }
        _ => "",
    }
}

impl LogError {
    pub(super) fn foreign(name: &str, foreign: UnsupportedFormat) -> Self {
        LogError::Foreign {
            name: name.to_owned(),
            what: foreign.what,
            command: foreign.command,
        }
    }
}
