//! Measures the load of the machine by others, before and after a run.
//!
//! The processor time of others during a run is no such measure: on a busy machine they use what the server leaves, so it
//! depends on the change. Between runs the server is idle.

use std::hint::black_box;

use clock::monotonic_ns;
use statistics::SplitMix64;

/// Steps of the computation: about 50 ms on a processor of its own, far more than a time slice of the scheduler.
const STEPS: u32 = 50_000_000;

/// Returns the time of a fixed computation, in seconds. Other processes, the hypervisor and throttling prolong it.
pub(super) fn probe_load_s() -> f64 {
    let started_ns = monotonic_ns();
    let mut random = SplitMix64::new(1);
    for _ in 0..STEPS {
        black_box(random.next_u64());
    }
    (monotonic_ns() - started_ns) as f64 / 1e9
}
