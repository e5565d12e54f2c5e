//! `rehearse replay`: a workload against a server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clock::{Clock, SystemClock, duration_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use replay::{LoginMap, Observer, Options, Snapshot, Target};
use report::Literals;
use run::{RunInfo, RunStatus};
use workload::WorkloadReader;

use crate::commands::summary;
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::options;
use crate::terminal;

/// Replays, with a progress bar, and ends with the run's summary.
pub fn run(options: &options::Replay) -> Result<Ending, Failure> {
    let mut target = Target::parse(&options.target, |name| std::env::var(name).ok())?;
    if let Some(file) = &options.password_from {
        target.take_passwords_from(file)?;
    }
    if options.set_role && options.user.is_none() && target.user.is_none() {
        return Err(Failure::usage(
            "--set-role logs in as one user for all, and none is named; give --user, or a user in the target or in PGUSER",
        ));
    }
    let mut engine = Options {
        speed: options.speed,
        logins: LoginMap {
            user: options.user.clone(),
            database: options.database.clone(),
            users: mapping("--map-user", &options.map_user)?,
            databases: mapping("--map-database", &options.map_database)?,
            set_role: options.set_role,
        },
        spin_us: options.spin_us,
        ..Options::default()
    };
    if let Some(workers) = options.workers {
        if !(1..=256).contains(&workers) {
            return Err(Failure::usage(format!(
                "--workers {workers} makes no sense; give 1 to 256"
            )));
        }
        engine.workers = workers;
    }
    let reader = WorkloadReader::open(&options.workload)?;
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let info = replay_with_progress(&reader, &target, &engine, &options.output, &interrupt)?;
    summary::show(
        &options.output,
        options.json,
        summary::literals(options.show_literals),
    )?;
    Ok(match info.status {
        RunStatus::Complete => Ending::Done,
        RunStatus::Stopped | RunStatus::Recovered => Ending::Found,
    })
}

/// Checks the target, says what will happen, and replays. Also the demo's way.
///
/// # Errors
/// Where the target refuses, or the run cannot be written.
pub fn replay_with_progress(
    reader: &WorkloadReader,
    target: &Target,
    engine: &Options,
    output: &Path,
    interrupt: &Interrupt,
) -> Result<RunInfo, Failure> {
    let target_info = replay::check_target(reader, target, &engine.logins)?;
    let workload = reader.info();
    let writes = if workload.writes == 0 {
        "none of them writes, as far as their first words tell".to_owned()
    } else {
        format!("{} of them may write, and will", workload.writes)
    };
    terminal::note(&format!(
        "Replaying {} statements of {} sessions against {} (PostgreSQL {}) at speed {}; {writes}.",
        workload.statements,
        workload.sessions,
        target_info.address,
        target_info.server_version,
        engine.speed,
    ));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut progress = Progress::new(reader, engine.speed, interrupt.clone());
    let result = replay::replay(
        reader,
        target,
        target_info,
        engine,
        output,
        &clock,
        &mut progress,
    );
    progress.bar.finish_and_clear();
    Ok(result?)
}

/// The values' default: hidden.
pub const HIDDEN: Literals = Literals::Hidden;

fn mapping(option: &str, pairs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    pairs
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                Ok((from.to_owned(), to.to_owned()))
            }
            _ => Err(Failure::usage(format!(
                "{option} '{pair}' is no mapping; give FROM=TO, such as {option} app=app_copy"
            ))),
        })
        .collect()
}

struct Progress {
    bar: ProgressBar,
    interrupt: Interrupt,
    told_stop: bool,
    /// What the replay takes if it keeps pace; `None` at full speed.
    span_ns: Option<i64>,
    last: Snapshot,
}

/// The bar counts milliseconds of a paced replay, or statements at full speed.
const NS_IN_MS: i64 = 1_000_000;

impl Progress {
    fn new(reader: &WorkloadReader, speed: clock::Speed, interrupt: Interrupt) -> Self {
        let span_ns = match speed {
            clock::Speed::Max => None,
            clock::Speed::Times { .. } => Some(speed.due_ns(reader.info().span_us)),
        };
        let length = match span_ns {
            Some(span_ns) => span_ns / NS_IN_MS,
            None => reader.info().statements as i64,
        };
        let bar = ProgressBar::with_draw_target(
            Some(length.max(1) as u64),
            ProgressDrawTarget::stderr_with_hz(5),
        );
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}")
            .expect("a valid template");
        bar.set_style(style);
        Progress {
            bar,
            interrupt,
            told_stop: false,
            span_ns,
            last: Snapshot::default(),
        }
    }
}

impl Observer for Progress {
    fn progress(&mut self, now: &Snapshot) {
        let over = |snapshot: &Snapshot| snapshot.done + snapshot.failed + snapshot.skipped;
        let seconds = (now.elapsed_ns - self.last.elapsed_ns).max(1) as f64 / 1e9;
        let rate = (over(now) - over(&self.last)) as f64 / seconds;
        let left = match self.span_ns {
            Some(span_ns) => Some((span_ns - now.elapsed_ns).max(0)),
            None if over(now) > 0 => {
                let each_ns = now.elapsed_ns as f64 / over(now) as f64;
                Some((each_ns * (now.statements - over(now)) as f64) as i64)
            }
            None => None,
        };
        self.bar.set_position(match self.span_ns {
            Some(_) => (now.elapsed_ns / NS_IN_MS).max(0) as u64,
            None => over(now),
        });
        let left = left.map_or(String::new(), |left| {
            format!(", {} left", duration_text(left))
        });
        self.bar.set_message(format!(
            "{}/s, {} sessions open, {} failed, {} skipped, tool lag {}{left}",
            rate.round(),
            now.sessions_open,
            now.failed,
            now.skipped,
            duration_text(now.tool_lag_ns),
        ));
        self.last = *now;
    }

    fn should_stop(&mut self) -> bool {
        let stop = self.interrupt.is_asked();
        if stop && !self.told_stop {
            self.told_stop = true;
            self.bar.suspend(|| {
                terminal::note("Stopping in order; once more to stop at once.");
            });
        }
        stop
    }
}
