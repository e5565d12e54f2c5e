//! The two tiers of the tests. The fast tier starts real servers and drives every stage of the program. The
//! full tier adds all server versions, the browser, `perf`, the lab and long simulations.

use std::io::Write;

/// Environment variable that selects the full tier if it is `1`.
const VARIABLE: &str = "REHEARSE_TEST_FULL";

/// Share of the cases of a simulation that the fast tier runs.
const FAST_SHARE: u32 = 10;

/// Returns whether the full tier runs.
pub fn is_full_tier() -> bool {
    is_set(VARIABLE)
}

/// Returns whether an environment variable is `1`.
pub fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// Returns whether the calling test must be skipped, since it is part of the full tier only. Reports that on
/// standard error, past the test harness, which hides the output of tests that pass.
#[must_use]
pub fn skip_in_fast_tier() -> bool {
    let skip = !is_full_tier();
    if skip {
        report_skipped(&format!("part of the full tier, {VARIABLE}=1"));
    }
    skip
}

/// Returns whether the calling test must be skipped, since it takes this time, such as "minutes", and an environment
/// variable does not request it. Reports that.
#[must_use]
pub fn skip_unless_set(variable: &str, time: &str) -> bool {
    let skip = !is_set(variable);
    if skip {
        report_skipped(&format!("takes {time}, {variable}=1"));
    }
    skip
}

/// Reports that the calling test is skipped.
pub fn report_skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // `eprintln!` would be captured.
    let _ = writeln!(std::io::stderr(), "skipped: {test} ({reason})");
}

/// Returns the number of cases that a simulation runs in this tier.
pub fn cases(full: u32) -> u32 {
    if is_full_tier() {
        full
    } else {
        full.div_ceil(FAST_SHARE)
    }
}

/// Returns the server versions that a test covers in this tier: all, or the last.
///
/// # Panics
/// If there is none.
pub fn versions(all: &[u16]) -> &[u16] {
    if is_full_tier() {
        return all;
    }
    assert!(!all.is_empty(), "no version to test");
    if all.len() > 1 {
        report_skipped(&format!(
            "versions {:?}: {VARIABLE}=1",
            &all[..all.len() - 1]
        ));
    }
    &all[all.len() - 1..]
}
