//! A replay while it runs, for people: facts each second, for the terminal and for a page.
//!
//! ```text
//! meter, ledger ─► sampler ─► hub (now; history, thinned) ─┬─► the terminal's lines
//!                                                          └─► server ─► a stream for each viewer
//! ```
//!
//! A thread of the hub's own looks each second, and one for each viewer writes to it; all of them let
//! the replay go first, and none of its threads waits for them. What is shown is `report`'s.

mod history;
mod http;
mod hub;
mod observed;
mod sampler;
mod server;
mod statements;

pub use hub::{About, Hub};
pub use server::PageServer;
