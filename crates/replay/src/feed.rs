//! What clients do, made up or taken up as they come to it, instead of read from a workload in the
//! order of time: a closed loop with a given number of clients, or an open one with a pace of its own.
//!
//! Each client has a stream of its own, read by the planner as far ahead as the client may be ahead
//! of it: a slow client holds back nobody but itself, and a fast one never waits for what is not
//! ready. Streams may have no end; then it is the observer who stops the replay.

use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clock::Speed;
use sql::Fingerprint;
use workload::{ArchiveError, Event};

use crate::encode::Encoder;
use crate::job::Job;
use crate::login::Unsaid;
use crate::plan::{AHEAD_NS, NAP, Planned, Planner};

/// The events of one client, in its order, with the fingerprints of those that are statements.
pub type ClientEvents = Box<dyn Iterator<Item = (Event, Option<Fingerprint>)> + Send>;

/// Where clients' streams come from.
type Open = dyn Fn(u32) -> ClientEvents + Send + Sync;

/// As many jobs wait at the workers for all clients together.
const WAITING_MAX: u32 = 50_000;
/// And as many for one: what a session holds in memory, so that nothing of it goes to disk.
const WAITING_MAX_OF_ONE: u32 = 256;

/// What a number of clients do.
#[derive(Clone)]
pub struct Feed {
    clients: u32,
    open: Arc<Open>,
}

impl Feed {
    /// The streams of `clients` clients; `open` makes that of one, from 0. A stream may consist of
    /// several sessions, one behind the other: the number of each of them, divided by `clients`,
    /// must leave the client's.
    ///
    /// With [`clock::Speed::Max`] a statement is due when its session is free; else at its `due_us`
    /// divided by the speed.
    pub fn new(clients: u32, open: impl Fn(u32) -> ClientEvents + Send + Sync + 'static) -> Self {
        Feed {
            clients: clients.max(1),
            open: Arc::new(open),
        }
    }

    /// How many clients.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    fn streams(&self) -> Vec<Peekable<ClientEvents>> {
        let clients = 0..self.clients;
        clients.map(|one| (self.open)(one).peekable()).collect()
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Feed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.open, &other.open) && self.clients == other.clients
    }
}

impl Eq for Feed {}

impl Planner<'_> {
    /// Hands out what the clients do, until their streams end or the replay is stopped.
    ///
    /// # Errors
    /// Where the workload cannot be read.
    pub(crate) fn hand_out_fed(&self, feed: &Feed) -> Result<Planned, ArchiveError> {
        let mut batches: Vec<Vec<Job>> = self.inboxes.iter().map(|_| Vec::new()).collect();
        let mut planned = Planned::default();
        let (logins, fetch_size) = (&self.options.logins, self.options.fetch_size);
        let unsaid = Unsaid::of(self.reader, self.target)?;
        let mut encoder = Encoder::new(self.target, logins, fetch_size).with_encoding(unsaid);
        let mut streams = feed.streams();
        let timeline = self.options.timeline();
        let most = i64::from((WAITING_MAX / feed.clients).clamp(4, WAITING_MAX_OF_ONE));
        loop {
            let horizon_ns = match self.options.speed {
                Speed::Max => i64::MAX,
                Speed::Times { .. } => self.clock.now_ns() - self.start_ns + AHEAD_NS,
            };
            let (mut all_over, mut handed_out) = (true, false);
            for (client, stream) in streams.iter_mut().enumerate() {
                if self.is_stopped() {
                    return Ok(self.stopped(batches, planned));
                }
                let waiting = &self.counters.of_clients[client];
                let mut room = most - waiting.load(Ordering::Relaxed);
                if room < most / 2 {
                    // What is there lasts; a few at a time would ring the workers' bells for nothing.
                    all_over = false;
                    continue;
                }
                while room > 0 {
                    let due_ns = match stream.peek() {
                        None => break,
                        Some((event, _)) => timeline.due_ns(event.due_us),
                    };
                    if self.options.speed != Speed::Max && due_ns > horizon_ns {
                        break;
                    }
                    let Some((event, fingerprint)) = stream.next() else {
                        break;
                    };
                    planned.statements += u64::from(event.kind.is_statement());
                    let worker = (event.session % self.inboxes.len() as u64) as usize;
                    let job = encoder.job(event, fingerprint, due_ns);
                    let planned_ns = &self.counters.planned_ns;
                    planned_ns.fetch_max(due_ns, Ordering::Relaxed);
                    waiting.fetch_add(1, Ordering::Relaxed);
                    batches[worker].push(job);
                    room -= 1;
                    handed_out = true;
                }
                all_over &= stream.peek().is_none();
            }
            self.send_all(&mut batches);
            if all_over {
                return Ok(planned);
            }
            if !handed_out {
                std::thread::sleep(NAP);
            }
        }
    }
}
