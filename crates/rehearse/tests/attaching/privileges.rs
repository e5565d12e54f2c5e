//! Privileges of a capture that attaches: those that it needs, those that each process keeps, and the user that it becomes.

use super::*;
use std::os::unix::process::CommandExt;

/// Copies the program to a place where every user can run it.
fn program_for_all(directory: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = directory.join("rehearse");
    std::fs::copy(env!("CARGO_BIN_EXE_rehearse"), &program).unwrap();
    for path in [directory, &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    // A child of another thread that has not yet called exec may have it open for writing.
    let is_busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
    while Command::new(&program)
        .arg("--version")
        .output()
        .is_err_and(|error| is_busy(&error))
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    program
}

#[test]
fn user_without_privileges_gets_one_clear_sentence_and_nothing_is_written() {
    if !is_root() {
        return test_support::report_skipped("only root can become another user");
    }
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let program = program_for_all(directory.path());
    let output = directory.path().join("written");
    std::fs::create_dir(&output).unwrap();
    std::os::unix::fs::chown(&output, Some(65_534), Some(65_534)).unwrap();
    let refused = Command::new(program)
        .args(["capture", "attach", "-o", "a.workload", "--port"])
        .arg(endpoint.port.to_string())
        .current_dir(&output)
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("run the command as root"), "{message}");
    assert_eq!(std::fs::read_dir(&output).unwrap().count(), 0);
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// Returns a line of a process's status, such as its capabilities.
fn status_of(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default()
        .trim_start_matches(':')
        .trim()
        .to_owned()
}

#[test]
fn decoding_process_has_no_privileges_and_is_the_user_of_sudo() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(directory.path(), Some(65_534), Some(65_534)).unwrap_or_default();
    let workload = directory.path().join("a.workload");
    let mut command = command(&endpoint, &workload, "");
    if is_root() {
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    }
    let Some(attach) = CaptureAttach::start(&mut command) else {
        return;
    };
    let pid = attach.child.id();
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status_of(pid, set), "0000000000000000", "{set}");
    }
    assert_eq!(status_of(pid, "NoNewPrivs"), "1");
    if is_root() {
        assert_eq!(status_of(pid, "Uid"), "65534\t65534\t65534\t65534");
        assert_eq!(status_of(pid, "Groups"), "65534");
    }
    let (code, account) = attach.interrupt();
    assert_eq!(code, Some(0), "{account}");
    assert!(workload.exists());
}

/// User without files on any system (`nobody` on most).
const USER: u32 = 65_534;

#[test]
fn capture_of_root_becomes_the_owner_of_the_directory_or_the_user_that_is_named() {
    if !is_root() {
        return test_support::report_skipped("only root can become another user");
    }
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(directory.path(), Some(USER), Some(USER)).unwrap();
    let workload = directory.path().join("a.workload");
    let mut of_owner = command(&endpoint, &workload, "");
    of_owner.env_remove("SUDO_UID");
    let Some(attach) = CaptureAttach::start(&mut of_owner) else {
        return;
    };
    let pid = attach.child.id();
    assert_eq!(status_of(pid, "Uid"), "65534\t65534\t65534\t65534");
    // The prober keeps what it needs: CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_PERFMON and CAP_BPF. Some kernels require
    // CAP_SYS_ADMIN for probes.
    let prober = prober_of(pid);
    let kept: u64 = 1 << 2 | 1 << 19 | 1 << 38 | 1 << 39;
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        let found = u64::from_str_radix(&status_of(prober, set), 16).unwrap();
        assert_eq!(found & !(1 << 21), kept, "{set}");
    }
    assert_eq!(status_of(prober, "NoNewPrivs"), "1");
    let (code, account) = attach.interrupt();
    assert_eq!(code, Some(0), "{account}");

    let refused = |user: &str| {
        let output = command(&endpoint, &directory.path().join("b.workload"), "")
            .args(["--user", user])
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        message
    };
    assert!(refused("root").contains("there is no such user, or it is root"));
    let mut of_option = command(&endpoint, &directory.path().join("c.workload"), "");
    of_option.args(["--user", "nobody"]).env("SUDO_UID", "1");
    let attach = CaptureAttach::start(&mut of_option).unwrap();
    let nobody = sandbox::user_and_group("nobody").unwrap().0.to_string();
    let of_process = status_of(attach.child.id(), "Uid");
    assert!(of_process.starts_with(&nobody), "{of_process}");
    let _ = attach.interrupt();
}
