//! How many sessions there are, by state, and how many of them the role may not look into; how old the oldest
//! transaction and the oldest snapshot are, behind which vacuum leaves what is dead.

use run::Counter;

use crate::asker::{Asker, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at, number};

const QUESTION: &str = "SELECT CASE WHEN a.query = '<insufficient privilege>' THEN 'hidden' \
     WHEN a.backend_type = 'client backend' THEN coalesce(a.state, 'starting') \
     ELSE 'server' END, pg_catalog.count(*), \
     pg_catalog.max(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)), \
     pg_catalog.max(pg_catalog.age(a.backend_xmin)) FROM pg_catalog.pg_stat_get_activity(NULL) a \
     WHERE NOT (a.pid = ANY ($1)) GROUP BY 1";

/// Counts sessions.
#[derive(Default)]
pub(crate) struct ConnectionsProbe {
    known: Vec<(String, f64)>,
}

impl Probe for ConnectionsProbe {
    fn name(&self) -> &'static str {
        "connections"
    }

    fn every_ns(&self) -> i64 {
        1_000_000_000
    }

    fn begin(&mut self, _: &mut Asker<'_>, _: &Ledger) -> Result<(), Unable> {
        Ok(())
    }

    fn look(&mut self, asker: &mut Asker<'_>, ledger: &Ledger, _: Moment) -> Result<(), Unable> {
        let own = asker.own().literal();
        let rows = asker.ask_again("connections", "int[]", &own, QUESTION)?;
        let at_ns = ledger.now_ns();
        // A state that nobody is in has no row.
        let mut now: Vec<(String, f64)> = self
            .known
            .iter()
            .map(|(name, _)| (name.clone(), 0.0))
            .collect();
        for row in &rows {
            let (name, count) = (at(row, 0), number(row, 1).unwrap_or(0.0));
            match now.iter_mut().find(|(known, _)| known == name) {
                Some((_, value)) => *value = count,
                None => now.push((name.to_owned(), count)),
            }
        }
        for (name, value) in &now {
            if !self.known.contains(&(name.clone(), *value)) {
                ledger.counter(Counter {
                    at_ns,
                    source: self.name().to_owned(),
                    object: String::new(),
                    name: name.clone(),
                    value: *value,
                    gauge: true,
                });
            }
        }
        // What a session of the server's own holds back is vacuum itself, or a standby's.
        let clients = rows.iter().filter(|row| at(row, 0) != "server");
        let mut oldest = [0.0_f64; 2];
        for row in clients {
            for (place, most) in oldest.iter_mut().enumerate() {
                *most = most.max(number(row, place + 2).unwrap_or(0.0));
            }
        }
        for (name, value) in ["oldest_seconds", "oldest_snapshot_transactions"]
            .into_iter()
            .zip(oldest)
        {
            ledger.counter(Counter {
                at_ns,
                source: "transactions".to_owned(),
                object: String::new(),
                name: name.to_owned(),
                value,
                gauge: true,
            });
        }
        self.known = now;
        Ok(())
    }
}
