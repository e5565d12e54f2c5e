//! Performs the trials of an experiment until its end or a stop.

use std::sync::Arc;

use crate::environment::Environment;
use crate::journal::Journal;
use crate::runner::{EndReason, Engine, Experiment, Listener};
use clock::{Clock, SystemClock};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Performs the trials that the journal lacks. Calls `tell` at each event.
///
/// # Errors
/// If the environment cannot be set up, the journal cannot be written, or the experiment fails.
pub fn perform<E: Experiment>(
    experiment: &E,
    environment: &mut dyn Environment,
    journal: &mut Journal<E::Plan>,
    interrupt: &Interrupt,
    tell: &mut Listener<'_, E>,
) -> Result<EndReason, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut engine = Engine {
        environment,
        clock: &clock,
        stop: &|| interrupt.is_requested(),
    };
    Ok(engine.run(experiment, journal, tell)?)
}
