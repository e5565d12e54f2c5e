//! `rehearse upgrade`: rehearses a major upgrade, and checks what it refuses or forgets.

use std::path::Path;

use replay::Target;
use report::output_file::{self, UPGRADE_MARKDOWN};
use report::proof_progress::ProofNarrator;
use report::{
    result_files, to_document, upgrade_inspect_markdown, upgrade_inspect_text, upgrade_text,
    upgrade_verify_text,
};
use study::upgrade_inspect::{NewServer, UpgradeInspectRequest, inspect_upgrade};
use study::upgrade_rehearsal::{
    FinishProof, UpgradeDecision, UpgradeRequest, rehearse_on_clones, rehearse_upgrade,
};
use study::upgrade_verify::{UpgradeVerifyRequest, VerificationVerdict, verify_upgrade};
use study::{Failure, keys};

use crate::commands::observe::progress;
use crate::commands::sandbox::find;
use crate::commands::show::literals;
use crate::exit_status::ExitStatus;
use crate::options::upgrade::{Upgrade, UpgradeAction, UpgradeInspect, UpgradeVerify};
use crate::terminal;

/// Value of `--markdown` that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Carries out the action.
pub fn run(options: &Upgrade) -> Result<ExitStatus, Failure> {
    match &options.action {
        Some(UpgradeAction::Inspect(options)) => inspect(options),
        Some(UpgradeAction::Verify(options)) => verify(options),
        None => rehearse(options),
    }
}

fn rehearse(options: &Upgrade) -> Result<ExitStatus, Failure> {
    let (Some(workload), Some(from), Some(servers), Some(output)) = (
        &options.workload,
        &options.from,
        options.servers()?,
        &options.output,
    ) else {
        return Err(Failure::usage(
            "a rehearsal needs NAME.workload, --from URL, --to MAJOR or --target URL, and -o NAME.upgrade",
        ));
    };
    let from = Target::parse(from, |name| std::env::var(name).ok())?;
    let literals = literals(options.show_literals);
    let request = UpgradeRequest {
        from: &from,
        servers,
        output,
        resume: options.resume,
        within: options.within,
        replay: options.replay_options(),
        session_options: options.session.described().collect(),
        find,
        literals,
    };
    let workload = keys::open_workload(workload)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let display = &mut ProofNarrator::of_upgrade();
    let finish: FinishProof<'_> =
        &mut |journal, ended| result_files::write_proof(journal, ended, literals);
    let report = match options.clone_request() {
        Some(clones) => {
            rehearse_on_clones(request, &clones, &workload, &interrupt, display, finish)?
        }
        None => rehearse_upgrade(&request, &workload, &interrupt, display, finish)?,
    };
    result_files::write_upgrade(output, &report)?;
    terminal::say(&match options.json {
        true => to_document(&report),
        false => upgrade_text::render_text(&report, &terminal::style()),
    });
    Ok(match report.decision {
        // Without an action before it, the upgrade fails: a pipeline must not continue.
        UpgradeDecision::GoWithRemedies if report.is_blocked() => ExitStatus::Findings,
        UpgradeDecision::Go | UpgradeDecision::GoWithRemedies => ExitStatus::Success,
        UpgradeDecision::NoGo => ExitStatus::Findings,
        UpgradeDecision::Undecided => ExitStatus::NotProven,
    })
}

fn verify(options: &UpgradeVerify) -> Result<ExitStatus, Failure> {
    let target = Target::parse(&options.target, |name| std::env::var(name).ok())?;
    let request = UpgradeVerifyRequest {
        rehearsal: &options.rehearsal,
        target: &target,
        workload: options.workload.as_deref(),
        duration: options.duration,
        find,
    };
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let mut progress = progress(Some(options.duration));
    let result = verify_upgrade(&request, &interrupt, &mut *progress)?;
    terminal::say(&match options.json {
        true => to_document(&result),
        false => upgrade_verify_text::render_text(&result, &terminal::style()),
    });
    Ok(match result.verdict {
        VerificationVerdict::AsRehearsed => ExitStatus::Success,
        VerificationVerdict::Differs => ExitStatus::Findings,
        VerificationVerdict::NotObserved => ExitStatus::NotProven,
    })
}

fn inspect(options: &UpgradeInspect) -> Result<ExitStatus, Failure> {
    let is_markdown = options.markdown.as_deref() == Some(Path::new(STANDARD_OUTPUT));
    if options.json && is_markdown {
        return Err(Failure::usage(
            "--json and --markdown - both print to standard output; give --markdown a file",
        ));
    }
    let parse = |url: &str| Target::parse(url, |name| std::env::var(name).ok());
    let from = parse(&options.from)?;
    let target = options.target.as_deref().map(parse).transpose()?;
    let request = UpgradeInspectRequest {
        from: &from,
        to: match (&target, options.to) {
            (Some(target), major) => NewServer::Upgraded { target, major },
            (None, Some(major)) => NewServer::Private(major),
            (None, None) => {
                return Err(Failure::usage(
                    "the new version is missing; give --to MAJOR, or --target URL",
                ));
            }
        },
        method: options.method.method(),
        find,
    };
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let result = inspect_upgrade(&request, &interrupt)?;
    if let Some(path) = options.markdown.as_deref().filter(|_| !is_markdown) {
        let text = upgrade_inspect_markdown::render_markdown(&result);
        output_file::write(UPGRADE_MARKDOWN, path, &text)?;
    }
    terminal::say(&match (options.json, is_markdown) {
        (true, _) => to_document(&result),
        (false, true) => upgrade_inspect_markdown::render_markdown(&result),
        (false, false) => upgrade_inspect_text::render_text(&result, &terminal::style()),
    });
    let is_failure = options.fail_on.is_some_and(|limit| {
        let mut severities = result.findings.iter().map(|one| one.severity);
        severities.any(|severity| severity <= limit.severity())
    });
    // A part that was not read may have a finding of every severity.
    let mut unchecked = result.unchecked.iter();
    let is_undecided = options.fail_on.is_some() && unchecked.any(|part| part.can_block());
    Ok(match (is_failure, is_undecided) {
        (true, _) => ExitStatus::Findings,
        (false, true) => ExitStatus::NotProven,
        (false, false) => ExitStatus::Success,
    })
}
