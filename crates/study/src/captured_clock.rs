//! Restarts a private server with its clock at the captured time.

use std::time::Duration;

use ::clock::{Clock, SystemClock, utc_text};
use connect::login::{Dialer, Login};
use replay::{LoginMap, Target, TargetClock};
use sandbox::{Dirs, Endpoint, ServerClock};
use workload::WorkloadReader;

use crate::environment::{refuse_leased, server_target};
use crate::failure::Failure;
use crate::notes::note;

/// Time before the captured start to which the clock is set at first, in microseconds. It distinguishes a clock that was
/// set from the machine's, also if the capture ended just now. It is less than the default of `checkpoint_timeout`.
const BEFORE_US: i64 = 120_000_000;
/// Start of the server in microseconds, which no two servers share.
const START_SQL: &str = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
/// Time of the server in seconds.
const TIME_SQL: &str = "SELECT extract(epoch FROM clock_timestamp())::bigint";
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
    let login = first_login(workload, target, logins)?;
    refuse_other_server(name, &server.start()?, (target, &login))?;
    let captured_us = workload.info().provenance.start_wall_us;
    let offset_us = captured_us - BEFORE_US - machine.wall_us();
    let clock = server.restart_with_clock(offset_us)?;
    let found = query_number(target, &login, TIME_SQL);
    let expected = (machine.wall_us() + offset_us) / 1_000_000;
    let failure = match found {
        Ok(found) if (found - expected).abs() <= DIFFERENCE_MAX_S => None,
        Ok(_) => Some(Failure::could_not(format!(
            "libfaketime does not set the clock of the sandbox {name}: install another version of it, or replay without --captured-clock"
        ))),
        Err(failure) => Some(failure),
    };
    if let Some(mut failure) = failure {
        let returned = server.use_machine_clock().and_then(|()| server.restart());
        if let Err(error) = returned {
            failure.message += &format!(
                "; the sandbox could not be restarted with the clock of this machine ({error}), which `rehearse sandbox restart {name}` does"
            );
        }
        return Err(failure);
    }
    drop(server);
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

/// Returns the login of the first session, or that of the target if there is none.
fn first_login(
    workload: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
) -> Result<Login, Failure> {
    let names = workload
        .logins()?
        .first()
        .map(|one| (&*one.user, &*one.database));
    let (user, database) = names.unwrap_or_default();
    Ok(logins.login(target, user, database, ""))
}

/// Refuses a target that is not the running server of a sandbox.
fn refuse_other_server(
    name: &str,
    sandbox: &Endpoint,
    (target, login): (&Target, &Login),
) -> Result<(), Failure> {
    let own = server_target(sandbox, "postgres")?;
    let own_login = LoginMap::default().login(&own, "", "", "");
    let own_start = query_number(&own, &own_login, START_SQL)?;
    match query_number(target, login, START_SQL)? == own_start {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "the target {} is not the sandbox {name}: give the URL of this sandbox as --target (`rehearse sandbox url {name}`)",
            target.address()
        ))),
    }
}

/// Asks a server for a number.
fn query_number(target: &Target, login: &Login, question: &str) -> Result<i64, Failure> {
    let answer = Dialer::new(target)?
        .query(login, question)
        .map_err(Failure::could_not)?;
    let value = answer.rows.first().and_then(|row| row.first()?.as_ref());
    let number = value.and_then(|value| value.parse().ok());
    number.ok_or_else(|| {
        Failure::could_not(format!(
            "the server {} does not answer with a number to {question}; check that --target is PostgreSQL",
            target.address()
        ))
    })
}

fn clock_result(clock: &ServerClock, offset_us: i64) -> Result<(), String> {
    let result = clock.set_offset(offset_us);
    result.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;
    use test_support::server;
    use transform::SecretRedactor;
    use workload::{Provenance, WorkloadWriter, WriterOptions};

    #[test]
    fn target_that_is_another_server_is_refused_also_without_sessions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        let options = WriterOptions::default();
        let writer = WorkloadWriter::create(&path, options, SecretRedactor::default()).unwrap();
        writer.finish(Provenance::default()).unwrap();
        let workload = WorkloadReader::open(&path).unwrap();
        let (_sandbox, sandbox) = server().start();
        let (_other, other) = server().start();
        let check = |endpoint: &Endpoint| {
            let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
            let login = first_login(&workload, &target, &LoginMap::default()).unwrap();
            refuse_other_server("shop", &sandbox, (&target, &login))
        };
        check(&sandbox).unwrap();
        let failure = check(&other).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
        let words = "is not the sandbox shop";
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}
