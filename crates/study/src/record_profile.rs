//! Records a CPU profile of a server into a run without a replay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clock::Clock;
use connect::login::Dialer;
use cpu_profile::{ProfileOptions, Profiling};
use replay::{LoginMap, Target};
use run::{RunInfo, RunWriter, TargetInfo};

use crate::failure::Failure;
use crate::notes::note;

/// Records a CPU profile of the server into a run at `output` while `work` runs. If nothing can be recorded, `work`
/// does not run, no file is left, and the inner error is the reason.
///
/// # Errors
/// If the target refuses, or the run cannot be written.
pub fn record_profile<T>(
    target: &Target,
    options: &ProfileOptions,
    output: &Path,
    clock: &Arc<dyn Clock>,
    work: impl FnOnce() -> T,
) -> Result<Result<T, String>, Failure> {
    let login = LoginMap::default().login(target, "", "", "rehearse profile");
    let found = Dialer::new(target)?.probe(&login).map_err(|error| {
        Failure::could_not(format!("{} refused: {}", target.address(), error.message))
    })?;
    let server = TargetInfo {
        address: found.address,
        server_version: found.server_version,
        ..TargetInfo::default()
    };
    let frequency = options.frequency_hz.to_string();
    let described = BTreeMap::from([("profile_frequency".to_owned(), frequency)]);
    let mut info = RunInfo::observation(server, described, clock.wall_us());
    let mut run = RunWriter::create(output, &info, std::iter::empty())?;
    let profiling = Profiling::start(target, &login, options, run.profile()?, clock.clone());
    if !profiling.is_on() {
        let reason = profiling.describe();
        drop(profiling);
        let unfinished = run.directory().to_owned();
        drop(run);
        // It is empty.
        let _ = std::fs::remove_dir_all(unfinished);
        return Ok(Err(reason.trim_end_matches('.').to_owned()));
    }
    note(&profiling.describe());
    let start_ns = clock.now_ns();
    profiling.set_run_time(0);
    let result = work();
    info.elapsed_ns = clock.now_ns() - start_ns;
    note("Reading what was recorded of the server's stacks.");
    run.take_profile(profiling.finish()?)?;
    run.finish(info, 0)?;
    Ok(Ok(result))
}
