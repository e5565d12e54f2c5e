//! Adaptive card of Microsoft Teams.
//!
//! Source: Microsoft, *Create an Incoming Webhook*: a message has at most 28 KB and one attachment with the card.
//! *Adaptive Cards schema explorer*, version 1.4: text runs are shown as they are, while text blocks interpret Markdown.

use serde_json::{Value, json};

use super::{Notification, Outcome, Span, SpanStyle};

/// Renders the message for an incoming webhook, or for a workflow that posts cards.
pub(super) fn render(message: &Notification) -> Value {
    let colour = match message.outcome {
        Outcome::Worse => "attention",
        Outcome::Fine => "good",
        Outcome::Unclear => "warning",
    };
    let title = json!({
        "type": "TextRun",
        "text": message.title,
        "size": "large",
        "weight": "bolder",
        "color": colour,
    });
    let mut body = vec![json!({"type": "RichTextBlock", "inlines": [title]})];
    body.extend(message.paragraphs().iter().map(|one| block(one)));
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "msteams": {"width": "Full"},
                "body": body,
            },
        }],
    })
}

fn block(paragraph: &[Span]) -> Value {
    let runs = paragraph.iter().map(|span| match span.style {
        SpanStyle::Plain => json!({"type": "TextRun", "text": span.text}),
        SpanStyle::Bold => json!({"type": "TextRun", "text": span.text, "weight": "bolder"}),
        SpanStyle::Code => json!({"type": "TextRun", "text": span.text, "fontType": "monospace"}),
    });
    let runs: Vec<Value> = runs.collect();
    json!({"type": "RichTextBlock", "inlines": runs})
}
