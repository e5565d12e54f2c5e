//! The types of a ring on systems without io_uring. A ring cannot be created, so its other functions are never
//! called.

use std::io;
use std::os::fd::RawFd;

use crate::{Completion, UnsentMessage};

/// A socket known to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket(());

impl Socket {
    /// Creates a socket. No ring uses it.
    pub fn of(_: RawFd) -> Self {
        Socket(())
    }
}

/// Received bytes. There are none without a ring.
#[derive(Debug)]
pub enum Buffer {}

/// A ring, of which there is none.
pub enum Ring {}

impl Ring {
    /// Refuses to create a ring.
    ///
    /// # Errors
    /// Always: only Linux has io_uring.
    pub fn new(_: u16, _: u32) -> io::Result<Self> {
        let reason = "io_uring exists on Linux only";
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    /// Registers a socket.
    pub fn register(&mut self, _: RawFd) -> Socket {
        match *self {}
    }

    /// Unregisters a socket.
    pub fn unregister(&mut self, _: Socket) {
        match *self {}
    }

    /// Starts to receive.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn receive(&mut self, _: Socket, _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Cancels a receive operation.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn stop(&mut self, _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Watches a descriptor.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn watch(&mut self, _: RawFd, _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Sends a buffer.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn send(&mut self, _: Socket, _: u64, buffer: Buffer) -> io::Result<()> {
        match buffer {}
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn send_message(&mut self, _: Socket, _: u64, _: Vec<u8>, _: usize) -> io::Result<()> {
        match *self {}
    }

    /// Returns the next message that was not sent completely.
    pub fn next_unsent(&mut self) -> Option<UnsentMessage> {
        match *self {}
    }

    /// Whether no receive or send is pending.
    pub fn is_idle(&self) -> bool {
        match *self {}
    }

    /// Returns the received bytes.
    pub fn bytes(&self, buffer: &Buffer) -> &[u8] {
        match *buffer {}
    }

    /// Returns a buffer to the pool.
    pub fn return_buffer(&mut self, buffer: Buffer) {
        match buffer {}
    }

    /// Submits all operations without waiting.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn submit(&mut self) -> io::Result<()> {
        match *self {}
    }

    /// Submits all operations and yields the processor.
    pub fn submit_and_yield(&mut self) {
        match *self {}
    }

    /// Returns an upper bound of the received buffers that were not handled yet.
    pub fn received_max(&self) -> usize {
        match *self {}
    }

    /// Returns the number of buffers that the next call sends.
    pub fn to_send(&self) -> usize {
        match *self {}
    }

    /// Waits for a completion.
    ///
    /// # Errors
    /// None, since there is no ring.
    pub fn wait(&mut self, _: Option<u64>) -> io::Result<()> {
        match *self {}
    }

    /// Returns the next completion.
    pub fn next_completion(&mut self) -> Option<Completion> {
        match *self {}
    }
}
