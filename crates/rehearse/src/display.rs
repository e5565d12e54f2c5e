//! Display of a replay on the terminal, in the log, in the metrics and on the live page.

mod progress;
mod replay_log;

use std::path::PathBuf;
use std::sync::Arc;

use clock::Speed;
use replay::{ConnectionEvent, Metrics, ReplayError, Snapshot};
use report::{LiveReplayView, export_text};
use run::RunInfo;

use crate::live::{Hub, HubParameters, PageServer};
use crate::log;
use crate::metrics::MetricsServer;
use crate::options::observing::LogLevel;
use crate::otlp::ReplayExport;
use crate::terminal;
use progress::ProgressDisplay;
use replay_log::{Line, Narrator};
use study::Failure;
use study::observed_replay::{ReplayDisplay, ReplayStart, StopReason};

/// Shows a replay on standard error, and on the listeners that it is given.
pub struct Display<'w> {
    drawing: ProgressDisplay,
    narrator: Narrator,
    metrics: Option<&'w MetricsServer>,
    page: Option<&'w mut PageServer>,
    hub: Option<Arc<Hub>>,
    export: Option<ReplayExport>,
    run: PathBuf,
}

impl<'w> Display<'w> {
    /// Makes a display with listeners for metrics and for the live page.
    pub fn new(metrics: Option<&'w MetricsServer>, page: Option<&'w mut PageServer>) -> Self {
        Display {
            drawing: ProgressDisplay::new(),
            narrator: Narrator::new(log::level()),
            metrics,
            page,
            hub: None,
            export: None,
            run: PathBuf::new(),
        }
    }

    /// Adds an export over OTLP.
    pub fn with_export(self, export: Option<ReplayExport>) -> Self {
        Display { export, ..self }
    }

    /// Makes a display on standard error alone.
    pub fn on_terminal() -> Self {
        Display::new(None, None)
    }

    fn log(&self, lines: &[Line]) {
        if !lines.is_empty() {
            self.drawing.suspend(|| lines.iter().for_each(Line::tell));
        }
    }
}

impl ReplayDisplay for Display<'_> {
    fn before_start(&mut self, start: &ReplayStart<'_>) -> Result<(), Failure> {
        let options = start.options.to_manifest();
        let fields = [
            (
                "workload",
                start.workload.path().display().to_string().into(),
            ),
            ("run", start.run.display().to_string().into()),
            ("target", start.target.address.clone().into()),
            ("server_version", start.target.server_version.clone().into()),
            ("statements", start.statements.into()),
            ("sessions", start.workload.info().sessions.into()),
            ("options", serde_json::json!(options)),
        ];
        log::tell(LogLevel::Info, "replay started", &fields);
        let engine = start.options;
        let is_timed = engine.speed != Speed::Max && engine.think_time.is_none();
        // Without captured idle times, or in a series that grows, the length of the replay is not known before.
        let has_span = is_timed && engine.idle_max.is_none() && engine.follow.is_none();
        let name = || start.workload.path().display().to_string();
        let hub = Hub::new(HubParameters {
            replay: LiveReplayView {
                workload: engine.workload_name.clone().unwrap_or_else(name),
                run: start.run.display().to_string(),
                target: start.target.address.clone(),
                server_version: start.target.server_version.clone(),
                options: options.into_iter().collect(),
                started_wall_us: start.started_wall_us,
                span_us: has_span.then_some(start.span_ns as f64 / 1e3),
                is_timed,
                statements: start.statements,
            },
            statements: self.page.is_some().then(|| start.workload.clone()),
        });
        if let Some(page) = &mut self.page {
            page.show(&hub)?;
            terminal::note(&format!("The replay can be watched at {}", page.url()));
            if page.is_open() {
                terminal::note(
                    "That address can be reached from other machines: anyone who has it can look, what it shows is sent in the clear, and the replay cannot be stopped there. A tunnel to --ui of 127.0.0.1 shows it to you alone.",
                );
            }
        }
        self.hub = Some(hub);
        if let Some(export) = &mut self.export {
            export.prepare(start);
        }
        self.run = start.run.to_owned();
        Ok(())
    }

    fn on_start(&mut self, meter: &Arc<Metrics>) {
        self.narrator.started(meter);
        if let Some(hub) = &self.hub {
            hub.begin(meter);
        }
        if let Some(metrics) = self.metrics {
            metrics.show(meter);
        }
        if let Some(export) = &mut self.export {
            export.begin(meter, self.hub.as_ref());
        }
    }

    fn on_events(&mut self, happenings: &[ConnectionEvent], left_out: u64) {
        let lines = self.narrator.happened(happenings, left_out);
        self.log(&lines);
        for happening in happenings {
            if let ConnectionEvent::SeriesNote(note) = happening
                && !log::is_json()
            {
                self.drawing.suspend(|| terminal::note(note));
            }
        }
    }

    fn on_waits(&mut self, source: &str, until_ns: i64, waits: Vec<(String, f64)>) {
        if let Some(hub) = &self.hub {
            hub.waits_observed(source, until_ns, waits);
        }
    }

    fn on_waits_unavailable(&mut self, reason: &str) {
        if let Some(hub) = &self.hub {
            hub.waits_not_observed(reason);
        }
    }

    fn on_phases_unavailable(&mut self, reason: &str) {
        if let Some(hub) = &self.hub {
            hub.phases_not_observed(reason);
        }
    }

    fn on_progress(&mut self, now: Option<&Snapshot>) {
        if let Some(hub) = &self.hub {
            self.drawing.show(&hub.now());
        }
        if let Some(now) = now {
            let lines = self.narrator.progress(now);
            self.log(&lines);
        }
    }

    fn is_stop_requested(&self) -> bool {
        self.hub.as_ref().is_some_and(|hub| hub.is_asked_to_stop())
    }

    fn on_stop(&mut self, reason: StopReason) {
        if let Some(hub) = &self.hub {
            hub.stopping();
        }
        let by_signal = reason == StopReason::Signal;
        self.drawing.suspend(|| {
            self.narrator.stopping(by_signal).tell();
            terminal::note(match by_signal {
                true => "Stopping in order; once more to stop at once.",
                false => "Stopping in order, as asked on the live page.",
            });
        });
    }

    fn before_finish(&mut self) {
        if let Some(hub) = &self.hub {
            hub.ending();
        }
    }

    fn manifest_notes(&mut self) -> Vec<(String, String)> {
        let Some(export) = &mut self.export else {
            return Vec::new();
        };
        let mut account = None;
        self.drawing.suspend(|| account = export.finish());
        let summary = account.as_ref().map(export_text::summary);
        summary
            .map(|text| ("otlp".to_owned(), text))
            .into_iter()
            .collect()
    }

    fn on_finish(&mut self, result: Result<&RunInfo, &ReplayError>) {
        self.drawing.finish();
        // Of a replay that failed.
        if let Some(export) = &mut self.export {
            export.finish();
        }
        if let Some(hub) = &self.hub {
            hub.finish(match result {
                Ok(info) => Ok((info, self.run.as_path())),
                Err(error) => Err(error.to_string()),
            });
        }
        if let Ok(info) = result {
            let lines = self.narrator.finished(info);
            lines.iter().for_each(Line::tell);
        }
    }

    fn suspend(&mut self, report: &mut dyn FnMut()) {
        self.drawing.suspend(report);
    }
}
