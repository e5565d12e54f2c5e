//! Masks the values of JSON and arrays one by one. The structure stays, and so do keys unless the mask includes them.

use serde::de::IgnoredAny;

use super::{JsonKeys, Mask};

/// Masks the values of a JSON text. Returns false for other text, and writes nothing then.
pub(super) fn mask_json(mask: &Mask, text: &str, out: &mut String) -> bool {
    let start = out.len();
    if !is_json(text) {
        return false;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                let quoted = &text[from..at];
                let is_key = text[at..].trim_ascii_start().starts_with(':');
                if is_key && mask.json_keys == JsonKeys::Kept {
                    out.push_str(quoted);
                    continue;
                }
                let Ok(value) = serde_json::from_str::<String>(quoted) else {
                    // Half of a surrogate pair, which no text can have.
                    out.truncate(start);
                    return false;
                };
                let mut masked = String::with_capacity(value.len());
                mask.mask_value(&value, &mut masked);
                out.push_str(&serde_json::Value::String(masked).to_string());
            }
            b'-' | b'0'..=b'9' => {
                while at < bytes.len()
                    && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                mask.mask_value(&text[from..at], out);
            }
            _ => {
                // Structure, white space, and the words true, false and null.
                at += 1;
                out.push_str(&text[from..at]);
            }
        }
    }
    true
}

/// Returns whether a text looks like an array or an object of JSON, or like an array in text form, so that it has values of
/// its own. A log may have cut it, so it need not be complete. The server accepts white space before it.
pub(super) fn has_elements(text: &str) -> bool {
    let text = text.trim_start();
    match text.strip_prefix('[') {
        Some(rest) => {
            // The bounds of an array can be before its elements: `[0:1]={a,b}`, or with blanks, `[0:1] = {a,b}`.
            let mut after_bounds = rest.split(']').skip(1).map(str::trim_start);
            let has_bounds = after_bounds.any(|part| {
                let elements = part.strip_prefix('=').map(str::trim_start);
                elements.is_some_and(|elements| elements.starts_with('{'))
            });
            rest.trim_start().starts_with(['{', '[', '"']) || has_bounds || is_json(text)
        }
        None => text.starts_with('{'),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Masks the elements of an array in text form, `{a,"b c",{NULL}}`. Returns false for other text.
pub(super) fn mask_array(mask: &Mask, text: &str, out: &mut String) -> bool {
    let Some(elements) = elements(text) else {
        return false;
    };
    for element in elements {
        match element {
            Element::Structure(text) => out.push_str(text),
            Element::Bare(text) if text.eq_ignore_ascii_case("null") => out.push_str(text),
            Element::Bare(text) => {
                let mut masked = String::with_capacity(text.len());
                mask.mask_value(text, &mut masked);
                match masked.eq_ignore_ascii_case("null") {
                    true => quote(&masked, out),
                    false => out.push_str(&masked),
                }
            }
            Element::Quoted(value) => {
                let mut masked = String::with_capacity(value.len());
                mask.mask_value(&value, &mut masked);
                quote(&masked, out);
            }
        }
    }
    true
}

enum Element<'a> {
    /// A brace, comma or white space.
    Structure(&'a str),
    Bare(&'a str),
    Quoted(String),
}

fn elements(text: &str) -> Option<Vec<Element<'_>>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut depth) = (0, 0u32);
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            byte @ (b'{' | b'}' | b',' | b' ' | b'\t' | b'\n') => {
                match byte {
                    b'{' => depth += 1,
                    b'}' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                at += 1;
                if depth == 0 && at < bytes.len() {
                    return None;
                }
                found.push(Element::Structure(&text[from..at]));
            }
            b'"' => {
                let mut value = String::new();
                let mut characters = text[at + 1..].char_indices();
                let closed = loop {
                    match characters.next()? {
                        (place, '"') => break place,
                        (_, '\\') => value.push(characters.next()?.1),
                        (_, character) => value.push(character),
                    }
                };
                at += 1 + closed + 1;
                found.push(Element::Quoted(value));
            }
            _ => {
                let rest = &text[from..];
                at += rest.find(['{', '}', ',', '"', '\\']).unwrap_or(rest.len());
                let bare = text[from..at].trim_end();
                if bare.is_empty() || matches!(bytes.get(at), None | Some(b'{' | b'"' | b'\\')) {
                    return None;
                }
                found.push(Element::Bare(bare));
                at = from + bare.len();
            }
        }
    }
    (depth == 0).then_some(found)
}

fn quote(value: &str, out: &mut String) {
    out.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}
