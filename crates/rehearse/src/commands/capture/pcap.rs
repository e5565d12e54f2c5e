//! `rehearse capture pcap` and `rehearse capture live`: packets become a workload.

use std::collections::BTreeMap;
use std::path::Path;

use ::capture::conversation::ConversationOptions;
use ::capture::pcap::live::{Live, LiveOptions};
use ::capture::pcap::{self, PcapError, PcapOptions, PcapReport, Progress};
use ::capture::{Counted, EventSink, MaskSink, SliceSink};
use clock::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressStyle};
use report::{ConversationView, MaskView, PcapView, SliceView, pcap_text, to_json};
use workload::rewrite::Slicer;
use workload::{Provenance, SliceAccount, SliceNote};

use super::kept::Kept;
use super::must_be_a_workloads_name;
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::keys;
use crate::options::pcap::{CaptureLive, CapturePcap, PacketArgs};
use crate::terminal;

/// Captures from files.
pub(super) fn from_files(options: &CapturePcap) -> Result<Ending, Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let size = |file: &std::path::PathBuf| std::fs::metadata(file).ok().map(|found| found.len());
    let total: Option<u64> = options.files.iter().map(size).sum();
    // What comes through a pipe ends when the program that writes it does: Ctrl-C reaches both.
    let piped = options.files.iter().any(|file| file == Path::new("-"));
    let bar = bar();
    let captured = capture(&options.packets, Kind::Files, |sink| {
        let pcap_options = PcapOptions {
            files: options.files.clone(),
            ports: options.packets.port.clone(),
            conversation: conversation(&options.packets),
            on_progress: Some(Box::new(|progress: Progress| {
                if let Some(total) = total {
                    bar.set_length(total);
                }
                tell(&bar, progress);
            })),
            stop: (!piped).then(|| -> Box<dyn Fn() -> bool> { Box::new(|| interrupt.is_asked()) }),
        };
        pcap::capture(pcap_options, sink)
    });
    bar.finish_and_clear();
    show(&captured?, options.packets.json)
}

/// Captures from an interface.
pub(super) fn from_interface(options: &CaptureLive) -> Result<Ending, Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let clock = SystemClock::start();
    let bar = bar();
    let begun_ns = clock.now_ns();
    let live_options = LiveOptions {
        interface: options.interface.clone(),
        ports: options.packets.port.clone(),
        conversation: conversation(&options.packets),
        on_progress: Some(Box::new(|progress| tell(&bar, progress))),
        stop: Box::new(|| {
            let enough = (options.how_long)
                .is_some_and(|how_long| clock.now_ns() - begun_ns >= how_long.as_nanos() as i64);
            enough || interrupt.is_asked()
        }),
    };
    let live = Live::listen(live_options).map_err(failure)?;
    let interface = &options.interface;
    let captured = capture(&options.packets, Kind::Interface, |sink| {
        bar.suspend(|| {
            terminal::note(&format!(
                "listening to {interface}; Ctrl-C ends the capture in order"
            ));
        });
        live.capture(sink)
    });
    bar.finish_and_clear();
    let captured = captured?;
    if captured.packets == 0 {
        terminal::note("no packet of the port came while it was listened to");
    }
    show(&captured, options.packets.json)
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

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Files,
    /// What it says will not come again.
    Interface,
}

fn capture(
    options: &PacketArgs,
    kind: Kind,
    read: impl FnOnce(&mut dyn EventSink) -> Result<PcapReport, PcapError>,
) -> Result<PcapView, Failure> {
    let slicer = options.slice.slice()?.map(|slice| Slicer::new(slice, None));
    let masker = options.masking.masker()?;
    let recipients = keys::recipients(&options.encryption.encrypt)?;
    let mut masked = None;
    let (report, span_us, events, statements, account) = match &options.output {
        None => {
            let mut sink = SliceSink::new(Counted::default(), slicer);
            let report = read(&mut sink).map_err(failure)?;
            must_be_readable(&report)?;
            let (counted, account) = sink.finish()?;
            (
                report,
                counted.span_us(),
                counted.events,
                counted.statements,
                account,
            )
        }
        Some(output) => {
            must_be_a_workloads_name(output)?;
            let kept = Kept::create(output, kind == Kind::Interface, &recipients)?;
            let mut sink = SliceSink::new(MaskSink::new(kept, masker), slicer);
            let report = read(&mut sink).map_err(failure)?;
            if let Err(failure) = must_be_readable(&report) {
                drop(sink);
                // Of an interface, what was written stays as a rule; this is nothing.
                let _ = std::fs::remove_dir_all(archive::partial_path(output));
                return Err(failure);
            }
            let (sink, account) = sink.finish()?;
            let mut kept;
            (kept, masked) = sink.finish();
            kept.writer.note_masks(masked.clone());
            let provenance = provenance(options, kind, &report, &account);
            let info = kept.writer.finish(provenance)?;
            (report, info.span_us, info.events, info.statements, account)
        }
    };
    let mut view = PcapView::new(&report);
    (view.span_us, view.events, view.statements) = (span_us, events, statements);
    view.sessions = report.account.conversation.sessions;
    if let Some(account) = account {
        view.sessions = account.sessions_kept;
        view.slice = Some(SliceView::new(&account));
    }
    view.mask = masked.as_ref().map(MaskView::new);
    if let Some(output) = &options.output {
        view.workload = output.display().to_string();
    }
    Ok(view)
}

/// As with a log in which no line is a server's: where all that was said is encrypted, or is no
/// conversation with PostgreSQL, there is no capture.
///
/// # Errors
/// Where that is so, with the reasons.
fn must_be_readable(report: &PcapReport) -> Result<(), Failure> {
    let said = ConversationView::new(&report.account.conversation);
    let readable = said.sessions + said.statements + said.statements_unrecorded + said.refused;
    if readable > 0 || said.unreadable.is_empty() {
        return Ok(());
    }
    let reasons = said
        .unreadable
        .values()
        .map(|reason| match reason.connections {
            1 => format!("1 connection {}", reason.explanation),
            more => format!("{more} connections {}", reason.explanation),
        });
    Err(Failure::could_not(format!(
        "nothing in it could be read: {}",
        reasons.collect::<Vec<_>>().join("; ")
    )))
}

fn provenance(
    options: &PacketArgs,
    kind: Kind,
    report: &PcapReport,
    account: &Option<SliceAccount>,
) -> Provenance {
    let ports: Vec<String> = options.port.iter().map(u16::to_string).collect();
    Provenance {
        source_kind: match kind {
            Kind::Files => "pcap".to_owned(),
            Kind::Interface => "interface".to_owned(),
        },
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
    }
}

fn failure(error: PcapError) -> Failure {
    match &error {
        PcapError::Read { error: inner, .. } if inner.kind() == std::io::ErrorKind::NotFound => {
            Failure::usage(error)
        }
        PcapError::NoInput | PcapError::NoneOfThePort { .. } => Failure::usage(error),
        _ => Failure::could_not(error),
    }
}

fn show(view: &PcapView, json: bool) -> Result<Ending, Failure> {
    match json {
        true => terminal::say_line(&to_json(view)),
        false => terminal::say(&pcap_text::render_text(view, &terminal::style())),
    }
    let damaged = view.sources.iter().any(|source| source.damage.is_some());
    let found = damaged || view.lost_bytes > 0 || !view.malformed.is_empty();
    Ok(if found { Ending::Found } else { Ending::Done })
}

fn conversation(options: &PacketArgs) -> ConversationOptions {
    ConversationOptions {
        digest: options.digest.is_some(),
    }
}
