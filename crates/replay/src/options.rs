//! What shapes a replay, as the engine takes it.

use clock::Speed;

use crate::login::LoginMap;

/// What shapes a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How fast captured time passes.
    pub speed: Speed,
    /// Who connects where.
    pub logins: LoginMap,
    /// Threads that send and receive; each owns its share of the sessions.
    pub workers: usize,
    /// How long before a deadline a worker stops sleeping and watches the clock, in microseconds:
    /// precision for CPU.
    pub spin_us: u32,
    /// Statements of one session that wait in memory; what waits past them waits on disk.
    pub queue_statements_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            speed: Speed::ONE,
            logins: LoginMap::default(),
            workers: default_workers(),
            spin_us: 0,
            queue_statements_max: 256,
        }
    }
}

/// One worker takes tens of thousands of statements a second; more than a quarter of the cores
/// would compete with what else the machine does.
fn default_workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 8)
}
