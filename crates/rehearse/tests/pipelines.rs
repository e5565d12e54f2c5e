//! Tests of the CI script that the GitHub Action and the GitLab example call, on a real server, with a harmful
//! and a harmless migration. Its files are validated with the published schemas, and the examples are checked.
//!
//! The script takes psql. Where there is none and REHEARSE_TEST_PSQL is not set, as it is in CI, that
//! test is left out, and says so.

#[path = "pipelines/plans_examples.rs"]
mod plans_examples;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sandbox::Sandbox;
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rehearse(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments).output().unwrap()
}

#[track_caller]
fn done(arguments: &[&str], code: i32) -> String {
    let output = rehearse(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    text(&output.stdout)
}

/// Creates a log of four seconds, in which four sessions look up orders by customer.
fn log() -> String {
    let mut log = String::new();
    for number in 0..800u32 {
        let ms = number * 5;
        let (second, ms) = (ms / 1_000, ms % 1_000);
        let (session, customer) = (100 + number % 4, number * 37 % 5_000);
        writeln!(
            log,
            "2026-03-01 09:00:{second:02}.{ms:03} UTC [{session}] LOG:  statement: SELECT count(*), sum(total) FROM orders WHERE customer = {customer}"
        )
        .unwrap();
    }
    log
}

const DUMP: &str = "CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, total numeric NOT NULL, note text);
INSERT INTO orders SELECT id, id * 7919 % 5000, id % 1000, repeat('x', 40) FROM generate_series(1, 60000) AS id;
CREATE INDEX orders_customer ON orders (customer);
";
const HARMFUL: &str = "DROP INDEX orders_customer;\n";
const HARMLESS: &str = "ALTER TABLE orders ADD COLUMN shipped boolean;\n";

/// Returns the conditions of the example.
fn conditions() -> String {
    let gitlab = yaml("docs/ci/gitlab-ci.yml");
    let conditions = &gitlab["rehearse"]["variables"]["FAIL_ON"];
    conditions.as_str().unwrap().to_owned()
}

fn has_psql() -> bool {
    let found = Command::new("psql").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    let needed = std::env::var_os("REHEARSE_TEST_PSQL").is_some();
    assert!(found || !needed, "psql is missing");
    if !found {
        test_support::report_skipped("there is no psql");
    }
    found
}

/// Validates the JSON with its schema.
#[track_caller]
fn validate(name: &str, json: &str) {
    let file = root().join(format!("docs/schemas/{name}.schema.json"));
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    let schema = compiler
        .compile(file.to_str().unwrap(), &mut schemas)
        .unwrap();
    let value: Value = serde_json::from_str(json).unwrap();
    if let Err(error) = schemas.validate(&value, schema) {
        panic!("{name}: {error:#}");
    }
    // The schema says something: what lacks its first field is refused.
    let mut lacking = value;
    lacking.as_object_mut().unwrap().remove("schema");
    assert!(schemas.validate(&lacking, schema).is_err(), "{name}");
}

/// A captured workload, a server, and files of migrations, for the script that pipelines run.
struct Rehearsal {
    directory: tempfile::TempDir,
    url: String,
    _server: Sandbox,
}

impl Rehearsal {
    fn new() -> Self {
        let (server, endpoint) = test_support::server().major(15).start();
        let directory = tempfile::tempdir().unwrap();
        // The directory of the socket has spaces.
        let socket = directory.path().join("a  socket");
        std::os::unix::fs::symlink(endpoint.socket_dir.as_ref().unwrap(), &socket).unwrap();
        let host = socket.to_str().unwrap().replace('/', "%2F");
        let rehearsal = Rehearsal {
            url: format!(
                "postgres://{}@{}:{}/postgres",
                endpoint.user,
                host.replace(' ', "%20"),
                endpoint.port
            ),
            directory,
            _server: server,
        };
        for (name, content) in [
            ("shop.log", log().as_str()),
            ("dump.sql", DUMP),
            ("harmful.sql", HARMFUL),
            ("harmless.sql", HARMLESS),
            ("broken.sql", "ALTER TABLE nowhere ADD COLUMN x int;"),
        ] {
            std::fs::write(rehearsal.path(name), content).unwrap();
        }
        let captured = done(
            &[
                "capture",
                "log",
                &rehearsal.path("shop.log"),
                "--prefix",
                "%m [%p] ",
                "-o",
                &rehearsal.path("shop.workload"),
                "--json",
            ],
            0,
        );
        validate("capture-log", &captured);
        let inspected = done(&["inspect", &rehearsal.path("shop.workload"), "--json"], 0);
        validate("inspect", &inspected);
        rehearsal
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the script with a migration. Returns its exit code and what it printed to both streams.
    fn run(&self, migration: &str, out: &str) -> (Option<i32>, String, String) {
        self.run_with("MIGRATION", &self.path(migration), out)
    }

    /// Runs the script with a variable that gives the migration.
    fn run_with(&self, variable: &str, value: &str, out: &str) -> (Option<i32>, String, String) {
        let output = Command::new(root().join("docs/ci/rehearse-migration.sh"))
            .env("REHEARSE", env!("CARGO_BIN_EXE_rehearse"))
            .env("WORKLOAD", self.path("shop.workload"))
            .env("DUMP", self.path("dump.sql"))
            .env(variable, value)
            .env("SERVER", &self.url)
            .env("FAIL_ON", conditions())
            // One is enough for an index that is gone, and for the time that a test may take.
            .env("RUNS", "1")
            .env("STRICT", "0")
            .env("OUT", self.path(out))
            .env("GITHUB_STEP_SUMMARY", self.path("summary.md"))
            .output()
            .unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        (output.status.code(), stdout, stderr)
    }
}

#[test]
fn a_migration_is_rehearsed() {
    if test_support::skip_in_fast_tier() || !has_psql() {
        return;
    }
    let rehearsal = Rehearsal::new();
    harmful_migration_fails(&rehearsal);
    harmless_migration_passes(&rehearsal);
    let (code, _, stderr) = rehearsal.run("broken.sql", "broken");
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("fails on the data"), "{stderr}");
    let (code, _, stderr) = rehearsal.run_with("MIGRATION_COMMAND", "exit 5", "failed");
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("exit 5 fails on the data"), "{stderr}");
    let (code, _, stderr) = rehearsal.run("nowhere.sql", "nowhere");
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("set MIGRATION to"), "{stderr}");
    outputs_agree(&rehearsal);
    invalid_outputs_are_refused(&rehearsal);
}

