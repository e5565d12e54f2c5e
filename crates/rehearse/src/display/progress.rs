//! Progress of a replay on standard error: redrawn lines on a terminal, otherwise a line at
//! increasing intervals.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use report::{LiveNowView, TextStyle, live_text};

use crate::log;
use crate::terminal;

/// Times of the first lines. After the last, its value is the interval.
const LINES_AT: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Progress display.
pub struct ProgressDisplay {
    bar: ProgressBar,
    style: Option<TextStyle>,
    /// Time of the next line, if standard error is not a terminal.
    next_line: Duration,
}

impl ProgressDisplay {
    /// Creates a display that shows nothing yet.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, terminal::progress_target());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("a valid template"));
        ProgressDisplay {
            bar,
            style: terminal::progress_style(),
            next_line: LINES_AT[0],
        }
    }

    /// Shows the present state.
    pub fn show(&mut self, now: &LiveNowView) {
        if let Some(style) = &self.style {
            let lines = live_text::render_lines(now, style).join("\n");
            if lines != self.bar.message() {
                self.bar.set_message(lines);
            }
            return;
        }
        let elapsed = Duration::from_secs_f64(now.elapsed_us.max(0.0) / 1e6);
        if log::is_json() || elapsed < self.next_line {
            return;
        }
        self.next_line = next_line(elapsed);
        terminal::note(&live_text::render_line(now));
    }

    /// Hides the display while other lines are written.
    pub fn suspend<T>(&self, tell: impl FnOnce() -> T) -> T {
        self.bar.suspend(tell)
    }

    /// Removes the display.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the time of the line that follows one at this time.
fn next_line(elapsed: Duration) -> Duration {
    let [_, .., each] = LINES_AT;
    let fixed = LINES_AT.into_iter().find(|at| *at > elapsed);
    fixed.unwrap_or_else(|| each * (elapsed.as_secs() / each.as_secs() + 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_ten_and_thirty_seconds_and_each_minute() {
        let mut at = vec![LINES_AT[0].as_secs()];
        while at.len() < 6 {
            let last = Duration::from_millis(at[at.len() - 1] * 1_000 + 40);
            at.push(next_line(last).as_secs());
        }
        assert_eq!(at, [10, 30, 60, 120, 180, 240]);
    }
}
