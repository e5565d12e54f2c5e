//! `rehearse profile`: records a CPU profile of a server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::login::Dialer;
use cpu_profile::{ProfileOptions, Profiling};
use replay::{LoginMap, Target};
use run::{RunInfo, RunWriter, TargetInfo};

use crate::commands::cpu;
use crate::exit_status::ExitStatus;
use crate::options::profiling::Profile;
use crate::terminal;
use study::Failure;
use study::profile_samples::SampleFilter;

/// Interval of checking for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of statements shown at the end.
const TOP: usize = 10;

/// Records a profile, stores it in a run, and shows its phases.
pub fn run(options: &Profile) -> Result<ExitStatus, Failure> {
    let target = Target::parse(&options.target, |name| std::env::var(name).ok())?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let wait = || {
        let begun_ns = clock.now_ns();
        while !interrupt.is_asked()
            && u128::try_from(clock.now_ns() - begun_ns).unwrap_or(0) < options.duration.as_nanos()
        {
            std::thread::sleep(LOOK_EVERY);
        }
    };
    let wanted = ProfileOptions {
        frequency_hz: options.frequency,
        statements: true,
        task_clock: !options.no_task_clock,
        ..ProfileOptions::default()
    };
    match record(&target, &wanted, &options.output, &clock, wait)? {
        Ok(()) => {}
        Err(why) => return Err(Failure::could_not(why)),
    }
    cpu::show(&options.output, &SampleFilter::default(), TOP, options.json)?;
    Ok(ExitStatus::Success)
}

/// Records a CPU profile of the server into a run at `output` while `meanwhile` runs. If nothing can
/// be recorded, `meanwhile` is not run, no file is left, and the inner error is the reason.
///
/// # Errors
/// If the target refuses, or the run cannot be written.
pub fn record<T>(
    target: &Target,
    wanted: &ProfileOptions,
    output: &Path,
    clock: &Arc<dyn Clock>,
    meanwhile: impl FnOnce() -> T,
) -> Result<Result<T, String>, Failure> {
    let login = LoginMap::default().login(target, "", "", "rehearse profile");
    let dialer = Dialer::new(target)?;
    let found = dialer.try_out(&login).map_err(|error| {
        Failure::could_not(format!("{} refused: {}", target.address(), error.message))
    })?;
    let watched = TargetInfo {
        address: found.address,
        server_version: found.server_version,
        ..TargetInfo::default()
    };
    let frequency = (
        "profile_frequency".to_owned(),
        wanted.frequency_hz.to_string(),
    );
    let described = BTreeMap::from([frequency]);
    let mut info = RunInfo::observation(watched, described, clock.wall_us());
    let mut run = RunWriter::create(output, &info, std::iter::empty())?;
    let profiling = Profiling::start(target, &login, wanted, run.profile()?, clock.clone());
    if !profiling.is_on() {
        let told = profiling.told();
        drop(profiling);
        let left = run.directory().to_owned();
        drop(run);
        // Nothing is in it.
        let _ = std::fs::remove_dir_all(left);
        return Ok(Err(told.trim_end_matches('.').to_owned()));
    }
    terminal::note(&profiling.told());
    let begun_ns = clock.now_ns();
    profiling.run_is(0);
    let done = meanwhile();
    info.elapsed_ns = clock.now_ns() - begun_ns;
    terminal::note("Reading what was recorded of the server's stacks.");
    run.take_profile(profiling.finish()?)?;
    run.finish(info, 0)?;
    Ok(Ok(done))
}
