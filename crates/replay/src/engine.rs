//! Puts the parts together, and takes them apart again in order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Clock, Speed};
use run::{ArchiveError, RunInfo, RunStatus, RunWriter, TargetInfo, WorkloadRef};
use workload::WorkloadReader;

use crate::breaker::Breaker;
use crate::connect::{ConnectError, Dialer};
use crate::connector::Connectors;
use crate::course;
use crate::feed::Feed;
use crate::incidents::Incidents;
use crate::login::{Login, LoginMap};
use crate::meter::Meter;
use crate::options::{Options, SendOrder};
use crate::order::Order;
use crate::plan::{LEAD_NS, Planner};
use crate::progress::{Counters, Observer};
use crate::record::{Recorded, record};
use crate::resume::Earlier;
use crate::stopped_clock::StoppedClock;
use crate::watch::Watch;
use crate::worker::{Inbox, Parts, ToWorker, Worker};
use connect::{Target, TargetError};

/// How often the observer is asked.
const OBSERVE_EVERY: Duration = Duration::from_millis(100);
/// Batches of records that may wait for the disk before workers wait for it too: at 512 records
/// a batch, half a million statements.
const RECORD_BATCHES_MAX: usize = 1_024;

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target does not take a login that the workload needs.
    #[error(
        "cannot replay against {address} as user \"{user}\" on database \"{database}\": {source}"
    )]
    Refused {
        /// Host and port.
        address: String,
        /// The role.
        user: String,
        /// The database.
        database: String,
        /// What the target said.
        source: ConnectError,
    },
    /// A file that the target names is of no use.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A run that the replay cannot go on with.
    #[error("cannot go on with the run {}: {reason}", run.display())]
    Resume {
        /// The run.
        run: PathBuf,
        /// Why.
        reason: String,
    },
    /// The system allows fewer connections.
    #[error(
        "{connections} sessions at once need as many connections, and this process may have {room}; allow it more open files (ulimit -n), or give --max-connections"
    )]
    TooManySessions {
        /// How many connections are needed at once.
        connections: u64,
        /// How many there is room for.
        room: u64,
    },
    /// A workload or run cannot be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The system refuses what a replay cannot do without.
    #[error("the system refuses what a replay needs: {0}")]
    System(#[from] io::Error),
}

/// Tries every login of the workload once, so that a target that is down or lacks a role or a
/// database is found before anything is sent. Returns what it is.
///
/// # Errors
/// With the first login that is refused.
pub fn check_target(
    reader: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
) -> Result<TargetInfo, ReplayError> {
    let mut needed: BTreeSet<Login> = BTreeSet::new();
    for session in reader.sessions()? {
        let session = session?;
        needed.insert(logins.login(target, &session.user, &session.database, ""));
    }
    let dialer = Dialer::new(target)?;
    // With several hosts, each that answered.
    let mut addresses = BTreeSet::new();
    let mut info = TargetInfo::default();
    for login in needed {
        let found = dialer
            .try_out(&login)
            .map_err(|source| ReplayError::Refused {
                address: target.address(),
                user: login.user.to_string(),
                database: login.database.to_string(),
                source,
            })?;
        addresses.insert(found.address);
        info.server_version = found.server_version;
        if found.server_encoding != "UTF8" && !found.server_encoding.is_empty() {
            let database = login.database.to_string();
            info.encodings.insert(database, found.server_encoding);
        }
    }
    let addresses: Vec<String> = addresses.into_iter().collect();
    info.address = match addresses.is_empty() {
        true => target.address(),
        false => addresses.join(", "),
    };
    Ok(info)
}

