//! A server, a proxy in front of it, and recordings of every kind.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use capture_proxy::{
    ListenAddress, OpenRecording, Proxy, ProxyOptions, ProxyStatus, Recording, ServerTls,
};
use capture_sink::{EventCollector, EventSink, SinkError};
use capture_wire::conversation::DecoderOptions;
use connect::Target;
use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox};
use workload::{EventRef, Provenance, ServerEvent, Session, WorkloadInfo};

/// Time limit of every step, so that a test that hangs fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One server of each version for all tests; their watchdogs end them after the tests.
pub fn server(major: u16) -> &'static Endpoint {
    static OLD: OnceLock<(Sandbox, Endpoint)> = OnceLock::new();
    static NEW: OnceLock<(Sandbox, Endpoint)> = OnceLock::new();
    let place = match major {
        13 => &OLD,
        _ => &NEW,
    };
    let (_, endpoint) = place.get_or_init(|| {
        let mut sandbox = test_support::server()
            .major(major)
            .password("proxy")
            .create();
        let endpoint = sandbox.start().unwrap();
        (sandbox, endpoint)
    });
    endpoint
}

/// Recordings of a test, and their faults.
#[derive(Clone, Default)]
pub struct RecordingStore {
    /// The recorded events.
    pub collected: Arc<Mutex<EventCollector>>,
    /// Provenances of finished recordings.
    pub provenances: Arc<Mutex<Vec<Provenance>>>,
    /// While this is set, a recording blocks.
    pub stuck: Arc<AtomicBool>,
    /// Once this is set, a recording fails.
    pub full: Arc<AtomicBool>,
    /// Once this is set, a recording panics.
    pub broken: Arc<AtomicBool>,
}

struct StoredRecording {
    kept: RecordingStore,
    number: u32,
}

impl StoredRecording {
    fn befallen(&self) -> Result<(), SinkError> {
        while self.kept.stuck.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            !self.kept.broken.load(Ordering::SeqCst),
            "a panic that a test asked for"
        );
        match self.kept.full.load(Ordering::SeqCst) {
            true => Err(SinkError::new("No space left on device")),
            false => Ok(()),
        }
    }
}

impl EventSink for StoredRecording {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.befallen()?;
        self.kept.collected.lock().unwrap().event(event)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.befallen()?;
        self.kept.collected.lock().unwrap().session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.kept.collected.lock().unwrap().server_event(event)
    }
}

impl Recording for StoredRecording {
    fn name(&self) -> String {
        format!("{}.workload", self.number)
    }

    fn checkpoint(&mut self, _up_to_us: i64) -> Result<(), SinkError> {
        self.befallen()
    }

    fn finish(self: Box<Self>, provenance: Provenance) -> Result<WorkloadInfo, SinkError> {
        self.befallen()?;
        self.kept.provenances.lock().unwrap().push(provenance);
        Ok(WorkloadInfo::default())
    }
}

impl RecordingStore {
    pub fn opening(&self) -> OpenRecording {
        let kept = self.clone();
        Box::new(move |number, _| {
            let kept = kept.clone();
            Ok(Box::new(StoredRecording { kept, number }))
        })
    }

    /// Returns the texts of all statements so far.
    pub fn statements(&self) -> Vec<String> {
        let collected = self.collected.lock().unwrap();
        let texts = collected.events.iter().filter_map(|event| event.kind.sql());
        texts.map(ToString::to_string).collect()
    }
}

/// Configuration of a test's proxy.
pub struct Wish {
    pub upstream: String,
    pub listen: ListenAddress,
    pub tls: Option<ServerTls>,
    pub threads: usize,
    pub buffer_bytes: usize,
    pub by_ring: bool,
}

impl Wish {
    pub fn by_ring(self, by_ring: bool) -> Self {
        Wish { by_ring, ..self }
    }

    pub fn to(upstream: &str) -> Self {
        Wish {
            upstream: upstream.to_owned(),
            listen: ListenAddress::parse("127.0.0.1:0").unwrap(),
            tls: None,
            threads: 1,
            buffer_bytes: 16 << 20,
            by_ring: true,
        }
    }

    pub fn start(self, open: OpenRecording) -> Running {
        let options = ProxyOptions {
            listen: vec![self.listen],
            upstream: Target::parse(&self.upstream, |_| None).unwrap(),
            tls: self.tls,
            threads: self.threads,
            buffer_bytes: self.buffer_bytes,
            use_io_uring: self.by_ring,
            conversation: DecoderOptions::default(),
            options: Default::default(),
        };
        Running {
            proxy: Some(Proxy::start(options, open).unwrap()),
        }
    }
}

/// A proxy that runs until it is dropped.
pub struct Running {
    proxy: Option<Proxy>,
}

impl Running {
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        match &self.proxy().addresses()[0] {
            ListenAddress::Tcp(address) => *address,
            ListenAddress::Unix(_) => panic!("it listens at a unix socket"),
        }
    }

    pub fn client(&self) -> Client {
        let port = self.address().port();
        let url = format!("postgres://postgres:proxy@127.0.0.1:{port}/postgres?connect_timeout=30");
        Client::connect(&url, NoTls).unwrap()
    }

    pub fn record(&self) {
        self.proxy().control().start_recording().unwrap();
    }

    /// Ends it, and checks the accounts of its recordings.
    pub fn end(mut self) -> ProxyStatus {
        let (status, _, ended) = self.proxy.take().unwrap().end();
        ended.unwrap();
        for finished in &status.capture.finished {
            assert!(finished.account.adds_up(), "{:#?}", finished.account);
        }
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            let _ = proxy.end();
        }
    }
}

/// Waits until a condition holds.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file that only its owner can read.
pub fn private(directory: &std::path::Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}
