//! `rehearse capture pcap`: creates a workload from packets.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capture_sink::series::{SeriesOptions, SeriesSink};
use capture_sink::{EventCounter, EventSink, MaskSink, SliceSink, WorkloadOutput};
use capture_wire::conversation::DecoderOptions;
use capture_wire::pcap;
use capture_wire::pcap::{PcapError, PcapOptions, PcapReport, Progress};
use indicatif::{ProgressBar, ProgressStyle};

use report::{CaptureReport, conversation_text, pcap_text, to_json};
use transform::Slicer;
use workload::{CapturedServer, Provenance, SliceAccount, SliceNote, StartingPoint};

use super::check_output_name;
use super::series::{SeriesSource, series_options};
use super::starting_point::StartingPointTaker;
use crate::exit_status::ExitStatus;
use crate::options::pcap::CapturePcap;
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::keys;

/// Captures from files or from standard input.
pub(super) fn run(options: &CapturePcap) -> Result<ExitStatus, Failure> {
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let is_stream = |file: &&PathBuf| file.as_path() == Path::new("-");
    let streams = options.files.iter().filter(is_stream).count();
    if streams > 1 {
        return Err(Failure::usage(
            "standard input (-) was given twice; it can be read once",
        ));
    }
    let size = |file: &PathBuf| std::fs::metadata(file).ok().map(|found| found.len());
    let total: Option<u64> = options.files.iter().map(size).sum();
    let bar = bar();
    let given = options.starting_point.starting_point.as_deref();
    let starting_point = StartingPointTaker::new(given, None, options.output.as_deref())?;
    if given.is_some() {
        starting_point.take();
    }
    let start = (streams > 0, starting_point.taken());
    let captured = capture(options, start, &interrupt, |sink| {
        if streams > 0 {
            bar.suspend(|| {
                terminal::note("reading standard input; Ctrl-C ends the capture in order");
            });
        }
        let interrupt = interrupt.clone();
        let pcap_options = PcapOptions {
            files: options.files.clone(),
            ports: options.port.clone(),
            conversation: DecoderOptions {
                digest: options.checksum_results.is_some(),
                ..DecoderOptions::default()
            },
            on_progress: Some(Box::new(|progress: Progress| {
                if let Some(total) = total {
                    bar.set_length(total);
                }
                tell(&bar, progress);
            })),
            stop: Some(Arc::new(move || interrupt.is_requested())),
        };
        pcap::capture(pcap_options, sink)
    });
    bar.finish_and_clear();
    show(&captured?, options.json)
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
    let style = ProgressStyle::with_template(
        "{spinner} {decimal_bytes} read, {decimal_bytes_per_sec}, {msg}",
    )
    .expect("a valid template");
    bar.set_style(style);
    bar
}

fn tell(bar: &ProgressBar, progress: Progress) {
    bar.set_position(progress.read_bytes);
    bar.set_message(format!(
        "{} packets, {} events",
        progress.packets, progress.events
    ));
}

fn capture(
    options: &CapturePcap,
    (has_stream, starting_point): (bool, Option<StartingPoint>),
    interrupt: &Interrupt,
    read: impl FnOnce(&mut dyn EventSink) -> Result<PcapReport, PcapError>,
) -> Result<CaptureReport<PcapReport>, Failure> {
    let slicer = options.slice.slice()?.map(|slice| Slicer::new(slice, None));
    options.roll.refuse_slice(slicer.is_some())?;
    let masker = options.masking.masker()?;
    let recipients = keys::read_recipients(&options.encryption.encrypt)?;
    let mut masked = None;
    let (report, span_us, statements, account) = match &options.output {
        None => {
            let mut sink = SliceSink::new(EventCounter::default(), slicer);
            let report = read(&mut sink).map_err(failure)?;
            check_readable(&report)?;
            let (counted, account) = sink.finish()?;
            (report, counted.span_us(), counted.statements, account)
        }
        Some(output) if options.roll.roll.is_some() => {
            check_output_name(output, &options.roll)?;
            let source = SeriesSource {
                kind: "pcap",
                is_live: has_stream,
                is_pipe: has_stream,
                recipients,
                mask: masker.as_ref().map(|masker| masker.mask().clone()),
                starting_point,
                servers: Vec::new(),
            };
            return capture_series(options, series_options(&options.roll, output, source), read);
        }
        Some(output) => {
            check_output_name(output, &options.roll)?;
            let mut output_writer = WorkloadOutput::create(output, has_stream, &recipients)?;
            if let Some(point) = starting_point {
                output_writer.writer.note_starting_point(point)?;
            }
            let partial = archive::partial_path(output);
            if has_stream {
                interrupt.set_partial(partial.clone());
            }
            let mut sink = SliceSink::new(MaskSink::new(output_writer, masker), slicer);
            let report = match read(&mut sink) {
                // What came of a stream until then stays, for `rehearse recover`.
                Err(error) if has_stream && may_leave_events(&error) => return Err(failure(error)),
                Err(error) => Err(failure(error)),
                Ok(report) => check_readable(&report).map(|()| report),
            };
            let report = match report {
                Ok(report) => report,
                Err(failure) => {
                    drop(sink);
                    let _ = std::fs::remove_dir_all(partial);
                    return Err(failure);
                }
            };
            let (sink, account) = sink.finish()?;
            let mut output_writer;
            (output_writer, masked) = sink.finish();
            output_writer.writer.note_masks(masked.clone());
            let provenance = provenance(options, &report, &account);
            let info = output_writer.writer.finish(provenance)?;
            (report, info.span_us, info.statements, account)
        }
    };
    let sessions = report.account.conversation.sessions;
    Ok(CaptureReport {
        schema: "rehearse/capture-pcap/1",
        workload: (options.output.as_ref()).map(|output| output.display().to_string()),
        span_us,
        sessions: (account.as_ref()).map_or(sessions, |account| account.sessions_kept),
        statements,
        report,
        slice: account,
        mask: masked.map(From::from),
        written_series: None,
    })
}

