//! Time: monotonic and wall time, replay speed as an exact ratio, and a manual clock for tests.
//!
//! Code that waits or records times takes a [`Clock`]; the program creates the system clock. Sleeping is left
//! to the event loop of the replay, and the parsing of log time stamps to the log readers. There is no global
//! state.

mod factor;
mod format;
mod monotonic;
mod speed;

pub use factor::{Factor, FactorError};
pub use format::{duration_text, parse_duration, rfc3339_text, utc_text};
pub use monotonic::{Clock, ManualClock, SystemClock, monotonic_ns};
pub use speed::{Speed, SpeedError};
