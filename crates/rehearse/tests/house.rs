//! The rules of the house that can be seen in the workspace's files (`ARCHITECTURE.md`, "Rules of
//! the house"): who stands on whom, and who may do what. Each rule is a function of text with a
//! sample that breaks it, so that the rule is known to be able to fail.

mod manifest;
mod source;

use manifest::Manifest;
use source::Source;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Table;

/// A crate uses only crates of lower floors.
const FLOORS: [(&str, u8); 16] = [
    ("pgwire", 0),
    ("clock", 0),
    ("archive", 0),
    ("readiness", 0),
    ("workload", 1),
    ("run", 1),
    ("sandbox", 1),
    ("target", 1),
    ("capture", 2),
    ("replay", 2),
    ("observe", 2),
    ("analyse", 3),
    ("experiment", 4),
    ("report", 5),
    ("lab", 5),
    ("rehearse", 6),
];

/// The one dependency within a floor: a run speaks of the statements of a workload.
const SAME_FLOOR: (&str, &str) = ("run", "workload");

/// The stages never import each other, not even for their tests: a workload and a run are all
/// that passes between them.
const STAGES: [&str; 3] = ["capture", "replay", "observe"];

/// Libraries that only some crates may name, for anything, tests included. A name that ends in
/// `*` stands for all that begin so.
const LIBRARIES: [(&[&str], &[&str], &str); 5] = [
    (
        &["arrow", "arrow-*", "parquet"],
        &["archive"],
        "only archive knows how tables are stored",
    ),
    (
        &[
            "tokio",
            "tokio-stream",
            "tokio-util",
            "tokio-rustls",
            "tokio-io-timeout",
            "async-std",
            "smol",
            "mio",
            "hyper",
            "hyper-util",
            "axum",
            "reqwest",
            "tonic",
            "warp",
            "actix-*",
        ],
        &["sandbox", "rehearse"],
        "nothing is async but fetching a server and serving HTTP: timers of milliseconds are too coarse",
    ),
    (
        &["rustls", "rcgen"],
        &["target", "replay", "capture"],
        "only what connects to a server, or stands before one, encrypts, and by one library",
    ),
    (
        &["age"],
        &["archive"],
        "only archive encrypts what lies on disk",
    ),
    (
        &["clap", "clap_*", "indicatif"],
        &["rehearse"],
        "only the program speaks with the user",
    ),
];

/// What only the program does.
const PRINTING: [&str; 9] = [
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
    "io::stdout",
    "io::stderr",
    "process::exit",
    "process::abort",
];

/// Where the time may be read: besides in these, in `clock`, `sandbox` and `rehearse`.
const TIME_LIMITS: [&str; 1] = [
    // Time limits of connecting, which blocks.
    "crates/target/src/dial.rs",
];

/// The files with calls of the system that no library makes safe.
const UNSAFE_FILES: [&str; 12] = [
    "crates/capture/src/log/text.rs",
    "crates/readiness/src/descriptors.rs",
    "crates/readiness/src/lib.rs",
    "crates/readiness/src/ring.rs",
    "crates/readiness/src/ring/pool.rs",
    "crates/replay/src/spill.rs",
    "crates/sandbox/src/postmaster.rs",
    "crates/sandbox/src/privileges.rs",
    "crates/sandbox/src/server.rs",
    "crates/sandbox/src/snapshot.rs",
    "crates/sandbox/src/watchdog.rs",
    "crates/workload/src/packed.rs",
];

/// Names that say nothing of what is in the file.
const EMPTY_NAMES: [&str; 7] = [
    "utils.rs",
    "util.rs",
    "helpers.rs",
    "helper.rs",
    "common.rs",
    "misc.rs",
    "manager.rs",
];

const MOST_LINES: usize = 700;
const DOC_LINES: usize = 3;

/// The reason of the only tests that may be ignored: those that another test runs, as a process.
const OTHER_PROCESS: &str = "#[ignore = \"run by other tests, as another process\"]";

/// Put together here, since this file is held to the rule as well.
const UNFINISHED_REMARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// Where a rule is broken, and which.
#[derive(Debug, PartialEq)]
struct Breach {
    path: String,
    /// From 1; 0 for the whole file.
    line: usize,
    rule: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { path, line, rule } = self;
        match line {
            0 => write!(f, "{path}: {rule}"),
            _ => write!(f, "{path}:{line}: {rule}"),
        }
    }
}

