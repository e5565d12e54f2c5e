//! Replays of synthetic traffic on private servers, with faults injected or with sessions that depend on
//! each other.

mod failed_transactions;
mod faults;
mod full_speed;
mod names;
mod order;
mod pipelines;
mod remap;
mod resuming;
mod sharing;
mod tls_front;
mod traffic;
