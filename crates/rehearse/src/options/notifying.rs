//! Options of messages to a chat.

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Message about the verdict to the webhook of a chat.
#[derive(Clone, Args)]
#[command(next_help_heading = "Message to a chat")]
pub struct NotifyArgs {
    /// Post the verdict to this incoming webhook of Slack, Teams or another receiver: https://HOST/PATH. Set the
    /// variable of the environment instead, since all users of the machine can read command lines. A message that
    /// cannot be posted is reported, and changes neither the verdict nor the exit code.
    #[arg(
        long,
        value_name = "URL",
        env = "REHEARSE_NOTIFY_URL",
        hide_env_values = true
    )]
    pub notify: Option<String>,
    /// Post the message in this format [default: slack or teams by the host of the URL, else json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub notify_format: Option<NotifyFormat>,
    /// Give up a message after this long, retries included.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = clock::parse_duration)]
    pub notify_timeout: Duration,
}

/// Formats of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NotifyFormat {
    /// Blocks of Slack, with the same as text.
    Slack,
    /// Adaptive card of Microsoft Teams.
    Teams,
    /// Plain JSON, as `rehearse schema notification` describes it.
    Json,
}

/// Leaves out the URL, whose path is a secret.
impl fmt::Debug for NotifyArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyArgs")
            .field("notify", &self.notify.as_ref().map(|_| "…"))
            .field("notify_format", &self.notify_format)
            .field("notify_timeout", &self.notify_timeout)
            .finish()
    }
}
