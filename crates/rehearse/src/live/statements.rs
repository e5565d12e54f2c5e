//! Texts of statements, looked up when a statement is first shown, since a workload may have a
//! million.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use report::one_line;
use sql::Fingerprint;
use workload::WorkloadReader;

/// Pause after a scan of a workload's statements, as a multiple of the scan's duration.
const PAUSE: u32 = 20;
/// Largest number of cached texts. Those of statements no longer shown are dropped.
const KEPT_MAX: usize = 1_000;

/// Texts of a workload's statements by fingerprint.
pub struct Statements {
    workload: Option<WorkloadReader>,
    texts: HashMap<Fingerprint, String>,
    /// Texts are shortened to this many characters.
    text_max: usize,
    look_again: Option<Instant>,
}

impl Statements {
    /// Creates a cache for this workload; without one, no text is found. Texts are shortened to `text_max` characters.
    pub fn new(workload: Option<WorkloadReader>, text_max: usize) -> Self {
        Statements {
            workload,
            texts: HashMap::new(),
            text_max,
            look_again: None,
        }
    }

    /// Finds the texts of these statements if the pause is over. Errors are ignored here, since
    /// reading the run reports them.
    pub fn find(&mut self, wanted: &[Fingerprint]) {
        let is_early = self.look_again.is_some_and(|again| Instant::now() < again);
        if !is_early {
            self.find_now(wanted);
        }
    }

    /// Finds the texts of these statements, even if the last scan was a moment ago.
    pub fn find_now(&mut self, wanted: &[Fingerprint]) {
        let mut missing: HashSet<Fingerprint> = wanted
            .iter()
            .filter(|one| !self.texts.contains_key(one))
            .copied()
            .collect();
        let Some(workload) = self.workload.as_ref() else {
            return;
        };
        if missing.is_empty() {
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
                    let text = one_line(&statement.sql, self.text_max);
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

    /// Returns the text of a statement, if it was found.
    pub fn text(&self, fingerprint: Fingerprint) -> Option<&str> {
        self.texts.get(&fingerprint).map(String::as_str)
    }
}
