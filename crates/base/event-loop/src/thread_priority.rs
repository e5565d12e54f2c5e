//! Priority and timer precision of threads. On systems other than Linux, both stay as they are: `setpriority(2)`
//! there changes the whole process, and timers have no slack to reduce.

/// Nice value: subtracted for threads of the hot path, added for threads that prepare and record.
#[cfg(target_os = "linux")]
const NICE: libc::c_int = 10;

/// Sets the timer slack of this thread to the minimum, instead of 50 µs, and raises its priority if the user
/// may.
pub fn set_timer_slack() {
    // SAFETY: no pointers. A failure only reduces precision. On Linux 0 is the calling thread
    // (setpriority(2)).
    #[cfg(target_os = "linux")]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize);
        libc::setpriority(libc::PRIO_PROCESS, 0, -NICE);
    }
}

/// Lowers the priority of this thread, in favour of the hot path, and of a server on the same machine.
pub fn lower_thread_priority() {
    // SAFETY: no pointers. A failure changes nothing.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}
