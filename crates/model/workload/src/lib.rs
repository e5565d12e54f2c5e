//! Workloads: the actions of clients and their times, stored as a directory.
//!
//! A workload is a directory `NAME.workload` with a manifest and Parquet tables:
//!
//! - `events-*.parquet`: every [`Event`], in the order of [`Event::due_us`], then session, then sequence. It
//!   is the only table that a replay reads.
//! - `sessions.parquet`: every [`Session`], in the order in which they ended.
//! - `server-events.parquet`: every [`ServerEvent`], in time order.
//! - `contexts.parquet`: every context that comments name, in the order of first appearance.
//! - `statements.parquet`: every fingerprint with its normalised SQL, in the order of first appearance.
//!
//! A capture pushes events, in any order of sessions, into a [`WorkloadWriter`], which sorts them in bounded
//! memory. Replay, analysis and the program read with a [`WorkloadReader`], in time order, with one batch in
//! memory.
//!
//! A recording without end is a [`series`] of workloads, which a [`WorkloadReader`] reads as one.
//!
//! Wire messages are not stored: an event holds a client's action, not its bytes. The formats of sources are
//! left to the crates of `capture`, and Parquet to the crate `archive`.

mod builtin_types;
mod contexts;
mod event;
mod event_batch;
mod event_check;
mod event_ref;
mod external_sort;
mod format;
mod large_objects;
mod lineage;
mod parameter;
mod reader;
mod recovery;
mod redaction;
mod redactor;
pub mod series;
mod server_event;
mod server_event_sort;
mod session;
mod session_logins;
pub mod session_state;
mod starting_point;
mod statements;
mod table;
mod unrepeatable_statements;
mod wire_details;
mod writer;

pub use archive::{
    ArchiveError, DirectoryLock, Identity, KeyError, Keyring, Recipient, SeriesMember,
    UnfinishedDirectory, key_file, parse_identities, parse_recipients,
};
pub use builtin_types::{FIRST_USER_OID, binary_value_text, hex_digits, type_name};
pub use contexts::ContextText;
pub use event::{Event, EventKind, Outcome, Sqlstate, Unreplayable};
pub use event_ref::{EventRef, KindRef, PackedParameters, PackedValues, Parameters};
pub use format::{CapturedServer, FORMAT, KIND, Provenance, SourceFile, WorkloadInfo};
pub use large_objects::{LO_CREAT, LO_CREATE, LargeObjectFunction};
pub use lineage::{
    ExclusionReason, KeepReason, MaskAccount, MaskNote, MaskedValues, RewriteAccount, RewriteNote,
    SliceAccount, SliceNote,
};
pub use parameter::{Parameter, ParameterRef};
pub use reader::WorkloadReader;
pub use recovery::{recover, recover_as, recover_with};
pub use redaction::{Literals, message_pattern, redact_message, without_advisory_key};
pub use redactor::{NoRedaction, Redactor};
pub use server_event::{MessageSeverity, ServerEvent, ServerEventKind};
pub use session::Session;
pub use session_logins::SessionLogin;
pub use session_state::SessionState;
pub use sql::{
    ContextId, ContextKey, Fingerprint, Fingerprinter, STANDARD_CONFORMING_STRINGS, StatementClass,
    StatementContext, TraceParent, classify, holds_several, may_have_pair,
};
pub use starting_point::{
    Archiving, DatabaseState, ExportedSnapshot, Hosting, OpenTransaction, SequenceValue,
    StartingPoint, TableRows,
};
pub use table::StatementText;
pub use unrepeatable_statements::{UnrepeatableFinder, UnrepeatableStatement};
pub use wire_details::{
    Boundary, CopyIn, FirstRows, MessageSet, REPORTED_PROCESS_ID,
    REPORTED_STANDARD_CONFORMING_STRINGS, ResultFormat, RowDigest, Setting, WireDetails,
    is_reported, value_digest,
};
pub use writer::{PendingCheckpoint, WorkloadWriter, WriterOptions};
