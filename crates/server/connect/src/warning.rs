//! Warnings on connections that are opened, such as passwords without encryption.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

static LISTENER: OnceLock<fn(&str)> = OnceLock::new();
/// Warnings that were reported. There is at most one for each server and role.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Sets the function that receives the warnings of this process, once. Without one, warnings are dropped.
pub fn set_warning_listener(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

/// Reports a warning, if it was not reported before.
pub(crate) fn warn_once(text: String) {
    let Some(listener) = LISTENER.get() else {
        return;
    };
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !reported.contains(&text) {
        listener(&text);
        reported.insert(text);
    }
}