fn breach(path: &str, line: usize, rule: impl Into<String>) -> Breach {
    Breach {
        path: path.to_owned(),
        line,
        rule: rule.into(),
    }
}

/// Where a word of code stands, as lines from 1: not within a longer name.
fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let named = |c: char| c.is_alphanumeric() || c == '_';
    let ends_open = word.ends_with(named);
    let stands_alone = |line: &str, at: usize| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !(before.is_some_and(named) || ends_open && after.is_some_and(named))
    };
    code.lines()
        .enumerate()
        .filter(|(_, line)| {
            line.match_indices(word)
                .any(|(at, _)| stands_alone(line, at))
        })
        .map(|(index, _)| index + 1)
        .collect()
}

fn floor_of(krate: &str) -> Option<u8> {
    let found = FLOORS.iter().find(|(name, _)| *name == krate);
    found.map(|(_, floor)| *floor)
}

/// `members` go floor by floor, and name crates that have one.
fn members_in_order(members: &[String]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut highest = 0;
    for member in members {
        let krate = member.rsplit('/').next().unwrap_or_default();
        match floor_of(krate) {
            None => breaches.push(breach(
                "Cargo.toml",
                0,
                format!("`{member}` has no floor; give it one in this test and in ARCHITECTURE.md"),
            )),
            Some(floor) if floor < highest => breaches.push(breach(
                "Cargo.toml",
                0,
                format!("`{member}`, of floor {floor}, is listed above one of floor {highest}"),
            )),
            Some(floor) => highest = floor,
        }
    }
    breaches
}

/// A crate uses only crates of lower floors, and no stage uses another.
fn floors_kept(manifest: &Manifest) -> Vec<Breach> {
    let krate = manifest.krate.as_str();
    let mut breaches = Vec::new();
    let Some(floor) = floor_of(krate) else {
        return vec![breach(&manifest.path, 0, format!("`{krate}` has no floor"))];
    };
    for dependency in &manifest.dependencies {
        let Some(lower) = floor_of(dependency) else {
            continue;
        };
        if lower >= floor && (krate, dependency.as_str()) != SAME_FLOOR {
            breaches.push(breach(
                &manifest.path,
                manifest.line_of(dependency),
                format!("`{krate}` (floor {floor}) uses `{dependency}` (floor {lower}), not a lower floor"),
            ));
        }
    }
    for dependency in &manifest.for_tests {
        if STAGES.contains(&krate) && STAGES.contains(&dependency.as_str()) {
            let rule = format!("the stages `{krate}` and `{dependency}` never import each other");
            breaches.push(breach(&manifest.path, manifest.line_of(dependency), rule));
        }
    }
    if krate == "workload" {
        let all = manifest.dependencies.iter().chain(&manifest.for_tests);
        for wire in all.filter(|name| *name == "pgwire") {
            breaches.push(breach(
                &manifest.path,
                manifest.line_of(wire),
                "`workload` never names a wire message",
            ));
        }
    }
    breaches
}

/// Some libraries are only some crates'.
fn libraries_kept(manifest: &Manifest) -> Vec<Breach> {
    let is = |name: &str, pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let mut breaches = Vec::new();
    for (libraries, users, why) in LIBRARIES {
        if users.contains(&manifest.krate.as_str()) {
            continue;
        }
        for name in manifest.dependencies.iter().chain(&manifest.for_tests) {
            if libraries.iter().any(|library| is(name, library)) {
                let users = users.join(", ");
                let rule = format!("`{name}` belongs to {users} only: {why}");
                breaches.push(breach(&manifest.path, manifest.line_of(name), rule));
            }
        }
    }
    breaches
}

/// Only the program prints and exits.
fn nobody_else_prints(source: &Source) -> Vec<Breach> {
    let (Some(code), false) = (&source.production, source.krate == "rehearse") else {
        return Vec::new();
    };
    found_words(source, code, &PRINTING, "only `rehearse` prints and exits")
}

/// The time is read where it can be turned by hand.
fn nobody_else_reads_the_time(source: &Source) -> Vec<Breach> {
    let Some(code) = &source.production else {
        return Vec::new();
    };
    // The lab's systems are applications with a pace of their own, as the demo's is.
    if ["clock", "sandbox", "lab", "rehearse"].contains(&source.krate.as_str())
        || TIME_LIMITS.contains(&source.path.as_str())
    {
        return Vec::new();
    }
    let words = ["Instant::now", "SystemTime::now"];
    found_words(source, code, &words, "ask `clock` for the time")
}

