//! A proof: a change, replayed in blocks beside what is unchanged, until a verdict is clear or the
//! time is over.
//!
//! ```text
//! prepare each side (change applied once, state kept) ─► A/A replays ─► how many blocks, which looks
//!    ─► block: sides in an order of chance and back again (A B B A), state restored and warmed before each
//!    ─► at a look: effect, verdict ─► … ─► Ended
//! ```
//!
//! - [`ProofPlan`]: what is changed ([`ProofSide`]), the goal, the margin, the seed;
//! - [`ProofGround`]: a server that is brought to a side's state: [`ProofSandbox`], [`ProofTarget`];
//! - [`ProofJournal`]: every run's numbers, on disk when it is done;
//! - [`prove()`]: does what is left, and judges by `analyse::proof`.
//!
//! Which run comes next hangs on the plan and on the numbers of those before it alone, so a proof that was
//! killed goes on as if nothing had been. Deliberately absent: what statements did (`analyse::compare()`
//! reads the runs), and words for people.

mod counters;
mod ground;
mod journal;
mod numbers;
mod order;
mod plan;
mod runner;
mod script;
mod standing;
mod trial;
mod warm;

pub use ground::{Contents, ProofGround, ProofTarget};
pub use journal::{Decision, ProofJournal, ProofRecord, RunPlace};
pub use numbers::{ProofNumbers, RelationSize};
pub use plan::{Change, PROOF_KIND, ProofPlan, ProofSide};
pub use runner::{ProofEnded, ProofTold, Proving, SideLoad, SideStanding, prove};
pub use script::ChangeScript;
pub use standing::{ProofSandbox, ServerOf};
