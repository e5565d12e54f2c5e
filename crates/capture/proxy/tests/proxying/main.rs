//! The proxy between real clients, real servers and ones that misbehave: what passes is not changed,
//! and nothing that befalls the capture touches it.

mod failing;
mod forwarding;
mod raw;
mod recordings;
mod starting;
mod tls;
