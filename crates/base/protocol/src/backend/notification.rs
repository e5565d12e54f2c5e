//! PostgreSQL documentation, 54.2.7 Asynchronous Operations; 54.7 Message Formats:
//! NotificationResponse (B).

use super::tag::NOTIFICATION;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "NotificationResponse";

/// A NOTIFY on a channel that this session listens to. It may come at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// Process id of the notifying backend.
    pub process_id: i32,
    /// Name of the channel.
    pub channel: &'a [u8],
    /// Payload, often empty.
    pub payload: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = Self {
            process_id: cursor.i32("process id")?,
            channel: cursor.string("channel")?,
            payload: cursor.string("payload")?,
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if a string has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, NOTIFICATION, out);
        writer.i32(self.process_id);
        writer.string("channel", self.channel)?;
        writer.string("payload", self.payload)?;
        writer.finish()
    }
}
