//! SQL as text: PostgreSQL's lexical rules, statement splitting, fingerprints, effects on a session, and
//! secrets.
//!
//! It works on words and has no grammar. Events and files are left to other crates. Sources: PostgreSQL
//! documentation, 4.1 (lexical structure) and `scan.l`.

mod backslash_setting;
mod byte_pair_prefilter;
mod captured_identifiers;
mod effects;
mod fingerprint;
mod literal;
mod pattern;
mod read_only;
pub mod secrets;
mod session_effect;
mod statement_context;
mod statement_splitter;
mod two_phase_commit;
mod unrepeatable_calls;
mod used_names;
mod value_places;

pub use backslash_setting::STANDARD_CONFORMING_STRINGS;
pub use byte_pair_prefilter::may_have_pair;
pub use captured_identifiers::CapturedIdentifier;
pub use effects::{
    Effect, is_identity, may_have_effects, read_call_effects, read_effects, survives_reset_all,
};
pub use fingerprint::lexer::{Backslash, Lexer, LexicalRules, NumberSyntax, Token};
pub use fingerprint::{
    Fingerprint, Fingerprinter, Shaper, StatementClass, classify, holds_several,
};
pub use literal::Spelling;
pub use pattern::Pattern;
pub use read_only::{ReadOnlyText, ReadOnlyTreatment};
pub use session_effect::SessionEffect;
pub use statement_context::{
    ContextComment, ContextId, ContextKey, ContextReader, StatementContext, TraceParent,
};
pub use statement_splitter::{
    Lexeme, SqlStatement, split_statements, split_statements_with, statement_texts,
};
pub use two_phase_commit::TwoPhaseCommit;
pub use unrepeatable_calls::{UnrepeatableCall, UnrepeatableSource, may_have_time_literal};
pub use used_names::{UnrestrictedNames, UsedNames};
pub use value_places::{PlaceRole, TableUse, ValuePlace, ValuePlaces, ValueToken};
