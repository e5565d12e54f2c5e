//! `rehearse sandbox`: manages the user's private servers.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Command;

use ::sandbox::{Dirs, Installation, NamedSandbox, Options, Port, ServerRequirements, Stop};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit_status::ExitStatus;
use crate::options::{Sandbox, SandboxAction, SandboxUp};
use crate::terminal;
use study::{Failure, refuse_leased, restore_interrupted};

/// Creates, stops or lists private servers.
pub fn run(options: Sandbox) -> Result<ExitStatus, Failure> {
    let places = Dirs::from_environment()?;
    match options.action {
        SandboxAction::Up(up) => bring_up(&up, &places)?,
        SandboxAction::Start { name } => start(&name, &places)?,
        SandboxAction::Restore { name } => restore(&name, &places)?,
        SandboxAction::Down { name } => {
            ::sandbox::down(&name, &places)?;
            terminal::say_line(&format!("{name} is stopped and its data deleted"));
        }
        SandboxAction::Url { name, database } => {
            let named = ::sandbox::find_named(&name, &places)?;
            if !named.is_running() {
                terminal::note(&format!(
                    "{name} is stopped; start it with `rehearse sandbox start {name}`"
                ));
            }
            terminal::say_line(&named.endpoint.url_to_show(&database));
        }
        SandboxAction::Restart { name } => {
            let mut sandbox = ::sandbox::open(&name, &places)?;
            sandbox.stop(Stop::Fast)?;
            sandbox.use_machine_clock()?;
            drop(sandbox);
            start(&name, &places)?;
        }
        SandboxAction::Psql {
            name,
            database,
            arguments,
        } => return run_psql(&name, &database, &arguments, &places),
        SandboxAction::Logs { name } => print_log(&::sandbox::find_named(&name, &places)?)?,
        SandboxAction::List { json } => list(&places, json),
    }
    Ok(ExitStatus::Success)
}

fn bring_up(options: &SandboxUp, places: &Dirs) -> Result<(), Failure> {
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
    let server = find(&options.server.requirements(), places)?;
    let named = ::sandbox::up(
        &options.name,
        &server,
        Options {
            port: options.port.map_or(Port::Free, Port::Fixed),
            tcp: options.tcp || options.port.is_some(),
            settings,
            statement_statistics: true,
            ..Options::default()
        },
        places,
    )?;
    let NamedSandbox { name, version, .. } = &named;
    let url = named.endpoint.url_to_show("postgres");
    let access = match &named.endpoint.password_file {
        Some(file) => format!("The password is in {}, which", file.display()),
        None => "The socket is in a directory that".to_owned(),
    };
    terminal::say_line(&format!(
        "{name} is up: PostgreSQL {version}\n  {url}\n{access} only you can read. Connect with psql \"$(rehearse sandbox url {name})\".\n`rehearse sandbox down {name}` deletes it."
    ));
    Ok(())
}

fn start(name: &str, places: &Dirs) -> Result<(), Failure> {
    let mut sandbox = ::sandbox::open(name, places)?;
    if let Some(snapshot) = sandbox.interrupted_restore() {
        terminal::note(&format!(
            "Restoring the data of {name} from the snapshot {snapshot}, which was interrupted."
        ));
    }
    let endpoint = sandbox.start()?;
    if let Err(error) = refuse_leased(&sandbox, None) {
        terminal::note(&format!("Note: {error}."));
    }
    terminal::say_line(&format!(
        "{name} is up: {}",
        endpoint.url_to_show("postgres")
    ));
    Ok(())
}

fn restore(name: &str, places: &Dirs) -> Result<(), Failure> {
    let is_running = ::sandbox::find_named(name, places)?.is_running();
    match restore_interrupted(::sandbox::open(name, places)?)? {
        true => {
            terminal::say_line(&format!(
                "{name} is up, with the data and settings from before the interrupted experiment"
            ));
            Ok(())
        }
        false => Err(Failure::usage(format!(
            "there is nothing to restore in {name}: no sweep, proof or diagnosis was interrupted on it{}",
            match is_running {
                true => String::new(),
                false => format!("; start it with `rehearse sandbox start {name}`"),
            }
        ))),
    }
}

