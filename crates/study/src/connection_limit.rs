//! Note on a target that allows fewer connections than a replay needs.

use connect::login::Dialer;
use replay::{Options, Target};
use workload::{ArchiveError, WorkloadReader};

use crate::notes;

/// Limit of all connections, and the number that is reserved for some roles. `reserved_connections` is new in 16.
const LIMIT_SQL: &str = "SELECT current_setting('max_connections'), \
     current_setting('superuser_reserved_connections')::int \
     + coalesce(current_setting('reserved_connections', true), '0')::int";

/// Notes that the target allows fewer connections than the workload has sessions at once. A pooler in front of the
/// target may serve them nevertheless, so the replay is not refused. A target that does not answer is not noted.
///
/// # Errors
/// If the workload cannot be read.
pub fn note_connection_limit(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
) -> Result<(), ArchiveError> {
    let Some(session) = reader.sessions()?.next().transpose()? else {
        return Ok(());
    };
    let (user, database) = (&session.user, &session.database);
    let login = options.logins.login(target, user, database, "rehearse");
    let answer = Dialer::new(target)
        .ok()
        .and_then(|dialer| dialer.query(&login, LIMIT_SQL).ok());
    let row = answer.and_then(|answer| answer.rows.into_iter().next());
    let limits: Option<Vec<u64>> = row.and_then(|row| {
        let numbers = row.into_iter().map(|value| value?.parse().ok());
        numbers.collect()
    });
    if let Some([max, reserved]) = limits.as_deref() {
        let needed = replay::connections_needed(reader, options);
        if let Some(warning) = describe_shortage(needed, *max, *reserved) {
            notes::note(&warning);
        }
    }
    Ok(())
}

fn describe_shortage(needed: u64, max: u64, reserved: u64) -> Option<String> {
    let room = max.saturating_sub(reserved);
    (needed > room).then(|| {
        format!(
            "Warning: up to {needed} sessions at once need as many connections, and the target has max_connections = {max}, {reserved} of them reserved: further sessions are refused (53300) and tried again. Set max_connections to at least {}, or share connections with --max-connections {}.",
            needed + reserved + OWN_CONNECTIONS,
            room.saturating_sub(OWN_CONNECTIONS).max(1)
        )
    })
}

/// Connections of the program's own, for facts and samples.
const OWN_CONNECTIONS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_names_the_number_that_is_needed() {
        assert_eq!(describe_shortage(97, 100, 3), None);
        let warning = describe_shortage(98, 100, 3).unwrap();
        assert!(warning.contains("up to 98 sessions"), "{warning}");
        assert!(warning.contains("at least 106"), "{warning}");
        assert!(warning.contains("--max-connections 92"), "{warning}");
    }
}
