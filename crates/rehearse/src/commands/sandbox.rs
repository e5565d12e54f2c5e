//! `rehearse sandbox`: manages the user's private servers.

use ::sandbox::{Dirs, Installation, NamedSandbox, Options, Port, ServerRequirements};
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
