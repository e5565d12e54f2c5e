//! Masking: the program's output contains no value of the user, and a masked workload behaves on
//! masked data as the original does on the original data.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use postgres::{Client, NoTls};
use run::RunReader;
use sandbox::{Endpoint, Stop};
use workload::WorkloadReader;

fn rehearse(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .env_remove("PGHOST")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the standard output of a command that must succeed.
fn done(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = rehearse(arguments, input);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        said(&output)
    );
    output.stdout
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&done(arguments, b"")).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = rehearse(arguments, b"");
    assert_eq!(
        output.status.code(),
        Some(2),
        "{arguments:?}: {}",
        said(&output)
    );
    said(&output)
}

/// Returns the contents of a workload's files as text.
fn content(path: &Path) -> String {
    let reader = WorkloadReader::open(path).unwrap();
    let mut text = std::fs::read_to_string(path.join("manifest.json")).unwrap();
    for event in reader.events().unwrap() {
        text.push_str(&format!("{:?}\n", event.unwrap()));
    }
    for session in reader.sessions().unwrap() {
        text.push_str(&format!("{:?}\n", session.unwrap()));
    }
    for event in reader.server_events().unwrap() {
        text.push_str(&format!("{:?}\n", event.unwrap()));
    }
    for statement in reader.statements().unwrap() {
        text.push_str(&format!("{:?}\n", statement.unwrap()));
    }
    text
}

const LOG: &str = "\
2026-03-01 09:30:00.000 UTC [7] LOG:  connection received: host=198.51.100.77 port=5000
2026-03-01 09:30:00.000 UTC [7] LOG:  connection authorized: user=app database=shop application_name=of Sekretova
2026-03-01 09:30:01.000 UTC [7] LOG:  statement: SELECT * FROM customer WHERE name = 'Sekretova' AND card = 4711081500 -- for Sekretova
2026-03-01 09:30:02.000 UTC [7] LOG:  execute s1: SELECT * FROM customer WHERE email = $1 AND data @> $2 LIMIT $3
2026-03-01 09:30:02.000 UTC [7] DETAIL:  Parameters: $1 = 'anna@sekretova.example', $2 = '{\"card\": 4711081500}', $3 = '25'
2026-03-01 09:30:03.000 UTC [7] ERROR:  duplicate key value violates unique constraint \"customer_email\"
2026-03-01 09:30:03.000 UTC [7] DETAIL:  Key (email)=(anna@sekretova.example) already exists.
2026-03-01 09:30:03.000 UTC [7] STATEMENT:  INSERT INTO customer (email) VALUES ('anna@sekretova.example')
2026-03-01 09:30:04.000 UTC [7] LOG:  process 7 still waiting for ShareLock on transaction 4 after 1000.1 ms
2026-03-01 09:30:04.000 UTC [7] STATEMENT:  DO $$ BEGIN UPDATE customer SET name = 'Sekretova'; END $$
2026-03-01 09:30:05.000 UTC [7] LOG:  process 7 still waiting for ExclusiveLock on advisory lock [5,0,4711081500,1] after 1000.1 ms
2026-03-01 09:30:05.000 UTC [7] STATEMENT:  SELECT pg_advisory_lock(4711081500)
2026-03-01 09:30:06.000 UTC [7] ERROR:  no credit for Anna Sekretova
2026-03-01 09:30:06.000 UTC [7] CONTEXT:  PL/pgSQL function credit(integer) line 3 at RAISE
2026-03-01 09:30:06.000 UTC [7] STATEMENT:  SELECT credit(4711081500)
2026-03-01 09:30:30.000 UTC [7] LOG:  disconnection: session time: 0:00:30.000 user=app database=shop host=198.51.100.77 port=5000
";

const SECRETS: [&str; 4] = ["sekretova", "4711081500", "anna", "198.51.100.77"];

