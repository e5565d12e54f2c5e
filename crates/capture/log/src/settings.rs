//! Recommends the settings with which a server writes the best logs for a replay, as far as each
//! provider allows them.
//!
//! One line a statement, written when it ends (`log_min_duration_statement = 0`), has its duration
//! and, below it, its parameters. `log_statement = all` in addition would write every statement
//! twice. The other settings restore defaults that a server may have changed.
//!
//! Sources: PostgreSQL's documentation (`runtime-config-logging`), and trials on 13, 15, 17 and 18.
//! RDS and Aurora: Amazon's user guides and the output of `describe-db-cluster-parameters`. Azure:
//! Microsoft's list of server parameters of flexible servers. Cloud SQL and AlloyDB: the flags in
//! Google's documentation and the CIS benchmark; the others are marked as unverified.

use serde::{Deserialize, Serialize};

/// Time in milliseconds, process, session, line number, error code and address. It has no name that
/// a client chooses, since such a name may look like the end of a prefix and a message: no order of
/// `%u`, `%d` and `%a` avoids that. `log_connections` writes the names where they cannot be mistaken.
pub const LINE_PREFIX: &str = "%m [%p] %c %l %e %q%r ";

/// Provider of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Self-hosted.
    #[serde(rename = "self")]
    Own,
    /// Amazon RDS.
    Rds,
    /// Amazon Aurora.
    Aurora,
    /// Google Cloud SQL.
    CloudSql,
    /// Google AlloyDB.
    AlloyDb,
    /// Azure Database for PostgreSQL, flexible server.
    Azure,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name of the setting.
    pub name: &'static str,
    /// Value, not quoted.
    pub value: &'static str,
    /// Short reason for the value.
    pub why: &'static str,
    /// It is unverified whether the provider allows the setting.
    pub check: bool,
}

/// A version that is older than all plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "PostgreSQL {0} is older than the versions that can be captured; give --version 10 or later, or none for 13 and newer"
)]
pub struct UnknownVersion(pub u16);

/// Settings to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingsPlan {
    /// Provider of the server.
    pub provider: Provider,
    /// Settings, the most important first.
    pub settings: Vec<Setting>,
    /// Settings that the provider or the version does not allow, and the consequences; each a
    /// sentence.
    pub impossible: Vec<&'static str>,
    /// Notes about the time before and after; each a sentence.
    pub notes: Vec<&'static str>,
}

/// Oldest version that can be captured.
const OLDEST_VERSION: u16 = 10;

/// First version that limits logged parameters by length.
const VERSION_OF_LENGTHS: u16 = 13;

/// First version in which `log_connections` is a list.
const VERSION_OF_CONNECTION_LIST: u16 = 18;

/// First version that logs automatic ANALYZE by a setting of its own. Source: its release notes.
const VERSION_OF_ANALYZE_DURATION: u16 = 19;

/// Recommends the settings for a replay of all traffic. Without a version, those of 13 and newer.
///
/// # Errors
/// If the version is not supported.
pub fn plan_for_replay(
    provider: Provider,
    version: Option<u16>,
) -> Result<SettingsPlan, UnknownVersion> {
    if let Some(version) = version.filter(|&version| version < OLDEST_VERSION) {
        return Err(UnknownVersion(version));
    }
    let lengths = version.is_none_or(|version| version >= VERSION_OF_LENGTHS);
    let amazon = matches!(provider, Provider::Rds | Provider::Aurora);
    let mut settings = statement_and_session_settings(provider, amazon);
    if lengths {
        settings.extend(parameter_settings(provider));
    }
    settings.extend(format_settings(provider, amazon));
    settings.extend(error_settings(provider, amazon));
    if version.is_some_and(|version| version >= VERSION_OF_ANALYZE_DURATION) {
        let why = "automatic ANALYZE, for the report of inspect";
        settings.push(setting(provider, "log_autoanalyze_min_duration", "0", why));
    }
    Ok(SettingsPlan {
        provider,
        settings,
        impossible: impossible(provider, lengths),
        notes: notes(provider, version, amazon),
    })
}

/// Creates a setting. Those of AlloyDB are unverified.
fn setting(
    provider: Provider,
    name: &'static str,
    value: &'static str,
    why: &'static str,
) -> Setting {
    Setting {
        name,
        value,
        why,
        check: provider == Provider::AlloyDb,
    }
}

