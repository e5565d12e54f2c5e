//! How many sessions there are, by state, and how many of them the role may not look into.

use run::Counter;

use crate::asker::{Asker, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at, number};

const QUESTION: &str = "SELECT CASE WHEN a.query = '<insufficient privilege>' THEN 'hidden' \
     WHEN a.backend_type = 'client backend' THEN coalesce(a.state, 'starting') \
     ELSE 'server' END, pg_catalog.count(*) FROM pg_catalog.pg_stat_get_activity(NULL) a \
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
        self.known = now;
        Ok(())
    }
}
