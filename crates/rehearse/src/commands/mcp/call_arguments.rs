//! The tools, and the arguments of their calls.

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "arguments", rename_all = "snake_case")]
pub enum Call {
    /// Lists artefacts and logs.
    List(List),
    /// Summarises an artefact or a log.
    Inspect(Inspect),
    /// Shows one statement.
    Statement(Statement),
    /// Compares runs.
    Compare(Compare),
    /// Applies the rules of the diagnosis.
    Diagnose(Diagnose),
    /// Shows plans that a run recorded.
    Plan(Plan),
    /// Measures a change on a copy of a private server.
    Prove(Prove),
}

/// Arguments of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Directory to list [default: all roots].
    #[serde(default)]
    pub path: Option<String>,
}

/// Arguments of `inspect`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inspect {
    /// NAME.workload, NAME.run, NAME.proof, or a server log, as `list` shows it.
    pub path: String,
}

/// Arguments of `statement`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// NAME.workload, NAME.run, or a server log.
    pub path: String,
    /// Fingerprint of the statement: 16 hexadecimal digits.
    pub fingerprint: String,
}

/// Arguments of `compare`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// Runs before the change.
    pub before: Vec<String>,
    /// Runs after the change.
    pub after: Vec<String>,
    /// Differences up to this percentage are no difference [default: 10].
    #[serde(default)]
    pub margin: Option<f64>,
}

/// Arguments of `diagnose`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diagnose {
    /// NAME.run or NAME.workload.
    pub path: String,
}

/// Arguments of `plan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// NAME.run of a replay with --explain.
    pub path: String,
    /// Fingerprint of the statement [default: all, by descending time].
    #[serde(default)]
    pub fingerprint: Option<String>,
}

/// Arguments of `prove`. Several changes are tested separately, then all combined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prove {
    /// NAME.workload to replay.
    pub path: String,
    /// Private server with the data. The proof is on a copy of it.
    pub sandbox: String,
    /// Database that the sessions connect to [default: that of the workload].
    #[serde(default)]
    pub database: Option<String>,
    /// Role that the sessions connect as [default: those of the workload]. Superusers, and roles that can execute programs
    /// or access files of the server, are refused.
    #[serde(default)]
    pub role: Option<String>,
    /// Settings of the planner or of memory, each one change: "work_mem=64MB; jit=off".
    #[serde(default)]
    pub settings: Vec<String>,
    /// Indexes, each one change.
    #[serde(default)]
    pub indexes: Vec<Index>,
    /// Number that is to improve: total, p50, p99, cpu, wal, blocks or throughput [default: total].
    #[serde(default)]
    pub goal: Option<String>,
    /// Differences up to this percentage are no difference [default: 5].
    #[serde(default)]
    pub margin: Option<f64>,
    /// Time of all runs, such as 10m [default: four fifths of the server's --time-limit].
    #[serde(default)]
    pub time_budget: Option<String>,
    /// Speed of the replays: 1, 2, 0.5 or max [default: 1].
    #[serde(default)]
    pub speed: Option<String>,
}

/// An index to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Schema of the table [default: found by the search path].
    #[serde(default)]
    pub schema: Option<String>,
    /// Name of the table.
    pub table: String,
    /// Names of the columns, in the order of the index.
    pub columns: Vec<String>,
}

/// Description of a tool.
pub struct ToolDescription {
    /// Name.
    pub name: &'static str,
    /// Purpose, and contents of the answer.
    pub description: &'static str,
    /// JSON schema of the arguments.
    pub arguments: serde_json::Map<String, Value>,
}

/// Returns the tools, with `prove` only if proofs are allowed.
pub fn tools(allows_proofs: bool) -> Vec<ToolDescription> {
    let mut all = vec![
        describe::<List>(
            "list",
            "Lists workloads, runs, proofs and server logs below the roots of this server, the newest first, with their paths. Says if the listing is incomplete.",
        ),
        describe::<Inspect>(
            "inspect",
            "Summarises an artefact: of a workload or a server log the statements by time, errors, sessions, waits and unreadable lines; of a run the outcome, times and differences from the capture; of a proof its verdicts.",
        ),
        describe::<Statement>(
            "statement",
            "Shows one statement of a workload, a log or a run: its normalised text, calls, times, errors and rows. Counts executions that belong to no statement separately.",
        ),
        describe::<Compare>(
            "compare",
            "Compares runs before and after a change, statement by statement, with a statistical test. The verdicts are those of `rehearse compare`.",
        ),
        describe::<Diagnose>(
            "diagnose",
            "Applies the rules of `rehearse diagnose` to a run or a workload: findings with evidence, an upper bound of each gain, and remedies.",
        ),
        describe::<Plan>(
            "plan",
            "Shows the execution plans that a run recorded, without the values of conditions. No server is asked.",
        ),
    ];
    if allows_proofs {
        all.push(describe::<Prove>(
            "prove",
            "Measures changes against the unchanged database on the same traffic, on a copy of a private server that is deleted afterwards. The verdicts are those of `rehearse prove`. It takes minutes.",
        ));
    }
    all
}

fn describe<A: JsonSchema>(name: &'static str, description: &'static str) -> ToolDescription {
    let schema = SchemaGenerator::default().into_root_schema_for::<A>();
    let arguments = match serde_json::to_value(schema) {
        Ok(Value::Object(schema)) => schema,
        _ => Default::default(),
    };
    ToolDescription {
        name,
        description,
        arguments,
    }
}

impl Call {
    /// Parses the arguments of a tool that exists.
    ///
    /// # Errors
    /// If an argument is unknown, missing or of another type.
    pub fn parse(name: &str, arguments: Value) -> Result<Self, String> {
        let call = json!({ "name": name, "arguments": arguments });
        serde_json::from_value(call).map_err(|error| {
            format!("the arguments of `{name}` cannot be used: {error}; see its input schema")
        })
    }

    /// Reports whether it stops in an orderly way, since it has a server to delete.
    pub fn has_server(&self) -> bool {
        matches!(self, Call::Prove(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_can_be_called_with_its_required_arguments() {
        let example = |name: &str| match name {
            "path" => json!("a.run"),
            "fingerprint" => json!("0123456789abcdef"),
            "sandbox" => json!("main"),
            _ => json!(["a.run"]),
        };
        for tool in tools(true) {
            let required = tool.arguments.get("required").and_then(Value::as_array);
            let names = required.into_iter().flatten().filter_map(Value::as_str);
            let arguments: serde_json::Map<String, Value> =
                names.map(|name| (name.to_owned(), example(name))).collect();
            Call::parse(tool.name, arguments.into()).unwrap();
        }
        assert!(!tools(false).iter().any(|tool| tool.name == "prove"));
    }

    #[test]
    fn argument_that_is_unknown_or_missing_is_named() {
        let error = |arguments| Call::parse("inspect", arguments).unwrap_err();
        assert!(error(json!({ "path": "a.run", "limit": 3 })).contains("`limit`"));
        assert!(error(json!({})).contains("`path`"));
    }
}
