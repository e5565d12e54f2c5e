//! HTTP/1.1 for small listeners of a program whose main work must not be disturbed.
//!
//! A listener has one thread with an asynchronous runtime, and no thread per connection. The program's own
//! threads share nothing with it. hyper parses what clients send, and [`Limits`] bounds what a
//! client can occupy. A [`Site`] answers on one of a few handler threads: a handler that blocks or panics
//! delays no other connection.

mod access;
mod body;
mod handler;
mod secret;
mod server;

use std::time::Duration;

pub use access::single_header;
pub use body::{ReplyBody, StreamSender};
pub use hyper::header;
pub use hyper::{Method, StatusCode};
pub use secret::{is_same_secret, random_hex};
pub use server::HttpServer;

/// A request whose size, `Host` and `Origin` were checked. It has no body.
pub type Request = hyper::Request<()>;
/// An answer to a request.
pub type Reply = hyper::Response<ReplyBody>;

/// Answers the requests of one listener.
pub trait Site: Send + Sync + 'static {
    /// Answers a request. It runs on a handler thread and may block.
    fn answer(&self, request: &Request) -> Reply;

    /// Renders the refusal of a request that [`answer`](Site::answer) is not asked for.
    fn refuse(&self, status: StatusCode, reason: &str) -> Reply {
        text_reply(status, &format!("{reason}\n"))
    }
}

/// Bounds on what clients can occupy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections. A further one replaces the oldest whose request is not being answered.
    pub connections: usize,
    /// Time for a request's head to arrive, and for a connection to be idle between requests.
    pub head_time: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Number of header lines in a request.
    pub headers: usize,
    /// Bytes of a request's path and query.
    pub path_bytes: usize,
    /// Time for a handler to answer. It exceeds the proxy's own limit for starting or stopping a recording.
    pub answer_time: Duration,
    /// Time for which a client may accept no byte of an answer.
    pub stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 64,
            head_time: Duration::from_secs(5),
            head_bytes: 16 << 10,
            headers: 64,
            path_bytes: 1 << 10,
            answer_time: Duration::from_secs(40),
            stall_time: Duration::from_secs(10),
        }
    }
}

/// Options of a listener.
#[derive(Debug, Clone)]
pub struct ListenerOptions {
    /// Bounds on what clients can occupy.
    pub limits: Limits,
    /// Host names under which the listener may be addressed, in addition to `localhost` and IP addresses.
    pub allowed_hosts: Vec<String>,
    /// Reports that the listener failed.
    pub complain: fn(&str),
}

/// Builds an answer in plain text.
pub fn text_reply(status: StatusCode, text: &str) -> Reply {
    typed_reply(status, "text/plain; charset=utf-8", text)
}

/// Builds an answer of a media type.
pub fn typed_reply(status: StatusCode, media_type: &'static str, text: &str) -> Reply {
    let mut reply = Reply::new(ReplyBody::from(text.to_owned()));
    *reply.status_mut() = status;
    set_header(&mut reply, header::CONTENT_TYPE, media_type);
    reply
}

/// Sets a header of an answer.
pub fn set_header(reply: &mut Reply, name: header::HeaderName, value: &'static str) {
    let value = header::HeaderValue::from_static(value);
    reply.headers_mut().insert(name, value);
}
