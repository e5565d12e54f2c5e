//! Interprets stacks of PostgreSQL as phases of its work ([`Phase`]).
//!
//! A stack is read from its outermost function inwards. Functions in a table of rules ([`rules`]) change the
//! phase. All others (memory, lists, copying, the kernel) belong to the phase that called them. So the
//! innermost function with a rule decides, unless an outer phase keeps its calls ([`Phase::keeps`]): reading
//! a catalogue to open an index counts as opening the index, and reading an index for an estimate counts as
//! planning. No phase keeps spin locks; the function that took one is reported.
//!
//! Builds without symbols of static functions show `[postgres]` instead. Such a frame inherits the phase as
//! other unknown functions do, except in the executor's loop and in the message loop, which call too many
//! different functions. There it is [`Phase::Unplaced`], unless a function further inwards decides.
//!
//! Charts, and the origin of stacks, are left to other modules.

mod account;
mod attribution;
mod phase;
mod report;
mod rules;
mod stage;
mod weight;

use std::collections::HashMap;

pub use account::{PhaseAccount, PhaseSums, SpinLocks, StatementPhases};
pub use attribution::{Span, attribute, spans_of_executions};
pub use phase::Phase;
pub use report::{PhaseReport, PhaseSamples, SpinLockSamples, StatementSamples};
pub use stage::Stage;
pub use weight::SampleTime;

use rules::{KERNEL_FUNCTIONS, LIBRARIES, RULES};

/// Result of interpreting a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement<'s> {
    /// Phase.
    pub phase: Phase,
    /// Spin lock: function that took it.
    pub holder: Option<&'s str>,
}

/// Rules, indexed by function.
#[derive(Debug)]
pub struct Rules {
    functions: HashMap<&'static str, Phase>,
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Rules {
    /// Creates the index of all rules.
    pub fn new() -> Self {
        let functions = RULES.iter().flat_map(|(phase, names)| {
            let of = move |name: &&'static str| (*name, *phase);
            names.iter().map(of)
        });
        let libraries = LIBRARIES.iter().map(|(phase, name)| (*name, *phase));
        Rules {
            functions: functions.chain(libraries).collect(),
        }
    }

    /// Interprets a folded stack: functions from the outermost to the innermost, joined by `;`.
    pub fn place<'s>(&self, folded: &'s str) -> Placement<'s> {
        let mut phase = Phase::Unplaced;
        let mut holder = None;
        let mut before = "";
        // Number of unnamed functions of the server within the phase.
        let mut unnamed = 0;
        let mut in_kernel_only = true;
        for frame in folded.split(';') {
            let is_kernel = frame.ends_with("_[k]");
            in_kernel_only &= is_kernel;
            let name = plain(frame);
            let known = match self.functions.get(name) {
                Some(&known) if !is_kernel || known == Phase::Idle => Some(known),
                _ => None,
            };
            match known {
                Some(inner) if phase == inner => unnamed = 0,
                Some(inner) if phase != Phase::Unplaced && phase.keeps(inner) => {}
                Some(inner) => {
                    if let Some(next) = phase_after_call(phase, inner) {
                        if next == Phase::SpinLock {
                            holder = Some(before);
                        }
                        phase = next;
                        unnamed = 0;
                    }
                }
                // The only static function that index insertion calls by a pointer evaluates expressions.
                None if name == "[postgres]" && before == "ExecInsertIndexTuples" => {
                    phase = Phase::IndexPredicate;
                }
                None if name == "[postgres]" => unnamed += 1,
                None => {}
            }
            if !is_kernel {
                before = name;
            }
        }
        let too_little = match phase {
            Phase::Executor => unnamed > 0,
            Phase::Protocol => unnamed > 1,
            _ => false,
        };
        if too_little {
            phase = Phase::Unplaced;
        }
        if phase == Phase::Unplaced && in_kernel_only {
            let has = |name: &str| folded.split(';').any(|frame| plain(frame) == name);
            let found = KERNEL_FUNCTIONS.iter().find(|(_, name)| has(name));
            phase = found.map_or(phase, |(phase, _)| *phase);
        }
        Placement { phase, holder }
    }
}

/// Returns the phase after a call into `inner`; `None` if the call does not change it.
fn phase_after_call(phase: Phase, inner: Phase) -> Option<Phase> {
    let in_index = matches!(phase, Phase::IndexInsertion | Phase::IndexPredicate);
    match inner {
        Phase::Expression | Phase::ExecutorStart if in_index => Some(Phase::IndexPredicate),
        Phase::IndexPredicate if !in_index => None,
        inner => Some(inner),
    }
}

/// Returns a function's name without suffixes of compilers and of folding: `ExecScan.part.0`, `schedule_[k]`.
fn plain(frame: &str) -> &str {
    let frame = frame.strip_suffix("_[k]").unwrap_or(frame);
    if frame.starts_with('[') {
        return frame;
    }
    let end = frame.find(['.', '@']).unwrap_or(frame.len());
    match end {
        0 => frame,
        end => &frame[..end],
    }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
