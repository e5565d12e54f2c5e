//! Refuses options that have no effect together with the others, which the parser cannot know: a result that is only shown
//! again, an option of a part of the command that is not requested, or a dry run.

use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use clock::Speed;
use study::proof::ProofJournal;
use study::sweep::SweepJournal;

use super::{Format, Program, SettingsFormat};

/// Options of every command.
const GLOBAL: [&str; 3] = ["log_format", "log_level", "key"];

/// A combination of options, and the ones that have no effect in it.
struct Rule {
    /// Command, with its subcommand.
    command: &'static str,
    applies: fn(&Given) -> bool,
    without_effect: Options,
    /// Rest of the sentence "--option has no effect …": the reason and the remedy.
    reason: &'static str,
}

enum Options {
    These(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}
use Options::{AllBut, These};

/// Options that select a part of a workload.
const SELECTION: Options = These(&[
    "from",
    "to",
    "filter_database",
    "not_database",
    "filter_user",
    "not_user",
    "application",
    "not_application",
    "statement",
    "not_statement",
    "kind",
    "not_kind",
    "context",
    "not_context",
]);

const FOLLOWED_WHOLE: &str =
    "with --follow, which replays all of a series at its own speed; leave one of them out";

/// Options of a replay that need statements to be sent to the target.
const OF_SENDING: Options = These(&[
    "metrics",
    "otlp",
    "otlp_span_ratio",
    "ui",
    "allow_host",
    "observe",
    "no_statement_statistics",
    "sample_rate",
    "custom_query",
    "profile",
    "profile_frequency",
    "profile_no_task_clock",
    "no_facts",
    "explain",
    "show_literals",
    "captured_clock",
]);

/// Options that only describe how a message is posted.
const NOTIFYING: Options = These(&["notify_format", "notify_timeout"]);
const WITHOUT_NOTIFY: &str =
    "without --notify or REHEARSE_NOTIFY_URL; give one, or leave the option out";

const RULES: &[Rule] = &[
    Rule {
        command: "capture log",
        applies: |given| given.has("dry_run"),
        without_effect: These(&["encrypt", "roll", "keep_for", "keep_size", "append"]),
        reason: "with --dry-run, which writes no workload; leave one of them out",
    },
    Rule {
        command: "capture log",
        applies: |given| {
            given.is("format", &Format::Csv)
                || given.is("format", &Format::Json)
                || given.is("format", &Format::Cnpg)
        },
        without_effect: These(&["prefix"]),
        reason: "with this --format, whose records have no log_line_prefix; leave one of them out",
    },
    Rule {
        command: "capture pcap",
        applies: |given| given.has("dry_run"),
        without_effect: These(&[
            "encrypt",
            "checksum_results",
            "roll",
            "keep_for",
            "keep_size",
            "append",
        ]),
        reason: "with --dry-run, which writes no workload; leave one of them out",
    },
    Rule {
        command: "capture proxy",
        applies: |given| !given.has("admin_listen"),
        without_effect: These(&["admin_token_file", "allow_host"]),
        reason: "without --admin-listen; add it, or leave the option out",
    },
    Rule {
        command: "capture proxy",
        applies: |given| given.has("tls_required"),
        without_effect: These(&["without_io_uring"]),
        reason: "with --tls-required, since connections with TLS never use io_uring; leave one of them out",
    },
    Rule {
        command: "capture attach",
        applies: |given| !given.has("admin_listen"),
        without_effect: These(&["admin_token_file", "allow_host"]),
        reason: "without --admin-listen; add it, or leave the option out",
    },
    Rule {
        command: "capture settings",
        applies: |given| given.is("format", &SettingsFormat::Json),
        without_effect: These(&["undo"]),
        reason: "with --format json, which has the commands for both; leave one of them out",
    },
    Rule {
        command: "inspect",
        applies: |given| given.has("by") && !given.has("csv"),
        without_effect: These(&["sort"]),
        reason: "with --by, whose values are ordered by time; leave one of them out, or write --csv",
    },
    Rule {
        command: "inspect",
        applies: |given| given.has("json"),
        without_effect: These(&["by"]),
        reason: "with --json, which has the time by all keys; leave one of them out",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("follow"),
        without_effect: These(&["speed", "loops", "copies", "without_io_uring"]),
        reason: FOLLOWED_WHOLE,
    },
    Rule {
        command: "replay",
        applies: |given| given.has("follow"),
        without_effect: SELECTION,
        reason: FOLLOWED_WHOLE,
    },
    Rule {
        command: "replay",
        applies: |given| given.has("dry_run"),
        without_effect: OF_SENDING,
        reason: "with --dry-run, which sends no statement; leave one of them out",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("calibrate"),
        without_effect: OF_SENDING,
        reason: "with --calibrate, which sends the target no statement; leave one of them out",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("against"),
        without_effect: These(&["otlp", "otlp_span_ratio"]),
        reason: "with --against, whose replays are not exported; leave one of them out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.has("metrics") && !given.has("ui"),
        without_effect: These(&["allow_host"]),
        reason: "without --metrics or --ui; add one, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.has("against"),
        without_effect: These(&["notify", "notify_format", "notify_timeout"]),
        reason: "without --against, since a single replay has no verdict; add it, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.is_set("notify"),
        without_effect: NOTIFYING,
        reason: WITHOUT_NOTIFY,
    },
    Rule {
        command: "compare",
        applies: |given| !given.is_set("notify"),
        without_effect: NOTIFYING,
        reason: WITHOUT_NOTIFY,
    },
    Rule {
        command: "prove",
        applies: |given| !given.is_set("notify"),
        without_effect: NOTIFYING,
        reason: WITHOUT_NOTIFY,
    },
    Rule {
        command: "replay",
        applies: |given| !given.has("observe"),
        without_effect: These(&["sample_rate"]),
        reason: "without --observe; add it, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.has("profile"),
        without_effect: These(&["profile_frequency", "profile_no_task_clock"]),
        reason: "without --profile; add it, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.has("copies"),
        without_effect: These(&["copy_delay"]),
        reason: "without --copies; add it, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| given.is("speed", &Speed::Max),
        without_effect: These(&["spin_us"]),
        reason: "with --speed max, at which no statement waits for its time; leave one of them out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.is("speed", &Speed::Max),
        without_effect: These(&["without_io_uring"]),
        reason: "without --speed max, since only a replay at full speed uses io_uring; add it, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| !given.has("shard"),
        without_effect: These(&["start_timeout", "clock_tolerance"]),
        reason: "without --shard; add it, or leave the option out",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("shard") && (given.has("resume") || given.has("dry_run")),
        without_effect: These(&["start_timeout", "clock_tolerance"]),
        reason: "with --resume or --dry-run, which wait for no other worker; leave it out",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("shard"),
        without_effect: These(&["profile", "profile_frequency", "profile_no_task_clock"]),
        reason: "with --shard, since a worker can assign only its own statements to a profile; use `rehearse profile` during the replay",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("shard"),
        without_effect: SELECTION,
        reason: "with --shard, since each worker would write the part again; write it once with `rehearse slice`, and replay that",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("read_only_role"),
        without_effect: These(&["read_only"]),
        reason: "with --read-only-role, which allows less; leave one of them out",
    },
    Rule {
        command: "replay",
        applies: |given| given.has("read_only") || given.has("read_only_role"),
        without_effect: These(&["restore", "no_restore"]),
        reason: "on a read-only replay, which leaves nothing to restore; leave one of them out",
    },
    Rule {
        command: "prove",
        applies: |given| given.is_result("workload", ProofJournal::is_at),
        without_effect: AllBut(&["workload", "json", "show_literals"]),
        reason: "when a finished proof is shown; give a workload to prove something, or leave it out",
    },
    Rule {
        command: "indexes",
        applies: |given| given.is_result("of", ProofJournal::is_at),
        without_effect: AllBut(&["of", "json", "show_literals"]),
        reason: "when a finished proof is shown; give a workload to measure indexes, or leave it out",
    },
    Rule {
        command: "sweep",
        applies: |given| given.is_result("workload", SweepJournal::is_at),
        without_effect: AllBut(&["workload", "json"]),
        reason: "when a finished sweep is shown; give a workload to measure something, or leave it out",
    },
    Rule {
        command: "sweep",
        applies: |given| !given.has("script"),
        without_effect: These(&["pgbench_scale"]),
        reason: "without --script; add it, or leave the option out",
    },
    Rule {
        command: "compare",
        applies: |given| given.has("follow"),
        without_effect: AllBut(&[
            "runs",
            "follow",
            "window",
            "tolerance",
            "allowance",
            "baseline",
            "error_rate",
            "interval",
            "duration",
            "fail_on",
            "json",
            "html",
            "metrics",
            "metrics_linger",
            "allow_host",
        ]),
        reason: "with --follow, whose test has options of its own; leave one of them out",
    },
    Rule {
        command: "compare",
        applies: |given| !given.has("follow"),
        without_effect: These(&["metrics", "metrics_linger"]),
        reason: "without --follow, since such a comparison ends at once; add it, or leave the option out",
    },
    Rule {
        command: "compare",
        applies: |given| !given.has("metrics"),
        without_effect: These(&["allow_host"]),
        reason: "without --metrics; add it, or leave the option out",
    },
    Rule {
        command: "compare",
        applies: |given| given.has("dry_run"),
        without_effect: AllBut(&[
            "runs", "before", "after", "noise", "dry_run", "fail_on", "json",
        ]),
        reason: "with --dry-run, which only checks --fail-on; leave one of them out",
    },
    Rule {
        command: "diagnose",
        applies: |given| given.has("thresholds"),
        without_effect: AllBut(&["thresholds", "threshold", "json"]),
        reason: "with --thresholds, which diagnoses nothing; leave one of them out",
    },
    Rule {
        command: "diagnose",
        applies: |given| !given.has("prove"),
        without_effect: These(&[
            "sandbox",
            "as_user",
            "as_database",
            "statement_timeout",
            "workers",
            "goal",
            "margin",
            "time_budget",
            "blocks",
            "noise_runs",
            "seed",
            "speed",
        ]),
        reason: "without --prove; add it, or leave the option out",
    },
    Rule {
        command: "diagnose",
        applies: |given| !given.has("target"),
        without_effect: These(&[
            "duration",
            "sample_rate",
            "custom_query",
            "custom_query_every",
        ]),
        reason: "without --target; give a server to observe, or leave the option out",
    },
];

/// Options of a command line.
struct Given<'m> {
    /// Command, with its subcommand.
    command: String,
    matches: &'m ArgMatches,
}

