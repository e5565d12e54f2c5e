//! Texts of statements, looked up when a statement is first shown: a workload may have a million.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use report::one_line;
use sql::Fingerprint;
use workload::WorkloadReader;

/// Texts are shortened to this many characters.
const TEXT_MAX: usize = 400;
/// A look through all of a workload's statements is followed by a pause of so many times its length.
const PAUSE: u32 = 20;
/// Texts that are kept at most; those of statements that are not shown any more go.
const KEPT_MAX: usize = 1_000;

/// Texts by fingerprint, from a workload.
pub struct Statements {
    workload: Option<WorkloadReader>,
    texts: HashMap<Fingerprint, String>,
    look_again: Option<Instant>,
}

impl Statements {
    /// From this workload; without one there are none.
    pub fn new(workload: Option<WorkloadReader>) -> Self {
        Statements {
            workload,
            texts: HashMap::new(),
            look_again: None,
        }
    }

    /// Finds the texts of these, if it is time. What cannot be read stays unknown: the run says so
    /// when it is read.
    pub fn find(&mut self, wanted: &[Fingerprint]) {
        let mut missing: HashSet<Fingerprint> = wanted
            .iter()
            .filter(|one| !self.texts.contains_key(one))
            .copied()
            .collect();
        let is_early = self.look_again.is_some_and(|again| Instant::now() < again);
        let Some(workload) = self.workload.as_ref() else {
            return;
        };
        if missing.is_empty() || is_early {
            return;
        }
        if self.texts.len() > KEPT_MAX {
            self.texts.retain(|one, _| wanted.contains(one));
        }
        let began = Instant::now();
        if let Ok(statements) = workload.statements() {
            for statement in statements {
                let Ok(statement) = statement else { break };
                if missing.remove(&statement.fingerprint) {
                    let text = one_line(&statement.sql, TEXT_MAX);
                    self.texts.insert(statement.fingerprint, text);
                }
                if missing.is_empty() {
                    break;
                }
            }
        }
        let took = began.elapsed().max(Duration::from_millis(1));
        self.look_again = Some(Instant::now() + took * PAUSE);
    }

    /// The text of a statement, if it was found.
    pub fn text(&self, fingerprint: Fingerprint) -> Option<&str> {
        self.texts.get(&fingerprint).map(String::as_str)
    }
}
