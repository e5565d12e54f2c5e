//! `cargo xtask dist`: what users install, with checksums.
//!
//! ```text
//! program ─► tree (bin, share/man, share/…) ─► NAME.tar.gz
//!                                          ├─► .deb, .rpm   if it needs a C library
//!                                          └─► .oci.tar     if it is static
//! dependencies ─► .cdx.json (bill of materials)
//! all of them ─► SHA256SUMS
//! ```
//!
//! Packages hold the program for glibc: it is faster than the static one, which runs anywhere.
//!
//! `cargo xtask installers` adds the install script and the Homebrew formula for the archives of all processors.
//!
//! Two runs with one program give the same archive and the same Debian package: times are those of the commit, and
//! owners are root. A kind of package whose tool is not installed is left out, and named.

mod debian;
mod image;
mod installers;
mod red_hat;
mod steps;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use installers::installers;
use steps::{copy, remove, run, text, write};

/// Completion scripts: shell, and place below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/rehearse"),
    ("zsh", "share/zsh/vendor-completions/_rehearse"),
    ("fish", "share/fish/vendor_completions.d/rehearse.fish"),
];
/// Files of the repository that are installed with the program.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// First sentence of the description in every package.
const SUMMARY: &str = "Replay a PostgreSQL database's real traffic against a change";
const DESCRIPTION: [&str; 2] = [
    "Captures the traffic of a database, replays it against a change before it ships, reports",
    "what got slower or different and why, and proves the fix by replaying again.",
];

/// Options of the build: its inputs and its output.
#[derive(Debug, Default)]
struct Options {
    output: Option<PathBuf>,
    program: Option<PathBuf>,
    target: Option<String>,
}

/// A program that is laid out as it is installed.
#[derive(Debug)]
struct Release<'a> {
    root: &'a Path,
    output: &'a Path,
    /// Name of the laid out tree in `output`, and of all files without their endings.
    name: &'a str,
    version: &'a str,
    /// Processor as the target triple names it: `x86_64`, `aarch64`.
    architecture: &'a str,
    linkage: Linkage,
    /// Time of the commit, seconds since 1970.
    epoch: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linkage {
    /// Runs with any C library, and with none.
    Static,
    /// Needs the C library that it was linked with, or a later one.
    Dynamic,
}

/// Builds what users install. Options:
/// - `--target TRIPLE` builds for it, `x86_64-unknown-linux-musl` a static program;
/// - `--program FILE` takes a built program instead;
/// - `--output DIR` is where the files are written [default: `target/dist`].
///
/// # Errors
/// If a step fails, with its output.
pub fn dist(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = parse(arguments)?;
    let output = options.output.unwrap_or(root.join("target/dist"));
    let program = match options.program {
        Some(program) => program,
        None => build(root, options.target.as_deref())?,
    };
    let about = text(&run(Command::new(&program).arg("--version"))?);
    let version = about
        .lines()
        .next()
        .and_then(|line| line.rsplit(' ').next());
    let version = version.ok_or("the program prints no version")?;
    let target = built_for(&about)?;
    let name = format!("rehearse-{version}-{target}");
    let epoch = text(&run(Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root))?);
    remove(&output.join(&name))?;
    install(root, &program, &output.join(&name))?;
    let release = Release {
        root,
        output: &output,
        name: &name,
        version,
        architecture: target.split('-').next().unwrap_or_default(),
        linkage: linkage(&program)?,
        epoch: epoch.trim(),
    };
    let files = package(&release)?;
    println!("{}", output.display());
    print!("{}", steps::write_checksums(&output, &files)?);
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--target" => options.target = Some(value.clone()),
            "--program" => options.program = Some(PathBuf::from(value)),
            "--output" => options.output = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn build(root: &Path, target: Option<&str>) -> Result<PathBuf, String> {
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "-p", "rehearse"]);
    let mut built = root.join("target");
    if let Some(target) = target {
        build.args(["--target", target]);
        built.push(target);
    }
    run(build.current_dir(root))?;
    Ok(built.join("release/rehearse"))
}

/// Returns the target triple that `--version` prints.
fn built_for(about: &str) -> Result<&str, String> {
    about
        .lines()
        .find_map(|line| line.strip_prefix("built for "))
        .and_then(|rest| rest.split([' ', ',']).next())
        .ok_or("the program does not say what it was built for".to_owned())
}

fn linkage(program: &Path) -> Result<Linkage, String> {
    let headers = text(&run(Command::new("objdump").arg("-p").arg(program))?);
    Ok(match headers.contains(" NEEDED ") {
        true => Linkage::Dynamic,
        false => Linkage::Static,
    })
}

/// Lays out the program and its files below a prefix.
fn install(root: &Path, program: &Path, prefix: &Path) -> Result<(), String> {
    let installed = prefix.join("bin/rehearse");
    copy(program, &installed)?;
    run(Command::new("strip").arg(&installed))?;
    run(Command::new(program)
        .arg("man")
        .arg(prefix.join("share/man/man1")))?;
    for (shell, place) in COMPLETIONS {
        let script = run(Command::new(program).args(["completions", shell]))?;
        write(&prefix.join(place), &script.stdout)?;
    }
    for document in DOCUMENTS {
        let place = prefix.join("share/doc/rehearse").join(document);
        copy(&root.join(document), &place)?;
    }
    Ok(())
}

/// Builds each kind of package for this linkage whose tool is installed. Returns the names of the files.
fn package(release: &Release) -> Result<Vec<String>, String> {
    let mut files = vec![archive(release)?];
    let mut build = |tool: &str, kind: &str, build: &dyn Fn(&Release) -> Result<String, String>| {
        match Command::new(tool).arg("--version").output() {
            Ok(_) => files.push(build(release)?),
            Err(_) => println!("left out: {kind} ({tool} is not installed)"),
        }
        Ok::<(), String>(())
    };
    build("cargo-cyclonedx", "the bill of materials", &materials)?;
    match release.linkage {
        Linkage::Static => build("buildah", "the image", &image::build)?,
        Linkage::Dynamic => {
            build("dpkg-deb", "the Debian package", &debian::package)?;
            build("rpmbuild", "the RPM package", &red_hat::package)?;
        }
    }
    Ok(files)
}

fn archive(release: &Release) -> Result<String, String> {
    let archive = format!("{}.tar.gz", release.name);
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    tar.args([
        "--use-compress-program=gzip -9n",
        "-cf",
        &archive,
        release.name,
    ]);
    run(tar.current_dir(release.output))?;
    Ok(archive)
}

/// Lists all packages that the program is built from, as CycloneDX. The tool writes a file into each crate, so it
/// works on a copy of the commit.
fn materials(release: &Release) -> Result<String, String> {
    let sources = release.output.join("sources");
    remove(&sources)?;
    let mut worktree = Command::new("git");
    worktree.args(["clone", "--quiet", "--depth", "1", "--no-local", "."]);
    run(worktree.arg(&sources).current_dir(release.root))?;
    let crate_directory = sources.join("crates/rehearse");
    let mut list = Command::new("cargo");
    list.args([
        "cyclonedx",
        "--format",
        "json",
        "--override-filename",
        "bom",
    ]);
    run(list.current_dir(&crate_directory))?;
    let file = format!("{}.cdx.json", release.name);
    copy(
        &crate_directory.join("bom.json"),
        &release.output.join(&file),
    )?;
    remove(&sources)?;
    Ok(file)
}
