//! Tools that read artefacts and logs.

use std::path::{Path, PathBuf};

use compare::CompareOptions;
use inspect::{Inspection, StatementOrder};
use report::inspect_text::{self, InspectTextOptions};
use report::{compare_text, diagnose_text, observed_text, proof_text, run_text};
use run::RunReader;
use serde_json::{Value, json};
use sql::Fingerprint;
use study::compare_runs::{ComparisonRequest, compare_runs};
use study::diagnosis::{DiagnosisInput, DiagnosisOptions, thresholds};
use study::proof::{ProofJournal, SideRenderer, summarise};
use study::run_summary::summarise_run;
use study::{EndReason, Failure, Interrupt, keys, observation, statement_details};
use workload::{Literals, RewriteNote, WorkloadReader};

use super::answer::{Answer, Limits, STYLE};
use super::call_arguments::{Compare, Diagnose, Inspect, Plan, Statement};
use super::listing::kind_of;
use super::roots::Roots;

/// Calls that read, with what they may read and write.
pub struct Reading<'r> {
    /// Directories with access.
    pub roots: &'r Roots,
    /// Limits of the answer.
    pub limits: Limits,
    /// Directory for temporary files.
    pub scratch: &'r Path,
    /// Stop request.
    pub interrupt: &'r Interrupt,
}

/// A workload, or the one captured from a log.
struct Traffic {
    reader: WorkloadReader,
    /// Account of the source's lines or bytes, as the capture reports it.
    capture: Value,
    kind: &'static str,
}