fn capture_series(
    options: &CapturePcap,
    series: SeriesOptions,
    read: impl FnOnce(&mut dyn EventSink) -> Result<PcapReport, PcapError>,
) -> Result<CaptureReport<PcapReport>, Failure> {
    let path = series.path.display().to_string();
    let mut sink = SeriesSink::create(series)?;
    let report = read(&mut sink).map_err(failure)?;
    check_readable(&report)?;
    let status = sink.finish(provenance(options, &report, &None));
    let status = status.map_err(Failure::could_not)?;
    Ok(CaptureReport {
        schema: "rehearse/capture-pcap/1",
        workload: Some(path),
        span_us: status.span_us(),
        sessions: status.sessions,
        statements: status.statements,
        report,
        slice: None,
        mask: None,
        written_series: Some(status),
    })
}

/// Refuses a capture without any readable conversation: all traffic is encrypted, or is not
/// PostgreSQL's.
///
/// # Errors
/// In these cases, with the reasons.
fn check_readable(report: &PcapReport) -> Result<(), Failure> {
    let said = &report.account.conversation;
    let readable = said.sessions + said.statements + said.statements_unrecorded + said.refused;
    if readable > 0 || said.unreadable.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = conversation_text::unreadable_connections(said).collect();
    Err(Failure::could_not(format!(
        "nothing in it could be read: {}",
        reasons.join("; ")
    )))
}

fn provenance(
    options: &CapturePcap,
    report: &PcapReport,
    account: &Option<SliceAccount>,
) -> Provenance {
    let ports: Vec<String> = options.port.iter().map(u16::to_string).collect();
    Provenance {
        source_kind: "pcap".to_owned(),
        sources: (report.sources.iter())
            .map(|source| source.file.clone())
            .collect(),
        options: BTreeMap::from([("port".to_owned(), ports.join(","))]),
        start_wall_us: 0,
        reconciliation: serde_json::to_value(&report.account).expect("plain data"),
        slices: account
            .iter()
            .map(|account| SliceNote {
                options: options.slice.given(),
                account: account.clone(),
                ..SliceNote::default()
            })
            .collect(),
        rewrites: Vec::new(),
        // The packets may be of another machine, so it is unknown where loopback addresses are valid.
        servers: (report.servers.iter())
            .map(|server| CapturedServer {
                addresses: vec![server.ip()],
                port: server.port(),
                ..CapturedServer::default()
            })
            .collect(),
        ..Provenance::default()
    }
}

/// Returns whether events may have been written before a stream failed.
fn may_leave_events(error: &PcapError) -> bool {
    match error {
        // Of another file, which is opened first.
        PcapError::Read { error, .. } => error.kind() != ErrorKind::NotFound,
        PcapError::Sink(_) => true,
        _ => false,
    }
}

fn failure(error: PcapError) -> Failure {
    match &error {
        PcapError::Read { error: inner, .. } if inner.kind() == ErrorKind::NotFound => {
            Failure::usage(error)
        }
        PcapError::NoInput | PcapError::NoneOfThePort { .. } => Failure::usage(error),
        _ => Failure::could_not(error),
    }
}

fn show(captured: &CaptureReport<PcapReport>, json: bool) -> Result<ExitStatus, Failure> {
    match json {
        true => terminal::say_line(&to_json(captured)),
        false => terminal::say(&pcap_text::render_text(captured, &terminal::style())),
    }
    let PcapReport {
        sources, account, ..
    } = &captured.report;
    let damaged = sources.iter().any(|source| source.damage.is_some());
    let found = damaged || account.lost_bytes > 0 || !account.malformed.is_empty();
    Ok(if found {
        ExitStatus::Findings
    } else {
        ExitStatus::Success
    })
}
