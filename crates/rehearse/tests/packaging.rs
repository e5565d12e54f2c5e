//! Manual pages and completion scripts that a package installs, Kubernetes manifests, and the check of a machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of the commands that the help lists.
fn commands() -> Vec<String> {
    let help = printed(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = listed.take_while(|line| !line.is_empty());
    let names = rows.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("share/man");
    printed(&["man", pages.to_str().unwrap()]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} lacks {command}");
        }
    }
    for command in &commands {
        let page = std::fs::read_to_string(pages.join(format!("rehearse-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    let into_file = rehearse(&["man", "/dev/null/man"]);
    assert_eq!(into_file.status.code(), Some(3), "{into_file:?}");
}

#[test]
fn doctor_says_what_is_missing_and_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("doctor")
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let tcpdump = lines.find(|line| line.contains("tcpdump is not found"));
    assert!(
        tcpdump.is_some_and(|line| line.starts_with("missing")),
        "{text}"
    );
    assert!(lines.next().unwrap().contains("Install"), "{text}");
}

#[test]
fn version_names_the_commit_and_the_system() {
    let text = printed(&["--version"]);
    assert!(
        text.contains("\ncommit ") && text.contains("\nbuilt for "),
        "{text}"
    );
    assert_eq!(printed(&["-V"]).lines().count(), 1);
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn files_below(directory: &Path) -> usize {
    let listed = succeeds(Command::new("find").arg(directory).args(["-type", "f"]));
    listed
        .lines()
        .filter(|file| !file.contains("/var/"))
        .count()
}

/// Packages are built from the program under test, and installed into empty directories.
#[test]
fn packages_are_installed_and_removed() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let packages = directory.path().join("dist");
    let mut dist = Command::new(env!("CARGO"));
    dist.args(["xtask", "dist", "--program"]);
    dist.args([env!("CARGO_BIN_EXE_rehearse"), "--output"]);
    succeeds(dist.arg(&packages));
    let check = ["--check", "--quiet", "SHA256SUMS"];
    succeeds(Command::new("sha256sum").args(check).current_dir(&packages));
    type Check = fn(&Path, &Path);
    let kinds: [(&str, Check); 3] = [
        ("dpkg-deb", debian_package),
        ("rpmbuild", red_hat_package),
        ("curl", install_script),
    ];
    for (tool, check) in kinds {
        match Command::new(tool).arg("--version").output() {
            Ok(_) => check(directory.path(), &packages),
            Err(_) => test_support::report_skipped(&format!("{tool} is not installed")),
        }
    }
}

fn with_ending(packages: &Path, ending: &str) -> PathBuf {
    let listed = succeeds(Command::new("ls").arg(packages));
    packages.join(listed.lines().find(|file| file.ends_with(ending)).unwrap())
}

/// Whether packages can be installed: that needs root.
fn is_root() -> bool {
    succeeds(Command::new("id").arg("-u")).trim() == "0"
}

fn debian_package(directory: &Path, packages: &Path) {
    let package = with_ending(packages, ".deb");
    let depends = succeeds(
        Command::new("dpkg-deb")
            .arg("-f")
            .arg(&package)
            .arg("Depends"),
    );
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");

    let root = directory.join("root");
    succeeds(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root));
    let version = succeeds(Command::new(root.join("usr/bin/rehearse")).arg("-V"));
    assert_eq!(version, printed(&["-V"]));
    for installed in [
        "share/man/man1/rehearse-replay.1.gz",
        "share/bash-completion/completions/rehearse",
        "share/zsh/vendor-completions/_rehearse",
        "share/fish/vendor_completions.d/rehearse.fish",
        "share/doc/rehearse/LICENSE-MIT",
    ] {
        assert!(root.join("usr").join(installed).is_file(), "{installed}");
    }
    let contained = files_below(&root);
    if !is_root() {
        return;
    }
    let root = directory.join("installed");
    std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    std::fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |arguments: &[&std::ffi::OsStr]| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--root")
            .arg(&root)
            .arg("--force-depends")
            .args(arguments);
        succeeds(&mut dpkg)
    };
    dpkg(&["--install".as_ref(), package.as_os_str()]);
    assert_eq!(files_below(&root), contained);
    dpkg(&["--purge".as_ref(), "rehearse".as_ref()]);
    assert_eq!(files_below(&root), 0);
}