fn harmful_migration_fails(rehearsal: &Rehearsal) {
    let command = format!(
        "psql -qX -v ON_ERROR_STOP=1 -f {}",
        rehearsal.path("harmful.sql")
    );
    let (code, stdout, stderr) = rehearsal.run_with("MIGRATION_COMMAND", &command, "harmful");
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("HOLDS  regression"), "{stdout}");
    assert!(stdout.contains("does not hold  new_errors"), "{stdout}");
    let comment = rehearsal.read("harmful/comment.md");
    assert!(
        comment.starts_with("<!-- rehearse compare -->\n### Regression"),
        "{comment}"
    );
    assert_eq!(rehearsal.read("summary.md"), comment);
    let junit = rehearsal.read("harmful/junit.xml");
    assert!(junit.contains("<failure message=\"regression"), "{junit}");
}

fn harmless_migration_passes(rehearsal: &Rehearsal) {
    let (code, stdout, stderr) = rehearsal.run("harmless.sql", "harmless");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("does not hold  regression"), "{stdout}");
    // The report has by name what the script looks for.
    let report = rehearsal.read("harmless/junit.xml");
    for name in ["verdict", "before.skipped", "after.statements"] {
        assert!(
            report.contains(&format!("<property name=\"{name}\" value=\"")),
            "{name}"
        );
    }
}

/// Checks that JSON holds what is printed as text, and that one reading of the runs gives all outputs.
fn outputs_agree(rehearsal: &Rehearsal) {
    let (before, after) = (
        rehearsal.path("harmful/before-1.run"),
        rehearsal.path("harmful/after-1.run"),
    );
    validate("show", &done(&["show", &before, "--json"], 0));
    let compare = [
        "compare",
        &before,
        &after,
        "--json",
        "--fail-on",
        "p99 > 2x or regression",
    ];
    let (junit, markdown) = (rehearsal.path("j.xml"), rehearsal.path("m.md"));
    let all = [&compare[..], &["--junit", &junit, "--markdown", &markdown]].concat();
    let json = done(&all, 1);
    validate("compare", &json);
    let view: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(view["conditions"][0]["holds"], true);
    assert_eq!(done(&compare, 1), json);
    for file in [&junit, &markdown] {
        assert!(std::fs::metadata(file).unwrap().len() > 500);
    }
    let printed = done(&["compare", &before, &after, "--markdown", "-"], 0);
    assert!(
        printed.starts_with("<!-- rehearse compare -->"),
        "{printed}"
    );
}

