//! Comparison of the hosts of two servers: round trip of a query, and time of a fixed computation.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, QueryConnection};

use super::REPLAYS;
use super::server_facts::{Machines, ServerIdentity, open};
use crate::failure::Failure;
use crate::journal::recorded_runs;

/// Number of round trips on each side.
const ROUND_TRIPS: usize = 200;
/// Number of computations on each side. The fastest of each side is compared, since load only adds time.
const COMPUTATIONS: usize = 7;
/// Statement of the computation. It depends on the version, too, but on no data and no setting.
const COMPUTATION: &str =
    "SELECT count(*) FROM pg_catalog.generate_series(1, 300000) g WHERE g % 7 = 3";
/// Just-in-time compilation would take most of the time on a server with a low `jit_above_cost`.
const WITHOUT_JIT: &str = "SELECT pg_catalog.set_config(name, 'off', false) FROM pg_catalog.pg_settings WHERE name = 'jit'";
/// Ratio of computation times on two machines that counts as equal, as a share. Versions differ by a few percent on one host.
const COMPUTATION_MARGIN: f64 = 0.1;
/// The same if it is not known whether there are two machines.
const UNKNOWN_MACHINES_MARGIN: f64 = 0.3;
/// Ratio of round trips, and their difference in microseconds, up to which they count as equal.
const ROUND_TRIP_MARGIN: (f64, f64) = (0.2, 50.0);
/// File of a rehearsal on clones with the reason why some of its hosts were unequal.
const FILE: &str = "unequal-hosts.txt";

/// Fastest times on both sides, old and new.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HostSpeeds {
    /// Round trip of an empty query, in microseconds.
    round_trip_us: [f64; 2],
    /// Computation in the server without the round trip, in microseconds.
    computation_us: [f64; 2],
    machines: Machines,
}

impl HostSpeeds {
    /// Measures both servers in turn.
    ///
    /// # Errors
    /// If a server cannot be reached, or refuses a query.
    pub(super) fn measure(
        targets: [&Target; 2],
        identities: [&ServerIdentity; 2],
    ) -> Result<Self, Failure> {
        let dialers = [Dialer::new(targets[0])?, Dialer::new(targets[1])?];
        let mut connections = [
            open(targets[0], &dialers[0])?,
            open(targets[1], &dialers[1])?,
        ];
        let mut round_trips = [f64::INFINITY; 2];
        let mut computations = [f64::INFINITY; 2];
        for connection in &mut connections {
            time(connection, WITHOUT_JIT)?;
        }
        for (connection, fastest) in connections.iter_mut().zip(&mut round_trips) {
            for _ in 0..ROUND_TRIPS {
                *fastest = fastest.min(time(connection, "SELECT 1")?);
            }
        }
        for _ in 0..COMPUTATIONS {
            for (connection, fastest) in connections.iter_mut().zip(&mut computations) {
                *fastest = fastest.min(time(connection, COMPUTATION)?);
            }
        }
        Ok(HostSpeeds {
            round_trip_us: round_trips,
            computation_us: [0, 1].map(|at| (computations[at] - round_trips[at]).max(1.0)),
            machines: identities[0].machines(identities[1]),
        })
    }

    /// Returns the times in words.
    pub(super) fn describe(&self) -> String {
        let [old, new] = self.round_trip_us;
        let [old_computation, new_computation] = self.computation_us;
        format!(
            "a round trip takes {:.2} ms on the old server and {:.2} ms on the new one, and a fixed computation × {:.2} of the time",
            old / 1_000.0,
            new / 1_000.0,
            new_computation / old_computation
        )
    }

    /// Returns the reason why response times compare hosts, too; `None` if the hosts are alike.
    pub(super) fn inequality(&self) -> Option<String> {
        let exceeds =
            |ratio: f64, margin: f64| ratio > 1.0 + margin || ratio < 1.0 / (1.0 + margin);
        let [old, new] = self.round_trip_us;
        let is_far =
            exceeds(new / old, ROUND_TRIP_MARGIN.0) && (new - old).abs() > ROUND_TRIP_MARGIN.1;
        let computation = self.computation_us[1] / self.computation_us[0];
        let is_faster = match self.machines {
            // The computation compares the versions only.
            Machines::Same => false,
            Machines::Different => exceeds(computation, COMPUTATION_MARGIN),
            Machines::Unknown => exceeds(computation, UNKNOWN_MACHINES_MARGIN),
        };
        (is_far || is_faster).then(|| {
            format!(
                "The servers are on unequal hosts: {}. Response times compare the hosts as well as the versions, so they \
                 show neither that a statement is slower nor that it is not. Rehearse on equal hosts, or on private servers of one \
                 machine (--to MAJOR without --target).",
                self.describe()
            )
        })
    }
}

