//! `cargo xtask installers`: the install script and the Homebrew formula of a release.

use std::fs;
use std::path::Path;

use super::steps::{failed, write, write_checksums};

/// Target of the archives that installers fetch, after the processor's name.
const STATIC: &str = "-unknown-linux-musl.tar.gz";

/// Writes SHA256SUMS of all packages in a directory, `install.sh` for its archives, and `rehearse.rb` if there is an
/// archive for each processor.
///
/// # Errors
/// If there is no archive of a static program, or archives of several versions.
pub fn installers(root: &Path, arguments: &[String]) -> Result<(), String> {
    let [directory, repository] = arguments else {
        return Err("usage: cargo xtask installers DIRECTORY OWNER/REPOSITORY".to_owned());
    };
    let directory = Path::new(directory);
    let files = packages(directory)?;
    let mut versions = files.iter().filter_map(|file| {
        let (version, _processor) = file
            .strip_prefix("rehearse-")?
            .strip_suffix(STATIC)?
            .rsplit_once('-')?;
        Some(version)
    });
    let version = versions.next().ok_or(format!(
        "{} has no rehearse-*{STATIC}: cargo xtask dist --target x86_64-unknown-linux-musl builds it",
        directory.display()
    ))?;
    if let Some(other) = versions.find(|other| *other != version) {
        return Err(format!(
            "{} has archives of {version} and of {other}",
            directory.display()
        ));
    }
    let sums = write_checksums(directory, &files)?;
    let sum = |processor: &str| {
        let name = format!("  rehearse-{version}-{processor}{STATIC}");
        sums.lines()
            .find_map(|line| line.strip_suffix(&name))
            .map(str::to_owned)
    };
    let fill = |template: &str| {
        let path = root.join("packaging").join(template);
        let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
        Ok::<_, String>(
            text.replace("@REPOSITORY@", repository)
                .replace("@VERSION@", version),
        )
    };
    write(
        &directory.join("install.sh"),
        fill("install.sh")?.as_bytes(),
    )?;
    let (Some(intel), Some(arm)) = (sum("x86_64"), sum("aarch64")) else {
        println!("left out: rehearse.rb (it needs the archives of x86_64 and of aarch64)");
        return Ok(());
    };
    let formula = fill("rehearse.rb")?
        .replace("@SHA256_X86_64@", &intel)
        .replace("@SHA256_AARCH64@", &arm);
    write(&directory.join("rehearse.rb"), formula.as_bytes())
}

/// Returns the names of the files that users fetch, sorted.
fn packages(directory: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(directory).map_err(|error| failed("read", directory, &error))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<String> = names
        .filter(|name| {
            [".tar.gz", ".deb", ".rpm", ".oci.tar", ".cdx.json"]
                .iter()
                .any(|end| name.ends_with(end))
        })
        .collect();
    files.sort();
    Ok(files)
}
