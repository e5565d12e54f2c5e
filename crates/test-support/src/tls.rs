//! Certificates of servers with TLS.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Writes a new certificate and its key into a data directory, for the directory's owner.
///
/// # Panics
/// If the files cannot be written.
pub(crate) fn write_certificate(data: &Path) {
    let names = vec!["localhost".to_owned()];
    let issued = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let owner = std::fs::metadata(data).expect("a data directory");
    let files = [
        ("server.crt", issued.cert.pem()),
        ("server.key", issued.signing_key.serialize_pem()),
    ];
    for (name, text) in files {
        let path = data.join(name);
        std::fs::write(&path, text).expect("a file of the server");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its permissions");
        chown(&path, Some(owner.uid()), Some(owner.gid())).expect("its owner");
    }
}
