//! Reads libpq's service file: parameters by service name. Source: PostgreSQL documentation, 34.17.
//!
//! LDAP look-ups are not supported and refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::TargetError;
use super::parameters::Settings;
use super::plain_file;

/// Returns the parameters of a service. `named` is the file that the user names. After it, the user's default
/// file and the system's are searched.
pub(super) fn settings(
    service: &str,
    named: Option<&str>,
    environment: &impl Fn(&str) -> Option<String>,
) -> Result<Settings, TargetError> {
    let failed = |reason: String| TargetError::Service {
        name: service.to_owned(),
        reason,
    };
    let own = named
        .map(PathBuf::from)
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".pg_service.conf")));
    let system = environment("PGSYSCONFDIR").map(|dir| PathBuf::from(dir).join("pg_service.conf"));
    let mut looked_in = Vec::new();
    for (path, must_be) in [(own, named.is_some()), (system, false)] {
        let Some(path) = path else { continue };
        match plain_file::check(&path).and_then(|()| fs::read_to_string(&path)) {
            Ok(text) => {
                if let Some(settings) = find(&text, service, &path)? {
                    return Ok(settings);
                }
                looked_in.push(path.display().to_string());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be => {}
            Err(error) => {
                return Err(failed(format!(
                    "{} cannot be read: {error}",
                    path.display()
                )));
            }
        }
    }
    Err(failed(if looked_in.is_empty() {
        "there is no service file; name one in PGSERVICEFILE, or make ~/.pg_service.conf".to_owned()
    } else {
        format!("it is not in {}", looked_in.join(" or "))
    }))
}

fn find(text: &str, service: &str, path: &Path) -> Result<Option<Settings>, TargetError> {
    let mut settings: Option<Settings> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let place = format!(" ({} line {})", path.display(), number + 1);
        let failed = |reason: &str| TargetError::Service {
            name: service.to_owned(),
            reason: format!("{reason}{place}"),
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            if settings.is_some() {
                break;
            }
            if section.strip_suffix(']') == Some(service) {
                settings = Some(Settings::default());
            }
            continue;
        }
        let Some(settings) = &mut settings else {
            continue;
        };
        if line.starts_with("ldap") {
            return Err(failed(
                "it asks an LDAP server, which is not done; write its parameters out",
            ));
        }
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| failed("a line lacks its '='"))?;
        if name == "service" || name == "servicefile" {
            return Err(failed("a service cannot name another"));
        }
        settings.set(name, value.to_owned(), &place)?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_its_section_alone() {
        let text = "# ours\n[a]\nhost=no\n\n[b]\nhost=db\n# port=1\nport=6000\n[c]\nport=7000\n";
        let find = |text: &str, name: &str| find(text, name, Path::new("f"));
        let mut found = find(text, "b").unwrap().unwrap();
        assert_eq!(found.take("host").as_deref(), Some("db"));
        assert_eq!(found.take("port").as_deref(), Some("6000"));
        assert!(find(text, "d").unwrap().is_none());
        for (text, says) in [
            ("[b]\nhost", "f line 2"),
            ("[b]\nfrobnicate=1", "f line 2"),
            ("[b]\nldap://x/y", "LDAP"),
            ("[b]\nservice=c", "another"),
        ] {
            let error = find(text, "b").unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_service_that_is_nowhere_is_refused_with_where_it_was_looked_for() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("services");
        fs::write(&file, "[other]\nhost=x\n").unwrap();
        let name = file.to_str().unwrap();
        let error = settings("mine", Some(name), &|_| None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("mine") && error.contains(name), "{error}");
        let error = settings("mine", Some("/nowhere/at/all"), &|_| None).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
        let error = settings("mine", None, &|_| None).unwrap_err();
        assert!(error.to_string().contains("PGSERVICEFILE"), "{error}");
        // The system's file is read if the user's does not have the service.
        fs::write(directory.path().join("pg_service.conf"), "[mine]\nhost=y\n").unwrap();
        let dir = directory.path().to_str().unwrap().to_owned();
        let environment = |name: &str| (name == "PGSYSCONFDIR").then(|| dir.clone());
        let mut found = settings("mine", Some(name), &environment).unwrap();
        assert_eq!(found.take("host").as_deref(), Some("y"));
    }
}