/// Returns the reason why the hosts of these clones, or of those that an earlier part of the rehearsal has runs of, are unequal. It
/// stays in the rehearsal's directory, since later clones may be on other hosts and the runs stay.
///
/// # Errors
/// If the directory cannot be read or written.
pub(super) fn inequality_of_all_clones(
    output: &Path,
    present: Option<String>,
) -> Result<Option<String>, Failure> {
    let file = output.join(FILE);
    let failure = |verb: &str, error: &std::io::Error| {
        Failure::could_not(format!("cannot {verb} {}: {error}", file.display()))
    };
    match std::fs::read_to_string(&file) {
        Ok(earlier) if recorded_runs(&output.join(REPLAYS)) > 0 => {
            return Ok(Some(format!(
                "An earlier part ran on other clones. {earlier}"
            )));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failure("read", &error)),
        Ok(_) | Err(_) => {}
    }
    let written = match &present {
        Some(reason) => {
            let partial = output.join(format!("{FILE}.partial"));
            std::fs::write(&partial, reason).and_then(|()| std::fs::rename(&partial, &file))
        }
        None => std::fs::remove_file(&file).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }),
    };
    written.map_err(|error| failure("write to", &error))?;
    Ok(present)
}

/// Returns the time of a query, in microseconds.
fn time(connection: &mut QueryConnection<'_>, query: &str) -> Result<f64, Failure> {
    let begun_ns = clock::monotonic_ns();
    connection.query(query).map_err(|error| {
        Failure::could_not(format!("a server refuses the query for its speed: {error}"))
    })?;
    let elapsed_ns = clock::monotonic_ns() - begun_ns;
    let elapsed = Duration::from_nanos(elapsed_ns.try_into().unwrap_or(0));
    Ok(elapsed.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_on_unequal_hosts_stay_a_reason_after_later_ones_on_equal_hosts() {
        let directory = tempfile::tempdir().unwrap();
        let reason = |present: Option<&str>| {
            inequality_of_all_clones(directory.path(), present.map(str::to_owned)).unwrap()
        };
        assert_eq!(reason(None), None);
        assert_eq!(reason(Some("far")), Some("far".to_owned()));
        // No run was made on them.
        assert_eq!(reason(None), None);
        assert_eq!(reason(Some("far")), Some("far".to_owned()));
        let trials = directory.path().join("replays.proof/trials");
        std::fs::create_dir_all(&trials).unwrap();
        std::fs::write(trials.join("0001.json"), "{}").unwrap();
        assert!(reason(None).unwrap().ends_with("other clones. far"));
        assert!(inequality_of_all_clones(Path::new("/nonexistent"), Some(String::new())).is_err());
    }

    #[test]
    fn hosts_of_unequal_speed_or_distance_are_named_and_one_machine_is_not() {
        let alike = HostSpeeds {
            round_trip_us: [100.0, 130.0],
            computation_us: [20_000.0, 21_000.0],
            machines: Machines::Different,
        };
        assert_eq!(alike.inequality(), None);
        let faster = HostSpeeds {
            computation_us: [20_000.0, 14_000.0],
            ..alike
        };
        let reason = faster.inequality().unwrap();
        assert!(reason.contains("× 0.70"), "{reason}");
        let other_version = HostSpeeds {
            machines: Machines::Same,
            ..faster
        };
        assert_eq!(other_version.inequality(), None);
        for (computation_us, is_named) in [(14_000.0, true), (17_000.0, false)] {
            let unknown = HostSpeeds {
                machines: Machines::Unknown,
                computation_us: [20_000.0, computation_us],
                ..alike
            };
            assert_eq!(unknown.inequality().is_some(), is_named, "{computation_us}");
        }
        let farther = HostSpeeds {
            round_trip_us: [100.0, 900.0],
            ..alike
        };
        let reason = farther.inequality().unwrap();
        assert!(
            reason.contains("0.10 ms") && reason.contains("0.90 ms"),
            "{reason}"
        );
    }
}
