//! Queue of one session's jobs: in memory up to a fixed number, and on disk beyond it.
//!
//! ```text
//! pop ◄── head (memory) ◄── chunks (disk) ◄── tail (memory) ◄── push
//! ```

use std::collections::VecDeque;
use std::io;

use crate::job::Job;
use crate::spill::{Chunk, Spill};

/// Waiting jobs of a session, in order.
#[derive(Default)]
pub(crate) struct Queue {
    head: VecDeque<Job>,
    chunks: VecDeque<Chunk>,
    tail: VecDeque<Job>,
}

impl Queue {
    /// Adds a job. If it cannot be written to disk, it stays in memory.
    pub(crate) fn push(&mut self, job: Job, in_memory_max: usize, spill: &mut Spill) {
        if self.chunks.is_empty() && self.tail.is_empty() && self.head.len() < in_memory_max {
            self.head.push_back(job);
            return;
        }
        self.tail.push_back(job);
        if self.tail.len() >= in_memory_max
            && let Ok(chunk) = spill.write(self.tail.iter())
        {
            self.chunks.push_back(chunk);
            self.tail.clear();
        }
    }

    /// Returns the next job without removing it.
    ///
    /// # Errors
    /// If spilled jobs cannot be read back; those are lost.
    pub(crate) fn peek(&mut self, spill: &mut Spill) -> io::Result<Option<&Job>> {
        if self.head.is_empty() {
            match self.chunks.pop_front() {
                Some(chunk) => self.head = spill.take(chunk)?.into(),
                None => std::mem::swap(&mut self.head, &mut self.tail),
            }
        }
        Ok(self.head.front())
    }

    /// Removes the job that [`Queue::peek`] returned.
    pub(crate) fn pop(&mut self) -> Option<Job> {
        let job = self.head.pop_front();
        if self.head.is_empty() {
            // With ten thousand sessions, empty queues must not keep memory.
            self.head = VecDeque::new();
        }
        job
    }

    /// Whether fewer than `jobs` jobs wait.
    pub(crate) fn is_shorter_than(&self, jobs: usize) -> bool {
        self.chunks.is_empty() && self.head.len() + self.tail.len() < jobs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.chunks.is_empty() && self.tail.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::test_jobs::jobs_of_each_kind;

    #[test]
    fn queue_keeps_order_through_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(directory.path());
        let mut queue = Queue::default();
        let template = jobs_of_each_kind().remove(1);
        let (mut pushed, mut popped) = (0, 0);
        // Mixed pushing and popping, so that jobs pass through every part of the queue.
        for round in 0..200u64 {
            for _ in 0..(round * 7 % 13) {
                let job = Job {
                    sequence: pushed,
                    ..template.clone()
                };
                queue.push(job, 4, &mut spill);
                pushed += 1;
            }
            for _ in 0..(round * 5 % 11) {
                if let Some(job) = queue.peek(&mut spill).unwrap() {
                    assert_eq!(job.sequence, popped);
                    assert_eq!(queue.pop().unwrap().sequence, popped);
                    popped += 1;
                }
            }
            assert!(queue.head.len() <= 4 && queue.tail.len() < 4);
        }
        while queue.peek(&mut spill).unwrap().is_some() {
            assert_eq!(queue.pop().unwrap().sequence, popped);
            popped += 1;
        }
        assert!(pushed > 1_000);
        assert_eq!(popped, pushed);
        assert!(queue.is_empty());
    }
}