/// Unsafe code is in few files.
fn nothing_else_is_unsafe(source: &Source) -> Vec<Breach> {
    if !source.path.contains("/src/") || UNSAFE_FILES.contains(&source.path.as_str()) {
        return Vec::new();
    }
    found_words(
        source,
        &source.code,
        &["unsafe"],
        "only the files that this test names",
    )
}

/// Nothing is left for later.
fn nothing_is_unfinished(source: &Source) -> Vec<Breach> {
    let rule = "nothing is left for later";
    let mut breaches = found_words(source, &source.code, &["todo!", "unimplemented!"], rule);
    breaches.extend(found_words(source, &source.text, &UNFINISHED_REMARKS, rule));
    let ignored = lines_with(&source.code, "#[ignore")
        .into_iter()
        .filter(|line| source.text.lines().nth(line - 1).map(str::trim) != Some(OTHER_PROCESS));
    breaches.extend(ignored.map(|line| {
        breach(
            &source.path,
            line,
            "no test is ignored; what writes files is an example",
        )
    }));
    breaches
}

/// A workload is not of the wire.
fn no_wire_in_workloads(source: &Source) -> Vec<Breach> {
    if source.krate != "workload" {
        return Vec::new();
    }
    found_words(
        source,
        &source.code,
        &["pgwire"],
        "`workload` never names a wire message",
    )
}

fn found_words(source: &Source, code: &str, words: &[&str], rule: &str) -> Vec<Breach> {
    let of = |word: &&str| -> Vec<Breach> {
        let lines = lines_with(code, word).into_iter();
        lines
            .map(|line| breach(&source.path, line, format!("`{word}`: {rule}")))
            .collect()
    };
    words.iter().flat_map(of).collect()
}

