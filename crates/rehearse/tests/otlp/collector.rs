//! A collector for OTLP over HTTP, which keeps what it gets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Answer to every request.
#[derive(Clone, Copy)]
pub enum Answer {
    Accept,
    /// Status and text.
    Refuse(&'static str, &'static str),
    /// Number of spans, and the reason.
    RejectSpans(i64, &'static str),
    /// The connection stays open without an answer.
    Silence,
}

/// Decoded request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub path: String,
    /// Names are in lower case.
    pub headers: BTreeMap<String, String>,
    pub resource: Vec<KeyValue>,
    pub metrics: Vec<Metric>,
    pub spans: Vec<Span>,
}

pub struct Collector {
    endpoint: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Collector {
    pub fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let kept = requests.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = kept.clone();
                thread::spawn(move || serve(stream, answer, &kept));
            }
        });
        Collector { endpoint, requests }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers the requests of a connection.
fn serve(stream: TcpStream, answer: Answer, kept: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some((mut request, body)) = read_request(&mut reader) {
        decode(&mut request, &body);
        let is_trace = request.path.ends_with("/v1/traces");
        kept.lock().unwrap().push(request);
        let (status, body) = match answer {
            Answer::Accept => ("200 OK", Vec::new()),
            Answer::Refuse(status, text) => (status, text.as_bytes().to_vec()),
            Answer::RejectSpans(rejected_spans, message) if is_trace => {
                let part = ExportTracePartialSuccess {
                    rejected_spans,
                    error_message: message.to_owned(),
                };
                let answer = ExportTraceServiceResponse {
                    partial_success: Some(part),
                };
                ("200 OK", answer.encode_to_vec())
            }
            Answer::RejectSpans(..) => ("200 OK", Vec::new()),
            Answer::Silence => continue,
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if writer
            .write_all(head.as_bytes())
            .and_then(|()| writer.write_all(&body))
            .is_err()
        {
            return;
        }
    }
}

/// Reads a request and its body; `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Option<(Request, Vec<u8>)> {
    let mut request = Request::default();
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    request.path = line.split(' ').nth(1)?.to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        request
            .headers
            .insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; request.headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some((request, body))
}

fn decode(request: &mut Request, body: &[u8]) {
    if request.path.ends_with("/v1/metrics") {
        for one in ExportMetricsServiceRequest::decode(body)
            .unwrap()
            .resource_metrics
        {
            request.resource = one.resource.unwrap().attributes;
            request.metrics.extend(
                one.scope_metrics
                    .into_iter()
                    .flat_map(|scope| scope.metrics),
            );
        }
    } else {
        for one in ExportTraceServiceRequest::decode(body)
            .unwrap()
            .resource_spans
        {
            request.resource = one.resource.unwrap().attributes;
            request
                .spans
                .extend(one.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
}
