//! Sums the waits of sessions by event and statement, from samples of the activity.
//!
//! The samples show the wait events that the server reports, not stacks: the event is known, the
//! waiting function is not. All sampled time is in exactly one of the parts of [`Waiting`], and
//! they add up. Idle sessions are not sampled. Drawing is left to the caller.

use std::collections::{BTreeMap, HashMap};

use run::{Activity, SampleWindow};
use sql::Fingerprint;

use crate::sampling::sample_ns;

/// Backend types of a client's process and its helpers.
const CLIENTS: [&str; 2] = ["client backend", "parallel worker"];

/// Selection of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitChoice {
    /// Only samples of this statement.
    pub statement: Option<Fingerprint>,
    /// Only samples of this database.
    pub database: Option<String>,
    /// Include the server's own processes.
    pub all_processes: bool,
}

/// Context of a wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitContext {
    /// A statement; `None` if it is unknown.
    Statement(Option<Fingerprint>),
    /// An idle open transaction (`idle in transaction`), with its last statement.
    Transaction(Option<Fingerprint>),
    /// A process of the server's own, of this kind.
    Server(String),
}

/// Wait event and its context.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitKey {
    /// Type of wait event (`Lock`).
    pub kind: String,
    /// Wait event (`transactionid`).
    pub event: String,
    /// Context.
    pub within: WaitContext,
}

/// Sampled time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampledTime {
    /// Time in nanoseconds.
    pub ns: f64,
    /// Number of samples.
    pub samples: u64,
}

impl SampledTime {
    fn add(&mut self, ns: f64, samples: u64) {
        self.ns += ns;
        self.samples += samples;
    }
}

/// Sampled time by use: one process for a second is a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    /// Waits.
    pub places: BTreeMap<WaitKey, SampledTime>,
    /// Executing without a wait event: running or runnable.
    pub working: SampledTime,
    /// Not selected: other processes, databases, statements.
    pub others: SampledTime,
    /// Sessions that the role may not inspect, idle or not.
    pub hidden: SampledTime,
    /// Duration of the sampling, in nanoseconds.
    pub sampled_ns: f64,
    /// Number of samples taken.
    pub samples: u64,
}

impl Waiting {
    /// Sums samples, which are read once. `whole` maps truncated statements to full ones
    /// ([`whole_statements`](crate::time_model::match_truncated_queries)).
    ///
    /// # Errors
    /// If the iterator fails; the first error is returned.
    pub fn collect<E>(
        windows: &[SampleWindow],
        activity: impl IntoIterator<Item = Result<Activity, E>>,
        whole: &HashMap<Fingerprint, Fingerprint>,
        choice: &WaitChoice,
    ) -> Result<Self, E> {
        let each_ns = sample_ns(windows);
        let mut waiting = Waiting {
            samples: windows.iter().map(|window| window.samples).sum(),
            sampled_ns: windows
                .iter()
                .filter_map(|window| Some(each_ns.get(&window.at_ns)? * window.samples as f64))
                .sum(),
            ..Waiting::default()
        };
        for seen in activity {
            let seen = seen?;
            if let Some(each_ns) = each_ns.get(&seen.at_ns) {
                let ns = each_ns * seen.count as f64;
                waiting.add(seen, ns, whole, choice);
            }
        }
        Ok(waiting)
    }

    fn add(
        &mut self,
        seen: Activity,
        ns: f64,
        whole: &HashMap<Fingerprint, Fingerprint>,
        choice: &WaitChoice,
    ) {
        let statement = seen
            .fingerprint
            .map(|fingerprint| *whole.get(&fingerprint).unwrap_or(&fingerprint));
        // The activity of hidden sessions is unknown.
        if seen.state == "hidden" {
            return self.hidden.add(ns, seen.count);
        }
        let is_client = CLIENTS.contains(&seen.backend.as_str());
        let is_chosen = (choice.all_processes || is_client)
            && (choice.statement.is_none() || choice.statement == statement)
            && (choice.database.is_none() || choice.database == seen.database);
        if !is_chosen {
            return self.others.add(ns, seen.count);
        }
        let is_between = seen.state.starts_with("idle in transaction");
        let (kind, event) = match seen.wait_type {
            Some(kind) => (kind, seen.wait.unwrap_or_default()),
            // An idle transaction waits for its client, whatever event was found.
            None if is_between => ("Client".to_owned(), String::new()),
            None => return self.working.add(ns, seen.count),
        };
        let within = match (is_client, is_between) {
            (false, _) => WaitContext::Server(seen.backend),
            (true, true) => WaitContext::Transaction(statement),
            (true, false) => WaitContext::Statement(statement),
        };
        let place = WaitKey {
            kind,
            event,
            within,
        };
        self.places.entry(place).or_default().add(ns, seen.count);
    }

