//! Answers, and their limits.

use report::TextStyle;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Lines of the report's text that an answer has in addition to the structured content.
const TEXT_LINES_MAX: usize = 24;
/// Bytes of this text.
const TEXT_BYTES_MAX: usize = 2_000;
/// Bytes of the message around an answer.
const ENVELOPE_BYTES: usize = 512;
/// Bytes that a text may still have if rows alone cannot be left out.
const SHORT_TEXT_BYTES: usize = 200;

/// Style of the texts of reports: that of a terminal without colours.
pub const STYLE: TextStyle = TextStyle {
    width: 100,
    colour: false,
};

/// Limits of an answer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    /// Rows of each list.
    pub rows: usize,
    /// Bytes of the answer.
    pub bytes: usize,
}

/// Answer of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Short text.
    pub text: String,
    /// Structured content. Its field `cut` lists what was left out.
    pub content: Value,
}

/// A list or text of which an answer has a part.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cut {
    /// Field of the list, with dots between the names.
    list: String,
    /// Rows that the answer has.
    kept: usize,
    /// Rows that there are.
    of: usize,
}

/// Rows that answers may have in each list, and bytes in each text.
#[derive(Clone, Copy)]
struct Room {
    rows: usize,
    text_bytes: Option<usize>,
}

impl Answer {
    /// Creates an answer within the limits. `text` is the report as the terminal shows it; its first lines are kept.
    pub fn within(limits: Limits, text: &str, content: Value) -> Self {
        let head = head(text);
        // The text is in the answer as a JSON string.
        let text_bytes = json!(head).to_string().len();
        let left = limits.bytes.saturating_sub(ENVELOPE_BYTES + text_bytes);
        let content = cut_to_bytes(content, limits.rows, left);
        let is_cut = content["cut"].as_array().is_some_and(|cut| !cut.is_empty());
        let text = match is_cut {
            true => {
                format!("{head}\n(Lists are cut; the field `cut` says how many rows there are.)")
            }
            false => head,
        };
        Answer { text, content }
    }
}

