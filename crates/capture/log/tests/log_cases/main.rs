//! Logs as outsiders have them: in the formats of containers and log shippers, cut, written anew by
//! other programs. Each is read into the statements that were sent, or refused by name.

mod files;
mod times;

use capture_log::{SkipReason, UnreadableReason};
use files::{Files, read, read_files, refusal};

/// A log with a text of several lines and a long one, as stderr has it.
const PLAIN: &str = "\
2026-03-01 09:00:00.000 UTC [77] LOG:  duration: 1.000 ms  statement: select \"id\" from t where b = 'x\\y'
2026-03-01 09:00:01.000 UTC [77] LOG:  duration: 1.000 ms  statement: delete from t
\twhere id = 5
2026-03-01 09:00:02.000 UTC [77] ERROR:  division by zero
2026-03-01 09:00:02.000 UTC [77] STATEMENT:  select 1
\t/ 0
2026-03-01 09:00:03.000 UTC [78] LOG:  duration: 1.000 ms  statement: select 2
";

const PLAIN_STATEMENTS: [&str; 4] = [
    "select \"id\" from t where b = 'x\\y'",
    "delete from t\nwhere id = 5",
    "select 1\n/ 0",
    "select 2",
];

fn each_line(wrap: impl Fn(&str) -> String) -> String {
    PLAIN.lines().map(|line| wrap(line) + "\n").collect()
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn container_formats_are_unwrapped() {
    let docker = |line: &str| {
        format!(
            "{{\"log\":{},\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:00.123456789Z\"}}",
            json(&format!("{line}\n"))
        )
    };
    let logs = [
        ("shipper", each_line(docker)),
        (
            "container",
            each_line(|line| format!("2026-03-01T09:00:00.000000123Z stderr F {line}")),
        ),
        ("container", each_line(|line| format!("db-1   | {line}"))),
        (
            "container",
            each_line(|line| format!("\u{1b}[36mdb-1   |\u{1b}[0m {line}")),
        ),
        (
            "container",
            each_line(|line| format!("db-1   | 2026-03-01T09:00:00.000000123Z {line}")),
        ),
        (
            "container",
            "+ db-0 › postgres\n".to_owned() + &each_line(|line| format!("db-0 postgres {line}")),
        ),
        (
            "container",
            each_line(|line| format!("[pod/db-0/postgres] {line}")),
        ),
        (
            "container",
            each_line(|line| format!("log/postgresql.log:{line}")),
        ),
        (
            "container",
            each_line(|line| format!("2026-03-01T09:00:00Z {{app=\"db\", pod=\"db-0\"}} {line}")),
        ),
        (
            "syslog",
            each_line(|line| format!("Mar 01 09:00:00 postgres[1]: {line}")),
        ),
        (
            "shipper",
            each_line(|line| {
                format!(
                    "{{\"@timestamp\":\"2026-03-01T09:00:00.000Z\",\"message\":{},\"host\":{{\"name\":\"db1\"}}}}",
                    json(line)
                )
            }),
        ),
        (
            "shipper",
            each_line(|line| {
                format!(
                    "{{\"labels\":{{\"pod\":\"db-0\"}},\"line\":{},\"timestamp\":\"2026-03-01T09:00:00Z\"}}",
                    json(line)
                )
            }),
        ),
        (
            "shipper",
            each_line(|line| {
                format!(
                    "{{\"MESSAGE\":{},\"_PID\":\"1\",\"_TRANSPORT\":\"stdout\",\"SYSLOG_IDENTIFIER\":\"postgres\",\"__REALTIME_TIMESTAMP\":\"1772355600000000\"}}",
                    json(line)
                )
            }),
        ),
        (
            "syslog",
            each_line(|line| format!("Sun 2026-03-01 09:00:00 UTC db1 postgres[1]: {line}")),
        ),
        (
            "syslog",
            each_line(|line| format!("1772355600.000001 db1 postgres[1]: {line}")),
        ),
        (
            "syslog",
            each_line(|line| format!("[ 1234.567890] db1 postgres[1]: {line}")),
        ),
        ("stderr", PLAIN.to_owned()),
    ];
    for (format, log) in logs {
        let captured = read(&log);
        assert_eq!(captured.format(), format, "{log}");
        assert_eq!(captured.replayable(), PLAIN_STATEMENTS, "{log}");
        assert_eq!(captured.unreadable(), 0, "{log}");
        let prefix = captured.report.sources[0].prefix.as_deref();
        assert_eq!(prefix, Some("%m [%p] "), "{log}");
    }
}

#[test]
fn pieces_of_a_line_are_joined() {
    let cri = "\
2026-03-01T09:00:08.000000123Z stderr P 2026-03-01 09:00:08.000 UTC [77] LOG:  duration: 1.000 ms  statement: insert into t values (1, 'aaaa
2026-03-01T09:00:08.000000124Z stdout F other
2026-03-01T09:00:08.000000124Z stderr F bbbb')
2026-03-01T09:00:09.000000123Z stderr F 2026-03-01 09:00:09.000 UTC [77] LOG:  duration: 1.000 ms  statement: select 1
";
    let docker = "\
{\"log\":\"2026-03-01 09:00:08.000 UTC [77] LOG:  duration: 1.000 ms  statement: insert into t values (1, 'aaaa\",\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:08Z\"}
{\"log\":\"bbbb')\\n\",\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:08Z\"}
{\"log\":\"2026-03-01 09:00:09.000 UTC [77] LOG:  duration: 1.000 ms  statement: select 1\\n\",\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:09Z\"}
{\"log\":\"2026-03-01 09:00:10.000 UTC [77] LOG:  duration: 1.000 ms  statement: select 1\\n\",\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:10Z\"}
";
    for log in [cri, docker] {
        let captured = read(log);
        assert_eq!(
            captured.replayable()[..2],
            ["insert into t values (1, 'aaaabbbb')", "select 1"]
        );
        assert_eq!(captured.unreadable(), 0);
    }
}

#[test]
fn other_services_lines_are_counted_as_theirs() {
    let log = PLAIN
        .lines()
        .map(|line| format!("db-1   | {line}\nweb-1  | GET / 200\n"));
    let captured = read(&log.collect::<String>());
    assert_eq!(captured.replayable(), PLAIN_STATEMENTS);
    assert_eq!(captured.skipped(SkipReason::OtherServer), 7);
}

#[test]
fn herokus_drain_is_read() {
    let log = "\
2026-08-26T20:18:43.000000+00:00 app[postgres.2487360]: [WHITE] [65-1]  sql_error_code = 22012 time_ms = \"2026-08-26 20:18:43.325 UTC\" pid=\"2539221\" proc_start_time=\"2026-08-26 20:14:17 UTC\" session_id=\"66cce219.26bed5\" vtid=\"5/4552982\" tid=\"0\" log_line=\"21\" database=\"dfm\" connection_source=\"13.110.54.12(17504)\" user=\"u9u\" application_name=\"psql\" ERROR:  division by zero
2026-08-26T20:18:43.000000+00:00 app[postgres.2487360]: [WHITE] [65-2]  sql_error_code = 22012 time_ms = \"2026-08-26 20:18:43.325 UTC\" pid=\"2539221\" proc_start_time=\"2026-08-26 20:14:17 UTC\" session_id=\"66cce219.26bed5\" vtid=\"5/4552982\" tid=\"0\" log_line=\"22\" database=\"dfm\" connection_source=\"13.110.54.12(17504)\" user=\"u9u\" application_name=\"psql\" STATEMENT:  select 1/0;
2026-08-26T20:18:44.000000+00:00 app[postgres.2487360]: [WHITE] [66-1]  sql_error_code = 00000 time_ms = \"2026-08-26 20:18:44.325 UTC\" pid=\"2539221\" proc_start_time=\"2026-08-26 20:14:17 UTC\" session_id=\"66cce219.26bed5\" vtid=\"5/4552983\" tid=\"0\" log_line=\"23\" database=\"dfm\" connection_source=\"13.110.54.12(17504)\" user=\"u9u\" application_name=\"psql\" LOG:  duration: 12.000 ms  statement: select
2026-08-26T20:18:44.000000+00:00 app[postgres.2487360]: [WHITE] [66-2] \t2;
2026-08-26T20:18:45.000000+00:00 heroku[router]: at=info method=GET
";
    let captured = read(log);
    assert_eq!(captured.replayable(), ["select 1/0;", "select\n2;"]);
    assert_eq!(captured.skipped(SkipReason::OtherProgram), 1);
    let workload::EventKind::Connect { user, database, .. } = &captured.events[0].kind else {
        panic!("{:?}", captured.events[0]);
    };
    assert_eq!((&**user, &**database), ("u9u", "dfm"));
    let short = "2026-08-26T20:18:43.000000+00:00 app[postgres.24]: [WHITE] [65-1]  sql_error_code = 00000 LOG:  duration: 3.0 ms  statement: select 1\n";
    assert!(refusal(short).contains("Heroku"), "{}", refusal(short));
}

#[test]
fn cloud_sql_text_without_a_time_has_the_records_time() {
    let record = |pid: u32, at: u32, sql: &str| {
        format!(
            "{{\"insertId\": \"x\", \"logName\": \"projects/p/logs/cloudsql.googleapis.com%2Fpostgres.log\", \"resource\": {{\"labels\": {{\"database_id\": \"p:i\"}}, \"type\": \"cloudsql_database\"}}, \"textPayload\": \"[{pid}]: [{at}-1] db=shop,user=app LOG:  duration: 0.208 ms  statement: {sql}\", \"timestamp\": \"2020-05-15T07:39:{at}.142617Z\"}}\n"
        )
    };
    let log = record(1_430_907, 11, "select 1") + &record(1_430_908, 12, "select 2");
    let captured = read(&log);
    assert_eq!(captured.replayable(), ["select 1", "select 2"]);
    assert_eq!(captured.report.sessions, 2);
    let prefix = captured.report.sources[0].prefix.as_deref();
    assert_eq!(prefix, Some("[%p]: [%l-1] db=%d,user=%u "));
    assert_eq!(captured.pauses_ms(), [1_000]);
}

#[test]
fn formats_that_are_not_read_are_named() {
    for (log, words) in [
        (
            "{\"log\":\"{\\\"message\\\": \\\"2026-03-01 09:00:00.000 UTC [77] LOG:  statement: select 1\\\"}\\n\",\"stream\":\"stderr\"}\n",
            "JSON",
        ),
        (
            "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1772355600000000\nMESSAGE=2026-03-01 09:00:00.000 UTC [77] LOG:  statement: select 1\n_PID=1\n\n",
            "journalctl",
        ),
        (
            "{\"level\":\"x\",\"payload\":\"LOG:  statement: select 1\"}\n",
            "JSON",
        ),
        (
            "\"2026-03-01 09:00:00.000 UTC [77] LOG:  statement: select \"\"a\"\"\"\n",
            "quoted as a whole",
        ),
        (
            "2021-05-27 17:00:00 UTC:10.1.91.65:user@my_db:[24743]:LOG: duration: 0.054 ms statement: SELECT * FROM t1;\n",
            "double blanks",
        ),
        (
            "db=shop,user=app,app=web,client=10.0.0.9LOG:  duration: 1.1 ms  statement: select 1\ndb=shop,user=app,app=web,client=10.0.0.9LOG:  duration: 1.2 ms  statement: select 2\n",
            "no time",
        ),
        (
            "Mar  1 09:30:05 db1 postgres: [1-1] user=app,db=shop LOG:  duration: 1.000 ms  statement: select 1\nMar  1 09:30:06 db1 postgres: [2-1] user=app,db=shop LOG:  duration: 1.000 ms  statement: select 2\n",
            "no process",
        ),
    ] {
        assert!(refusal(log).contains(words), "{}", refusal(log));
    }
}

#[test]
fn a_statement_before_lines_that_cannot_be_read_is_cut() {
    let log = "\
2026-03-01 09:00:00.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: select 1
2026-03-01 09:00:01.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: delete from victim
    where id = 2
2026-03-01 09:00:02.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: delete from other

where id = 3
2026-03-01 09:00:03.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: select 3
";
    let captured = read(log);
    assert_eq!(captured.replayable(), ["select 1", "select 3"]);
    assert_eq!(captured.cut(), ["delete from victim", "delete from other"]);
    assert_eq!(captured.report.fitness.replayable, 2);
    let wrapped: String = log
        .lines()
        .map(|line| format!("db-1   | {line}\n"))
        .collect();
    let captured = read(&wrapped);
    assert_eq!(captured.replayable(), ["select 1", "select 3"]);
    assert_eq!(captured.cut(), ["delete from victim", "delete from other"]);
}

#[test]
fn a_record_that_is_torn_cuts_the_message_before_it() {
    let record = |line: &str| {
        let line = json(&format!("{line}\n"));
        format!("{{\"log\":{line},\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:00Z\"}}\n")
    };
    let mut log: String = PLAIN.lines().take(1).map(record).collect();
    log += &record(
        "2026-03-01 09:00:01.000 UTC [77] LOG:  duration: 1.000 ms  statement: delete from t",
    );
    log += "{\"log\":\"\\twhere id";
    let captured = read(&log);
    assert_eq!(captured.cut(), ["delete from t"]);
    assert_eq!(captured.unreadable(), 1);
}

#[test]
fn rds_says_that_it_cut_a_message() {
    let log = "\
2026-03-01 09:00:00 UTC:10.0.0.5(40122):app@shop:[77]:LOG:  duration: 1.000 ms  statement: select 1
2026-03-01 09:00:01 UTC:10.0.0.5(40122):app@shop:[77]:LOG:  duration: 1.000 ms  statement: update t set a = 'x' [Your log message was truncated]
2026-03-01 09:00:02 UTC:10.0.0.5(40122):app@shop:[77]:LOG:  duration: 1.000 ms  execute <unnamed>: select $1, $2
2026-03-01 09:00:02 UTC:10.0.0.5(40122):app@shop:[77]:DETAIL:  parameters: $1 = 'abc', $2 = 'de [Your log message was truncated]
2026-03-01 09:00:03 UTC:10.0.0.5(40122):app@shop:[77]:LOG:  duration: 1.000 ms  statement: select 4
";
    let captured = read(log);
    assert_eq!(captured.replayable(), ["select 1", "select 4"]);
    assert_eq!(captured.cut().len(), 2);
}

const FIRST: &str = "\
2026-03-01 09:00:00.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: select 1
2026-03-01 09:00:01.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: delete from victim
";
const LAST: &str = "\
\t where id = 2
2026-03-01 09:00:02.000 UTC [101] alice@shop LOG:  duration: 1.000 ms  statement: select 3
";

#[test]
fn rotation_within_a_statement_is_joined() {
    let joined = ["select 1", "delete from victim\n where id = 2", "select 3"];
    let files = Files::several(&[("pg.log", LAST), ("pg.log.1", FIRST)]);
    let captured = read_files(&files);
    assert_eq!(captured.replayable(), joined);
    assert_eq!(captured.unreadable(), 0);
    // Cut within a line.
    let whole = [FIRST, LAST].concat();
    for at in FIRST.len() - 8..FIRST.len() + 6 {
        let (first, last) = whole.split_at(at);
        let files = Files::several(&[("pg.log", last), ("pg.log.1", first)]);
        assert_eq!(read_files(&files).replayable(), joined, "{at}");
    }
    // Docker's files.
    let record = |line: &str| {
        let line = json(line);
        format!("{{\"log\":{line},\"stream\":\"stderr\",\"time\":\"2026-03-01T09:00:00Z\"}}\n")
    };
    let docker = |text: &str| text.split_inclusive('\n').map(record).collect::<String>();
    let files = Files::several(&[
        ("x-json.log", &docker(LAST)),
        ("x-json.log.1", &docker(FIRST)),
    ]);
    let captured = read_files(&files);
    assert_eq!(captured.replayable(), joined);
    assert_eq!(captured.unreadable(), 0);
}

#[test]
fn a_file_missing_between_two_leaves_a_statement_cut() {
    let files = Files::several(&[("pg.log", LAST), ("pg.log.2", FIRST)]);
    let captured = read_files(&files);
    assert_eq!(captured.replayable(), ["select 1", "select 3"]);
    assert_eq!(captured.cut(), ["delete from victim"]);
    assert_eq!(captured.unreadable(), 1);
    assert!(files.path().exists());
}

#[test]
fn messages_written_into_one_another_are_unreadable() {
    let log = "\
2026-03-01 09:00:00.000 UTC [100] a@s LOG:  duration: 1.000 ms  statement: select 1
2026-03-01 09:00:01.000 UTC [101] a@s LOG:  duration: 1.000 ms  statement: select 'AAAA2026-03-01 09:00:01.002 UTC [103] w@s LOG:  duration: 1.000 ms  statement: select 42
AAAA', 1
2026-03-01 09:00:02.000 UTC [100] a@s LOG:  duration: 1.000 ms  statement: select 2
";
    let captured = read(log);
    assert_eq!(captured.statements(), ["select 1", "select 2"]);
    let reasons = &captured.report.reconciliation.unreadable.reasons;
    assert_eq!(reasons.get(&UnreadableReason::Torn), Some(&1));
}

#[test]
fn memory_contexts_are_skipped_and_cut_nothing() {
    let log = "\
2010-12-31 11:00:28.486 UTC|postgres|postgres|4d1db7a8.4227|ERROR:  canceling statement due to user request
2010-12-31 11:00:28.486 UTC|postgres|postgres|4d1db7a8.4227|STATEMENT:  SELECT pg_sleep(10)
TopMemoryContext: 101672 total in 12 blocks; 5232 free (18 chunks); 96440 used
  RI compare cache: 8192 total in 1 blocks; 1800 free (0 chunks); 6392 used
Grand total: 1048576 bytes in 191 blocks; 152400 free (5 chunks); 896176 used
2010-12-31 11:00:29.486 UTC|postgres|postgres|4d1db7a8.4227|LOG:  statement: select 1
";
    let captured = read(log);
    assert_eq!(captured.skipped(SkipReason::MemoryContexts), 3);
    assert_eq!(captured.unreadable(), 0);
    assert_eq!(captured.replayable(), ["SELECT pg_sleep(10)", "select 1"]);
}

#[test]
fn parallel_workers_and_other_processes_are_no_clients() {
    let log = "\
2026-11-25 23:55:26.564 UTC [9564] LOG:  duration: 0.231 ms  statement: set min_parallel_table_scan_size=0
2026-11-25 23:55:27.520 UTC [9599] ERROR:  division by zero
2026-11-25 23:55:27.520 UTC [9599] STATEMENT:  select count(*) from t where 1/(a-150000) > 2
2026-11-25 23:55:27.521 UTC [9564] ERROR:  division by zero
2026-11-25 23:55:27.521 UTC [9564] CONTEXT:  parallel worker
2026-11-25 23:55:27.521 UTC [9564] STATEMENT:  select count(*) from t where 1/(a-150000) > 2
2026-11-25 23:55:29.785 UTC [9598] FATAL:  terminating background worker \"parallel worker\" due to administrator command
2026-11-25 23:55:29.785 UTC [9598] STATEMENT:  select count(*) from t where 1/(a-150000) > 2
2026-11-25 23:55:29.816 UTC [4961] LOG:  background worker \"parallel worker\" (PID 9599) exited with exit code 1
2026-11-25 23:55:29.859 UTC [4961] LOG:  background worker \"parallel worker\" (PID 9598) exited with exit code 1
2026-11-25 23:55:29.860 UTC [5000] FATAL:  terminating autovacuum process due to administrator command
2026-11-25 23:55:29.861 UTC [9600] ERROR:  relation \"x\" does not exist
2026-11-25 23:55:29.861 UTC [9600] STATEMENT:  select * from x
";
    let captured = read(log);
    assert_eq!(
        captured.statements(),
        [
            "set min_parallel_table_scan_size=0",
            "select count(*) from t where 1/(a-150000) > 2",
            "select * from x"
        ]
    );
    assert_eq!(captured.report.sessions, 2);
    assert_eq!(captured.skipped(SkipReason::ParallelWorker), 4);
}

#[test]
fn walsenders_are_replication_from_their_first_statement_on() {
    let log = "\
2026-11-26 00:10:05.491 UTC [10406] alice@shop LOG:  duration: 0.365 ms  statement: SELECT pg_catalog.set_config('search_path', '', false);
2026-11-26 00:10:05.494 UTC [10406] alice@shop LOG:  duration: 0.503 ms  statement: SELECT t.pubname FROM
\t pg_catalog.pg_publication t WHERE
\t t.pubname IN ('pb')
2026-11-26 00:10:05.526 UTC [10406] alice@shop LOG:  received replication command: CREATE_REPLICATION_SLOT \"sb\" LOGICAL pgoutput (SNAPSHOT 'nothing')
2026-11-26 00:10:05.526 UTC [10406] alice@shop STATEMENT:  CREATE_REPLICATION_SLOT \"sb\" LOGICAL pgoutput (SNAPSHOT 'nothing')
2026-11-26 00:10:09.550 UTC [10187] alice@shop LOG:  duration: 0.198 ms  statement: insert into rp values(1000,'client statement') on conflict do nothing
2026-11-26 00:10:10.621 UTC [10556] alice@shop ERROR:  replication slot \"x\" does not exist
2026-11-26 00:10:10.621 UTC [10556] alice@shop STATEMENT:  DROP_REPLICATION_SLOT x WAIT
2026-11-26 00:10:11.000 UTC [10600] alice@shop LOG:  duration: 0.365 ms  statement: SELECT pg_catalog.set_config('search_path', '', false);
2026-11-26 00:10:11.100 UTC [10600] alice@shop LOG:  duration: 0.198 ms  statement: SET DATESTYLE = ISO
2026-11-26 00:10:12.000 UTC [10187] alice@shop LOG:  received replication command: forged
2026-11-26 00:10:12.000 UTC [10187] alice@shop CONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE
2026-11-26 00:10:12.000 UTC [10187] alice@shop STATEMENT:  do $$ begin raise log 'received replication command: forged'; end $$
2026-11-26 00:10:13.550 UTC [10187] alice@shop LOG:  duration: 0.198 ms  statement: select 2
";
    let captured = read(log);
    assert_eq!(
        captured.statements(),
        [
            "insert into rp values(1000,'client statement') on conflict do nothing",
            "SELECT pg_catalog.set_config('search_path', '', false);",
            "SET DATESTYLE = ISO",
            "select 2",
        ]
    );
    assert_eq!(captured.skipped(SkipReason::Replication), 8);
    assert_eq!(captured.skipped(SkipReason::Forged), 3);
}

#[test]
fn a_slow_bind_alone_has_its_duration() {
    let log = "\
2026-03-01 09:00:01.000 UTC [77] app@shop LOG:  duration: 626.151 ms  bind <unnamed>: SELECT * FROM roads WHERE id = $1
2026-03-01 09:00:01.000 UTC [77] app@shop DETAIL:  parameters: $1 = '5'
2026-03-01 09:00:09.000 UTC [77] app@shop LOG:  duration: 800.000 ms  execute <unnamed>: SELECT * FROM lakes WHERE id = $1
2026-03-01 09:00:09.000 UTC [77] app@shop DETAIL:  parameters: $1 = '7'
";
    let captured = read(log);
    let durations: Vec<Option<u64>> = captured
        .events
        .iter()
        .filter(|event| event.kind.is_statement())
        .map(|event| event.outcome.duration_us)
        .collect();
    assert_eq!(durations, [Some(626_151), Some(800_000)]);
}

const CSV: &str = "\"2021-09-01 14:35:29.848 UTC\",\"app\",\"shop\",\"96\",\"10.244.1.197:38086\",\"612f8fb1.60\",\"1\",\"idle\",\"2021-09-01 14:35:29 UTC\",\"3/0\",\"0\",\"LOG\",\"00000\",\"statement: select \"\"a\"\"\nfrom t\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"psql\",\"client backend\",\"\",\"0\"\n";

#[test]
fn csvlog_written_anew_is_read() {
    let captured = read(CSV);
    assert_eq!(captured.format(), "csvlog");
    assert_eq!(captured.replayable(), ["select \"a\"\nfrom t"]);
    // A program that leaves one of the last columns out.
    let columns_25 = "2026-05-16 05:20:03.994 UTC,\"u\",\"d\",1002,\"192.0.2.20:54322\",00000002.000003ea,2,\"idle\",\"2026-05-16 05:00:00 UTC\",2/2,0,LOG,00000,\"statement: SELECT 1\",,,,,,,,,\"example\",\"client backend\",0\n";
    assert_eq!(read(columns_25).replayable(), ["SELECT 1"]);
}

#[test]
fn jsonlog_written_anew_is_read() {
    let object = "{\"error_severity\": \"LOG\", \"message\": \"statement: select 1\", \"pid\": 77, \"timestamp\": \"2026-03-01 09:00:00.000 UTC\", \"session_id\": \"68b1a2c3.4d\", \"backend_type\": \"client backend\"}";
    let printed = object
        .replace(", \"", ",\n  \"")
        .replace('{', "{\n  ")
        .replace('}', "\n}");
    let array = format!(
        "[\n  {},\n  {}\n]\n",
        printed.replace('\n', "\n  "),
        printed.replace('\n', "\n  ")
    );
    for (log, count) in [
        (format!("{object}\n{object}\n"), 2),
        (format!("{printed}\n{printed}\n"), 2),
        (array, 2),
    ] {
        let captured = read(&log);
        assert_eq!(captured.format(), "jsonlog", "{log}");
        assert_eq!(captured.replayable(), vec!["select 1"; count], "{log}");
        assert_eq!(captured.unreadable(), 0, "{log}");
    }
}

#[test]
fn carriage_returns_of_the_file_are_no_part_of_statements() {
    let crlf = PLAIN.replace('\n', "\r\n");
    assert_eq!(read(&crlf).replayable(), PLAIN_STATEMENTS);
    assert_eq!(
        read(&CSV.replace('\n', "\r\n")).replayable(),
        ["select \"a\"\nfrom t"]
    );
    // Those of a client stay.
    let own = PLAIN.replace("from t\n", "from t\r\n");
    assert_eq!(read(&own).replayable()[1], "delete from t\r\nwhere id = 5");
}

#[test]
fn the_operators_own_lines_are_other_programs() {
    let log = "\
{\"level\":\"info\",\"ts\":1669574894.2211716,\"msg\":\"Installing the manager executable\",\"version\":\"1.18.0\"}
{\"level\":\"info\",\"ts\":1669574899.1407707,\"logger\":\"postgres\",\"msg\":\"record\",\"logging_pod\":\"c-1\",\"record\":{\"log_time\":\"2022-11-27 18:48:19.137 UTC\",\"user_name\":\"postgres\",\"database_name\":\"postgres\",\"process_id\":\"39\",\"session_id\":\"6383b0f3.27\",\"session_line_num\":\"3\",\"error_severity\":\"LOG\",\"sql_state_code\":\"00000\",\"message\":\"statement: select 1\",\"backend_type\":\"client backend\"}}
";
    let captured = read(log);
    assert_eq!(captured.format(), "cnpg");
    assert_eq!(captured.skipped(SkipReason::OtherProgram), 1);
    assert_eq!(captured.unreadable(), 0);
}

#[test]
fn a_refused_value_of_an_only_parameter_is_known() {
    let log = "\
2026-11-25 23:56:46.560 UTC [12014] alice@shop ERROR:  invalid input syntax for type integer: \"abc\"
2026-11-25 23:56:46.560 UTC [12014] alice@shop CONTEXT:  unnamed portal parameter $1 = 'abc'
2026-11-25 23:56:46.560 UTC [12014] alice@shop STATEMENT:  select $1::int
2026-11-25 23:56:46.570 UTC [12014] alice@shop ERROR:  invalid input syntax for type integer: \"abc\"
2026-11-25 23:56:46.570 UTC [12014] alice@shop CONTEXT:  unnamed portal parameter $1 = 'abc'
2026-11-25 23:56:46.570 UTC [12014] alice@shop STATEMENT:  select $1::int, $2
2026-11-25 23:56:46.580 UTC [12014] alice@shop ERROR:  invalid input syntax for type integer: \"abcdef\"
2026-11-25 23:56:46.580 UTC [12014] alice@shop CONTEXT:  unnamed portal parameter $1 = 'abc...'
2026-11-25 23:56:46.580 UTC [12014] alice@shop STATEMENT:  select $1::int
";
    let captured = read(log);
    assert_eq!(captured.statements().len(), 3);
    assert_eq!(captured.replayable(), ["select $1::int"]);
}
