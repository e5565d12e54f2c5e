//! Scripts of the shell whose programs end if this program is killed. A killed rehearsal must not leave a dump that keeps a
//! snapshot of production open, or a restore that writes into the servers of the resumed one.

/// Beginning of a script. `run PROGRAM …` executes a program that ends with the parent of the shell.
///
/// A background process looks once a second whether the parent is there. The shell handles a signal at once only while it waits,
/// so programs are executed in the background. Source: POSIX, Shell Command Language, "Signals and Error Handling".
pub(super) const PRELUDE: &str = r#"program=
trap 'test -n "$program" && kill "$program" 2>/dev/null; exit 143' TERM
trap 'kill "$watcher" 2>/dev/null' EXIT
(trap - TERM EXIT; while kill -0 "$PPID"; do sleep 1; done; kill "$$") </dev/null >/dev/null 2>&1 &
watcher=$!
run() {
  "$@" &
  program=$!
  wait "$program"
}
"#;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use connect::Target;
    use connect::login::Dialer;

    use super::super::data_copy::DataCopy;
    use super::*;
    use crate::environment::ask;
    use crate::interrupt::Interrupt;

    /// Time after which a process counts as one that stays.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn wait_for(is_reached: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_reached() {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn script(directory: &Path, text: &str) -> std::path::PathBuf {
        let script = directory.join("script.sh");
        fs::write(&script, format!("{PRELUDE}{text}")).unwrap();
        script
    }

    #[test]
    fn program_of_a_script_ends_after_the_parent_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("process");
        let text = format!(
            "run sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600'\n",
            file.display()
        );
        // The command after the script keeps the shell from becoming its process.
        let mut parent = Command::new("sh")
            .args(["-c", "sh \"$1\"; :", "sh"])
            .arg(script(directory.path(), &text))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(|| file.exists());
        let process = fs::read_to_string(&file).unwrap();
        let stat = format!("/proc/{}/stat", process.trim());
        assert!(Path::new(&stat).exists());
        parent.kill().unwrap();
        parent.wait().unwrap();
        // A process that nothing waits for stays as a zombie.
        wait_for(|| fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    }

    #[test]
    fn dump_that_waits_for_a_lock_ends_after_a_stop_request_and_is_made_again() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        ask(&target, "CREATE TABLE items (id int)").unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let mut locking = dialer.open_query_connection(&login).unwrap();
        locking.query("BEGIN; LOCK TABLE items").unwrap();
        let has_sessions = |condition: &str| {
            let sql = format!(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'pg_dump' {condition}"
            );
            !ask(&target, &sql).unwrap().is_empty()
        };
        let directory = tempfile::tempdir().unwrap();
        let dump = directory.path().join("dump/data.dump");
        let copy = DataCopy::in_directory(directory.path(), false);
        let interrupt = Interrupt::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_for(|| has_sessions("AND wait_event_type = 'Lock'"));
                interrupt.flag().store(true, Ordering::Relaxed);
            });
            let failure = copy.dump(&target, &interrupt).unwrap_err();
            let expected = "the command of the dump was ended, since a stop was requested";
            assert_eq!(failure.message, expected);
        });
        // The lock is still held, so nothing but the stop ended the program.
        wait_for(|| !has_sessions(""));
        assert!(!dump.exists());
        locking.query("COMMIT").unwrap();
        assert!(copy.dump(&target, &Interrupt::default()).unwrap());
        assert!(dump.exists());
    }

    #[test]
    fn script_ends_with_the_status_of_its_programs_and_without_a_process() {
        let directory = tempfile::tempdir().unwrap();
        for (text, status) in [
            ("set -e; run true; run sh -c 'exit 7'; exit 0", 7),
            ("run sh -c 'exit 7'; test $? = 7 || exit 1; exit 5", 5),
        ] {
            let ended = Command::new("sh")
                .arg(script(directory.path(), text))
                .output()
                .unwrap();
            assert_eq!(ended.status.code(), Some(status), "{ended:?}");
        }
    }
}
