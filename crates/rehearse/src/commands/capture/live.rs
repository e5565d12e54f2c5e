//! Set-up that captures of live traffic share: those of a proxy, and those of an attached server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capture_recorder::CaptureStatus;
use capture_wire::conversation::DecoderOptions;
use signal_hook::consts::SIGUSR1;
use study::Failure;

use super::control::ControlServer;
use super::control_token::ControlToken;
use super::recording::switch_recording;
use super::starting_point::{RecordingSwitch, StartingPointTaker};
use crate::options::live_capture::LiveCaptureArgs;
use crate::terminal;

/// Requests to start or stop the recording by SIGUSR1.
pub(super) struct SwitchSignal {
    requested: Arc<AtomicBool>,
    start_failed: Arc<AtomicBool>,
}

impl SwitchSignal {
    /// Listens to the signal.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub(super) fn listen() -> Result<Self, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR1, requested.clone()).map_err(Failure::could_not)?;
        Ok(SwitchSignal {
            requested,
            start_failed: Arc::default(),
        })
    }

    /// Starts or stops the recording if that was requested.
    pub(super) fn handle(&self, switch: &RecordingSwitch, status: impl FnOnce() -> CaptureStatus) {
        if self.requested.swap(false, Ordering::Relaxed) {
            let is_recording = status().recording.is_some();
            switch_recording(is_recording, switch.clone(), self.start_failed.clone());
        }
    }

    /// Returns whether a start has failed since the last call.
    pub(super) fn take_failed_start(&self) -> bool {
        self.start_failed.swap(false, Ordering::Relaxed)
    }
}

/// Reads the options of the starting point.
///
/// # Errors
/// If the connection or the file cannot be read.
pub(super) fn starting_point_taker(live: &LiveCaptureArgs) -> Result<StartingPointTaker, Failure> {
    StartingPointTaker::new(
        live.starting_point.starting_point.as_deref(),
        live.export.export_snapshot,
        Some(&live.output),
    )
}

/// Returns the options of the decoder, and those that the manifest lists.
pub(super) fn decoder_options(
    live: &LiveCaptureArgs,
) -> (DecoderOptions, BTreeMap<String, String>) {
    let digest = live.checksum_results.is_some();
    let listed = digest.then(|| ("digest".to_owned(), "rows".to_owned()));
    let options = DecoderOptions {
        digest,
        ..DecoderOptions::default()
    };
    (options, listed.into_iter().collect())
}

/// Control endpoint of a capture.
pub(super) struct Control {
    server: ControlServer,
    token_file: String,
}

impl Control {
    /// Starts the endpoint, if there is to be one.
    ///
    /// # Errors
    /// If its address is in use, or the file of its token cannot be read or written.
    pub(super) fn start(
        live: &LiveCaptureArgs,
        switch: &RecordingSwitch,
        status: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = live.admin_listen else {
            return Ok(None);
        };
        let token = ControlToken::new(live.admin_token_file.as_deref(), &live.output)?;
        let token_file = token.file().display().to_string();
        let server = ControlServer::start(
            (address, live.hosts.listener_options(terminal::complain)),
            token,
            switch.clone(),
            status,
        )?;
        Ok(Some(Control { server, token_file }))
    }

    /// Reports the address.
    pub(super) fn announce(&self) {
        terminal::note(&format!(
            "control at http://{}; starting and stopping take the token in {}",
            self.server.address(),
            self.token_file
        ));
    }
}
