//! Contents of documents, independent of their rendering.

pub(crate) mod case;
pub(crate) mod dry_run;
pub(crate) mod live;
pub(crate) mod shadow;
pub(crate) mod workload;
