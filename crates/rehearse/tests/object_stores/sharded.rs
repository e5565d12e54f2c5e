//! Replays by several workers that read from and write to an object store.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use run::{RunReader, RunStatus};
use serde_json::Value;

use super::Store;
use crate::sharding::{log_of, readers};

const WORKLOAD: &str = "s3://loads/a.workload";
const RUN: &str = "s3://loads/a.run";
const SESSIONS: u32 = 24;
const TICKS: u32 = 80;

impl Store {
    /// Downloads the objects below a prefix into a directory of this name.
    fn download(&self, prefix: &str) -> PathBuf {
        let list = self.request("GET", &format!("/loads?list-type=2&prefix={prefix}/"));
        let keys = list.split("<Key>").skip(1);
        let keys = keys.map(|rest| rest.split("</Key>").next().unwrap());
        let directory = self.directory.path().join("downloaded");
        for key in keys {
            let answer = self.answer("GET", &format!("/loads/{key}"));
            let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            let path = directory.join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &answer[head.unwrap() + 4..]).unwrap();
        }
        directory.join(prefix)
    }

    fn has(&self, key: &str) -> bool {
        let answer = self.request("GET", &format!("/loads/{key}"));
        answer.starts_with("HTTP/1.1 200")
    }

    /// Returns the directory of a machine, which has no file of another one.
    fn machine(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn start_worker(&self, machine: &Path, url: &str, run: &str, more: &[&str]) -> Child {
        let replay = ["replay", WORKLOAD, "--target", url, "-o", run];
        let mut command = self.command_at(self.port, &[&replay, more].concat());
        command
            .current_dir(machine)
            .env_remove("JOB_COMPLETION_INDEX");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn show(&self, run: &str) -> Value {
        let output = self.run_at(self.port, &["show", run, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Waits for the end of a worker. Returns its notes.
fn finish(worker: Child, code: i32) -> String {
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the latencies of all executions, from the sending to the end, in ascending order.
fn latencies(run: &RunReader) -> Vec<i64> {
    let executions = run.executions().unwrap().map(Result::unwrap);
    let times = executions.filter_map(|one| Some(one.done_ns? - one.sent_ns?));
    let mut times: Vec<i64> = times.collect();
    times.sort_unstable();
    times
}

/// Returns the largest distance of two distribution functions, of samples in ascending order.
fn kolmogorov_distance(one: &[i64], other: &[i64]) -> f64 {
    let share = |times: &[i64], at: i64| {
        times.partition_point(|time| *time <= at) as f64 / times.len() as f64
    };
    let times = one.iter().chain(other);
    let distances = times.map(|at| (share(one, *at) - share(other, *at)).abs());
    distances.fold(0.0, f64::max)
}

/// Replays with three workers, of which that of shard 0 is killed. The run then lacks its shard.
fn replay_and_kill_the_first(store: &Store, url: &str, machines: &[PathBuf]) {
    let mut workers: Vec<Child> = (0..)
        .zip(machines)
        .map(|(number, machine)| {
            let shard = format!("{number}/3");
            store.start_worker(
                machine,
                url,
                RUN,
                &["--shard", &shard, "--checkpoint", "1s"],
            )
        })
        .collect();
    let begun = Instant::now();
    while !store.has("a.run/shards.json") {
        assert!(begun.elapsed() < Duration::from_secs(120), "no start");
        std::thread::sleep(Duration::from_millis(100));
    }
    // The replay starts at least 5 s later, and lasts 8 s.
    std::thread::sleep(Duration::from_secs(9));
    let mut killed = workers.remove(0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    for worker in workers {
        finish(worker, 0);
    }
    let shown = store.show(RUN);
    assert_eq!(shown["status"], "incomplete");
    assert_eq!(shown["shards"]["shards"][0]["state"], "missing");
    assert_eq!(shown["missing"], shown["shards"]["shards"][0]["statements"]);
}

/// Resumes shard 0 on its machine. The first attempt is killed, too.
fn resume_twice(store: &Store, url: &str, machine: &Path) {
    let left = machine.join("a.run.part-0.partial");
    let resume = ["--shard", "0/3", "--resume", RUN, "--checkpoint", "1s"];
    let mut again = store.start_worker(machine, url, RUN, &resume);
    let attempt = machine.join("a.run.part-0-resumed-1.partial/manifest.json");
    let begun = Instant::now();
    while !attempt.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "no second attempt"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(1));
    again.kill().unwrap();
    again.wait().unwrap();
    assert!(!left.exists() && store.has("a.run/part-0/manifest.json"));
    finish(store.start_worker(machine, url, RUN, &resume), 0);
    assert_eq!(store.show(RUN)["status"], "complete");
    let is_left = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().contains("part-");
    let files = std::fs::read_dir(machine).unwrap().map(Result::unwrap);
    assert_eq!(files.filter(is_left).count(), 0);
}

/// Resumes a run of the same name on a machine with a part of the other one.
fn refuse_a_part_of_another_replay(store: &Store, url: &str) {
    let other = "s3://loads/week/a.run";
    finish(
        store.start_worker(
            &store.machine("m4"),
            url,
            other,
            &["--shard", "0/1", "--speed", "max"],
        ),
        0,
    );
    let resume = ["--shard", "0/1", "--resume", other, "--speed", "max"];
    let notes = finish(
        store.start_worker(&store.machine("m3"), url, other, &resume),
        2,
    );
    assert!(
        notes.contains("is of another replay than s3://loads/week/a.run"),
        "{notes}"
    );
}

#[test]
fn killed_shard_of_a_run_in_a_store_is_resumed_and_the_counts_are_those_of_one_worker() {
    let Some(store) = Store::start() else { return };
    let (_sandbox, endpoint) = test_support::server().tcp().start();
    let url = endpoint.url("postgres");
    let log = store.directory.path().join("a.log");
    std::fs::write(log, log_of(&readers(SESSIONS, TICKS))).unwrap();
    store.done(&["capture", "log", "a.log", "-o", WORKLOAD]);
    store.done(&[
        "replay",
        WORKLOAD,
        "--target",
        &url,
        "-o",
        "s3://loads/one.run",
    ]);

    let machines = ["m0", "m1", "m2"].map(|name| store.machine(name));
    replay_and_kill_the_first(&store, &url, &machines);
    // What the worker left stays on its machine, until it is resumed there.
    let left = machines[0].join("a.run.part-0.partial");
    let foreign = store.machine("m3").join("a.run.part-0.partial");
    std::fs::create_dir(&foreign).unwrap();
    for entry in std::fs::read_dir(&left).unwrap() {
        let file = entry.unwrap();
        std::fs::copy(file.path(), foreign.join(file.file_name())).unwrap();
    }
    resume_twice(&store, &url, &machines[0]);
    let one = RunReader::open(&store.download("one.run")).unwrap();
    let three = RunReader::open(&store.download("a.run")).unwrap();
    assert_eq!(three.info().status, RunStatus::Complete);
    let counts = |run: &RunReader| (run.info().statements, run.info().done);
    let all = u64::from(SESSIONS * TICKS);
    assert_eq!((counts(&one), counts(&three)), ((all, all), (all, all)));
    let (of_one, of_three) = (latencies(&one), latencies(&three));
    assert_eq!(of_one.len(), of_three.len());
    let (n, m) = (of_one.len() as f64, of_three.len() as f64);
    println!(
        "Kolmogorov distance of the latencies of one worker and of three: {:.4}; 95 % of pairs of samples of one distribution are below {:.4}",
        kolmogorov_distance(&of_one, &of_three),
        1.36 * ((n + m) / (n * m)).sqrt()
    );

    refuse_a_part_of_another_replay(&store, &url);
    assert!(foreign.exists());
}
