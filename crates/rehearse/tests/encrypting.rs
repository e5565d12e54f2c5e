//! Encrypted workloads: files and messages of the program. If age is installed, it must be able
//! to decrypt them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use workload::{Event, Keyring, WorkloadReader, parse_identities};

const LOG: &str = "\
2026-03-01 09:30:00.000 UTC [7] LOG:  connection authorized: user=app database=shop application_name=web
2026-03-01 09:30:01.000 UTC [7] LOG:  statement: SELECT * FROM customer WHERE name = 'Sekretova'
2026-03-01 09:30:02.000 UTC [8] LOG:  connection authorized: user=app database=shop application_name=web
2026-03-01 09:30:03.000 UTC [8] LOG:  statement: UPDATE customer SET name = 'Sekretova'
2026-03-01 09:30:30.000 UTC [7] LOG:  disconnection: session time: 0:00:30.000 user=app database=shop host=[local]
";

fn rehearse(arguments: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments).env_remove("REHEARSE_KEY_FILE");
    if let Some(key) = key {
        command.env("REHEARSE_KEY_FILE", key);
    }
    command.output().unwrap()
}

fn done(arguments: &[&str], key: Option<&str>) -> String {
    let output = rehearse(arguments, key);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = rehearse(arguments, None);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    said
}

fn events(path: &str, keyring: &Keyring) -> Vec<Event> {
    let reader = WorkloadReader::open_with(Path::new(path), keyring).unwrap();
    reader
        .events()
        .unwrap()
        .map(|event| event.unwrap().0)
        .collect()
}

fn files(path: &str) -> Vec<std::path::PathBuf> {
    let listing = std::fs::read_dir(path).unwrap();
    listing.map(|entry| entry.unwrap().path()).collect()
}

/// Directory with a log, two key files, and an encrypted and a plain workload of the log.
struct Fixture {
    directory: TempDir,
    log: String,
    /// Key file to whose public key the workload is encrypted.
    key: String,
    public: String,
    other_key: String,
    plain: String,
    sealed: String,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (log, key, other_key) = (path("a.log"), path("key"), path("other"));
        let (plain, sealed) = (path("a.workload"), path("b.workload"));
        std::fs::write(&log, LOG).unwrap();
        let public = done(&["key", &key], None).trim().to_owned();
        done(&["key", &other_key], None);
        done(&["capture", "log", &log, "-o", &plain], None);
        done(
            &["capture", "log", &log, "-o", &sealed, "--encrypt", &public],
            None,
        );
        Fixture {
            directory,
            log,
            key,
            public,
            other_key,
            plain,
            sealed,
        }
    }

    /// Returns the path of a file in the directory.
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn keyring(&self) -> Keyring {
        let key = std::fs::read_to_string(&self.key).unwrap();
        Keyring::new(parse_identities(&key).unwrap())
    }

    /// Returns the message for a capture that is encrypted to this, and refused.
    fn refused_capture(&self, encrypt_to: &str) -> String {
        refused(&[
            "capture",
            "log",
            &self.log,
            "-o",
            &self.path("x.workload"),
            "--encrypt",
            encrypt_to,
        ])
    }
}

#[test]
fn an_encrypted_workload_is_read_with_its_key_alone() {
    let fixture = Fixture::new();
    assert_key_file_is_private_and_kept(&fixture.key);
    assert_every_file_is_encrypted(&fixture);
    assert_reading_without_the_key_is_refused(&fixture);
    assert_encrypting_to_no_key_is_refused(&fixture);
    assert_secret_key_in_the_wrong_place_is_not_shown(&fixture);
    assert_inspection_is_that_of_the_plain_workload(&fixture);
    assert_derived_workloads_are_encrypted_and_readable(&fixture);
    age_opens(&fixture.sealed, &fixture.key);
}