#[test]
fn no_secret_of_a_log_is_in_a_masked_workload() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (log, key) = (path("a.log"), path("key"));
    std::fs::write(&log, LOG).unwrap();
    done(&["mask", "key", &key], b"");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (plain, masked, later, random) = (
        path("plain.workload"),
        path("masked.workload"),
        path("later.workload"),
        path("random.workload"),
    );
    done(&["capture", "log", &log, "-o", &plain], b"");
    let account = json(&[
        "capture", "log", &log, "-o", &masked, "--mask", &key, "--json",
    ]);
    let mask = &account["mask"];
    assert_eq!(mask["parameters"]["masked"], 2, "{mask:#}");
    assert_eq!(mask["parameters"]["kept"]["position"], 1, "{mask:#}");
    assert_eq!(mask["comments"], 1, "{mask:#}");
    json(&[
        "mask", "workload", &plain, "-o", &later, "--mask", &key, "--json",
    ]);
    json(&[
        "capture", "log", &log, "-o", &random, "--mask", "random", "--json",
    ]);

    let open = content(Path::new(&plain)).to_lowercase();
    for secret in SECRETS {
        assert!(open.contains(secret), "{secret} was to be found");
    }
    let secret_key = std::fs::read_to_string(&key).unwrap();
    for path in [&masked, &later, &random] {
        let text = content(Path::new(path)).to_lowercase();
        for secret in SECRETS.iter().chain([&secret_key.trim()]) {
            assert!(!text.contains(secret), "{secret} is in {path}");
        }
    }
    for arguments in [
        &["inspect", &masked, "--json", "--show-literals"][..],
        &["inspect", &masked],
    ] {
        let shown = String::from_utf8(done(arguments, b""))
            .unwrap()
            .to_lowercase();
        for secret in SECRETS {
            assert!(!shown.contains(secret), "{secret} is shown: {shown}");
        }
    }
    let masked_report = json(&["inspect", &masked, "--json"]);
    let patterns = masked_report["messages"]["patterns"].to_string();
    assert!(patterns.contains("line 3 at RAISE"), "{patterns}");
    let locks = masked_report["lock_waits"].to_string();
    let lock = r#""subject":"ExclusiveLock on advisory lock""#;
    assert!(locks.contains(lock), "{locks}");
    // Masked at the capture or later: the same; by another key, not.
    let id = |path: &str| {
        WorkloadReader::open(Path::new(path))
            .unwrap()
            .id()
            .to_owned()
    };
    assert_eq!(id(&masked), id(&later));
    assert_ne!(id(&masked), id(&random));
    let note = WorkloadReader::open(Path::new(&masked))
        .unwrap()
        .info()
        .masked
        .clone();
    assert_eq!((note.len(), note[0].key.len()), (1, 16));
    assert!(note[0].account.adds_up());
    // A slice of a masked one says so still.
    let sliced = path("sliced.workload");
    done(
        &[
            "slice", &masked, "-o", &sliced, "--kind", "select", "--mask", &key,
        ],
        b"",
    );
    assert_eq!(
        WorkloadReader::open(Path::new(&sliced))
            .unwrap()
            .info()
            .masked
            .len(),
        2
    );
}

#[test]
fn what_cannot_be_meant_is_refused_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (log, short, none, out) = (
        path("a.log"),
        path("short"),
        path("none"),
        path("a.workload"),
    );
    std::fs::write(&log, LOG).unwrap();
    std::fs::write(&short, "what somebody made up, and is long enough").unwrap();
    let open = path("open");
    std::fs::write(&open, "0123456789abcdef".repeat(4)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&open, mode).unwrap();
    for (options, sentence) in [
        (
            &["--mask", &short][..],
            "this is no key for masking, which has 64 hexadecimal digits in small letters and nothing else; make one with `rehearse mask key FILE`",
        ),
        (
            &["--mask", &none],
            "give one that `rehearse mask key FILE` made",
        ),
        (&["--mask", &open], "close it with `chmod 600"),
        (&["--mask-keep", "x"], "give --mask KEYFILE too"),
        (
            &["--mask", "random", "--mask-keep", "*"],
            "would keep every value",
        ),
        (
            &["--mask", "random", "--mask-keep-statement", "*"],
            "would match every statement",
        ),
    ] {
        let said = refused(&[&["capture", "log", &log, "-o", &out], options].concat());
        assert!(said.contains(sentence), "{options:?}: {said}");
    }
    let said = refused(&["mask", "key", &short]);
    assert!(said.contains("give the name of a new file"), "{said}");
}

