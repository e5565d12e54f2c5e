//! `rehearse capture proxy`: forwards clients to a server and records the traffic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capture_proxy::{
    CaptureEvent, ListenAddress, OpenRecording, Proxy, ProxyError, ProxyEvent, ProxyOptions,
    ProxyStatus, ServerTls, StatusReader,
};
use replay::Target;
use report::{proxy_text, to_document};

use super::live::{Control, SwitchSignal, decoder_options, starting_point_taker};
use super::recording::{RecordingOutput, is_incomplete, recover};
use super::starting_point::RecordingSwitch;
use crate::exit_status::ExitStatus;
use crate::options::proxy::CaptureProxy;
use crate::otlp;
use crate::terminal;
use study::Failure;

/// Interval of polling the proxy's events.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Largest number of messages about refused clients per second.
const LINES_A_SECOND: u32 = 5;

/// Variables of libpq that belong to the clients' sessions, and are ignored for the upstream
/// server.
const OF_SESSIONS: [&str; 6] = [
    "PGUSER",
    "PGPASSWORD",
    "PGDATABASE",
    "PGAPPNAME",
    "PGOPTIONS",
    "PGCLIENTENCODING",
];

/// Forwards until the user interrupts it.
pub(super) fn run(options: &CaptureProxy) -> Result<ExitStatus, Failure> {
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let signal = SwitchSignal::listen()?;
    let live = &options.live;
    let output = RecordingOutput::new("proxy", live)?;
    interrupt.set_partial(output.partial());
    let export = options.live.otlp.settings()?;
    let upstream = upstream(options)?;
    let by_socket = upstream
        .servers
        .iter()
        .any(|server| !matches!(server.host, Some(replay::Host::Tcp(_)) | None));
    let source = upstream.address();
    let starting_point = Arc::new(starting_point_taker(live)?);
    if !options.live.paused {
        // Before the first client can connect, so that everything captured comes later.
        starting_point.take();
    }
    let proxy = start(options, upstream, output.open(starting_point.clone()))?;
    let switch = RecordingSwitch {
        control: proxy.control(),
        starting_point,
    };
    // Recording has not started yet, so that an error leaves nothing to undo.
    let control = Control::start(live, &switch, status_document(proxy.status_reader()))?;
    // Recording starts before the first client can send anything that matters.
    let begun = match options.live.paused {
        true => Ok(()),
        false => proxy.control().start_recording().map(drop),
    };
    if let Err(reason) = begun {
        let _ = proxy.end();
        return Err(Failure::could_not(reason));
    }
    let export = match export.map(|settings| otlp::export_proxy(settings, proxy.status_reader())) {
        None => None,
        Some(Ok(exporter)) => Some(exporter),
        Some(Err(failure)) => {
            let _ = proxy.end();
            return Err(failure);
        }
    };
    announce(&proxy, &source, by_socket);
    if let Some(control) = &control {
        control.announce();
    }
    announce_end(options);
    let mut narrator = Narrator::default();
    while !interrupt.is_requested() && !proxy.is_broken() {
        std::thread::sleep(POLL_INTERVAL);
        narrator.report(proxy.take_events());
        signal.handle(&switch, || proxy.status().capture);
    }
    drop(control);
    drain(&proxy, options.drain, &mut narrator);
    let (mut status, happened, ended) = proxy.end();
    narrator.report(happened);
    for finished in &mut status.capture.finished {
        recover(finished);
    }
    export.map(otlp::finish);
    print_account(&status, options.live.json);
    if let Err(error) = ended {
        return Err(Failure::could_not(format!("the proxy ended: {error}")));
    }
    Ok(match is_incomplete(&status.capture) {
        true => ExitStatus::Findings,
        false => ExitStatus::Success,
    })
}

/// Returns a function that renders the current status as JSON.
fn status_document(reader: StatusReader) -> impl Fn() -> String + Send + Sync {
    move || to_document(&reader.status())
}

/// Parses the upstream server, and reports its parameters that are not used.
fn upstream(options: &CaptureProxy) -> Result<Target, Failure> {
    let environment = |name: &str| match OF_SESSIONS.contains(&name) {
        true => None,
        false => std::env::var(name).ok(),
    };
    let upstream = Target::parse(&options.upstream, environment)?;
    let unused = [
        ("user", upstream.user.is_some()),
        ("password", upstream.password.is_some()),
        ("dbname", upstream.database.is_some()),
        ("options", upstream.options.is_some()),
        ("application_name", upstream.application.is_some()),
    ];
    let unused: Vec<&str> = unused
        .iter()
        .filter_map(|(name, given)| given.then_some(*name))
        .collect();
    if !unused.is_empty() {
        let names = unused.join(", ");
        terminal::note(&format!(
            "not used of --upstream: {names}; clients say their own"
        ));
    }
    Ok(upstream)
}

