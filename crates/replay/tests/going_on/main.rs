//! Replays of made-up traffic on servers of their own, on which things go wrong, or sessions depend
//! on each other.

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
