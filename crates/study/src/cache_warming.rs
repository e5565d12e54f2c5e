//! Warms the caches before each run, in the same way on all sides.

use connect::login::QueryConnection;

use crate::environment::quote_literal;

/// Reads tables and indexes into shared buffers, the smallest first, as long as they fit. At a private server the
/// extension pg_prewarm is created if it is available. Without it tables are read by a scan. Relations that cannot be
/// read are skipped, alike on all sides.
pub(crate) fn warm_caches(questions: &mut QueryConnection<'_>, is_private: bool) {
    if is_private {
        let _ = questions.query("CREATE EXTENSION IF NOT EXISTS pg_prewarm");
    }
    let found = questions.query("SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'");
    let has_extension = found.is_ok_and(|rows| !rows.is_empty());
    let fitting = "SELECT c.oid::regclass::text, c.relkind FROM (\
          SELECT oid, relkind, sum(pg_relation_size(oid)) OVER (ORDER BY pg_relation_size(oid), oid) AS so_far \
          FROM pg_class WHERE relkind IN ('r', 'm', 'i') AND relpersistence <> 't' \
          AND relnamespace <> 'information_schema'::regnamespace \
          AND relnamespace <> 'pg_catalog'::regnamespace) c \
        WHERE so_far <= (SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers') \
        ORDER BY so_far";
    let Ok(relations) = questions.query(fitting) else {
        return;
    };
    for row in relations {
        let [Some(name), Some(kind)] = row.as_slice() else {
            continue;
        };
        let question = match (has_extension, kind.as_str()) {
            (true, _) => format!("SELECT pg_prewarm({}::regclass)", quote_literal(name)),
            (false, "i") => continue,
            (false, _) => format!("SELECT count(*) FROM {name}"),
        };
        let _ = questions.query(&question);
    }
}
