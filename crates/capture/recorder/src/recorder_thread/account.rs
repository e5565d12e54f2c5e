//! Account of the current recording: its status for other threads, and its provenance.

use workload::{Provenance, SourceFile};

use super::{CurrentRecording, RecorderThread, SourceMark};
use crate::capture_status::RecordingStatus;
use crate::mirror::Record;
use crate::recording::{IncompleteRange, RecordingAccount, account_difference};

impl RecorderThread {
    /// Updates the status for other threads.
    pub(super) fn publish_status(&self) {
        let recording = self.current.as_ref().map(|current| RecordingStatus {
            name: current.name.clone(),
            from_us: current.from_us,
            lost_bytes: current.incomplete.bytes,
            incomplete: current.incomplete.last.clone(),
            incomplete_left_out: current.incomplete.left_out,
            account: account_difference(&current.account, self.conversations.account()),
        });
        self.update_status(|status| status.recording = recording);
    }

    /// Passes the account so far to a recording in several parts.
    pub(super) fn note_provenance(&mut self, now_us: i64) {
        if let Some(mut current) = self.current.take() {
            if current.recording.series().is_some() {
                let account = self.account(&current, now_us, &self.from, None);
                current.recording.note_provenance(self.provenance(&account));
            }
            self.current = Some(current);
        }
    }

    pub(super) fn account(
        &self,
        current: &CurrentRecording,
        to_us: i64,
        from: &[SourceMark],
        failure: Option<String>,
    ) -> RecordingAccount {
        let sum = |number: &dyn Fn(&SourceMark) -> u64| -> u64 {
            let pairs = from.iter().zip(&current.from);
            pairs
                .map(|(after, before)| number(after).saturating_sub(number(before)))
                .sum()
        };
        RecordingAccount {
            from_us: current.from_us,
            to_us,
            forwarded_bytes: sum(&|from| from.totals.bytes.iter().sum()),
            read_bytes: sum(&|from| from.read),
            lost_bytes: sum(&|from| from.lost),
            passed_bytes: sum(&|from| from.totals.passed.iter().sum()),
            incomplete: current.incomplete.last.clone(),
            incomplete_left_out: current.incomplete.left_out,
            session_gaps: current.session_gaps.clone(),
            failure,
            conversation: account_difference(&current.account, self.conversations.account()),
        }
    }

    pub(super) fn provenance(&self, account: &RecordingAccount) -> Provenance {
        Provenance {
            source_kind: self.parts.origin.kind.to_owned(),
            sources: vec![SourceFile {
                name: self.parts.origin.name.clone(),
                format: "wire".to_owned(),
                bytes: account.read_bytes,
            }],
            options: self.parts.origin.options.clone(),
            servers: self.parts.origin.servers.clone(),
            reconciliation: serde_json::to_value(account).expect("plain data"),
            ..Provenance::default()
        }
    }

    /// Notes lost bytes in the account of the recording.
    pub(super) fn note_session_gap(&mut self, record: Record<'_>) {
        let Record::Lost {
            connection,
            side,
            at_us,
            from_us,
            bytes,
        } = record
        else {
            return;
        };
        if let Some(current) = &mut self.current {
            let at_us = at_us.max(current.from_us);
            let range = IncompleteRange {
                from_us: from_us.clamp(current.from_us, at_us),
                to_us: at_us,
                bytes,
            };
            let session = self.conversations.recorded_session(connection);
            current.session_gaps.add(session, side, range);
        }
    }
}
