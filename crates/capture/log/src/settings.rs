//! The settings with which a server writes the best of logs for a replay, and what each provider
//! lets one set.
//!
//! One line a statement, written when it ends (`log_min_duration_statement = 0`): its duration and,
//! beneath it, its parameters. `log_statement = all` beside it would write every statement twice.
//! What is set here beside that is what a server may have been set away from.
//!
//! Sources: PostgreSQL's documentation (`runtime-config-logging`), and it was tried on 13, 15, 17
//! and 18. RDS and Aurora: Amazon's user guides and what `describe-db-cluster-parameters` lists.
//! Azure: Microsoft's list of server parameters of flexible servers. Cloud SQL and AlloyDB: the
//! flags that Google's and the CIS benchmark's pages name; the others are marked to be checked.

use serde::{Deserialize, Serialize};

/// Times in milliseconds, session, line number and error code first, since their forms are fixed;
/// then what may hold anything, the freest last.
pub const LINE_PREFIX: &str = "%m [%p] %c %l %e %q%u@%d %r %a ";

/// Where the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// One's own.
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
    /// Its name.
    pub name: &'static str,
    /// The value, not quoted.
    pub value: &'static str,
    /// Why, in some words.
    pub why: &'static str,
    /// It is not known for certain that the provider lets one set it.
    pub check: bool,
}

/// Why a plan cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "PostgreSQL {0} is not one of the versions that can be captured; give --version 10 to 18, or none for 13 and newer"
)]
pub struct UnknownVersion(pub u16);

/// What to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Where.
    pub provider: Provider,
    /// The settings, the weightiest first.
    pub settings: Vec<Setting>,
    /// What cannot be set there, or not in this version, and what that means; each a sentence.
    pub impossible: Vec<&'static str>,
    /// What to know before and after; each a sentence.
    pub notes: Vec<&'static str>,
}

/// From this version on parameters are logged by length.
const VERSION_OF_LENGTHS: u16 = 13;

/// From this version on `log_connections` is a list of what to log.
const VERSION_OF_CONNECTION_LIST: u16 = 18;

/// The settings for a replay of all traffic. Without a version: those of 13 and newer.
///
/// # Errors
/// Where it is a version that is not read.
pub fn for_replay(provider: Provider, version: Option<u16>) -> Result<Plan, UnknownVersion> {
    if let Some(version) = version
        && !(10..=18).contains(&version)
    {
        return Err(UnknownVersion(version));
    }
    let lengths = version.is_none_or(|version| version >= VERSION_OF_LENGTHS);
    let amazon = matches!(provider, Provider::Rds | Provider::Aurora);
    let google = matches!(provider, Provider::CloudSql | Provider::AlloyDb);
    let (on, yes) = match amazon {
        true => ("1", true),
        false => ("on", false),
    };
    let alloy = provider == Provider::AlloyDb;
    let set = |name, value, why| Setting {
        name,
        value,
        why,
        check: alloy,
    };
    let mut settings = vec![
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
    ];
    if lengths {
        let check = google;
        settings.push(Setting {
            check,
            ..set("log_parameter_max_length", "-1", "parameters in full")
        });
        settings.push(Setting {
            check,
            ..set(
                "log_parameter_max_length_on_error",
                "-1",
                "also those of statements that fail",
            )
        });
    }
    if amazon {
        settings.push(set(
            "log_destination",
            "csvlog",
            "milliseconds, error codes and sessions, which the default log_line_prefix lacks",
        ));
    } else {
        settings.push(Setting {
            check: google,
            ..set(
                "log_line_prefix",
                LINE_PREFIX,
                "milliseconds, session, error code, who and from where; csvlog and jsonlog have it all anyway",
            )
        });
    }
    settings.push(set(
        "log_error_verbosity",
        "default",
        "terse leaves the parameters out",
    ));
    settings.push(set(
        "log_min_error_statement",
        "error",
        "the statements that fail are logged only so",
    ));
    settings.push(set(
        "log_min_messages",
        "warning",
        "a higher level hides the errors",
    ));
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
    Ok(Plan {
        provider,
        settings,
        impossible: impossible(provider, lengths),
        notes: notes(provider, version, yes),
    })
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
        "Every statement goes to the log with its values: whoever may read the log may read the data.",
        "Watch the disk, and log for an hour rather than for ever. Measured with pgbench's short statements on PostgreSQL 15: 196 bytes a simple statement, 606 a prepared and 819 an unnamed one (parse, bind and execute have a line each), and 20 to 35 µs of the server's processor time; log_statement = all alone takes 176 to 290 bytes and 10 to 15 µs, but has no durations.",
        "Roles and databases may have settings of their own, which win: SELECT * FROM pg_db_role_setting;",
    ];
    match provider {
        Provider::Own => notes.push(
            "All take effect at the reload, log_connections and log_disconnections in new sessions. Standard error must go to a file: logging_collector = on does it, and needs a restart; systemd, Docker and Debian's packages have ways of their own.",
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
        let plan = for_replay(provider, version).unwrap();
        plan.settings.iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn every_provider_logs_every_statement_and_no_setting_twice() {
        for provider in ALL {
            let plan = for_replay(provider, None).unwrap();
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
    fn old_versions_know_no_lengths_of_parameters() {
        let length = "log_parameter_max_length_on_error";
        assert!(!names(Provider::Own, Some(12)).contains(&length));
        assert!(names(Provider::Own, Some(13)).contains(&length));
        assert_eq!(for_replay(Provider::Own, Some(9)), Err(UnknownVersion(9)));
        assert_eq!(for_replay(Provider::Own, Some(19)), Err(UnknownVersion(19)));
    }
}
