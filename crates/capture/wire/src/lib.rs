//! Decodes the traffic between clients and servers into events.
//!
//! [`conversation`] decodes both directions of a connection from any source of bytes. [`pcap`]
//! extracts those bytes from packet files; the crate `capture-proxy` copies them from the
//! connections that it forwards.

pub mod conversation;
pub mod pcap;
