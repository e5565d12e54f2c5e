//! Bodies of the fuzz targets. Each checks properties of any bytes, not only that nothing panics.
//!
//! The programs in `fuzz/` call them with the fuzzer's inputs. The test `corpora` calls them with every file of the
//! corpora.

mod artefact;
mod condition;
mod connection;
mod decompression;
mod follow;
mod http;
mod login;
mod logs;
mod mask;
mod others;
mod read_only;
mod secrets;
mod sql_text;

use std::path::Path;

use tempfile::TempDir;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name, which is that of its program and of the folder of its corpus.
    pub name: &'static str,
    /// Checks one input.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 25] = [
    target("artefact", artefact::check),
    target("condition", condition::check),
    target("connection", connection::check),
    target("conversation_client", others::conversation_client),
    target("conversation_server", others::conversation_server),
    target("decompression", decompression::check),
    target("follow", follow::check),
    target("http", http::check),
    target("log_csv", logs::csv),
    target("log_json", logs::json),
    target("log_parameters", logs::parameters),
    target("log_prefix", logs::prefix),
    target("log_stderr", logs::stderr),
    target("log_syslog", logs::syslog),
    target("log_wrapped", logs::wrapped),
    target("login", login::check),
    target("mask", mask::check),
    target("pcap", others::packet_file),
    target("perf_script", others::perf_script),
    target("pgwire_backend", others::backend),
    target("pgwire_frontend", others::frontend),
    target("plan", others::plan),
    target("sql_text", sql_text::check),
    target("read_only", read_only::check),
    target("secrets", secrets::check),
];

const fn target(name: &'static str, check: fn(&[u8])) -> Target {
    Target { name, check }
}

/// Checks an input of the target with this name.
///
/// # Panics
/// If a property does not hold, or no target has this name.
pub fn check(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("the name of a target").check)(data);
}

/// Returns the longest start of the data that is text.
fn text(data: &[u8]) -> &str {
    match std::str::from_utf8(data) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&data[..error.valid_up_to()]).expect("the valid start"),
    }
}

/// Creates a directory for the files of one input. It is in memory if the system has such a place.
fn scratch_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a directory for scratch files")
}
