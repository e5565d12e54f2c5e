//! Observes a server without a replay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::login::{Dialer, ProbedServer};
use observe::MonitorOptions;
use replay::{LoginMap, Target};
use run::{RunInfo, RunWriter, TargetInfo};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::target_watch::TargetWatch;

/// Interval of checking whether the time is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Result of observing a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationEnd {
    /// The server was observed as requested.
    Complete,
    /// The server rejected the custom query at the beginning, or did not answer any more at the end.
    Incomplete,
}

/// Observes the server for `duration`, or until it is interrupted, and writes a run. Calls `progress` with the elapsed
/// nanoseconds, and with `None` at the end.
///
/// # Errors
/// If the target refuses, or the run cannot be written.
pub fn observe_server(
    target: &Target,
    options: &MonitorOptions,
    duration: Option<Duration>,
    output: &Path,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Option<i64>),
) -> Result<ObservationEnd, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let login = LoginMap::default().login(target, "", "", "");
    let dialer = Dialer::new(target)?;
    let ProbedServer {
        address,
        server_version,
        ..
    } = dialer.probe(&login).map_err(|error| {
        Failure::could_not(format!(
            "cannot observe {} as user \"{}\" on database \"{}\": {error}; give a target that takes this login, such as postgres://USER@HOST:PORT/DATABASE",
            target.address(), login.user, login.database
        ))
    })?;
    let server = TargetInfo {
        address: address.clone(),
        server_version: server_version.clone(),
        ..TargetInfo::default()
    };
    let mut info = RunInfo::observation(server, describe(options), clock.wall_us());
    let mut run = RunWriter::create(output, &info, std::iter::empty())?;
    let mut watch = TargetWatch::new(options.clone(), target.clone(), clock.clone());
    watch.begin(&mut run, std::slice::from_ref(&login))?;
    let is_query_rejected = options.custom_query.is_some() && watch.off_reason("queue").is_some();
    let start_ns = clock.now_ns();
    let time = clock.clone();
    watch.start(Arc::new(move || time.now_ns() - start_ns));
    let until = match duration {
        Some(_) => "; Ctrl-C ends it earlier",
        None => " until Ctrl-C",
    };
    note(&format!(
        "Observing {address} (PostgreSQL {server_version}){until}."
    ));
    let end_ns = duration.map(|span| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
    loop {
        let elapsed_ns = clock.now_ns() - start_ns;
        if interrupt.is_requested() || end_ns.is_some_and(|end_ns| elapsed_ns >= end_ns) {
            break;
        }
        progress(Some(elapsed_ns));
        std::thread::sleep(CHECK_INTERVAL);
    }
    progress(None);
    info.elapsed_ns = clock.now_ns() - start_ns;
    let gone = dialer.probe(&login).err();
    watch.end(&mut run)?;
    run.finish(info, 0)?;
    if let Some(error) = &gone {
        note(&format!(
            "{address} does not answer any more: {error}; there is what was seen of it until then"
        ));
    }
    Ok(match is_query_rejected || gone.is_some() {
        true => ObservationEnd::Incomplete,
        false => ObservationEnd::Complete,
    })
}

/// Returns the options by name, for the run's manifest.
fn describe(options: &MonitorOptions) -> BTreeMap<String, String> {
    let mut described = BTreeMap::from([("hz".to_owned(), options.hz.to_string())]);
    if let Some(query) = &options.custom_query {
        described.insert("queue".to_owned(), query.clone());
    }
    if let Some(interval) = options.custom_query_interval {
        described.insert(
            "queue-every-s".to_owned(),
            interval.as_secs_f64().to_string(),
        );
    }
    described
}