/// Invalid options are reported before anything is read, and leave no files.
fn invalid_outputs_are_refused(rehearsal: &Rehearsal) {
    let path = |name: &str| rehearsal.path(name);
    let (before, after) = (path("harmful/before-1.run"), path("harmful/after-1.run"));
    let there = path("harmful.sql");
    let names = || {
        std::fs::read_dir(rehearsal.directory.path())
            .unwrap()
            .count()
    };
    let count = names();
    for (more, code, words) in [
        (
            &["--fail-on", "p9 > 2x"][..],
            2,
            "did you mean p95 or p99?\n  p9 > 2x\n  ^^\n",
        ),
        (
            &["--json", "--markdown", "-"],
            2,
            "both print to standard output",
        ),
        (
            &["--junit", &there],
            2,
            "is there and was not written by --junit",
        ),
        (&["--junit", "/nowhere/x.xml"], 3, "cannot be written"),
        (
            &["--junit", &path("x"), "--markdown", &path("x")],
            2,
            "a name of its own",
        ),
    ] {
        let output = rehearse(&[&["compare", &before, &after][..], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(words), "{said}");
        assert!(output.stdout.is_empty());
    }
    let missing = rehearse(&[
        "compare",
        &path("no.run"),
        &after,
        "--junit",
        &path("x.xml"),
    ]);
    assert_eq!(missing.status.code(), Some(2));
    let said = text(&missing.stderr);
    assert!(
        said.contains("no.run does not exist; give the directory of a run"),
        "{said}"
    );
    assert_eq!(names(), count);
}

/// Runs the script with fake programs that record their arguments, and a report that contains
/// `junit`.
fn pretended(server: &str, strict: &str, junit: &str) -> (Output, String) {
    pretended_with(("MIGRATION", "m.sql"), server, strict, junit)
}

/// As [`pretended`], with a variable that gives the migration.
fn pretended_with(
    migration: (&str, &str),
    server: &str,
    strict: &str,
    junit: &str,
) -> (Output, String) {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let calls = path("calls");
    let program = |name: &str, content: &str| {
        let content = format!(
            "#!/bin/bash\nprintf '%s ' {name} \"$@\" >>{calls}\necho \"[${{PGPASSWORD-}}]\" >>{calls}\n{content}\n"
        );
        std::fs::write(path(name), content).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path(name), mode).unwrap();
    };
    program(
        "psql",
        "case \" $*\" in *:HOST*) printf '%s\\n' '/a  socket' 5433 'some body' ;; *) echo somebody ;; esac",
    );
    program(
        "rehearse",
        &format!(
            "[ \"$1\" != compare ] || [[ $2 =~ ^--(help|dry-run)$ ]] || cp {} out/junit.xml",
            path("j")
        ),
    );
    std::fs::write(path("j"), junit).unwrap();
    std::fs::write(path("m.sql"), "").unwrap();
    std::fs::create_dir(path("w.workload")).unwrap();
    let output = Command::new(root().join("docs/ci/rehearse-migration.sh"))
        .current_dir(directory.path())
        .env("REHEARSE", path("rehearse"))
        .env("PSQL", path("psql"))
        .env("WORKLOAD", "w.workload")
        .env(migration.0, migration.1)
        .env("SERVER", server)
        .env("STRICT", strict)
        .env("OUT", "out")
        .env_remove("RUNS")
        .env_remove("PGPASSWORD")
        .env_remove("PGPASSFILE")
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap();
    let calls = std::fs::read_to_string(calls).unwrap_or_default();
    (output, calls)
}

fn property(name: &str, value: &str) -> String {
    format!("      <property name=\"{name}\" value=\"{value}\"/>\n")
}

#[test]
fn no_command_line_has_the_password_and_three_runs_take_turns() {
    let enough = [
        property("verdict", "no_regression"),
        property("before.1.statements", "900"),
        property("after.statements", "900"),
    ]
    .concat();
    let server = "postgres://me:s3cr%40t%5C@host:5/postgres";
    let (output, calls) = pretended(server, "1", &enough);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{calls}");
    assert!(!said.contains("WARNING"), "{said}");
    for call in calls.lines() {
        let call = call
            .strip_suffix("[s3cr@t\\]")
            .unwrap_or_else(|| panic!("{call}"));
        assert!(!call.contains("s3cr"), "{call}");
    }
    let replays: Vec<&str> = calls
        .lines()
        .filter(|one| one.contains("rehearse replay"))
        .collect();
    let side = |one: &&str| match one.contains("out/before-") {
        true => 'b',
        false => 'a',
    };
    assert_eq!(replays.iter().map(side).collect::<String>(), "baabba");
    for replay in replays {
        assert!(
            replay.contains("--target postgres://me@host:5/postgres "),
            "{replay}"
        );
        assert!(replay.contains(" --explain "), "{replay}");
    }
    let (output, calls) = pretended("host=h user=u password=s3cret", "1", &enough);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("set PGPASSWORD") && calls.is_empty());
}

