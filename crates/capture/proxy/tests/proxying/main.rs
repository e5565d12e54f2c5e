//! Tests the proxy between real clients, real servers and misbehaving ones: the traffic is
//! unchanged, and no fault of the capture affects it.

mod failing;
mod forwarding;
mod raw;
mod recordings;
mod starting;
mod tls;
