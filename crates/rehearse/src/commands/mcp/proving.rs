//! `prove`: measures changes on a copy of a private server.

use std::time::Duration;

use compare::proof::Goal;
use replay::Options;
use report::proof_progress::ProofNarrator;
use report::proof_text;
use serde_json::json;
use study::proof::sides::{self, side_conditions};
use study::proof::{
    Change, ProofEnd, ProofGoal, ProofPlace, ProofRequest, perform_proof, summarise,
};
use study::sweep::{Setting, levels};
use study::{EndReason, Failure, baseline_run, keys};
use workload::Literals;

use super::answer::{Answer, STYLE};
use super::call_arguments::{Index, Prove};
use super::reading::{NoPages, Reading, margin};

/// Settings of the planner and of memory. None names a file, a program or a library, or moves data out of the server.
const ALLOWED_SETTINGS: [&str; 24] = [
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "default_statistics_target",
    "effective_cache_size",
    "effective_io_concurrency",
    "from_collapse_limit",
    "hash_mem_multiplier",
    "join_collapse_limit",
    "logical_decoding_work_mem",
    "maintenance_work_mem",
    "max_parallel_workers",
    "max_parallel_workers_per_gather",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "plan_cache_mode",
    "random_page_cost",
    "seq_page_cost",
    "shared_buffers",
    "work_mem",
];
/// Beginnings of names of further planner settings: `enable_hashjoin`, `jit_above_cost`, `geqo_threshold`.
const ALLOWED_PREFIXES: [&str; 3] = ["enable_", "jit_", "geqo_"];
/// Names with such a beginning that are no planner settings.
const REFUSED: [&str; 4] = [
    "jit_debugging_support",
    "jit_dump_bitcode",
    "jit_profiling_support",
    "jit_provider",
];
/// Settings that are such a beginning.
const ALLOWED_ALONE: [&str; 2] = ["jit", "geqo"];

/// Share of a call's time limit that the runs of a proof may take. Copying and reporting take the rest.
const BUDGET_SHARE: f64 = 0.8;
const MARGIN_DEFAULT: f64 = 0.05;
const BLOCKS_MAX: u32 = 16;
const NOISE_RUNS: u32 = 3;

impl Reading<'_> {
    /// Proves changes. `time_limit` is that of the call.
    ///
    /// # Errors
    /// If a change is not allowed, or the proof cannot be done or was stopped.
    pub fn prove(&self, arguments: &Prove, time_limit: Duration) -> Result<Answer, Failure> {
        let path = self.roots.resolve(&arguments.path)?;
        let changes = changes(arguments)?;
        let sides = sides::sides_of_changes(changes)?;
        side_conditions(&sides)?;
        let whole = keys::open_workload(&path)?;
        let database = baseline_run::choose_database(&whole, arguments.database.as_deref())?;
        let output = self.scratch.join("mcp.proof");
        let mut options = Options {
            speed: parse(arguments.speed.as_deref().unwrap_or("1"))?,
            ..Options::default()
        };
        options.logins.database = arguments.database.clone();
        options.logins.user = arguments.role.clone();
        let goal = arguments.goal.as_deref();
        let request = ProofRequest {
            output: output.clone(),
            resume: false,
            goal: ProofGoal {
                goal: goal.map_or(Ok(Goal::Total), parse)?,
                margin: margin(arguments.margin, MARGIN_DEFAULT)?,
                time_budget: time_budget(arguments.time_budget.as_deref(), time_limit)?,
                can_change_time: false,
                ends_if_too_short: false,
                uses_all_time: false,
                blocks: BLOCKS_MAX,
                noise_runs: NOISE_RUNS,
                seed: None,
            },
            place: ProofPlace {
                sandbox: Some(arguments.sandbox.clone()),
                copies_sandbox: true,
                refuses_privileged_roles: true,
                database: Some(database),
                ..ProofPlace::default()
            },
            replay: options,
            session_options: Vec::new(),
        };
        let narrator = &mut ProofNarrator::default();
        let begun = &|_: &std::path::Path| Ok(());
        let (journal, ended) =
            perform_proof(&request, sides, &whole, self.interrupt, begun, narrator)?;
        if ended == EndReason::Interrupted {
            return Err(Failure::could_not(
                "the proof was stopped before its verdict",
            ));
        }
        let mut report = summarise(&journal, ended, Literals::Hidden, &mut NoPages)?;
        report.name = format!("proof of {}", path.display());
        // The comparisons are deleted with the scratch directory.
        report.sides.iter_mut().for_each(|side| side.page = None);
        let text = proof_text::render_text(&report, &STYLE);
        let content = json!({
            "paths": [path],
            "kind": "proof",
            "is_stopped": report.ended == ProofEnd::Stopped,
            "report": report,
        });
        Ok(Answer::within(self.limits, &text, content))
    }
}

fn parse<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, Failure> {
    text.parse()
        .map_err(|error: T::Err| Failure::usage(error.to_string()))
}