/// Starts to forward, without recording.
fn start(options: &CaptureProxy, upstream: Target, open: OpenRecording) -> Result<Proxy, Failure> {
    let listen = options
        .listen
        .iter()
        .map(|text| ListenAddress::parse(text).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()?;
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(ServerTls::new(certificate, key, options.tls_required)?)
        }
        _ => None,
    };
    let (conversation, listed) = decoder_options(&options.live);
    Proxy::start(
        ProxyOptions {
            listen,
            upstream,
            tls,
            threads: usize::from(options.threads),
            buffer_bytes: options.live.buffer_bytes(),
            use_io_uring: !options.without_io_uring,
            conversation,
            options: listed,
        },
        open,
    )
    .map_err(failure)
}

/// Reports the addresses, and who can reach them.
fn announce(proxy: &Proxy, source: &str, by_socket: bool) {
    for address in proxy.addresses() {
        terminal::note(&format!("listening at {address}, leading to {source}"));
        if !address.is_local() {
            terminal::note(&format!(
                "  {address} can be reached from other machines; the server sees this one's address instead of theirs (pg_hba.conf)"
            ));
        }
    }
    if by_socket {
        terminal::note(
            "  the server sees this program's user over a unix socket: with peer authentication, any client of the proxy is let in as that user",
        );
    }
}

/// Reports how the recording starts, and how the proxy ends.
fn announce_end(options: &CaptureProxy) {
    match options.live.paused {
        true => terminal::note("not recording; SIGUSR1 starts it, Ctrl-C ends the proxy"),
        false => terminal::note(&format!(
            "Ctrl-C ends the proxy and completes the {}",
            options.live.roll.artefact()
        )),
    }
}

/// Waits for open transactions to end, and reports the connections that remain after `limit`.
fn drain(proxy: &Proxy, limit: Duration, narrator: &mut Narrator) {
    if proxy.status().connections > 0 && !proxy.is_broken() {
        terminal::note(
            "stopping: idle connections are closed, others when their transaction ends; a second Ctrl-C ends at once",
        );
    }
    proxy.drain();
    let until = Instant::now() + limit;
    while Instant::now() < until && proxy.status().connections > 0 && !proxy.is_broken() {
        std::thread::sleep(POLL_INTERVAL);
        narrator.report(proxy.take_events());
    }
    let cut = proxy.status().connections;
    if cut > 0 {
        terminal::note(&format!(
            "{cut} connections were cut in the middle of something after {} s (--drain)",
            limit.as_secs()
        ));
    }
}

fn failure(error: ProxyError) -> Failure {
    match error {
        ProxyError::Upstream(error) => Failure::usage(error),
        ProxyError::Listen(error) => Failure::could_not(error),
        error => Failure::could_not(error),
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
            "recording cannot keep up: copies are dropped, forwarding continues".to_owned()
        }
        CaptureEvent::RecordingFailed { name, reason } => format!(
            "recording {name} has failed: {reason}; forwarding continues, and what is left of it is completed when the proxy ends"
        ),
        CaptureEvent::CapturePanicked { reason } => format!(
            "the capture has broken down: {reason}; forwarding continues, and nothing is recorded; this is an error of ours, please report it"
        ),
    }
}

/// Reports the proxy's events. Limits the number of lines about refused clients.
#[derive(Default)]
struct Narrator {
    second: Option<Instant>,
    in_second: u32,
    left_out: u64,
}

impl Narrator {
    fn report(&mut self, happened: Vec<ProxyEvent>) {
        let now = Instant::now();
        if self
            .second
            .is_none_or(|second| now - second >= Duration::from_secs(1))
        {
            self.second = Some(now);
            self.in_second = 0;
            if self.left_out > 0 {
                let left_out = std::mem::take(&mut self.left_out);
                terminal::note(&format!("{left_out} more such lines were left out"));
            }
        }
        for happening in happened {
            let line = match happening {
                ProxyEvent::ClientRefused { reason } => Err(format!("a client was refused: {reason}")),
                ProxyEvent::AcceptingPaused { reason } => {
                    Err(format!("no further client can be taken for now: {reason}"))
                }
                ProxyEvent::BindingRemoved => Ok(
                    "the server offers channel binding, which cannot hold through this proxy: clients are not told of it (docs/reference/capture-proxy.md)"
                        .to_owned(),
                ),
                ProxyEvent::Capture(event) => Ok(describe_event(&event)),
            };
            match line {
                Ok(line) => terminal::note(&line),
                Err(line) if self.in_second < LINES_A_SECOND => {
                    self.in_second += 1;
                    terminal::note(&line);
                }
                Err(_) => self.left_out += 1,
            }
        }
    }
}

fn print_account(status: &ProxyStatus, json: bool) {
    if json {
        terminal::say_line(&to_document(status));
    } else {
        terminal::say(&proxy_text::render_text(status, &terminal::style()));
    }
}
