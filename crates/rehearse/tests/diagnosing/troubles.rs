//! Traffic with all problems at once, each in separate tables and sessions.

use super::Script;

const CLAIM: &str = "UPDATE links SET queued_at = now() WHERE id IN (SELECT id FROM links WHERE queued_at IS NULL \
     AND due < now() AND seen > now() - interval '30 min' ORDER BY due LIMIT 5 FOR UPDATE SKIP LOCKED) RETURNING id";
const RACE: &str = "UPDATE few_links SET queued_at = now() WHERE id IN (SELECT id FROM few_links WHERE queued_at IS NULL \
     ORDER BY due LIMIT 2)";
pub const JOIN: &str = "SELECT count(*) FROM orders a JOIN orders b USING (id) JOIN orders c USING (id) JOIN orders d USING (id) \
     JOIN orders e USING (id) JOIN orders f USING (id) WHERE a.id = ";

/// Creates the traffic.
pub fn troubles() -> Script {
    let mut script = Script::default();
    add_checkpoints(&mut script);
    for round in 0..40 {
        let ms = 50 + round * 60;
        add_claims(&mut script, ms, round);
        for number in round * 4..round * 4 + 4 {
            add_inserts_into_indexed_tables(&mut script, ms, number);
            add_costly_planning(&mut script, ms + 5, number);
        }
    }
    for round in 0..12 {
        let ms = 60 + round * 150;
        add_misestimate_and_spill(&mut script, ms);
        add_updates_of_an_indexed_column(&mut script, ms);
        add_list_with_a_query_for_each_item(&mut script, ms, round);
        add_idle_transaction(&mut script, ms);
    }
    add_random_keys(&mut script);
    add_locks_of_many_partitions(&mut script);
    add_wait_for_a_row(&mut script);
    add_deadlock(&mut script);
    add_growth_of_a_scanned_table(&mut script);
    script
}

fn add_checkpoints(script: &mut Script) {
    script.at(0, 100, "CHECKPOINT");
    script.at(300, 111, "CHECKPOINT");
}

/// Adds a claim without an index, and in every fourth round one that locks nothing.
fn add_claims(script: &mut Script, ms: u32, round: u32) {
    script.at(ms, 101 + round % 2, CLAIM);
    if round.is_multiple_of(4) {
        script.at(ms, 103 + round / 4 % 2, RACE);
    }
}

/// Adds an insert into a table with many partial indexes, and one into a table with one index.
fn add_inserts_into_indexed_tables(script: &mut Script, ms: u32, number: u32) {
    let kind = number % 40;
    script.at(
        ms,
        105,
        &format!("INSERT INTO events VALUES ({kind}, '/a{kind}/b')"),
    );
    script.at(
        ms,
        105,
        &format!("INSERT INTO few_events VALUES ({number}, '/a/b')"),
    );
}

/// Adds a join that takes longer to plan than to execute.
fn add_costly_planning(script: &mut Script, ms: u32, number: u32) {
    script.at(ms, 106, &format!("{JOIN}{}", number + 1));
}

/// Adds a condition on two correlated columns, and a sort that exceeds `work_mem`.
fn add_misestimate_and_spill(script: &mut Script, ms: u32) {
    script.at(ms, 107, "SELECT * FROM notes WHERE a = 1 AND b = 1");
    script.at(
        ms,
        107,
        "SELECT count(*) FROM (SELECT * FROM notes ORDER BY note OFFSET 0) x",
    );
}

/// Adds an update of a column that has an index, and the same of one without.
fn add_updates_of_an_indexed_column(script: &mut Script, ms: u32) {
    script.at(ms, 108, "UPDATE jobs SET state = state + 1 WHERE id <= 200");
    script.at(
        ms,
        108,
        "UPDATE quiet_jobs SET state = state + 1 WHERE id <= 200",
    );
}

/// Adds a list of six, followed by six calls.
fn add_list_with_a_query_for_each_item(script: &mut Script, ms: u32, round: u32) {
    script.at(
        ms,
        109,
        &format!("SELECT id FROM orders WHERE customer = {round} AND id > 0"),
    );
    for item in 0..6 {
        script.at(
            ms + 1,
            109,
            &format!("SELECT * FROM items WHERE order_id = {}", round * 6 + item),
        );
    }
}

fn add_idle_transaction(script: &mut Script, ms: u32) {
    script.at(ms, 110, "BEGIN");
    script.at(ms + 2, 110, "SELECT 1");
    script.at(ms + 100, 110, "COMMIT");
}

fn add_random_keys(script: &mut Script) {
    for number in 0..700 {
        script.at(
            900 + number,
            112,
            &format!("INSERT INTO keys VALUES (md5('n{number}')::uuid, {number})"),
        );
    }
}

/// Adds a transaction that holds locks of many partitions, and a snapshot.
fn add_locks_of_many_partitions(script: &mut Script) {
    script.at(200, 113, "BEGIN");
    script.at(205, 113, "SELECT count(*) FROM parts");
    script.at(210, 113, "SELECT pg_sleep(1.7)");
    script.at(2_000, 113, "COMMIT");
}

/// Adds a transaction that holds the lock of a row, and one that waits for it.
fn add_wait_for_a_row(script: &mut Script) {
    let update = "UPDATE orders SET customer = customer WHERE id = 1";
    script.at(200, 114, "BEGIN");
    script.at(205, 114, update);
    script.at(210, 114, "SELECT pg_sleep(1)");
    script.at(1_300, 114, "COMMIT");
    script.at(300, 115, update);
}

/// Adds two transactions that lock two rows in two orders.
fn add_deadlock(script: &mut Script) {
    for (session, one, other) in [(116, 501, 502), (117, 502, 501)] {
        script.at(400, session, "BEGIN");
        script.at(
            405,
            session,
            &format!("UPDATE accounts SET balance = 1 WHERE id = {one}"),
        );
        // However late one of them comes, each has its first row before either wants its second.
        script.at(
            410,
            session,
            &format!("SELECT pg_advisory_xact_lock({one})"),
        );
        script.at(
            415,
            session,
            &format!(
                "DO $$ BEGIN FOR i IN 1..2000 LOOP EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' \
                 AND objid = {other} AND granted); PERFORM pg_sleep(0.01); END LOOP; END $$"
            ),
        );
        script.at(
            700,
            session,
            &format!("UPDATE accounts SET balance = 1 WHERE id = {other}"),
        );
        script.at(1_500, session, "ROLLBACK");
    }
}

fn add_growth_of_a_scanned_table(script: &mut Script) {
    script.at(1_000, 118, "INSERT INTO links SELECT i, now() + interval '1 h', NULL, now() FROM generate_series(30001, 40000) i");
    script.at(2_600, 118, "SELECT 1");
}
