//! Snapshots of real servers: what was, is again, exactly.

mod support;

use sandbox::{
    Dirs, Error, Installation, Options, PgUpgradeCheck, Sandbox, check_upgrade_programs,
};
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

#[test]
fn pg_upgrade_of_a_copy_keeps_the_rows_and_its_check_names_what_cannot_be_upgraded() {
    let (_top, places) = places();
    let usual = Dirs::from_environment().unwrap();
    let is_complete = |one: &Installation| check_upgrade_programs(one, one).is_ok();
    let Some(complete) = sandbox::installed(&usual).into_iter().find(is_complete) else {
        eprintln!("skipped: no installation has pg_upgrade");
        return;
    };
    let options = Options {
        statement_statistics: true,
        ..Options::default()
    };
    let mut old = Sandbox::create(&complete, options, &places).unwrap();
    let url = old.start().unwrap().url("postgres");
    connect(&url)
        .batch_execute("create table t as select generate_series(1, 1000) as n")
        .unwrap();
    assert_eq!(
        old.check_upgrade(&complete, &places).unwrap(),
        PgUpgradeCheck::Accepted
    );
    let settings = vec![("work_mem".to_owned(), "9MB".to_owned())];
    let mut new = old.upgrade(&complete, settings, &places).unwrap();
    let mut client = connect(&new.start().unwrap().url("postgres"));
    assert_eq!(ask(&mut client, "select count(*)::text from t"), "1000");
    assert_eq!(ask(&mut client, "show work_mem"), "9MB");
    assert!(old.pid().is_some(), "it ran before, so it runs after");
    let mut client = connect(&old.endpoint().url("postgres"));
    assert_eq!(ask(&mut client, "select count(*)::text from t"), "1000");

    client
        .batch_execute("create table refused (procedure regproc)")
        .unwrap();
    let refused = old.check_upgrade(&complete, &places).unwrap();
    let PgUpgradeCheck::Refused(messages) = refused else {
        panic!("accepted");
    };
    let text = messages.join("\n");
    assert!(text.contains("public.refused.procedure"), "{text}");
    assert!(!text.contains(" ok\n"), "{text}");
    drop((old, new));
    let left = std::fs::read_dir(places.state.join("sandboxes"))
        .unwrap()
        .flatten();
    assert_eq!(left.filter(|one| one.path().is_dir()).count(), 0);
}

#[test]
fn installation_without_pg_upgrade_is_refused_with_the_missing_programs() {
    let directory = tempfile::tempdir().unwrap();
    let installation = |major: u16| Installation {
        bin_dir: directory.path().join(major.to_string()),
        major,
        version: format!("{major}.1"),
        source: sandbox::Source::Given,
    };
    let error = check_upgrade_programs(&installation(15), &installation(18)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("15/pg_controldata"), "{text}");
    assert!(text.contains("18/pg_upgrade"), "{text}");
    assert!(!text.contains("15/pg_upgrade"), "{text}");
    assert!(text.contains("--method dump"), "{text}");
}
