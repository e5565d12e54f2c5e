//! Lineage of a workload: the transformations that made it from another one, with their accounts.
//!
//! These records are part of the manifest. The transformations themselves are in the crate `transform`.

mod mask_account;
mod rewrite_account;
mod slice_account;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use mask_account::{KeepReason, MaskAccount, MaskedValues};
pub use rewrite_account::RewriteAccount;
pub use slice_account::{ExclusionReason, SliceAccount};

/// One slicing in the history of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceNote {
    /// The workload that was sliced; empty if a capture kept a slice only.
    pub workload: String,
    /// Its id.
    pub workload_id: String,
    /// The options that select what is kept, by name, each with all its values.
    pub options: BTreeMap<String, Vec<String>>,
    /// Result of the slicing for every event.
    pub account: SliceAccount,
}

/// One masking in the history of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskNote {
    /// Fingerprint of the key, never the key.
    pub key: String,
    /// Patterns of values that stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_values: Vec<String>,
    /// Patterns of statements that stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_statements: Vec<String>,
    /// Result of the masking for every value.
    pub account: MaskAccount,
}

/// One rewriting in the history of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewriteNote {
    /// The workload that was rewritten.
    pub workload: String,
    /// Its id.
    pub workload_id: String,
    /// The rewriting as given: `batch-inserts=50,window=1s`.
    pub rewriting: String,
    /// Result of the rewriting for every statement.
    pub account: RewriteAccount,
}
