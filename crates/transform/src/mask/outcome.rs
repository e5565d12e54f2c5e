//! Result of masking one value.

use workload::{KeepReason, MaskedValues};

/// Result of masking one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskOutcome {
    Masked,
    /// Masked as the type that its binary form suggests.
    Guessed,
    /// Replaced by random bytes.
    Opaque,
    Kept(KeepReason),
}

impl MaskOutcome {
    /// Counts the value.
    pub(super) fn count(self, values: &mut MaskedValues) {
        values.values += 1;
        match self {
            MaskOutcome::Masked => values.masked += 1,
            MaskOutcome::Guessed => {
                values.masked += 1;
                values.guessed += 1;
            }
            MaskOutcome::Opaque => {
                values.masked += 1;
                values.opaque += 1;
            }
            MaskOutcome::Kept(reason) => *values.kept.entry(reason).or_default() += 1,
        }
    }
}
