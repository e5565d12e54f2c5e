//! A listener: its thread, its connections, and its end.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_io_timeout::TimeoutStream;

use super::access::AllowedHosts;
use super::body::BusyGuard;
use super::handler::Handler;
use super::{ListenerOptions, Site};

/// Threads that handlers share.
const HANDLER_THREADS: usize = 4;
/// Pause after the system refused a connection, for example because no descriptors were left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for answers under way to be sent when the listener ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A listener that answers until it is dropped. The drop waits a second at most for answers under way.
pub struct HttpServer {
    address: SocketAddr,
    /// Dropped to end the listener.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Answers what comes to a listener. The name is that of its threads and of messages.
    ///
    /// # Errors
    /// If the system has no room for a thread or its descriptors.
    pub fn start(
        listener: std::net::TcpListener,
        name: &'static str,
        site: impl Site,
        options: ListenerOptions,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(HANDLER_THREADS)
            .thread_name(name)
            .on_thread_start(event_loop::lower_thread_priority)
            .build()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let handler = Arc::new(Handler {
            site: Arc::new(site),
            hosts: AllowedHosts {
                listen: address.ip(),
                names: options.allowed_hosts,
            },
            limits: options.limits,
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                if !run(runtime, serve(listener, handler, stopped)) {
                    (options.complain)(&format!(
                        "the {name} listener failed and answers no more, everything else continues; this is an error in rehearse, please report it"
                    ));
                }
            })?;
        Ok(HttpServer {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves to the end. A panic ends the listener, and nothing else. Returns whether there was none.
fn run(runtime: Runtime, serve: impl Future<Output = ()>) -> bool {
    event_loop::lower_thread_priority();
    let served = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serve)));
    // A handler that still blocks is not waited for.
    runtime.shutdown_background();
    served.is_ok()
}

/// Accepts connections until it is stopped.
async fn serve(listener: TcpListener, handler: Arc<Handler>, mut stopped: oneshot::Receiver<()>) {
    let shutdown = GracefulShutdown::new();
    let mut connections = Connections::default();
    loop {
        let next = poll_fn(|context| match Pin::new(&mut stopped).poll(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => listener.poll_accept(context).map(Some),
        });
        match next.await {
            None => break,
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
            Some(Ok((stream, _))) => {
                if connections.make_room(handler.limits.connections) {
                    let connection = Connection::start(stream, &handler, &shutdown);
                    connections.0.push(connection);
                }
            }
        }
    }
    drop(listener);
    let _ = tokio::time::timeout(LAST_ANSWERS, shutdown.shutdown()).await;
}

/// The connections of a listener, the oldest first.
#[derive(Default)]
struct Connections(Vec<Connection>);

impl Connections {
    /// Makes room for one more connection. Closes the oldest that is not busy if the limit is
    /// reached: clients that send nothing, or slowly, shut out nobody. Returns false if all are busy.
    fn make_room(&mut self, limit: usize) -> bool {
        self.0.retain(|connection| !connection.task.is_finished());
        if self.0.len() < limit {
            return true;
        }
        let is_waiting = |one: &Connection| !one.is_busy.load(Ordering::Relaxed);
        let Some(oldest) = self.0.iter().position(is_waiting) else {
            return false;
        };
        self.0.remove(oldest).task.abort();
        true
    }
}

/// A connection that is served.
struct Connection {
    task: AbortHandle,
    /// From a request's head to the hand-over of its answer's last byte.
    is_busy: Arc<AtomicBool>,
}

impl Connection {
    fn start(stream: TcpStream, handler: &Arc<Handler>, shutdown: &GracefulShutdown) -> Self {
        // Without it, an event may wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let limits = &handler.limits;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.stall_time));
        let is_busy = Arc::new(AtomicBool::new(false));
        let service = {
            let (handler, is_busy) = (handler.clone(), is_busy.clone());
            service_fn(move |request| {
                let busy = BusyGuard::begin(&is_busy);
                handler.clone().respond(request, busy)
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_header_size(limits.head_bytes)
            .max_headers(limits.headers)
            .max_buf_size(2 * limits.head_bytes)
            .title_case_headers(true)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let task = tokio::spawn(shutdown.watch(connection));
        Connection {
            task: task.abort_handle(),
            is_busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::{Limits, Reply, ReplyBody, Request, StatusCode, StreamSender, text_reply};

    /// A deadline that only a failure comes to.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Answers in ways that are not a listener's everyday.
    struct TestSite {
        /// Releases one request for `/blocked`.
        release: Mutex<Receiver<()>>,
        streams: Mutex<Vec<StreamSender>>,
    }

    impl Site for TestSite {
        fn answer(&self, request: &Request) -> Reply {
            match request.uri().path() {
                "/panic" => panic!("on purpose"),
                "/blocked" => {
                    let released = self.release.lock().unwrap().recv_timeout(PATIENCE);
                    text_reply(
                        StatusCode::OK,
                        if released.is_ok() { "released" } else { "" },
                    )
                }
                "/stream" => {
                    let (sender, body) = ReplyBody::stream();
                    sender.blocking_send("begun".into()).unwrap();
                    self.streams.lock().unwrap().push(sender);
                    Reply::new(body)
                }
                _ => text_reply(StatusCode::OK, "here"),
            }
        }
    }

    fn serve(limits: Limits) -> (HttpServer, Sender<()>) {
        let (sender, release) = channel();
        let site = TestSite {
            release: Mutex::new(release),
            streams: Mutex::default(),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = HttpServer::start(
            listener,
            "test",
            site,
            ListenerOptions {
                limits,
                allowed_hosts: Vec::new(),
                complain: |message| panic!("{message}"),
            },
        )
        .unwrap();
        (server, sender)
    }

    fn connect(server: &HttpServer) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn request(server: &HttpServer, path: &str, host: &str) -> std::net::TcpStream {
        let mut stream = connect(server);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// All that comes until the connection is closed.
    fn rest(mut stream: std::net::TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn get(server: &HttpServer, path: &str) -> String {
        rest(request(server, path, "localhost"))
    }

    #[test]
    fn a_handler_that_panics_is_answered_with_500_and_the_next_one_runs() {
        let (server, _release) = serve(Limits::default());
        for _ in 0..2 * HANDLER_THREADS {
            let answer = get(&server, "/panic");
            assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        }
        assert!(get(&server, "/").ends_with("here"));
    }

    #[test]
    fn handlers_that_block_are_given_up_and_delay_no_connection() {
        let (server, release) = serve(Limits {
            answer_time: Duration::from_millis(300),
            ..Limits::default()
        });
        let blocked: Vec<_> = (0..HANDLER_THREADS)
            .map(|_| request(&server, "/blocked", "localhost"))
            .collect();
        let refused = rest(request(&server, "/", "attacker.example"));
        assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
        for answer in blocked.into_iter().map(rest) {
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        }
        (0..HANDLER_THREADS).for_each(|_| release.send(()).unwrap());
        assert!(get(&server, "/").ends_with("here"));
    }

    #[test]
    fn a_connection_past_the_limit_replaces_the_oldest_that_waits() {
        let (server, _release) = serve(Limits {
            connections: 2,
            head_time: 2 * PATIENCE,
            ..Limits::default()
        });
        let mut stream = request(&server, "/stream", "localhost");
        let mut begun = [0; 1 << 10];
        assert!(stream.read(&mut begun).unwrap() > 0);
        let silent = connect(&server);
        assert!(get(&server, "/").ends_with("here"));
        assert_eq!(rest(silent), "");
        // The stream is kept, since it is busy.
        stream.set_nonblocking(true).unwrap();
        let error = std::iter::repeat_with(|| stream.read(&mut begun)).find_map(Result::err);
        assert_eq!(error.unwrap().kind(), io::ErrorKind::WouldBlock);
        // With streams alone there is no room.
        let mut other = request(&server, "/stream", "localhost");
        assert!(other.read(&mut begun).unwrap() > 0);
        assert_eq!(get(&server, "/"), "");
    }

    #[test]
    fn an_answer_under_way_is_sent_before_the_listener_ends() {
        let (server, release) = serve(Limits::default());
        let address = server.address();
        let stream = request(&server, "/blocked", "localhost");
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            release.send(()).unwrap();
        });
        // It has arrived when a later one was answered.
        assert!(get(&server, "/").ends_with("here"));
        drop(server);
        late.join().unwrap();
        assert!(rest(stream).ends_with("released"));
        assert!(std::net::TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_panic_of_the_listener_does_not_leave_its_thread() {
        let runtime = Builder::new_current_thread().build().unwrap();
        assert!(!run(runtime, async { panic!("on purpose") }));
    }
}
