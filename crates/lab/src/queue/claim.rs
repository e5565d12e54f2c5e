//! The claim: one statement takes a batch of the oldest links.

/// Lock clause of the inner `SELECT`, for rows that another session has claimed without committing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockClause {
    /// `FOR UPDATE SKIP LOCKED`: other rows are selected.
    SkipLocked,
    /// No lock clause. At READ COMMITTED two sessions select the same rows. The second waits for the first one's
    /// update, finds the row changed and its own condition (the key) still true, and updates it again.
    None,
}

/// Builds the statement that claims up to `batch` links, the oldest first.
pub fn claim_sql(batch: u32, locks: LockClause) -> String {
    let locks = match locks {
        LockClause::SkipLocked => " FOR UPDATE SKIP LOCKED",
        LockClause::None => "",
    };
    format!(
        "UPDATE image_links SET queued_at = now() FROM (\
         SELECT id FROM image_links WHERE download_after < now() AND queued_at IS NULL \
         AND referenced_at > now() - interval '36 hours' \
         ORDER BY download_after LIMIT {batch}{locks}) AS due \
         WHERE image_links.id = due.id \
         RETURNING image_links.id, image_links.image_link, image_links.attempts"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_sql_differs_only_in_lock_clause() {
        let with = claim_sql(5, LockClause::SkipLocked);
        let without = claim_sql(5, LockClause::None);
        assert!(with.contains("LIMIT 5 FOR UPDATE SKIP LOCKED)"), "{with}");
        assert_eq!(with.replace(" FOR UPDATE SKIP LOCKED", ""), without);
    }
}