/// Replaces this process by psql, so that the terminal and its signals are psql's.
fn run_psql(
    name: &str,
    database: &str,
    arguments: &[OsString],
    places: &Dirs,
) -> Result<ExitStatus, Failure> {
    let named = running(name, places)?;
    if let Some(argument) = arguments.iter().find(|one| chooses_database(one)) {
        return Err(Failure::usage(format!(
            "{} would connect psql to another server; choose a database with `rehearse sandbox psql {name} --database NAME`",
            argument.display()
        )));
    }
    let error = Command::new("psql")
        .arg("--dbname")
        .arg(named.endpoint.url_to_show(database))
        .args(arguments)
        .exec();
    Err(Failure::could_not(format!(
        "psql cannot be started: {error}; install the package postgresql-client, or connect another client to `rehearse sandbox url {name}`"
    )))
}

/// Whether an argument of psql has its option `-d` or `--dbname`, alone or after others as in `-Atd`. It would replace the
/// URL of the sandbox, and psql would connect by the variables of the environment.
fn chooses_database(argument: &OsStr) -> bool {
    /// Options of psql without a value, which others can follow.
    const FLAGS: &str = "01?AHSVWXabeElnqstwxz";
    let text = argument.to_string_lossy();
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or(long);
        return name.len() >= 2 && "dbname".starts_with(name);
    }
    let options = text.strip_prefix('-').unwrap_or_default();
    let first_other = options.chars().find(|option| !FLAGS.contains(*option));
    first_other == Some('d')
}

fn running(name: &str, places: &Dirs) -> Result<NamedSandbox, Failure> {
    let named = ::sandbox::find_named(name, places)?;
    match named.is_running() {
        true => Ok(named),
        false => Err(Failure::could_not(format!(
            "{name} is stopped; start it with `rehearse sandbox start {name}`"
        ))),
    }
}

fn print_log(named: &NamedSandbox) -> Result<(), Failure> {
    let unreadable =
        |error| Failure::could_not(format!("{} cannot be read: {error}", named.log.display()));
    let mut log = BufReader::new(File::open(&named.log).map_err(unreadable)?);
    let mut line = Vec::new();
    while !terminal::lost() && log.read_until(b'\n', &mut line).map_err(unreadable)? > 0 {
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        terminal::say_line(&report::safe_text(&text, false));
        line.clear();
    }
    Ok(())
}

fn list(places: &Dirs, json: bool) {
    let all = ::sandbox::list(places);
    if json {
        let rows: Vec<serde_json::Value> = all
            .iter()
            .map(|named| {
                serde_json::json!({
                    "name": named.name,
                    "version": named.version,
                    "url": named.endpoint.url_to_show("postgres"),
                    "password_file": named.endpoint.password_file,
                    "running": named.is_running(),
                    "interrupted_restore": named.interrupted_restore,
                    "data_dir": named.data_dir,
                    "log": named.log,
                })
            })
            .collect();
        terminal::say_line(&report::to_json_line(&rows));
        return;
    }
    if all.is_empty() {
        terminal::say_line("no sandbox; `rehearse sandbox up` makes one");
    }
    for named in all {
        let state = match (&named.interrupted_restore, named.is_running()) {
            (Some(_), _) => "interrupted (sandbox start completes it)",
            (None, true) => "running",
            (None, false) => "stopped",
        };
        let NamedSandbox {
            name,
            version,
            endpoint,
            data_dir,
            ..
        } = &named;
        terminal::say_line(&format!(
            "{name}  {state}  PostgreSQL {version}  {}  {}",
            endpoint.url_to_show("postgres"),
            data_dir.display()
        ));
    }
}

/// Finds an installation, or downloads one with a progress message.
///
/// # Errors
/// If there is none and the download fails.
pub fn find(wanted: &ServerRequirements, places: &Dirs) -> Result<Installation, Failure> {
    let spinner = ProgressBar::with_draw_target(None, terminal::progress_target());
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("a valid template");
    spinner.set_style(style);
    let found = ::sandbox::find(wanted, places, &mut |progress| {
        spinner.enable_steady_tick(std::time::Duration::from_millis(100));
        spinner.set_message(report::one_line(&progress.to_string(), usize::MAX));
        if spinner.is_hidden() {
            terminal::note(&progress.to_string());
        }
    });
    spinner.finish_and_clear();
    Ok(found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_of_psql_that_chooses_a_database_is_recognised() {
        for argument in ["-d", "-dshop", "-Atd", "--dbname", "--dbname=shop", "--db"] {
            assert!(chooses_database(OsStr::new(argument)), "{argument}");
        }
        for argument in [
            "-c", "-At", "-cdrop", "shop", "-vd=1", "--csv", "--", "-U", "select 1",
        ] {
            assert!(!chooses_database(OsStr::new(argument)), "{argument}");
        }
    }
}
