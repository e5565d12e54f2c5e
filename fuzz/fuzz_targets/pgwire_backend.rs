//! Bytes of a server: none makes a decoder panic, and what decodes encodes to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../crates/base/protocol/tests/laws/mod.rs"]
mod laws;

fuzz_target!(|data: &[u8]| laws::backend(data));
