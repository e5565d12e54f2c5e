//! Mixtures of logging settings, and the log entries that each permits.

use std::ops::RangeInclusive;

/// Which statements `log_statement` takes, from none to all; and what a statement is for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// As a setting: no statement.
    None,
    Definition,
    Modification,
    /// Anything else; as a setting: every statement.
    All,
}

/// Mixture of logging settings. Times are microseconds; `None` is off.
#[derive(Debug, Clone, Copy)]
pub struct Mixture {
    pub name: &'static str,
    pub log_statement: Class,
    pub min_duration_us: Option<i64>,
    pub log_duration: bool,
    pub min_duration_sample_us: Option<i64>,
    pub statement_sample_rate: f64,
    pub transaction_sample_rate: f64,
    /// `log_error_verbosity`.
    pub verbosity: &'static str,
    /// `log_parameter_max_length`, -1 for no limit.
    pub parameter_bytes: i64,
    /// `log_parameter_max_length_on_error`.
    pub parameter_bytes_on_error: i64,
    /// `log_connections` and `log_disconnections`.
    pub connections: bool,
    pub prefix: &'static str,
    /// Whether the prefix is detected from the log; otherwise it is given.
    pub recognised: bool,
}

const PLAIN: Mixture = Mixture {
    name: "",
    log_statement: Class::None,
    min_duration_us: None,
    log_duration: false,
    min_duration_sample_us: None,
    statement_sample_rate: 1.0,
    transaction_sample_rate: 0.0,
    verbosity: "default",
    parameter_bytes: -1,
    parameter_bytes_on_error: 0,
    connections: true,
    prefix: "%m [%p] ",
    recognised: true,
};

/// Returns all mixtures, with common prefixes.
pub const ALL: [Mixture; 14] = [
    Mixture {
        name: "ended",
        min_duration_us: Some(0),
        parameter_bytes_on_error: -1,
        prefix: "%m [%p] %c %l %e %q%u@%d %a %r ",
        ..PLAIN
    },
    Mixture {
        name: "started",
        log_statement: Class::All,
        ..PLAIN
    },
    Mixture {
        name: "both",
        log_statement: Class::All,
        min_duration_us: Some(0),
        prefix: "%t:%r:%u@%d:[%p]:",
        ..PLAIN
    },
    Mixture {
        name: "definitions_and_slow",
        log_statement: Class::Definition,
        min_duration_us: Some(100_000),
        connections: false,
        prefix: "%m [%p] %e %q%u@%d/%a ",
        ..PLAIN
    },
    Mixture {
        name: "modifications_and_durations",
        log_statement: Class::Modification,
        log_duration: true,
        prefix: "%n %p %l %i %q%a ",
        recognised: false,
        ..PLAIN
    },
    Mixture {
        name: "started_and_slow",
        log_statement: Class::All,
        min_duration_us: Some(100_000),
        parameter_bytes_on_error: -1,
        prefix: "%m|%u|%d|%c|",
        ..PLAIN
    },
    Mixture {
        name: "sampled",
        min_duration_us: Some(100_000),
        min_duration_sample_us: Some(0),
        statement_sample_rate: 0.5,
        ..PLAIN
    },
    Mixture {
        name: "every_transaction_sampled",
        log_statement: Class::Definition,
        transaction_sample_rate: 1.0,
        prefix: "%m %v %x %-12u %10p %e: ",
        recognised: false,
        ..PLAIN
    },
    Mixture {
        name: "transactions_sampled",
        transaction_sample_rate: 0.5,
        prefix: "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a",
        ..PLAIN
    },
    Mixture {
        name: "verbose_and_cut",
        log_statement: Class::Modification,
        min_duration_us: Some(0),
        verbosity: "verbose",
        parameter_bytes: 40,
        parameter_bytes_on_error: 40,
        ..PLAIN
    },
    Mixture {
        name: "no_parameters",
        log_statement: Class::All,
        log_duration: true,
        parameter_bytes: 0,
        prefix: "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
        ..PLAIN
    },
    Mixture {
        name: "terse",
        log_statement: Class::Modification,
        min_duration_us: Some(0),
        verbosity: "terse",
        parameter_bytes_on_error: -1,
        ..PLAIN
    },
    Mixture {
        name: "durations_alone",
        log_duration: true,
        parameter_bytes_on_error: -1,
        verbosity: "verbose",
        ..PLAIN
    },
    Mixture {
        name: "slow_alone",
        min_duration_us: Some(100_000),
        parameter_bytes_on_error: 40,
        ..PLAIN
    },
];

/// Occurrence of a server's action: always, never, or unknown to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    Never,
    Perhaps,
    Always,
}

impl May {
    fn where_all(all: bool, some: bool) -> Self {
        match (all, some) {
            (true, _) => May::Always,
            (_, true) => May::Perhaps,
            _ => May::Never,
        }
    }

    /// Either of two.
    pub fn or(self, other: May) -> May {
        match (self, other) {
            (May::Always, _) | (_, May::Always) => May::Always,
            (May::Never, May::Never) => May::Never,
            _ => May::Perhaps,
        }
    }
}

impl Mixture {
    /// Returns the settings for the server, except for the prefix.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        let milliseconds =
            |time: Option<i64>| time.map_or("-1".to_owned(), |us| format!("{}", us / 1_000));
        let class = match self.log_statement {
            Class::None => "none",
            Class::Definition => "ddl",
            Class::Modification => "mod",
            Class::All => "all",
        };
        vec![
            ("log_statement", class.to_owned()),
            (
                "log_min_duration_statement",
                milliseconds(self.min_duration_us),
            ),
            ("log_duration", on(self.log_duration)),
            (
                "log_min_duration_sample",
                milliseconds(self.min_duration_sample_us),
            ),
            (
                "log_statement_sample_rate",
                self.statement_sample_rate.to_string(),
            ),
            (
                "log_transaction_sample_rate",
                self.transaction_sample_rate.to_string(),
            ),
            ("log_error_verbosity", self.verbosity.to_owned()),
            ("log_parameter_max_length", self.parameter_bytes.to_string()),
            (
                "log_parameter_max_length_on_error",
                self.parameter_bytes_on_error.to_string(),
            ),
            ("log_connections", on(self.connections)),
            ("log_disconnections", on(self.connections)),
        ]
    }

    /// Returns whether a statement of this class is logged at its start (`check_log_statement`).
    pub fn logs_start(&self, class: Class) -> bool {
        self.log_statement != Class::None && class <= self.log_statement
    }

    /// Returns whether every statement is logged, however fast.
    pub fn logs_everything(&self) -> bool {
        self.logs_start(Class::All) || self.logs_end(0..=0) == May::Always
    }

    /// Whether a step that took so long is logged with its text when it ended, if it was not
    /// logged at its start (`check_log_duration`; where it was, its duration stands alone).
    pub fn logs_end(&self, took_us: RangeInclusive<i64>) -> May {
        let exceeds = |limit: Option<i64>| match limit {
            None => May::Never,
            Some(0) => May::Always,
            Some(limit) => May::where_all(*took_us.start() >= limit, *took_us.end() >= limit),
        };
        let rate = |rate: f64| May::where_all(rate >= 1.0, rate > 0.0);
        let sampled = match (
            exceeds(self.min_duration_sample_us),
            rate(self.statement_sample_rate),
        ) {
            (May::Never, _) | (_, May::Never) => May::Never,
            (May::Always, May::Always) => May::Always,
            _ => May::Perhaps,
        };
        exceeds(self.min_duration_us)
            .or(sampled)
            .or(rate(self.transaction_sample_rate))
    }
}
