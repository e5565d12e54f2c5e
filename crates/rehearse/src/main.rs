//! `rehearse`: replays a PostgreSQL database's real traffic against a change before it ships.
//!
//! `main` parses the options, runs a command, and converts its result to an exit code. This
//! crate is the only one that prints or exits. Each command is in a file of [`commands`], takes
//! its own typed options, and leaves the work to the libraries.

mod commands;
mod demo;
mod display;
mod exit_status;
mod live;
mod log;
mod metrics;
mod options;
mod otlp;
mod signals;
mod terminal;
mod webhook;

use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};

use crate::exit_status::ExitStatus;
use crate::options::{Command, Program};
use study::Failure;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let parsed = Program::command().try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Program::from_arg_matches(&matches)?, matches)));
    let (program, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse_arguments(&error),
    };
    let refused = options::find_without_effect(&matches);
    if let Some(reason) = refused.or_else(|| options::find_refused_url(&matches)) {
        terminal::complain(&reason);
        return ExitCode::from(2);
    }
    log::set_up(program.log);
    study::keys::set_key_file(program.keys.key);
    study::notes::set_listener(terminal::note);
    connect::set_warning_listener(|text| terminal::note(&format!("warning: {text}")));
    if let Err(error) = signals::survive_file_size_limit() {
        terminal::complain(&format!("the system refuses a signal handler: {error}"));
        return ExitCode::from(3);
    }
    match run(program.command) {
        // What was to be read is not there: nothing was found then, and nothing not found.
        Ok(_) if terminal::lost() => ExitCode::from(3),
        Ok(status) => status.into(),
        Err(failure) => {
            terminal::complain(&failure.message);
            exit_status::exit_code(&failure)
        }
    }
}

/// Reports arguments that cannot be parsed, without passwords and paths of webhooks in them. Help and version are results.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        terminal::say(&error.render().to_string());
        return ExitCode::SUCCESS;
    }
    let mut text = error.render().to_string();
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && Path::new(given).exists()
    {
        text.push_str(&format!(
            "{given} is no command; `rehearse capture log {given} -o NAME.workload` captures a log, `rehearse inspect {given}` describes it\n"
        ));
    }
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy().into_owned();
        let value = argument.split_once('=').map(|(_, value)| value.to_owned());
        for secret in [Some(argument), value].into_iter().flatten() {
            let shown =
                webhook::hide_http_path(&secret).unwrap_or_else(|| connect::hide_password(&secret));
            if shown != secret {
                text = text.replace(&secret, &shown);
            }
        }
    }
    terminal::explain(&text);
    ExitCode::from(2)
}

fn run(command: Command) -> Result<ExitStatus, Failure> {
    match command {
        Command::Capture(options) => commands::capture::run(options),
        Command::Inspect(options) => commands::inspect::run(&options),
        Command::Slice(options) => commands::slice::run(&options),
        Command::Rewrite(options) => commands::rewrite::run(&options),
        Command::Key(options) => commands::key::run(&options),
        Command::Mask(options) => commands::mask::run(&options),
        Command::Replay(options) => commands::replay::run(&options),
        Command::Observe(options) => commands::observe::run(&options),
        Command::Show(options) => commands::show::run(&options),
        Command::Compare(options) => commands::compare::run(&options),
        Command::Diagnose(options) => commands::diagnose::run(&options),
        Command::Profile(options) => commands::profile::run(&options),
        Command::Cpu(options) => commands::cpu::run(&options),
        Command::Lab(options) => commands::lab::run(&options),
        Command::ExportEvidence(options) => commands::export_evidence::run(&options),
        Command::Flame(options) => commands::flame::run(&options),
        Command::Sweep(options) => commands::sweep::run(&options),
        Command::Prove(options) => commands::prove::run(&options),
        Command::Indexes(options) => commands::indexes::run(&options),
        Command::Plans(options) => commands::plans::run(&options),
        Command::Upgrade(options) => commands::upgrade::run(&options),
        Command::History(options) => commands::history::run(&options),
        Command::Schema(options) => commands::schema::run(&options),
        Command::Recover(options) => commands::recover::run(&options),
        Command::Sandbox(options) => commands::sandbox::run(options),
        Command::Demo(options) => demo::run(&options),
        Command::Mcp(options) => commands::mcp::run(&options),
        Command::Doctor => commands::doctor::run(),
        Command::Completions(options) => commands::packaging::print_completions(&options),
        Command::Man(options) => commands::packaging::write_manual(&options),
    }
}