#[test]
fn command_of_a_migration_gets_the_server_and_its_password_file() {
    let enough = [
        property("verdict", "no_regression"),
        property("before.statements", "900"),
        property("after.statements", "900"),
    ]
    .concat();
    let command = r#"echo "<$PGHOST|$PGPORT|$PGUSER|$PGDATABASE|${PGPASSFILE-none}>""#;
    for (server, file) in [
        ("postgres://me@host/d?passfile=%2Fa%5C%20b&port=5", "/a\\ b"),
        ("postgresql:///d?port=5&passfile=/b", "/b"),
        ("postgres://me@host/d", "none"),
        ("host=h passfile=/c\\ d port=5", "/c d"),
        ("passfile = '/c d' host=h", "/c d"),
        ("host=h nopassfile=/c", "none"),
    ] {
        let (output, _) = pretended_with(("MIGRATION_COMMAND", command), server, "1", &enough);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let expected = format!("</a  socket|5433|some body|rehearse_migration|{file}>");
        assert!(said.contains(&expected), "{server}: {said}");
    }
}

#[test]
fn a_comparison_that_shows_nothing_is_told_apart() {
    let report = |word: &str, sent: [&str; 2], skipped: [&str; 2]| {
        [
            property("verdict", word),
            property("before.statements", "900"),
            property("after.1.statements", sent[0]),
            property("after.2.statements", sent[1]),
            property("after.1.skipped", skipped[0]),
            property("after.2.skipped", skipped[1]),
        ]
        .concat()
    };
    let server = "postgres://me@host/postgres";
    for (junit, words) in [
        (
            report("inconclusive", ["900", "900"], ["0", "0"]),
            "WARNING: the comparison is inconclusive",
        ),
        (
            report("no_regression", ["500", "100"], ["400", "800"]),
            "WARNING: of the statements after the migration 600 were sent and 1200 were not",
        ),
    ] {
        for (strict, code) in [("0", 0), ("1", 4)] {
            let (output, _) = pretended(server, strict, &junit);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
    let most = report("no_regression", ["800", "800"], ["100", "100"]);
    let (output, _) = pretended(server, "1", &most);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(pretended(server, "yes", &most).0.status.code(), Some(2));
}

#[test]
fn a_misspelt_condition_is_told_before_anything_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("m.sql"), "").unwrap();
    std::fs::create_dir(directory.path().join("w.workload")).unwrap();
    let output = Command::new(root().join("docs/ci/rehearse-migration.sh"))
        .current_dir(directory.path())
        .env("REHEARSE", env!("CARGO_BIN_EXE_rehearse"))
        .env("PSQL", "false")
        .env("WORKLOAD", "w.workload")
        .env("MIGRATION", "m.sql")
        .env("SERVER", "postgres://nobody@127.0.0.1:1/none")
        .env("FAIL_ON", "p99 >> 1.2x")
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--fail-on") && said.contains("FAIL_ON has an error"),
        "{said}"
    );
}

fn yaml(file: &str) -> Yaml {
    let content = std::fs::read_to_string(root().join(file)).unwrap();
    let mut documents =
        YamlLoader::load_from_str(&content).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(documents.len(), 1, "{file}");
    documents.remove(0)
}

