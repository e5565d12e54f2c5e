//! Cache of properties of repeated statement texts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sql::{CapturedIdentifier, SessionEffect};

/// Number of entries. The address of a text selects its entry.
const ENTRIES: usize = 256;

/// Cache with the texts' addresses as keys, since executions of one statement share one text.
#[derive(Debug, Default)]
pub(crate) struct StatementCache {
    entries: Vec<Option<Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// Kept, so that no other text gets this address.
    text: Arc<str>,
    info: StatementInfo,
}

/// Cached properties of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatementInfo {
    pub(crate) hash: u64,
    pub(crate) session_effect: SessionEffect,
    pub(crate) identifier: Option<CapturedIdentifier>,
}

impl StatementCache {
    #[inline]
    pub(crate) fn get(&mut self, text: &Arc<str>) -> StatementInfo {
        if self.entries.is_empty() {
            self.entries.resize_with(ENTRIES, || None);
        }
        // Allocations are aligned to 16 bytes, so the higher bits distinguish them.
        let address = text.as_ptr() as usize;
        let entry = &mut self.entries[(address >> 4 ^ address >> 12) % ENTRIES];
        match entry {
            Some(kept) if Arc::ptr_eq(&kept.text, text) => kept.info,
            _ => {
                let info = StatementInfo {
                    hash: hash(&**text),
                    session_effect: SessionEffect::of(text),
                    identifier: CapturedIdentifier::find(text),
                };
                let text = Arc::clone(text);
                *entry = Some(Entry { text, info });
                info
            }
        }
    }
}

/// Hashes a value. The result is stable within a process.
pub(crate) fn hash<T: Hash + ?Sized>(of: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_cache_returns_the_properties_of_the_text() {
        let mut texts = StatementCache::default();
        // More texts than entries, and each twice, alternating.
        let many: Vec<Arc<str>> = (0..1_000).map(|n| format!("SET a = {n}").into()).collect();
        let begin: Arc<str> = "BEGIN".into();
        for text in many.iter().chain(&many).flat_map(|text| [text, &begin]) {
            let info = texts.get(text);
            assert_eq!(info.hash, hash(&**text));
            assert_eq!(info.session_effect, SessionEffect::of(text), "{text}");
        }
    }
}
