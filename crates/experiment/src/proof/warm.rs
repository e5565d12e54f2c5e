//! Caches, alike before each run: what fits the server's buffers is read into them.

use target::login::Questions;

/// Reads tables and indexes into the server's buffers, the smallest first, as long as they fit. `may_create`:
/// the server is ours, and the extension pg_prewarm is made where it is to be had. Without it tables
/// are read by a scan. What cannot be read is left as it is: that is alike for all sides.
pub(super) fn warm(questions: &mut Questions<'_>, may_create: bool) {
    if may_create {
        let _ = questions.ask("CREATE EXTENSION IF NOT EXISTS pg_prewarm");
    }
    let way = questions.ask("SELECT 1 FROM pg_extension WHERE extname = 'pg_prewarm'");
    let has_extension = way.is_ok_and(|rows| !rows.is_empty());
    let fitting = "SELECT c.oid::regclass::text, c.relkind FROM (\
          SELECT oid, relkind, sum(pg_relation_size(oid)) OVER (ORDER BY pg_relation_size(oid), oid) AS so_far \
          FROM pg_class WHERE relkind IN ('r', 'm', 'i') AND relpersistence <> 't' \
          AND relnamespace <> 'information_schema'::regnamespace \
          AND relnamespace <> 'pg_catalog'::regnamespace) c \
        WHERE so_far <= (SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers') \
        ORDER BY so_far";
    let Ok(relations) = questions.ask(fitting) else {
        return;
    };
    for row in relations {
        let [Some(name), Some(kind)] = row.as_slice() else {
            continue;
        };
        let question = match (has_extension, kind.as_str()) {
            (true, _) => format!(
                "SELECT pg_prewarm('{}'::regclass)",
                name.replace('\'', "''")
            ),
            (false, "i") => continue,
            (false, _) => format!("SELECT count(*) FROM {name}"),
        };
        let _ = questions.ask(&question);
    }
}