/// Files have names that say something, a length that one can read, and crates an introduction.
fn file_is_readable(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if EMPTY_NAMES.contains(&name) {
        let rule = format!("the name `{name}` says nothing of what is in the file");
        breaches.push(breach(&source.path, 0, rule));
    }
    let lines = source.text.lines().count();
    if lines > MOST_LINES {
        let rule = format!("{lines} lines; a file has {MOST_LINES} at most");
        breaches.push(breach(&source.path, MOST_LINES + 1, rule));
    }
    let root = ["lib.rs", "main.rs"].contains(&name) && source.path.split('/').count() == 4;
    let doc = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"));
    if root && source.path.contains("/src/") && doc.count() < DOC_LINES {
        let rule = format!("a crate begins with `//!` and {DOC_LINES} lines of what it is");
        breaches.push(breach(&source.path, 1, rule));
    }
    breaches
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn root_manifest() -> Table {
    let text = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    text.parse().unwrap()
}

fn members() -> Vec<String> {
    let members = root_manifest()["workspace"]["members"]
        .as_array()
        .unwrap()
        .clone();
    members
        .iter()
        .map(|member| member.as_str().unwrap().to_owned())
        .collect()
}

fn manifests() -> Vec<Manifest> {
    let root = root_manifest();
    let shared = root["workspace"]["dependencies"].as_table().unwrap();
    let read = |member: String| {
        let path = format!("{member}/Cargo.toml");
        let text = std::fs::read_to_string(workspace().join(&path)).unwrap();
        Manifest::read(&path, &text, shared)
    };
    members().into_iter().map(read).collect()
}

#[track_caller]
fn assert_none(breaches: Vec<Breach>) {
    let list: Vec<String> = breaches
        .iter()
        .map(|breach| format!("  {breach}"))
        .collect();
    assert!(
        list.is_empty(),
        "against the \"Rules of the house\" in ARCHITECTURE.md:\n{}",
        list.join("\n")
    );
}

#[track_caller]
fn assert_holds(rule: fn(&Source) -> Vec<Breach>) {
    let sources = source::read_all(&workspace());
    assert!(sources.len() > 50, "the sources are not where they were");
    assert_none(sources.iter().flat_map(rule).collect());
}

/// Where a rule is broken in a sample, as lines.
fn broken(rule: fn(&Source) -> Vec<Breach>, path: &str, text: &str) -> Vec<usize> {
    let breaches = rule(&Source::sample(path, text));
    breaches.iter().map(|breach| breach.line).collect()
}

fn sample_manifest(krate: &str, rest: &str) -> Manifest {
    let shared: Table = "wire = { path = 'p', package = 'pgwire' }".parse().unwrap();
    let text = format!("[package]\nname = '{krate}'\n{rest}");
    Manifest::read(&format!("crates/{krate}/Cargo.toml"), &text, &shared)
}

#[test]
fn members_are_listed_floor_by_floor() {
    assert_none(members_in_order(&members()));
    for entry in std::fs::read_dir(workspace().join("crates")).unwrap() {
        let path = format!("crates/{}", entry.unwrap().file_name().to_str().unwrap());
        assert!(
            members().contains(&path),
            "{path} is no member of the workspace"
        );
    }

    let listed = |names: &[&str]| {
        let members: Vec<String> = names.iter().map(|name| format!("crates/{name}")).collect();
        members_in_order(&members).len()
    };
    assert_eq!(listed(&["clock", "archive", "run", "replay"]), 0);
    assert_eq!(listed(&["clock", "run", "archive"]), 1);
    assert_eq!(listed(&["clock", "somebody"]), 1);
}

#[test]
fn a_crate_uses_only_lower_floors() {
    assert_none(manifests().iter().flat_map(floors_kept).collect());

    let breaches = |krate, rest: &str| floors_kept(&sample_manifest(krate, rest)).len();
    assert_eq!(
        breaches("run", "[dependencies]\nworkload.workspace = true"),
        0
    );
    assert_eq!(
        breaches("workload", "[dependencies]\nrun.workspace = true"),
        1
    );
    assert_eq!(
        breaches("clock", "[dependencies]\narchive.workspace = true"),
        1
    );
    assert_eq!(
        breaches("capture", "[build-dependencies]\nreport.workspace = true"),
        1
    );
    assert_eq!(
        breaches(
            "capture",
            "[target.'cfg(unix)'.dependencies]\nreplay.workspace = true"
        ),
        1
    );
    assert_eq!(
        breaches("replay", "[dev-dependencies]\nsandbox = { path = 's' }"),
        0
    );
    assert_eq!(
        breaches("replay", "[dev-dependencies]\ncapture = { path = 's' }"),
        1
    );
    assert_eq!(
        breaches("workload", "[dependencies]\nwire.workspace = true"),
        1
    );
    assert_eq!(
        breaches("workload", "[dependencies]\nw = { package = 'pgwire' }"),
        1
    );
    assert_eq!(breaches("somebody", ""), 1);
    let manifest = sample_manifest(
        "replay",
        "[dependencies]\nx = '1'\ncapture = { path = 'c' }",
    );
    assert_eq!(floors_kept(&manifest)[0].line, 5);
}

#[test]
fn libraries_are_used_where_they_belong() {
    assert_none(manifests().iter().flat_map(libraries_kept).collect());

    let breaches = |krate, rest: &str| libraries_kept(&sample_manifest(krate, rest)).len();
    let tables = "[dependencies]\narrow-array = '1'\nparquet = '1'";
    assert_eq!(breaches("archive", tables), 0);
    assert_eq!(breaches("run", tables), 2);
    assert_eq!(breaches("run", "[dev-dependencies]\nparquet = '1'"), 1);
    assert_eq!(breaches("sandbox", "[dependencies]\ntokio = '1'"), 0);
    assert_eq!(
        breaches(
            "replay",
            "[dependencies]\ntokio = '1'\ntokio-postgres = '1'"
        ),
        1
    );
    assert_eq!(
        breaches(
            "replay",
            "[dependencies]\na = { version = '1', package = 'axum' }"
        ),
        1
    );
    assert_eq!(
        breaches("report", "[dependencies]\nclap = '1'\nindicatif = '1'"),
        2
    );
    assert_eq!(
        breaches("rehearse", "[dependencies]\nclap = '1'\nindicatif = '1'"),
        0
    );
}

#[test]
fn only_the_program_prints_and_exits() {
    assert_holds(nobody_else_prints);

    let rule = nobody_else_prints;
    let text = "fn a() {\n println!(\"b\");\n std::process::exit(1)\n}\n// dbg!(c)\n";
    assert_eq!(broken(rule, "crates/run/src/a.rs", text), [2, 3]);
    assert_eq!(broken(rule, "crates/rehearse/src/a.rs", text), []);
    assert_eq!(broken(rule, "crates/run/tests/a.rs", text), []);
    let under_test =
        "#[cfg(test)]\nmod tests {\n fn a() { print!(\"\") }\n}\nfn b() { eprint!(\"\") }";
    assert_eq!(broken(rule, "crates/run/src/a.rs", under_test), [5]);
}

#[test]
fn the_time_is_read_by_the_clock() {
    assert_holds(nobody_else_reads_the_time);

    let rule = nobody_else_reads_the_time;
    let text = "// Instant::now()\nlet a = Instant::now();\nlet b = std::time::SystemTime::now();";
    assert_eq!(broken(rule, "crates/replay/src/engine.rs", text), [2, 3]);
    assert_eq!(broken(rule, "crates/target/src/dial.rs", text), []);
    assert_eq!(broken(rule, "crates/clock/src/a.rs", text), []);
}

#[test]
fn unsafe_code_is_in_few_files() {
    assert_holds(nothing_else_is_unsafe);

    let rule = nothing_else_is_unsafe;
    let text = "#![forbid(unsafe_code)]\nlet a = \"unsafe\";\nlet b = unsafe { c() };";
    assert_eq!(broken(rule, "crates/run/src/a.rs", text), [3]);
    assert_eq!(broken(rule, "crates/readiness/src/lib.rs", text), []);
}

/// The exceptions are still needed, and still where they were.
#[test]
fn the_exceptions_are_needed() {
    let sources = source::read_all(&workspace());
    let needed = |path: &str, word: &str| {
        let found = sources.iter().find(|source| source.path == path);
        let found = found.unwrap_or_else(|| panic!("{path} is gone; take it off the list"));
        let lines = lines_with(&found.code, word);
        assert!(
            !lines.is_empty(),
            "{path} has no `{word}` any more; take it off the list"
        );
    };
    UNSAFE_FILES.iter().for_each(|path| needed(path, "unsafe"));
    TIME_LIMITS
        .iter()
        .for_each(|path| needed(path, "Instant::now"));
}

#[test]
fn nothing_is_left_for_later() {
    assert_holds(nothing_is_unfinished);

    let rule = nothing_is_unfinished;
    let path = "crates/run/tests/a.rs";
    assert_eq!(
        broken(
            rule,
            path,
            "fn a() {\n todo!()\n}\nfn b() { unimplemented!() }"
        ),
        [2, 4]
    );
    assert_eq!(
        broken(
            rule,
            path,
            &format!("\n// {}: later", UNFINISHED_REMARKS[0])
        ),
        [2]
    );
    assert_eq!(
        broken(rule, path, &format!("// {}", UNFINISHED_REMARKS[1])),
        [1]
    );
    assert_eq!(broken(rule, path, "// a file.XXXXXX, and FIXMEs"), []);
    assert_eq!(broken(rule, path, "#[test]\n#[ignore]\nfn a() {}"), [2]);
    assert_eq!(
        broken(rule, path, "#[test]\n#[ignore = \"slow\"]\nfn a() {}"),
        [2]
    );
    assert_eq!(
        broken(
            rule,
            path,
            &format!("#[test]\n{OTHER_PROCESS}\nfn a() {{}}")
        ),
        []
    );
}

#[test]
fn a_workload_is_not_of_the_wire() {
    assert_holds(no_wire_in_workloads);

    let text = "// Not pgwire.\nuse protocol::Frame;";
    assert_eq!(
        broken(no_wire_in_workloads, "crates/workload/src/a.rs", text),
        [2]
    );
    assert_eq!(
        broken(no_wire_in_workloads, "crates/capture/src/a.rs", text),
        []
    );
}

#[test]
fn files_can_be_read() {
    assert_holds(file_is_readable);

    let rule = file_is_readable;
    assert_eq!(broken(rule, "crates/run/src/a.rs", ""), []);
    assert_eq!(broken(rule, "crates/run/src/utils.rs", ""), [0]);
    assert_eq!(broken(rule, "crates/run/tests/a.rs", &"\n".repeat(700)), []);
    assert_eq!(
        broken(rule, "crates/run/tests/a.rs", &"\n".repeat(701)),
        [701]
    );
    assert_eq!(
        broken(rule, "crates/run/src/lib.rs", "//! One line.\nmod a;"),
        [1]
    );
    assert_eq!(
        broken(rule, "crates/run/src/lib.rs", "//! A\n//!\n//! B\nmod a;"),
        []
    );
}

#[test]
fn a_breach_says_where_and_what() {
    let source = Source::sample("crates/run/src/a.rs", "\nfn a() { dbg!(1); }");
    assert_eq!(
        nobody_else_prints(&source)[0].to_string(),
        "crates/run/src/a.rs:2: `dbg!`: only `rehearse` prints and exits"
    );
}
