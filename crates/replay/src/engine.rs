//! Engine: starts the threads of a replay, and ends them in order.

mod new_run;
mod target_check;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use std::{io, thread};

use clock::{Clock, Speed};
use crossbeam_channel::{Receiver, Sender};
use run::{ArchiveError, RunInfo, RunWriter, TargetInfo};
use sql::UnrestrictedNames;
use workload::WorkloadReader;

use crate::common_start::{await_start, end_meeting};
use crate::connect::Dialer;
use crate::connection_events::ConnectionEvents;
use crate::connection_limits::{check_limits, sessions_at_once};
use crate::connector::Connectors;
use crate::counters::Counters;
use crate::deadlock_breaker::DeadlockBreaker;
use crate::dispatcher::{DispatchSummary, Dispatcher, LEAD_NS};
use crate::error::ReplayError;
use crate::event_stream;
use crate::followed_values::FollowedValues;
use crate::generated::ReplayedValues;
use crate::inbox::{Inbox, WorkerMessage};
use crate::liveness::LivenessMonitor;
use crate::load_source::LoadSource;
use crate::login::Login;
use crate::metrics::Metrics;
use crate::options::{IoMethod, Options, SendOrder};
use crate::paused_clock::PausedClock;
use crate::progress::Observer;
use crate::read_only_catalogue::unrestricted_names;
use crate::record::{RecordBatch, RecorderOutput, record};
use crate::resume::PreviousRun;
use crate::row_sample::RowSample;
use crate::series_follower::NewTexts;
use crate::shard::ShardSelection;
use crate::shard_division::shard_sizes;
use crate::statement_order::StatementOrder;
use crate::user_types::UserTypes;
use crate::worker::{Worker, WorkerContext};
use connect::Target;
use new_run::{copy_previous_run, create_run, initial_info};
pub use target_check::check_target;

/// Interval between two calls of the observer.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(100);
/// Most batches of records that wait for the disk before workers wait as well. With 512 records per batch, it is
/// half a million statements.
const RECORD_BATCHES_MAX: usize = 1_024;

/// Replays a workload and writes the run to `path`. `target_info` is the result of [`check_target`].
///
/// # Errors
/// If the run cannot be created or written, or the workload cannot be read. Errors of the target are recorded in the
/// run instead.
pub fn replay(
    reader: &WorkloadReader,
    target: &Target,
    target_info: TargetInfo,
    options: &Options,
    path: &Path,
    clock: &Arc<dyn Clock>,
    observer: &mut dyn Observer,
) -> Result<RunInfo, ReplayError> {
    let shards = options.shard.as_ref().map_or(1, ShardSelection::count);
    // Together, the workers open no more sessions at full speed than the capture had.
    let sessions_at_once = sessions_at_once(reader, options).div_ceil(shards);
    check_limits(reader, options)?;
    let target = &options.target_with_settings(target);
    let dialer = Arc::new(Dialer::new(target)?);
    let unrestricted = unrestricted_names(reader, target, options)?;
    let user_types = UserTypes::load(reader, &dialer, target, &options.logins)?;
    let values = FollowedValues::load_if_followed(reader, &dialer, target, options, observer)?;
    let statements = planned_statements(reader, options)?;
    let mut info = initial_info(reader, target_info, options, statements, clock.wall_us());
    let mut writer = create_run(path, reader, &info, options, observer)?;
    let paused_clock = copy_previous_run(options, &mut writer, clock)?;
    let clock = match &paused_clock {
        None => clock.clone(),
        Some(paused) => paused.clone(),
    };
    let spill_directory = writer.directory().to_owned();
    start_target_clock(reader, options, &*clock)?;
    let start_ns = match await_start(options, &*clock, &mut info) {
        Ok(start_ns) => start_ns,
        Err(error) => {
            writer.discard()?;
            return Err(error);
        }
    };
    let clients = options.load_source.as_ref().map_or(0, LoadSource::clients);
    let counters = Arc::new(Counters::with_clients(clients));
    let events = Arc::new(ConnectionEvents::default());
    let connectors = Connectors::start(&dialer, &events, sessions_at_once, &clock, start_ns);
    let worker_count = worker_count(options);
    let completed = completed_statements(options);
    let metrics = Arc::new(Metrics::new(
        worker_count,
        &counters,
        &events,
        &clock,
        start_ns,
        statements.saturating_sub(completed),
    ));
    observer.on_metrics(&metrics);
    let (recorder, records) = crossbeam_channel::bounded::<RecordBatch>(RECORD_BATCHES_MAX);
    let (inboxes, messages) = create_inboxes(worker_count)?;
    let order = StatementOrder::new(options.order, &inboxes);
    let login = first_login(reader, target, options)?;
    let replay = Replay {
        reader,
        target,
        options,
        unrestricted,
        user_types,
        dialer,
        login,
        clock,
        paused_clock,
        start_ns,
        sessions_at_once,
        statements,
        counters,
        events,
        metrics,
        inboxes,
        order,
        values,
        replayed_values: Arc::default(),
        new_texts: Arc::default(),
        stop: AtomicBool::new(false),
        finished: AtomicBool::new(false),
    };
    let workers = replay.workers(messages, &connectors, recorder, &spill_directory)?;
    let results = replay.run_threads(workers, writer, &records, observer);
    replay.metrics.stop();
    report_events(observer, &replay.events);
    connectors.finish();
    results.workers?;
    let mut writer = results.recorder?;
    let summary = results.dispatcher?;
    let dispatched = summary.statements + completed;
    replay.complete_info(&mut info, summary);
    end_meeting(options, observer);
    observer.before_finish(&mut writer)?;
    let undispatched = info.workload.statements.saturating_sub(dispatched);
    Ok(writer.finish(info, undispatched)?)
}

