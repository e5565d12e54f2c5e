//! Handling of one request: checks, then the answer of the site.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::access;
use super::access::{AllowedHosts, Refusal};
use super::body::{BusyGuard, ReplyBody};
use super::{Limits, Reply, Request, Site, header, set_header};

const HAS_BODY: Refusal = (
    StatusCode::PAYLOAD_TOO_LARGE,
    "a request has no body here; send it without one",
);
const LONG_PATH: Refusal = (
    StatusCode::URI_TOO_LONG,
    "there is no such path; it is too long",
);
const HANDLER_PANIC: Refusal = (
    StatusCode::INTERNAL_SERVER_ERROR,
    "the answer failed: this is an error in rehearse, please report it",
);
const HANDLER_TIMEOUT: Refusal = (
    StatusCode::SERVICE_UNAVAILABLE,
    "the answer takes too long; what was asked for may still happen",
);

/// Site and its limits, shared by all connections of a listener.
pub(super) struct Handler {
    pub(super) site: Arc<dyn Site>,
    pub(super) hosts: AllowedHosts,
    pub(super) limits: Limits,
}

impl Handler {
    /// Answers a request.
    pub(super) async fn respond(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
        busy: BusyGuard,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let (parts, body) = request.into_parts();
        let mut reply = match self.check(&parts, &body) {
            Ok(()) => self.answer(parts).await,
            Err(refusal) => {
                let mut reply = self.refuse(refusal);
                // What follows on this connection is not trusted to be a request.
                set_header(&mut reply, header::CONNECTION, "close");
                reply
            }
        };
        set_header(&mut reply, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set_header(&mut reply, header::CACHE_CONTROL, "no-store");
        reply.body_mut().set_busy_guard(busy);
        Ok(reply)
    }

    fn check(&self, parts: &Parts, body: &Incoming) -> Result<(), Refusal> {
        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        if path.len() > self.limits.path_bytes {
            return Err(LONG_PATH);
        }
        if !body.is_end_stream() {
            return Err(HAS_BODY);
        }
        access::check(parts, &self.hosts)
    }

    /// Calls the site on a handler thread.
    async fn answer(&self, parts: Parts) -> Reply {
        let site = self.site.clone();
        let request = Request::from_parts(parts, ());
        let answer = tokio::task::spawn_blocking(move || site.answer(&request));
        match tokio::time::timeout(self.limits.answer_time, answer).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_panic)) => self.refuse(HANDLER_PANIC),
            Err(_elapsed) => self.refuse(HANDLER_TIMEOUT),
        }
    }

    fn refuse(&self, (status, reason): Refusal) -> Reply {
        self.site.refuse(status, reason)
    }
}
