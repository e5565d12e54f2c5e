//! Replays a workload without a suspected statement, to see whether the other statements are faster without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use compare::Direction;
use diagnose::{Evidence, Suspect, SuspectVerdict, SuspectedChange};
use sql::Pattern;
use transform::{Filter, PatternFilter, Slice};
use workload::WorkloadReader;

use crate::baseline_run;
use crate::compare_runs::{ComparisonRequest, compare_runs};
use crate::failure::Failure;
use crate::notes;
use crate::observed_replay::{ReplayDisplay, replay_observed};
use crate::partial_replay::write_part;
use crate::prove_findings::{BASELINE_RUN, FindingsRequest};
use crate::target_snapshot::ObservationPlan;

/// Part of the time budget that a replay may take at most.
const BUDGET_SHARE: f64 = 0.25;

/// Confirms that suspected statements may be cleared: the workload is replayed without each, and what other statements clearly gain
/// is added to its own time. It needs the replay that was diagnosed. If there is none, or it took too long to be repeated,
/// suspects are judged by their own time, and list the reason.
///
/// # Errors
/// If a replay fails or was stopped.
pub fn replay_without_suspects(
    request: &FindingsRequest<'_>,
    workload: &WorkloadReader,
    evidence: &Evidence,
    suspects: &mut [Suspect],
    display: &mut dyn ReplayDisplay,
) -> Result<(), Failure> {
    let baseline = request.proof.output.join(BASELINE_RUN);
    let cleared = suspects.iter_mut().filter(|one| {
        one.verdict == SuspectVerdict::Cleared && SuspectedChange::parse(&one.pattern).is_none()
    });
    for (number, suspect) in cleared.enumerate() {
        let spare = request.time_left().mul_f64(BUDGET_SHARE);
        if !baseline.exists() || Duration::from_secs_f64(evidence.elapsed_s) > spare {
            suspect.unknown.push(
                "whether other statements are faster without it: give a workload, and with --time-budget four times the time of its \
                 replay"
                    .to_owned(),
            );
            continue;
        }
        let without = format!("without-{}.run", number + 1);
        let run = Replays { request, workload }.replay(
            &request.proof.output.join(without),
            Some(suspect),
            display,
        )?;
        let mut gain_ns = others_gain_ns(vec![baseline.clone()], &run)?;
        if evidence.share(gain_ns) + suspect.max_gain >= suspect.threshold {
            // The machine may have been busy during the first replay.
            let again = request
                .proof
                .output
                .join(format!("with-{}.run", number + 1));
            let again = Replays { request, workload }.replay(&again, None, display)?;
            gain_ns = others_gain_ns(vec![baseline.clone(), again], &run)?;
        }
        suspect.add_replay_without(gain_ns, evidence.share(gain_ns));
    }
    Ok(())
}

/// Replays in the sandbox.
struct Replays<'a> {
    request: &'a FindingsRequest<'a>,
    workload: &'a WorkloadReader,
}

impl Replays<'_> {
    /// Replays the workload as it was, or without the statements of a suspect. Returns the path of the run.
    fn replay(
        &self,
        output: &Path,
        without: Option<&Suspect>,
        display: &mut dyn ReplayDisplay,
    ) -> Result<PathBuf, Failure> {
        let place = &self.request.proof.place;
        let database = baseline_run::choose_database(self.workload, place.database.as_deref())?;
        let mut engine = self.request.proof.replay.clone();
        let interrupt = self.request.interrupt;
        let part = match without {
            None => None,
            Some(suspect) => {
                notes::note(&format!(
                    "A replay without {}, to see whether the others are faster.",
                    suspect.pattern
                ));
                let excluded: Vec<String> = suspect
                    .statements
                    .iter()
                    .map(|one| one.name.clone())
                    .collect();
                let patterns = excluded.iter().map(|sql| Pattern::whole_statement(sql));
                let slice = Slice {
                    filter: Filter {
                        statements: PatternFilter {
                            included: Vec::new(),
                            excluded: patterns.collect(),
                        },
                        ..Filter::default()
                    },
                    ..Slice::default()
                };
                let given = BTreeMap::from([("not_statement".to_owned(), excluded)]);
                let whole = self.workload.clone();
                Some(write_part(whole, slice, given, Some(output), interrupt)?)
            }
        };
        if let Some(part) = &part {
            engine.workload_name = Some(self.workload.path().display().to_string());
            engine.part = part.options.clone();
        }
        let reader = part.as_ref().map_or(self.workload, |part| &part.reader);
        let mut lease = baseline_run::lease_sandbox(place.sandbox.as_deref(), &database)?;
        let target = lease.restart_with_statistics()?;
        let asked = ObservationPlan {
            facts: true,
            plans: None,
            profile: None,
            watch: Some(observe::MonitorOptions::default()),
        };
        let done = replay_observed(reader, &target, &engine, asked, output, interrupt, display);
        lease.release()?;
        baseline_run::require_complete(&done?)?;
        Ok(output.to_owned())
    }
}

/// Returns the time that statements took less in a run, if they were clearly faster for a reason of their own.
fn others_gain_ns(before: Vec<PathBuf>, after: &Path) -> Result<f64, Failure> {
    let comparison = compare_runs(&ComparisonRequest {
        before,
        after: vec![after.to_owned()],
        ..ComparisonRequest::default()
    })?;
    let statements = comparison.statements.iter();
    let faster = statements.filter(|one| one.change.is_cause(Direction::Faster));
    let gains = faster.filter_map(|one| one.service.added_ns);
    Ok(gains.fold(0.0, |sum, added_ns| sum + (-added_ns).max(0.0)))
}