/// Returns the settings for logging statements, and the beginnings and ends of sessions.
fn statement_and_session_settings(provider: Provider, amazon: bool) -> Vec<Setting> {
    let on = match amazon {
        true => "1",
        false => "on",
    };
    let set = |name, value, why| setting(provider, name, value, why);
    vec![
        Setting {
            check: false,
            ..set(
                "log_min_duration_statement",
                "0",
                "every statement, when it ends, with its duration and parameters",
            )
        },
        set(
            "log_statement",
            "none",
            "it would write every statement a second time",
        ),
        set(
            "log_connections",
            on,
            "where sessions begin, as whom, from where",
        ),
        set("log_disconnections", on, "where sessions end"),
    ]
}

/// Returns the settings for logging parameters in full.
fn parameter_settings(provider: Provider) -> [Setting; 2] {
    let check = is_google(provider);
    let set = |name, why| Setting {
        check,
        ..setting(provider, name, "-1", why)
    };
    [
        set("log_parameter_max_length", "parameters in full"),
        set(
            "log_parameter_max_length_on_error",
            "also those of statements that fail",
        ),
    ]
}

/// Returns the settings for the details in each line.
fn format_settings(provider: Provider, amazon: bool) -> Vec<Setting> {
    let csvlog = |why| setting(provider, "log_destination", "csvlog", why);
    if amazon {
        return vec![csvlog(
            "milliseconds, error codes and sessions, which the default log_line_prefix lacks",
        )];
    }
    let prefix = Setting {
        check: is_google(provider),
        ..setting(
            provider,
            "log_line_prefix",
            LINE_PREFIX,
            "for stderr: milliseconds, session, error code, address; no name that a client could choose to look like a message",
        )
    };
    match provider {
        Provider::Own => vec![
            csvlog(
                "who, from where, milliseconds, error codes, each in a column; jsonlog does as well",
            ),
            prefix,
        ],
        _ => vec![prefix],
    }
}

/// Returns the settings for logging errors, the language and the time zone.
fn error_settings(provider: Provider, amazon: bool) -> Vec<Setting> {
    let set = |name, value, why| setting(provider, name, value, why);
    let mut settings = vec![
        set(
            "log_error_verbosity",
            "default",
            "terse leaves the parameters out",
        ),
        set(
            "log_min_error_statement",
            "error",
            "the statements that fail are logged only so",
        ),
        set(
            "log_min_messages",
            "warning",
            "a higher level hides the errors",
        ),
        set(
            "log_temp_files",
            "0",
            "temporary files, for the report of inspect",
        ),
        set(
            "log_lock_waits",
            "on",
            "lock waits, for the report of inspect",
        ),
        set(
            "log_checkpoints",
            "on",
            "checkpoints, for the report of inspect",
        ),
        set(
            "log_autovacuum_min_duration",
            "0",
            "autovacuum, for the report of inspect",
        ),
    ];
    if provider == Provider::Own || amazon {
        settings.push(set(
            "lc_messages",
            "C",
            "a log in another language cannot be read",
        ));
    }
    if provider == Provider::Own {
        settings.push(set("log_timezone", "UTC", "no hour that comes twice"));
    }
    settings
}

fn is_google(provider: Provider) -> bool {
    matches!(provider, Provider::CloudSql | Provider::AlloyDb)
}

fn impossible(provider: Provider, lengths: bool) -> Vec<&'static str> {
    let mut impossible = Vec::new();
    if !lengths {
        impossible.push(
            "Before version 13 parameters are always logged in full, but never those of a statement that fails: a replay skips these.",
        );
    }
    match provider {
        Provider::Own => (),
        Provider::Rds | Provider::Aurora => impossible.push(
            "log_line_prefix takes only the values that Amazon offers (in newer versions also '%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a'); the csvlog needs none.",
        ),
        Provider::CloudSql | Provider::AlloyDb => impossible.push(
            "log_destination, logging_collector and lc_messages are the provider's: the log comes out of Cloud Logging.",
        ),
        Provider::Azure => impossible.push(
            "lc_messages, log_timezone and logging_collector cannot be set; they are en_US, UTC and the provider's own way of collecting.",
        ),
    }
    impossible
}