impl<'m> Given<'m> {
    fn of(program: &'m ArgMatches) -> Self {
        let (mut command, mut matches) = (String::new(), program);
        while let Some((name, inner)) = matches.subcommand() {
            if !command.is_empty() {
                command.push(' ');
            }
            command.push_str(name);
            matches = inner;
        }
        Given { command, matches }
    }

    /// Whether the user typed this option. A variable of the environment may be set for other commands.
    fn has(&self, id: &str) -> bool {
        self.matches.try_contains_id(id).unwrap_or(false)
            && self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// Whether an option has a value, of the command line, the environment or a default.
    fn is_set(&self, id: &str) -> bool {
        self.matches.try_contains_id(id).unwrap_or(false)
    }

    /// Whether an option has this value.
    fn is<T: PartialEq + Clone + Send + Sync + 'static>(&self, id: &str, value: &T) -> bool {
        matches!(self.matches.try_get_one::<T>(id), Ok(Some(given)) if given == value)
    }

    fn is_result(&self, id: &str, is_at: fn(&Path) -> bool) -> bool {
        let path = self.matches.try_get_one::<std::path::PathBuf>(id);
        path.ok().flatten().is_some_and(|path| is_at(path))
    }

    /// Returns the first given option that is not one of these, as it is typed.
    fn first_but(&self, kept: &[&str]) -> Option<String> {
        let program = Program::command();
        let mut names = self.command.split(' ');
        let command = names.try_fold(&program, |command, name| command.find_subcommand(name));
        let other = command?.get_arguments().find(|argument| {
            let id = argument.get_id().as_str();
            self.has(id) && !kept.contains(&id) && !GLOBAL.contains(&id)
        })?;
        Some(match other.get_long() {
            Some(long) => format!("--{long}"),
            None => other.get_id().to_string(),
        })
    }

    /// Returns the option of a rule that has no effect.
    fn first_without_effect(&self, options: &Options) -> Option<String> {
        match options {
            These(ids) => {
                let first = ids.iter().find(|id| self.has(id));
                first.map(|id| format!("--{}", id.replace('_', "-")))
            }
            AllBut(kept) => self.first_but(kept),
        }
    }
}

/// Describes an option that has no effect with the others; `None` if all have one.
pub fn find_without_effect(matches: &ArgMatches) -> Option<String> {
    let given = Given::of(matches);
    let mut rules = RULES.iter();
    rules.find_map(|rule| {
        if rule.command != given.command || !(rule.applies)(&given) {
            return None;
        }
        let option = given.first_without_effect(&rule.without_effect)?;
        Some(format!("{option} has no effect {}", rule.reason))
    })
}

#[cfg(test)]
mod tests;
