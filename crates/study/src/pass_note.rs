//! Notes on a pass over the whole workload before a replay, which delays its first statement.

use std::time::Duration;

use clock::duration_text;
use replay::WorkloadPass;

/// Time after which a pass is noted.
const NOTED_AFTER: Duration = Duration::from_secs(1);
/// Time between two notes of one pass.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// Pass that is running, and the time of its next note.
#[derive(Debug, Default)]
pub(crate) struct PassNote {
    running: Option<RunningPass>,
}

#[derive(Debug)]
struct RunningPass {
    pass: WorkloadPass,
    begun_ns: i64,
    next_note_ns: i64,
    is_noted: bool,
}

impl RunningPass {
    /// Describes the share that is read, and the remaining time at the speed so far.
    fn describe(&self, read: u64, all: u64, now_ns: i64) -> String {
        let share = read.max(1) as f64 / all.max(1) as f64;
        let elapsed_ns = now_ns.saturating_sub(self.begun_ns) as f64;
        let left_ns = elapsed_ns * (1.0 / share - 1.0).max(0.0);
        format!(
            "{} % is read, about {} are left",
            (share * 100.0) as u64,
            duration_text(left_ns as i64)
        )
    }
}

impl PassNote {
    /// Takes the progress of a pass at a monotonic time. Returns a note if one is due.
    pub(crate) fn progress(
        &mut self,
        pass: WorkloadPass,
        read: u64,
        all: u64,
        now_ns: i64,
    ) -> Option<String> {
        let running = match &mut self.running {
            Some(running) if running.pass == pass => running,
            running => running.insert(RunningPass {
                pass,
                begun_ns: now_ns,
                next_note_ns: now_ns.saturating_add(nanoseconds(NOTED_AFTER)),
                is_noted: false,
            }),
        };
        if now_ns < running.next_note_ns {
            return None;
        }
        running.next_note_ns = now_ns.saturating_add(nanoseconds(NOTED_EVERY));
        let progress = running.describe(read, all, now_ns);
        if running.is_noted {
            return Some(format!("  {progress}"));
        }
        running.is_noted = true;
        let reading = format!("Reading all {all} events of the workload");
        let purpose = match pass {
            WorkloadPass::Inference => "values that the captured server generated",
            WorkloadPass::Origins => "the dependencies between its statements",
            WorkloadPass::Demand => {
                return Some(format!(
                    "Reading all {all} events of the replay for its peaks ({progress})."
                ));
            }
        };
        Some(format!(
            "{reading} for {purpose} before the first statement ({progress}). A replay with --order session, and without --remap-generated, starts at once; its statements do not wait for other sessions."
        ))
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_is_noted_after_a_second_and_then_every_ten() {
        let mut note = PassNote::default();
        let mut at = |pass, read, seconds: i64| {
            note.progress(pass, read, 1_000, seconds * 1_000_000_000)
                .is_some()
        };
        let noted: Vec<i64> = (0..25)
            .filter(|second| at(WorkloadPass::Inference, 100, *second))
            .collect();
        assert_eq!(noted, [1, 11, 21]);
        // The next pass has its own notes.
        assert!(!at(WorkloadPass::Origins, 100, 25));
        assert!(at(WorkloadPass::Origins, 400, 26));
    }

    #[test]
    fn note_names_the_share_the_time_left_and_the_option_without_a_pass() {
        let mut note = PassNote::default();
        assert_eq!(note.progress(WorkloadPass::Origins, 1, 200, 0), None);
        let text = note.progress(WorkloadPass::Origins, 50, 200, 20_000_000_000);
        let text = text.unwrap();
        assert!(
            text.contains("25 % is read, about 1 min 00 s are left"),
            "{text}"
        );
        assert!(text.contains("--order session"), "{text}");
        let next = note.progress(WorkloadPass::Origins, 150, 200, 60_000_000_000);
        let expected = "  75 % is read, about 20.0 s are left";
        assert_eq!(next.as_deref(), Some(expected));
    }
}
