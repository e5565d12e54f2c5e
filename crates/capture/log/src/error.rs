//! Why a log could not be captured at all. Single lines that cannot be read are no reason; they
//! are in the account.

use capture_sink::SinkError;
use capture_sink::compression::Foreign;

/// Why a log could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Nothing was given.
    #[error("no log was given; name one or more files, or - for standard input")]
    NoInput,
    /// It cannot be opened or read.
    #[error("cannot read {name}: {error}{}", next_step(.error))]
    Read {
        /// As the user gave it.
        name: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// It has no bytes.
    #[error("{name} is empty: there is nothing to capture; give a server log that has lines")]
    Empty {
        /// As the user gave it.
        name: String,
    },
    /// An archive, or compressed in a way that is not read.
    #[error(
        "{name} is {what}; UTF-8, plain or in gzip, zstd, bzip2 or xz, is read here; unpack or convert it first, or pipe it in: {command} {} | rehearse capture log - -o NAME.workload",
        in_a_command(.name)
    )]
    Foreign {
        /// As the user gave it.
        name: String,
        /// What it is: "a zip archive".
        what: &'static str,
        /// What prints its text to standard output.
        command: &'static str,
    },
    /// A compressed file is not being written.
    #[error(
        "{name} is compressed as {compression}: nothing is being written to it; follow the file that the server writes, or capture this one without --follow"
    )]
    FollowCompressed {
        /// As the user gave it.
        name: String,
        /// The compression's name.
        compression: &'static str,
    },
    /// Nothing of it could be decompressed.
    #[error("nothing of {name} can be read: {damage}; fetch the file again")]
    Damaged {
        /// As the user gave it.
        name: String,
        /// What is wrong with it.
        damage: String,
    },
    /// A pattern that matches no file, or is none.
    #[error(
        "{pattern} {reason}; name the files, a directory, or quote a pattern such as 'log/*.gz'"
    )]
    Pattern {
        /// As the user gave it.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A directory without a log.
    #[error("no log was found in {name}{left_out}; {advice}")]
    NoLogThere {
        /// As the user gave it.
        name: String,
        /// What else there was.
        left_out: String,
        /// What to give instead.
        advice: String,
    },
    /// No format was recognised.
    #[error(
        "{name} is no PostgreSQL log that can be recognised: no line of its beginning is one of a stderr log, a csvlog, a jsonlog, a syslog or a cloud's export; if it is a stderr log, give its log_line_prefix (SHOW log_line_prefix)"
    )]
    NotALog {
        /// As the user gave it.
        name: String,
    },
    /// It has severities, but no prefix that fits.
    #[error(
        "no one log_line_prefix fits the lines at the beginning of {name}, though they have severities such as 'LOG:  '; if it was changed there, cut the file where it changes and capture the parts apart; else give it with --prefix (SHOW log_line_prefix)"
    )]
    NoOnePrefix {
        /// As the user gave it.
        name: String,
    },
    /// It is no text.
    #[error(
        "{name} is no PostgreSQL log: its beginning is binary data; give a server log as text, or compressed with gzip, zstd, bzip2 or xz"
    )]
    Binary {
        /// As the user gave it.
        name: String,
    },
    /// It is not of the format that was given.
    #[error(
        "the beginning of {name} has no server's message that --format {format} could take out; {advice}"
    )]
    NotThatFormat {
        /// As the user gave it.
        name: String,
        /// The format's name.
        format: &'static str,
        /// What to give instead.
        advice: String,
    },
    /// It goes back in time.
    #[error(
        "{name} begins with its newest message and goes back in time, in which order sessions cannot be followed; {turn}"
    )]
    NewestFirst {
        /// As the user gave it.
        name: String,
        /// What to do.
        turn: &'static str,
    },
    /// The prefix that was given matches no line.
    #[error(
        "no line at the beginning of {name} starts with the prefix '{prefix}' and a severity such as 'LOG:  '; the first line is '{line}'; {advice}"
    )]
    PrefixMatchesNothing {
        /// As the user gave it.
        name: String,
        /// As the user gave it.
        prefix: String,
        /// The first line, or its beginning.
        line: String,
        /// What to give instead.
        advice: String,
    },
    /// The prefix lacks what is needed.
    #[error(
        "the log_line_prefix '{prefix}' has no {what}, without which {why}; a log written with log_line_prefix = '%m [%p] %c %l %e %q%u@%d %r %a ' can be captured (`rehearse capture settings` has it)"
    )]
    PrefixLacks {
        /// As given or recognised.
        prefix: String,
        /// The escapes, one of which is needed.
        what: &'static str,
        /// What cannot be done without.
        why: &'static str,
    },
    /// Its times are in a zone that is not known.
    #[error(
        "the times in {name} are in the time zone '{zone}', which is not known here; log_timezone = 'UTC' on the server avoids it"
    )]
    Zone {
        /// As the user gave it.
        name: String,
        /// As the log prints it.
        zone: String,
    },
    /// It was written with another `lc_messages`.
    #[error(
        "{name} is written in another language than English (it says '{word}'), in which statements cannot be told from other messages; set lc_messages = 'C' on the server (it needs no restart) and capture a log written after that"
    )]
    Translated {
        /// As the user gave it.
        name: String,
        /// A word of that language in the log.
        word: String,
    },
    /// The events could not be kept.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// How an input stands in a command: standard input has no name there.
fn in_a_command(name: &str) -> &str {
    match name {
        "standard input" => "FILE",
        name => name,
    }
}

/// What to do where a file cannot be read.
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
    pub(super) fn foreign(name: &str, foreign: Foreign) -> Self {
        LogError::Foreign {
            name: name.to_owned(),
            what: foreign.what,
            command: foreign.command,
        }
    }
}
