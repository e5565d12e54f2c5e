//! Counts sessions by state, including those that the role may not see. Also measures the age of the oldest
//! transaction and of the oldest snapshot, which prevent vacuum from removing newer dead rows.

use run::Counter;

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_number, column_text};
use crate::probe_connection::{ProbeConnection, ProbeError};

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

    fn interval_ns(&self) -> i64 {
        1_000_000_000
    }

    fn begin(&mut self, _: &mut ProbeConnection<'_>, _: &ObservationLog) -> Result<(), ProbeError> {
        Ok(())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        _: SampleContext,
    ) -> Result<(), ProbeError> {
        let own = connection.own_processes().literal();
        let rows = connection.query_prepared("connections", "int[]", &own, QUESTION)?;
        let at_ns = log.now_ns();
        // A state without sessions has no row.
        let mut now: Vec<(String, f64)> = self
            .known
            .iter()
            .map(|(name, _)| (name.clone(), 0.0))
            .collect();
        for row in &rows {
            let (name, count) = (column_text(row, 0), column_number(row, 1).unwrap_or(0.0));
            match now.iter_mut().find(|(known, _)| known == name) {
                Some((_, value)) => *value = count,
                None => now.push((name.to_owned(), count)),
            }
        }
        for (name, value) in &now {
            if !self.known.contains(&(name.clone(), *value)) {
                log.add_counter(Counter {
                    at_ns,
                    source: self.name().to_owned(),
                    object: String::new(),
                    name: name.clone(),
                    value: *value,
                    gauge: true,
                });
            }
        }
        // Background processes that hold a snapshot are vacuum workers or serve a standby.
        let clients = rows.iter().filter(|row| column_text(row, 0) != "server");
        let mut oldest = [0.0_f64; 2];
        for row in clients {
            for (place, most) in oldest.iter_mut().enumerate() {
                *most = most.max(column_number(row, place + 2).unwrap_or(0.0));
            }
        }
        for (name, value) in ["oldest_seconds", "oldest_snapshot_transactions"]
            .into_iter()
            .zip(oldest)
        {
            log.add_counter(Counter {
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
