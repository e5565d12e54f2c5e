//! The parts that sweeps and proofs have in common.

use std::path::Path;
use std::sync::Arc;

use clock::{Clock, SystemClock};
use study::{End, Engine, Environment, Experiment, Journal, Listener};

use crate::commands::outputs;
use crate::ending::Failure;
use crate::interrupt::Interrupt;

/// The page, in an experiment's directory.
const PAGE: &str = "report.html";

/// Performs the trials that the journal lacks. `tell` is called at each event.
///
/// # Errors
/// If the environment cannot be set up, the journal cannot be written, or the experiment fails.
pub fn run<E: Experiment>(
    experiment: &E,
    environment: &mut dyn Environment,
    journal: &mut Journal<E::Plan>,
    interrupt: &Interrupt,
    tell: &mut Listener<'_, E>,
) -> Result<End, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut engine = Engine {
        environment,
        clock: &clock,
        stop: &|| interrupt.is_asked(),
    };
    Ok(engine.run(experiment, journal, tell)?)
}

/// Writes a result, as JSON, and its page into an experiment's directory.
///
/// # Errors
/// If a file cannot be written.
pub fn write_results(directory: &Path, name: &str, json: &str, page: &str) -> Result<(), Failure> {
    outputs::write(outputs::PAGE, &directory.join(PAGE), page)?;
    write(&directory.join(name), json)
}

/// Writes a file.
///
/// # Errors
/// With its name.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::could_not(format!("cannot write {}: {error}", file.display())))
}
