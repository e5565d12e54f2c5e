//! `rehearse capture attach`: records the traffic of a running server on this host.
//!
//! The command starts a second process, the prober, which holds the privileges and only copies bytes. Then it gives up its
//! own privileges, before it reads anything that comes from outside.

mod identities;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capture_attach::server_process::{self, ServerProcess};
use capture_attach::{
    Attach, AttachError, AttachEvent, AttachOptions, AttachStatus, AttachStatusReader,
    ProberProcess, prober,
};
use capture_recorder::CaptureEvent;
use capture_wire::conversation::DecoderOptions;
use clock::{Clock, SystemClock};
use report::{attach_text, to_document};
use signal_hook::consts::SIGUSR1;
use study::{Failure, Interrupt};
use workload::CapturedServer;

use super::control::ControlServer;
use super::control_token::ControlToken;
use super::recording::{RecordingOutput, is_incomplete, recover, toggle};
use super::starting_point::{RecordingSwitch, StartingPointTaker};
use crate::exit_status::ExitStatus;
use crate::options::attach::{AttachProber, CaptureAttach};
use crate::otlp;
use crate::terminal;

/// Interval of polling the capture's events.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Copies the traffic to the standard output. The process that started it reports its errors.
pub(super) fn run_prober(options: &AttachProber) -> Result<ExitStatus, Failure> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let options = options.attached.prober_options();
    Ok(match prober::run(&options, input.as_fd(), output.as_fd()) {
        Ok(()) => ExitStatus::Success,
        Err(_) => ExitStatus::Findings,
    })
}

/// Captures until the user interrupts it, or the duration is over.
pub(super) fn run(options: &CaptureAttach) -> Result<ExitStatus, Failure> {
    let servers = identify_server(options);
    let prober = start_prober(options)?;
    give_up_privileges()?;
    // From here on, this process has no privileges.
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let toggled = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, toggled.clone()).map_err(Failure::could_not)?;
    let output = RecordingOutput::new(
        "attach",
        &options.output,
        &options.roll,
        &options.masking,
        &options.encryption,
    )?;
    interrupt.set_partial(output.partial());
    let export = options.otlp.settings()?;
    let starting_point = Arc::new(StartingPointTaker::new(
        options.starting_point.starting_point.as_deref(),
        options.export.export_snapshot,
        Some(&options.output),
    )?);
    let identities = identities::read(options.server.as_deref())?;
    let attach = Attach::start(
        prober,
        attach_options(options, servers, identities),
        output.open(starting_point.clone()),
    )
    .map_err(failure)?;
    let switch = RecordingSwitch {
        control: attach.control(),
        starting_point: starting_point.clone(),
    };
    let control = start_control(options, &attach, &switch)?;
    if !options.paused {
        // What passes meanwhile is in the ring buffer, and in the recording.
        starting_point.take();
        attach
            .control()
            .start_recording()
            .map_err(Failure::could_not)?;
    }
    let export = export
        .map(|settings| otlp::export_attach(settings, attach.status_reader()))
        .transpose()?;
    attach.begin_reading();
    announce(options);
    wait_for_end(options, &attach, &interrupt, || {
        if toggled.swap(false, Ordering::Relaxed) {
            let is_recording = attach.status_reader().status().capture.recording.is_some();
            toggle(is_recording, switch.clone());
        }
    });
    drop(control);
    let (mut status, events) = attach.end();
    tell(events);
    for finished in &mut status.capture.finished {
        recover(finished);
    }
    export.map(otlp::finish);
    show(&status, options.json);
    let is_partial = is_incomplete(&status.capture)
        || status.prober_failure.is_some()
        || status.counters.untracked_calls > 0;
    Ok(match is_partial {
        true => ExitStatus::Findings,
        false => ExitStatus::Success,
    })
}

/// Starts the process that holds the privileges.
fn start_prober(options: &CaptureAttach) -> Result<ProberProcess, Failure> {
    let program = std::env::current_exe();
    let started = program.and_then(|program| {
        let mut command = Command::new(program);
        command.args(["capture", "attach-prober"]);
        ProberProcess::start(command.args(options.attached.to_arguments()))
    });
    started.map_err(|error| Failure::could_not(format!("cannot start the prober: {error}")))
}