fn keys(yaml: &Yaml) -> BTreeSet<String> {
    let hash = yaml.as_hash().unwrap();
    hash.keys()
        .map(|key| key.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the environment variables that the script documents.
fn taken() -> BTreeSet<String> {
    let script = std::fs::read_to_string(root().join("docs/ci/rehearse-migration.sh")).unwrap();
    let head = script.lines().take_while(|line| line.starts_with('#'));
    let named = head
        .filter_map(|line| line.strip_prefix("#   "))
        .filter(|line| !line.starts_with(' '));
    let names = |line: &str| -> Vec<String> {
        let word = |word: &str| word.trim_end_matches(',').to_owned();
        line.split(' ')
            .map(word)
            .take_while(|word| {
                word.len() > 2
                    && word
                        .chars()
                        .all(|letter| letter.is_ascii_uppercase() || letter == '_')
            })
            .collect()
    };
    named.flat_map(names).collect()
}

#[test]
fn the_examples_say_what_the_script_takes() {
    let taken = taken();
    assert!(
        taken.len() >= 12 && taken.contains("PG_RESTORE"),
        "{taken:?}"
    );
    let action = yaml(".github/actions/rehearse/action.yml");
    assert_eq!(action["runs"]["using"].as_str(), Some("composite"));
    let inputs = keys(&action["inputs"]);
    let steps = action["runs"]["steps"].as_vec().unwrap();
    let step = &steps[0];
    assert!(
        step["run"]
            .as_str()
            .unwrap()
            .contains("docs/ci/rehearse-migration.sh")
    );
    let given = keys(&step["env"]);
    assert!(given.is_subset(&taken), "{given:?}");
    let mut used = BTreeSet::new();
    let content =
        std::fs::read_to_string(root().join(".github/actions/rehearse/action.yml")).unwrap();
    for piece in content.split("inputs.").skip(1) {
        let end = piece
            .find(|letter: char| !letter.is_ascii_lowercase() && letter != '-')
            .unwrap();
        used.insert(piece[..end].to_owned());
    }
    assert_eq!(used, inputs);
    for step in steps {
        // A composite action's step that runs something names its shell.
        assert_eq!(
            step["run"].is_badvalue(),
            step["shell"].is_badvalue(),
            "{step:?}"
        );
    }

    let workflow = yaml("docs/ci/github-workflow.yml");
    let steps = workflow["jobs"]["rehearse"]["steps"].as_vec().unwrap();
    let action_step = steps.last().unwrap();
    assert!(
        action_step["uses"]
            .as_str()
            .unwrap()
            .ends_with("/.github/actions/rehearse")
    );
    let with = keys(&action_step["with"]);
    assert!(with.is_subset(&inputs), "{with:?}");
    assert!(with.contains("workload") && with.contains("migration"));

    let gitlab = yaml("docs/ci/gitlab-ci.yml");
    let job = &gitlab["rehearse"];
    let mut variables = keys(&job["variables"]);
    assert!(variables.remove("POSTGRES_PASSWORD"));
    assert!(variables.is_subset(&taken), "{variables:?}");
    assert!(
        job["script"][0]
            .as_str()
            .unwrap()
            .ends_with("docs/ci/rehearse-migration.sh")
    );
    let out = job["variables"]["OUT"].as_str().unwrap();
    assert_eq!(
        job["artifacts"]["reports"]["junit"].as_str().unwrap(),
        format!("{out}/junit.xml")
    );
    // The conditions of both can be read.
    for conditions in [
        &action_step["with"]["fail-on"],
        &job["variables"]["FAIL_ON"],
    ] {
        for line in conditions.as_str().unwrap().lines() {
            compare::condition::Condition::parse(line).unwrap();
        }
    }
}

#[test]
fn the_table_of_quantities_is_that_of_the_program() {
    let guide = std::fs::read_to_string(root().join("docs/reference/fail-on.md")).unwrap();
    let rows = guide.lines().filter_map(|line| {
        let row = line.strip_prefix("| `")?;
        let (word, rest) = row.split_once("` | ")?;
        Some((word.to_owned(), rest.to_owned()))
    });
    let rows: Vec<(String, String)> = rows.collect();
    let known = &compare::condition::QUANTITIES;
    let words: Vec<&str> = rows.iter().map(|(word, _)| word.as_str()).collect();
    let expected: Vec<&str> = known.iter().map(|one| one.word).collect();
    assert_eq!(words, expected);
    for ((word, rest), one) in rows.iter().zip(known) {
        assert!(rest.contains(one.meaning), "{word}: {}", one.meaning);
        let before: Vec<String> = one
            .takes_before_it()
            .iter()
            .map(|word| format!("`{word}.`"))
            .collect();
        let before = match before.is_empty() {
            true => "–".to_owned(),
            false => before.join(" "),
        };
        assert!(rest.contains(&format!("| {before} |")), "{word}: {before}");
        assert_eq!(
            rest.contains("`.low` `.high`"),
            one.has_interval(),
            "{word}"
        );
    }
    // Every example of the guide can be read.
    let mut examples = 0;
    for piece in guide.split("--fail-on '").skip(1) {
        let example = piece.split('\'').next().unwrap();
        compare::condition::Condition::parse(example).unwrap_or_else(|error| panic!("{error}"));
        examples += 1;
    }
    assert!(examples >= 8, "{examples}");
}
