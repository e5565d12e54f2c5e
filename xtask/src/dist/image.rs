//! The image for containers: the static program, certificates, and nothing else.

use std::path::Path;
use std::process::Command;

use super::Release;
use super::steps::{copy, remove, run, write};

/// Certificates with which `sslmode=verify-full` and `sslrootcert=system` check servers: Debian's and Fedora's place.
const CERTIFICATES: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// Builds an OCI archive. Returns its name.
pub(super) fn build(release: &Release) -> Result<String, String> {
    let work = release.output.join("image");
    let context = work.join("context");
    remove(&work)?;
    let installed = release.output.join(release.name);
    copy(&installed.join("bin/rehearse"), &context.join("rehearse"))?;
    let certificates = CERTIFICATES
        .iter()
        .map(Path::new)
        .find(|path| path.is_file());
    let certificates =
        certificates.ok_or("no certificates were found; install the package ca-certificates")?;
    copy(certificates, &context.join("ca-certificates.crt"))?;
    write(&context.join("work/.keep"), b"")?;
    let file = format!("{}.oci.tar", release.name);
    let tag = format!("rehearse:{}", release.version);
    let architecture = match release.architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut build = buildah(&work);
    build.args([
        "build",
        "--quiet",
        "--isolation",
        "chroot",
        "--arch",
        architecture,
    ]);
    build.args(["--timestamp", release.epoch, "--tag", &tag, "--file"]);
    build.arg(release.root.join("packaging/Containerfile"));
    run(build.arg(&context))?;
    let archive = release.output.join(&file);
    if archive.exists() {
        std::fs::remove_file(&archive)
            .map_err(|error| super::steps::failed("remove", &archive, &error))?;
    }
    let mut push = buildah(&work);
    push.args(["push", "--quiet", &tag]);
    run(push.arg(format!("oci-archive:{}:{tag}", archive.display())))?;
    remove(&work)?;
    Ok(file)
}

/// Storage of its own: no other image on the machine is touched, and none is left.
fn buildah(work: &Path) -> Command {
    let mut buildah = Command::new("buildah");
    buildah.args(["--storage-driver", "vfs", "--root"]);
    buildah
        .arg(work.join("storage"))
        .arg("--runroot")
        .arg(work.join("running"));
    buildah
}
