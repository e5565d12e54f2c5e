//! Properties of the reader of `perf script`, for any text.

use cpu_profile::script::{Entry, ScriptReader};
use cpu_profile::stacks::{Stacks, folded};

/// Reads a text; how many samples it has.
pub fn any(text: &str) -> u64 {
    let mut reader = ScriptReader::default();
    let mut entries: Vec<Entry> = text.lines().filter_map(|line| reader.line(line)).collect();
    entries.extend(reader.end());
    assert_eq!(reader.end(), None, "nothing is left behind the end");
    let lines = text.lines().count() as u64;
    assert!(reader.unreadable <= lines);
    assert!(entries.len() as u64 <= lines);
    let mut stacks = Stacks::default();
    let mut samples = 0;
    for entry in &entries {
        if let Entry::Sample { frames, .. } = entry {
            samples += 1;
            for frame in frames {
                assert!(!frame.name.is_empty());
                assert!(!frame.name.contains([';', '\n']), "{frame:?}");
                assert_eq!(frame.kernel, frame.name.ends_with("_[k]"), "{frame:?}");
            }
            let text = folded(frames);
            assert!(!text.is_empty() && text.split(';').count() <= frames.len().max(1));
            stacks.add(frames);
        }
    }
    assert!(stacks.complete <= stacks.unwound && stacks.unwound <= samples);
    let all = stacks.all();
    let counted: u64 = all.iter().map(|stack| stack.samples).sum();
    assert_eq!(counted, samples, "each sample has one stack");
    for (at, stack) in all.iter().enumerate() {
        assert_eq!(stack.id, at as u64, "numbers have no gaps");
    }
    samples
}
