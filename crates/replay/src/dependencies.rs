//! `--order dependencies`: a statement waits for the executions of other sessions on which it depends, and for nothing
//! else.
//!
//! The dispatcher finds them in captured time ([`DependencyTracker`]): the execution that generated a value that the
//! statement uses; earlier writes of rows with the same key, and of a table that it reads without one; earlier reads of
//! rows that it writes; DDL. If the transaction of such an execution was over when the statement began, its end counts,
//! otherwise the execution alone. Of what was still running, only those are waited for that had the lock of a row before it
//! ([`LockOrder`]), as outcomes or ends show ([`row_effect::RowEffect`]).
//!
//! The workers wait ([`DependencyOrder`]) until these executions are done. Executions of a session end in order, so its
//! last sequence number tells which are done.

mod access;
mod lock_order;
mod order;
mod row_effect;
mod row_sets;
mod tracker;

pub(crate) use lock_order::{LockOrder, LockOrderPass};
pub(crate) use order::DependencyOrder;
pub(crate) use tracker::DependencyTracker;
