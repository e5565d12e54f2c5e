//! Text on a capture from packets: the account of all packets and bytes.

use capture_wire::pcap::{MalformedReason, OtherTraffic, PcapAccount, PcapReport};

use crate::text::capture_text;
use crate::text::conversation_text;
use crate::text::line::{one_line, wrapped};
use crate::text::series_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{bytes, count, counted};
use crate::view::workload::CaptureReport;

/// Maximum number of damaged files.
const DAMAGED_MAX: usize = 5;

/// Renders the account, ending with a line feed.
pub fn render_text(captured: &CaptureReport<PcapReport>, style: &TextStyle) -> String {
    let width = style.columns();
    let account = &captured.report.account;
    let mut table = AccountTable::new();
    add_packets(&mut table, account);
    add_bytes(&mut table, account);
    let mut lines = vec![capture_text::heading(captured, *style)];
    lines.extend(table.lines(width));
    for note in notes(&captured.report) {
        lines.extend(wrapped(&one_line(&note, 600), "  ", "    ", width));
    }
    lines.extend(conversation_text::lines(&account.conversation, width));
    if !account.adds_up() {
        let text = "  the packets do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines.extend(capture_text::transformations(captured, *style));
    lines.extend(
        captured
            .written_series
            .iter()
            .flat_map(|series| series_text::lines(series, width)),
    );
    lines.push(String::new());
    lines.join("\n")
}

/// Adds the rows of packets by their use.
fn add_packets(table: &mut AccountTable, account: &PcapAccount) {
    table.row("packets read", count(account.packets), "");
    table.row(
        "of the port",
        count(account.segments),
        format!(
            "{} that said something, {} of them from the start",
            counted(account.connections, "connection"),
            count(account.from_the_start)
        ),
    );
    for (name, packets, what) in [
        (
            "cut",
            account.segments_cut,
            "their payload was cut by a snap length (capture with tcpdump -s 0)",
        ),
        (
            "cut within headers",
            account.headers_cut,
            "by a snap length, before their port could be told",
        ),
        (
            "fragments",
            account.fragments,
            "of IP packets, which are not put together",
        ),
    ] {
        if packets > 0 {
            table.row(name, count(packets), what);
        }
    }
    table.row("other traffic", count(account.passed.values().sum()), "");
    for (kind, packets) in &account.passed {
        table.row("", count(*packets), passed_text(*kind));
    }
    table.row("unreadable", count(account.malformed.values().sum()), "");
    for (kind, packets) in &account.malformed {
        table.row("", count(*packets), malformed_text(*kind));
    }
}

/// Adds the rows of payload bytes.
fn add_bytes(table: &mut AccountTable, account: &PcapAccount) {
    table.row(
        "payload",
        bytes(account.payload_bytes),
        format!("{} bytes", count(account.payload_bytes)),
    );
    table.row(
        "read",
        bytes(account.delivered_bytes),
        match account.waited {
            0 => String::new(),
            waited => format!("{} came in another order", counted(waited, "segment")),
        },
    );
    table.row(
        "sent again",
        bytes(account.retransmitted_bytes),
        "was there already",
    );
    if account.after_the_end_bytes > 0 {
        table.row(
            "after the end",
            bytes(account.after_the_end_bytes),
            "of its connection",
        );
    }
    table.row(
        "lost",
        bytes(account.lost_bytes),
        match account.gaps {
            0 => String::new(),
            gaps => format!(
                "in {}, in addition to what is there",
                counted(gaps, "piece")
            ),
        },
    );
}

/// Returns sentences on dropped packets, connections and damaged files.
fn notes(report: &PcapReport) -> Vec<String> {
    let account = &report.account;
    let mut notes = Vec::new();
    if account.dropped > 0 {
        notes.push(format!(
            "{} dropped before they could be captured; give the capture more memory (tcpdump -B 65536), or capture fewer",
            match account.dropped {
                1 => "1 packet was".to_owned(),
                dropped => format!("{} packets were", count(dropped)),
            }
        ));
    }
    let before = account.connections - account.from_the_start;
    if before > 0 {
        notes.push(format!(
            "{} there before the capture: who they are, and what they had set and prepared, is not known",
            match before {
                1 => "1 connection was".to_owned(),
                before => format!("{} connections were", count(before)),
            }
        ));
    }
    if account.without_data > 0 {
        notes.push(format!(
            "{} without a byte said: refused, or only looking whether somebody listens",
            counted(account.without_data, "connection")
        ));
    }
    for source in report
        .sources
        .iter()
        .filter(|source| source.damage.is_some())
        .take(DAMAGED_MAX)
    {
        let damage = source.damage.as_deref().unwrap_or_default();
        notes.push(format!("{}: {damage}", one_line(&source.file.name, 60)));
    }
    notes
}

fn passed_text(kind: OtherTraffic) -> &'static str {
    match kind {
        OtherTraffic::OtherPort => "TCP of other ports",
        OtherTraffic::NotTcp => "IP, but not TCP",
        OtherTraffic::NotIp => "not IP",
        OtherTraffic::UnknownLink => "of an interface whose link type is not read here",
    }
}

fn malformed_text(kind: MalformedReason) -> &'static str {
    match kind {
        MalformedReason::TooShort => "shorter than their headers",
        MalformedReason::Length => "a length in them cannot be",
        MalformedReason::WithoutTime => "without a time",
    }
}
