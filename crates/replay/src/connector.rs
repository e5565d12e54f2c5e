//! Threads that open connections, so that neither a slow handshake nor SCRAM's arithmetic delays
//! any other session.

use std::sync::Arc;
use std::thread::JoinHandle;

use clock::Clock;
use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::connect::{ConnectError, Connection, Dialer, Place};
use crate::incidents::Incidents;
use crate::login::Login;
use crate::worker::{Inbox, ToWorker};

/// Each waits for a server most of its time; more at once would only queue at the server.
const CONNECTORS_MAX: usize = 32;

/// What is wanted of a connector.
pub(crate) enum Wanted {
    /// A connection.
    Open(Open),
    /// That what runs on another connection is cancelled.
    Cancel(Cancel),
}

/// Something running that is to be cancelled; the worker hears when that is done.
pub(crate) struct Cancel {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
    pub(crate) place: Box<Place>,
    pub(crate) inbox: Arc<Inbox>,
}

/// A connection that is wanted.
pub(crate) struct Open {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
    pub(crate) login: Login,
    pub(crate) inbox: Arc<Inbox>,
}

/// What came of it.
pub(crate) struct Opened {
    pub(crate) slot: usize,
    pub(crate) generation: u32,
    pub(crate) sent_ns: i64,
    pub(crate) result: Result<Connection, ConnectError>,
}

/// The threads.
pub(crate) struct Connectors {
    wanted: Sender<Wanted>,
    threads: Vec<JoinHandle<()>>,
}

impl Connectors {
    pub(crate) fn start(
        dialer: &Arc<Dialer>,
        incidents: &Arc<Incidents>,
        sessions_at_once: u64,
        clock: &Arc<dyn Clock>,
        start_ns: i64,
    ) -> Self {
        let (wanted, requests): (Sender<Wanted>, Receiver<Wanted>) = unbounded();
        let count = (sessions_at_once as usize).clamp(1, CONNECTORS_MAX);
        let threads = (0..count)
            .map(|_| {
                let (requests, dialer, clock) = (requests.clone(), dialer.clone(), clock.clone());
                let incidents = incidents.clone();
                std::thread::Builder::new()
                    .name("connector".to_owned())
                    .spawn(move || {
                        for wanted in requests {
                            match wanted {
                                Wanted::Open(open) => {
                                    let sent_ns = clock.now_ns() - start_ns;
                                    let result = dialer.connect(&open.login);
                                    open.inbox.send(ToWorker::Opened(Opened {
                                        slot: open.slot,
                                        generation: open.generation,
                                        sent_ns,
                                        result,
                                    }));
                                }
                                Wanted::Cancel(cancel) => {
                                    if dialer.cancel(&cancel.place).is_err() {
                                        incidents.cancel_failed();
                                    }
                                    let Cancel {
                                        slot,
                                        generation,
                                        inbox,
                                        ..
                                    } = cancel;
                                    inbox.send(ToWorker::Cancelled(slot, generation));
                                }
                            }
                        }
                    })
                    .expect("the system can start a thread")
            })
            .collect();
        Connectors { wanted, threads }
    }

    /// Where workers ask for connections.
    pub(crate) fn requests(&self) -> Sender<Wanted> {
        self.wanted.clone()
    }

    /// Ends the threads, once every worker has let go of its sender.
    pub(crate) fn finish(self) {
        drop(self.wanted);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
