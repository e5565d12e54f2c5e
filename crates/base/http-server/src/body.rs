//! Response bodies: a text, or a stream that a task fills.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Capacity of a stream, in pieces. When it is full, the sender waits for the client.
const STREAM_PIECES: usize = 1;

/// Sender of a stream's pieces. It waits until the client has received the previous piece.
pub type StreamSender = mpsc::Sender<Bytes>;

/// Body of a response.
pub struct ReplyBody {
    content: Content,
    /// Guard that is held until the body was passed to the connection.
    _busy: Option<BusyGuard>,
}

enum Content {
    /// Text, until it was passed to the connection.
    Text(Option<Bytes>),
    /// Stream that a task sends.
    Stream(mpsc::Receiver<Bytes>),
}

impl ReplyBody {
    /// Creates a stream and its sender. The stream ends when the sender is dropped.
    pub fn stream() -> (StreamSender, Self) {
        let (sender, receiver) = mpsc::channel(STREAM_PIECES);
        (sender, Content::Stream(receiver).into())
    }

    /// Keeps the connection marked as busy until this is dropped.
    pub(super) fn set_busy_guard(&mut self, guard: BusyGuard) {
        self._busy = Some(guard);
    }
}

impl From<Content> for ReplyBody {
    fn from(content: Content) -> Self {
        ReplyBody {
            content,
            _busy: None,
        }
    }
}

impl From<String> for ReplyBody {
    fn from(text: String) -> Self {
        Content::Text(Some(text.into())).into()
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.content {
            Content::Text(text) => Poll::Ready(text.take()),
            Content::Stream(receiver) => receiver.poll_recv(context),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// Marks a connection as busy until it is dropped.
pub(super) struct BusyGuard(Arc<AtomicBool>);

impl BusyGuard {
    pub(super) fn begin(is_busy: &Arc<AtomicBool>) -> Self {
        is_busy.store(true, Ordering::Relaxed);
        BusyGuard(is_busy.clone())
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
