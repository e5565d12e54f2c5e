//! `rehearse compare --follow`: a capture and a run that is being written, compared continuously.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::{Clock, SystemClock};
use compare::shadow::{ShadowChange, ShadowCondition, ShadowOptions};
use indicatif::{ProgressBar, ProgressStyle};
use report::output_file::PAGE;
use report::{
    ShadowLine, TextStyle, metric_families, output_file, shadow_page, shadow_text, to_json_line,
};
use run::SeriesGap;
use study::Failure;
use study::shadow_comparison::{
    ShadowObserver, ShadowRequest, ShadowState, ShadowView, follow_run,
};

use crate::exit_status::ExitStatus;
use crate::metrics::{MetricsServer, announce_metrics, read_process_families};
use crate::options::comparing::Compare;
use crate::terminal;

/// Most statements without findings in a text, a page or a JSON line.
const STATEMENTS_MAX: usize = 50;

/// Compares until the run is complete or a stop is requested. The exit code is 1 if a condition of `--fail-on` holds, and 4 if none
/// holds and most windows were excluded.
pub fn run(options: &Compare) -> Result<ExitStatus, Failure> {
    let request = request(options)?;
    let html = options.outputs.html.as_deref();
    if let Some(path) = html {
        // A path that cannot be written is reported at once.
        output_file::begin(&[(PAGE, path)])?;
    }
    let latest: Arc<Mutex<Option<ShadowView>>> = Arc::default();
    let metrics = match options.metrics.metrics {
        None => None,
        Some(address) => {
            let latest = latest.clone();
            let listener = options.hosts.listener_options(terminal::complain);
            let server = MetricsServer::start_with(address, listener, move || {
                let mut families = vec![metric_families::build_info()];
                let latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(view) = &*latest {
                    families.extend(metric_families::shadow_families(
                        view,
                        SystemClock::start().wall_us(),
                    ));
                }
                families.extend(read_process_families());
                families
            })?;
            announce_metrics(server.address());
            Some(server)
        }
    };
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let mut output = FollowOutput {
        json: options.json,
        html,
        interval: request.interval,
        latest,
        style: terminal::progress_style(),
        bar: ProgressBar::with_draw_target(None, terminal::progress_target()),
    };
    output
        .bar
        .set_style(ProgressStyle::with_template("{msg}").expect("a valid template"));
    let followed = follow_run(&request, &interrupt, &mut output);
    output.bar.finish_and_clear();
    let view = followed?;
    output.publish(&view)?;
    match options.json {
        true => terminal::say_line(&to_json_line(&ShadowLine::end(&view))),
        false => terminal::say(&shadow_text::render_text(&view, &terminal::style())),
    }
    if let (Some(_), Some(time)) = (&metrics, options.metrics.metrics_linger) {
        interrupt.linger(time, view.state == ShadowState::Stopped);
    }
    if view.state == ShadowState::Abandoned {
        return Err(Failure::could_not(format!(
            "the replay that wrote {} ended without completing it, so the comparison ends with its last checkpoint; complete it with `rehearse recover {}`",
            view.run,
            archive::partial_path(Path::new(&view.run)).display()
        )));
    }
    if !view.conditions.is_empty() && view.report.windows == 0 {
        return Err(Failure::could_not(
            "no window was compared, so --fail-on was not judged; see which windows were excluded, and follow for longer",
        ));
    }
    Ok(exit_status(&view))
}

/// Returns the exit code of a comparison with compared windows. That no condition holds proves nothing if most windows were
/// excluded.
fn exit_status(view: &ShadowView) -> ExitStatus {
    if view.conditions.iter().any(|condition| condition.holds) {
        ExitStatus::Findings
    } else if !view.conditions.is_empty() && view.report.is_mostly_excluded() {
        terminal::complain(
            "--fail-on is inconclusive: more than half of the windows with statements were not compared; see which were excluded, mend the candidate or its connections, and follow for longer",
        );
        ExitStatus::NotProven
    } else {
        ExitStatus::Success
    }
}

fn request(options: &Compare) -> Result<ShadowRequest, Failure> {
    let follow = &options.follow;
    let [workload, run] = options.runs.as_slice() else {
        return Err(Failure::usage(
            "--follow compares a capture with its run; give both: NAME.workload or NAME.series, and NAME.run",
        ));
    };
    for (name, percent, range) in [
        ("--tolerance", follow.tolerance, 0.0..1_000.0),
        ("--error-rate", follow.error_rate, f64::MIN_POSITIVE..50.0),
    ] {
        if !range.contains(&percent) {
            return Err(Failure::usage(format!(
                "{name} {percent} makes no sense; give a percentage below {}, such as {name} 5",
                range.end
            )));
        }
    }
    let parse = |text: &String| {
        ShadowCondition::parse(text)
            .map_err(|reason| Failure::usage(format!("--fail-on: {reason}")))
    };
    let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let defaults = ShadowOptions::default();
    Ok(ShadowRequest {
        workload: workload.clone(),
        run: run.clone(),
        options: ShadowOptions {
            window_ns: nanoseconds(follow.window),
            tolerance: follow.tolerance / 100.0,
            allowance_ns: match (follow.allowance, follow.baseline) {
                (Some(allowance), _) => nanoseconds(allowance).unsigned_abs(),
                (None, Some(_)) => 0,
                (None, None) => defaults.allowance_ns,
            },
            baseline_ns: follow.baseline.map(nanoseconds),
            error_rate: follow.error_rate / 100.0,
        },
        conditions: options
            .fail_on
            .iter()
            .map(parse)
            .collect::<Result<_, _>>()?,
        duration: follow.duration,
        interval: follow.interval,
        statements_max: STATEMENTS_MAX,
    })
}

/// Output of a comparison that runs.
struct FollowOutput<'a> {
    json: bool,
    html: Option<&'a Path>,
    interval: Duration,
    /// Last result, for the metrics.
    latest: Arc<Mutex<Option<ShadowView>>>,
    /// Style of the redrawn lines; `None` if standard error is no terminal.
    style: Option<TextStyle>,
    bar: ProgressBar,
}

impl FollowOutput<'_> {
    /// Replaces the page, and what the metrics are read from.
    fn publish(&self, view: &ShadowView) -> Result<(), Failure> {
        if let Some(path) = self.html {
            let page = shadow_page::render_html(view, self.interval.as_secs());
            for output in output_file::begin(&[(PAGE, path)])? {
                match view.state {
                    ShadowState::InProgress => output.replace(&page)?,
                    _ => output.finish(&page)?,
                }
            }
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some(view.clone());
        Ok(())
    }
}

impl ShadowObserver for FollowOutput<'_> {
    fn on_change(&mut self, change: &ShadowChange, started_wall_us: i64) {
        let line = match self.json {
            true => to_json_line(&ShadowLine::verdict(change, started_wall_us)),
            false => shadow_text::render_change(change, started_wall_us),
        };
        self.bar.suspend(|| terminal::say_line(&line));
    }

    fn on_series_gap(&mut self, gap: &SeriesGap) {
        let line = match self.json {
            true => to_json_line(&ShadowLine::series_gap(gap)),
            false => gap.sentence(),
        };
        self.bar.suspend(|| terminal::say_line(&line));
    }

    fn on_report(&mut self, view: &ShadowView) -> Result<(), Failure> {
        self.publish(view)?;
        if self.json {
            let line = to_json_line(&ShadowLine::progress(view));
            self.bar.suspend(|| terminal::say_line(&line));
        } else if let Some(style) = &self.style {
            self.bar
                .set_message(shadow_text::render_progress(view, style).join("\n"));
        }
        Ok(())
    }
}
