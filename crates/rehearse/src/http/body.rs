//! Bodies of answers: a text, or a stream that a task fills.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Pieces that a stream holds before its sender has to wait for the client.
const STREAM_PIECES: usize = 1;

/// Sends the pieces of a stream. It waits until the client has taken the piece before.
pub type StreamSender = mpsc::Sender<Bytes>;

/// The body of an answer.
pub struct ReplyBody {
    content: Content,
    /// Held until the body was handed to the connection.
    _busy: Option<BusyGuard>,
}

enum Content {
    /// A text, until it was handed over.
    Text(Option<Bytes>),
    /// What a task sends.
    Stream(mpsc::Receiver<Bytes>),
}

impl ReplyBody {
    /// Builds a stream and what fills it. It ends when the sender is dropped.
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
