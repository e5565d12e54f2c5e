//! Cache of properties of repeated statement texts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sql::{CapturedIdentifier, SessionEffect};

/// Number of entries. The address of a text selects its entry.
const ENTRIES: usize = 256;

/// Cache of a value for each text, with the texts' addresses as keys, since executions of one statement share one
/// text.
#[derive(Debug)]
pub(crate) struct TextCache<V> {
    entries: Vec<Option<Entry<V>>>,
}

#[derive(Debug)]
struct Entry<V> {
    /// Kept, so that no other text gets this address.
    text: Arc<str>,
    value: V,
}

impl<V> Default for TextCache<V> {
    fn default() -> Self {
        let entries = Vec::new();
        TextCache { entries }
    }
}

impl<V> TextCache<V> {
    /// Returns the value of a text, which is computed if the text is new.
    #[inline]
    pub(crate) fn get(&mut self, text: &Arc<str>, compute: impl FnOnce(&str) -> V) -> &V {
        if self.entries.is_empty() {
            self.entries.resize_with(ENTRIES, || None);
        }
        // Allocations are aligned to 16 bytes, so the higher bits distinguish them.
        let address = text.as_ptr() as usize;
        let entry = &mut self.entries[(address >> 4 ^ address >> 12) % ENTRIES];
        entry.take_if(|kept| !Arc::ptr_eq(&kept.text, text));
        let entry = entry.get_or_insert_with(|| Entry {
            text: Arc::clone(text),
            value: compute(text),
        });
        &entry.value
    }
}

/// Cached properties of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatementInfo {
    pub(crate) hash: u64,
    pub(crate) session_effect: SessionEffect,
    pub(crate) identifier: Option<CapturedIdentifier>,
}

impl StatementInfo {
    fn of(text: &str) -> Self {
        StatementInfo {
            hash: hash(text),
            session_effect: SessionEffect::of(text),
            identifier: CapturedIdentifier::find(text),
        }
    }
}

/// Cache of [`StatementInfo`].
#[derive(Debug, Default)]
pub(crate) struct StatementCache(TextCache<StatementInfo>);

impl StatementCache {
    #[inline]
    pub(crate) fn get(&mut self, text: &Arc<str>) -> StatementInfo {
        *self.0.get(text, StatementInfo::of)
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
