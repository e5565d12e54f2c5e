//! Stacks by number: each different one is kept once.

use std::collections::HashMap;

use crate::script::Frame;

/// The most different stacks of a run, and the most bytes of them. What comes beyond is one stack,
/// [`OTHERS`].
const STACKS_MAX: usize = 200_000;
const BYTES_MAX: usize = 64 << 20;

/// Stands for all stacks beyond the most.
pub const OTHERS: &str = "[other stacks]";
/// Stands for a sample without any frame.
const EMPTY: &str = "[no stack]";

/// Where the stacks of a process that was not ended in its middle begin.
const OUTERMOST: [&str; 3] = ["main", "_start", "__libc_start_main"];

/// How many samples each stack has.
#[derive(Debug, Default)]
pub struct Stacks {
    numbers: HashMap<String, u32>,
    samples: Vec<u64>,
    bytes: usize,
    /// Samples with frames of programs, and those among them that reach `main`.
    pub unwound: u64,
    /// See there.
    pub complete: u64,
}

impl Stacks {
    /// Takes a sample, and says which stack it has.
    pub fn add(&mut self, frames: &[Frame]) -> u32 {
        let programs = frames.iter().filter(|frame| !frame.kernel).count();
        if programs > 0 {
            self.unwound += 1;
            self.complete += u64::from(is_complete(frames));
        }
        let folded = folded(frames);
        let number = match self.numbers.get(&folded) {
            Some(&number) => number,
            None if self.numbers.len() >= STACKS_MAX || self.bytes + folded.len() > BYTES_MAX => {
                self.number(OTHERS.to_owned())
            }
            None => self.number(folded),
        };
        self.samples[number as usize] += 1;
        number
    }

    fn number(&mut self, folded: String) -> u32 {
        if let Some(&number) = self.numbers.get(&folded) {
            return number;
        }
        let number = self.samples.len() as u32;
        self.bytes += folded.len();
        self.samples.push(0);
        self.numbers.insert(folded, number);
        number
    }

    /// All of them, by their numbers.
    pub fn all(self) -> Vec<run::Stack> {
        let mut all: Vec<run::Stack> = self
            .numbers
            .into_iter()
            .map(|(frames, number)| run::Stack {
                id: u64::from(number),
                frames,
                samples: self.samples[number as usize],
            })
            .collect();
        all.sort_by_key(|stack| stack.id);
        all
    }
}

/// Whether a stack reaches the function that a program begins with.
pub fn is_complete(frames: &[Frame]) -> bool {
    let outermost = frames.iter().rev().take(4);
    outermost
        .into_iter()
        .any(|frame| OUTERMOST.iter().any(|name| frame.name.starts_with(name)))
}

/// From the outermost to the innermost; what lies outside of `main` says nothing and goes.
pub fn folded(frames: &[Frame]) -> String {
    let from = frames.iter().rposition(|frame| frame.name == "main");
    let frames = &frames[..from.map_or(frames.len(), |at| at + 1)];
    if frames.is_empty() {
        return EMPTY.to_owned();
    }
    let names: Vec<&str> = frames.iter().rev().map(|frame| &*frame.name).collect();
    names.join(";")
}
