//! Dispatch of a load source: gives the workers the jobs of its clients.

use std::iter::Peekable;
use std::sync::atomic::Ordering;

use clock::Speed;
use workload::ArchiveError;

use super::{AHEAD_NS, DispatchSummary, Dispatcher, POLL_INTERVAL};
use crate::encode::Encoder;
use crate::job::Job;
use crate::load_source::{ClientEvents, LoadSource};
use crate::pacing::Timeline;

/// Most jobs that wait at the workers for all clients together.
const WAITING_MAX: u32 = 50_000;
/// Most jobs that wait for one client: the number that a session keeps in memory, so that none is spilled.
const WAITING_MAX_OF_ONE: u32 = 256;

/// State of the dispatch of a load source.
struct LoadDispatch<'d> {
    encoder: Encoder<'d>,
    batches: Vec<Vec<Job>>,
    summary: DispatchSummary,
    timeline: Timeline,
    /// Most jobs that wait for one client.
    limit: i64,
}

/// Result of reading one client's stream ahead.
struct ClientProgress {
    has_ended: bool,
    has_dispatched: bool,
}

impl Dispatcher<'_> {
    /// Dispatches the clients' events until their streams end or the replay is stopped.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(super) fn dispatch_load(
        &self,
        source: &LoadSource,
    ) -> Result<DispatchSummary, ArchiveError> {
        let limit = (WAITING_MAX / source.clients()).clamp(4, WAITING_MAX_OF_ONE);
        let mut dispatch = LoadDispatch {
            encoder: self.encoder()?,
            batches: self.empty_batches(),
            summary: DispatchSummary::default(),
            timeline: self.options.timeline(),
            limit: i64::from(limit),
        };
        let mut streams = source.streams();
        loop {
            let horizon_ns = match self.options.speed {
                Speed::Max => i64::MAX,
                Speed::Times { .. } => self.clock.now_ns() - self.start_ns + AHEAD_NS,
            };
            let (mut all_ended, mut any_dispatched) = (true, false);
            for (client, stream) in streams.iter_mut().enumerate() {
                if self.is_stopped() {
                    return Ok(self.flush_stopped(
                        dispatch.batches,
                        dispatch.encoder.user_types().notes().collect(),
                        dispatch.summary,
                    ));
                }
                let progress = self.read_ahead(client, stream, horizon_ns, &mut dispatch);
                all_ended &= progress.has_ended;
                any_dispatched |= progress.has_dispatched;
            }
            self.send_all(&mut dispatch.batches);
            if all_ended {
                return Ok(self.flush_stopped(
                    dispatch.batches,
                    dispatch.encoder.user_types().notes().collect(),
                    dispatch.summary,
                ));
            }
            if !any_dispatched {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Encodes the next events of a client: those before the horizon, up to the limit of waiting jobs.
    fn read_ahead(
        &self,
        client: usize,
        stream: &mut Peekable<ClientEvents>,
        horizon_ns: i64,
        dispatch: &mut LoadDispatch<'_>,
    ) -> ClientProgress {
        let waiting = &self.counters.waiting_by_client[client];
        let mut room = dispatch.limit - waiting.load(Ordering::Relaxed);
        let mut progress = ClientProgress {
            has_ended: false,
            has_dispatched: false,
        };
        if room < dispatch.limit / 2 {
            // Enough jobs wait; a few at a time would wake the workers without need.
            return progress;
        }
        while room > 0 {
            let due_ns = match stream.peek() {
                None => break,
                Some((event, _)) => dispatch.timeline.due_ns(event.due_us),
            };
            if self.options.speed != Speed::Max && due_ns > horizon_ns {
                break;
            }
            let Some((event, fingerprint)) = stream.next() else {
                break;
            };
            dispatch.summary.statements += u64::from(event.kind.is_statement());
            let worker = self.worker_of(event.session);
            let job = dispatch.encoder.job(&event, fingerprint, due_ns);
            let planned_ns = &self.counters.planned_ns;
            planned_ns.fetch_max(due_ns, Ordering::Relaxed);
            waiting.fetch_add(1, Ordering::Relaxed);
            dispatch.batches[worker].push(job);
            room -= 1;
            progress.has_dispatched = true;
        }
        progress.has_ended = stream.peek().is_none();
        progress
    }
}