#[test]
fn a_dump_is_masked_in_its_rows_alone() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key").display().to_string();
    done(&["mask", "key", &key], b"");
    // Every row has a long value: a number of two digits stays what it is under one key of ninety.
    let dump = "CREATE TABLE public.customer (id integer, name text DEFAULT 'Sekretova');\n\
        COPY public.customer (id, name, \"State\") FROM stdin;\n4711\tSekretova\tshipped\n120045\t\\N\tpending\n\\.\n\nSELECT 4711;\n";
    let masked = done(
        &[
            "mask",
            "dump",
            "--mask",
            &key,
            "--keep-column",
            "customer.State",
        ],
        dump.as_bytes(),
    );
    let masked = String::from_utf8(masked).unwrap();
    let (before, after): (Vec<&str>, Vec<&str>) =
        (dump.lines().collect(), masked.lines().collect());
    assert_eq!(before.len(), after.len());
    for (line, (before, after)) in before.iter().zip(&after).enumerate() {
        assert_eq!(before == after, !(2..=3).contains(&line), "{after}");
    }
    assert!(
        after[2].ends_with("\tshipped") && after[3].ends_with("\t\\N\tpending"),
        "{masked}"
    );
    // The same values as by themselves.
    let row = done(
        &["mask", "values", "--mask", &key, "--columns", "1,2"],
        b"4711\tSekretova\tshipped\n",
    );
    assert_eq!(String::from_utf8(row).unwrap().trim_end(), after[2]);
    let csv = done(
        &["mask", "values", "--mask", &key, "--csv"],
        b"4711,\"Sekretova\n4711\"\n",
    );
    let (number, name) = (
        after[2].split('\t').next().unwrap(),
        after[2].split('\t').nth(1).unwrap(),
    );
    assert_eq!(
        String::from_utf8(csv).unwrap(),
        format!("{number},\"{name}\n{number}\"\n")
    );
    let output = rehearse(
        &["mask", "dump", "--mask", &key, "--keep-column", "x.y"],
        dump.as_bytes(),
    );
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let inserts = b"INSERT INTO public.customer VALUES (4711);\n";
    let output = rehearse(&["mask", "dump", "--mask", &key], inserts);
    assert!(
        said(&output).contains("make the dump without --inserts"),
        "{}",
        said(&output)
    );
}

const SCHEMA: &str = "\
CREATE TABLE customer (
    id int PRIMARY KEY, email text UNIQUE, name text, born date, joined timestamptz, account uuid UNIQUE,
    balance numeric(10,2), tags text[], profile jsonb, address inet,
    state text CHECK (state IN ('pending', 'active')));
CREATE TABLE purchase (
    id bigint PRIMARY KEY, customer_id int REFERENCES customer, at timestamptz, total numeric, code varchar(20));";

const DATA: &str = "\
INSERT INTO customer SELECT
    n * 37 + 100, format('%s.%s%s@example.%s', f, l, n, CASE n % 3 WHEN 0 THEN 'org' ELSE 'com' END), initcap(f || ' ' || l),
    date '1960-01-01' + n * 53, timestamptz '2025-01-01 00:00+00' + n * interval '25 hours 7 minutes 3.25 seconds',
    md5(n::text)::uuid, n * 13.5, ARRAY[l, 'tag' || n % 7], jsonb_build_object('city', 'Town' || n % 9, 'age', 20 + n % 50),
    ('10.' || n % 4 || '.7.' || n % 200)::inet, CASE WHEN n % 4 = 0 THEN 'pending' ELSE 'active' END
  FROM (SELECT n, (ARRAY['anna','bob','carla','dieter','eve'])[n % 5 + 1] AS f,
               (ARRAY['smith','jones','miller','schmidt'])[n % 4 + 1] AS l FROM generate_series(1, 200) n) AS x;
