//! A capture from packets for people: every packet and every byte is somewhere.

use crate::text::amount::{bytes, count, counted, duration};
use crate::text::conversation_text;
use crate::text::line::{cut, one_line, wrapped};
use crate::text::mask_text;
use crate::text::slice_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::pcap::{PacketsView, PcapView};

/// As many damaged files are shown.
const DAMAGED_MAX: usize = 5;

/// The account as text, ending with a line feed.
pub fn render_text(view: &PcapView, style: &TextStyle) -> String {
    let width = style.columns();
    let found = format!(
        "{} of {}",
        counted(view.statements, "statement"),
        counted(view.sessions, "session")
    );
    let heading = match view.workload.as_str() {
        "" => format!("{found}; nothing was written"),
        workload => format!(
            "{}: {found} over {}",
            one_line(workload, 60),
            duration(view.span_us as f64)
        ),
    };
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, amount: String, what: String| {
        table.row([format!("  {name}"), amount, what]);
    };
    let sum = |kinds: &std::collections::BTreeMap<String, PacketsView>| -> u64 {
        kinds.values().map(|kind| kind.packets).sum()
    };
    row("packets read", count(view.packets), String::new());
    row(
        "of the port",
        count(view.segments),
        format!(
            "{} that said something, {} of them from the start",
            counted(view.connections, "connection"),
            count(view.from_the_start)
        ),
    );
    for (name, packets, what) in [
        (
            "cut",
            view.segments_cut,
            "their payload was cut by a snap length (capture with tcpdump -s 0)",
        ),
        (
            "cut within headers",
            view.headers_cut,
            "by a snap length, before their port could be told",
        ),
        (
            "fragments",
            view.fragments,
            "of IP packets, which are not put together",
        ),
    ] {
        if packets > 0 {
            row(name, count(packets), what.to_owned());
        }
    }
    for (name, kinds) in [
        ("other traffic", &view.passed),
        ("unreadable", &view.malformed),
    ] {
        row(name, count(sum(kinds)), String::new());
        for kind in kinds.values() {
            row("", count(kind.packets), kind.explanation.clone());
        }
    }
    row(
        "payload",
        bytes(view.payload_bytes),
        format!("{} bytes", count(view.payload_bytes)),
    );
    row(
        "read",
        bytes(view.delivered_bytes),
        match view.waited {
            0 => String::new(),
            waited => format!("{} came in another order", counted(waited, "segment")),
        },
    );
    row(
        "sent again",
        bytes(view.retransmitted_bytes),
        "was there already".to_owned(),
    );
    if view.after_the_end_bytes > 0 {
        row(
            "after the end",
            bytes(view.after_the_end_bytes),
            "of its connection".to_owned(),
        );
    }
    row(
        "lost",
        bytes(view.lost_bytes),
        match view.gaps {
            0 => String::new(),
            gaps => format!("in {}, beside what is there", counted(gaps, "piece")),
        },
    );
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    let mut said = Vec::new();
    if view.dropped > 0 {
        said.push(format!(
            "{} dropped before they could be captured; give the capture more memory (tcpdump -B 65536), or capture fewer",
            match view.dropped {
                1 => "1 packet was".to_owned(),
                dropped => format!("{} packets were", count(dropped)),
            }
        ));
    }
    let before = view.connections - view.from_the_start;
    if before > 0 {
        said.push(format!(
            "{} there before the capture: who they are, and what they had set and prepared, is not known",
            match before {
                1 => "1 connection was".to_owned(),
                before => format!("{} connections were", count(before)),
            }
        ));
    }
    if view.without_data > 0 {
        said.push(format!(
            "{} without a byte said: refused, or only looking whether somebody listens",
            counted(view.without_data, "connection")
        ));
    }
    for source in view
        .sources
        .iter()
        .filter(|source| source.damage.is_some())
        .take(DAMAGED_MAX)
    {
        let damage = source.damage.as_deref().unwrap_or_default();
        said.push(format!("{}: {damage}", one_line(&source.name, 60)));
    }
    for line in said {
        lines.extend(wrapped(&one_line(&line, 600), "  ", "    ", width));
    }
    lines.extend(conversation_text::lines(&view.conversation, width));
    if !view.adds_up() {
        let text = "  the packets do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    if let Some(slice) = &view.slice {
        lines.extend(slice_text::account(slice, *style));
    }
    if let Some(mask) = &view.mask {
        lines.extend(mask_text::account(mask, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}
