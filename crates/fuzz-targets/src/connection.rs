//! Connection strings, service files and password files.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use connect::{Target, TargetError, hide_password};

/// A password that no message may hold.
const CANARY: &str = "Kz7canaryQ";

/// Checks a connection string. A service file with the service `s` and a password file follow NULs.
pub fn check(data: &[u8]) {
    let all = crate::text(data);
    if all.contains(CANARY) {
        return;
    }
    let mut parts = all.splitn(3, '\0');
    let given = parts.next().unwrap_or("");
    check_hidden(given);
    check_parsed(given);
    if let Some(service) = parts.next() {
        let directory = crate::scratch_directory();
        check_service(directory.path(), service);
        if let Some(passwords) = parts.next() {
            check_passwords(directory.path(), passwords);
        }
    }
}

fn parse(given: &str) -> Result<Target, TargetError> {
    Target::parse(given, |_| None)
}

/// Messages hold no password, whatever stands around it.
fn check_hidden(given: &str) {
    for planted in [
        format!("{given} password={CANARY}"),
        format!("password='{CANARY}' {given}"),
        format!("postgres://u:{CANARY}@{given}"),
        format!("postgresql://u:{CANARY}@h/d?{given}"),
        format!("postgres://{given}?password={CANARY}"),
        format!("host={given} passfile=x password = '{CANARY}"),
    ] {
        let hidden = hide_password(&planted);
        assert!(!hidden.contains(CANARY), "{planted:?}: {hidden:?}");
        match parse(&planted) {
            // Without its quotes it may be a part of a host.
            Ok(target) if !planted.contains("://") => {
                assert!(!target.address().contains(CANARY), "{planted:?}");
            }
            Ok(_) => {}
            Err(error) => {
                let message = error.to_string();
                assert!(!message.contains(CANARY), "{planted:?}: {message}");
            }
        }
    }
}

/// A target that is written again from its parameters is the same, as pairs and as a URL.
fn check_parsed(given: &str) {
    let Ok(target) = parse(given) else {
        return;
    };
    assert!(!target.servers.is_empty(), "{given:?}");
    assert_eq!(parse(given).as_ref(), Ok(&target), "{given:?}");
    if let Ok(again) = parse(&pairs_of(&target)) {
        let fields = |target: &Target| {
            let texts = [
                target.user.clone(),
                target.database.clone(),
                target.password.clone(),
                target.application.clone(),
                target.options.clone(),
            ];
            (texts, target.connect_timeout)
        };
        assert_eq!(fields(&again), fields(&target), "{given:?}");
    } else {
        panic!("{:?} of {given:?} is not parsed", pairs_of(&target));
    }
    let options = target.start_up_options();
    assert_eq!(options, target.options.unwrap_or_default());
}

fn pairs_of(target: &Target) -> String {
    let mut pairs = format!("connect_timeout={}", target.connect_timeout.as_secs());
    let values = [
        ("user", &target.user),
        ("dbname", &target.database),
        ("password", &target.password),
        ("application_name", &target.application),
        ("options", &target.options),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            let value = value.replace('\\', "\\\\").replace('\'', "\\'");
            pairs.push_str(&format!(" {name}='{value}'"));
        }
    }
    pairs
}

/// A section is the same, whatever sections follow it.
fn check_service(directory: &Path, text: &str) {
    let path = directory.join("service");
    let read = |text: &str| {
        fs::write(&path, text).expect("a scratch file");
        let file = path.to_str().expect("a plain name").to_owned();
        Target::parse("service=s", |name| {
            (name == "PGSERVICEFILE").then(|| file.clone())
        })
    };
    let alone = read(text);
    if let Ok(target) = &alone {
        let longer = format!("# first\n\n{text}\n[other]\nnonsense\n");
        assert_eq!(read(&longer).as_ref(), Ok(target), "{text:?}");
        assert!(text.contains("[s]"), "{text:?}");
    }
    let planted = format!("[s]\npassword={CANARY}\n{text}");
    if let Err(error) = read(&planted) {
        assert!(!error.to_string().contains(CANARY), "{planted:?}: {error}");
    }
}

/// The first line that matches gives the password, and a file that others read gives none.
fn check_passwords(directory: &Path, text: &str) {
    let path = directory.join("passwords");
    let find = |text: &str, mode: u32| {
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&path);
        std::io::Write::write_all(&mut file.expect("a scratch file"), text.as_bytes())
            .expect("a scratch file");
        let given = format!("host=h port=6000 passfile={}", path.display());
        let target = parse(&given).expect("a target");
        target.password_for(&target.servers[0], "u", "d")
    };
    let password = find(text, 0o600);
    let first = format!("h:6000:d:u:{CANARY}\n{text}");
    assert_eq!(find(&first, 0o600).as_deref(), Some(CANARY), "{text:?}");
    assert_eq!(find(&first, 0o640), None);
    let last = format!("{text}\n*:*:*:*:{CANARY}");
    let expected = password.as_deref().unwrap_or(CANARY);
    assert_eq!(find(&last, 0o600).as_deref(), Some(expected), "{text:?}");
}