impl Reading<'_> {
    /// Summarises an artefact or a log.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn inspect(&self, arguments: &Inspect) -> Result<Answer, Failure> {
        let path = self.roots.resolve(&arguments.path)?;
        match kind_of(&path).as_deref() {
            Some("run") => self.inspect_run(&path),
            Some("proof") => self.inspect_proof(&path),
            _ => self.inspect_traffic(&path),
        }
    }

    fn inspect_traffic(&self, path: &Path) -> Result<Answer, Failure> {
        let traffic = self.traffic(path)?;
        let mut inspection = collect(&traffic.reader, path)?;
        inspection.sort(StatementOrder::Total);
        let shown = InspectTextOptions {
            order: Some(StatementOrder::Total),
            by: None,
            top: Some(10),
        };
        let text = inspect_text::render_text(&inspection, shown, &STYLE);
        let text = without_charts(&text);
        let account = account_line(&traffic.capture);
        let content = json!({
            "paths": [path],
            "kind": traffic.kind,
            "capture": traffic.capture,
            "report": without_field(to_value(&inspection)?, "by_statement", "over_time"),
        });
        Ok(self.answer(&format!("{account}{text}"), content))
    }

    fn inspect_run(&self, path: &Path) -> Result<Answer, Failure> {
        let reader = RunReader::open(path)?;
        let name = path.display().to_string();
        let (text, report) = match reader.info().is_observation() {
            true => {
                let view = observation::read_observation(&reader, &name)?;
                (observed_text::render_text(&view, &STYLE), to_value(&view)?)
            }
            false => {
                let view = summarise_run(&reader, &name, Literals::Hidden)?;
                (run_text::render_text(&view, &STYLE), to_value(&view)?)
            }
        };
        let content = json!({ "paths": [path], "kind": "run", "report": report });
        Ok(self.answer(&text, content))
    }

    fn inspect_proof(&self, path: &Path) -> Result<Answer, Failure> {
        let journal = ProofJournal::open(path)?;
        let report = summarise(
            &journal,
            EndReason::Complete,
            Literals::Hidden,
            &mut NoPages,
        )?;
        let text = proof_text::render_text(&report, &STYLE);
        let content = json!({ "paths": [path], "kind": "proof", "report": report });
        Ok(self.answer(&text, content))
    }

    /// Shows one statement.
    ///
    /// # Errors
    /// If the artefact cannot be read, or does not have the statement.
    pub fn statement(&self, arguments: &Statement) -> Result<Answer, Failure> {
        let path = self.roots.resolve(&arguments.path)?;
        let fingerprint = parse_fingerprint(&arguments.fingerprint)?;
        let (kind, statement) = match kind_of(&path).as_deref() {
            Some("run") => {
                let reader = RunReader::open(&path)?;
                let found = statement_details::run_statement(&reader, fingerprint)?;
                ("run", to_value(&found)?)
            }
            _ => {
                let traffic = self.traffic(&path)?;
                let inspection = collect(&traffic.reader, &path)?;
                let found = statement_details::workload_statement(&inspection, fingerprint)?;
                (traffic.kind, to_value(&found)?)
            }
        };
        let one = statement.get("statement").unwrap_or(&statement);
        let text = format!(
            "{fingerprint} in {}: {} calls of {} executions; {} executions have no fingerprint\n{}",
            path.display(),
            one["calls"],
            statement["executions"],
            statement["executions_without_fingerprint"],
            one["sql"].as_str().unwrap_or("(its text is unknown)"),
        );
        let content = json!({ "paths": [path], "kind": kind, "report": statement });
        Ok(self.answer(&text, content))
    }

    /// Shows the plans that a run recorded.
    ///
    /// # Errors
    /// If the run cannot be read, or has none.
    pub fn plan(&self, arguments: &Plan) -> Result<Answer, Failure> {
        let path = self.roots.resolve(&arguments.path)?;
        let reader = RunReader::open(&path)?;
        let fingerprint = arguments.fingerprint.as_deref().map(parse_fingerprint);
        let plans = statement_details::recorded_plans(&reader, fingerprint.transpose()?)?;
        let refused = |reason: &str| Failure::usage(format!("{} {reason}", path.display()));
        let plans = plans.ok_or_else(|| {
            refused("has no plans: the replay did not ask for them; replay with --explain")
        })?;
        if plans.is_empty() {
            return Err(refused(
                "has no plan of this statement; call `plan` without a fingerprint for those that it has",
            ));
        }
        let text = format!(
            "{} statements of {} with a plan, or the reason why there is none",
            plans.len(),
            path.display()
        );
        let content = json!({ "paths": [path], "kind": "run", "plans": plans });
        Ok(self.answer(&text, content))
    }

    /// Compares runs.
    ///
    /// # Errors
    /// If a run cannot be read, or is on both sides.
    pub fn compare(&self, arguments: &Compare) -> Result<Answer, Failure> {
        let side = |name: &str, given: &[String]| -> Result<Vec<PathBuf>, Failure> {
            if given.is_empty() {
                return Err(Failure::usage(format!(
                    "`{name}` has no run; give one or more"
                )));
            }
            given.iter().map(|path| self.roots.resolve(path)).collect()
        };
        let before = side("before", &arguments.before)?;
        let after = side("after", &arguments.after)?;
        let defaults = CompareOptions::default();
        let request = ComparisonRequest {
            before: before.clone(),
            after: after.clone(),
            options: CompareOptions {
                margin: margin(arguments.margin, defaults.margin)?,
                threads: std::thread::available_parallelism().map_or(1, usize::from),
                literals: Literals::Hidden,
                ..defaults
            },
            compares_time_breakdown: true,
            ..ComparisonRequest::default()
        };
        let comparison = compare_runs(&request)?;
        let text = compare_text::render_text(&comparison, &STYLE);
        let paths = [before, after].concat();
        let content = json!({
            "paths": paths,
            "kind": "comparison",
            "report": without_field(to_value(&comparison)?, "statements", "details"),
        });
        Ok(self.answer(&text, content))
    }

    /// Diagnoses a run or a workload.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn diagnose(&self, arguments: &Diagnose) -> Result<Answer, Failure> {
        let path = self.roots.resolve(&arguments.path)?;
        let thresholds = thresholds(&[])?;
        let options = DiagnosisOptions {
            impact_of: &[],
            thresholds: &thresholds,
        };
        let report = DiagnosisInput::read(&path, options)?.diagnose(&thresholds);
        let text = diagnose_text::render_text(&report, false, &STYLE);
        let content = json!({ "paths": [path], "kind": "diagnosis", "report": report });
        Ok(self.answer(&text, content))
    }

    /// Opens a workload, or captures a log into the scratch directory.
    fn traffic(&self, path: &Path) -> Result<Traffic, Failure> {
        if !path.is_file() {
            let reader = keys::open_workload(path)?;
            return Ok(Traffic {
                capture: reader.info().provenance.reconciliation.clone(),
                reader,
                kind: "workload",
            });
        }
        let output = self.scratch.join("log.workload");
        let files = [path.to_owned()];
        let captured = study::capture_log::capture_files(&files, &output, self.interrupt)?;
        Ok(Traffic {
            reader: keys::open_workload(&output)?,
            capture: to_value(&captured.report)?,
            kind: "log",
        })
    }

    fn answer(&self, text: &str, content: Value) -> Answer {
        Answer::within(self.limits, text, content)
    }
}

