//! Why a slice is empty, with what there would have been.

use std::collections::BTreeMap;

use super::super::moment::time_text;
use super::Slice;
use workload::{LeftOut, SliceAccount};

/// Names that are remembered, and names that are told.
const NAMES_REMEMBERED_MAX: usize = 1_000;
const NAMES_TOLD_MAX: usize = 10;

/// Why there is no slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The end is not behind the beginning.
    #[error("--from {from} is not before --to {to}: what is between them is kept, --to itself not")]
    NoStretch {
        /// The beginning.
        from: String,
        /// The end.
        to: String,
    },
    /// The source has no events.
    #[error("there is nothing to slice: no event was found")]
    NoEvents,
    /// No session passed.
    #[error("the slice would be empty: no session is of the {what} asked for; {there}")]
    NoSession {
        /// `database`, `user` or `application`, or several of them.
        what: String,
        /// What there is.
        there: String,
    },
    /// Nothing is due in the stretch.
    #[error(
        "the slice would be empty: no statement{of_sessions} is due {stretch}; there are events from {first} to {last}"
    )]
    NoTime {
        /// Which statements, if not all.
        of_sessions: &'static str,
        /// The stretch.
        stretch: String,
        /// The first event's time.
        first: String,
        /// The last event's time.
        last: String,
    },
    /// No statement passed.
    #[error(
        "the slice would be empty: none of the {statements} statements is {what}; `rehearse inspect` shows which there are"
    )]
    NoStatement {
        /// How many there are.
        statements: u64,
        /// What was asked for.
        what: &'static str,
    },
}

/// What was met, for an error to tell.
#[derive(Debug, Default)]
pub(super) struct Met {
    databases: Names,
    users: Names,
    applications: Names,
    sessions_taken: u64,
    /// Statements that are not before the slice, of the sessions that the filter takes.
    pub(super) statements: u64,
    first_us: Option<i64>,
    last_us: Option<i64>,
}

type Names = BTreeMap<Box<str>, u64>;

impl Met {
    pub(super) fn time(&mut self, due_us: i64) {
        self.first_us = Some(self.first_us.map_or(due_us, |first| first.min(due_us)));
        self.last_us = Some(self.last_us.map_or(due_us, |last| last.max(due_us)));
    }

    pub(super) fn session(&mut self, database: &str, user: &str, application: &str, taken: bool) {
        self.sessions_taken += u64::from(taken);
        if self.sessions_taken > 0 {
            // The names are told only where none is taken.
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

    pub(super) fn nothing(&self, slice: &Slice, account: &SliceAccount) -> SliceError {
        let (Some(first_us), Some(last_us)) = (self.first_us, self.last_us) else {
            return SliceError::NoEvents;
        };
        if let (Some(from_us), Some(to_us)) = (account.from_us, account.to_us)
            && from_us >= to_us
        {
            return SliceError::NoStretch {
                from: time_text(from_us),
                to: time_text(to_us),
            };
        }
        if self.sessions_taken == 0 {
            return self.no_session(account);
        }
        let left_out = |reason| account.left_out.contains_key(&reason);
        if left_out(LeftOut::Kind) || left_out(LeftOut::Statement) {
            let what = match (left_out(LeftOut::Kind), left_out(LeftOut::Statement)) {
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
            stretch.push(format!("from {}", time_text(from_us)));
        }
        if let Some(to_us) = account.to_us {
            stretch.push(format!("before {}", time_text(to_us)));
        }
        let filter = &slice.filter;
        let of_some = [&filter.databases, &filter.users, &filter.applications]
            .iter()
            .any(|choice| !choice.is_all());
        SliceError::NoTime {
            of_sessions: if of_some { " of these sessions" } else { "" },
            stretch: stretch.join(" and "),
            first: time_text(first_us),
            last: time_text(last_us),
        }
    }

    fn no_session(&self, account: &SliceAccount) -> SliceError {
        let mut what = Vec::new();
        let mut there = Vec::new();
        for (reason, word, names) in [
            (LeftOut::Database, "database", &self.databases),
            (LeftOut::User, "user", &self.users),
            (LeftOut::Application, "application", &self.applications),
        ] {
            if account.left_out.contains_key(&reason) {
                what.push(word);
                there.push(format!("the {word}s that are there are {}", told(names)));
            }
        }
        SliceError::NoSession {
            what: what.join(" and "),
            there: there.join(", and "),
        }
    }
}

/// The most frequent names.
fn told(names: &Names) -> String {
    let mut names: Vec<(&Box<str>, &u64)> = names.iter().collect();
    names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut told: Vec<String> = names
        .iter()
        .take(NAMES_TOLD_MAX)
        .map(|(name, _)| match &***name {
            "" => "'' (unknown)".to_owned(),
            name => format!("'{name}'"),
        })
        .collect();
    if names.len() > NAMES_TOLD_MAX {
        told.push(format!("{} more", names.len() - NAMES_TOLD_MAX));
    }
    told.join(", ")
}
