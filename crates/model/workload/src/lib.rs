//! The first of the two artefacts: what clients did, and when.
//!
//! A workload is a directory `NAME.workload` with a manifest and Parquet tables:
//!
//! - `events-*.parquet`: every [`Event`], in the order of [`Event::due_us`], then session, then
//!   sequence. The only table that a replay reads.
//! - `sessions.parquet`: every [`Session`], in the order in which they ended.
//! - `server-events.parquet`: every [`ServerEvent`], in the order of time.
//! - `statements.parquet`: every fingerprint with its normalised SQL, in the order of first sight.
//!
//! Who drives: `capture` pushes events in the order in which it meets them into a
//! [`WorkloadWriter`], which sorts them outside memory; `replay`, `analyse` and the program read
//! with a [`WorkloadReader`], in time order, with memory bounded by one batch.
//!
//! Deliberately absent: wire messages (an event says what a client did, not in which bytes), the
//! knowledge of any source's format, and Parquet itself (the crate `archive` has it).

mod event;
mod event_ref;
mod format;
mod lineage;
mod packed;
mod parameter;
mod particulars;
mod reader;
mod recovery;
mod redaction;
mod redactor;
mod server_event;
mod server_order;
mod session;
pub mod session_state;
mod sorting;
mod statements;
mod table;
mod writer;

pub use archive::{
    ArchiveError, Identity, KeyError, Keyring, Recipient, Unfinished, key_file, parse_identities,
    parse_recipients,
};
pub use event::{Event, EventKind, Outcome, Sqlstate, Unreplayable};
pub use event_ref::{EventRef, KindRef, PackedParameters, PackedValues, Parameters};
pub use format::{FORMAT, KIND, Provenance, SourceFile, WorkloadInfo};
pub use lineage::{
    Kept, LeftOut, MaskAccount, MaskNote, MaskedValues, RewriteAccount, RewriteNote, SliceAccount,
    SliceNote,
};
pub use parameter::{Parameter, ParameterRef};
pub use particulars::{
    Boundary, CopyIn, FirstRow, Particulars, REPORTED_STRINGS, ResultFormat, RowDigest, STRINGS,
    Setting,
};
pub use reader::WorkloadReader;
pub use recovery::{recover, recover_as, recover_with};
pub use redaction::{Literals, redact_message};
pub use redactor::{NoRedaction, Redactor};
pub use server_event::{ServerEvent, ServerEventKind};
pub use session::Session;
pub use session_state::SessionState;
pub use sql::{Fingerprint, Fingerprinter, StatementClass, classify, holds_several, may_have_pair};
pub use table::StatementText;
pub use writer::{WorkloadWriter, WriterOptions};