fn time_budget(given: Option<&str>, time_limit: Duration) -> Result<Duration, Failure> {
    let most = time_limit.mul_f64(BUDGET_SHARE);
    let given = given.map(clock::parse_duration).transpose();
    match given.map_err(Failure::usage)? {
        None => Ok(most),
        Some(given) if given <= most => Ok(given),
        Some(given) => Err(Failure::usage(format!(
            "a time budget of {} is beyond the limit of a call; give {} or less, or start the server with a larger --time-limit",
            span(given),
            span(most)
        ))),
    }
}

fn span(time: Duration) -> String {
    clock::duration_text(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

fn changes(arguments: &Prove) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    for text in &arguments.settings {
        changes.push(Change::Settings(allowed_settings(text)?));
    }
    for index in &arguments.indexes {
        changes.push(create_index(index)?);
    }
    match changes.is_empty() {
        true => Err(Failure::usage(
            "nothing says what is changed; give `settings` such as \"work_mem=64MB\", or `indexes`",
        )),
        false => Ok(changes),
    }
}

/// Parses settings of one change.
fn allowed_settings(text: &str) -> Result<Vec<Setting>, Failure> {
    let parsed = levels::parse_settings(text).filter(|all| !all.is_empty());
    let settings = parsed.ok_or_else(|| {
        Failure::usage(format!(
            "'{text}' is no setting; give NAME=VALUE, or several with semicolons between them"
        ))
    })?;
    for setting in &settings {
        let name = setting.name.to_ascii_lowercase();
        let has_prefix = ALLOWED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
        let is_known = [&ALLOWED_SETTINGS[..], &ALLOWED_ALONE]
            .concat()
            .contains(&name.as_str());
        if !(is_known || has_prefix) || REFUSED.contains(&name.as_str()) {
            return Err(Failure::usage(format!(
                "the setting {} is not allowed here; give settings of the planner or of memory, such as work_mem, random_page_cost or enable_nestloop, or use `rehearse prove --set`",
                setting.name
            )));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_ ".contains(c);
        if setting.value.is_empty() || !setting.value.chars().all(is_plain) {
            return Err(Failure::usage(format!(
                "the value of {} is no number, unit or word; give one such as 64MB, 1.1 or off",
                setting.name
            )));
        }
    }
    Ok(settings)
}

fn create_index(index: &Index) -> Result<Change, Failure> {
    if index.columns.is_empty() {
        return Err(Failure::usage(format!(
            "the index on {} has no columns; give their names",
            index.table
        )));
    }
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let table = index.schema.iter().chain([&index.table]).map(quoted);
    let table = table.collect::<Vec<_>>().join(".");
    let columns = index
        .columns
        .iter()
        .map(quoted)
        .collect::<Vec<_>>()
        .join(", ");
    let text = format!("CREATE INDEX ON {table} ({columns})");
    Ok(Change::Sql {
        path: text.clone(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_beyond_planner_and_memory_are_refused() {
        for allowed in [
            "work_mem=64MB",
            "JIT=off; random_page_cost=1.1",
            "enable_seqscan=off",
            "geqo_threshold=3",
        ] {
            assert!(allowed_settings(allowed).is_ok(), "{allowed}");
        }
        for refused in [
            "archive_command=true",
            "work_mem=64MB; archive_command='touch /tmp/x'",
            "Archive_Command=true",
            "shared_preload_libraries=x",
            "session_preload_libraries=x",
            "local_preload_libraries=x",
            "jit_provider=x",
            "restore_command=x",
            "ssl_passphrase_command=x",
            "archive_library=x",
            "dynamic_library_path=/tmp",
            "log_directory=/tmp",
            "unix_socket_directories=/tmp",
            "fsync=off",
            "work_mem",
            "",
            "work_mem='1MB''; archive_command = ''x'",
            "work_mem=",
        ] {
            assert!(allowed_settings(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn names_of_an_index_cannot_end_its_statement() {
        let index = |schema: Option<&str>, table: &str, columns: &[&str]| Index {
            schema: schema.map(str::to_owned),
            table: table.to_owned(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        };
        let text = |index| create_index(&index).map(|change| change.name());
        assert_eq!(
            text(index(Some("shop"), "orders", &["a", "b"])).unwrap(),
            r#"CREATE INDEX ON "shop"."orders" ("a", "b")"#
        );
        assert_eq!(
            text(index(None, "t\" (a); DROP TABLE u; --", &["a"])).unwrap(),
            r#"CREATE INDEX ON "t"" (a); DROP TABLE u; --" ("a")"#
        );
        assert!(text(index(None, "t", &[])).is_err());
    }

    #[test]
    fn time_budget_is_limited_by_the_time_limit_of_a_call() {
        let minute = Duration::from_secs(60);
        assert_eq!(time_budget(None, minute).unwrap(), Duration::from_secs(48));
        assert_eq!(
            time_budget(Some("30s"), minute).unwrap(),
            Duration::from_secs(30)
        );
        assert!(
            time_budget(Some("50s"), minute)
                .unwrap_err()
                .message
                .contains("--time-limit")
        );
        assert!(time_budget(Some("soon"), minute).is_err());
    }
}
