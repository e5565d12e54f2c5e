//! Threads that open connections to the upstream, so that neither a name that takes long to look up
//! nor a handshake delays what passes on other connections. They are there while they are needed.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use connect::Server;
use connect::dial::{Channel, DialError, Opener};
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustls::ClientConnection;

use super::forwarder::{Inbox, ToForwarder};

/// Each waits for a server most of its time.
const THREADS_MAX: usize = 64;
/// One that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);

/// Something that is wanted of the upstream.
pub(super) struct Job {
    pub(super) slot: usize,
    pub(super) connection: u64,
    pub(super) inbox: Arc<Inbox>,
    /// A request to cancel, which is all that is to be sent. `None`: a connection is wanted.
    pub(super) cancel: Option<Vec<u8>>,
}

/// What came of it.
pub(super) struct Dialed {
    pub(super) slot: usize,
    pub(super) connection: u64,
    pub(super) result: Result<Upstream, Unreachable>,
}

/// Why there is no connection.
pub(super) struct Unreachable {
    /// For who runs the proxy: with what to do.
    pub(super) reason: String,
    /// For the client: what it would have been told without a proxy.
    pub(super) to_client: String,
}

impl Unreachable {
    /// The system refuses, here.
    fn by_the_system(reason: &str) -> Self {
        Unreachable {
            reason: reason.to_owned(),
            to_client: reason.to_owned(),
        }
    }
}

/// What was wanted.
pub(super) enum Upstream {
    /// A socket that does not block, and the TLS on it.
    Open(OwnedFd, Option<Box<ClientConnection>>),
    /// The request to cancel was taken.
    Cancelled,
}

/// The threads.
pub(super) struct Openers {
    shared: Arc<Shared>,
    wanted: Sender<Job>,
}

struct Shared {
    opener: Opener,
    jobs: Receiver<Job>,
    threads: AtomicUsize,
    /// Jobs that are not done.
    unfinished: AtomicUsize,
}

impl Openers {
    pub(super) fn new(opener: Opener) -> Self {
        let (wanted, jobs) = unbounded();
        Openers {
            shared: Arc::new(Shared {
                opener,
                jobs,
                threads: AtomicUsize::new(0),
                unfinished: AtomicUsize::new(0),
            }),
            wanted,
        }
    }

    /// Has it done. The inbox is told when it is.
    pub(super) fn want(&self, job: Job) {
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
            .spawn(move || thread.work());
        if started.is_err() && shared.threads.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Nobody else would ever do it.
            if let Ok(job) = shared.jobs.try_recv() {
                let failed =
                    Unreachable::by_the_system("the system has no room for another thread");
                shared.unfinished.fetch_sub(1, Ordering::SeqCst);
                job.done(Err(failed));
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        loop {
            match self.jobs.recv_timeout(IDLE) {
                Ok(job) => {
                    let result = match &job.cancel {
                        None => self.open(),
                        Some(request) => Ok(self.cancel(request)),
                    };
                    self.unfinished.fetch_sub(1, Ordering::SeqCst);
                    job.done(result);
                }
                Err(_) => {
                    self.threads.fetch_sub(1, Ordering::SeqCst);
                    // What came in between found this thread counted as one that works.
                    match self.jobs.is_empty() {
                        true => return,
                        false => self.threads.fetch_add(1, Ordering::SeqCst),
                    };
                }
            }
        }
    }

    /// A connection to the first server that is there.
    fn open(&self) -> Result<Upstream, Unreachable> {
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
                                    |error| Unreachable::by_the_system(&error.to_string()),
                                );
                            }
                            Err(error) => {
                                to_client.push(error.in_libpqs_words.clone());
                                last = Some(error);
                            }
                        }
                    }
                    last
                }
                Err(error) => {
                    to_client.push(error.in_libpqs_words.clone());
                    Some(error)
                }
            };
            let message = failed.map(|error| error.message).unwrap_or_default();
            if !failures.contains(&message) {
                failures.push(message);
            }
        }
        Err(Unreachable {
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
        for &way in self.opener.ways(address) {
            match self.opener.open(server, address, way) {
                Ok(channel) => return Ok(channel),
                Err(error) if error.another_way => first = first.or(Some(error)),
                Err(error) => return Err(first.unwrap_or(error)),
            }
        }
        Err(first.expect("there is a way, and it failed"))
    }

    /// Gives a request to cancel to every server: only the one that gave its key takes it. There
    /// is no answer; the server closes the connection when it has taken it.
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

impl Job {
    fn done(self, result: Result<Upstream, Unreachable>) {
        self.inbox.send(ToForwarder::Dialed(Dialed {
            slot: self.slot,
            connection: self.connection,
            result,
        }));
    }
}
