//! Conversations of clients and servers become events.
//!
//! [`conversation`] reads both directions of a connection, wherever the bytes come from; [`pcap`] takes them out of
//! packet files, and the crate `capture-proxy` out of the connections that it forwards.

pub mod conversation;
pub mod pcap;
