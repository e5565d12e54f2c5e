//! Reads and writes objects of S3, Google Cloud Storage and Azure Blob Storage by URL, for code that blocks.
//!
//! A URL is a path, `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`, so that it can be given wherever a
//! file's path can, and joined with a name. Credentials come from the environment and the files that the providers' own
//! tools use.
//!
//! Failed requests are repeated by the library `object_store`, with a limit of time. What then still fails is one
//! sentence: what failed, why, what to do.

mod connection;
mod error;
mod object_file;
mod profile;
mod upload;
mod url;

pub use error::{StorageError, StorageErrorKind};
pub use object_file::{ObjectFile, ObjectReader, object_size, read_small_object};
pub use upload::{create_object, put_object, upload_file};
pub use url::is_object_url;
