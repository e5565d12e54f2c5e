//! Numbers distinct stacks, so that each is stored once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::script::Frame;

/// Maximum number of distinct stacks of a run, and of their bytes. Further stacks become one, [`OTHER_STACKS`].
const STACKS_MAX: usize = 200_000;
const BYTES_MAX: usize = 64 << 20;

/// Name of all stacks beyond the maximum.
pub const OTHER_STACKS: &str = "[other stacks]";
/// Name of a stack without frames.
const EMPTY: &str = "[no stack]";

/// Outermost functions of a complete stack.
const OUTERMOST: [&str; 3] = ["main", "_start", "__libc_start_main"];

/// Number of samples of each stack.
#[derive(Debug, Default)]
pub struct Stacks {
    numbers: HashMap<String, u32>,
    samples: Vec<u64>,
    bytes: usize,
    /// Number of samples with frames of programs.
    pub unwound: u64,
    /// Number of these that reach `main`.
    pub complete: u64,
    /// Number of samples with functions without a name, by the path of the program or library.
    pub unnamed: BTreeMap<String, u64>,
}

impl Stacks {
    /// Adds a sample, and returns the number of its stack.
    pub fn add(&mut self, frames: &[Frame]) -> u32 {
        let programs = frames.iter().filter(|frame| !frame.kernel).count();
        if programs > 0 {
            self.unwound += 1;
            self.complete += u64::from(is_complete(frames));
        }
        let unnamed = within_main(frames).iter();
        let unnamed: BTreeSet<&String> =
            unnamed.filter_map(|one| one.unnamed_in.as_ref()).collect();
        for path in unnamed {
            match self.unnamed.get_mut(path) {
                Some(samples) => *samples += 1,
                None => drop(self.unnamed.insert(path.clone(), 1)),
            }
        }
        let folded = folded(frames);
        let number = match self.numbers.get(&folded) {
            Some(&number) => number,
            None if self.numbers.len() >= STACKS_MAX || self.bytes + folded.len() > BYTES_MAX => {
                self.number(OTHER_STACKS.to_owned())
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

    /// Returns all stacks, by their numbers.
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

/// Whether a stack reaches the first function of a program.
pub fn is_complete(frames: &[Frame]) -> bool {
    let outermost = frames.iter().rev().take(4);
    outermost
        .into_iter()
        .any(|frame| OUTERMOST.iter().any(|name| frame.name.starts_with(name)))
}

/// Returns the frames up to `main`.
fn within_main(frames: &[Frame]) -> &[Frame] {
    let from = frames.iter().rposition(|frame| frame.name == "main");
    &frames[..from.map_or(frames.len(), |at| at + 1)]
}

/// Returns the folded stack, from the outermost to the innermost function. Frames outside of `main` are
/// omitted, since they carry no information.
pub fn folded(frames: &[Frame]) -> String {
    let frames = within_main(frames);
    if frames.is_empty() {
        return EMPTY.to_owned();
    }
    let names: Vec<&str> = frames.iter().rev().map(|frame| &*frame.name).collect();
    names.join(";")
}
