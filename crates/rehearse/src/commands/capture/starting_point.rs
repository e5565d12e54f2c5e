//! `--starting-point`: notes the state of the server when a capture starts. `rehearse capture starting-point` notes it for
//! a capture that is made later, of the log or of packets.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use capture_recorder::RecordingControl;
use observe::SnapshotHold;
use replay::{LoginMap, Target};
use report::starting_point_text::{Recipes, render_text};
use report::{output_file, to_json};
use workload::StartingPoint;

use crate::exit_status::ExitStatus;
use crate::options::starting_point::CaptureStartingPoint;
use crate::terminal;
use study::Failure;

/// Interval of polling for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// `application_name` of a session that asks for a starting point.
const APPLICATION: &str = "rehearse";

/// Source of a starting point.
enum Source {
    /// Server to ask.
    Server(Box<Target>),
    /// State that was noted earlier.
    Noted(Box<StartingPoint>),
}

/// Notes starting points as a command's options say.
pub(super) struct StartingPointTaker {
    source: Option<Source>,
    export: Option<Duration>,
    workload: String,
    /// `application_name` of the sessions that ask the server.
    application: String,
    taken: Mutex<Option<StartingPoint>>,
    hold: Mutex<Option<SnapshotHold>>,
}

impl StartingPointTaker {
    /// Reads the options. `workload` is the name to print in commands.
    ///
    /// # Errors
    /// If the connection or the file cannot be read.
    pub(super) fn new(
        given: Option<&str>,
        export: Option<Duration>,
        workload: Option<&Path>,
    ) -> Result<Self, Failure> {
        Ok(StartingPointTaker {
            source: given.map(parse).transpose()?,
            export,
            workload: workload.map_or_else(String::new, |path| path.display().to_string()),
            application: APPLICATION.to_owned(),
            taken: Mutex::default(),
            hold: Mutex::default(),
        })
    }

    /// Names the sessions that ask the server, by which a capture recognises them.
    pub(super) fn with_application(self, application: &str) -> Self {
        StartingPointTaker {
            application: application.to_owned(),
            ..self
        }
    }

    /// Notes the starting point now, and prints it with the commands for a copy. What is missing fails nothing. Returns whether
    /// a server was asked.
    pub(super) fn take(&self) -> bool {
        let point = match &self.source {
            None => {
                terminal::note(
                    "no starting point is noted: with --starting-point URL, a role that may log in, the commands that bring a copy to this moment are printed",
                );
                return false;
            }
            Some(Source::Noted(point)) => (**point).clone(),
            Some(Source::Server(target)) => match ask(target, &self.application, self.export) {
                Ok((point, hold)) => {
                    *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
                    point
                }
                Err(error) => {
                    terminal::note(&format!(
                        "no starting point is noted, and the capture continues: {error}"
                    ));
                    return false;
                }
            },
        };
        report(&point, &self.workload);
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(point);
        matches!(self.source, Some(Source::Server(_)))
    }

    /// Returns what was noted since the last call.
    pub(super) fn taken(&self) -> Option<StartingPoint> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.take()
    }
}

/// Starts and stops recordings, and notes the starting point of each.
#[derive(Clone)]
pub(super) struct RecordingSwitch {
    pub(super) control: RecordingControl,
    pub(super) starting_point: Arc<StartingPointTaker>,
}

impl RecordingSwitch {
    /// Notes the starting point, and starts a recording.
    pub(super) fn start_recording(&self) -> Result<String, String> {
        self.starting_point.take();
        self.control.start_recording()
    }

    /// Stops the recording.
    pub(super) fn stop_recording(&self) -> Result<String, String> {
        self.control.stop_recording()
    }
}

/// Notes a starting point in a file.
pub(super) fn run(options: &CaptureStartingPoint) -> Result<ExitStatus, Failure> {
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let target = Target::parse(&options.server, |name| std::env::var(name).ok())?;
    let (point, hold) =
        ask(&target, APPLICATION, options.export.export_snapshot).map_err(Failure::could_not)?;
    let file = output_file::STARTING_POINT;
    output_file::write(file, &options.output, &to_json(&point))?;
    report(&point, "NAME.workload");
    terminal::note(&format!(
        "A capture takes it with --starting-point {}; leave out what was sent before it: --from {}",
        options.output.display(),
        clock::rfc3339_text(point.server_time_us)
    ));
    if let (Some(_hold), Some(time)) = (hold, options.export.export_snapshot) {
        terminal::note("The snapshot is held until its time is over, or until Ctrl-C.");
        let until = Instant::now() + time;
        while !interrupt.is_requested() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(ExitStatus::Success)
}

fn parse(given: &str) -> Result<Source, Failure> {
    if !given.ends_with(".json") {
        let target = Target::parse(given, |name| std::env::var(name).ok())?;
        return Ok(Source::Server(Box::new(target)));
    }
    let failed = |error: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "cannot read the starting point {given}: {error}; give a file that `rehearse capture starting-point` wrote, or a URL"
        ))
    };
    let text = std::fs::read_to_string(given).map_err(|error| failed(&error))?;
    let point: StartingPoint = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    if point.server_time_us == 0 {
        return Err(failed(&"it has no time"));
    }
    Ok(Source::Noted(Box::new(point)))
}

fn ask(
    target: &Target,
    application: &str,
    export: Option<Duration>,
) -> Result<(StartingPoint, Option<SnapshotHold>), String> {
    let login = LoginMap::default().login(target, "", "", application);
    observe::starting_point(target, &login, export)
}

fn report(point: &StartingPoint, workload: &str) {
    let text = render_text(point, workload, Recipes::Fitting, &terminal::style());
    for line in text.lines() {
        terminal::note(line);
    }
}
