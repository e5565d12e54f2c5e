//! What a client says in a conversation: nothing makes the reader panic, and its account adds up.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/capture/wire/tests/talk_laws/mod.rs"]
mod talk_laws;

/// The bytes of the file, before which the other side has said what it says.
const BEFORE: &[u8] = include_bytes!("../before_client.talk");

fuzz_target!(|data: &[u8]| {
    let mut talk = BEFORE.to_vec();
    talk.extend_from_slice(data);
    talk_laws::hold(&talk);
});
