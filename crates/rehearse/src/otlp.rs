//! `--otlp`: exports metrics, and spans of a replay, to an OpenTelemetry collector.
//!
//! The exporter asks the sources here for values, on its own thread. Neither a replay nor a capture depends on it.

mod spans;

use std::sync::{Arc, Mutex, PoisonError};

use capture_attach::AttachStatusReader;
use capture_log::Progress;
use capture_proxy::StatusReader;
use capture_sink::series::SeriesWatch;
use replay::{Metrics, SampledExecutions};
use report::{export_text, metric_families};
use study::Failure;
use study::observed_replay::ReplayStart;
use telemetry::{
    ExportAccount, ExportSettings, Exporter, MetricFamily, Span, TelemetrySource, is_sampled,
};

use crate::live::Hub;
use crate::metrics::{read_families, read_process_families};
use crate::terminal;
use spans::SpanMaker;

/// Flag of a traceparent whose trace was sampled (W3C Trace Context).
const SAMPLED: u8 = 1;

/// Starts an export of a capture.
fn start(
    settings: ExportSettings,
    source: impl TelemetrySource + 'static,
) -> Result<Exporter, Failure> {
    connect::tls::install_cryptography();
    let endpoint = settings.endpoint().to_owned();
    Exporter::start(settings, source).map_err(|error| {
        Failure::could_not(format!(
            "cannot export over OTLP to {endpoint}: {error}; correct that, or leave --otlp out"
        ))
    })
}

/// Ends an export, and reports once what was lost.
pub fn finish(exporter: Exporter) -> ExportAccount {
    let account = exporter.finish();
    if let Some(text) = export_text::complaint(&account) {
        terminal::note(&text);
    }
    account
}

/// Starts the export of a proxy's metrics.
///
/// # Errors
/// If there is no thread for it.
pub fn export_proxy(settings: ExportSettings, status: StatusReader) -> Result<Exporter, Failure> {
    let families = move || metric_families::proxy_families(&status.status());
    start(settings, LiveTelemetry(families))
}

/// Starts the export of the metrics of a capture by probes.
///
/// # Errors
/// If there is no thread for it.
pub fn export_attach(
    settings: ExportSettings,
    status: AttachStatusReader,
) -> Result<Exporter, Failure> {
    let families = move || metric_families::attach_families(&status.status());
    start(settings, LiveTelemetry(families))
}

/// Capture of live traffic, as a function that reads its metrics.
struct LiveTelemetry<F>(F);

impl<F: Fn() -> Vec<MetricFamily> + Send> TelemetrySource for LiveTelemetry<F> {
    fn metrics(&mut self) -> Vec<MetricFamily> {
        let mut families = vec![metric_families::build_info()];
        families.extend((self.0)());
        families.extend(read_process_families());
        families
    }
}

/// Progress of a capture of logs, for the exporter's thread.
pub type SharedProgress = Arc<Mutex<Progress>>;

/// Starts the export of a log capture's metrics.
///
/// # Errors
/// If there is no thread for it.
pub fn export_log(
    settings: ExportSettings,
    progress: SharedProgress,
    series: Option<SeriesWatch>,
) -> Result<Exporter, Failure> {
    start(settings, LogTelemetry(progress, series))
}

struct LogTelemetry(SharedProgress, Option<SeriesWatch>);

impl TelemetrySource for LogTelemetry {
    fn metrics(&mut self) -> Vec<MetricFamily> {
        let progress = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families = vec![metric_families::build_info()];
        families.extend(metric_families::log_families(&progress));
        let series = self.1.iter();
        families.extend(series.flat_map(|watch| metric_families::series_families(&watch.status())));
        families.extend(read_process_families());
        families
    }
}

/// Export of a replay that has not started.
pub struct PlannedExport {
    settings: ExportSettings,
    /// Share of the traces that have spans.
    span_ratio: f64,
    spans: Option<SpanMaker>,
}

/// Export of a replay.
pub enum ReplayExport {
    /// Before the replay.
    Waiting(Box<PlannedExport>),
    /// During the replay.
    Running(Exporter),
    /// After the replay.
    Ended,
}

impl ReplayExport {
    /// Creates the export of a replay that starts soon.
    pub fn new(settings: ExportSettings, span_ratio: f64) -> Self {
        ReplayExport::Waiting(Box::new(PlannedExport {
            settings,
            span_ratio,
            spans: None,
        }))
    }

    /// Takes the replay's facts.
    pub fn prepare(&mut self, start: &ReplayStart<'_>) {
        if let ReplayExport::Waiting(planned) = self {
            let settings = &mut planned.settings;
            let run = start.run.display().to_string();
            settings.add_resource_attribute("rehearse.run", &run);
            let workload = start.options.workload_name.clone();
            let name = workload.unwrap_or_else(|| start.workload.path().display().to_string());
            settings.add_resource_attribute("rehearse.workload", &name);
            settings.add_resource_attribute("rehearse.target", &start.target.address);
            planned.spans = Some(SpanMaker::new(start));
        }
    }

    /// Starts to export, before the first statement is sent. A failure is reported, since the replay does not depend
    /// on the export.
    pub fn begin(&mut self, meter: &Arc<Metrics>, hub: Option<&Arc<Hub>>) {
        let ReplayExport::Waiting(planned) = std::mem::replace(self, ReplayExport::Ended) else {
            return;
        };
        let PlannedExport {
            settings,
            span_ratio,
            spans: Some(spans),
        } = *planned
        else {
            return;
        };
        let sampled = meter.sample_executions(move |trace| {
            trace.flags & SAMPLED != 0 && is_sampled(trace.trace_id, span_ratio)
        });
        let source = ReplayTelemetry {
            meter: meter.clone(),
            hub: hub.cloned(),
            sampled,
            spans,
        };
        match start(settings, source) {
            Ok(exporter) => *self = ReplayExport::Running(exporter),
            Err(failure) => terminal::complain(&failure.message),
        }
    }

    /// Exports the last values, and reports once what was lost. Returns the account; `None` if nothing was exported.
    pub fn finish(&mut self) -> Option<ExportAccount> {
        match std::mem::replace(self, ReplayExport::Ended) {
            ReplayExport::Running(exporter) => Some(finish(exporter)),
            ReplayExport::Waiting(_) | ReplayExport::Ended => None,
        }
    }
}

struct ReplayTelemetry {
    meter: Arc<Metrics>,
    hub: Option<Arc<Hub>>,
    sampled: SampledExecutions,
    spans: SpanMaker,
}

impl TelemetrySource for ReplayTelemetry {
    fn metrics(&mut self) -> Vec<MetricFamily> {
        let waits = self.hub.as_ref().map(|hub| hub.now().waits.lately.clone());
        read_families(Some(&self.meter), &waits.unwrap_or_default())
    }

    fn spans(&mut self, most: usize) -> Vec<Span> {
        let executions = self.sampled.take(most);
        self.spans.spans(&executions, self.meter.now_ns())
    }

    fn spans_lost(&self) -> u64 {
        self.sampled.lost()
    }
}
