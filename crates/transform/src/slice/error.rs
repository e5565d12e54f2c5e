//! Explains why a slice is empty, and describes the available events.

use std::collections::BTreeMap;

use super::super::time_bound::format_time;
use super::Slice;
use workload::{ExclusionReason, SliceAccount};

/// Maximum number of names that are remembered, and of names in the message.
const NAMES_REMEMBERED_MAX: usize = 1_000;
const NAMES_SHOWN_MAX: usize = 10;

/// Reason why there is no slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The end is not after the start.
    #[error("--from {from} is not before --to {to}: what is between them is kept, --to itself not")]
    NoStretch {
        /// Start of the slice.
        from: String,
        /// End of the slice.
        to: String,
    },
    /// The source has no events.
    #[error("there is nothing to slice: no event was found")]
    NoEvents,
    /// No session was selected.
    #[error("the slice would be empty: no session is of the {what} asked for; {there}")]
    NoSession {
        /// `database`, `user` or `application`, or several of them.
        what: String,
        /// Available names.
        there: String,
    },
    /// Nothing is due in the time range.
    #[error(
        "the slice would be empty: no statement{of_sessions} is due {stretch}; there are events from {first} to {last}"
    )]
    NoTime {
        /// Restriction to sessions, if there is one.
        of_sessions: &'static str,
        /// The time range.
        stretch: String,
        /// Time of the first event.
        first: String,
        /// Time of the last event.
        last: String,
    },
    /// No statement was selected.
    #[error(
        "the slice would be empty: none of the {statements} statements is {what}; `rehearse inspect` shows which there are"
    )]
    NoStatement {
        /// Number of statements in the selected sessions.
        statements: u64,
        /// Description of the filter.
        what: &'static str,
    },
}

/// Summary of the source for error messages.
#[derive(Debug, Default)]
pub(super) struct SourceSummary {
    databases: Names,
    users: Names,
    applications: Names,
    sessions_taken: u64,
    /// Number of statements in the selected sessions, without those before the slice.
    pub(super) statements: u64,
    first_us: Option<i64>,
    last_us: Option<i64>,
}

type Names = BTreeMap<Box<str>, u64>;

impl SourceSummary {
    pub(super) fn add_time(&mut self, due_us: i64) {
        self.first_us = Some(self.first_us.map_or(due_us, |first| first.min(due_us)));
        self.last_us = Some(self.last_us.map_or(due_us, |last| last.max(due_us)));
    }

    pub(super) fn add_session(
        &mut self,
        database: &str,
        user: &str,
        application: &str,
        taken: bool,
    ) {
        self.sessions_taken += u64::from(taken);
        if self.sessions_taken > 0 {
            // The names are needed only if no session is selected.
            return;
        }
        for (names, name) in [
            (&mut self.databases, database),
            (&mut self.users, user),
            (&mut self.applications, application),
        ] {
            if let Some(count) = names.get_mut(name) {
                *count += 1;
            } else if names.len() < NAMES_REMEMBERED_MAX {
                names.insert(name.into(), 1);
            }
        }
    }

    pub(super) fn empty_slice_error(&self, slice: &Slice, account: &SliceAccount) -> SliceError {
        let (Some(first_us), Some(last_us)) = (self.first_us, self.last_us) else {
            return SliceError::NoEvents;
        };
        if let (Some(from_us), Some(to_us)) = (account.from_us, account.to_us)
            && from_us >= to_us
        {
            return SliceError::NoStretch {
                from: format_time(from_us),
                to: format_time(to_us),
            };
        }
        if self.sessions_taken == 0 {
            return self.no_session_error(account);
        }
        let left_out = |reason| account.left_out.contains_key(&reason);
        if left_out(ExclusionReason::Context) {
            return SliceError::NoStatement {
                statements: self.statements,
                what: "of the contexts, kinds and patterns asked for",
            };
        }
        if left_out(ExclusionReason::Kind) || left_out(ExclusionReason::Statement) {
            let what = match (
                left_out(ExclusionReason::Kind),
                left_out(ExclusionReason::Statement),
            ) {
                (true, false) => "of the kinds asked for",
                (false, true) => "one that the patterns ask for",
                _ => "of the kinds and patterns asked for",
            };
            return SliceError::NoStatement {
                statements: self.statements,
                what,
            };
        }
        let mut stretch = Vec::new();
        if let Some(from_us) = account.from_us {
            stretch.push(format!("from {}", format_time(from_us)));
        }
        if let Some(to_us) = account.to_us {
            stretch.push(format!("before {}", format_time(to_us)));
        }
        let filter = &slice.filter;
        let of_some = [&filter.databases, &filter.users, &filter.applications]
            .iter()
            .any(|choice| !choice.is_all());
        SliceError::NoTime {
            of_sessions: if of_some { " of these sessions" } else { "" },
            stretch: stretch.join(" and "),
            first: format_time(first_us),
            last: format_time(last_us),
        }
    }

    fn no_session_error(&self, account: &SliceAccount) -> SliceError {
        let mut what = Vec::new();
        let mut there = Vec::new();
        for (reason, word, names) in [
            (ExclusionReason::Database, "database", &self.databases),
            (ExclusionReason::User, "user", &self.users),
            (
                ExclusionReason::Application,
                "application",
                &self.applications,
            ),
        ] {
            if account.left_out.contains_key(&reason) {
                what.push(word);
                there.push(format!(
                    "the {word}s that are there are {}",
                    format_names(names)
                ));
            }
        }
        SliceError::NoSession {
            what: what.join(" and "),
            there: there.join(", and "),
        }
    }
}

/// Formats the most frequent names.
fn format_names(names: &Names) -> String {
    let mut names: Vec<(&Box<str>, &u64)> = names.iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut told: Vec<String> = names
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|(name, _)| match &***name {
            "" => "'' (unknown)".to_owned(),
            name => format!("'{name}'"),
        })
        .collect();
    if names.len() > NAMES_SHOWN_MAX {
        told.push(format!("{} more", names.len() - NAMES_SHOWN_MAX));
    }
    told.join(", ")
}
