//! The system is watched while it works, as a user watches one that is live, and what was seen of its queue is diagnosed.
//!
//! Whether workers starve is read here and not in the replay: where two claims overlap, a replay may carry them out the
//! other way round, so that a link is done before it is claimed. Another one is claimed in its place, and from then on
//! one more is claimed than anybody does: *queued* is hardly ever 0 again.

use std::time::Duration;

use diagnose::{Thresholds, diagnose};
use lab::queue;
use lab::queue::{Queue, SystemPlan, SystemResult};
use replay::Target;
use run::RunReader;

use super::super::stage::{DATABASE, Stage};
use super::{could_not, deployment};
use crate::commands::observe as observing;
use crate::options::watching::{LookArgs, Observe};
use study::Failure;
use study::diagnosis_inputs;

/// What was seen.
pub const RUN: &str = "observed.run";

/// Drives the system for so long; the queue is looked at so often. Returns what it did, and how the finding is called that its workers starve, if it was found.
pub fn drive(
    stage: &Stage,
    made: &Queue,
    plan: &SystemPlan,
    (span, look_every): (Duration, Option<Duration>),
) -> Result<(SystemResult, Option<String>), Failure> {
    let url = stage.endpoint.url(DATABASE);
    let target = Target::parse(&url, |_| None)?;
    let output = stage.directory.join(RUN);
    let watching = Observe {
        target: url,
        duration: Some(span),
        output: Some(output.clone()),
        json: false,
        looks: LookArgs {
            sample_rate: observe::DEFAULT_SAMPLE_RATE_HZ,
            custom_query: Some(queue::SERIES.to_owned()),
            custom_query_every: look_every,
        },
    };
    let deployed = deployment(stage);
    let driven = std::thread::scope(|scope| -> Result<SystemResult, Failure> {
        let driving = scope.spawn(|| queue::run_system(&deployed, made, plan, span));
        let watched = observing::watch(&watching, &target, &output, &stage.interrupt);
        let driven = driving.join().expect("the system does not panic");
        watched?;
        driven.map_err(could_not)
    })?;
    let evidence = diagnosis_inputs::read_run_evidence(
        &RunReader::open(&output)?,
        diagnosis_inputs::QueriedFacts::default(),
    )?;
    let diagnosis = diagnose(&evidence, &Thresholds::default());
    let starved = diagnosis
        .findings
        .into_iter()
        .find(|one| one.rule == "starved-queue");
    Ok((driven, starved.map(|one| one.title)))
}
