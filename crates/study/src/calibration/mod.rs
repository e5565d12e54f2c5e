//! Calibration: measures what this machine spends on a statement, reads what a workload needs, and tells whether one
//! machine is enough to replay it.

mod answering_server;
mod measurement;
mod needs;

use std::collections::BTreeMap;

use clock::Speed;
use connect::login::Dialer;
use replay::{Amount, Demand, Options, ReplayError, SendOrder, Target};
use schemars::JsonSchema;
use serde::Serialize;
use workload::WorkloadReader;

pub use crate::connection_limit::TargetRoom;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::pass_note::PassNote;
use crate::shard_selection::DivisionNotes;
use answering_server::AnsweringServer;
use measurement::measure;
pub use measurement::{Measurement, StatementCost};
use needs::Machine;
pub use needs::{Estimate, Limit, LimitKind, Needs};

/// Events at the beginning whose results decide the size of the answers of a measurement.
const ANSWER_EVENTS: usize = 20_000;

/// Result of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Calibration {
    /// Name of the workload.
    pub workload: String,
    /// Speed of the replay: a factor or `max`. At `max`, times and rates of the demand are those of the capture.
    pub speed: String,
    /// Sums and peaks of the statements.
    pub demand: ReplayDemand,
    /// The tool at this speed on this machine; `null` at full speed, or if nothing could be measured.
    pub paced: Option<Measurement>,
    /// The tool at full speed on this machine; `null` if nothing could be measured.
    pub full_speed: Option<Measurement>,
    /// Reason why there is no measurement.
    pub unmeasured: Option<String>,
    /// Needs of the replay.
    pub needs: Needs,
    /// Connections of the target; `null` if it did not answer.
    pub target: Option<TargetRoom>,
    /// Limits that the replay exceeds on one machine.
    pub limits: Vec<Limit>,
    /// Number of machines like this one that are enough for the tool. Limits that more machines do not change may be exceeded
    /// nevertheless.
    pub workers: u64,
    /// Whether one machine is enough as it is: no limit is exceeded. CPU time and the target's `max_connections` may be
    /// unknown, and are `null` then.
    pub one_machine_is_enough: bool,
}

/// Sums and peaks of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReplayDemand {
    /// Sessions.
    pub sessions: u64,
    /// Greatest number of sessions that are open at the same time.
    pub sessions_at_once: u64,
    /// Statements that are sent.
    pub statements: u64,
    /// Statements that are not sent, by reason: they cannot be replayed, or `--read-only` excludes them. They are in no other
    /// number.
    pub not_sent: BTreeMap<String, u64>,
    /// Time from the first to the last event, in nanoseconds.
    pub span_ns: i64,
    /// Greatest number of statements within one second.
    pub statements_in_1s: u64,
    /// Greatest number of statements within a tenth of a second.
    pub statements_in_100ms: u64,
    /// Greatest number of sessions that connect within one second.
    pub connects_in_1s: u64,
    /// Bytes to send, estimated from the texts and values.
    pub sent_bytes: u64,
    /// Greatest number of bytes to send within one second.
    pub sent_bytes_in_1s: u64,
    /// Bytes to receive, by the sizes of the captured results.
    pub received_bytes: u64,
    /// Greatest number of bytes to receive within one second.
    pub received_bytes_in_1s: u64,
    /// Statements whose captured result has a known size. The others count as results without rows.
    pub statements_with_known_bytes: u64,
}

impl From<&Demand> for ReplayDemand {
    fn from(demand: &Demand) -> Self {
        let (second, tenth) = (demand.peaks.second, demand.peaks.tenth);
        let Amount {
            sent_bytes,
            received_bytes,
            ..
        } = demand.peaks.total;
        ReplayDemand {
            sessions: demand.sessions,
            sessions_at_once: demand.sessions_at_once,
            statements: demand.statements,
            not_sent: (demand.not_sent.iter())
                .map(|(reason, number)| (reason.name().to_owned(), *number))
                .collect(),
            span_ns: demand.span_ns,
            statements_in_1s: second.statements,
            statements_in_100ms: tenth.statements,
            connects_in_1s: second.connects,
            sent_bytes,
            sent_bytes_in_1s: second.sent_bytes,
            received_bytes,
            received_bytes_in_1s: second.received_bytes,
            statements_with_known_bytes: demand.with_bytes,
        }
    }
}

/// Measures the tool on this machine, reads the workload once, and asks the target for its connections. The target gets no
/// statement of the workload.
///
/// # Errors
/// If the workload cannot be read, or the measurement cannot be started.
pub fn calibrate(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    interrupt: &Interrupt,
) -> Result<Calibration, Failure> {
    let room = target_room(reader, target, engine)?;
    let machine = Machine::read()?;
    let measured = measure_tool(reader, engine, &machine, interrupt)?;
    if interrupt.is_requested() {
        return Err(Failure::could_not(
            "the calibration was interrupted, so there is no verdict; start it again",
        ));
    }
    let full_speed = measured.full_speed.as_ref();
    let capacity = full_speed.map(|full| capacity(full.statements_per_second, engine.order));
    let mut pass = PassNote::default();
    let demand = replay::demand(reader, target, engine, capacity, &mut |which, read, all| {
        if let Some(text) = pass.progress(which, read, all, clock::monotonic_ns()) {
            note(&text);
        }
    })?;
    if let Some(reason) = &demand.read_only_unknown {
        note(&format!(
            "Statements that use objects of the target that may write are counted, though --read-only does not send them: {reason}."
        ));
    }
    let connections = replay::connections_needed(reader, engine);
    let needs = Needs::estimate(&demand, connections, engine, measured.costs());
    let is_paced = engine.speed != Speed::Max;
    let peak_statements = demand.peaks.second.statements;
    let usable = capacity.filter(|_| is_paced);
    let (mut limits, workers) = needs::find_limits(&needs, peak_statements, usable, &machine, room);
    limits.extend(find_division_limit(workers, reader, (target, engine))?);
    Ok(Calibration {
        workload: reader.path().display().to_string(),
        speed: engine.speed.to_string(),
        demand: ReplayDemand::from(&demand),
        paced: measured.paced,
        full_speed: measured.full_speed,
        unmeasured: measured.unmeasured,
        needs,
        target: room,
        one_machine_is_enough: limits.is_empty(),
        limits,
        workers,
    })
}

