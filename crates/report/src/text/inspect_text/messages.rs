//! Messages of the server.

use inspect::{Inspection, MessageExample, MessagePattern};
use workload::Sqlstate;

use super::server::place;
use super::statements::name_of;
use crate::sqlstate::condition_name;
use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted};

/// Maximum number of patterns.
const PATTERNS_MAX: usize = 10;

/// Lists the messages by pattern, the most frequent first, each with examples.
pub(super) fn list(view: &Inspection, style: TextStyle) -> Vec<String> {
    let messages = &view.messages;
    if messages.count() == 0 {
        return Vec::new();
    }
    let by_severity: Vec<String> = (messages.severities.iter().rev())
        .map(|(severity, number)| format!("{} {}", severity.name(), count(*number)))
        .collect();
    let title = format!(
        "Messages of the server, {} with {} ({})",
        count(messages.count()),
        match messages.further {
            0 => counted(messages.patterns.len() as u64, "pattern"),
            _ => format!(
                "more than {}",
                counted(messages.patterns.len() as u64, "pattern")
            ),
        },
        by_severity.join(" · ")
    );
    let mut lines = vec![String::new(), style.paint(Tone::Heading, &title)];
    let shown = &messages.patterns[..messages.patterns.len().min(PATTERNS_MAX)];
    let mut table = Table::new(&[Align::Right, Align::Left]);
    for one in shown {
        table.row([
            format!("  {}", count(one.count)),
            one.severity.name().to_owned(),
        ]);
    }
    for (numbers, one) in table.lines().into_iter().zip(shown) {
        let room = style.columns().saturating_sub(numbers.chars().count() + 2);
        lines.push(format!(
            "{numbers}  {}",
            one_line(&pattern_label(one), room.max(20))
        ));
        for example in &one.examples {
            let text = describe(example, one, view);
            let text = one_line(&text, style.columns().saturating_sub(6));
            lines.push(style.paint(Tone::Aside, &format!("      {text}")));
        }
    }
    let more = messages.patterns.len() - shown.len();
    if more > 0 || messages.further > 0 {
        let counts: u64 = messages.patterns[shown.len()..]
            .iter()
            .map(|one| one.count)
            .sum();
        lines.push(format!(
            "  and {} with further patterns",
            counted(counts + messages.further, "message")
        ));
    }
    lines
}

/// Describes an example: its time, its position, the names in it, and its statement.
fn describe(example: &MessageExample, pattern: &MessagePattern, view: &Inspection) -> String {
    let time = clock::utc_text(view.start_wall_us.saturating_add(example.at_us));
    let mut text = format!(
        "{}, {}",
        time.trim_end_matches(" UTC"),
        place(view.source(example.place), example.place.line)
    );
    let message = example.message.as_deref();
    if let Some(message) = message.filter(|message| **message != *pattern.pattern) {
        text.push_str(&format!(": {message}"));
    }
    if let Some(statement) = view.statement_of(example.fingerprint) {
        text.push_str(&format!(" | {}", name_of(statement)));
    }
    text
}

/// Names a pattern by its code and text.
pub(crate) fn pattern_label(one: &MessagePattern) -> String {
    let code = one.sqlstate.filter(|code| *code != Sqlstate::UNKNOWN);
    let code = code.map(|code| format!("{code} {}", condition_name(code.as_str())));
    match (code.as_deref().map(str::trim_end), one.pattern.as_str()) {
        (Some(code), "") => code.to_owned(),
        (Some(code), pattern) => format!("{code}: {pattern}"),
        (None, "") => "(text removed by masking)".to_owned(),
        (None, pattern) => pattern.to_owned(),
    }
}
