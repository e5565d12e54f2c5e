//! Message of Slack, in blocks.
//!
//! Source: Slack, *Block Kit* (<https://docs.slack.dev/reference/block-kit/blocks>): a message has at most 50 blocks, and a
//! header 150 characters. Texts of rich text are shown as they are: they begin no format, link or mention.
//! *Formatting message text*: the field `text` needs entities for `&`, `<` and `>`.

use serde_json::{Value, json};

use super::{Notification, Paragraph, Span, SpanStyle};
use crate::text::line::one_line;

/// Maximum number of characters of a header.
const HEADER_MAX: usize = 140;

/// Renders the message for an incoming webhook. Its `text` has the same for receivers that know no blocks.
pub(super) fn render(message: &Notification) -> Value {
    let title = one_line(&message.title, HEADER_MAX);
    let paragraphs = message.paragraphs();
    let sections: Vec<Value> = paragraphs.iter().map(|one| section(one)).collect();
    let texts = paragraphs.iter().map(plain_text);
    let texts: Vec<String> = std::iter::once(message.title.clone())
        .chain(texts)
        .collect();
    json!({
        "text": entities(&texts.join("\n")),
        "mrkdwn": false,
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": false}},
            {"type": "rich_text", "elements": sections},
        ],
    })
}

fn section(paragraph: &[Span]) -> Value {
    let spans = paragraph.iter().map(|span| match span.style {
        SpanStyle::Plain => json!({"type": "text", "text": span.text}),
        SpanStyle::Bold => json!({"type": "text", "text": span.text, "style": {"bold": true}}),
        SpanStyle::Code => json!({"type": "text", "text": span.text, "style": {"code": true}}),
    });
    let mut elements: Vec<Value> = spans.collect();
    elements.push(json!({"type": "text", "text": "\n"}));
    json!({"type": "rich_text_section", "elements": elements})
}

fn plain_text(paragraph: &Paragraph) -> String {
    paragraph.iter().map(|span| span.text.as_str()).collect()
}

fn entities(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
