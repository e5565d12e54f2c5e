//! `rehearse capture attach`: records the traffic of a running server on this host.
//!
//! The command starts a second process, the prober, which holds the privileges and only copies bytes. Then it gives up its
//! own privileges, before it reads anything that comes from outside.

mod identities;
mod probe_check;
#[cfg(target_os = "linux")]
mod unprivileged_user;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use capture_attach::{
    Attach, AttachError, AttachEvent, AttachOptions, AttachStatus, AttachStatusReader,
    AttachedServer, ProberProcess, prober,
};
use capture_recorder::CaptureEvent;
use capture_wire::conversation::{DecoderAccount, UnreadableReason};
use clock::{Clock, SystemClock};
use report::{attach_text, to_document};
use study::{Failure, Interrupt};
use workload::CapturedServer;

use self::probe_check::ProbeCheck;
use super::live::{Control, SwitchSignal, decoder_options, starting_point_taker};
use super::recording::{RecordingOutput, is_incomplete, recover};
use super::starting_point::RecordingSwitch;
use crate::exit_status::ExitStatus;
use crate::options::attach::{AttachProber, CaptureAttach};
use crate::otlp;
use crate::terminal;

/// Interval of polling the capture's events.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Copies the traffic to the standard output. The process that started it reports its errors.
pub(super) fn run_prober(options: &AttachProber) -> Result<ExitStatus, Failure> {
    #[cfg(target_os = "linux")]
    capture_attach::limit_prober_privileges().map_err(|error| {
        Failure::could_not(format!("cannot limit the prober's privileges: {error}"))
    })?;
    // Else an orderly stop of a service would lose what the kernel's buffer has.
    crate::signals::leave_to_parent().map_err(Failure::could_not)?;
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let options = options.attached.prober_options();
    Ok(match prober::run(&options, input.as_fd(), output.as_fd()) {
        Ok(()) => ExitStatus::Success,
        Err(_) => ExitStatus::Findings,
    })
}

/// Captures until the user interrupts it, or the duration is over.
pub(super) fn run(options: &CaptureAttach) -> Result<ExitStatus, Failure> {
    let prober = start_prober(options)?;
    give_up_privileges(options)?;
    // From here on, this process has no privileges.
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let signal = SwitchSignal::listen()?;
    let live = &options.live;
    let output = RecordingOutput::new("attach", live)?;
    interrupt.set_partial(output.partial());
    let export = options.live.otlp.settings()?;
    let own_application = own_application()?;
    let starting_point = starting_point_taker(live)?.with_application(&own_application);
    let starting_point = Arc::new(starting_point);
    let prober = prober
        .wait_until_attached(|| interrupt.is_requested())
        .map_err(failure)?;
    let server = captured_server(prober.server());
    let attach = Attach::start(
        prober,
        attach_options(options, server, own_application.clone()),
        output.open(starting_point.clone()),
    )
    .map_err(failure)?;
    // What passes meanwhile is kept in memory, and in the recording.
    let identities = identities::read(options.server.as_deref(), &own_application)?;
    let mut has_own_session = identities.is_some();
    let switch = RecordingSwitch {
        control: attach.control(),
        starting_point: starting_point.clone(),
    };
    // Recording has not started yet, so that an error leaves nothing to undo.
    let control = Control::start(live, &switch, status_document(attach.status_reader()))?;
    if let Some(control) = &control {
        control.announce();
    }
    let export = export
        .map(|settings| otlp::export_attach(settings, attach.status_reader()))
        .transpose()?;
    if !options.live.paused {
        has_own_session |= starting_point.take();
        attach
            .control()
            .start_recording()
            .map_err(Failure::could_not)?;
    }
    attach.begin_reading(identities.unwrap_or_default());
    announce(options);
    let mut check = ProbeCheck::new(has_own_session);
    let capture_status = || attach.status_reader().status().capture;
    let mut has_failed = false;
    wait_for_end(options, &attach, &interrupt, &mut check, || {
        signal.handle(&switch, capture_status);
        // A second request may have found that the first one has started it.
        has_failed = signal.take_failed_start() && capture_status().recording.is_none();
        has_failed
    });
    drop(control);
    let (mut status, events) = attach.end();
    report_events(events);
    for finished in &mut status.capture.finished {
        recover(finished);
    }
    status.probe_warning = check.warning(&status);
    export.map(otlp::finish);
    print_account(&status, options.live.json);
    Ok(match has_failed || is_partial(&status) {
        true => ExitStatus::Findings,
        false => ExitStatus::Success,
    })
}

/// Returns whether traffic of the capture may be missing.
fn is_partial(status: &AttachStatus) -> bool {
    let mut accounts = status.capture.finished.iter().map(|one| &one.account);
    let unreadable = accounts.any(|account| has_unreadable_sessions(&account.conversation));
    is_incomplete(&status.capture)
        || unreadable
        || status.prober_failure.is_some()
        || status.probe_warning.is_some()
        || status.counters.untracked_calls > 0
        || status.counters.lost_beginnings > 0
}

/// Returns whether sessions could not be read, except those that are left out on purpose.
fn has_unreadable_sessions(account: &DecoderAccount) -> bool {
    let mut reasons = account.unreadable.keys();
    reasons.any(|reason| *reason != UnreadableReason::Replication)
}

