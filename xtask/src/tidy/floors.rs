//! Rule about dependencies: a crate uses only crates of lower floors, and some libraries only in certain crates.

use toml::{Table, Value};

use super::breach::Breach;

/// The floors, as in ARCHITECTURE.md: a crate uses only crates of lower floors.
const FLOORS: [(&str, u8); 34] = [
    ("protocol", 0),
    ("sql", 0),
    ("clock", 0),
    ("event-loop", 0),
    ("http-server", 0),
    ("telemetry", 0),
    ("object-storage", 0),
    ("archive", 0),
    ("workload", 1),
    ("run", 1),
    ("connect", 1),
    ("sandbox", 1),
    ("transform", 2),
    ("capture-sink", 2),
    ("capture-log", 2),
    ("capture-wire", 2),
    ("capture-recorder", 2),
    ("capture-proxy", 2),
    ("capture-attach", 2),
    ("replay", 2),
    ("cpu-profile", 2),
    ("observe", 2),
    ("planner-copy", 2),
    ("statistics", 3),
    ("plans", 3),
    ("inspect", 3),
    ("time-breakdown", 3),
    ("compare", 3),
    ("history", 3),
    ("diagnose", 3),
    ("study", 4),
    ("report", 5),
    ("lab", 6),
    ("rehearse", 7),
];

/// Pairs of crates on one floor of which the first may use the second.
const WITHIN_A_FLOOR: [(&str, &str); 26] = [
    // An archive can be in an object store.
    ("archive", "object-storage"),
    // Their threads have a low priority.
    ("http-server", "event-loop"),
    ("telemetry", "event-loop"),
    ("telemetry", "clock"),
    // A run refers to the statements of a workload.
    ("run", "workload"),
    // A capture can slice and mask while it records.
    ("capture-sink", "transform"),
    ("capture-log", "capture-sink"),
    ("capture-wire", "capture-sink"),
    ("capture-recorder", "capture-sink"),
    ("capture-recorder", "capture-wire"),
    ("capture-proxy", "capture-recorder"),
    ("capture-proxy", "capture-sink"),
    ("capture-proxy", "capture-wire"),
    ("capture-attach", "capture-recorder"),
    ("capture-attach", "capture-sink"),
    ("capture-attach", "capture-wire"),
    // Both read processor statistics from /proc.
    ("observe", "cpu-profile"),
    ("inspect", "statistics"),
    // A history keeps the numbers that a comparison judges.
    ("history", "compare"),
    ("compare", "statistics"),
    // A comparison includes changed plans and waits.
    ("compare", "plans"),
    ("compare", "time-breakdown"),
    ("time-breakdown", "statistics"),
    ("diagnose", "statistics"),
    ("diagnose", "plans"),
    ("diagnose", "time-breakdown"),
];

/// Crates for tests, used as development dependencies only.
const FOR_TESTS: [&str; 2] = ["test-support", "fuzz-targets"];

/// Crates without a floor: tools of the project that no crate uses.
const CHORES: [&str; 1] = ["xtask"];

/// Libraries that only some crates may use, tests included: names (a trailing `*` stands for any ending), the
/// crates that may, and the reason.
const LIBRARIES: [(&[&str], &[&str], &str); 8] = [
    (
        &["arrow", "arrow-*", "parquet"],
        &["archive"],
        "only archive knows how tables are stored",
    ),
    (
        &[
            "tokio",
            "tokio-*",
            "async-std",
            "smol",
            "mio",
            "hyper",
            "hyper-util",
            "axum",
            "reqwest",
            "tonic",
            "warp",
        ],
        &[
            "sandbox",
            "http-server",
            "telemetry",
            "object-storage",
            "rehearse",
        ],
        "only fetching a server, object stores, the HTTP listeners and the export over OTLP are async: timers of milliseconds are too coarse to pace a replay",
    ),
    (
        &["opentelemetry*"],
        &["telemetry", "rehearse"],
        "only telemetry encodes OTLP; the program's tests decode it",
    ),
    (
        &["prost"],
        &["telemetry", "report", "rehearse"],
        "only telemetry encodes OTLP, and report profiles for pprof; the program's tests decode both",
    ),
    (
        &["rustls", "rcgen"],
        &[
            "connect",
            "replay",
            "capture-proxy",
            "object-storage",
            "test-support",
        ],
        "only the ways to and from a server and an object store encrypt, by one library",
    ),
    (
        &["age", "ring", "x25519-dalek"],
        &["archive"],
        "only archive encrypts files",
    ),
    (
        &["clap", "clap_*", "indicatif"],
        &["rehearse"],
        "only the program speaks with the user",
    ),
    (
        &["rmcp"],
        &["rehearse"],
        "only the program answers requests of assistants",
    ),
];

