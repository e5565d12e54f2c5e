//! `cargo xtask dist`: an archive and, on Debian, a package of the program with its manual pages and completions.
//!
//! ```text
//! program ─► tree (bin, share/man, share/…) ─► NAME.tar.gz
//!                                          └─► NAME.deb ─► SHA256SUMS of both
//! ```
//!
//! Two runs with one program give the same bytes: times are those of the commit, and owners are root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Completion scripts: shell, and place below the prefix.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/rehearse"),
    ("zsh", "share/zsh/vendor-completions/_rehearse"),
    ("fish", "share/fish/vendor_completions.d/rehearse.fish"),
];
/// Files of the repository that are installed with the program.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Builds what users install. Options: `--program FILE` takes a built program instead of building a release;
/// `--output DIR` is where the files are written [default: `target/dist`].
///
/// # Errors
/// If a step fails, with its output.
pub fn dist(root: &Path, arguments: &[String]) -> Result<(), String> {
    let mut output = root.join("target/dist");
    let mut program = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--program" => program = Some(PathBuf::from(value)),
            "--output" => output = PathBuf::from(value),
            other => return Err(format!("unknown option {other}")),
        }
    }
    let program = match program {
        Some(program) => program,
        None => {
            let mut build = Command::new("cargo");
            build.args(["build", "--release", "--locked", "-p", "rehearse"]);
            run(build.current_dir(root))?;
            root.join("target/release/rehearse")
        }
    };
    let version = text(&run(Command::new(&program).arg("-V"))?);
    let version = version
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    let name = format!("rehearse-{version}-{}", std::env::consts::ARCH);
    let tree = output.join(&name);
    remove(&tree)?;
    install(root, &program, &tree)?;
    let epoch = text(&run(Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root))?);
    let archive = format!("{name}.tar.gz");
    pack(&output, &name, &archive, epoch.trim())?;
    let mut files = vec![archive];
    if Command::new("dpkg-deb").arg("--version").output().is_ok() {
        files.push(debian_package(&output, &tree, &version, epoch.trim())?);
    }
    let sums = run(Command::new("sha256sum").args(&files).current_dir(&output))?;
    write(&output.join("SHA256SUMS"), &sums.stdout)?;
    println!("{}", output.display());
    print!("{}", text(&sums));
    Ok(())
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

fn pack(output: &Path, name: &str, archive: &str, epoch: &str) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{epoch}"));
    tar.args(["--use-compress-program=gzip -9n", "-cf", archive, name]);
    run(tar.current_dir(output)).map(drop)
}

/// Builds a package of what was installed. Returns its name.
fn debian_package(
    output: &Path,
    installed: &Path,
    version: &str,
    epoch: &str,
) -> Result<String, String> {
    let tree = output.join("deb");
    let prefix = tree.join("usr");
    remove(&tree)?;
    fs::create_dir_all(&tree).map_err(|error| failed("create", &tree, &error))?;
    run(Command::new("cp").arg("-r").arg(installed).arg(&prefix))?;
    let mut compress = Command::new("gzip");
    compress.args(["-9nr"]).arg(prefix.join("share/man"));
    run(&mut compress)?;
    let architecture = text(&run(Command::new("dpkg").arg("--print-architecture"))?);
    let architecture = architecture.trim();
    let size = text(&run(Command::new("du").arg("-sk").arg(&prefix))?);
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let libc = glibc_version(&prefix.join("bin/rehearse"))?;
    let control = format!(
        "Package: rehearse\nVersion: {version}\nArchitecture: {architecture}\nInstalled-Size: {size}\n\
         Depends: libc6 (>= {libc}), libgcc-s1\nSuggests: linux-perf, tcpdump, postgresql-client\n\
         Section: database\nPriority: optional\nMaintainer: Rehearse maintainers\n\
         Description: replay a PostgreSQL database's real traffic against a change\n \
         Captures the traffic of a database, replays it against a change before it ships, reports\n \
         what got slower or different and why, and proves the fix by replaying again.\n"
    );
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    let file = format!("rehearse_{version}_{architecture}.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build", "deb", &file]);
    run(build.env("SOURCE_DATE_EPOCH", epoch).current_dir(output))?;
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

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| failed("write", path, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent)
        .and_then(|()| fs::copy(from, to).map(drop))
        .map_err(|error| failed("copy", from, &error))
}

fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", directory, &error))
        }
        _ => Ok(()),
    }
}