impl Limits {
    /// Cuts the message of a failure to the limit of bytes, as a JSON string within its envelope. Arguments of the call may
    /// be in it, which have no limit.
    pub fn cut_message(self, message: &str) -> String {
        let json_bytes = |text: &str| json!(text).to_string().len();
        let most = self.bytes.saturating_sub(ENVELOPE_BYTES);
        if json_bytes(message) <= most {
            return message.to_owned();
        }
        let mut left = most;
        let kept = message.chars().take_while(|one| {
            // Without the quotation marks.
            let bytes = json_bytes(one.encode_utf8(&mut [0; 4])) - 2;
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        let kept: String = kept.collect();
        format!(
            "{kept}… (cut: {} of {} bytes of the message)",
            kept.len(),
            message.len()
        )
    }
}

/// Returns the first lines of a text.
fn head(text: &str) -> String {
    let mut kept = String::new();
    let lines = text.trim_end().lines();
    let all = lines.clone().count();
    let mut shown = 0;
    for line in lines.take(TEXT_LINES_MAX) {
        if kept.len() + line.len() > TEXT_BYTES_MAX {
            break;
        }
        kept.push_str(line.trim_end());
        kept.push('\n');
        shown += 1;
    }
    if shown < all {
        kept.push_str(&format!("({} more lines of the report)", all - shown));
    }
    kept.trim_end().to_owned()
}

/// Cuts lists to `rows`, and to fewer until the content has at most `bytes`. Texts are cut last.
fn cut_to_bytes(content: Value, rows: usize, bytes: usize) -> Value {
    let mut room = Room {
        rows,
        text_bytes: None,
    };
    loop {
        let mut cuts = Vec::new();
        let mut kept = cut_lists(&content, "", room, &mut cuts);
        if let Value::Object(fields) = &mut kept {
            fields.insert("cut".to_owned(), json!(cuts));
        }
        if kept.to_string().len() <= bytes {
            return kept;
        }
        room = match room {
            Room {
                rows: 0,
                text_bytes: Some(_),
            } => break,
            Room {
                rows: 0,
                text_bytes: None,
            } => Room {
                rows,
                text_bytes: Some(SHORT_TEXT_BYTES),
            },
            Room { rows, text_bytes } => Room {
                rows: rows / 2,
                text_bytes,
            },
        };
    }
    let paths = content.get("paths").cloned().unwrap_or_default();
    json!({
        "paths": cut_lists(&paths, "all", Room { rows: 4, text_bytes: Some(SHORT_TEXT_BYTES) }, &mut Vec::new()),
        "cut": [{ "list": "all", "kept": 0, "of": 1 }],
    })
}

fn cut_lists(value: &Value, path: &str, room: Room, cuts: &mut Vec<Cut>) -> Value {
    match value {
        Value::Array(all) => {
            // Paths of artefacts are needed to ask further.
            let is_named = path == "paths";
            let kept = if is_named {
                all.len()
            } else {
                all.len().min(room.rows)
            };
            if kept < all.len() {
                cuts.push(Cut {
                    list: path.to_owned(),
                    kept,
                    of: all.len(),
                });
            }
            let rows = all[..kept].iter();
            Value::Array(rows.map(|row| cut_lists(row, path, room, cuts)).collect())
        }
        Value::Object(fields) => {
            let cut_field = |(name, field): (&String, &Value)| {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                (name.clone(), cut_lists(field, &path, room, cuts))
            };
            Value::Object(fields.iter().map(cut_field).collect::<Map<_, _>>())
        }
        Value::String(text) => match room.text_bytes {
            Some(most) if text.len() > most => {
                let mut end = most;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                cuts.push(Cut {
                    list: format!("{path} (bytes)"),
                    kept: end,
                    of: text.len(),
                });
                Value::String(format!("{}…", &text[..end]))
            }
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rows: usize, bytes: usize) -> Limits {
        Limits { rows, bytes }
    }

    #[test]
    fn list_longer_than_the_limit_is_cut_and_the_cut_is_reported() {
        let rows: Vec<u32> = (0..100).collect();
        let content = json!({ "report": { "rows": rows }, "few": [1, 2] });
        let answer = Answer::within(limits(10, 10_000), "all\nwell\n", content);
        assert_eq!(
            answer.content["report"]["rows"].as_array().unwrap().len(),
            10
        );
        assert_eq!(answer.content["few"], json!([1, 2]));
        assert_eq!(
            answer.content["cut"],
            json!([{ "list": "report.rows", "kept": 10, "of": 100 }])
        );
        assert!(answer.text.starts_with("all\nwell\n(Lists are cut"));
    }

    #[test]
    fn answer_is_never_longer_than_the_limit_of_bytes() {
        let deep = vec![vec!["x"; 50]; 50];
        let row = json!({ "sql": "select ".repeat(500), "deep": deep });
        let content =
            json!({ "paths": ["/a/b.run"], "rows": [row, row, row], "text": "é".repeat(50_000) });
        let text = "a line of the report\n".repeat(100);
        for bytes in [4_096, 5_000, 10_000, 200_000] {
            let answer = Answer::within(limits(50, bytes), &text, content.clone());
            let size = serde_json::to_string(&answer).unwrap().len();
            assert!(size <= bytes, "{size} of {bytes}");
            let is_cut = !answer.content["cut"].as_array().unwrap().is_empty();
            assert_eq!(is_cut, bytes < 200_000, "{bytes}");
            assert_eq!(answer.content["paths"], json!(["/a/b.run"]));
        }
    }

    #[test]
    fn paths_are_cut_if_they_alone_are_longer_than_the_limit_of_bytes() {
        let paths = vec!["/a/directory/of/runs/b.run"; 1_000];
        let answer = Answer::within(limits(50, 4_096), "", json!({ "paths": paths }));
        assert_eq!(answer.content["paths"].as_array().unwrap().len(), 4);
        assert_eq!(answer.content["cut"][0]["list"], "all");
    }

    #[test]
    fn message_of_a_failure_is_cut_to_the_limit_of_bytes_and_says_so() {
        let limits = limits(50, 4_096);
        assert_eq!(limits.cut_message("no such file"), "no such file");
        for one in ["x", "é", "\u{1}", "\""] {
            let cut = limits.cut_message(&one.repeat(100_000));
            let size = json!(cut).to_string().len();
            assert!((3_000..4_096).contains(&size), "{size}");
            assert!(cut.ends_with(" bytes of the message)"), "{cut}");
        }
    }

    #[test]
    fn short_answer_is_complete_and_says_that_nothing_is_cut() {
        let answer = Answer::within(limits(5, 4_096), "fine\n", json!({ "a": [1] }));
        assert_eq!(answer.content, json!({ "a": [1], "cut": [] }));
        assert_eq!(answer.text, "fine");
    }
}
