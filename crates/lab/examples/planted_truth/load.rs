//! Other work on the machine, which changes over time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Threads that are busy by turns, in humps of seconds, until this is dropped.
pub struct ChangingLoad {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ChangingLoad {
    /// Starts this number of threads. The seed decides when they are busy.
    pub fn start(threads: u64, seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = (0..threads)
            .map(|number| {
                let is_over = is_over.clone();
                spawn(move || run(seed << 20 | number, &is_over))
            })
            .collect();
        Self { is_over, threads }
    }
}

fn run(seed: u64, is_over: &AtomicBool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    while !is_over.load(Ordering::Relaxed) {
        let idle = Duration::from_millis(random.random_range(200..9_000));
        std::thread::sleep(idle.min(Duration::from_secs(9)));
        let end = Instant::now() + Duration::from_millis(random.random_range(200..9_000));
        while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

impl Drop for ChangingLoad {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