/// Returns the login of the workload's first session.
fn first_login(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
) -> Result<Option<Login>, ArchiveError> {
    Ok(reader.logins()?.first().map(|used| {
        let (user, database) = (&used.user, &used.database);
        options.logins.login(target, user, database, "")
    }))
}

/// Sets the target's clock to the captured time, if the options ask for it.
fn start_target_clock(
    reader: &WorkloadReader,
    options: &Options,
    clock: &dyn Clock,
) -> Result<(), ReplayError> {
    let Some(target_clock) = &options.target_clock else {
        return Ok(());
    };
    // The first event is due after the lead.
    let captured_us = reader.info().provenance.start_wall_us - LEAD_NS / 1_000;
    let set = target_clock.start_at(captured_us, clock);
    set.map_err(ReplayError::TargetClock)
}

/// Returns the number of statements that this process replays; 0 for a load source and for a series that grows, whose
/// statements are counted at the end.
fn planned_statements(reader: &WorkloadReader, options: &Options) -> Result<u64, ArchiveError> {
    match options.load_source.is_some() || options.follow.is_some() {
        true => Ok(0),
        false => count_statements(reader, options),
    }
}

/// Counts the statements of the workload that this process replays.
fn count_statements(reader: &WorkloadReader, options: &Options) -> Result<u64, ArchiveError> {
    match &options.shard {
        None => event_stream::count_statements(reader, &options.shape()),
        Some(shard) => {
            let sizes = shard_sizes(shard, reader, options)?;
            Ok(sizes[shard.number() as usize].statements)
        }
    }
}

fn worker_count(options: &Options) -> usize {
    match options.connections_max {
        Some(max) => options.workers.clamp(1, max.max(1) as usize),
        None => options.workers.max(1),
    }
}

type Messages = Receiver<WorkerMessage>;

fn create_inboxes(count: usize) -> io::Result<(Vec<Arc<Inbox>>, Vec<Messages>)> {
    let inboxes: io::Result<Vec<_>> = (0..count).map(|_| Inbox::new()).collect();
    Ok(inboxes?.into_iter().unzip())
}

/// Returns the number of statements that the run to resume has completed.
fn completed_statements(options: &Options) -> u64 {
    let previous = options.previous_run.as_deref();
    previous.map_or(0, PreviousRun::statements)
}

