//! The Debian package.

use std::path::Path;
use std::process::Command;

use super::steps::{lay_out, remove, run, text, write};
use super::{DESCRIPTION, Release, SUMMARY};

/// Builds a package of what was installed. Returns its name.
pub(super) fn package(release: &Release) -> Result<String, String> {
    let Release {
        output, version, ..
    } = release;
    let tree = output.join("deb");
    let prefix = tree.join("usr");
    lay_out(release, &prefix)?;
    let architecture = match release.architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("Debian's name of {other} is not known")),
    };
    let size = text(&run(Command::new("du").arg("-sk").arg(&prefix))?);
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let libc = glibc_version(&prefix.join("bin/rehearse"))?;
    let [first, second] = DESCRIPTION;
    let control = format!(
        "Package: rehearse\nVersion: {version}\nArchitecture: {architecture}\nInstalled-Size: {size}\n\
         Depends: libc6 (>= {libc}), libgcc-s1\nSuggests: linux-perf, tcpdump, postgresql-client\n\
         Section: database\nPriority: optional\nMaintainer: Rehearse maintainers\n\
         Description: {SUMMARY}\n {first}\n {second}\n"
    );
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    let file = format!("rehearse_{version}_{architecture}.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build", "deb", &file]);
    run(build
        .env("SOURCE_DATE_EPOCH", release.epoch)
        .current_dir(output))?;
    remove(&tree)?;
    Ok(file)
}

/// Returns the newest version of the C library whose symbols a program uses.
fn glibc_version(program: &Path) -> Result<String, String> {
    let symbols = text(&run(Command::new("objdump").arg("-T").arg(program))?);
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = rest[..end.unwrap_or(rest.len())].split('.');
        let major: u32 = numbers.next()?.parse().ok()?;
        Some((major, numbers.next()?.parse::<u32>().ok()?))
    });
    let (major, minor) = versions
        .max()
        .ok_or("the program uses no versioned symbol of the C library")?;
    Ok(format!("{major}.{minor}"))
}