/// Returns a limit if this number of machines is needed and the sessions cannot be divided among them.
fn find_division_limit(
    workers: u64,
    reader: &WorkloadReader,
    of: (&Target, &Options),
) -> Result<Option<Limit>, Failure> {
    if workers == 1 {
        return Ok(None);
    }
    let reason = match replay::select_shard(0, workers, reader, of, &mut DivisionNotes::default()) {
        Ok(_) => return Ok(None),
        Err(ReplayError::Shards(reason)) => reason,
        Err(ReplayError::Archive(error)) => return Err(error.into()),
        // The target did not answer, for example.
        Err(error) => format!("it is not known whether they can be: {error}"),
    };
    let (message, remedy) = reason.split_once("; ").unwrap_or((&reason, ""));
    Ok(Some(Limit {
        kind: LimitKind::Division,
        message: format!("the sessions cannot be divided among {workers} machines: {message}"),
        remedy: remedy.to_owned(),
    }))
}

/// Measurements of the tool.
#[derive(Default)]
struct Measured {
    paced: Option<Measurement>,
    full_speed: Option<Measurement>,
    unmeasured: Option<String>,
}

impl Measured {
    /// Returns the costs of a statement that the estimates use: those of the requested speed, and all of them.
    fn costs(&self) -> Option<StatementCost> {
        let all = [self.paced.as_ref(), self.full_speed.as_ref()];
        let costs = all.into_iter().flatten().map(|measured| measured.cost);
        costs.reduce(|paced, full| StatementCost {
            min_us: paced.min_us.min(full.min_us),
            // The requested speed comes first.
            mean_us: paced.mean_us,
            max_us: paced.max_us.max(full.max_us),
        })
    }
}

fn measure_tool(
    reader: &WorkloadReader,
    engine: &Options,
    machine: &Machine,
    interrupt: &Interrupt,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let Some(options) = machine.options_of_measurement(reader, engine) else {
        measured.unmeasured = Some(
            "the limit of open files is too low for a measurement; raise it with ulimit -n"
                .to_owned(),
        );
        return Ok(measured);
    };
    let server = AnsweringServer::start(mean_result_bytes(reader)?).map_err(Failure::could_not)?;
    let mut take = |speed| -> Result<Option<Measurement>, Failure> {
        match measure(reader, &options, speed, (&server, interrupt))? {
            Ok(found) => Ok(Some(found)),
            Err(reason) => {
                measured.unmeasured = Some(reason);
                Ok(None)
            }
        }
    };
    let paced = match engine.speed {
        Speed::Max => None,
        speed => take(speed)?,
    };
    let full_speed = take(Speed::Max)?;
    Ok(Measured {
        paced,
        full_speed,
        ..measured
    })
}

/// Returns the mean size of the results at the beginning of the workload, in bytes; 0 if the capture has none.
fn mean_result_bytes(reader: &WorkloadReader) -> Result<u64, Failure> {
    let (mut sum, mut statements) = (0_u64, 0_u64);
    for item in reader.events()?.take(ANSWER_EVENTS) {
        let (event, _) = item?;
        if let Some(bytes) = event.outcome.bytes {
            sum = sum.saturating_add(bytes);
            statements += 1;
        }
    }
    Ok(sum / statements.max(1))
}

/// Asks the target for its limit of connections. A target that does not answer is noted.
fn target_room(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
) -> Result<Option<TargetRoom>, Failure> {
    let names = reader.logins()?.first();
    let (user, database) = names.map_or(("", ""), |one| (&*one.user, &*one.database));
    let login = engine.logins.login(target, user, database, "rehearse");
    let asked = Dialer::new(target)?
        .open_query_connection(&login)
        .and_then(|mut connection| connection.query(&format!("SELECT {}", TargetRoom::COLUMNS)));
    let rows = match asked {
        Ok(rows) => rows,
        Err(error) => {
            note(&format!(
                "The target's max_connections is unknown, since {} did not answer: {error}.",
                target.address()
            ));
            return Ok(None);
        }
    };
    Ok(rows.first().and_then(|row| TargetRoom::from_columns(row)))
}

/// Returns a factor for the CPU time of the order of a replay, which the measurements leave out: that of
/// speed 1 and that of full speed in docs/benchmarks/replay.md.
fn order_factors(order: SendOrder) -> (f64, f64) {
    match order {
        SendOrder::Session | SendOrder::Global => (1.0, 1.0),
        SendOrder::Commit | SendOrder::Dependencies => (1.065, 1.21),
    }
}

/// Returns the statements per second that the tool sends in this order, from those that were measured without one.
fn capacity(statements_per_second: f64, order: SendOrder) -> f64 {
    let (_, at_full_speed) = order_factors(order);
    statements_per_second / at_full_speed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_lower_in_an_order_that_costs_processor_time() {
        assert_eq!(capacity(12_100.0, SendOrder::Session), 12_100.0);
        assert_eq!(capacity(12_100.0, SendOrder::Dependencies), 10_000.0);
    }
}
