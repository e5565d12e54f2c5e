//! The system's metrics over time: *stalled* (due, not claimed) and *queued* (claimed, not done).

use std::time::Duration;

use postgres::{Client, Statement};

use super::schema::SERIES;

/// What was seen at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Since the system began.
    pub at: Duration,
    /// Due and not claimed.
    pub stalled: i64,
    /// Claimed and not done.
    pub queued: i64,
    /// How many a second the limiters let through together.
    pub target_per_s: f64,
}

/// Asks for them. Its questions are not part of what the server logs.
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

    /// Stalled and queued.
    pub(super) fn now(&mut self) -> Result<(i64, i64), postgres::Error> {
        let row = self.client.query_one(&self.series, &[])?;
        Ok((row.get(0), row.get(1)))
    }

    /// Links that are due and not claimed.
    pub(super) fn due(&mut self) -> Result<Vec<String>, postgres::Error> {
        let rows = self.client.query(
            "SELECT image_link FROM image_links WHERE download_after < now() AND queued_at IS NULL \
             AND referenced_at > now() - interval '36 hours'",
            &[],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
