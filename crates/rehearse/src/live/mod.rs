//! A replay while it runs, for people: facts each second, for the terminal and for a page.
//!
//! ```text
//! meter, ledger ─► sampler ─► hub (now; history, thinned) ─┬─► the terminal's lines
//!                                                          └─► server ─► a stream for each viewer
//! ```
//!
//! A thread of the hub's own looks each second, and the listener's thread writes to all viewers; both let the
//! replay go first, and none of its threads waits for them. What is shown is `report`'s.

mod history;
mod hub;
mod observed;
mod sampler;
mod server;
mod statements;

pub use hub::{About, Hub};
pub use server::PageServer;
