//! Commands that the user gave, run by the shell.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use connect::{
    AuthMethod, ChannelBindingMode, Server, SessionAttributes, TlsVersions, TrustedRoots,
};
use replay::{Host, Target};

use super::printing_command::read;
use super::process_group::{CommandEnd, run_group};
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;
use crate::proof::hide_secrets;
use crate::running_commands::{is_users, left_running};

/// Largest number of lines of a failed command's messages in an error.
const LINES_MAX: usize = 5;

/// Time that a command has to clean up after SIGTERM.
const CLEAN_UP_TIME: Duration = Duration::from_secs(2);

/// Runs a command by the shell, with libpq's variables set to the target, until its end or a stop request, which ends its process
/// group. `option` is the one it was given with.
///
/// No variable of libpq is inherited: a service (`PGSERVICE`) and `PGHOSTADDR` would take precedence over the target's
/// host. Source: PostgreSQL's manual, "Connection Service File" and "Environment Variables" of libpq.
///
/// # Errors
/// If the target has several servers and the user gave the command. If the command fails, with the last lines that it
/// printed. If a stop is requested.
pub fn run_stoppable_command(
    command: &str,
    target: &Target,
    option: &str,
    interrupt: &Interrupt,
) -> Result<(), ExperimentError> {
    refuse_several_servers(target, option)?;
    let failed = || ExperimentError::file("run a shell for the command of", Path::new(option));
    // A file and not a pipe, which a started server could keep open.
    let mut messages = tempfile::tempfile().map_err(failed())?;
    let mut shell = shell(command, Some(target));
    shell
        .stdout(Stdio::null())
        .stderr(messages.try_clone().map_err(failed())?);
    match run_group(
        (&mut shell, option),
        interrupt,
        Duration::MAX,
        CLEAN_UP_TIME,
    )
    .map_err(failed())?
    {
        CommandEnd::Exited(status) => {
            successful(status, &shown(&read(&mut messages), Some(target)), option)
        }
        CommandEnd::AskedTerminal => Err(ExperimentError::Failed(asked_terminal(option))),
        CommandEnd::Stopped | CommandEnd::TimeLimit => Err(ExperimentError::Failed(format!(
            "the command of {option} was ended, since a stop was requested{}",
            left_running(option)
        ))),
    }
}

/// Describes a command that waited for the terminal.
pub(super) fn asked_terminal(option: &str) -> String {
    format!(
        "the command of {option} asked for input from the terminal, which it does not have, and was ended; \
         give passwords in a password file (PGPASSFILE), and let it ask nothing"
    )
}

fn refuse_several_servers(target: &Target, option: &str) -> Result<(), ExperimentError> {
    match is_users(option) && target.servers.len() > 1 {
        true => Err(ExperimentError::Usage(format!(
            "the command of {option} may change another server than the one that is replayed on, since the target names several: {}; name one",
            target.address()
        ))),
        false => Ok(()),
    }
}

fn successful(status: ExitStatus, printed: &str, option: &str) -> Result<(), ExperimentError> {
    match status.success() {
        true => Ok(()),
        false => Err(ExperimentError::Failed(format!(
            "the command of {option} failed ({status}): {printed}"
        ))),
    }
}

