//! Names the binaries whose functions have no names in a profile, and the packages that have their debug symbols.
//!
//! Sources: `dpkg-query(1)` (`--search`, with lines on diversions), Debian's automatic debug packages
//! (<https://wiki.debian.org/AutomaticDebugPackages>: `PACKAGE-dbgsym`), `rpm(8)` (`-qf`), `dnf debuginfo-install`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Share of all samples from which a binary without symbols is reported.
const SHARE_MIN: f64 = 0.01;

/// Binary with samples in functions without a name.
#[derive(Debug, PartialEq, Eq)]
struct UnnamedBinary {
    path: String,
    samples: u64,
    /// Command that installs its debug symbols; `None` if no package has the file.
    install: Option<String>,
}

/// Notes the binaries whose functions have no names, and how to get their debug symbols.
pub(crate) fn note_unnamed(samples: &BTreeMap<String, u64>, all: u64, notes: &mut Vec<String>) {
    let note = |one: UnnamedBinary| {
        let remedy = match one.install {
            None if is_compiled_code(&one.path) => "it is code that JIT compiled, which jit_profiling_support = on at the start of the server names".to_owned(),
            Some(command) => format!(
                "`{command}` installs its debug symbols (they can be in a repository of their own)"
            ),
            None => "no package has it, so build it with debug symbols (-g) and do not strip it"
                .to_owned(),
        };
        let share = 100.0 * one.samples as f64 / all.max(1) as f64;
        format!(
            "{share:.0} % of the samples have functions without names in {}: {remedy}",
            one.path
        )
    };
    notes.extend(find_unnamed(samples, all).into_iter().map(note));
}

/// Whether a path is the map of symbols that `perf` expects for code that a process compiled itself.
fn is_compiled_code(path: &str) -> bool {
    path.starts_with("/tmp/perf-") && path.ends_with(".map")
}

/// Returns the binaries with samples in functions without a name, the most frequent first. `samples` has the number of
/// samples by path, and `all` is the number of all samples.
fn find_unnamed(samples: &BTreeMap<String, u64>, all: u64) -> Vec<UnnamedBinary> {
    let least = all as f64 * SHARE_MIN;
    let mut found: Vec<UnnamedBinary> = samples
        .iter()
        .filter(|(_, samples)| **samples as f64 >= least)
        .map(|(path, samples)| UnnamedBinary {
            path: path.clone(),
            samples: *samples,
            install: find_package(path),
        })
        .collect();
    found.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.path.cmp(&b.path)));
    found
}

/// Returns the command that installs the debug symbols of a file; `None` if no package has the file.
fn find_package(path: &str) -> Option<String> {
    let of_debian = search_paths(path)
        .find_map(|path| debian_package(&output("dpkg-query", &["--search", &path])?));
    if let Some(package) = of_debian {
        return Some(format!("apt install {}", debug_package(&package)));
    }
    let format = ["-q", "--queryformat", "%{NAME}\n", "-f", path];
    let lines = output("rpm", &format)?;
    let package = rpm_package(&lines)?;
    Some(format!("dnf debuginfo-install {package}"))
}

/// Returns the names under which a package can list a file: `/usr/lib` can be a link of `/lib`, or the other way round.
fn search_paths(path: &str) -> impl Iterator<Item = String> {
    let other = match path.strip_prefix("/usr/") {
        Some(rest) => format!("/{rest}"),
        None => format!("/usr{path}"),
    };
    [path.to_owned(), other].into_iter()
}

/// Returns what a program prints; `None` if it is not installed or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// Returns the package of the lines of `dpkg-query --search`: `libc6:amd64: /lib/…`, or several packages with commas.
/// Lines on diversions name no owner.
fn debian_package(lines: &str) -> Option<String> {
    let is_owner =
        |line: &&str| !line.starts_with("diversion by ") && !line.starts_with("local diversion ");
    let line = lines.lines().find(is_owner)?;
    let (packages, _) = line.split_once(": ")?;
    let package = packages.split(", ").next()?;
    (!package.is_empty()).then(|| package.to_owned())
}

/// Returns the name of the package with the debug symbols of another.
fn debug_package(package: &str) -> String {
    let (name, architecture) = match package.split_once(':') {
        Some((name, architecture)) => (name, Some(architecture)),
        None => (package, None),
    };
    // Debuggers need the symbols of the C library, so it has a package of its own.
    let debug = match name {
        "libc6" => "libc6-dbg".to_owned(),
        name => format!("{name}-dbgsym"),
    };
    match architecture.filter(|one| *one != debian_architecture(std::env::consts::ARCH)) {
        Some(foreign) => format!("{debug}:{foreign}"),
        None => debug,
    }
}

/// Returns Debian's name of this program's architecture.
fn debian_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        "x86" => "i386",
        same => same,
    }
}

/// Returns the first package of the lines of `rpm -qf`.
fn rpm_package(lines: &str) -> Option<&str> {
    let mut lines = lines.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_is_found_among_diversions_and_several_packages() {
        let diverted = "diversion by dash from: /bin/sh\ndiversion by dash to: /bin/sh.distrib\ndash: /bin/sh\n";
        assert_eq!(debian_package(diverted).as_deref(), Some("dash"));
        let local = "local diversion from: /x\nlocal diversion to: /y\n";
        assert_eq!(debian_package(local), None);
        let architectures = "libc6:i386, libc6:amd64: /lib/libc.so.6\n";
        assert_eq!(debian_package(architectures).as_deref(), Some("libc6:i386"));
        let server = "postgresql-15: /usr/lib/postgresql/15/bin/postgres\n";
        assert_eq!(debian_package(server).as_deref(), Some("postgresql-15"));
        assert_eq!(debian_package(""), None);
    }

    #[test]
    fn debug_package_has_the_architecture_of_another_only() {
        let own = debian_architecture(std::env::consts::ARCH);
        assert_eq!(debug_package("postgresql-15"), "postgresql-15-dbgsym");
        assert_eq!(debug_package(&format!("libc6:{own}")), "libc6-dbg");
        assert_eq!(debug_package(&format!("libssl3:{own}")), "libssl3-dbgsym");
        assert_eq!(debug_package("libssl3:mips"), "libssl3-dbgsym:mips");
    }

    #[test]
    fn rpm_package_is_the_first_name() {
        assert_eq!(
            rpm_package("postgresql16-server\n"),
            Some("postgresql16-server")
        );
        assert_eq!(rpm_package("glibc\nglibc\n"), Some("glibc"));
        assert_eq!(rpm_package("file /x is not owned by any package\n"), None);
    }

    #[test]
    fn rare_binaries_are_left_out_and_the_most_frequent_is_first() {
        let samples = [("/no/such/a", 5), ("/no/such/b", 50), ("/no/such/c", 1)];
        let samples = samples.map(|(path, samples)| (path.to_owned(), samples));
        let found = find_unnamed(&BTreeMap::from(samples), 400);
        let names: Vec<_> = found.iter().map(|one| (&*one.path, one.samples)).collect();
        assert_eq!(names, [("/no/such/b", 50), ("/no/such/a", 5)]);
        assert_eq!(found[0].install, None);
    }
}
