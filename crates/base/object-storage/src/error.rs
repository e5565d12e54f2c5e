//! Errors of object stores, as sentences for the user.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Longest reason that is printed, in characters. Servers answer with whole documents.
const REASON_CHARS_MAX: usize = 240;

/// Kind of an error, for callers that handle some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// The object does not exist.
    NotFound,
    /// The object exists already.
    Exists,
    /// The URL is not complete.
    InvalidUrl,
    /// Credentials are missing or were refused.
    Credentials,
    /// Any other failure, after the repetitions.
    Other,
}

/// A request to an object store that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {reason}; {advice}", url.display())]
pub struct StorageError {
    kind: StorageErrorKind,
    action: &'static str,
    url: PathBuf,
    reason: String,
    advice: &'static str,
}

impl StorageError {
    pub(crate) fn new(
        kind: StorageErrorKind,
        action: &'static str,
        url: &Path,
        reason: String,
        advice: &'static str,
    ) -> Self {
        StorageError {
            kind,
            action,
            url: url.to_owned(),
            reason,
            advice,
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StorageErrorKind {
        self.kind
    }

    /// Converts an error of the library.
    pub(crate) fn of_library(
        action: &'static str,
        url: &Path,
        error: &object_store::Error,
    ) -> Self {
        use object_store::Error as E;
        let detail = innermost(error);
        let (kind, reason, advice) = match error {
            // S3 answers 404 for a missing object and for a missing bucket.
            E::NotFound { .. } if whole_text(error).contains("NoSuchBucket") => (
                StorageErrorKind::Other,
                "the bucket does not exist".to_owned(),
                "create it, or correct the URL",
            ),
            E::NotFound { .. } => (
                StorageErrorKind::NotFound,
                "it does not exist".to_owned(),
                "correct the URL",
            ),
            E::AlreadyExists { .. } | E::Precondition { .. } => (
                StorageErrorKind::Exists,
                "an object with this name exists, or was changed during the request".to_owned(),
                "give another name, or remove it first",
            ),
            E::PermissionDenied { .. } => (
                StorageErrorKind::Credentials,
                format!("access was denied ({detail})"),
                "use credentials that may do this",
            ),
            E::Unauthenticated { .. } => (
                StorageErrorKind::Credentials,
                format!("the credentials were refused ({detail})"),
                "set the credentials of the provider in the environment",
            ),
            _ if is_about_credentials(&whole_text(error), &detail) => (
                StorageErrorKind::Credentials,
                format!("no credentials were found ({detail})"),
                "set the credentials of the provider in the environment",
            ),
            _ => (
                StorageErrorKind::Other,
                detail,
                "check the network and the endpoint, then repeat the command",
            ),
        };
        StorageError::new(kind, action, url, reason, advice)
    }
}

/// Whether a failure came from looking for credentials: the library asks the addresses from which virtual machines get
/// theirs when the environment has none.
fn is_about_credentials(text: &str, innermost: &str) -> bool {
    const SIGNS: [&str; 3] = [
        "169.254.169.254",
        "169.254.170.2",
        "metadata.google.internal",
    ];
    // The name of an object may have the word, so only the innermost cause is searched for it.
    SIGNS.iter().any(|sign| text.contains(sign)) || innermost.to_lowercase().contains("credential")
}

fn whole_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push(' ');
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

/// Returns the text of the innermost cause, on one line.
fn innermost(error: &object_store::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON_CHARS_MAX) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_bucket_has_another_kind_than_a_missing_object() {
        let of = |text: &str| {
            let error = object_store::Error::NotFound {
                path: "k".to_owned(),
                source: text.to_owned().into(),
            };
            StorageError::of_library("read", Path::new("s3://b/k"), &error)
        };
        assert_eq!(
            of("<Code>NoSuchKey</Code>").kind(),
            StorageErrorKind::NotFound
        );
        let error = of("<Code>NoSuchBucket</Code>");
        assert_eq!(error.kind(), StorageErrorKind::Other);
        assert_eq!(
            error.to_string(),
            "cannot read s3://b/k: the bucket does not exist; create it, or correct the URL"
        );
    }

    #[test]
    fn long_answer_of_a_server_becomes_one_line() {
        let error = object_store::Error::Generic {
            store: "S3",
            source: "<html>\n  <p>".repeat(200).into(),
        };
        let text = StorageError::of_library("read", Path::new("s3://b/k"), &error).to_string();
        assert!(!text.contains('\n') && text.chars().count() < 400, "{text}");
    }
}
