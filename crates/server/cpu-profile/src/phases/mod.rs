//! The stacks of PostgreSQL read as what the server does ([`Phase`]).
//!
//! A stack is read from its outermost function inwards. Functions that a table of rules knows ([`rules`])
//! change the phase; what they do not know (memory, lists, copying, the kernel) belongs to the phase that
//! called it. So the innermost known function decides, but where a phase keeps what it calls
//! ([`Phase::keeps`]): reading a catalogue to open an index is opening an index, reading an index for
//! an estimate is planning. Spin locks are kept by none, and the function that took one is told.
//!
//! Builds without symbols of static functions show `[postgres]` in their place. They inherit the phase as
//! other unknown functions do, but for two callers that do too many things: below the executor's loop and
//! below the loop of messages an unnamed function may be anything, and is [`Phase::Unplaced`] where nothing
//! further in tells.
//!
//! Deliberately absent: drawing, and where stacks come from.

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

use rules::{KERNEL_ALONE, LIBRARIES, RULES};

/// What a stack was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement<'s> {
    /// The phase.
    pub phase: Phase,
    /// Of a spin lock: the function that took it.
    pub holder: Option<&'s str>,
}

/// The rules, ready to be asked.
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
    /// All of them.
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

    /// What a folded stack was for: functions from the outermost to the innermost, joined by `;`.
    pub fn place<'s>(&self, folded: &'s str) -> Placement<'s> {
        let mut phase = Phase::Unplaced;
        let mut holder = None;
        let mut before = "";
        // How many unnamed functions of the server lie within the phase.
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
                    if let Some(next) = entered(phase, inner) {
                        if next == Phase::SpinLock {
                            holder = Some(before);
                        }
                        phase = next;
                        unnamed = 0;
                    }
                }
                // The one static function that index insertion calls by a pointer evaluates expressions.
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
            let found = KERNEL_ALONE.iter().find(|(_, name)| has(name));
            phase = found.map_or(phase, |(phase, _)| *phase);
        }
        Placement { phase, holder }
    }
}

/// The phase behind a known function; `None`: it says nothing here.
fn entered(phase: Phase, inner: Phase) -> Option<Phase> {
    let in_index = matches!(phase, Phase::IndexInsertion | Phase::IndexPredicate);
    match inner {
        Phase::Expression | Phase::ExecutorStart if in_index => Some(Phase::IndexPredicate),
        Phase::IndexPredicate if !in_index => None,
        inner => Some(inner),
    }
}

/// A function's name without what compilers and folding add: `ExecScan.part.0`, `schedule_[k]`.
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
