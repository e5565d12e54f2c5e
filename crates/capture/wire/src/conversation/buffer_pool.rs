//! Pools the buffers of completed statements: a session's statements need similar sizes.

use workload::PackedParameters;

use super::pending_requests::Request;

/// Maximum number of pooled buffers of each kind; rarely are more statements in progress at once.
const KEPT_MAX: usize = 4;
/// Maximum size of a pooled buffer, in bytes: there may be thousands of sessions.
const KEPT_BYTES_MAX: usize = 2048;

/// The buffers of one session.
#[derive(Debug, Default)]
pub(super) struct BufferPool {
    #[expect(clippy::vec_box, reason = "the boxes themselves are handed out")]
    parameters: Vec<Box<PackedParameters>>,
    texts: Vec<String>,
}

impl BufferPool {
    /// Returns an empty list of values, with capacity if available.
    pub(super) fn take_parameters(&mut self) -> Box<PackedParameters> {
        self.parameters.pop().unwrap_or_default()
    }

    /// Returns an empty text, with capacity if available.
    pub(super) fn take_text(&mut self) -> String {
        self.texts.pop().unwrap_or_default()
    }

    /// Takes the buffers of a completed request.
    pub(super) fn recycle(&mut self, request: Request) {
        match request {
            Request::Simple { mut sql }
                if self.texts.len() < KEPT_MAX && sql.capacity() <= KEPT_BYTES_MAX =>
            {
                sql.clear();
                self.texts.push(sql);
            }
            Request::Execute { mut parameters, .. }
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
