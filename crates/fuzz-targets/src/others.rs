//! Targets whose properties the tests of their crates check as well.

#[allow(dead_code, reason = "the crate's tests use the rest")]
#[path = "../../base/protocol/tests/laws/mod.rs"]
mod messages;
#[path = "../../capture/wire/tests/packet_laws/mod.rs"]
mod packets;
#[path = "../../analysis/plans/tests/plan_laws/mod.rs"]
mod plans;
#[path = "../../server/cpu-profile/tests/script_laws/mod.rs"]
mod scripts;
#[allow(dead_code, reason = "the crate's tests use the rest")]
#[path = "../../capture/wire/tests/talk_laws/mod.rs"]
mod talks;

pub use messages::{backend, frontend};
pub use packets::any_bytes as packet_file;

/// Checks a conversation in which the server has spoken before.
pub fn conversation_client(data: &[u8]) {
    talks::hold(&[include_bytes!("../../../fuzz/before_client.talk"), data].concat());
}

/// Checks a conversation in which the client has spoken before.
pub fn conversation_server(data: &[u8]) {
    talks::hold(&[include_bytes!("../../../fuzz/before_server.talk"), data].concat());
}

/// Checks two texts, separated by a NUL, as plans.
pub fn plan(data: &[u8]) {
    let text = crate::text(data);
    let (one, other) = text.split_once('\0').unwrap_or((text, text));
    plans::any_two(one, other);
}

/// Checks a text as the output of `perf script`.
pub fn perf_script(data: &[u8]) {
    scripts::any(crate::text(data));
}
