//! Where sessions waited: samples of the activity that met one waiting, summed up by what was waited for and
//! by statement.
//!
//! These are samples of what the server says of its processes, and no stacks: which function of the server
//! waited is not known, which event it calls it is. All time that samples stand for is in one of the parts of
//! [`Waiting`], and they add up.
//!
//! Deliberately absent: drawing, and idle sessions, which nobody samples.

use std::collections::{BTreeMap, HashMap};

use run::{Activity, SampleWindow};
use sql::Fingerprint;

use crate::sampling::sample_ns;

/// What a client's process and its helpers are called.
const CLIENTS: [&str; 2] = ["client backend", "parallel worker"];

/// Which samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitChoice {
    /// Those with this statement.
    pub statement: Option<Fingerprint>,
    /// Those of this database.
    pub database: Option<String>,
    /// Those of the server's own processes as well.
    pub all_processes: bool,
}

/// What a session did in which it waited.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Within {
    /// A statement; `None` where it is not known which.
    Statement(Option<Fingerprint>),
    /// Nothing, in an open transaction (`idle in transaction`); the statement before.
    Transaction(Option<Fingerprint>),
    /// A process of the server's own, of this kind.
    Server(String),
}

/// What was waited for, and in what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitPlace {
    /// The type (`Lock`).
    pub kind: String,
    /// The event (`transactionid`).
    pub event: String,
    /// In what.
    pub within: Within,
}

/// Time, and the samples that found it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampled {
    /// In nanoseconds.
    pub ns: f64,
    /// So many.
    pub samples: u64,
}

impl Sampled {
    fn add(&mut self, ns: f64, samples: u64) {
        self.ns += ns;
        self.samples += samples;
    }
}

/// All time that samples stand for: one process for a second is a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    /// Waiting.
    pub places: BTreeMap<WaitPlace, Sampled>,
    /// With a statement, and waiting for nothing that the server names: on a processor, or in want of one.
    pub working: Sampled,
    /// Not chosen: other processes, databases, statements.
    pub others: Sampled,
    /// Of sessions that the role may not look into, idle or not.
    pub hidden: Sampled,
    /// How long was looked, in nanoseconds.
    pub looked_ns: f64,
    /// How often.
    pub looks: u64,
}

impl Waiting {
    /// Reads the samples once. `whole` says which statement one is of which the server gave only the
    /// beginning ([`whole_statements`](crate::time_model::whole_statements)).
    ///
    /// # Errors
    /// The first of the iterator's.
    pub fn collect<E>(
        windows: &[SampleWindow],
        activity: impl IntoIterator<Item = Result<Activity, E>>,
        whole: &HashMap<Fingerprint, Fingerprint>,
        choice: &WaitChoice,
    ) -> Result<Self, E> {
        let each_ns = sample_ns(windows);
        let mut waiting = Waiting {
            looks: windows.iter().map(|window| window.samples).sum(),
            looked_ns: windows
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
        // What it is, is hidden as well.
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
            // Its client has it, whatever it was met at.
            None if is_between => ("Client".to_owned(), String::new()),
            None => return self.working.add(ns, seen.count),
        };
        let within = match (is_client, is_between) {
            (false, _) => Within::Server(seen.backend),
            (true, true) => Within::Transaction(statement),
            (true, false) => Within::Statement(statement),
        };
        let place = WaitPlace {
            kind,
            event,
            within,
        };
        self.places.entry(place).or_default().add(ns, seen.count);
    }

    /// All that waited.
    pub fn waited(&self) -> Sampled {
        let mut all = Sampled::default();
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

    fn place(kind: &str, event: &str, within: Within) -> WaitPlace {
        WaitPlace {
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
    fn waits_are_summed_up_by_what_is_waited_for_and_by_statement() {
        let lock = Some(("Lock", "tuple"));
        let all = [
            seen(1, "client backend", "active", lock, 6),
            // The beginning of the same.
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
        let of = |samples: u64| Sampled {
            ns: samples as f64 * 5e7,
            samples,
        };
        let one = Some(Fingerprint(1));
        let two = Some(Fingerprint(2));
        let expected = BTreeMap::from([
            (
                place("Client", "ClientRead", Within::Transaction(two)),
                of(5),
            ),
            (place("IO", "DataFileRead", Within::Statement(two)), of(2)),
            (place("Lock", "tuple", Within::Statement(one)), of(10)),
        ]);
        assert_eq!(waiting.places, expected);
        assert_eq!((waiting.working, waiting.others), (of(3), of(1)));
        assert_eq!((waiting.looked_ns, waiting.looks), (3e9, 60));

        let choice = WaitChoice {
            all_processes: true,
            ..WaitChoice::default()
        };
        let server = Within::Server("walwriter".to_owned());
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
        fn no_sample_is_lost(
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