fn red_hat_package(directory: &Path, packages: &Path) {
    let package = with_ending(packages, ".rpm");
    let listed = succeeds(Command::new("rpm").args(["-qpl"]).arg(&package));
    for installed in [
        "/usr/bin/rehearse",
        "/usr/share/man/man1/rehearse-replay.1.gz",
        "/usr/share/bash-completion/completions/rehearse",
        "/usr/share/zsh/site-functions/_rehearse",
    ] {
        assert!(listed.lines().any(|line| line == installed), "{listed}");
    }
    if !is_root() {
        return;
    }
    let root = directory.join("red-hat");
    std::fs::create_dir(&root).unwrap();
    let rpm = |action: &str, what: &Path| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&root).args(["--nodeps", action]);
        succeeds(rpm.arg(what))
    };
    rpm("-i", &package);
    let program = root.join("usr/bin/rehearse");
    assert_eq!(succeeds(Command::new(&program).arg("-V")), printed(&["-V"]));
    rpm("-e", Path::new("rehearse"));
    assert!(!program.exists() && !root.join("usr/share/doc/rehearse").exists());
}

/// Checks the install script on a directory that is laid out as a release.
fn install_script(directory: &Path, packages: &Path) {
    let archive = with_ending(packages, ".tar.gz");
    let built = archive.to_str().unwrap().strip_suffix(".tar.gz").unwrap();
    // Releases are static. The script looks at names only.
    let released = built.replace("-gnu", "-musl");
    let name = Path::new(&released).file_name().unwrap().to_str().unwrap();
    std::fs::rename(built, &released).unwrap();
    let version = printed(&["-V"]);
    let version = version.trim().rsplit(' ').next().unwrap();
    let release = directory.join(format!("download/v{version}"));
    std::fs::create_dir_all(&release).unwrap();
    let archive = release.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    succeeds(
        tar.arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(packages)
            .arg(name),
    );
    let mut installers = Command::new(env!("CARGO"));
    installers.args(["xtask", "installers"]);
    succeeds(installers.arg(&release).arg("owner/name"));

    let prefix = directory.join("prefix");
    let install = || {
        let mut script = Command::new("sh");
        script.arg(release.join("install.sh"));
        script.env("REHEARSE_PREFIX", &prefix);
        script.env(
            "REHEARSE_RELEASES",
            format!("file://{}", directory.display()),
        );
        script.output().unwrap()
    };
    let installed = install();
    let text = String::from_utf8_lossy(&installed.stdout);
    assert!(
        installed.status.success() && text.contains("next: rehearse doctor"),
        "{installed:?}"
    );
    assert_eq!(
        succeeds(Command::new(prefix.join("bin/rehearse")).arg("-V")),
        printed(&["-V"])
    );
    assert!(prefix.join("share/man/man1/rehearse-replay.1").is_file());

    std::fs::remove_dir_all(&prefix).unwrap();
    std::fs::write(&archive, "something else").unwrap();
    let refused = install();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("checksum"),
        "{refused:?}"
    );
    assert!(!prefix.exists());
}

/// Decodes a manifest with the types of the Kubernetes API. `directory` is that of the decoder.
fn decode_job(directory: &Path, arguments: &[&str]) -> Output {
    Command::new("go")
        .args(["run", "."])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

#[test]
fn kubernetes_jobs_have_the_fields_of_the_api_and_arguments_that_the_program_takes() {
    let is_required = std::env::var_os("REHEARSE_TEST_GO").is_some_and(|value| value == "1");
    if !is_required {
        return test_support::report_skipped("REHEARSE_TEST_GO is not set");
    }
    let kubernetes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    let decoder = kubernetes.join("validate");
    let values = [
        "workload=s3://loads/a.workload",
        "run=s3://loads/a.run",
        "target.url=postgres://target/shop",
    ];
    let chart = [&["../chart"], &values[..]].concat();
    for (arguments, pods) in [
        (vec!["../job.yaml"], 8),
        (chart.clone(), 4),
        ([&chart[..], &["shards=6", "store.secret="]].concat(), 6),
        (
            [&chart[..], &["resumeShard=2", "staging.claim=c"]].concat(),
            1,
        ),
        ([&chart[..], &["options=[--order, session]"]].concat(), 4),
    ] {
        let output = decode_job(&decoder, &arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        let job: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(job["pods"], pods, "{arguments:?}");
        let given = job["args"].as_array().unwrap().iter();
        // Paths of this machine in place of URLs: the program gets as far as the workload, which is not there.
        let given: Vec<&str> = given
            .map(|one| one.as_str().unwrap())
            .map(|one| one.strip_prefix("s3://").unwrap_or(one))
            .collect();
        let replay = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .args(&given)
            .env("JOB_COMPLETION_INDEX", "0")
            .output()
            .unwrap();
        let reason = String::from_utf8_lossy(&replay.stderr).into_owned();
        assert!(
            reason.contains(".workload does not exist"),
            "{given:?}: {reason}"
        );
    }
    let unknown = tempfile::tempdir().unwrap();
    let path = unknown.path().join("job.yaml");
    let job = std::fs::read_to_string(kubernetes.join("job.yaml")).unwrap();
    std::fs::write(&path, job.replace("completions:", "completion:")).unwrap();
    let output = decode_job(&decoder, &[path.to_str().unwrap()]);
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(reason.contains("unknown field"), "{reason}");
}
