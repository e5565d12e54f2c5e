//! Clients: their hosts, the lengths of their sessions, and the steps of the extended protocol.

use std::collections::HashMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::{ServerEvent, Session, WorkloadInfo};

use super::durations::DurationBin;

/// Maximum number of distinct hosts; past it, they share one entry.
const HOSTS_MAX: usize = 10_000;

/// Upper bounds of the bins of session lengths: 1 ms to 1 s, 10 s, 1 min, 10 min, 1 h, 8 h, 1 d.
const LENGTH_BOUNDS_US: [u64; 10] = {
    const SECOND: u64 = 1_000_000;
    [
        SECOND / 1_000,
        SECOND / 100,
        SECOND / 10,
        SECOND,
        10 * SECOND,
        60 * SECOND,
        600 * SECOND,
        3_600 * SECOND,
        8 * 3_600 * SECOND,
        24 * 3_600 * SECOND,
    ]
};

/// Sessions of one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostTotals {
    /// Address or name, `[local]` for a Unix socket, empty if the source does not know it. One may be
    /// `(others)`.
    pub host: String,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of statements.
    pub statements: u64,
    /// Total time from the first to the last event of these sessions, in microseconds.
    pub connected_us: u64,
}

/// Lengths of sessions. It is serialised as the list of [`SessionLengths::bins`].
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Vec<DurationBin>")]
pub struct SessionLengths {
    bins: [(u64, u64); LENGTH_BOUNDS_US.len() + 1],
}

impl SessionLengths {
    fn add(&mut self, length_us: u64) {
        let at = LENGTH_BOUNDS_US.partition_point(|bound| *bound <= length_us);
        self.bins[at].0 += 1;
        self.bins[at].1 = self.bins[at].1.saturating_add(length_us);
    }

    /// Returns the bins from the first to the last that is not empty.
    pub fn bins(&self) -> Vec<DurationBin> {
        let is_full = |bin: &(u64, u64)| bin.0 > 0;
        let first = self.bins.iter().position(is_full);
        let last = self.bins.iter().rposition(is_full);
        let (Some(first), Some(last)) = (first, last) else {
            return Vec::new();
        };
        (first..=last)
            .map(|at| DurationBin {
                from_us: at.checked_sub(1).map_or(0, |at| LENGTH_BOUNDS_US[at]),
                to_us: LENGTH_BOUNDS_US.get(at).copied(),
                count: self.bins[at].0,
                time_us: self.bins[at].1,
            })
            .collect()
    }

    /// Number of sessions with a known length.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|bin| bin.0).sum()
    }

    /// Total length, in microseconds.
    pub fn total_us(&self) -> u64 {
        self.bins
            .iter()
            .map(|bin| bin.1)
            .fold(0, u64::saturating_add)
    }
}

impl Serialize for SessionLengths {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.bins())
    }
}

/// Steps of the extended protocol whose duration a log has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProtocolSteps {
    /// Number of Parse messages.
    pub parses: u64,
    /// Number of Bind messages.
    pub binds: u64,
    /// Number of Execute messages.
    pub executions: u64,
}

impl ProtocolSteps {
    /// Reads the counts of a log's capture; `None` if there are none, or if they are of more than this workload.
    pub(super) fn of(info: &WorkloadInfo) -> Option<Self> {
        let tallies = &info.provenance.reconciliation["tallies"];
        let steps = Self::deserialize(tallies).ok()?;
        let is_repeated = &info.provenance.reconciliation["repeated_events"];
        let is_whole = info.provenance.slices.is_empty() && is_repeated.is_null();
        (is_whole && steps != Self::default()).then_some(steps)
    }
}

/// Counts clients.
#[derive(Debug, Default)]
pub(super) struct ClientCounter {
    hosts: HashMap<String, HostTotals>,
    /// As the server logged them.
    logged: SessionLengths,
    /// From the first to the last event.
    observed: SessionLengths,
}

