//! Load source: the event streams of a number of clients, which a replay runs instead of a workload's events.
//!
//! It makes a closed loop with a given number of clients, or an open one with its own pace. The dispatcher
//! reads each client's stream ahead separately, so a slow client delays no other. Streams may be infinite; then
//! the observer stops the replay.

use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;

use sql::Fingerprint;
use workload::Event;

/// Events of one client, in order, with the fingerprints of those that are statements.
pub type ClientEvents = Box<dyn Iterator<Item = (Event, Option<Fingerprint>)> + Send>;

/// Opens the stream of a client.
type Open = dyn Fn(u32) -> ClientEvents + Send + Sync;

/// Event streams of a number of clients.
#[derive(Clone)]
pub struct LoadSource {
    clients: u32,
    open: Arc<Open>,
}

impl LoadSource {
    /// Creates a source of `clients` streams. `open` opens the stream of one client, numbered from 0.
    ///
    /// A stream may consist of several sessions, one after the other. Each session's number modulo `clients`
    /// must be the client's number. With [`clock::Speed::Max`] a statement is due when its session is free;
    /// otherwise at its `due_us` divided by the speed.
    pub fn new(clients: u32, open: impl Fn(u32) -> ClientEvents + Send + Sync + 'static) -> Self {
        LoadSource {
            clients: clients.max(1),
            open: Arc::new(open),
        }
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// Opens the streams of all clients.
    pub(crate) fn streams(&self) -> Vec<Peekable<ClientEvents>> {
        let clients = 0..self.clients;
        clients.map(|one| (self.open)(one).peekable()).collect()
    }
}

impl fmt::Debug for LoadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

impl PartialEq for LoadSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.open, &other.open) && self.clients == other.clients
    }
}

impl Eq for LoadSource {}
