//! Computes how long a worker may sleep: a pure function, without a clock.

/// Way to wait for the next due statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Do not wait: a statement is due.
    None,
    /// Busy-wait: sleeping would be too coarse.
    Spin,
    /// Sleep for this many nanoseconds, or until an answer arrives.
    Sleep(i64),
}

/// Computes how to wait. `next_due_ns` is the earliest deadline, `spin_ns` the time to busy-wait before it, and
/// `sleep_max_ns` the longest sleep.
pub(crate) fn wait(now_ns: i64, next_due_ns: Option<i64>, spin_ns: i64, sleep_max_ns: i64) -> Wait {
    let Some(due_ns) = next_due_ns else {
        return Wait::Sleep(sleep_max_ns);
    };
    let left_ns = due_ns.saturating_sub(now_ns);
    if left_ns <= 0 {
        Wait::None
    } else if left_ns <= spin_ns {
        Wait::Spin
    } else {
        Wait::Sleep((left_ns - spin_ns).min(sleep_max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_sleeps_then_spins_then_returns() {
        assert_eq!(wait(0, None, 50, 1_000), Wait::Sleep(1_000));
        assert_eq!(wait(0, Some(5_000), 50, 1_000), Wait::Sleep(1_000));
        assert_eq!(wait(0, Some(500), 50, 1_000), Wait::Sleep(450));
        assert_eq!(wait(460, Some(500), 50, 1_000), Wait::Spin);
        assert_eq!(wait(500, Some(500), 50, 1_000), Wait::None);
        assert_eq!(wait(900, Some(500), 0, 1_000), Wait::None);
        assert_eq!(wait(i64::MIN, Some(i64::MAX), 0, 7), Wait::Sleep(7));
    }
}