/// Data that the threads of a replay share.
struct Replay<'a> {
    reader: &'a WorkloadReader,
    target: &'a Target,
    options: &'a Options,
    unrestricted: UnrestrictedNames,
    user_types: UserTypes,
    dialer: Arc<Dialer>,
    /// Login of the workload's first session, for probes.
    login: Option<Login>,
    clock: Arc<dyn Clock>,
    /// The clock, if a run is resumed.
    paused_clock: Option<Arc<PausedClock>>,
    start_ns: i64,
    sessions_at_once: u64,
    /// Statements of the workload; 0 for a load source.
    statements: u64,
    counters: Arc<Counters>,
    events: Arc<ConnectionEvents>,
    metrics: Arc<Metrics>,
    inboxes: Vec<Arc<Inbox>>,
    order: Option<Arc<StatementOrder>>,
    /// Origins of generated values, if these are followed.
    values: Option<FollowedValues>,
    replayed_values: Arc<ReplayedValues>,
    /// Statements and contexts of later parts of a series.
    new_texts: Arc<NewTexts>,
    /// Whether the replay must stop.
    stop: AtomicBool,
    /// Whether all workers have ended.
    finished: AtomicBool,
}

/// Results of the threads of a replay.
struct ThreadResults {
    recorder: Result<RunWriter, ArchiveError>,
    dispatcher: Result<DispatchSummary, ArchiveError>,
    workers: io::Result<()>,
}