fn notes(provider: Provider, version: Option<u16>, amazon: bool) -> Vec<&'static str> {
    let mut notes = vec![
        "Every statement goes to the log with its values: a user that may read the log may read the data.",
        "Watch the disk, and log for an hour rather than for ever. Measured with pgbench's short statements on PostgreSQL 15: 196 bytes a simple statement, 606 a prepared and 819 an unnamed one (parse, bind and execute have a line each), and 20 to 35 µs of the server's processor time; log_statement = all alone takes 176 to 290 bytes and 10 to 15 µs, but has no durations.",
        "Roles and databases may have settings of their own, which win: SELECT * FROM pg_db_role_setting;",
    ];
    match provider {
        Provider::Own => notes.push(
            "All take effect at the reload, log_connections and log_disconnections in new sessions. csvlog needs logging_collector = on, and so a restart if it is off; until then the server writes to standard error instead, which systemd, Docker and Debian's packages send to files of their own.",
        ),
        Provider::Rds => notes.push(
            "The group must be one of your own: a default one cannot be changed. No restart is needed; the files lie on the instance's storage (watch FreeStorageSpace) and end in .csv.",
        ),
        Provider::Aurora => notes.push(
            "The group must be one of your own: a default one cannot be changed. No restart is needed; the files lie on each instance's local storage and end in .csv.",
        ),
        Provider::CloudSql => notes.push(
            "--database-flags replaces ALL flags of the instance: those not given again go back to their defaults. See what is set first: gcloud sql instances describe INSTANCE --format='value(settings.databaseFlags)'",
        ),
        Provider::AlloyDb => notes.push(
            "--database-flags replaces ALL flags of the instance: those not given again go back to their defaults, which may restart it. See what is set first: gcloud alloydb instances describe INSTANCE --cluster=CLUSTER --region=REGION --format='value(databaseFlags)'",
        ),
        Provider::Azure => notes.push(
            "No restart is needed. logfiles.download_enable = on (and logfiles.retention_days) keeps the log as files to download; diagnostic settings send it to a storage account instead.",
        ),
    }
    if amazon && version.is_none_or(|version| version >= VERSION_OF_CONNECTION_LIST) {
        notes.push(
            "From version 18 on log_connections is a list; where 1 is refused, give receipt,authentication,authorization.",
        );
    }
    if version.is_none() {
        notes.push(
            "From version 19 on automatic ANALYZE is logged by log_autoanalyze_min_duration: give --version 19.",
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Provider; 6] = [
        Provider::Own,
        Provider::Rds,
        Provider::Aurora,
        Provider::CloudSql,
        Provider::AlloyDb,
        Provider::Azure,
    ];

    fn names(provider: Provider, version: Option<u16>) -> Vec<&'static str> {
        let plan = plan_for_replay(provider, version).unwrap();
        plan.settings.iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn every_provider_logs_every_statement_and_no_setting_twice() {
        for provider in ALL {
            let plan = plan_for_replay(provider, None).unwrap();
            assert_eq!(plan.settings[0].name, "log_min_duration_statement");
            assert_eq!(plan.settings[0].value, "0");
            let mut names = names(provider, None);
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), plan.settings.len(), "{provider:?}");
        }
    }

    #[test]
    fn what_a_provider_does_not_let_one_set_is_not_advised() {
        for (provider, never) in [
            (Provider::Rds, "log_line_prefix"),
            (Provider::Aurora, "log_timezone"),
            (Provider::CloudSql, "lc_messages"),
            (Provider::Azure, "lc_messages"),
            (Provider::Azure, "log_timezone"),
        ] {
            assert!(!names(provider, None).contains(&never), "{provider:?}");
        }
    }

    #[test]
    fn analyze_duration_is_set_from_19_on_and_in_versions_that_are_not_known() {
        let analyze = "log_autoanalyze_min_duration";
        let has = |version| names(Provider::Own, version).contains(&analyze);
        assert_eq!(
            [None, Some(18), Some(19), Some(25)].map(has),
            [false, false, true, true]
        );
    }

    #[test]
    fn old_versions_know_no_lengths_of_parameters() {
        let length = "log_parameter_max_length_on_error";
        assert!(!names(Provider::Own, Some(12)).contains(&length));
        assert!(names(Provider::Own, Some(13)).contains(&length));
        assert_eq!(
            plan_for_replay(Provider::Own, Some(9)),
            Err(UnknownVersion(9))
        );
    }
}
