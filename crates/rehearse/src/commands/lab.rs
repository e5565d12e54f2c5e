//! `rehearse lab`: runs a published case.

use std::io::BufReader;

use lab::{CaseName, CaseRequest, Context, run_case};
use report::{case_text, to_json};
use study::Failure;

use crate::commands::{observe, sandbox};
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options::lab::{CaseArgs, Lab, LabCase};
use crate::terminal;

/// Runs a case, or a process of its system.
pub fn run(options: &Lab) -> Result<ExitStatus, Failure> {
    let (name, args) = match &options.case {
        LabCase::Heap(args) => (CaseName::Heap, args),
        LabCase::Planning(args) => (CaseName::Planning, args),
        LabCase::Queue(args) => (CaseName::Queue, args),
        LabCase::Stall(args) => (CaseName::Stall, args),
        LabCase::Instance => {
            let input = BufReader::new(std::io::stdin());
            lab::run_instance(input, &mut std::io::stdout())?;
            return Ok(ExitStatus::Success);
        }
    };
    show(name, args)
}

/// Runs a case and prints its report. The exit code is 1 if an expected effect was not observed.
fn show(name: CaseName, args: &CaseArgs) -> Result<ExitStatus, Failure> {
    let request = CaseRequest {
        name,
        scale: args.size.into(),
        output: args.output.clone(),
        server: args.server.requirements(),
    };
    let context = Context {
        interrupt: crate::signals::listen().map_err(Failure::could_not)?,
        find_installation: sandbox::find,
        replay_display: || Box::new(Display::on_terminal()),
        observation_display: observe::progress,
    };
    let report = run_case(&request, context)?;
    match args.json {
        true => terminal::say_line(&to_json(&report)),
        false => terminal::say(&case_text::render_text(&report, &terminal::style())),
    }
    Ok(match report.is_shown() {
        true => ExitStatus::Success,
        false => ExitStatus::Findings,
    })
}
