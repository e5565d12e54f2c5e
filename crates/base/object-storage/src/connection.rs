//! Connections to object stores, one for each bucket, and the thread that drives them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use crate::error::{StorageError, StorageErrorKind};
use crate::profile::Profile;
use crate::url::{ObjectUrl, Provider};

/// Time within which a failing request is repeated.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// Repetitions of a failing request, with growing pauses.
const RETRIES_MAX: usize = 8;
/// Time limit of one request. Ranges and parts of uploads have at most 64 MiB.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Repetitions of a read whose content broke off, with growing pauses.
const READ_REPETITIONS_MAX: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An object, or a directory of objects, with the connection to its store.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) key: Key,
}

impl Object {
    /// Finds the store that a URL names. Nothing is requested yet.
    ///
    /// # Errors
    /// If the URL is invalid, or the environment lacks a necessary setting.
    pub(crate) fn at(path: &Path) -> Result<Self, StorageError> {
        let url = ObjectUrl::parse(path)?;
        let key = Key::parse(&url.key).map_err(|error| {
            StorageError::new(
                StorageErrorKind::InvalidUrl,
                "use",
                path,
                error.to_string(),
                "correct the URL",
            )
        })?;
        static STORES: LazyLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> =
            LazyLock::new(Mutex::default);
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{:?} {}", url.provider, url.bucket);
        if let Some(store) = stores.get(&name) {
            let store = store.clone();
            return Ok(Object { store, key });
        }
        let store = connect(&url).map_err(|error| StorageError::of_library("use", path, &error))?;
        stores.insert(name, store.clone());
        Ok(Object { store, key })
    }
}

fn connect(url: &ObjectUrl) -> object_store::Result<Arc<dyn ObjectStore>> {
    // Without a provider the HTTP client panics. If another part of the process has set one, it stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_FOR,
        ..RetryConfig::default()
    };
    let client = ClientOptions::new()
        .with_timeout(REQUEST_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT);
    Ok(match url.provider {
        Provider::S3 => Arc::new(
            s3_from_environment(client)
                .with_bucket_name(&url.bucket)
                .with_retry(retry)
                .build()?,
        ),
        Provider::Google => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_client_options(client)
                .with_bucket_name(&url.bucket)
                .with_retry(retry)
                .build()?,
        ),
        Provider::Azure => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_client_options(client)
                .with_container_name(&url.bucket)
                .with_retry(retry)
                .build()?,
        ),
    })
}

/// Reads the variables of the environment, and for what they lack the files of the AWS command line.
fn s3_from_environment(client: ClientOptions) -> AmazonS3Builder {
    use AmazonS3ConfigKey as K;
    let mut builder = AmazonS3Builder::from_env();
    let profile = Profile::load();
    let is_set = |builder: &AmazonS3Builder, key: K| builder.get_config_value(&key).is_some();
    let has_role = std::env::var_os("AWS_WEB_IDENTITY_TOKEN_FILE").is_some();
    if !is_set(&builder, K::AccessKeyId)
        && !has_role
        && let (Some(id), Some(secret)) = (profile.access_key_id, profile.secret_access_key)
    {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret);
        if let Some(token) = profile.session_token {
            builder = builder.with_token(token);
        }
    }
    if !is_set(&builder, K::Region)
        && !is_set(&builder, K::DefaultRegion)
        && let Some(region) = profile.region
    {
        builder = builder.with_region(region);
    }
    if !is_set(&builder, K::Endpoint)
        && let Some(endpoint) = profile.endpoint_url
    {
        builder = builder.with_endpoint(endpoint);
    }
    // The user names an endpoint without TLS by its scheme, as with the provider's own tools.
    let without_tls = builder
        .get_config_value(&K::Endpoint)
        .is_some_and(|endpoint| endpoint.starts_with("http://"));
    builder.with_client_options(client.with_allow_http(without_tls))
}

/// Reads, and repeats that if the connection breaks while the content arrives. The library repeats requests only until
/// their answer begins.
pub(crate) async fn repeat_reading<T, F>(read: impl Fn() -> F) -> object_store::Result<T>
where
    F: Future<Output = object_store::Result<T>>,
{
    let mut pause = FIRST_PAUSE;
    let started = Instant::now();
    for _ in 0..READ_REPETITIONS_MAX {
        match read().await {
            // A request that the library has repeated for long enough has this kind of error, too.
            Err(object_store::Error::Generic { .. }) if started.elapsed() < RETRY_FOR => {
                tokio::time::sleep(pause).await;
            }
            answer => return answer,
        }
        pause *= 2;
    }
    read().await
}

/// Waits for a request. It must not be called from within asynchronous code.
pub(crate) fn wait<T>(request: impl Future<Output = T>) -> T {
    runtime().block_on(request)
}

/// Returns the runtime, whose one thread drives all requests.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("object-storage")
            .enable_all()
            .build()
            .expect("the operating system can start a thread")
    });
    &RUNTIME
}
