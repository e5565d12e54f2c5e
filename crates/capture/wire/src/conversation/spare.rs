//! Space of statements that have left, for those that come: a session asks again and again for about as much.

use workload::PackedParameters;

use super::exchange::Asked;

/// So many are kept of each; as many statements are seldom under way at once.
const KEPT_MAX: usize = 4;
/// What has more space is given back, in bytes: there may be thousands of sessions.
const KEPT_BYTES_MAX: usize = 2048;

/// What one session keeps.
#[derive(Debug, Default)]
pub(super) struct Spare {
    #[expect(clippy::vec_box, reason = "the boxes themselves are handed out")]
    parameters: Vec<Box<PackedParameters>>,
    texts: Vec<String>,
}

impl Spare {
    /// No values, with space for some.
    pub(super) fn parameters(&mut self) -> Box<PackedParameters> {
        self.parameters.pop().unwrap_or_default()
    }

    /// An empty text, with space for one.
    pub(super) fn text(&mut self) -> String {
        self.texts.pop().unwrap_or_default()
    }

    /// Nobody needs this any more.
    pub(super) fn take(&mut self, asked: Asked) {
        match asked {
            Asked::Simple { mut sql }
                if self.texts.len() < KEPT_MAX && sql.capacity() <= KEPT_BYTES_MAX =>
            {
                sql.clear();
                self.texts.push(sql);
            }
            Asked::Execute { mut parameters, .. }
                if self.parameters.len() < KEPT_MAX
                    && parameters.capacity_bytes() <= KEPT_BYTES_MAX =>
            {
                parameters.clear();
                self.parameters.push(parameters);
            }
            _ => (),
        }
    }
}
