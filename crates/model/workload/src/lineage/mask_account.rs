//! Numbers of values that were masked, and that were kept by each rule.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why a value is kept.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// It identifies nobody: empty, one character or digit, true and false, infinity, punctuation.
    Small,
    /// A duration.
    Interval,
    /// A number of rows, a column of the result, or an element.
    Position,
    /// Part of a type, as in `varchar(10)`, or a number in the definition of a table.
    Definition,
    /// A setting, or a whole statement that holds no data, such as VACUUM.
    Setting,
    /// A name, format, unit or path that controls a function or operator.
    Instruction,
    /// A small factor of a calculation.
    Factor,
    /// The user asked to keep it.
    #[serde(rename = "asked")]
    Requested,
}

impl KeepReason {
    /// Returns the reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            KeepReason::Small => "single digits and characters, true, false and the like",
            KeepReason::Interval => "lengths of time",
            KeepReason::Position => "numbers of rows, columns and elements",
            KeepReason::Definition => "type modifiers and numbers in definitions",
            KeepReason::Setting => "settings, and statements without data",
            KeepReason::Instruction => "names, formats and paths for functions and operators",
            KeepReason::Factor => "small factors",
            KeepReason::Requested => "kept as asked for",
        }
    }
}

/// Numbers of values of one sort: `values` = `masked` + all `kept`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaskedValues {
    /// Number of values. NULL does not count.
    pub values: u64,
    /// Number of masked values.
    pub masked: u64,
    /// Number of masked values in a binary form of an unknown type, which was guessed.
    #[serde(default)]
    pub guessed: u64,
    /// Number of masked values in a binary form that is not understood. They were replaced by random bytes of
    /// the same length, which the server may refuse.
    #[serde(default)]
    pub opaque: u64,
    /// Number of kept values by reason.
    pub kept: BTreeMap<KeepReason, u64>,
}

impl MaskedValues {
    /// Whether every value is accounted for. Callers may assert it.
    pub fn adds_up(&self) -> bool {
        self.values == self.masked + self.kept.values().sum::<u64>()
    }
}

/// Numbers of all values that a masking encountered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaskAccount {
    /// Literals in the text of statements.
    pub literals: MaskedValues,
    /// Parameters.
    pub parameters: MaskedValues,
    /// Fields of COPY data.
    pub copy_fields: MaskedValues,
    /// Values of the first rows of results.
    pub result_values: MaskedValues,
    /// Application names, client addresses and reasons of failed COPYs.
    pub names: MaskedValues,
    /// Number of comments that were blanked out.
    pub comments: u64,
    /// Number of result checksums that were removed. With a checksum one could guess a result by trial.
    pub digests: u64,
    /// Number of texts that were removed from the server's messages, and of advisory locks' keys.
    #[serde(default)]
    pub server_texts: u64,
}

impl MaskAccount {
    /// Returns the numbers by sort, with the sort's name.
    pub fn by_sort(&self) -> [(&'static str, &MaskedValues); 5] {
        [
            ("literals", &self.literals),
            ("parameters", &self.parameters),
            ("copy fields", &self.copy_fields),
            ("result values", &self.result_values),
            ("names", &self.names),
        ]
    }

    /// Whether every value is accounted for.
    pub fn adds_up(&self) -> bool {
        self.by_sort().iter().all(|(_, values)| values.adds_up())
    }
}