INSERT INTO purchase SELECT n + 100000, (n % 200 + 1) * 37 + 100, timestamptz '2025-03-01 10:00+00' + n * interval '3 hours', n * 7.25, 'ORD-' || lpad(n::text, 6, '0')
  FROM generate_series(1, 900) n;";

const TABLES: [&str; 2] = ["customer", "purchase"];

/// Sends the clients' statements in one session.
fn drive(endpoint: &Endpoint) {
    let mut client = Client::connect(&endpoint.url("postgres"), NoTls).unwrap();
    let mut ask = |sql: &str| {
        client.batch_execute(sql).unwrap();
    };
    for sql in [
        "SELECT * FROM customer WHERE id = 470",
        "SELECT * FROM customer WHERE id IN (137, 174, 211, 212)",
        "SELECT * FROM customer WHERE email = 'bob.miller6@example.org'",
        "SELECT * FROM customer WHERE lower(name) LIKE '%smith'",
        "SELECT * FROM customer WHERE name ILIKE 'ANNA %' -- those named Anna",
        "SELECT * FROM customer WHERE name ~ '^(Bob|Eve) [A-Z]'",
        "SELECT * FROM customer WHERE account = 'c4ca4238-a0b9-2382-0dcc-509a6f75849b'",
        "SELECT * FROM customer WHERE joined >= '2025-02-01' AND joined < '2025-05-01'",
        "SELECT * FROM customer WHERE born = date '1960-02-23'",
        "SELECT date_trunc('month', at), count(*), sum(total) FROM purchase GROUP BY 1 ORDER BY 1",
        "SELECT * FROM customer c JOIN purchase p ON p.customer_id = c.id WHERE c.id = 507 ORDER BY 1 LIMIT 3",
        "SELECT * FROM customer WHERE profile @> '{\"city\": \"Town3\"}' AND profile->>'age' = '37'",
        "SELECT * FROM customer WHERE tags @> '{jones,tag5}'",
        "SELECT * FROM customer WHERE address << '10.2.0.0/16'",
        "SELECT * FROM customer WHERE balance = 27",
        "SELECT * FROM customer WHERE balance = 1350.00",
        "SELECT * FROM customer WHERE state = 'pending'",
        "SELECT * FROM purchase WHERE code = E'ORD-000042'",
        "SELECT * FROM purchase WHERE at = '2025-03-02 01:00:00+02'",
        "UPDATE customer SET balance = 99.95, name = $$Zoë Müller$$ WHERE id = 544",
        "SELECT * FROM customer WHERE name = 'Zoë Müller'",
        "INSERT INTO purchase VALUES (987654, 544, '2026-01-02 03:04:05+00', 12.34, 'ORD-009999')",
        "DO $x$ BEGIN UPDATE purchase SET total = 55.5 WHERE customer_id = 581; END $x$",
        "SELECT * FROM purchase WHERE total = 55.50",
        "DELETE FROM purchase WHERE code IN ('ORD-000100', 'ORD-000101')",
    ] {
        ask(sql);
    }
    let by_id = client
        .prepare("SELECT * FROM purchase WHERE customer_id = $1 ORDER BY at LIMIT $2")
        .unwrap();
    for id in [137, 174, 3800] {
        client.query(&by_id, &[&id, &2i64]).unwrap();
    }
    let many = client
        .prepare("SELECT * FROM customer WHERE id = ANY($1) OR email = $2")
        .unwrap();
    client
        .query(&many, &[&vec![137, 248, 5], &"carla.jones117@example.org"])
        .unwrap();
    let duplicate = "INSERT INTO customer (id, email) VALUES (137, 'x@example.com')";
    client.batch_execute(duplicate).unwrap_err();
}

