//! A target that allows fewer connections than a replay needs.

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
pub(crate) fn find_shortage(needed: u64, max: u64, reserved: u64) -> Option<Shortage> {
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
        assert!(find_shortage(97, 100, 3).is_none());
        let Shortage { message, remedy } = find_shortage(98, 100, 3).unwrap();
        assert!(message.contains("up to 98 sessions"), "{message}");
        assert!(remedy.contains("at least 106"), "{remedy}");
        assert!(remedy.contains("--max-connections 92"), "{remedy}");
    }
}
