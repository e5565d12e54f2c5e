//! Evidence archive of a run: it contains everything that it lists, and no secret.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::observed::{holds_to_schema, json};
use super::{rehearse, run, server, succeeds};

const SECRET: &str = "hush-hush";

/// Statements that put secrets and values into a server.
const SECRETS: &str = "
    CREATE ROLE hushed LOGIN PASSWORD 'hush-hush';
    ALTER SYSTEM SET primary_conninfo = 'host=a password=hush-hush';
    ALTER SYSTEM SET archive_command = 'TOKEN=hush-hush cp';
    ALTER DATABASE postgres SET app.token = 'hush-hush';
    SELECT pg_reload_conf();
    CREATE TABLE secrets (name text);
    INSERT INTO secrets SELECT 'hush-hush' FROM generate_series(1, 1000);
    CREATE SUBSCRIPTION hushed CONNECTION 'host=a password=hush-hush' PUBLICATION p WITH (connect = false);
    GRANT SELECT ON secrets TO hushed;
    ANALYZE secrets";

fn workload(directory: &Path) -> String {
    let log = directory.join("b.log").display().to_string();
    let lines = [
        "connection authorized: user=postgres database=postgres",
        "statement: SELECT count(*) FROM secrets WHERE name = 'hush-hush'",
        "statement: SELECT 'hush-hush'::int",
        "execute <unnamed>: SELECT count(*) FROM secrets WHERE name <> 'hush-hush'",
    ];
    let lines = (10..).zip(lines);
    let lines =
        lines.map(|(at, line)| format!("2026-03-01 09:00:00.{at:03} UTC [7] LOG:  {line}\n"));
    std::fs::write(&log, lines.collect::<String>()).unwrap();
    let workload = directory.join("b.workload").display().to_string();
    succeeds(&[
        "capture", "log", &log, "--prefix", "%m [%p] ", "-o", &workload,
    ]);
    workload
}

/// Returns the files of an archive by name.
fn unpacked(bundle: &str) -> BTreeMap<String, Vec<u8>> {
    let file = std::fs::File::open(bundle).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(file).unwrap());
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let name = entry.path().unwrap().display().to_string();
        let name = name.strip_prefix("evidence/").unwrap().to_owned();
        assert!(files.insert(name, content).is_none());
    }
    files
}

fn has_secret(files: &BTreeMap<String, Vec<u8>>) -> Vec<&str> {
    let has = |content: &[u8]| {
        content
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    };
    let with = files.iter().filter(|(_, content)| has(content));
    with.map(|(name, _)| name.as_str()).collect()
}

/// Checks that every listed item is present, or has a reason why it is missing.
fn is_whole(files: &BTreeMap<String, Vec<u8>>) -> Value {
    let view = json(std::str::from_utf8(&files["evidence.json"]).unwrap());
    holds_to_schema("export-evidence", &view);
    let mut listed = vec!["evidence.json"];
    for one in view["artefacts"].as_array().unwrap() {
        let Some(file) = one["file"].as_str() else {
            assert!(!one["missing"].as_str().unwrap().is_empty(), "{one}");
            continue;
        };
        assert_eq!(one["missing"], Value::Null);
        let content = &files[file];
        assert_eq!(one["bytes"], content.len(), "{file}");
        let digits = Sha256::digest(content)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>();
        assert_eq!(one["sha256"], digits, "{file}");
        listed.push(file);
    }
    for name in files.keys() {
        let is_listed = listed.contains(&name.as_str());
        assert!(
            is_listed || name.starts_with("run.run/"),
            "{name} is not listed"
        );
    }
    view
}

fn missing<'v>(view: &'v Value, name: &str) -> &'v Value {
    let all = view["artefacts"].as_array().unwrap();
    &all.iter()
        .find(|one| one["name"] == name)
        .unwrap_or_else(|| panic!("no {name}"))["missing"]
}

#[test]
fn a_bundle_has_all_that_it_lists_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (_sandbox, endpoint) = server(17);
    run(&endpoint, SECRETS);
    let workload = workload(directory);
    let url = endpoint.url("postgres");
    let at = |name: &str| directory.join(name).display().to_string();
    let made = at("b.run");
    let replay = [
        "replay", &workload, "--target", &url, "-o", &made, "--speed", "max",
    ];
    succeeds(&[&replay[..], &["--observe", "--explain"]].concat());

    succeeds(&["export-evidence", &made]);
    let files = unpacked(&at("b.evidence.tar.zst"));
    assert_eq!(has_secret(&files), [""; 0]);
    let view = is_whole(&files);
    assert!(view["got"].as_u64().unwrap() >= 80, "{}", view["got"]);
    assert_eq!(missing(&view, "server/build"), &Value::Null);
    assert_eq!(missing(&view, "run/plan-steps"), &Value::Null);
    let why = missing(&view, "run/stacks").as_str().unwrap();
    assert!(why.contains("--profile"), "{why}");
    // What is only listed is what would be packed.
    let list = json(&succeeds(&[
        "export-evidence",
        &made,
        "--dry-run",
        "--json",
    ]));
    assert_eq!(list["artefacts"], view["artefacts"]);

    // Values come where they are asked for: the search above would have found them.
    let open = at("open.tar.zst");
    succeeds(&[
        "export-evidence",
        &made,
        "-o",
        &open,
        "--show-literals",
        "--with-run",
    ]);
    let open = unpacked(&open);
    assert!(has_secret(&open).contains(&"run/executions.csv"));
    assert!(open.contains_key("run.run/manifest.json"));
    is_whole(&open);

    // Nothing is written over.
    let again = rehearse(&["export-evidence", &made]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");

    // A role without privileges gets fewer items, with reasons.
    let plain = url.replace("postgres@", "hushed:hush-hush@");
    assert_ne!(plain, url);
    let less = at("less.run");
    let replay = [
        "replay", &workload, "--target", &plain, "-o", &less, "--speed", "max",
    ];
    succeeds(&[&replay[..], &["--as-user", "hushed"]].concat());
    let less = json(&succeeds(&[
        "export-evidence",
        &less,
        "--dry-run",
        "--json",
    ]));
    let why = missing(&less, "server/build").as_str().unwrap();
    assert!(why.contains("permission denied"), "{why}");
    assert_eq!(missing(&less, "server/version"), &Value::Null);
}