#[cfg(target_os = "linux")]
fn give_up_privileges() -> Result<(), Failure> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let sudo = number("SUDO_UID").zip(number("SUDO_GID"));
    let remaining = capture_attach::drop_privileges(sudo).map_err(|error| {
        Failure::could_not(format!(
            "cannot give up the privileges of the process that decodes: {error}; run the command as root or by sudo, without limits of a sandbox"
        ))
    })?;
    if remaining.is_of_sudo {
        terminal::note(&format!(
            "the capture runs as user {} of SUDO_UID; only its prober holds privileges",
            remaining.user
        ));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn give_up_privileges() -> Result<(), Failure> {
    Ok(())
}

/// Returns what identifies the server, for the check that a replay does not go to it. The prober reports errors.
fn identify_server(options: &CaptureAttach) -> Vec<CapturedServer> {
    let selection = options.attached.prober_options().server;
    let found = server_process::find(&selection).ok();
    found.map(captured_server).into_iter().collect()
}

fn captured_server(process: ServerProcess) -> CapturedServer {
    let mount_namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    // In a container, its port and its paths are not those of this host.
    let is_here = mount_namespace("self") == mount_namespace(&process.pid.to_string());
    let loopback = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let port = process.port.filter(|_| is_here);
    CapturedServer {
        addresses: port.map(|_| loopback.into()).unwrap_or_default(),
        port: port.unwrap_or_default(),
        machine: connect::machine_name(),
        data_directory: is_here.then(|| process.data_directory.display().to_string()),
        ..CapturedServer::default()
    }
}

fn attach_options(
    options: &CaptureAttach,
    servers: Vec<CapturedServer>,
    identities: capture_attach::SessionIdentities,
) -> AttachOptions {
    let digest = options.checksum_results.is_some();
    let mut shaping = BTreeMap::new();
    if digest {
        shaping.insert("digest".to_owned(), "rows".to_owned());
    }
    if options.wait_for_new_sessions {
        shaping.insert("sessions".to_owned(), "new".to_owned());
    }
    AttachOptions {
        server: options.attached.name(),
        servers,
        buffer_bytes: (options.buffer as usize) << 20,
        conversation: DecoderOptions {
            digest,
            ..DecoderOptions::default()
        },
        new_sessions_only: options.wait_for_new_sessions,
        identities,
        options: shaping,
    }
}

fn failure(error: AttachError) -> Failure {
    Failure::could_not(error)
}

/// Starts the control endpoint, if there is to be one.
fn start_control(
    options: &CaptureAttach,
    attach: &Attach,
    switch: &RecordingSwitch,
) -> Result<Option<ControlServer>, Failure> {
    let Some(address) = options.admin_listen else {
        return Ok(None);
    };
    let token = ControlToken::new(options.admin_token_file.as_deref(), &options.output)?;
    let file = token.file().display().to_string();
    let server = ControlServer::start(
        (address, options.hosts.listener_options(terminal::complain)),
        token,
        switch.clone(),
        status_document(attach.status_reader()),
    )?;
    terminal::note(&format!(
        "control at http://{}; starting and stopping take the token in {file}",
        server.address()
    ));
    Ok(Some(server))
}

/// Returns a function that renders the current status as JSON.
fn status_document(reader: AttachStatusReader) -> impl Fn() -> String + Send + Sync {
    move || to_document(&reader.status())
}

/// Reports how the recording starts, and how the capture ends.
fn announce(options: &CaptureAttach) {
    if options.paused {
        return terminal::note("not recording; SIGUSR1 starts it, Ctrl-C ends the capture");
    }
    let artefact = options.roll.artefact();
    terminal::note(&match options.duration {
        Some(duration) => format!(
            "the capture ends after {} s, or at Ctrl-C, and completes the {artefact}",
            duration.as_secs_f64()
        ),
        None => format!("Ctrl-C ends the capture and completes the {artefact}"),
    });
}

/// Waits until the user, the duration or the prober ends the capture, and reports events.
fn wait_for_end(
    options: &CaptureAttach,
    attach: &Attach,
    interrupt: &Interrupt,
    mut each_time: impl FnMut(),
) {
    let clock = SystemClock::start();
    let limit_ns = options
        .duration
        .map(|limit| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
    let is_over = || limit_ns.is_some_and(|limit_ns| clock.now_ns() >= limit_ns);
    while !interrupt.is_requested() && !attach.is_broken() && !is_over() {
        std::thread::sleep(LOOK_EVERY);
        tell(attach.take_events());
        each_time();
    }
}

/// Reports the capture's events.
fn tell(events: Vec<AttachEvent>) {
    for event in events {
        terminal::note(&match event {
            AttachEvent::Attached {
                postmaster,
                is_again,
            } => match is_again {
                true => format!("attached again: the server runs as process {postmaster}"),
                false => format!("attached to the server of process {postmaster}"),
            },
            AttachEvent::ServerStopped => {
                "the server has stopped; the capture attaches again when it starts".to_owned()
            }
            AttachEvent::ProberEnded { reason } => {
                format!("the prober ended, and with it the capture: {reason}")
            }
            AttachEvent::Capture(event) => describe_event(&event),
        });
    }
}

fn describe_event(event: &CaptureEvent) -> String {
    match event {
        CaptureEvent::RecordingStarted { name } => format!("recording {name}"),
        CaptureEvent::RecordingFinished(finished) => format!(
            "recorded {}: {} statements",
            finished.name, finished.statements
        ),
        CaptureEvent::CopiesDropped => {
            "the capture cannot keep up: bytes are lost and counted, the server is not affected"
                .to_owned()
        }
        CaptureEvent::RecordingFailed { name, reason } => format!(
            "recording {name} has failed: {reason}; the server is not affected, and what is left of it is completed when the capture ends"
        ),
        CaptureEvent::CapturePanicked { reason } => format!(
            "the capture has broken down: {reason}; nothing is recorded; this is an error of ours, please report it"
        ),
    }
}

fn show(status: &AttachStatus, json: bool) {
    match json {
        true => terminal::say_line(&to_document(status)),
        false => terminal::say(&attach_text::render_text(status, &terminal::style())),
    }
}
