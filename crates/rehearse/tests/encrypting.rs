//! Encrypted workloads: files and messages of the program. If age is installed, it must be able
//! to decrypt them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

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

#[test]
fn an_encrypted_workload_is_read_with_its_key_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (log, key, other) = (path("a.log"), path("key"), path("other"));
    let (plain, sealed, part, masked) = (
        path("a.workload"),
        path("b.workload"),
        path("c.workload"),
        path("d.workload"),
    );
    std::fs::write(&log, LOG).unwrap();
    let public = done(&["key", &key], None).trim().to_owned();
    done(&["key", &other], None);
    assert_eq!(
        std::fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(refused(&["key", &key]).contains("give the name of a new file"));

    done(&["capture", "log", &log, "-o", &plain], None);
    done(
        &["capture", "log", &log, "-o", &sealed, "--encrypt", &public],
        None,
    );
    for file in files(&sealed) {
        let content = std::fs::read(&file).unwrap();
        match file.ends_with("manifest.json") {
            true => {
                let text = String::from_utf8(content).unwrap();
                assert!(text.contains(&public) && !text.contains("a.log"), "{text}");
            }
            false => assert!(
                content.starts_with(b"age-encryption.org/v1\n"),
                "{}",
                file.display()
            ),
        }
    }

    let said = refused(&["inspect", &sealed]);
    let sentence = format!(
        "is encrypted to {public}, and no key was given; give the file with its secret key as --key FILE"
    );
    assert!(said.contains(&sentence), "{said}");
    let said = refused(&["inspect", &sealed, "--key", &other]);
    assert!(said.contains("and the key given is that of age1"), "{said}");
    let said = refused(&["inspect", &sealed, "--key", &log]);
    assert!(said.contains("line 1 is no key"), "{said}");
    let said = refused(&["inspect", &sealed, "--key", &path("none")]);
    assert!(said.contains("cannot be read"), "{said}");
    for given in ["age1xyz", &path("none"), &log] {
        let said = refused(&[
            "capture",
            "log",
            &log,
            "-o",
            &path("x.workload"),
            "--encrypt",
            given,
        ]);
        assert!(said.contains("key"), "{said}");
    }

    // A secret key where something else belongs is shown nowhere.
    let secret = std::fs::read_to_string(&key).unwrap();
    let secret = secret
        .lines()
        .find(|line| line.starts_with("AGE-"))
        .unwrap();
    let cut = &secret[..secret.len() - 3];
    let out = path("x.workload");
    for (given, instead) in [
        (
            ["--encrypt", secret],
            &*format!("give its public key, {public}"),
        ),
        (["--encrypt", cut], "give a public key, age1…"),
        (["--encrypt", &secret.to_lowercase()], "give its public key"),
        (["--key", secret], "give the name of the file"),
    ] {
        let said = match given[0] {
            "--key" => refused(&["inspect", &sealed, "--key", given[1]]),
            _ => refused(&["capture", "log", &log, "-o", &out, given[0], given[1]]),
        };
        assert!(said.contains(instead), "{said}");
        assert!(!said.to_uppercase().contains(&cut[18..]), "{said}");
    }

    let json = |arguments: &[&str], key| {
        let mut view: serde_json::Value = serde_json::from_str(&done(arguments, key)).unwrap();
        view.as_object_mut()
            .unwrap()
            .retain(|name, _| name != "workload" && name != "id");
        view
    };
    let of_plain = json(&["inspect", &plain, "--json"], None);
    assert_eq!(
        json(
            &["inspect", &sealed, "--json", "--verify", "--key", &key],
            None
        ),
        of_plain
    );
    assert_eq!(json(&["inspect", &sealed, "--json"], Some(&key)), of_plain);
    // A key that is named for all does not matter to what is not encrypted.
    assert_eq!(
        json(&["inspect", &plain, "--json"], Some(&path("none"))),
        of_plain
    );

    let identities = parse_identities(&std::fs::read_to_string(&key).unwrap()).unwrap();
    let keyring = Keyring::new(identities);
    assert_eq!(
        events(&sealed, &keyring),
        events(&plain, &Keyring::default())
    );
    done(
        &[
            "slice",
            &sealed,
            "-o",
            &part,
            "--kind",
            "select",
            "--encrypt",
            &key,
            "--encrypt",
            &other,
            "--key",
            &key,
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
            &public,
        ],
        Some(&other),
    );
    let sql = format!("{:?}", events(&masked, &keyring));
    assert!(
        sql.contains("customer") && !sql.contains("Sekretova"),
        "{sql}"
    );
    age_opens(&sealed, &key);
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
            false => assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok()),
        }
        opened += 1;
    }
    assert!(opened >= 5, "{opened}");
}
