//! Restarts a private server with its clock at the captured time.

use std::time::Duration;

use ::clock::{Clock, SystemClock, utc_text};
use connect::login::Dialer;
use replay::{LoginMap, Target, TargetClock};
use sandbox::{Dirs, ServerClock};
use workload::WorkloadReader;

use crate::environment::refuse_leased;
use crate::failure::Failure;
use crate::notes::note;

/// Time before the captured start to which the clock is set at first, in microseconds. It distinguishes the sandbox from
/// another server, also if the capture ended just now. It is less than the default of `checkpoint_timeout`.
const BEFORE_US: i64 = 120_000_000;
/// Largest difference between the target's clock and the one that was set, in seconds.
const DIFFERENCE_MAX_S: i64 = 30;

/// Restarts a sandbox with its clock near the captured start. Returns the clock, which the replay sets when it starts.
///
/// # Errors
/// If there is no such sandbox, an experiment holds it, it cannot be restarted, or the target is another server.
pub fn restart_at_captured_time(
    name: &str,
    workload: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
) -> Result<TargetClock, Failure> {
    let machine = SystemClock::start();
    let places = Dirs::from_environment()?;
    let mut server = sandbox::open(name, &places)?;
    refuse_leased(&server, None)?;
    let captured_us = workload.info().provenance.start_wall_us;
    let offset_us = captured_us - BEFORE_US - machine.wall_us();
    let clock = server.restart_with_clock(offset_us)?;
    drop(server);
    if let Some(session) = workload.sessions()?.next() {
        let session = session?;
        let login = logins.login(target, &session.user, &session.database, "");
        let question = "SELECT extract(epoch FROM clock_timestamp())::bigint";
        let answer = Dialer::new(target)?
            .query(&login, question)
            .map_err(Failure::could_not)?;
        let found: Option<i64> =
            (answer.rows.first()).and_then(|row| row.first()?.as_ref()?.parse().ok());
        let expected = (machine.wall_us() + offset_us) / 1_000_000;
        if found.is_none_or(|found| (found - expected).abs() > DIFFERENCE_MAX_S) {
            return Err(Failure::usage(format!(
                "the clock of the target {} is not that of the sandbox {name}: give the URL of this sandbox as --target (`rehearse sandbox url {name}`)",
                target.address()
            )));
        }
    }
    note(&format!(
        "{name} was restarted, and its clock starts at the captured time, {}. `rehearse sandbox restart {name}` sets it to the time of this machine again.",
        utc_text(captured_us)
    ));
    let set_offset = move |offset_us| clock_result(&clock, offset_us);
    Ok(TargetClock::new(
        set_offset,
        ServerClock::DELAY_MAX + Duration::from_secs(1),
    ))
}

fn clock_result(clock: &ServerClock, offset_us: i64) -> Result<(), String> {
    let result = clock.set_offset(offset_us);
    result.map_err(|error| error.to_string())
}