    /// Returns the total of all waits.
    pub fn waited(&self) -> SampledTime {
        let mut all = SampledTime::default();
        for one in self.places.values() {
            all.add(one.ns, one.samples);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows() -> Vec<SampleWindow> {
        let window = |second: i64| SampleWindow {
            at_ns: second * 1_000_000_000,
            until_ns: (second + 1) * 1_000_000_000,
            samples: 20,
            missed: 0,
        };
        (0..3).map(window).collect()
    }

    fn seen(
        fingerprint: u64,
        backend: &str,
        state: &str,
        wait: Option<(&str, &str)>,
        count: u64,
    ) -> Activity {
        Activity {
            at_ns: 1_000_000_000,
            fingerprint: Some(Fingerprint(fingerprint)),
            database: Some("shop".to_owned()),
            backend: backend.to_owned(),
            state: state.to_owned(),
            wait_type: wait.map(|(kind, _)| kind.to_owned()),
            wait: wait.map(|(_, event)| event.to_owned()),
            count,
            ..Activity::default()
        }
    }

    fn place(kind: &str, event: &str, within: WaitContext) -> WaitKey {
        WaitKey {
            kind: kind.to_owned(),
            event: event.to_owned(),
            within,
        }
    }

    fn collect(activity: &[Activity], choice: &WaitChoice) -> Waiting {
        let whole = HashMap::from([(Fingerprint(9), Fingerprint(1))]);
        let activity = activity.iter().cloned().map(Ok::<_, ()>);
        Waiting::collect(&windows(), activity, &whole, choice).unwrap()
    }

    #[test]
    fn waits_are_summed_by_event_and_statement() {
        let lock = Some(("Lock", "tuple"));
        let all = [
            seen(1, "client backend", "active", lock, 6),
            // The truncated text of the same statement.
            seen(9, "client backend", "active", lock, 4),
            seen(
                2,
                "parallel worker",
                "active",
                Some(("IO", "DataFileRead")),
                2,
            ),
            seen(
                2,
                "client backend",
                "idle in transaction",
                Some(("Client", "ClientRead")),
                5,
            ),
            seen(2, "client backend", "active", None, 3),
            seen(0, "walwriter", "active", Some(("IO", "WALSync")), 1),
        ];
        let waiting = collect(&all, &WaitChoice::default());
        let of = |samples: u64| SampledTime {
            ns: samples as f64 * 5e7,
            samples,
        };
        let one = Some(Fingerprint(1));
        let two = Some(Fingerprint(2));
        let expected = BTreeMap::from([
            (
                place("Client", "ClientRead", WaitContext::Transaction(two)),
                of(5),
            ),
            (
                place("IO", "DataFileRead", WaitContext::Statement(two)),
                of(2),
            ),
            (place("Lock", "tuple", WaitContext::Statement(one)), of(10)),
        ]);
        assert_eq!(waiting.places, expected);
        assert_eq!((waiting.working, waiting.others), (of(3), of(1)));
        assert_eq!((waiting.sampled_ns, waiting.samples), (3e9, 60));

        let choice = WaitChoice {
            all_processes: true,
            ..WaitChoice::default()
        };
        let server = WaitContext::Server("walwriter".to_owned());
        let waiting = collect(&all, &choice);
        assert_eq!(waiting.places[&place("IO", "WALSync", server)], of(1));
        let choice = WaitChoice {
            statement: one,
            database: Some("shop".to_owned()),
            ..WaitChoice::default()
        };
        assert_eq!(collect(&all, &choice).waited(), of(10));
        let choice = WaitChoice {
            database: Some("other".to_owned()),
            ..WaitChoice::default()
        };
        assert_eq!(collect(&all, &choice).others, of(21));
    }

    proptest! {
        #[test]
        fn waiting_parts_add_up_to_all_samples(
            rows in prop::collection::vec((0..3u64, 0..3usize, 0..4usize, 0..3usize, 1..9u64), 0..30),
            statement in prop::option::of(0..3u64),
            all_processes: bool,
        ) {
            let backends = ["client backend", "parallel worker", "checkpointer"];
            let states = ["active", "idle in transaction", "idle in transaction (aborted)", "hidden"];
            let waits = [None, Some(("Lock", "tuple")), Some(("IO", "WALSync"))];
            let of = |(of, backend, state, wait, count): &(u64, usize, usize, usize, u64)| {
                seen(*of, backends[*backend], states[*state], waits[*wait], *count)
            };
            let activity: Vec<Activity> = rows.iter().map(of).collect();
            let choice = WaitChoice { statement: statement.map(Fingerprint), all_processes, ..WaitChoice::default() };
            let waiting = collect(&activity, &choice);
            let samples: u64 = rows.iter().map(|row| row.4).sum();
            let parts = [waiting.waited(), waiting.working, waiting.others, waiting.hidden];
            prop_assert_eq!(parts.iter().map(|part| part.samples).sum::<u64>(), samples);
            let ns: f64 = parts.iter().map(|part| part.ns).sum();
            prop_assert!((ns - samples as f64 * 5e7).abs() < 1.0);
        }
    }
}