fn replay(workload: &str, run: &str, tables: &[(&str, Vec<u8>)]) -> Vec<(u64, u64, u64, String)> {
    let (_target, endpoint) = test_support::server().major(15).start();
    let mut client = Client::connect(&endpoint.url("postgres"), NoTls).unwrap();
    client.batch_execute(SCHEMA).unwrap();
    for (table, rows) in tables {
        let mut copy = client.copy_in(&format!("COPY {table} FROM STDIN")).unwrap();
        copy.write_all(rows).unwrap();
        copy.finish().unwrap();
    }
    done(
        &[
            "replay",
            workload,
            "--target",
            &endpoint.url("postgres"),
            "-o",
            run,
            "--speed",
            "max",
        ],
        b"",
    );
    let reader = RunReader::open(Path::new(run)).unwrap();
    let mut outcomes: Vec<_> = reader
        .executions()
        .unwrap()
        .map(|execution| {
            let execution = execution.unwrap();
            (
                execution.session,
                execution.sequence,
                execution.rows,
                format!("{:?}", execution.outcome),
            )
        })
        .collect();
    outcomes.sort();
    outcomes
}

#[test]
fn a_masked_workload_does_on_masked_data_what_it_did_on_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut source = test_support::server().major(15).create();
    let endpoint = source.start().unwrap();
    let mut client = Client::connect(&endpoint.url("postgres"), NoTls).unwrap();
    client.batch_execute(SCHEMA).unwrap();
    client.batch_execute(DATA).unwrap();
    let tables = TABLES.map(|table| {
        let mut rows = Vec::new();
        let mut copy = client.copy_out(&format!("COPY {table} TO STDOUT")).unwrap();
        std::io::Read::read_to_end(&mut copy, &mut rows).unwrap();
        (table, rows)
    });
    drop(client);
    source.stop(Stop::Fast).unwrap();
    let logging = [
        ("logging_collector", "on"),
        ("log_destination", "csvlog"),
        ("log_min_duration_statement", "0"),
        ("log_connections", "on"),
        ("log_disconnections", "on"),
        ("log_directory", "log"),
        ("log_filename", "postgresql.log"),
    ];
    source
        .set(
            logging
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
        .unwrap();
    let endpoint = source.start().unwrap();
    drive(&endpoint);
    source.stop(Stop::Fast).unwrap();

    let log = source
        .data_dir()
        .join("log/postgresql.csv")
        .display()
        .to_string();
    let (key, plain, masked) = (path("key"), path("plain.workload"), path("masked.workload"));
    done(&["mask", "key", &key], b"");
    done(&["capture", "log", &log, "-o", &plain], b"");
    let keep = ["--mask-keep", "pending", "--mask-keep", "active"];
    done(
        &[
            &["capture", "log", &log, "-o", &masked, "--mask", &key],
            &keep[..],
        ]
        .concat(),
        b"",
    );
    let masked_tables: Vec<_> = tables
        .iter()
        .map(|(table, rows)| {
            (
                *table,
                done(
                    &[&["mask", "values", "--mask", &key], &keep[..]].concat(),
                    rows,
                ),
            )
        })
        .collect();
    assert_ne!(masked_tables[0].1, tables[0].1);
    let before = replay(&plain, &path("plain.run"), &tables);
    let after = replay(&masked, &path("masked.run"), &masked_tables);
    let reader = WorkloadReader::open(Path::new(&masked)).unwrap();
    let sql: Vec<_> = reader
        .events()
        .unwrap()
        .map(|event| event.unwrap().0)
        .collect();
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        let event = sql
            .iter()
            .find(|event| (event.session, event.sequence) == (after.0, after.1));
        assert_eq!(before, after, "{event:?}");
    }
    // The statements do find something.
    let found = before.iter().filter(|(_, _, rows, _)| *rows > 0).count();
    assert!(found >= 25, "{before:#?}");
    assert!(
        content(Path::new(&plain)).contains("bob.miller6")
            && !content(Path::new(&masked)).contains("miller")
    );
}
