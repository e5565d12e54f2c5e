//! URLs of objects, which are passed as paths.

use std::path::Path;

use crate::error::{StorageError, StorageErrorKind};

/// Object store that a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    /// Amazon S3, and servers with the same interface.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

/// Parts of the URL of an object or a directory of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectUrl {
    pub(crate) provider: Provider,
    /// Bucket, or Azure's container.
    pub(crate) bucket: String,
    /// Key of the object, without a slash at its start or end.
    pub(crate) key: String,
}

const SCHEMES: [(&str, Provider); 3] = [
    ("s3://", Provider::S3),
    ("gs://", Provider::Google),
    ("az://", Provider::Azure),
];

/// Whether a path is the URL of an object rather than the path of a file.
pub fn is_object_url(path: &Path) -> bool {
    split_scheme(path).is_some()
}

fn split_scheme(path: &Path) -> Option<(Provider, &str)> {
    let text = path.to_str()?;
    SCHEMES
        .iter()
        .find_map(|(scheme, provider)| Some((*provider, text.strip_prefix(scheme)?)))
}

impl ObjectUrl {
    /// Parses `SCHEME://BUCKET/KEY`.
    ///
    /// # Errors
    /// If the bucket or the key is missing, or a part of the key is empty, `.` or `..`.
    pub(crate) fn parse(path: &Path) -> Result<Self, StorageError> {
        let invalid = |reason: &str| {
            StorageError::new(
                StorageErrorKind::InvalidUrl,
                "use",
                path,
                reason.to_owned(),
                "give s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY",
            )
        };
        let (provider, rest) =
            split_scheme(path).ok_or_else(|| invalid("it is not the URL of an object"))?;
        let (bucket, key) = rest
            .split_once('/')
            .ok_or_else(|| invalid("it names no object in the bucket"))?;
        let key = key.trim_end_matches('/');
        if bucket.is_empty() || bucket.contains(['@', ':', '?', '#']) {
            return Err(invalid("it names no bucket"));
        }
        if key.is_empty() {
            return Err(invalid("it names no object in the bucket"));
        }
        if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid("a part of its key is empty, \".\" or \"..\""));
        }
        Ok(ObjectUrl {
            provider,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_a_provider_a_bucket_and_a_key() {
        let url = ObjectUrl::parse(Path::new("s3://loads/2026/monday.workload/")).unwrap();
        assert_eq!(url.provider, Provider::S3);
        assert_eq!(url.bucket, "loads");
        assert_eq!(url.key, "2026/monday.workload");
        assert!(is_object_url(Path::new("az://c/k")));
        for path in ["monday.workload", "./s3://b/k", "s3:/b/k", "https://b/k"] {
            assert!(!is_object_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn url_without_bucket_or_key_is_refused() {
        for path in [
            "s3://",
            "s3://b",
            "s3://b/",
            "gs:///k",
            "s3://b//k",
            "s3://b/../k",
            "s3://b/a/./k",
            "s3://key:secret@b/k",
        ] {
            let error = ObjectUrl::parse(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), StorageErrorKind::InvalidUrl, "{path}");
        }
    }
}
