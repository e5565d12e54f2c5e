//! Exporter: sends readings and spans to a collector, from its own thread.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clock::{Clock, SystemClock};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use tokio::sync::watch;

use crate::account::{ExportAccount, ExportFailure};
use crate::metric_family::MetricFamily;
use crate::otlp::{ReadingTime, Signal, encode_metrics, encode_spans, rejected_items};
use crate::settings::ExportSettings;
use crate::span::Span;

/// Interval at which spans are taken from the source.
const SPAN_INTERVAL: Duration = Duration::from_secs(1);
/// Most spans in a request.
const SPANS_MAX: usize = 512;
/// Most requests that wait for the collector. Past it, the oldest are dropped.
const QUEUE_MAX: usize = 32;
/// Time after the end in which the rest is sent: once for the request in progress, once for the others.
const FINISH_LIMIT: Duration = Duration::from_secs(3);
/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Most characters of a collector's message that are kept.
const MESSAGE_CHARS_MAX: usize = 200;

/// Source of metrics and spans. It is called from the exporter's thread.
pub trait TelemetrySource: Send {
    /// Returns all metrics at this time.
    fn metrics(&mut self) -> Vec<MetricFamily>;
    /// Returns at most this many spans that were not returned before.
    fn spans(&mut self, _most: usize) -> Vec<Span> {
        Vec::new()
    }
    /// Returns the number of spans so far for which the source had no room.
    fn spans_lost(&self) -> u64 {
        0
    }
}

/// Running export. Its source is never blocked, and its end takes a few seconds at most.
pub struct Exporter {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<ExportAccount>>,
    endpoint: String,
}

impl Exporter {
    /// Starts the thread. The collector is not asked for anything yet. The process must have chosen the cryptography of
    /// rustls before.
    ///
    /// # Errors
    /// If the system has no thread, or no certificates to check an `https` endpoint with.
    pub fn start(
        settings: ExportSettings,
        source: impl TelemetrySource + 'static,
    ) -> io::Result<Self> {
        let endpoint = settings.shown_endpoint.clone();
        let (stop, stopped) = watch::channel(false);
        let client = Client::builder()
            .default_headers(settings.headers.clone())
            .timeout(settings.timeout)
            .redirect(Policy::none())
            .user_agent(concat!("rehearse/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let clock = SystemClock::start();
        let export = Export {
            client,
            start_unix_ns: unix_ns(&clock),
            clock,
            account: ExportAccount {
                endpoint: endpoint.clone(),
                ..ExportAccount::default()
            },
            settings,
            source: Box::new(source),
            queue: VecDeque::new(),
        };
        let thread = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                event_loop::lower_thread_priority();
                runtime.block_on(export.run(stopped))
            })?;
        Ok(Exporter {
            stop,
            thread: Some(thread),
            endpoint,
        })
    }

    /// Exports the last values, and returns the account. What the collector does not take within a few seconds is lost.
    pub fn finish(mut self) -> ExportAccount {
        self.stop.send_replace(true);
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.unwrap_or_else(|| ExportAccount {
            endpoint: self.endpoint.clone(),
            last_failure: Some(ExportFailure::Panicked),
            ..ExportAccount::default()
        })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

fn unix_ns(clock: &SystemClock) -> u64 {
    u64::try_from(clock.wall_us()).unwrap_or(0) * 1_000
}

/// Request that waits to be sent.
struct QueuedRequest {
    signal: Signal,
    items: u64,
    body: Vec<u8>,
}

/// Result of sending a request.
enum Delivery {
    Accepted,
    /// The same request may be accepted later.
    Later(ExportFailure),
    /// The request will never be accepted.
    Never(ExportFailure),
    /// The collector took the request without this many of its items.
    InPart(u64, ExportFailure),
}

/// State of the exporter's thread.
struct Export {
    client: Client,
    clock: SystemClock,
    start_unix_ns: u64,
    settings: ExportSettings,
    source: Box<dyn TelemetrySource>,
    queue: VecDeque<QueuedRequest>,
    account: ExportAccount,
}

impl Export {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) -> ExportAccount {
        let tick = SPAN_INTERVAL.min(self.settings.interval);
        let mut until_reading = self.settings.interval;
        loop {
            // An error means that the exporter was dropped.
            if tokio::time::timeout(tick, stopped.changed()).await.is_ok() {
                break;
            }
            until_reading = until_reading.saturating_sub(tick);
            if until_reading.is_zero() {
                until_reading = self.settings.interval;
                self.read_metrics();
            }
            self.take_spans();
            if self.deliver_until_stop(&mut stopped).await {
                break;
            }
        }
        self.read_metrics();
        self.take_spans();
        let _ = tokio::time::timeout(FINISH_LIMIT, self.deliver()).await;
        while let Some(request) = self.queue.pop_front() {
            self.lose(&request);
        }
        self.account.spans_lost += self.source.spans_lost();
        self.account
    }

    fn read_metrics(&mut self) {
        let families = self.source.metrics();
        let time = ReadingTime {
            start_unix_ns: self.start_unix_ns,
            now_unix_ns: unix_ns(&self.clock),
        };
        self.account.readings += 1;
        self.push(QueuedRequest {
            signal: Signal::Metrics,
            items: families.iter().map(|family| family.points() as u64).sum(),
            body: encode_metrics(&self.settings.resource, &families, time),
        });
    }

    fn take_spans(&mut self) {
        // Bounded: a source that makes spans faster than they are taken must not keep the thread here.
        for _ in 0..QUEUE_MAX {
            let spans = self.source.spans(SPANS_MAX);
            if spans.is_empty() {
                return;
            }
            self.push(QueuedRequest {
                signal: Signal::Traces,
                items: spans.len() as u64,
                body: encode_spans(&self.settings.resource, &spans),
            });
        }
    }

    fn push(&mut self, request: QueuedRequest) {
        self.queue.push_back(request);
        if self.queue.len() > QUEUE_MAX
            && let Some(oldest) = self.queue.pop_front()
        {
            self.lose(&oldest);
        }
    }

    fn lose(&mut self, request: &QueuedRequest) {
        match request.signal {
            Signal::Metrics => self.account.readings_lost += 1,
            Signal::Traces => self.account.spans_lost += request.items,
        }
    }

    /// Sends what waits. Returns whether the exporter is to stop.
    async fn deliver_until_stop(&mut self, stopped: &mut watch::Receiver<bool>) -> bool {
        let mut delivery = pin!(self.deliver());
        let is_stopped = {
            let mut change = pin!(stopped.changed());
            std::future::poll_fn(|context| match delivery.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(false),
                Poll::Pending => change.as_mut().poll(context).map(|_| true),
            })
            .await
        };
        if is_stopped {
            let _ = tokio::time::timeout(FINISH_LIMIT, delivery).await;
        }
        is_stopped
    }

