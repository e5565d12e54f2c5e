//! `rehearse indexes`: derives candidates from plans, screens them with the planner, and
//! measures the best on the same traffic.

use archive::ArchiveError;
use report::proof_progress::ProofNarrator;
use run::RunReader;
use study::Failure;
use study::baseline_run;
use study::diagnosis;
use study::diagnosis_inputs;
use study::diagnosis_inputs::QueriedFacts;
use study::index_advice::{Advice, AdviceRequest, advise};
use study::keys;
use study::proof::{ProofJournal, perform_proof};

use crate::commands::prove;
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options::indexes::Indexes;
use crate::terminal;

/// Suggests and measures indexes, or shows a finished proof again.
pub fn run(options: &Indexes) -> Result<ExitStatus, Failure> {
    let form = (options.json, options.show_literals);
    if ProofJournal::is_at(&options.of) {
        return prove::show_again(&options.of, form);
    }
    let output = options.output.as_deref();
    let mut proof = options
        .place
        .proof(prove::required(output)?, &options.goal)?;
    proof.resume = options.resume;
    let thresholds = diagnosis::thresholds(&options.threshold)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let (workload, evidence) = match RunReader::open(&options.of) {
        Ok(run) => {
            let workload = baseline_run::open_workload_of_run(&run, options.workload.as_ref())?;
            let evidence = diagnosis_inputs::read_run_evidence(&run, QueriedFacts::default())?;
            (workload, Some(evidence))
        }
        Err(ArchiveError::WrongKind { .. } | ArchiveError::OtherKind { .. }) => {
            let workload = keys::open_workload(&options.of)?;
            if options.workload.is_some() {
                return Err(Failure::usage(
                    "--workload has no effect when indexes are suggested for a workload; give a run, or leave it out",
                ));
            }
            (workload, None)
        }
        Err(error) => return Err(error.into()),
    };
    let mut narrator = ProofNarrator::default();
    if options.resume {
        let sides = ProofJournal::open(&proof.output)?.plan().sides.clone();
        let database = baseline_run::choose_database(&workload, proof.place.database.as_deref())?;
        proof.place.database = Some(database);
        let begun = &|_: &_| Ok(());
        let (journal, ended) =
            perform_proof(&proof, sides, &workload, &interrupt, begun, &mut narrator)?;
        return prove::show(&journal, ended, form);
    }
    let wanted = AdviceRequest {
        proof: &proof,
        most: options.max_candidates as usize,
        built: options.no_hypopg,
        thresholds: &thresholds,
    };
    let displays = (&mut Display::on_terminal() as _, &mut narrator as _);
    match advise(&wanted, &workload, evidence, &interrupt, displays)? {
        Advice::Measured(journal, ended) => prove::show(&journal, ended, form),
        Advice::Nothing(why) => {
            terminal::say_line(if options.json { "null" } else { &why });
            Ok(ExitStatus::Success)
        }
    }
}