/// The parts of a crate's manifest that the rules use.
#[derive(Debug)]
pub struct Manifest {
    path: String,
    krate: String,
    dependencies: Vec<String>,
    dev_dependencies: Vec<String>,
    text: String,
}

impl Manifest {
    /// Reads a manifest. `shared` is the workspace's table of dependencies, which may rename packages.
    ///
    /// # Panics
    /// If the text is not the manifest of a package.
    pub fn parse(path: &str, text: &str, shared: &Table) -> Self {
        let table: Table = text.parse().expect("a manifest");
        let targets = table.get("target").and_then(Value::as_table);
        let of_targets = targets
            .into_iter()
            .flat_map(Table::values)
            .filter_map(Value::as_table);
        let tables: Vec<&Table> = std::iter::once(&table).chain(of_targets).collect();
        let all = |kind: &str| -> Vec<String> {
            let listed = tables
                .iter()
                .filter_map(|table| table.get(kind)?.as_table());
            let names = listed.flat_map(|list| {
                list.iter()
                    .map(|(name, value)| package(name, value, shared))
            });
            names.collect()
        };
        Manifest {
            path: path.to_owned(),
            krate: table["package"]["name"]
                .as_str()
                .expect("a name")
                .to_owned(),
            dependencies: [all("dependencies"), all("build-dependencies")].concat(),
            dev_dependencies: all("dev-dependencies"),
            text: text.to_owned(),
        }
    }

    fn breach(&self, dependency: &str, rule: String) -> Breach {
        let named = |line: &str| {
            line.trim_start().starts_with(dependency) || line.contains(&format!("\"{dependency}\""))
        };
        let line = self
            .text
            .lines()
            .position(named)
            .map_or(0, |index| index + 1);
        Breach::new(&self.path, line, rule)
    }
}

fn package(name: &str, value: &Value, shared: &Table) -> String {
    let renamed = |value: &Value| Some(value.get("package")?.as_str()?.to_owned());
    renamed(value)
        .or_else(|| shared.get(name).and_then(renamed))
        .unwrap_or_else(|| name.to_owned())
}

fn floor_of(krate: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(name, _)| *name == krate)
        .map(|(_, floor)| *floor)
}

/// Checks the uses of one crate.
pub fn check(manifest: &Manifest) -> Vec<Breach> {
    [check_floors(manifest), check_libraries(manifest)].concat()
}

fn check_floors(manifest: &Manifest) -> Vec<Breach> {
    let krate = manifest.krate.as_str();
    if CHORES.contains(&krate) || FOR_TESTS.contains(&krate) {
        return Vec::new();
    }
    let Some(floor) = floor_of(krate) else {
        let rule = format!(
            "`{krate}` has no floor; give it one in xtask/src/tidy/floors.rs and in ARCHITECTURE.md"
        );
        return vec![Breach::new(&manifest.path, 0, rule)];
    };
    let mut breaches = Vec::new();
    for used in &manifest.dependencies {
        if FOR_TESTS.contains(&used.as_str()) {
            breaches.push(manifest.breach(used, format!("`{used}` serves tests only")));
        }
        if let Some(lower) = floor_of(used)
            && lower >= floor
            && !WITHIN_A_FLOOR.contains(&(krate, used))
        {
            let rule = format!(
                "`{krate}` (floor {floor}) uses `{used}` (floor {lower}), which is not lower"
            );
            breaches.push(manifest.breach(used, rule));
        }
    }
    breaches
}

