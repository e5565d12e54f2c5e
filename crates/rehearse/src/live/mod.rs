//! Live view of a running replay, for the terminal and for a page.
//!
//! ```text
//! meter, ledger ─► sampler ─► hub (now; history, thinned) ─┬─► the terminal's lines
//!                                                          └─► server ─► one stream per viewer
//! ```
//!
//! A thread of the hub samples the replay each second, and the listener's thread writes to all
//! viewers. Both run at low priority, and no thread of the replay waits for them. The `report`
//! crate renders the view.

mod history;
mod hub;
mod observed;
mod sampler;
mod server;
mod statements;

pub use hub::{Hub, HubParameters};
pub use server::PageServer;
pub use statements::Statements;
