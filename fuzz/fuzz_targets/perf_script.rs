//! Any text as `perf script`'s: no panic, each sample has one stack, and nothing that separates frames is in one.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/server/cpu-profile/tests/script_laws/mod.rs"]
mod script_laws;

fuzz_target!(|data: &str| {
    script_laws::any(data);
});