    /// Sends requests in order, up to the first that the collector may take later.
    async fn deliver(&mut self) {
        while let Some(request) = self.queue.front() {
            let delivery = self.send(request).await;
            let (signal, items) = (request.signal, request.items);
            if let Delivery::Later(failure) = delivery {
                self.account.failed_attempts += 1;
                self.account.last_failure = Some(failure);
                return;
            }
            let Some(request) = self.queue.pop_front() else {
                return;
            };
            match delivery {
                Delivery::Accepted => self.accept(signal, items),
                Delivery::InPart(rejected, failure) => {
                    self.account.last_failure = Some(failure);
                    match signal {
                        Signal::Metrics => {
                            self.account.accepted += 1;
                            self.account.readings_lost += 1;
                        }
                        Signal::Traces => {
                            let rejected = rejected.min(items);
                            self.accept(signal, items - rejected);
                            self.account.spans_lost += rejected;
                        }
                    }
                }
                Delivery::Later(failure) | Delivery::Never(failure) => {
                    self.account.failed_attempts += 1;
                    self.account.last_failure = Some(failure);
                    self.lose(&request);
                }
            }
        }
    }

    fn accept(&mut self, signal: Signal, items: u64) {
        self.account.accepted += 1;
        if signal == Signal::Traces {
            self.account.spans += items;
        }
    }

    async fn send(&self, request: &QueuedRequest) -> Delivery {
        let url = match request.signal {
            Signal::Metrics => &self.settings.metrics_url,
            Signal::Traces => &self.settings.traces_url,
        };
        let sent = self
            .client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(request.body.clone())
            .send()
            .await;
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(error) => return Delivery::Later(ExportFailure::NoAnswer(cause_of(&error))),
        };
        let status = answer.status();
        let mut body = Vec::new();
        // An answer that breaks off has its status already.
        while body.len() < ANSWER_BYTES_MAX
            && let Ok(Some(part)) = answer.chunk().await
        {
            body.extend_from_slice(&part);
        }
        body.truncate(ANSWER_BYTES_MAX);
        if status.is_success() {
            return match rejected_items(request.signal, &body) {
                (0, _) => Delivery::Accepted,
                (rejected, message) => {
                    Delivery::InPart(rejected, ExportFailure::PartlyRejected(shorten(&message)))
                }
            };
        }
        let failure = ExportFailure::Refused(status.as_u16(), shorten(&message_of(&body)));
        // Source: https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes.
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Delivery::Later(failure),
            _ => Delivery::Never(failure),
        }
    }
}

/// Returns the innermost reason. The outer ones repeat the address, which may have credentials.
fn cause_of(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match std::ptr::addr_eq(innermost, error) {
        true => "the request failed".to_owned(),
        false => shorten(&innermost.to_string()),
    }
}

/// Returns the text of a refusal: a plain text, or the message of a `google.rpc.Status`, whose field 2 it is.
fn message_of(body: &[u8]) -> String {
    /// Status of a refusal (<https://opentelemetry.io/docs/specs/otlp/#failures-1>).
    #[derive(prost::Message)]
    struct RpcStatus {
        #[prost(string, tag = "2")]
        message: String,
    }
    let status = <RpcStatus as prost::Message>::decode(body).ok();
    match status.filter(|status| !status.message.is_empty()) {
        Some(status) => status.message,
        None => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Removes control characters, and shortens.
fn shorten(text: &str) -> String {
    let mut words = text.split(|c: char| c.is_control() || c.is_whitespace());
    let joined: Vec<&str> = words.by_ref().filter(|word| !word.is_empty()).collect();
    let joined = joined.join(" ");
    match joined.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &joined[..end]),
        None => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_a_refusal_is_its_text_or_its_status() {
        assert_eq!(message_of(b"404 page not found\n"), "404 page not found\n");
        assert_eq!(message_of(b"\x08\x03\x12\x03bad"), "bad");
        assert_eq!(shorten("a\n\x1b b"), "a b");
        assert_eq!(
            shorten(&"x".repeat(300)).chars().count(),
            MESSAGE_CHARS_MAX + 1
        );
    }
}