/// Returns an `application_name` for the sessions that this command opens, by which the capture recognises and leaves them out.
/// It is random, so that no other client is left out.
fn own_application() -> Result<String, Failure> {
    let number = http_server::random_hex::<8>().map_err(Failure::could_not)?;
    Ok(format!("rehearse capture {number}"))
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
use unprivileged_user::give_up_privileges;

#[cfg(not(target_os = "linux"))]
fn give_up_privileges(_options: &CaptureAttach) -> Result<(), Failure> {
    Ok(())
}

/// Returns what identifies the server, for the check that a replay does not go to it.
fn captured_server(server: &AttachedServer) -> CapturedServer {
    let loopback = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    // In a container, its port and its paths are not those of this host.
    let is_here = server.is_of_this_host;
    let port = server.port.filter(|_| is_here);
    CapturedServer {
        addresses: port.map(|_| loopback.into()).unwrap_or_default(),
        port: port.unwrap_or_default(),
        machine: connect::machine_name(),
        data_directory: is_here.then(|| server.data_directory.display().to_string()),
        ..CapturedServer::default()
    }
}

fn attach_options(
    options: &CaptureAttach,
    server: CapturedServer,
    own_application: String,
) -> AttachOptions {
    let (conversation, mut listed) = decoder_options(&options.live);
    if options.wait_for_new_sessions {
        listed.insert("sessions".to_owned(), "new".to_owned());
    }
    AttachOptions {
        server: options.attached.name(),
        servers: vec![server],
        buffer_bytes: options.live.buffer_bytes(),
        conversation,
        new_sessions_only: options.wait_for_new_sessions,
        own_application,
        options: listed,
    }
}

fn failure(error: AttachError) -> Failure {
    Failure::could_not(error)
}

/// Returns a function that renders the current status as JSON.
fn status_document(reader: AttachStatusReader) -> impl Fn() -> String + Send + Sync {
    move || to_document(&reader.status())
}

/// Reports how the recording starts, and how the capture ends.
fn announce(options: &CaptureAttach) {
    if options.live.paused {
        return terminal::note("not recording; SIGUSR1 starts it, Ctrl-C ends the capture");
    }
    let artefact = options.live.roll.artefact();
    terminal::note(&match options.duration {
        Some(duration) => format!(
            "the capture ends after {} s, or at Ctrl-C, and completes the {artefact}",
            duration.as_secs_f64()
        ),
        None => format!("Ctrl-C ends the capture and completes the {artefact}"),
    });
}

/// Waits until the user, the duration, the prober or a failure ends the capture, and reports events.
fn wait_for_end(
    options: &CaptureAttach,
    attach: &Attach,
    interrupt: &Interrupt,
    check: &mut ProbeCheck,
    mut has_failed: impl FnMut() -> bool,
) {
    let clock = SystemClock::start();
    let limit_ns = options
        .duration
        .map(|limit| i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
    let is_over = || limit_ns.is_some_and(|limit_ns| clock.now_ns() >= limit_ns);
    while !interrupt.is_requested() && !attach.is_broken() && !is_over() {
        std::thread::sleep(POLL_INTERVAL);
        if report_events(attach.take_events()) {
            // The probes would cost the server time for nothing.
            return;
        }
        if let Some(warning) = check.check(&attach.status_reader().status(), clock.now_ns()) {
            terminal::note(&format!("warning: {warning}"));
        }
        if has_failed() {
            terminal::note("the capture ends, since it cannot record");
            return;
        }
    }
}

/// Reports the capture's events. Returns whether it cannot record any more.
fn report_events(events: Vec<AttachEvent>) -> bool {
    let mut has_failed = false;
    for event in events {
        has_failed |= matches!(
            event,
            AttachEvent::Capture(
                CaptureEvent::RecordingFailed { .. } | CaptureEvent::CapturePanicked { .. }
            )
        );
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
    has_failed
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
            "recording {name} has failed: {reason}; the capture ends and completes what is left of it, and the server is not affected"
        ),
        CaptureEvent::CapturePanicked { reason } => format!(
            "the capture has broken down: {reason}; nothing is recorded; this is an error of ours, please report it"
        ),
    }
}

fn print_account(status: &AttachStatus, json: bool) {
    match json {
        true => terminal::say_line(&to_document(status)),
        false => terminal::say(&attach_text::render_text(status, &terminal::style())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_in_which_a_session_is_missing_is_partial() {
        assert!(!is_partial(&AttachStatus::default()));
        let mut status = AttachStatus::default();
        status.counters.lost_beginnings = 1;
        assert!(is_partial(&status));
        let status = AttachStatus {
            probe_warning: Some("no traffic was seen".to_owned()),
            ..AttachStatus::default()
        };
        assert!(is_partial(&status));
    }

    #[test]
    fn session_that_is_not_readable_counts_unless_it_is_of_replication() {
        let with = |reason| DecoderAccount {
            unreadable: [(reason, 1)].into(),
            ..DecoderAccount::default()
        };
        assert!(!has_unreadable_sessions(&DecoderAccount::default()));
        assert!(!has_unreadable_sessions(&with(
            UnreadableReason::Replication
        )));
        assert!(has_unreadable_sessions(&with(
            UnreadableReason::NotTheProtocol
        )));
        assert!(has_unreadable_sessions(&with(UnreadableReason::Lost)));
    }
}
