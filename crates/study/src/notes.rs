//! Notes: progress messages of an operation.

use std::sync::OnceLock;

static LISTENER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that receives the notes of this process, once. Without one, notes are dropped.
pub fn set_listener(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

/// Reports a note: a sentence, without a line feed.
pub fn note(text: &str) {
    if let Some(listener) = LISTENER.get() {
        listener(text);
    }
}