fn assert_key_file_is_private_and_kept(key: &str) {
    assert_eq!(
        std::fs::metadata(key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(refused(&["key", key]).contains("give the name of a new file"));
}

/// Checks that each file but the manifest is encrypted, and that the manifest names the key and not the log.
fn assert_every_file_is_encrypted(fixture: &Fixture) {
    for file in files(&fixture.sealed) {
        let content = std::fs::read(&file).unwrap();
        match file.ends_with("manifest.json") {
            true => {
                let text = String::from_utf8(content).unwrap();
                assert!(
                    text.contains(&fixture.public) && !text.contains("a.log"),
                    "{text}"
                );
            }
            false => assert!(
                content.starts_with(b"age-encryption.org/v1\n"),
                "{}",
                file.display()
            ),
        }
    }
}

fn assert_reading_without_the_key_is_refused(fixture: &Fixture) {
    let said = refused(&["inspect", &fixture.sealed]);
    let sentence = format!(
        "is encrypted to {}, and no key was given; give the file with its secret key as --key FILE",
        fixture.public
    );
    assert!(said.contains(&sentence), "{said}");
    for (key, sentence) in [
        (&fixture.other_key, "and the key given is that of age1"),
        (&fixture.log, "line 1 is no key"),
        (&fixture.path("none"), "cannot be read"),
    ] {
        let said = refused(&["inspect", &fixture.sealed, "--key", key]);
        assert!(said.contains(sentence), "{said}");
    }
}

fn assert_encrypting_to_no_key_is_refused(fixture: &Fixture) {
    for given in ["age1xyz", &fixture.path("none"), &fixture.log] {
        let said = fixture.refused_capture(given);
        assert!(said.contains("key"), "{said}");
    }
}

/// Checks that no message shows a secret key, if one is given instead of something else.
fn assert_secret_key_in_the_wrong_place_is_not_shown(fixture: &Fixture) {
    let secret = std::fs::read_to_string(&fixture.key).unwrap();
    let secret = secret
        .lines()
        .find(|line| line.starts_with("AGE-"))
        .unwrap();
    let cut = &secret[..secret.len() - 3];
    for (given, instead) in [
        (
            ["--encrypt", secret],
            &*format!("give its public key, {}", fixture.public),
        ),
        (["--encrypt", cut], "give a public key, age1…"),
        (["--encrypt", &secret.to_lowercase()], "give its public key"),
        (["--key", secret], "give the name of the file"),
    ] {
        let said = match given[0] {
            "--key" => refused(&["inspect", &fixture.sealed, "--key", given[1]]),
            _ => fixture.refused_capture(given[1]),
        };
        assert!(said.contains(instead), "{said}");
        assert!(!said.to_uppercase().contains(&cut[18..]), "{said}");
    }
}

/// Returns what `inspect` prints as JSON, without the workload's name and identifier.
fn inspected(arguments: &[&str], key: Option<&str>) -> Value {
    let arguments = [&["inspect", "--json"], arguments].concat();
    let mut view: Value = serde_json::from_str(&done(&arguments, key)).unwrap();
    view.as_object_mut()
        .unwrap()
        .retain(|name, _| name != "workload" && name != "id");
    view
}

fn assert_inspection_is_that_of_the_plain_workload(fixture: &Fixture) {
    let Fixture {
        key, plain, sealed, ..
    } = fixture;
    let of_plain = inspected(&[plain], None);
    assert_eq!(
        inspected(&[sealed, "--verify", "--key", key], None),
        of_plain
    );
    assert_eq!(inspected(&[sealed], Some(key)), of_plain);
    // A key that is named for all does not matter to what is not encrypted.
    assert_eq!(inspected(&[plain], Some(&fixture.path("none"))), of_plain);
}

/// Checks the events of the workload, of a slice that either key reads, and of a masked copy of the slice.
fn assert_derived_workloads_are_encrypted_and_readable(fixture: &Fixture) {
    let (key, other_key) = (&fixture.key, &fixture.other_key);
    let (part, masked) = (fixture.path("c.workload"), fixture.path("d.workload"));
    let keyring = fixture.keyring();
    assert_eq!(
        events(&fixture.sealed, &keyring),
        events(&fixture.plain, &Keyring::default())
    );
    done(
        &[
            "slice",
            &fixture.sealed,
            "-o",
            &part,
            "--kind",
            "select",
            "--encrypt",
            key,
            "--encrypt",
            other_key,
            "--key",
            key,
        ],
        None,
    );
    assert_eq!(events(&part, &keyring).len(), 3);
    assert!(files(&part).iter().all(|file| file.ends_with("manifest.json") || file.to_string_lossy().ends_with(".age")));
    done(
        &[
            "mask",
            "workload",
            &part,
            "-o",
            &masked,
            "--mask",
            "random",
            "--encrypt",
            &fixture.public,
        ],
        Some(other_key),
    );
    let sql = format!("{:?}", events(&masked, &keyring));
    assert!(
        sql.contains("customer") && !sql.contains("Sekretova"),
        "{sql}"
    );
}

/// Decrypts every file with age, and compares it with what this program reads.
fn age_opens(workload: &str, key: &str) {
    let age = |arguments: &[&str]| Command::new("age").args(arguments).output();
    if age(&["--version"]).is_err() {
        // Not on every machine; `.ci/run` installs it.
        test_support::report_skipped("the program age is not installed");
        return;
    }
    let mut opened = 0;
    for file in files(workload)
        .iter()
        .filter(|file| !file.ends_with("manifest.json"))
    {
        let output = age(&["-d", "-i", key, &file.display().to_string()]).unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        match file.to_string_lossy().ends_with(".parquet.age") {
            true => assert!(output.stdout.starts_with(b"PAR1") && output.stdout.ends_with(b"PAR1")),
            false => assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok()),
        }
        opened += 1;
    }
    assert!(opened >= 5, "{opened}");
}
