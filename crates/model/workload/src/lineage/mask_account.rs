//! How many values were masked, and which stayed by which rule.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a value stays as it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// It names nobody: nothing, one character or digit, true and false, infinity, punctuation.
    Small,
    /// A length of time.
    Interval,
    /// How many rows, which column of the result, which element.
    Position,
    /// Part of a type, as in `varchar(10)`, or a number in the definition of a table.
    Definition,
    /// A setting, or a whole statement that holds no data, such as VACUUM.
    Setting,
    /// A name, format, unit or path that says what a function or operator is to do.
    Instruction,
    /// A small factor of a calculation.
    Factor,
    /// The user said so.
    Asked,
}

impl Kept {
    /// The reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            Kept::Small => "single digits and characters, true, false and the like",
            Kept::Interval => "lengths of time",
            Kept::Position => "numbers of rows, columns and elements",
            Kept::Definition => "type modifiers and numbers in definitions",
            Kept::Setting => "settings, and statements without data",
            Kept::Instruction => "names, formats and paths for functions and operators",
            Kept::Factor => "small factors",
            Kept::Asked => "kept as asked for",
        }
    }
}

/// What became of values of one sort: `values` = `masked` + all `kept`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaskedValues {
    /// Values met. NULL is none.
    pub values: u64,
    /// Masked.
    pub masked: u64,
    /// Of these, those in a binary form of an unknown type, which was guessed.
    #[serde(default)]
    pub guessed: u64,
    /// Of these, those in a binary form that is not understood: random bytes of the same length took
    /// their place, which the server may refuse.
    #[serde(default)]
    pub opaque: u64,
    /// Left as they are.
    pub kept: BTreeMap<Kept, u64>,
}

impl MaskedValues {
    /// Whether every value is accounted for. It must be; the caller may assert it.
    pub fn adds_up(&self) -> bool {
        self.values == self.masked + self.kept.values().sum::<u64>()
    }
}

/// What became of every value that a masking met.
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
    /// Application names, clients' addresses and reasons of failed COPYs.
    pub names: MaskedValues,
    /// Comments blanked out.
    pub comments: u64,
    /// Checksums of results that were taken out: who has one can try results until one fits.
    pub digests: u64,
}

impl MaskAccount {
    /// The values by sort, with its name.
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
