//! A target that allows fewer connections than a replay needs.

use schemars::JsonSchema;
use serde::Serialize;

/// Connections of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TargetRoom {
    /// Its `max_connections`.
    pub max_connections: u64,
    /// Number of them that are reserved.
    pub reserved: u64,
}

impl TargetRoom {
    /// Columns of a query for [`Self::from_columns`]. `reserved_connections` is new in 16.
    pub(crate) const COLUMNS: &str = "current_setting('max_connections'), \
         current_setting('superuser_reserved_connections')::int \
         + coalesce(current_setting('reserved_connections', true), '0')::int";

    /// Reads the two values of these columns; `None` if one is no number.
    pub(crate) fn from_columns(columns: &[Option<String>]) -> Option<Self> {
        let number = |column: usize| columns.get(column)?.as_deref()?.parse().ok();
        Some(TargetRoom {
            max_connections: number(0)?,
            reserved: number(1)?,
        })
    }
}

/// Description of the shortage.
#[derive(Debug)]
pub(crate) struct Shortage {
    /// Description of the numbers.
    pub(crate) message: String,
    /// Remedy.
    pub(crate) remedy: String,
}

/// Connections of the program's own, for facts and samples.
const OWN_CONNECTIONS: u64 = 5;

/// Compares the sessions at once with the limits of the target. A pooler in front of it may serve them nevertheless, so a
/// replay is not refused.
pub(crate) fn find_shortage(needed: u64, target: TargetRoom) -> Option<Shortage> {
    let TargetRoom {
        max_connections: max,
        reserved,
    } = target;
    let room = max.saturating_sub(reserved);
    (needed > room).then(|| Shortage {
        message: format!(
            "up to {needed} sessions at once need as many connections, and the target has max_connections = {max}, {reserved} of them reserved: further sessions are refused (53300) and tried again"
        ),
        remedy: format!(
            "set max_connections to at least {}, or share connections with --max-connections {}",
            needed + reserved + OWN_CONNECTIONS,
            room.saturating_sub(OWN_CONNECTIONS).max(1)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_names_the_number_that_is_needed() {
        let columns = [Some("100".to_owned()), Some("3".to_owned())];
        let target = TargetRoom::from_columns(&columns).unwrap();
        assert!(find_shortage(97, target).is_none());
        let Shortage { message, remedy } = find_shortage(98, target).unwrap();
        assert!(message.contains("up to 98 sessions"), "{message}");
        assert!(remedy.contains("at least 106"), "{remedy}");
        assert!(remedy.contains("--max-connections 92"), "{remedy}");
    }
}
