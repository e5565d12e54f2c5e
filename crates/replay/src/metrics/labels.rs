//! Counters by labels that are not known in advance. All workers share a table with a fixed number of labels,
//! and each worker has its own counts. Labels beyond that number count as `other`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use workload::Sqlstate;

/// Most different codes, without `other`. PostgreSQL has about 260, of which a workload causes few.
const CODES: usize = 128;
/// Most different names, without `other`.
const NAMES: usize = 32;
/// Label of all that did not fit.
const OTHER: &str = "other";

/// Hash table of SQLSTATEs: five bytes as a number; 0 in a free cell.
#[derive(Debug)]
pub(super) struct Codes {
    keys: [AtomicU64; CODES],
}

impl Default for Codes {
    fn default() -> Self {
        Codes {
            keys: [const { AtomicU64::new(0) }; CODES],
        }
    }
}

impl Codes {
    fn index(&self, sqlstate: Sqlstate) -> usize {
        let is_code =
            |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() || *byte == b'?';
        if !sqlstate.0.iter().all(is_code) {
            return CODES;
        }
        let key = sqlstate
            .0
            .iter()
            .fold(0, |key, byte| key << 8 | u64::from(*byte));
        let first = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57) as usize % CODES;
        for step in 0..CODES {
            let index = (first + step) % CODES;
            let cell = &self.keys[index];
            let found = match cell.load(Ordering::Relaxed) {
                0 => cell
                    .compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|other| other, |_| key),
                found => found,
            };
            if found == key {
                return index;
            }
        }
        CODES
    }

    fn name(&self, index: usize) -> String {
        match self.keys.get(index).map(|key| key.load(Ordering::Relaxed)) {
            Some(key) => key.to_be_bytes()[3..]
                .iter()
                .map(|byte| char::from(*byte))
                .collect(),
            None => OTHER.to_owned(),
        }
    }

    /// Returns the counts that are not 0, by code, with `other` last.
    pub(super) fn sum<'c>(
        &self,
        all: impl Iterator<Item = &'c codes::Cells>,
    ) -> Vec<(String, u64)> {
        named(sum(all.map(|cells| &cells.cells[..])), |index| {
            self.name(index)
        })
    }
}

/// Table of names.
#[derive(Debug)]
pub(super) struct Names {
    keys: [OnceLock<&'static str>; NAMES],
}

impl Default for Names {
    fn default() -> Self {
        Names {
            keys: [const { OnceLock::new() }; NAMES],
        }
    }
}

impl Names {
    fn index(&self, name: &'static str) -> usize {
        let is_at = |key: &OnceLock<&'static str>| *key.get_or_init(|| name) == name;
        self.keys.iter().position(is_at).unwrap_or(NAMES)
    }

    /// Returns the counts that are not 0, in order of name.
    pub(super) fn sum<'c>(
        &self,
        all: impl Iterator<Item = &'c names::Cells>,
    ) -> Vec<(String, u64)> {
        let name = |index: usize| {
            let key = self.keys.get(index).and_then(OnceLock::get);
            (*key.unwrap_or(&OTHER)).to_owned()
        };
        named(sum(all.map(|cells| &cells.cells[..])), name)
    }
}

fn sum<'c>(all: impl Iterator<Item = &'c [AtomicU64]>) -> Vec<u64> {
    let mut total = Vec::new();
    for cells in all {
        total.resize(cells.len(), 0);
        for (sum, cell) in total.iter_mut().zip(cells) {
            *sum += cell.load(Ordering::Relaxed);
        }
    }
    total
}

fn named(total: Vec<u64>, name: impl Fn(usize) -> String) -> Vec<(String, u64)> {
    let mut named: Vec<(String, u64)> = total
        .into_iter()
        .enumerate()
        .filter(|(_, count)| *count > 0)
        .map(|(index, count)| (name(index), count))
        .collect();
    // Codes are digits and capitals, so `other` sorts last.
    named.sort();
    named
}

/// Counts of SQLSTATEs of one worker.
pub(super) mod codes {
    use super::{AtomicU64, CODES, Codes, Sqlstate};

    #[derive(Debug)]
    pub(in super::super) struct Cells {
        pub(super) cells: [AtomicU64; CODES + 1],
    }

    impl Default for Cells {
        fn default() -> Self {
            Cells {
                cells: [const { AtomicU64::new(0) }; CODES + 1],
            }
        }
    }

    impl Cells {
        pub(in super::super) fn count(&self, codes: &Codes, sqlstate: Sqlstate) {
            super::super::add(&self.cells[codes.index(sqlstate)], 1);
        }
    }
}

/// Counts of names of one worker.
pub(super) mod names {
    use super::{AtomicU64, NAMES, Names};

    #[derive(Debug)]
    pub(in super::super) struct Cells {
        pub(super) cells: [AtomicU64; NAMES + 1],
    }

    impl Default for Cells {
        fn default() -> Self {
            Cells {
                cells: [const { AtomicU64::new(0) }; NAMES + 1],
            }
        }
    }

    impl Cells {
        pub(in super::super) fn count(&self, names: &Names, name: &'static str) {
            super::super::add(&self.cells[names.index(name)], 1);
        }
    }
}
