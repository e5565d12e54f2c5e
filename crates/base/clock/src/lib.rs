//! Time, as the rest of the house sees it: monotonic and wall time told apart, replay speed as
//! an exact ratio, and a hand-turned clock for tests.
//!
//! Who drives: everything that waits or stamps takes a [`Clock`]; the program builds the real one.
//! Deliberately absent: sleeping (the replay's event loop sleeps in `epoll`), time zones and
//! calendars beyond printing an instant (reading logs has its own), and any global state.

mod factor;
mod format;
mod monotonic;
mod speed;

pub use factor::{Factor, FactorError};
pub use format::{duration_of, duration_text, rfc3339_text, utc_text};
pub use monotonic::{Clock, HandClock, SystemClock, monotonic_ns};
pub use speed::{Speed, SpeedError};
