//! The system's metrics over time: *stalled* (due, not claimed) and *queued* (claimed, not done).

use std::time::Duration;

use postgres::{Client, Statement};

use super::schema::SERIES;

/// A sample of the metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time since the system started.
    pub at: Duration,
    /// Number of links due and not claimed.
    pub stalled: i64,
    /// Number of links claimed and not finished.
    pub queued: i64,
    /// Total rate of the limiters, in links a second.
    pub target_per_s: f64,
}

/// A connection that queries the metrics. Its queries are excluded from the server's log.
pub(super) struct Metrics {
    client: Client,
    series: Statement,
}

impl Metrics {
    pub(super) fn new(mut client: Client) -> Result<Self, postgres::Error> {
        client.batch_execute("SET log_min_duration_statement = -1")?;
        let series = client.prepare(SERIES)?;
        Ok(Metrics { client, series })
    }

    /// Queries the numbers of stalled and queued links.
    pub(super) fn now(&mut self) -> Result<(i64, i64), postgres::Error> {
        let row = self.client.query_one(&self.series, &[])?;
        Ok((row.get(0), row.get(1)))
    }

    /// Queries the links that are due and not claimed.
    pub(super) fn due(&mut self) -> Result<Vec<String>, postgres::Error> {
        let rows = self.client.query(
            "SELECT image_link FROM image_links WHERE download_after < now() AND queued_at IS NULL \
             AND referenced_at > now() - interval '36 hours'",
            &[],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
