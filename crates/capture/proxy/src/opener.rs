//! Opens upstream connections in a pool of threads, so that neither a slow name resolution nor a
//! handshake delays other connections. Threads exist only while they are needed.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use connect::Server;
use connect::dial::{Channel, DialError, SocketOpener};
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustls::ClientConnection;

use super::inbox::{ForwarderMessage, Inbox};

/// Maximum number of threads. Each waits for a server most of its time.
const THREADS_MAX: usize = 64;
/// Time without work after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// A request for the upstream.
pub(super) struct OpenRequest {
    pub(super) slot: usize,
    pub(super) connection: u64,
    pub(super) inbox: Arc<Inbox>,
    /// The cancel request to send; `None` to open a connection.
    pub(super) cancel: Option<Vec<u8>>,
}

/// Result of a request.
pub(super) struct DialResult {
    pub(super) slot: usize,
    pub(super) connection: u64,
    pub(super) result: Result<Upstream, UnreachableReason>,
}

/// Reason why there is no connection.
pub(super) struct UnreachableReason {
    /// Message for the operator, with an action.
    pub(super) reason: String,
    /// Message for the client: the one that it would get without a proxy.
    pub(super) to_client: String,
}

impl UnreachableReason {
    /// Describes a failure of the local system.
    fn from_system(reason: &str) -> Self {
        UnreachableReason {
            reason: reason.to_owned(),
            to_client: reason.to_owned(),
        }
    }
}

/// Result of a successful request.
pub(super) enum Upstream {
    /// A non-blocking socket, and its TLS.
    Open(OwnedFd, Option<Box<ClientConnection>>),
    /// The cancel request was sent.
    Cancelled,
}

/// The thread pool.
pub(super) struct OpenerPool {
    shared: Arc<PoolShared>,
    wanted: Sender<OpenRequest>,
}

struct PoolShared {
    opener: SocketOpener,
    jobs: Receiver<OpenRequest>,
    threads: AtomicUsize,
    /// Number of unfinished requests.
    unfinished: AtomicUsize,
}

impl OpenerPool {
    pub(super) fn new(opener: SocketOpener) -> Self {
        let (wanted, jobs) = unbounded();
        OpenerPool {
            shared: Arc::new(PoolShared {
                opener,
                jobs,
                threads: AtomicUsize::new(0),
                unfinished: AtomicUsize::new(0),
            }),
            wanted,
        }
    }

    /// Queues a request. Its inbox receives the result.
    pub(super) fn submit(&self, job: OpenRequest) {
        let shared = &self.shared;
        let unfinished = shared.unfinished.fetch_add(1, Ordering::SeqCst) + 1;
        self.wanted.send(job).expect("it is received here as well");
        if unfinished <= shared.threads.load(Ordering::SeqCst) {
            return;
        }
        if shared.threads.fetch_add(1, Ordering::SeqCst) >= THREADS_MAX {
            shared.threads.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let thread = shared.clone();
        let started = std::thread::Builder::new()
            .name("opener".to_owned())
            .spawn(move || thread.run_worker());
        if started.is_err() && shared.threads.fetch_sub(1, Ordering::SeqCst) == 1 {
            // No other thread would handle it.
            if let Ok(job) = shared.jobs.try_recv() {
                let failed =
                    UnreachableReason::from_system("the system has no room for another thread");
                shared.unfinished.fetch_sub(1, Ordering::SeqCst);
                job.reply(Err(failed));
            }
        }
    }
}

impl PoolShared {
    fn run_worker(&self) {
        loop {
            match self.jobs.recv_timeout(IDLE) {
                Ok(job) => {
                    let result = match &job.cancel {
                        None => self.open(),
                        Some(request) => Ok(self.cancel(request)),
                    };
                    self.unfinished.fetch_sub(1, Ordering::SeqCst);
                    job.reply(result);
                }
                Err(_) => {
                    self.threads.fetch_sub(1, Ordering::SeqCst);
                    // A request queued meanwhile counted this thread as busy.
                    match self.jobs.is_empty() {
                        true => return,
                        false => self.threads.fetch_add(1, Ordering::SeqCst),
                    };
                }
            }
        }
    }

    /// Connects to the first server that is available.
    fn open(&self) -> Result<Upstream, UnreachableReason> {
        let mut failures: Vec<String> = Vec::new();
        let mut to_client: Vec<String> = Vec::new();
        for server in self.opener.servers() {
            let failed = match self.opener.addresses(server) {
                Ok(addresses) => {
                    let mut last = None;
                    for address in addresses {
                        match self.open_address(server, address) {
                            Ok(channel) => {
                                let parts = channel.into_parts();
                                return parts.map(|(fd, tls)| Upstream::Open(fd, tls)).map_err(
                                    |error| UnreachableReason::from_system(&error.to_string()),
                                );
                            }
                            Err(error) => {
                                to_client.push(error.libpq_message.clone());
                                last = Some(error);
                            }
                        }
                    }
                    last
                }
                Err(error) => {
                    to_client.push(error.libpq_message.clone());
                    Some(error)
                }
            };
            let message = failed.map(|error| error.message).unwrap_or_default();
            if !failures.contains(&message) {
                failures.push(message);
            }
        }
        Err(UnreachableReason {
            reason: failures.join("; "),
            to_client: to_client.join("\n"),
        })
    }

    fn open_address(
        &self,
        server: &Server,
        address: Option<SocketAddr>,
    ) -> Result<Channel, DialError> {
        let mut first = None;
        for &way in self.opener.attempts(address) {
            match self.opener.open(server, address, way) {
                Ok(channel) => return Ok(channel),
                Err(error) if error.may_retry_other_tls_use => first = first.or(Some(error)),
                Err(error) => return Err(first.unwrap_or(error)),
            }
        }
        Err(first.expect("there is a way, and it failed"))
    }

    /// Sends a cancel request to every server: only the one that issued the key acts on it. There
    /// is no answer; the server closes the connection when it has read it.
    fn cancel(&self, request: &[u8]) -> Upstream {
        for server in self.opener.servers() {
            let addresses = self.opener.addresses(server).unwrap_or_default();
            for address in addresses {
                if let Ok(mut channel) = self.open_address(server, address) {
                    let sent = channel.write_all(request).and_then(|()| channel.flush());
                    if sent.is_ok() {
                        let _ = channel.read(&mut [0; 1]);
                        break;
                    }
                }
            }
        }
        Upstream::Cancelled
    }
}

impl OpenRequest {
    fn reply(self, result: Result<Upstream, UnreachableReason>) {
        self.inbox.send(ForwarderMessage::Dialed(DialResult {
            slot: self.slot,
            connection: self.connection,
            result,
        }));
    }
}
