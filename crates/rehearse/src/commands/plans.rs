//! `rehearse plans`: exports what a planner reads, and checks plans without the data.

use std::path::Path;

use replay::Target;
use report::output_file::{self, PAGE, PLANS_MARKDOWN};
use report::{plans_check_text, plans_markdown, plans_page, to_document};
use study::plan_check::{PlanCheckRequest, SideRequest, check_plans};
use study::plan_export::export_planner;
use study::{ChangeScript, Failure, keys};

use crate::commands::mask::mask_of;
use crate::commands::sandbox::find;
use crate::commands::show::literals;
use crate::exit_status::ExitStatus;
use crate::options::plans::{Plans, PlansAction, PlansCheck, PlansExport};
use crate::terminal;

/// Value of `--markdown` that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Carries out the action.
pub fn run(options: &Plans) -> Result<ExitStatus, Failure> {
    match &options.action {
        PlansAction::Export(options) => export(options),
        PlansAction::Check(options) => check(options),
    }
}

fn export(options: &PlansExport) -> Result<ExitStatus, Failure> {
    let target = Target::parse(&options.target, |name| std::env::var(name).ok())?;
    let mask = options.mask.as_ref();
    let mask = mask
        .map(|key| mask_of(key, &options.mask_keep))
        .transpose()?;
    let exported = export_planner(&target, &options.output, mask.as_ref())?;
    terminal::say(&plans_check_text::render_export(&exported));
    Ok(ExitStatus::Success)
}

fn check(options: &PlansCheck) -> Result<ExitStatus, Failure> {
    let is_markdown = options.markdown.as_deref() == Some(Path::new(STANDARD_OUTPUT));
    if options.json && is_markdown {
        return Err(Failure::usage(
            "--json and --markdown - both print to standard output; give --markdown a file",
        ));
    }
    let needs = options.fail_on.iter().find(|one| one.needs_perturbation());
    if let (0, Some(condition)) = (options.perturb, needs) {
        return Err(Failure::usage(format!(
            "--fail-on {condition} is decided with perturbed statistics, and --perturb is 0; give --perturb 4"
        )));
    }
    let (before, after) = sides(options)?;
    let page = options.html.as_deref().map(|path| (PAGE, path));
    let markdown = options.markdown.as_deref().filter(|_| !is_markdown);
    let markdown = markdown.map(|path| (PLANS_MARKDOWN, path));
    let request = PlanCheckRequest {
        planner: &options.planner,
        before,
        after,
        find,
        literals: literals(options.show_literals),
        perturbed_copies: options.perturb,
        conditions: &options.fail_on,
    };
    let workload = keys::open_workload(&options.workload)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let files: Vec<_> = page.into_iter().chain(markdown).collect();
    let outputs = output_file::begin(&files)?;
    let result = check_plans(&request, &workload, &interrupt)?;
    for output in outputs {
        let content = match output.form() {
            PAGE => plans_page::render_html(&result),
            _ => plans_markdown::render_markdown(&result),
        };
        output.finish(&content)?;
    }
    terminal::say(&match (options.json, is_markdown) {
        (true, _) => to_document(&result),
        (false, true) => plans_markdown::render_markdown(&result),
        (false, false) => plans_check_text::render_text(&result, &terminal::style()),
    });
    let holds = result.conditions.iter().any(|one| one.holds);
    Ok(match (holds, &result.undecided) {
        (true, _) => ExitStatus::Findings,
        (false, Some(_)) => ExitStatus::NotProven,
        (false, None) => ExitStatus::Success,
    })
}

/// Returns both sides, and refuses a check of a side with itself.
fn sides(options: &PlansCheck) -> Result<(SideRequest, SideRequest), Failure> {
    let (before, after) = match options.versions[..] {
        [] => (None, None),
        [one] => (Some(one), Some(one)),
        [before, after] => (Some(before), Some(after)),
        _ => {
            return Err(Failure::usage(
                "--version is given more than twice; give the versions before and after",
            ));
        }
    };
    let change = options.change.as_deref().map(read_change).transpose()?;
    let settings = options
        .settings
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failure::usage(format!(
                "--set '{pair}' is no setting; give NAME=VALUE, such as --set work_mem=64MB"
            ))),
        })
        .collect::<Result<Vec<_>, _>>()?;
    if change.is_none() && settings.is_empty() && (options.versions.len() < 2 || before == after) {
        return Err(Failure::usage(
            "both sides are the same; give --version twice, --change FILE.sql or --set NAME=VALUE",
        ));
    }
    let before = SideRequest {
        version: before,
        ..SideRequest::default()
    };
    let after = SideRequest {
        planner: None,
        version: after,
        change,
        settings,
    };
    Ok((before, after))
}

fn read_change(path: &Path) -> Result<ChangeScript, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "--change {} cannot be read ({error}); give a file of SQL",
            path.display()
        ))
    })?;
    Ok(ChangeScript::new(&path.display().to_string(), &text)?)
}