impl ClientCounter {
    /// Adds the end of a session that the server logged.
    pub(super) fn add_end(&mut self, event: &ServerEvent) {
        self.logged.add(event.duration_us.unwrap_or(0));
    }

    pub(super) fn add_session(&mut self, session: &Session) {
        let length_us = (session.end_us - session.start_us).max(0) as u64;
        if session.start_seen && session.end_seen {
            self.observed.add(length_us);
        }
        let host = host_of(&session.client);
        let host = match self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(host) {
            true => "(others)",
            false => host,
        };
        if !self.hosts.contains_key(host) {
            self.hosts.insert(host.to_owned(), HostTotals::default());
        }
        let totals = self.hosts.get_mut(host).expect("it was added");
        totals.sessions += 1;
        totals.statements += session.statements;
        totals.connected_us = totals.connected_us.saturating_add(length_us);
    }

    /// Returns the hosts by descending number of statements, and the lengths: the logged ones, if there are any.
    pub(super) fn finish(self) -> (Vec<HostTotals>, SessionLengths) {
        let named = self.hosts.into_iter();
        let mut hosts: Vec<HostTotals> = named
            .map(|(host, totals)| HostTotals { host, ..totals })
            .collect();
        hosts.sort_by(|a, b| {
            (b.statements.cmp(&a.statements))
                .then(b.sessions.cmp(&a.sessions))
                .then_with(|| a.host.cmp(&b.host))
        });
        let lengths = match self.logged.count() {
            0 => self.observed,
            _ => self.logged,
        };
        (hosts, lengths)
    }
}

/// Removes the port of a client's address. A text that is an address as a whole has none.
fn host_of(client: &str) -> &str {
    if client.parse::<IpAddr>().is_ok() {
        return client;
    }
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let host = match client.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => client,
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare.filter(|host| host.contains(':')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_no_part_of_a_host() {
        for (client, host) in [
            ("10.0.0.5:51234", "10.0.0.5"),
            ("10.0.0.5", "10.0.0.5"),
            ("::1:51234", "::1"),
            ("[::1]:5432", "::1"),
            ("fe80::1", "fe80::1"),
            ("[local]", "[local]"),
            ("db.example:5000", "db.example"),
            ("", ""),
        ] {
            assert_eq!(host_of(client), host, "{client}");
        }
    }

    fn session(client: &str, length_us: i64, end_seen: bool) -> Session {
        Session {
            id: 0,
            database: "".into(),
            user: "".into(),
            application: "".into(),
            client: client.into(),
            start_us: 10,
            end_us: 10 + length_us,
            start_seen: true,
            end_seen,
            statements: 3,
        }
    }

    #[test]
    fn logged_lengths_come_before_observed_ones() {
        let mut counter = ClientCounter::default();
        counter.add_session(&session("a:1", 500, true));
        counter.add_session(&session("a:2", 5_000, false));
        counter.add_session(&session("b:2", 1_000, true));
        let (hosts, lengths) = counter.finish();
        let counts: Vec<_> = { hosts.iter() }
            .map(|one| {
                (
                    one.host.as_str(),
                    one.sessions,
                    one.statements,
                    one.connected_us,
                )
            })
            .collect();
        assert_eq!(counts, [("a", 2, 6, 5_500), ("b", 1, 3, 1_000)]);
        assert_eq!((lengths.count(), lengths.total_us()), (2, 1_500));
        assert_eq!(lengths.bins()[0].to_us, Some(1_000));

        let mut counter = ClientCounter::default();
        counter.add_session(&session("a:1", 500, true));
        counter.add_end(&ServerEvent {
            duration_us: Some(90_000_000_000),
            ..ServerEvent::default()
        });
        let (_, lengths) = counter.finish();
        assert_eq!(lengths.bins().len(), 1);
        assert_eq!(lengths.bins()[0].to_us, None);
    }
}
