//! Any bytes as a packet file: no panic, every packet and byte is accounted for, memory is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/capture/wire/tests/packet_laws/mod.rs"]
mod packet_laws;

fuzz_target!(|data: &[u8]| packet_laws::any_bytes(data));
