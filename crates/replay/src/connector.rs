//! Threads that open connections, so that neither a slow handshake nor SCRAM's key derivation delays other
//! sessions.

use std::sync::Arc;
use std::thread::JoinHandle;

use clock::Clock;
use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::connect::{BackendHandle, Dialer};
use crate::connection_events::ConnectionEvents;
use crate::inbox::{Inbox, OpenResult, WorkerMessage};
use crate::login::Login;

/// Most threads. Each waits for a server most of the time; more of them would only queue at the server.
const CONNECTORS_MAX: usize = 32;

/// Request to a connector thread.
pub(crate) enum ConnectorRequest {
    /// Open a connection.
    Open(OpenRequest),
    /// Cancel the statement that runs on another connection.
    Cancel(CancelRequest),
}

/// Request to cancel a running statement. The worker gets a message when the request was sent.
pub(crate) struct CancelRequest {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
    pub(crate) backend: Box<BackendHandle>,
    pub(crate) inbox: Arc<Inbox>,
}

/// Request for a connection.
pub(crate) struct OpenRequest {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
    pub(crate) login: Login,
    pub(crate) inbox: Arc<Inbox>,
}

/// Connector threads and the channel of their requests.
pub(crate) struct Connectors {
    sender: Sender<ConnectorRequest>,
    threads: Vec<JoinHandle<()>>,
}

impl Connectors {
    /// Starts the threads: as many as sessions at once, up to [`CONNECTORS_MAX`].
    pub(crate) fn start(
        dialer: &Arc<Dialer>,
        events: &Arc<ConnectionEvents>,
        sessions_at_once: u64,
        clock: &Arc<dyn Clock>,
        start_ns: i64,
    ) -> Self {
        let (sender, requests) = unbounded();
        let count = (sessions_at_once as usize).clamp(1, CONNECTORS_MAX);
        let threads = (0..count)
            .map(|_| {
                let connector = Connector {
                    requests: requests.clone(),
                    dialer: dialer.clone(),
                    events: events.clone(),
                    clock: clock.clone(),
                    start_ns,
                };
                std::thread::Builder::new()
                    .name("connector".to_owned())
                    .spawn(move || connector.run())
                    .expect("the system can start a thread")
            })
            .collect();
        Connectors { sender, threads }
    }

    /// Returns the sender for requests.
    pub(crate) fn requests(&self) -> Sender<ConnectorRequest> {
        self.sender.clone()
    }

    /// Ends the threads, after every worker has dropped its sender.
    pub(crate) fn finish(self) {
        drop(self.sender);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// One connector thread.
struct Connector {
    requests: Receiver<ConnectorRequest>,
    dialer: Arc<Dialer>,
    events: Arc<ConnectionEvents>,
    clock: Arc<dyn Clock>,
    start_ns: i64,
}

impl Connector {
    /// Serves requests until all senders are dropped.
    fn run(self) {
        for request in &self.requests {
            match request {
                ConnectorRequest::Open(request) => self.open(request),
                ConnectorRequest::Cancel(request) => self.cancel(request),
            }
        }
    }

    fn open(&self, request: OpenRequest) {
        let sent_ns = self.clock.now_ns() - self.start_ns;
        let result = self.dialer.connect(&request.login);
        request.inbox.send(WorkerMessage::Opened(OpenResult {
            slot: request.slot,
            generation: request.generation,
            sent_ns,
            result,
        }));
    }

    fn cancel(&self, request: CancelRequest) {
        if self.dialer.cancel(&request.backend).is_err() {
            self.events.cancel_failed();
        }
        let message = WorkerMessage::Cancelled(request.slot, request.generation);
        request.inbox.send(message);
    }
}
