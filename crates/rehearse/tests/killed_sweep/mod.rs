//! A sweep of the user's sandbox that is killed at several points, and what becomes of the sandbox.

mod stopped_restore;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sandbox::Dirs;

use super::{PATIENCE, command};

/// Tables of the script with few rows, and one of the user's.
const TABLES: &str = "
    CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
    CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
    CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
    CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
    INSERT INTO pgbench_branches SELECT 1, 0;
    INSERT INTO pgbench_tellers SELECT n, 1, 0 FROM generate_series(1, 10) n;
    INSERT INTO pgbench_accounts SELECT n, 1, 0 FROM generate_series(1, 100000) n;
    CREATE TABLE precious AS SELECT n FROM generate_series(1, 1000) n";

/// A stage of the sweep, by the files of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The initial state is being copied.
    Snapshot,
    /// A restore has begun.
    Restore,
    /// The old data are gone.
    WithoutData,
    /// The new data are being copied.
    Copy,
    /// A trial runs.
    Trial,
}

const STAGES: [Stage; 5] = [
    Stage::Snapshot,
    Stage::Restore,
    Stage::WithoutData,
    Stage::Copy,
    Stage::Trial,
];

struct Sandboxed {
    top: tempfile::TempDir,
    root: PathBuf,
}

impl Sandboxed {
    fn set_up() -> Self {
        let top = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(top.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let places = Dirs {
            cache: Dirs::from_environment().unwrap().cache,
            state: top.path().join("state"),
        };
        let found = sandbox::find(
            &sandbox::ServerRequirements::major(18),
            &places,
            &mut |_| (),
        );
        let options = sandbox::Options {
            settings: vec![("work_mem".to_owned(), "7MB".to_owned())],
            ..sandbox::Options::default()
        };
        let up = sandbox::up("mine", &found.unwrap(), options, &places).unwrap();
        let mut client = connect(&up.endpoint.socket_url("postgres").unwrap());
        client.batch_execute(TABLES).unwrap();
        Sandboxed { root: up.root, top }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("REHEARSE_STATE_DIR", self.top.path().join("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    fn output(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn sweep(&self, output: &Path) -> Child {
        let output = output.display().to_string();
        let arguments = [
            "sweep",
            "--script",
            "simple-update",
            "--sandbox",
            "mine",
            "--clients",
            "1,2",
            "--trials",
            "3",
            "--time",
            "300ms",
            "--warm-up",
            "50ms",
            "--set",
            "work_mem=9MB",
            "-o",
            &output,
        ];
        let mut command = self.command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn is_at(&self, stage: Stage, output: &Path) -> bool {
        let exists = |path: &str| self.root.join(path).exists();
        let marker = || std::fs::read_to_string(self.root.join("sandbox.json")).unwrap();
        match stage {
            Stage::Snapshot => exists("snapshots/.partial"),
            Stage::Restore => marker().contains("\"restoring\": \"sweep-base\""),
            Stage::WithoutData => exists("snapshots/sweep-base") && !exists("data"),
            Stage::Copy => exists("data.new/base"),
            Stage::Trial => !super::trials(output).is_empty() && exists("data/postmaster.pid"),
        }
    }

    /// Checks the user's data and setting.
    fn assert_as_before(&self) {
        let url = self.output(&["sandbox", "url", "mine"]);
        let mut client = connect(url.trim());
        let state = "SELECT concat_ws(' ', (SELECT count(*) FROM precious), (SELECT count(*) FROM pgbench_accounts), \
            (SELECT sum(abs(abalance)) FROM pgbench_accounts), (SELECT count(*) FROM pgbench_history), \
            current_setting('work_mem'))";
        let state: String = client.query_one(state, &[]).unwrap().get(0);
        assert_eq!(state, "1000 100000 0 0 7MB");
    }
}

impl Drop for Sandboxed {
    fn drop(&mut self) {
        let _ = self.run(&["sandbox", "down", "mine"]);
    }
}

fn connect(url: &str) -> postgres::Client {
    postgres::Client::connect(url, postgres::NoTls).unwrap()
}

#[test]
fn sandbox_of_a_sweep_killed_at_any_stage_gets_its_data_and_settings_back() {
    let sandboxed = Sandboxed::set_up();
    sandboxed.assert_as_before();
    for stage in STAGES {
        let output = sandboxed.top.path().join(format!("{stage:?}.sweep"));
        let mut sweep = sandboxed.sweep(&output);
        let begun = Instant::now();
        while !sandboxed.is_at(stage, &output) {
            assert!(begun.elapsed() < PATIENCE, "{stage:?}");
            assert_eq!(sweep.try_wait().unwrap(), None, "{stage:?}");
            std::thread::sleep(Duration::from_micros(200));
        }
        sweep.kill().unwrap();
        sweep.wait().unwrap();

        let marker = std::fs::read_to_string(sandboxed.root.join("sandbox.json")).unwrap();
        let is_interrupted = marker.contains("\"restoring\": \"");
        println!("{stage:?}: killed in a restore: {is_interrupted}");
        let list = sandboxed.output(&["sandbox", "list"]);
        assert_eq!(list.contains("interrupted"), is_interrupted, "{list}");
        sandboxed.output(&["sandbox", "start", "mine"]);
        let list = sandboxed.output(&["sandbox", "list"]);
        assert!(
            list.contains("running") && !list.contains("interrupted"),
            "{list}"
        );
        if is_interrupted {
            sandboxed.assert_as_before();
        }
        match stage {
            // The copy was not complete, so nothing was changed.
            Stage::Snapshot => {
                let nothing = sandboxed.run(&["sandbox", "restore", "mine"]);
                assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
            }
            _ => {
                sandboxed.output(&["sandbox", "restore", "mine"]);
            }
        }
        sandboxed.assert_as_before();
        let left = std::fs::read_dir(sandboxed.root.join("snapshots")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty() || stage == Stage::Snapshot, "{left:?}");
    }
}
