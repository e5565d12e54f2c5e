//! Snapshots of real servers: what was, is again, exactly.

mod support;

use sandbox::{Error, Options, Sandbox};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use support::{ask, connect, places, server};

#[test]
fn a_restore_brings_back_rows_settings_and_files() {
    let (_top, places) = places();
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    let url = sandbox.start().unwrap().url("postgres");
    connect(&url)
        .batch_execute("create table t as select generate_series(1, 1000) as n")
        .unwrap();

    let copied = sandbox.snapshot("loaded").unwrap();
    assert!(
        copied.files > 900 && copied.bytes > 10_000_000,
        "{copied:?}"
    );
    let before = look(&sandbox.root().join("snapshots/loaded"));
    assert!(sandbox.pid().is_some(), "it ran before, so it runs after");

    let count = "select count(*)::text from t";
    for round in 0..2 {
        let url = sandbox.endpoint().url("postgres");
        let mut client = connect(&url);
        for sql in [
            "delete from t where n > 10",
            "create database other",
            "alter system set work_mem = '9MB'",
        ] {
            client.batch_execute(sql).unwrap();
        }
        drop(client);
        std::fs::write(sandbox.data_dir().join("stray"), "x").unwrap();
        assert_eq!(ask(&mut connect(&url), count), "10", "round {round}");

        sandbox.restore("loaded").unwrap();
        assert!(!sandbox.data_dir().join("stray").exists());
        let mut client = connect(&sandbox.endpoint().url("postgres"));
        assert_eq!(ask(&mut client, count), "1000");
        assert_eq!(ask(&mut client, "show work_mem"), "4MB");
        let databases = "select string_agg(datname, ',' order by datname) from pg_database";
        assert_eq!(ask(&mut client, databases), "postgres,template0,template1");
    }
    assert_eq!(
        look(&sandbox.root().join("snapshots/loaded")),
        before,
        "and may be used again"
    );

    sandbox.stop(sandbox::Stop::Fast).unwrap();
    sandbox.restore("loaded").unwrap();
    assert_eq!(look(sandbox.data_dir()), before);
    assert_eq!(
        sandbox.pid(),
        None,
        "it did not run before, so it does not after"
    );
    sandbox.start().unwrap();
}

#[test]
fn snapshots_are_known_by_their_names() {
    let (_top, places) = places();
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    let error = sandbox.restore("empty").unwrap_err();
    assert!(error.to_string().contains("there is none"), "{error}");
    sandbox.snapshot("empty").unwrap();
    sandbox.snapshot("again").unwrap();
    assert_eq!(sandbox.snapshots(), ["again", "empty"]);
    assert!(matches!(
        sandbox.snapshot("empty"),
        Err(Error::SnapshotTaken { .. })
    ));
    assert!(matches!(sandbox.snapshot("../x"), Err(Error::Name { .. })));
    let error = sandbox.restore("../snapshots/empty").unwrap_err();
    assert!(error.to_string().contains("again, empty"), "{error}");
    sandbox.remove_snapshot("again").unwrap();
    assert_eq!(sandbox.snapshots(), ["empty"]);
}

#[test]
fn snapshot_with_outside_tablespace_is_refused_and_server_stays_up() {
    let (_top, places) = places();
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    let url = sandbox.start().unwrap().url("postgres");
    let outside = sandbox.data_dir().parent().unwrap().join("socket");
    let sql = format!(
        "create tablespace elsewhere location '{}'",
        outside.display()
    );
    connect(&url).batch_execute(&sql).unwrap();
    assert!(matches!(
        sandbox.snapshot("partial"),
        Err(Error::Outside { .. })
    ));
    assert!(sandbox.snapshots().is_empty());
    connect(&url);
}

type Facts = (u32, u32, u32, Option<Vec<u8>>);

/// Everything below a directory: modes, owners, contents.
fn look(top: &Path) -> BTreeMap<String, Facts> {
    fn walk(top: &Path, dir: &Path, all: &mut BTreeMap<String, Facts>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let contents = meta.is_file().then(|| std::fs::read(&path).unwrap());
            let name = path.strip_prefix(top).unwrap().display().to_string();
            all.insert(name, (meta.mode(), meta.uid(), meta.gid(), contents));
            if meta.is_dir() {
                walk(top, &path, all);
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(top, top, &mut all);
    all
}

#[test]
fn copy_has_the_data_and_settings_and_the_original_runs_again() {
    let (_top, places) = places();
    let options = Options {
        settings: vec![("work_mem".to_owned(), "7MB".to_owned())],
        ..Options::default()
    };
    let mut original = Sandbox::create(&server(17), options, &places).unwrap();
    let url = original.start().unwrap().url("postgres");
    connect(&url)
        .batch_execute("create table t as select generate_series(1, 1000) as n")
        .unwrap();

    let mut copy = original.copy(&places).unwrap();
    assert!(original.pid().is_some(), "it ran before, so it runs after");
    assert_eq!(copy.pid(), None);
    let copied_url = copy.start().unwrap().url("postgres");
    let mut client = connect(&copied_url);
    assert_eq!(ask(&mut client, "show work_mem"), "7MB");
    client.batch_execute("delete from t").unwrap();
    drop(client);
    let mut client = connect(&original.endpoint().url("postgres"));
    assert_eq!(ask(&mut client, "select count(*)::text from t"), "1000");
    drop(client);

    // The copy needs nothing of the original.
    original.close().unwrap();
    copy.set(vec![("work_mem".to_owned(), "8MB".to_owned())])
        .unwrap();
    copy.restart().unwrap();
    let mut client = connect(&copy.endpoint().url("postgres"));
    assert_eq!(ask(&mut client, "show work_mem"), "8MB");
    drop(client);
    let root = copy.root().to_owned();
    drop(copy);
    assert!(!root.exists());
}