/// Renders no pages, since nothing is written next to an artefact.
pub struct NoPages;

impl SideRenderer for NoPages {
    fn comparison(&mut self, _: &str, _: &compare::Comparison) -> Result<(), Failure> {
        Ok(())
    }

    fn rewriting(&self, note: &RewriteNote) -> Vec<String> {
        report::rewrite_text::sentences(note)
    }
}

fn collect(reader: &WorkloadReader, path: &Path) -> Result<Inspection, Failure> {
    let mut inspection = crate::commands::inspect::collect(reader, Literals::Hidden)?;
    inspection.workload = path.display().to_string();
    Ok(inspection)
}

/// Removes a field of each row of a list: the data of the charts of a statement.
fn without_field(mut report: Value, list: &str, field: &str) -> Value {
    let rows = report[list].as_array_mut().into_iter().flatten();
    for row in rows.filter_map(Value::as_object_mut) {
        row.remove(field);
    }
    report
}

/// Keeps the facts and the list of statements of a workload's report. Its charts are in the structured content.
fn without_charts(text: &str) -> String {
    let paragraphs = text.split("\n\n").enumerate();
    let kept = paragraphs.filter(|(at, paragraph)| {
        *at == 0 || paragraph.starts_with("Statements by ") || paragraph.starts_with("Errors,")
    });
    kept.map(|(_, paragraph)| paragraph)
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Describes the account of a log's lines; empty for other sources.
fn account_line(capture: &Value) -> String {
    let Some(lines) = capture["lines"].as_u64() else {
        return String::new();
    };
    let skipped = capture["skipped"].as_object().into_iter().flatten();
    let skipped: u64 = skipped.filter_map(|(_, one)| one["lines"].as_u64()).sum();
    format!(
        "{lines} lines of the log: {} in events, {skipped} skipped, {} unreadable\n",
        capture["lines_in_events"], capture["unreadable"]["lines"]
    )
}

/// Converts a percentage that a call gives to a share.
///
/// # Errors
/// If it makes no sense.
pub fn margin(percent: Option<f64>, default: f64) -> Result<f64, Failure> {
    match percent {
        None => Ok(default),
        Some(percent) if (0.0..1_000.0).contains(&percent) => Ok(percent / 100.0),
        Some(percent) => Err(Failure::usage(format!(
            "a margin of {percent} % makes no sense; give a percentage from 0 to 1000"
        ))),
    }
}

fn parse_fingerprint(text: &str) -> Result<Fingerprint, Failure> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
    parsed.map(Fingerprint).ok_or_else(|| {
        Failure::usage(format!(
            "'{text}' is no fingerprint; give its 16 hexadecimal digits, as `inspect` shows them"
        ))
    })
}

/// Converts a result to JSON.
///
/// # Errors
/// If a number is not finite, which no result has.
pub fn to_value(result: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result)
        .map_err(|error| Failure::could_not(format!("the answer cannot be encoded: {error}")))
}
