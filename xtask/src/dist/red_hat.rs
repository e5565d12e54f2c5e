//! The RPM package.

use std::process::Command;

use super::steps::{lay_out, remove, run, write};
use super::{DESCRIPTION, Release, SUMMARY};

/// Builds a package of what was installed. Returns its name.
pub(super) fn package(release: &Release) -> Result<String, String> {
    let Release {
        output,
        version,
        architecture,
        ..
    } = release;
    let work = output.join("rpm");
    let prefix = work.join("tree/usr");
    remove(&work)?;
    lay_out(release, &prefix)?;
    let description = DESCRIPTION.join("\n");
    // The program is already stripped, and the package names no build host.
    let specification = format!(
        "%global debug_package %{{nil}}\n%global __strip /bin/true\n%global _build_id_links none\n\
         Name: rehearse\nVersion: {version}\nRelease: 1\nSummary: {SUMMARY}\nLicense: Apache-2.0 OR MIT\n\
         %description\n{description}\n\
         %install\nmkdir -p %{{buildroot}}\ncp -r {tree}/. %{{buildroot}}/\n\
         cd %{{buildroot}}/usr/share\n\
         mkdir -p zsh/site-functions\nmv zsh/vendor-completions/_rehearse zsh/site-functions/\n\
         rmdir zsh/vendor-completions\n\
         %files\n/usr/bin/rehearse\n/usr/share/man/man1/*\n/usr/share/bash-completion/completions/rehearse\n\
         /usr/share/zsh/site-functions/_rehearse\n/usr/share/fish/vendor_completions.d/rehearse.fish\n\
         %dir /usr/share/doc/rehearse\n%doc /usr/share/doc/rehearse/*\n",
        tree = work.join("tree").display(),
    );
    let file = work.join("rehearse.spec");
    write(&file, specification.as_bytes())?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", architecture]);
    for (name, value) in [
        ("_topdir", work.join("work").display().to_string()),
        ("_rpmdir", work.join("built").display().to_string()),
        (
            "_rpmfilename",
            format!("rehearse-{version}-1.{architecture}.rpm"),
        ),
        ("_buildhost", "rehearse".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
    ] {
        build.args(["--define", &format!("{name} {value}")]);
    }
    run(build.arg(&file).env("SOURCE_DATE_EPOCH", release.epoch))?;
    let package = format!("rehearse-{version}-1.{architecture}.rpm");
    super::steps::copy(&work.join("built").join(&package), &output.join(&package))?;
    remove(&work)?;
    Ok(package)
}
