//! What became of every value when a workload, or what a capture read, was masked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::{MaskNote, MaskedValues};

/// What became of every value.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct MaskView {
    /// `rehearse/mask/1`.
    pub schema: String,
    /// The workload that was masked; empty for a capture or a slice.
    #[serde(default)]
    pub of: String,
    /// The workload that was made; empty for a capture or a slice.
    #[serde(default)]
    pub workload: String,
    /// The key's fingerprint.
    pub key: String,
    /// By sort: `literals`, `parameters`, `copy_fields`, `result_values`, `names`.
    pub values: BTreeMap<String, MaskedValuesView>,
    /// Comments blanked out.
    pub comments: u64,
    /// Checksums of results taken out.
    pub digests: u64,
}

/// What became of the values of one sort: `values` = `masked` + all of `kept`.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct MaskedValuesView {
    /// Values met.
    pub values: u64,
    /// Masked.
    pub masked: u64,
    /// Of these, those in a binary form of a type that was guessed.
    pub guessed: u64,
    /// Of these, those in a binary form that is not understood.
    pub opaque: u64,
    /// Left as they are, by reason.
    pub kept: BTreeMap<String, KeptView>,
}

/// What was left as it is for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct KeptView {
    /// Values.
    pub values: u64,
    /// The reason in words.
    pub explanation: String,
}

impl MaskView {
    /// The view of a note.
    pub fn new(note: &MaskNote) -> Self {
        let account = &note.account;
        let values = [
            ("literals", &account.literals),
            ("parameters", &account.parameters),
            ("copy_fields", &account.copy_fields),
            ("result_values", &account.result_values),
            ("names", &account.names),
        ];
        MaskView {
            schema: "rehearse/mask/1".to_owned(),
            of: String::new(),
            workload: String::new(),
            key: note.key.clone(),
            values: values
                .into_iter()
                .map(|(name, values)| (name.to_owned(), MaskedValuesView::new(values)))
                .collect(),
            comments: account.comments,
            digests: account.digests,
        }
    }

    /// Whether every value is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        self.values.values().all(|values| {
            let kept: u64 = values.kept.values().map(|kept| kept.values).sum();
            values.values == values.masked + kept
        })
    }
}

impl MaskedValuesView {
    fn new(values: &MaskedValues) -> Self {
        let kept = values.kept.iter().map(|(reason, values)| {
            let name = serde_json::to_value(reason).expect("plain data");
            let view = KeptView {
                values: *values,
                explanation: reason.explanation().to_owned(),
            };
            (name.as_str().unwrap_or_default().to_owned(), view)
        });
        MaskedValuesView {
            values: values.values,
            masked: values.masked,
            guessed: values.guessed,
            opaque: values.opaque,
            kept: kept.collect(),
        }
    }
}