impl Replay<'_> {
    /// Creates the workers. The given sender of records is dropped, so that the channel closes when they end.
    fn workers(
        &self,
        messages: Vec<Messages>,
        connectors: &Connectors,
        recorder: Sender<RecordBatch>,
        spill_directory: &Path,
    ) -> io::Result<Vec<Worker>> {
        let options = self.options;
        let count = messages.len();
        let mut workers = Vec::new();
        for (number, messages) in messages.into_iter().enumerate() {
            let context = WorkerContext {
                inbox: self.inboxes[number].clone(),
                messages,
                connectors: connectors.requests(),
                recorder: recorder.clone(),
                clock: self.clock.clone(),
                counters: self.counters.clone(),
                start_ns: self.start_ns,
                events: self.events.clone(),
                metrics: self.metrics.clone(),
                number,
                patience_ns: self.patience_ns(),
                spin_ns: i64::from(options.spin_us) * 1_000,
                order: self.order.clone(),
                replayed_values: self.replayed_values.clone(),
                connections_max: options.connections_max.map(|max| {
                    let max = max.max(1) as usize;
                    max / count + usize::from(number < max % count)
                }),
                at_full_speed: options.speed == Speed::Max,
                // In global order each statement must be sent at once, since the next one waits for it.
                uses_io_uring: options.io == IoMethod::IoUring
                    && options.speed == Speed::Max
                    && options.order != SendOrder::Global,
                queue_statements_max: options.queue_statements_max.max(1),
                lag_max_ns: (options.follow.as_ref())
                    .map(|follow| i64::try_from(follow.lag_max.as_nanos()).unwrap_or(i64::MAX)),
                checksums: options.checksums,
            };
            workers.push(Worker::new(context, spill_directory)?);
        }
        Ok(workers)
    }

    fn patience_ns(&self) -> i64 {
        i64::try_from(self.options.retry_for.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Runs all threads until the workers have ended. The observer is called on this thread.
    fn run_threads(
        &self,
        workers: Vec<Worker>,
        writer: RunWriter,
        records: &Receiver<RecordBatch>,
        observer: &mut dyn Observer,
    ) -> ThreadResults {
        let worker_count = workers.len();
        thread::scope(|scope| {
            let recorder = scope.spawn(move || self.record(writer, records, worker_count));
            let workers: Vec<_> = workers
                .into_iter()
                .map(|worker| scope.spawn(move || self.work(worker)))
                .collect();
            let dispatcher = scope.spawn(|| self.dispatcher().run());
            let workers = scope.spawn(move || self.join_workers(workers));
            if let Some(order) = &self.order {
                let breaker = DeadlockBreaker {
                    order,
                    dialer: &self.dialer,
                    login: self.login.clone(),
                    clock: &self.clock,
                    start_ns: self.start_ns,
                    finished: &self.finished,
                };
                scope.spawn(move || breaker.run());
            }
            self.observe(observer);
            ThreadResults {
                recorder: join(recorder.join()),
                dispatcher: join(dispatcher.join()),
                workers: join(workers.join()),
            }
        })
    }

    fn record(
        &self,
        writer: RunWriter,
        records: &Receiver<RecordBatch>,
        worker_count: usize,
    ) -> Result<RunWriter, ArchiveError> {
        // Rows of a masked workload's target may have the values that were masked.
        let sample = RowSample::new(self.reader.info().masked.is_empty());
        let result = record(
            RecorderOutput {
                writer,
                sample,
                new_texts: &self.new_texts,
            },
            records,
            worker_count,
            &self.clock,
            self.options.checkpoint,
            &self.metrics,
            &self.events,
        );
        if result.is_err() {
            // Without a run, the load on the target has no use.
            self.stop();
        }
        result
    }

    fn work(&self, worker: Worker) -> io::Result<()> {
        let result = worker.work();
        if result.is_err() {
            // Without the worker's sessions, the times of the others are not comparable.
            self.stop();
        }
        result
    }

    fn dispatcher(&self) -> Dispatcher<'_> {
        let previous = self.options.previous_run.as_deref();
        Dispatcher {
            reader: self.reader,
            target: self.target,
            options: self.options,
            unrestricted: &self.unrestricted,
            user_types: &self.user_types,
            inboxes: self.inboxes.clone(),
            counters: self.counters.clone(),
            clock: self.clock.clone(),
            start_ns: self.start_ns,
            sessions_at_once: self.sessions_at_once,
            order: self.order.clone(),
            values: self.values.as_ref(),
            replayed_values: self.replayed_values.clone(),
            new_texts: self.new_texts.clone(),
            events: &self.events,
            resume_from: previous.zip(self.paused_clock.as_deref()),
            stop: &self.stop,
        }
    }

    /// Waits for all workers before it propagates a panic, so that the observer's loop ends.
    fn join_workers(&self, workers: Vec<ScopedJoinHandle<'_, io::Result<()>>>) -> io::Result<()> {
        let results: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        self.finished.store(true, Ordering::Release);
        results.into_iter().try_for_each(join)
    }

    /// Calls the observer and checks the target until all workers have ended.
    fn observe(&self, observer: &mut dyn Observer) {
        let mut monitor =
            LivenessMonitor::new(&self.dialer, self.login.clone(), self.patience_ns());
        while !self.finished.load(Ordering::Acquire) {
            thread::sleep(OBSERVE_INTERVAL);
            let elapsed_ns = self.clock.now_ns() - self.start_ns;
            report_events(observer, &self.events);
            observer.on_progress(&self.counters.snapshot(elapsed_ns, self.statements));
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            let heard_ns = self.counters.heard_ns.load(Ordering::Relaxed);
            let is_waiting = self.counters.waiting.load(Ordering::Relaxed) > 0;
            if let Some(reason) = monitor.check(elapsed_ns, heard_ns, is_waiting) {
                self.events.given_up(reason);
                self.stop();
            } else if observer.should_stop() {
                self.stop();
            }
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for inbox in &self.inboxes {
            inbox.send(WorkerMessage::Stop);
        }
    }
}

fn report_events(observer: &mut dyn Observer, events: &ConnectionEvents) {
    let (events, left_out) = events.queue.take();
    if !events.is_empty() || left_out > 0 {
        observer.on_events(&events, left_out);
    }
}

/// Returns the number of statements of a replay, and its duration in an open loop in nanoseconds. The duration
/// includes idle time that is cut. It is 0 at full speed.
///
/// # Errors
/// If the workload cannot be read.
pub fn extent(reader: &WorkloadReader, options: &Options) -> Result<(u64, i64), ReplayError> {
    let shape = options.shape();
    let span_us = event_stream::span_us(reader, &shape);
    let statements = count_statements(reader, options)?;
    Ok((statements, options.timeline().due_ns(span_us)))
}

/// Propagates the panic of a thread.
fn join<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