/// Replays a workload and writes the run to `path`. `target_info` is what [`check_target`] found.
///
/// # Errors
/// Where the run cannot be begun or written, or the workload not read. What happens at the target
/// is never an error here: it is in the run.
pub fn replay(
    reader: &WorkloadReader,
    target: &Target,
    target_info: TargetInfo,
    options: &Options,
    path: &Path,
    clock: &Arc<dyn Clock>,
    observer: &mut dyn Observer,
) -> Result<RunInfo, ReplayError> {
    let feed = options.feed.as_ref();
    let sessions_at_once = match feed {
        None => reader.info().sessions_at_once * options.scale.copies().max(1),
        Some(feed) => feed.clients().into(),
    };
    let connections = options
        .connections_max
        .map_or(sessions_at_once, |max| sessions_at_once.min(max.into()));
    if let Some(room) = event_loop::make_room(connections)? {
        return Err(ReplayError::TooManySessions { connections, room });
    }
    let target = &options.prepared(target);
    let dialer = Arc::new(Dialer::new(target)?);
    // Of a feed nobody knows: it is what was handed out in the end.
    let statements = match feed {
        None => course::statements(reader, &options.shape())?,
        Some(_) => 0,
    };
    let name = reader.path().display().to_string();
    let mut info = RunInfo {
        status: RunStatus::Complete,
        workload: WorkloadRef {
            name: options.workload_name.clone().unwrap_or(name),
            id: reader.id().to_owned(),
            statements,
            sources: source_names(reader),
            failures_named: reader.info().provenance.source_kind == "log",
        },
        target: target_info,
        options: options.described(),
        started_wall_us: clock.wall_us(),
        elapsed_ns: 0,
        span_due_ns: 0,
        span_sent_ns: 0,
        statements: 0,
        done: 0,
        failed: BTreeMap::new(),
        skipped: BTreeMap::new(),
        connections_failed: BTreeMap::new(),
        connections_lost: BTreeMap::new(),
        connections_reopened: 0,
        given_up: None,
    };
    let earlier = options.earlier.as_deref();
    if let Some(earlier) = earlier {
        info.started_wall_us = earlier.info().started_wall_us;
        info.options.insert("resumed".to_owned(), earlier.name());
    }
    let mut writer = RunWriter::create(path, &info, reader.statements()?)?;
    observer.beginning(&mut writer)?;
    let stopped_clock = match earlier {
        None => None,
        Some(earlier) => {
            for row in earlier.rows()? {
                writer.execution(&row?)?;
            }
            writer.flush()?;
            Some(Arc::new(StoppedClock::new(clock.clone())))
        }
    };
    let clock: &Arc<dyn Clock> = &match &stopped_clock {
        None => clock.clone(),
        Some(stopped) => stopped.clone(),
    };
    let spill_directory = writer.directory().to_owned();

    let start_ns = clock.now_ns()
        + match options.speed {
            Speed::Max => 0,
            Speed::Times { .. } => LEAD_NS,
        };
    let patience_ns = i64::try_from(options.patience.as_nanos()).unwrap_or(i64::MAX);
    let counters = Arc::new(Counters::of(feed.map_or(0, Feed::clients)));
    let incidents = Arc::new(Incidents::default());
    let connectors = Connectors::start(&dialer, &incidents, sessions_at_once, clock, start_ns);
    let worker_count = match options.connections_max {
        Some(max) => options.workers.clamp(1, max.max(1) as usize),
        None => options.workers.max(1),
    };
    let meter = Arc::new(Meter::new(
        worker_count,
        &counters,
        &incidents,
        clock,
        start_ns,
        statements.saturating_sub(earlier.map_or(0, Earlier::statements)),
    ));
    observer.started(&meter);
    let (recorder, recorded) = crossbeam_channel::bounded::<Recorded>(RECORD_BATCHES_MAX);
    let mut inboxes = Vec::new();
    let mut workers = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..worker_count {
        let (inbox, messages) = Inbox::new()?;
        inboxes.push(inbox);
        receivers.push(messages);
    }
    let order = (options.order != SendOrder::Session)
        .then(|| Arc::new(Order::new(inboxes.clone(), options.order)));
    for (number, messages) in receivers.into_iter().enumerate() {
        let inbox = inboxes[number].clone();
        let parts = Parts {
            inbox,
            messages,
            connectors: connectors.requests(),
            recorder: recorder.clone(),
            clock: clock.clone(),
            counters: counters.clone(),
            start_ns,
            incidents: incidents.clone(),
            meter: meter.clone(),
            number,
            patience_ns,
            spin_ns: i64::from(options.spin_us) * 1_000,
            order: order.clone(),
            connections_max: options.connections_max.map(|max| {
                let max = max.max(1) as usize;
                max / worker_count + usize::from(number < max % worker_count)
            }),
            at_full_speed: options.speed == Speed::Max,
            // In one order for all, each is sent before the next one may be.
            by_ring: options.by_ring
                && options.speed == Speed::Max
                && options.order != SendOrder::Global,
            queue_statements_max: options.queue_statements_max.max(1),
            digest: options.digest,
        };
        workers.push(Worker::new(parts, &spill_directory)?);
    }
    drop(recorder);

    let any_login = reader.sessions()?.next().transpose()?.map(|session| {
        let (user, database) = (&session.user, &session.database);
        options.logins.login(target, user, database, "")
    });
    let mut watch = Watch::new(&dialer, any_login.clone(), patience_ns);
    let stop = AtomicBool::new(false);
    let finished = AtomicBool::new(false);
    let count = workers.len();
    let (writer, planned, worked) = std::thread::scope(|scope| {
        let recording = {
            let (stop, inboxes, recorded) = (&stop, &inboxes, recorded);
            let (meter, incidents) = (&meter, &incidents);
            scope.spawn(move || {
                let result = record(
                    writer,
                    &recorded,
                    count,
                    clock,
                    options.checkpoint,
                    meter,
                    incidents,
                );
                if result.is_err() {
                    // A run that cannot be written is not worth the load on the target.
                    stop_all(stop, inboxes);
                }
                result
            })
        };
        let working: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let (stop, inboxes) = (&stop, &inboxes);
                scope.spawn(move || {
                    let result = worker.work();
                    if result.is_err() {
                        // Its sessions are gone from the replay: the others' times mean little.
                        stop_all(stop, inboxes);
                    }
                    result
                })
            })
            .collect();
        let planning = {
            let planner = Planner {
                reader,
                target,
                options,
                inboxes: inboxes.clone(),
                counters: counters.clone(),
                clock: clock.clone(),
                start_ns,
                sessions_at_once,
                order: order.clone(),
                earlier: earlier.zip(stopped_clock.as_deref()),
                stop: &stop,
            };
            scope.spawn(move || planner.plan())
        };
        let ending = {
            let finished = &finished;
            scope.spawn(move || {
                // All are waited for before a panic of one goes on: the observer's loop must end.
                let results: Vec<_> = working.into_iter().map(|thread| thread.join()).collect();
                finished.store(true, Ordering::Release);
                results.into_iter().try_for_each(join)
            })
        };
        if let Some(order) = &order {
            let breaker = Breaker {
                order,
                dialer: &dialer,
                login: any_login.clone(),
                clock,
                start_ns,
                finished: &finished,
            };
            scope.spawn(move || breaker.watch());
        }
        while !finished.load(Ordering::Acquire) {
            std::thread::sleep(OBSERVE_EVERY);
            let elapsed_ns = clock.now_ns() - start_ns;
            tell(observer, &incidents);
            observer.progress(&counters.snapshot(elapsed_ns, statements));
            if stop.load(Ordering::Relaxed) {
                continue;
            }
            let heard_ns = counters.heard_ns.load(Ordering::Relaxed);
            let waiting = counters.waiting.load(Ordering::Relaxed) > 0;
            if let Some(reason) = watch.look(elapsed_ns, heard_ns, waiting) {
                incidents.given_up(reason);
                stop_all(&stop, &inboxes);
            } else if observer.should_stop() {
                stop_all(&stop, &inboxes);
            }
        }
        (
            join(recording.join()),
            join(planning.join()),
            join(ending.join()),
        )
    });
    meter.over();
    tell(observer, &incidents);
    connectors.finish();
    worked?;
    let mut writer = writer?;
    let planned = planned?;
    if stop.load(Ordering::Relaxed) {
        info.status = RunStatus::Stopped;
    }
    let statements = match feed {
        None => statements,
        Some(_) => planned.statements,
    };
    info.workload.statements = statements;
    info.options.extend(planned.noted);
    incidents.fill(&mut info);
    if let Some(order) = &order {
        let (waits, let_go) = order.counts();
        let mut note = |name: &str, count: u64| {
            info.options.insert(name.to_owned(), count.to_string());
        };
        let of = match options.order {
            SendOrder::Global => "turn",
            SendOrder::Commit | SendOrder::Session => "commits",
        };
        note(&format!("waits_for_{of}"), waits);
        note(&format!("let_go_before_{of}"), let_go);
    }
    observer.ending(&mut writer)?;
    let before = earlier.map_or(0, Earlier::statements);
    let unplanned = statements.saturating_sub(planned.statements + before);
    Ok(writer.finish(info, unplanned)?)
}

fn tell(observer: &mut dyn Observer, incidents: &Incidents) {
    let (happenings, left_out) = incidents.happenings.take();
    if !happenings.is_empty() || left_out > 0 {
        observer.happened(&happenings, left_out);
    }
}

fn stop_all(stop: &AtomicBool, inboxes: &[Arc<Inbox>]) {
    stop.store(true, Ordering::Relaxed);
    for inbox in inboxes {
        inbox.send(ToWorker::Stop);
    }
}

/// How many statements a replay has, and how long it takes in an open loop, in nanoseconds: silence
/// that is cut counts. The time is 0 at full speed.
///
/// # Errors
/// Where the workload cannot be read.
pub fn extent(reader: &WorkloadReader, options: &Options) -> Result<(u64, i64), ReplayError> {
    let shape = options.shape();
    let span_us = course::span_us(reader, &shape);
    let statements = course::statements(reader, &shape)?;
    Ok((statements, options.timeline().due_ns(span_us)))
}

/// A panic of a thread of ours is a panic of ours.
fn join<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The workload's sources, as the user named them.
fn source_names(reader: &WorkloadReader) -> Vec<String> {
    let sources = reader.info().provenance.sources.iter();
    sources.map(|source| source.name.clone()).collect()
}
