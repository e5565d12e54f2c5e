//! Checks whether this host allows probes, and names the reason if it does not.

use super::error::ProbeError;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// First kernel with a ring buffer for programs, and with the capabilities: major and minor version. Distributions have added
/// them to earlier ones.
const KERNEL_MIN: (u32, u32) = (5, 8);
/// Inode number of the first namespace of processes (`PROC_PID_INIT_INO` in `include/linux/proc_ns.h`).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// Numbers of capabilities (`include/uapi/linux/capability.h`).
const SYS_ADMIN: u32 = 21;
const NEEDED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];

/// Checks what can be known before the first system call.
pub(super) fn check() -> Result<(), ProbeError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(ProbeError::NoCapabilities {
            missing: missing.join(" and "),
        });
    }
    if is_in_user_namespace(&fs::read_to_string("/proc/self/uid_map").unwrap_or_default()) {
        return Err(ProbeError::UserNamespace);
    }
    let namespace = fs::metadata("/proc/self/ns/pid").map(|file| file.ino());
    if namespace.is_ok_and(|number| number != FIRST_NAMESPACE) {
        return Err(ProbeError::OwnProcessNumbers);
    }
    Ok(())
}

/// Returns whether users are not all mapped to themselves, from the text of `uid_map` (user_namespaces(7)).
fn is_in_user_namespace(map: &str) -> bool {
    let numbers: Vec<&str> = map.split_whitespace().collect();
    !numbers.is_empty() && numbers != ["0", "0", "4294967295"]
}

/// Returns the error for a ring buffer that is refused, which is the first feature that old kernels lack.
pub(super) fn ring_refusal(source: io::Error) -> ProbeError {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim().to_owned();
    if version(&release).is_some_and(|version| version < KERNEL_MIN) {
        return ProbeError::OldKernel { release };
    }
    refusal("create the ring buffer of an eBPF program", source)
}

/// Returns the error for a probe that is refused.
pub(super) fn probe_refusal(source: io::Error) -> ProbeError {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_admin = effective(&status).is_none_or(|set| set >> SYS_ADMIN & 1 == 1);
    if source.kind() == io::ErrorKind::PermissionDenied && !is_admin {
        return ProbeError::NoCapabilities {
            missing: "CAP_SYS_ADMIN on this kernel, for probes in programs".to_owned(),
        };
    }
    refusal("attach a probe to the server", source)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let Some(set) = effective(status) else {
        return Vec::new();
    };
    let has = |number: u32| set >> number & 1 == 1;
    let missing = NEEDED
        .iter()
        .filter(|(number, _)| !has(*number) && !has(SYS_ADMIN));
    missing.map(|(_, name)| *name).collect()
}

fn effective(status: &str) -> Option<u64> {
    field(status, "CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Returns the error for a refused action, with the setting of the host that may be the cause.
pub(super) fn refusal(action: &'static str, source: io::Error) -> ProbeError {
    if source.kind() != io::ErrorKind::PermissionDenied {
        return ProbeError::Refused { action, source };
    }
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ProbeError::Forbidden {
        action,
        reason: prohibition(&lockdown, &status),
        source,
    }
}

fn prohibition(lockdown: &str, status: &str) -> String {
    if lockdown.contains("[confidentiality]") {
        return "the kernel's lockdown mode is `confidentiality`".to_owned();
    }
    if field(status, "Seccomp:").is_some_and(|mode| mode != "0") {
        return "a seccomp filter, as containers have it, restricts the system calls of this process".to_owned();
    }
    "a security module of the kernel may prevent it".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_that_are_missing_are_named() {
        let status = |set: u64| format!("Name:\tx\nCapEff:\t{set:016x}\n");
        assert_eq!(missing_capabilities(&status(0)), ["CAP_PERFMON", "CAP_BPF"]);
        assert_eq!(missing_capabilities(&status(1 << 38)), ["CAP_BPF"]);
        assert!(missing_capabilities(&status(3 << 38)).is_empty());
        assert!(missing_capabilities(&status(1 << 21)).is_empty());
    }

    #[test]
    fn user_namespace_is_recognised_by_its_map() {
        assert!(!is_in_user_namespace("         0          0 4294967295\n"));
        assert!(is_in_user_namespace("0 1000 1\n1 100000 65536\n"));
        assert!(!is_in_user_namespace(""));
    }

    #[test]
    fn version_is_read_from_a_release() {
        assert_eq!(version("5.4.0-150-generic"), Some((5, 4)));
        assert_eq!(version("6.1-rc1"), Some((6, 1)));
        assert_eq!(version(""), None);
    }

    #[test]
    fn prohibition_names_lockdown_before_seccomp() {
        let filtered = "Seccomp:\t2\n";
        assert!(prohibition("none integrity [confidentiality]\n", filtered).contains("lockdown"));
        assert!(prohibition("[none] integrity confidentiality\n", filtered).contains("seccomp"));
        assert!(prohibition("", "Seccomp:\t0\n").contains("security module"));
    }
}
