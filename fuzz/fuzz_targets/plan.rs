//! Any two texts as plans (separated by a NUL): no panic, a plan is the same as itself, every step is
//! marked, and the order of the two changes nothing but the direction.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/analysis/plans/tests/plan_laws/mod.rs"]
mod plan_laws;

fuzz_target!(|data: &str| {
    let (one, other) = data.split_once('\0').unwrap_or((data, data));
    plan_laws::any_two(one, other);
});
