//! Description of the attached server, as the prober reports it with the record `Attached`.
//!
//! The prober may read the links of the server's process; the process that decodes may not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A server whose sessions the probes record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachedServer {
    /// Process number of the postmaster.
    pub postmaster: u32,
    /// Port of the server, if it is known.
    pub port: Option<u16>,
    /// Whether the server sees the same files as the prober. In a container, its port and its paths are its own.
    pub is_of_this_host: bool,
    /// Data directory, as the server sees it.
    pub data_directory: PathBuf,
}

impl AttachedServer {
    /// Encodes all but the process number: port, a flag, data directory, with NUL between them.
    #[cfg(target_os = "linux")]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let port = self.port.unwrap_or_default();
        let flag = u8::from(self.is_of_this_host);
        let mut bytes = format!("{port}\0{flag}\0").into_bytes();
        bytes.extend(self.data_directory.as_os_str().as_bytes());
        bytes
    }

    /// Decodes what [`Self::encode`] returned. What is missing is unknown.
    pub(crate) fn decode(postmaster: u32, bytes: &[u8]) -> Self {
        let mut parts = bytes.splitn(3, |byte| *byte == 0);
        let mut next = || parts.next().unwrap_or_default();
        let port = std::str::from_utf8(next()).ok();
        let port = port.and_then(|text| text.parse().ok());
        AttachedServer {
            postmaster,
            port: port.filter(|port| *port > 0),
            is_of_this_host: next() == b"1",
            data_directory: PathBuf::from(OsStr::from_bytes(next())),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn server_is_decoded_as_it_was_encoded() {
        for (port, directory) in [(Some(5432), "/var/lib/a\nb"), (None, "")] {
            let server = AttachedServer {
                postmaster: 7,
                port,
                is_of_this_host: port.is_some(),
                data_directory: directory.into(),
            };
            assert_eq!(AttachedServer::decode(7, &server.encode()), server);
        }
        assert_eq!(AttachedServer::decode(0, b"").port, None);
    }
}
