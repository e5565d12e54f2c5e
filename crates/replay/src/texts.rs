//! What is known of the texts of statements that come again and again, so that it is found out once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sql::SessionEffect;

/// So many texts are remembered, each in a place that its address tells.
const PLACES: usize = 256;

/// Remembers texts by where they lie: the executions of one statement share one.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    places: Vec<Option<Text>>,
}

#[derive(Debug)]
struct Text {
    /// Kept, so that no other text comes to lie there.
    text: Arc<str>,
    known: Known,
}

/// What is known of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) hash: u64,
    pub(crate) session_effect: SessionEffect,
}

impl Texts {
    #[inline]
    pub(crate) fn known(&mut self, text: &Arc<str>) -> Known {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        // Allocations begin at every 16th byte at most; the bits above tell them apart.
        let address = text.as_ptr() as usize;
        let place = &mut self.places[(address >> 4 ^ address >> 12) % PLACES];
        match place {
            Some(kept) if Arc::ptr_eq(&kept.text, text) => kept.known,
            _ => {
                let known = Known {
                    hash: hash(&**text),
                    session_effect: SessionEffect::of(text),
                };
                let text = Arc::clone(text);
                *place = Some(Text { text, known });
                known
            }
        }
    }
}

/// The same for what is alike, in this run of the program.
pub(crate) fn hash<T: Hash + ?Sized>(of: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_of_that_very_text() {
        let mut texts = Texts::default();
        // More than there are places for, and each twice, by turns.
        let many: Vec<Arc<str>> = (0..1_000).map(|n| format!("SET a = {n}").into()).collect();
        let begin: Arc<str> = "BEGIN".into();
        for text in many.iter().chain(&many).flat_map(|text| [text, &begin]) {
            let known = texts.known(text);
            assert_eq!(known.hash, hash(&**text));
            assert_eq!(known.session_effect, SessionEffect::of(text), "{text}");
        }
    }
}
