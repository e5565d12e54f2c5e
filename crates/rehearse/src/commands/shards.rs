//! `rehearse replay --shard`: one of several workers of a replay.

use std::path::PathBuf;
use std::sync::Arc;

use clock::Speed;
use replay::{Options, PreviousRun, Target, WorkerMeeting};
use run::WORKER_OPTION;
use study::shard_resume::find_resumed_part;
use study::shard_selection::select_shard;
use study::shard_start::{ShardMeeting, ShardRequest};
use study::target_snapshot::ObservationPlan;
use study::{Failure, Interrupt};
use workload::WorkloadReader;

use crate::options;
use crate::terminal;

/// Returns the request of a worker; `None` if the replay is not divided.
///
/// # Errors
/// If its number is not known, or the options do not suit several workers.
pub fn request(options: &options::Replay) -> Result<Option<ShardRequest>, Failure> {
    let Some(shard) = options.sharding.shard else {
        return Ok(None);
    };
    let (number, count) = shard
        .resolve(|name| std::env::var(name).ok())
        .map_err(Failure::usage)?;
    let waits_for_rounds = options.speed == Speed::Max || options.pace.think_time.is_some();
    if options.pace.loops > 1 && waits_for_rounds {
        return Err(Failure::usage(
            "with --speed max or --think-time a loop waits for the end of the one before, which a worker knows of its own sessions only; leave out --loops or --shard",
        ));
    }
    if let (Some(run), Some(output)) = (&options.safety.resume, &options.output)
        && run != output
    {
        return Err(Failure::usage(format!(
            "with --shard, --resume completes the run in place; give the same -o, {}",
            run.display()
        )));
    }
    Ok(Some(ShardRequest {
        number,
        count,
        run: options.output.clone().unwrap_or_default(),
        start_timeout: options.sharding.start_timeout,
        clock_tolerance: options.sharding.clock_tolerance,
    }))
}

/// Selects the sessions of a worker, and prepares its meeting with the others. Returns the path of its part.
///
/// # Errors
/// If the sessions cannot be divided, or the replay has begun already.
pub fn prepare(
    request: &ShardRequest,
    options: &options::Replay,
    (reader, target): (&WorkloadReader, &Target),
    engine: &mut Options,
    interrupt: &Interrupt,
) -> Result<PathBuf, Failure> {
    let (shard, sizes) = select_shard(request, reader, target, engine)?;
    engine.shard = Some(shard);
    if options.safety.dry_run {
        return Ok(PathBuf::new());
    }
    if options.safety.resume.is_some() {
        let part = find_resumed_part(request, &sizes)?;
        engine.part.insert(WORKER_OPTION.to_owned(), part.worker);
        if let Some(previous) = &part.previous {
            let previous = PreviousRun::read(previous, reader, engine)?;
            engine.previous_run = Some(Arc::new(previous));
        }
        return Ok(part.output);
    }
    let meeting = ShardMeeting::prepare(request, reader, target, (engine, sizes), interrupt)?;
    let worker = meeting.worker().to_owned();
    engine.part.insert(WORKER_OPTION.to_owned(), worker);
    engine.meeting = Some(WorkerMeeting::new(meeting));
    Ok(run::part_path(&request.run, request.number))
}

/// Returns the observation of the server: the worker of shard 0 observes it for all.
pub fn observation(worker: Option<&ShardRequest>, asked: ObservationPlan) -> ObservationPlan {
    match worker.map_or(0, |worker| worker.number) {
        0 => asked,
        _ => ObservationPlan {
            facts: false,
            plans: None,
            profile: None,
            watch: None,
        },
    }
}

/// Notes how the run of all workers is shown.
pub fn note_end(worker: Option<&ShardRequest>) {
    let Some(request) = worker else {
        return;
    };
    terminal::note(&format!(
        "This is shard {} of {}. `rehearse show {}` shows the run of all workers when they are done.",
        request.number,
        request.count,
        request.run.display()
    ));
}