fn check_libraries(manifest: &Manifest) -> Vec<Breach> {
    let fits = |name: &str, pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    // The synchronous PostgreSQL client of the tests contains an async one.
    let is_exempt = |name: &str| name == "tokio-postgres";
    let mut breaches = Vec::new();
    for (libraries, users, reason) in LIBRARIES {
        if users.contains(&manifest.krate.as_str()) {
            continue;
        }
        for name in manifest
            .dependencies
            .iter()
            .chain(&manifest.dev_dependencies)
        {
            if !is_exempt(name) && libraries.iter().any(|library| fits(name, library)) {
                let rule = format!("`{name}` belongs to {} only: {reason}", users.join(", "));
                breaches.push(manifest.breach(name, rule));
            }
        }
    }
    breaches
}

/// Checks that the workspace lists its members from the lowest floor to the highest, each with a floor.
pub fn check_order(members: &[String]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut highest = 0;
    for krate in members {
        match floor_of(krate) {
            Some(floor) if floor < highest => {
                let rule = format!(
                    "`{krate}`, of floor {floor}, is listed after a crate of floor {highest}"
                );
                breaches.push(Breach::new("Cargo.toml", 0, rule));
            }
            Some(floor) => highest = floor,
            None => {}
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(krate: &str, rest: &str) -> usize {
        let shared: Table = "wire = { path = 'p', package = 'replay' }".parse().unwrap();
        let text = format!("[package]\nname = '{krate}'\n{rest}");
        check(&Manifest::parse("Cargo.toml", &text, &shared)).len()
    }

    #[test]
    fn use_of_a_higher_or_same_floor_is_a_breach() {
        assert_eq!(count("run", "[dependencies]\nworkload.workspace = true"), 0);
        assert_eq!(count("workload", "[dependencies]\nrun.workspace = true"), 1);
        assert_eq!(
            count("clock", "[dependencies]\narchive.workspace = true"),
            1
        );
        assert_eq!(
            count(
                "capture-log",
                "[build-dependencies]\nreport.workspace = true"
            ),
            1
        );
        assert_eq!(
            count(
                "capture-log",
                "[target.'cfg(unix)'.dependencies]\nreplay.workspace = true"
            ),
            1
        );
        assert_eq!(
            count("workload", "[dependencies]\nwire.workspace = true"),
            1
        );
        assert_eq!(
            count("replay", "[dependencies]\ntest-support.workspace = true"),
            1
        );
        assert_eq!(
            count(
                "replay",
                "[dev-dependencies]\ntest-support.workspace = true"
            ),
            0
        );
        assert_eq!(count("somebody", ""), 1);
    }

    #[test]
    fn library_outside_of_its_crates_is_a_breach() {
        assert_eq!(
            count(
                "archive",
                "[dependencies]\narrow-array = '1'\nparquet = '1'"
            ),
            0
        );
        assert_eq!(
            count("run", "[dependencies]\narrow-array = '1'\nparquet = '1'"),
            2
        );
        assert_eq!(count("run", "[dev-dependencies]\nparquet = '1'"), 1);
        assert_eq!(
            count(
                "replay",
                "[dependencies]\ntokio = '1'\ntokio-postgres = '1'"
            ),
            1
        );
        assert_eq!(
            count(
                "replay",
                "[dependencies]\na = { version = '1', package = 'axum' }"
            ),
            1
        );
        assert_eq!(
            count("rehearse", "[dependencies]\nclap = '1'\nhyper = '1'"),
            0
        );
    }

    #[test]
    fn members_out_of_order_are_a_breach() {
        let order = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_order(&names).len()
        };
        assert_eq!(order(&["clock", "archive", "run", "replay", "xtask"]), 0);
        assert_eq!(order(&["clock", "run", "archive"]), 1);
    }
}