/// Returns a shell that executes the command, with libpq's variables set to the target, or without them.
pub(super) fn shell(command: &str, target: Option<&Target>) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_libpq(name)) {
        shell.env_remove(name);
    }
    let variables = target.map(|target| [server_variables(target), security_variables(target)]);
    let known = variables.into_iter().flatten().flatten();
    shell.envs(known.filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Returns the last lines of a command's messages, without the password of a server and others that are recognised.
pub(super) fn shown(messages: &str, server: Option<&Target>) -> String {
    let password = server.and_then(|server| server.password.as_deref());
    let known = password.filter(|password| !password.is_empty());
    let text = known.map_or(messages.to_owned(), |known| messages.replace(known, "…"));
    let lines: Vec<String> = text.lines().map(hide_in_message).collect();
    last_lines(&lines.join("\n"))
}

/// Hides secrets in a line of messages. The reason of libpq that the password is missing looks like one.
fn hide_in_message(line: &str) -> String {
    const MISSING: &str = "fe_sendauth: no password supplied";
    match line.strip_suffix(MISSING) {
        Some(before) => format!("{}{MISSING}", hide_secrets(before)),
        None => hide_secrets(line),
    }
}

/// Returns the last lines of a command's messages. The number of ignored errors, which `pg_restore` prints last, is
/// no reason.
fn last_lines(printed: &str) -> String {
    let lines = printed.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    match lines.len().saturating_sub(LINES_MAX) {
        _ if lines.is_empty() => "it printed no message".to_owned(),
        0 => lines.join("\n"),
        left_out => format!(
            "{left_out} lines, and then: {}",
            lines[left_out..].join("\n")
        ),
    }
}

/// Whether a variable is one of libpq. `PGDATA` is one of the server, and those with `PG_` are of other programs.
fn is_of_libpq(name: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(b"PG");
    rest.is_some_and(|rest| rest != b"DATA" && rest.first().is_some_and(u8::is_ascii_uppercase))
}

/// Returns libpq's variables for the servers, the choice of one, and the session.
fn server_variables(target: &Target) -> Vec<(&'static str, Option<OsString>)> {
    let host = |server: &Server| match &server.host {
        Some(Host::Tcp(name)) => OsString::from(name),
        Some(Host::Unix(directory)) => OsString::from(directory),
        Some(Host::Abstract(name)) => OsString::from(format!("@{name}")),
        None => OsString::new(),
    };
    let address = |server: &Server| match server.address {
        Some(address) => OsString::from(address.to_string()),
        None => OsString::new(),
    };
    let port = |server: &Server| OsString::from(server.port.to_string());
    let list = |one: &dyn Fn(&Server) -> OsString| {
        let all: Vec<OsString> = target.servers.iter().map(one).collect();
        let is_any = all.iter().any(|one| !one.is_empty());
        is_any.then(|| all.join(OsStr::new(",")))
    };
    let session = match target.session {
        SessionAttributes::Any => None,
        SessionAttributes::ReadWrite => Some("read-write".into()),
        SessionAttributes::ReadOnly => Some("read-only".into()),
        SessionAttributes::Primary => Some("primary".into()),
        SessionAttributes::Standby => Some("standby".into()),
        SessionAttributes::PreferStandby => Some("prefer-standby".into()),
    };
    let text = |text: &Option<String>| text.as_ref().map(OsString::from);
    let seconds = target.connect_timeout.as_secs();
    vec![
        ("PGHOST", list(&host)),
        ("PGHOSTADDR", list(&address)),
        ("PGPORT", list(&port)),
        ("PGTARGETSESSIONATTRS", session),
        (
            "PGLOADBALANCEHOSTS",
            target.in_random_order.then(|| "random".into()),
        ),
        ("PGUSER", text(&target.user)),
        ("PGDATABASE", text(&target.database)),
        ("PGPASSWORD", text(&target.password)),
        ("PGCONNECT_TIMEOUT", Some(seconds.to_string().into())),
        ("PGCLIENTENCODING", text(&target.encoding)),
        ("PGAPPNAME", text(&target.application)),
    ]
}

/// Returns libpq's variables for TLS, authentication, the password file and the options of the server. Source: PostgreSQL's manual,
/// "Environment Variables" of libpq.
fn security_variables(target: &Target) -> Vec<(&'static str, Option<OsString>)> {
    let security = &target.security;
    let path = |path: Option<&Path>| path.map(OsString::from);
    let certificate = security.certificate.as_ref();
    let roots = match &security.roots {
        TrustedRoots::System => Some("system".into()),
        TrustedRoots::File(file) => Some(file.into()),
        TrustedRoots::Unknown => None,
    };
    let methods = security.methods.as_ref().map(|methods| {
        let name = |method: &AuthMethod| match method {
            AuthMethod::Other => "gss",
            known => known.name(),
        };
        let names: Vec<&str> = methods.iter().map(name).collect();
        OsString::from(names.join(","))
    });
    let binding = match security.binding {
        ChannelBindingMode::Disable => Some("disable".into()),
        ChannelBindingMode::Prefer => None,
        ChannelBindingMode::Require => Some("require".into()),
    };
    let (least, latest) = match security.versions {
        TlsVersions::Tls12 => (None, Some("TLSv1.2".into())),
        TlsVersions::Tls13 => (Some("TLSv1.3".into()), None),
        TlsVersions::All => (None, None),
    };
    vec![
        ("PGREQUIREAUTH", methods),
        ("PGCHANNELBINDING", binding),
        ("PGSSLMINPROTOCOLVERSION", least),
        ("PGSSLMAXPROTOCOLVERSION", latest),
        ("PGSSLSNI", (!security.tell_name).then(|| "0".into())),
        ("PGSSLMODE", Some(security.mode.name().into())),
        ("PGSSLROOTCERT", roots),
        (
            "PGSSLCERT",
            path(certificate.map(|(file, _)| file.as_path())),
        ),
        ("PGSSLKEY", path(certificate.map(|(_, key)| key.as_path()))),
        ("PGSSLCRL", path(security.revoked.as_deref())),
        // libpq before 17 refuses the variable's other value.
        ("PGSSLNEGOTIATION", security.direct.then(|| "direct".into())),
        ("PGPASSFILE", path(target.password_file.path())),
        ("PGOPTIONS", target.options.as_ref().map(OsString::from)),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::*;

    fn run(command: &str, target: &Target, option: &str) -> Result<(), ExperimentError> {
        run_stoppable_command(command, target, option, &Interrupt::default())
    }

    #[test]
    fn command_is_given_the_tls_options_and_the_password_file_of_the_url() {
        let url = "postgres://u:p@h:1/d?sslmode=verify-full&sslrootcert=/r.crt&sslcert=/c.crt&sslkey=/c.key&passfile=/pass&options=-c%20jit%3Doff";
        let target = Target::parse(url, |_| None).unwrap();
        let command = "test \"$PGHOST:$PGPORT/$PGDATABASE $PGUSER $PGPASSWORD $PGSSLMODE $PGSSLROOTCERT $PGSSLCERT $PGSSLKEY $PGPASSFILE $PGOPTIONS\" = \
            'h:1/d u p verify-full /r.crt /c.crt /c.key /pass -c jit=off'";
        run(command, &target, "--restore").unwrap();
    }

    #[test]
    fn command_is_given_all_servers_and_the_choice_of_one() {
        let url = "postgres://u@a:1,b:2/d?hostaddr=127.0.0.1,127.0.0.2&target_session_attrs=standby\
            &load_balance_hosts=random&require_auth=scram-sha-256&channel_binding=require&sslmode=require\
            &ssl_min_protocol_version=TLSv1.3&connect_timeout=7";
        let target = Target::parse(url, |_| None).unwrap();
        let command = "test \"$PGHOST $PGHOSTADDR $PGPORT $PGTARGETSESSIONATTRS $PGLOADBALANCEHOSTS $PGREQUIREAUTH $PGCHANNELBINDING $PGSSLMINPROTOCOLVERSION $PGCONNECT_TIMEOUT\" = \
            'a,b 127.0.0.1,127.0.0.2 1,2 standby random scram-sha-256 require TLSv1.3 7'";
        run(command, &target, "the dump").unwrap();
        let refused = run("true", &target, "--restore").unwrap_err();
        assert!(refused.to_string().contains("names several"), "{refused}");
    }

    #[test]
    fn only_variables_of_libpq_are_withheld_from_a_command() {
        for name in [
            "PGSERVICE",
            "PGSERVICEFILE",
            "PGHOSTADDR",
            "PGSYSCONFDIR",
            "PGTZ",
        ] {
            assert!(is_of_libpq(OsStr::new(name)), "{name}");
        }
        for name in ["PGDATA", "PG_COLOR", "PG", "PATH", "MYPGHOST"] {
            assert!(!is_of_libpq(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn failed_command_is_reported_with_its_last_lines() {
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let command = "for line in 1 2 3 4 5 6 7; do echo line $line >&2; done; exit 1";
        let failed = run(command, &target, "--restore").unwrap_err();
        let text = failed.to_string();
        assert!(
            text.contains("2 lines, and then: line 3\nline 4") && text.ends_with("line 7"),
            "{text}"
        );
        let silent = run("exit 3", &target, "--restore").unwrap_err();
        assert!(silent.to_string().ends_with("it printed no message"));
    }

    #[test]
    fn failed_command_is_reported_without_passwords() {
        let target = Target::parse("postgres://u:geheim@h/d", |_| None).unwrap();
        let command = "echo 'psql: error: fe_sendauth: no password supplied' >&2; echo geheim of postgres://u:other@h/d >&2; exit 3";
        let failed = run(command, &target, "--restore").unwrap_err().to_string();
        assert!(
            failed.contains("no password supplied\n… of postgres://"),
            "{failed}"
        );
        assert!(
            !failed.contains("geheim") && !failed.contains("other"),
            "{failed}"
        );
    }

    #[test]
    fn command_that_waits_for_the_terminal_is_ended_and_named() {
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        // The system sends this signal to the group of a program that reads from a terminal of another group.
        let command = "kill -TTIN 0; sleep 600";
        let interrupt = Interrupt::default();
        let ended = run_stoppable_command(command, &target, "--restore", &interrupt);
        let text = ended.unwrap_err().to_string();
        assert!(text.contains("asked for input from the terminal"), "{text}");
    }

    #[test]
    fn command_that_waits_for_the_terminal_can_clean_up() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cleaned");
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let command = format!(
            "trap 'echo > {}; exit 1' TERM; kill -TTIN 0; sleep 600",
            file.display()
        );
        run(&command, &target, "--restore").unwrap_err();
        assert!(file.exists());
    }

    #[test]
    fn stoppable_command_ends_with_its_programs_after_a_stop_request() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("process");
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let interrupt = Interrupt::default();
        let command = format!(
            "sleep 600 & echo $! >{0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !file.exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                interrupt.flag().store(true, Ordering::Relaxed);
            });
            let ended = run_stoppable_command(&command, &target, "--restore", &interrupt);
            let text = ended.unwrap_err().to_string();
            let expected = "the command of --restore was ended, since a stop was requested; programs that it started in another";
            assert!(text.starts_with(expected), "{text}");
        });
        assert_ended(&file);
    }

    #[test]
    fn command_that_follows_a_stop_request_is_killed_with_its_programs_if_the_process_ends_at_once()
    {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("process");
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let interrupt = Interrupt::default();
        interrupt.flag().store(true, Ordering::Relaxed);
        let command = format!(
            "sleep 600 & echo $! >{0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        let mut killed = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !file.exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                killed = interrupt.kill_commands();
            });
            let last = interrupt.for_last_step();
            let ended = run_stoppable_command(&command, &target, "--restore", &last);
            let text = ended.unwrap_err().to_string();
            assert!(text.contains("signal: 9"), "{text}");
        });
        let expected = "The command of --restore was killed, so that what it changed may be incomplete; programs";
        assert!(killed.concat().starts_with(expected), "{killed:?}");
        assert_ended(&file);
        let refused = run_stoppable_command("true", &target, "--restore", &interrupt).unwrap_err();
        assert!(refused.to_string().contains("ends at once"), "{refused}");
    }

    #[test]
    fn command_that_ended_is_not_killed_if_the_process_ends_at_once() {
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let interrupt = Interrupt::default();
        run_stoppable_command("true", &target, "--restore", &interrupt).unwrap();
        assert_eq!(interrupt.kill_commands(), [""; 0]);
    }

    /// Waits for the end of the process whose number a file has.
    fn assert_ended(file: &Path) {
        let process = std::fs::read_to_string(file).unwrap();
        let stat = format!("/proc/{}/stat", process.trim());
        let is_over = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z")
        };
        let begun = Instant::now();
        while !is_over() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn inherited_service_and_address_are_withheld_from_a_command() {
        const NAME: &str =
            "environment::shell::tests::inherited_service_and_address_are_withheld_from_a_command";
        if std::env::var_os("PGSERVICE").is_none() {
            let again = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME])
                .envs([("PGSERVICE", "prod"), ("PGHOSTADDR", "192.0.2.1")])
                .output()
                .unwrap();
            assert!(again.status.success(), "{again:?}");
            return;
        }
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let command = "test \"$PGSERVICE$PGHOSTADDR $PGHOST\" = ' h'";
        run(command, &target, "the restore").unwrap();
    }
}
