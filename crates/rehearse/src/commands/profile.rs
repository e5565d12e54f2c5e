//! `rehearse profile`: records a CPU profile of a server.

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, SystemClock};
use cpu_profile::ProfileOptions;
use replay::Target;

use crate::commands::cpu;
use crate::exit_status::ExitStatus;
use crate::options::profiling::Profile;
use study::Failure;
use study::profile_samples::SampleFilter;
use study::record_profile::record_profile;

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
        while !interrupt.is_requested()
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
    match record_profile(&target, &wanted, &options.output, &clock, wait)? {
        Ok(()) => {}
        Err(why) => return Err(Failure::could_not(why)),
    }
    cpu::show(&options.output, &SampleFilter::default(), TOP, options.json)?;
    Ok(ExitStatus::Success)
}
