//! Identity of an error in a comparison.

use sql::Fingerprint;
use workload::Sqlstate;

/// Statement and code of an error.
pub(crate) type ErrorKey = (Fingerprint, Sqlstate);
