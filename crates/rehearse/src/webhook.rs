//! Posts the message about a verdict to an incoming webhook.
//!
//! The path of a webhook is its secret: it allows to write into the chat. So only scheme, host and port are printed, and
//! errors of the HTTP client are printed without their URL. Answers are not printed, since they can repeat the path.

use std::error::Error;
use std::time::Duration;

use report::notification::{Notification, NotificationForm};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use study::Failure;

use crate::options::notifying::{NotifyArgs, NotifyFormat};
use crate::terminal;

/// Maximum number of requests for one message.
const ATTEMPTS_MAX: u32 = 3;
/// Pause before the second request, which doubles before the third.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause that an answer can ask for with `Retry-After`.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Hosts of Slack's webhooks.
const SLACK_HOSTS: [&str; 2] = ["hooks.slack.com", "hooks.slack-gov.com"];
/// Hosts of the webhooks and workflows of Teams; these and their subdomains.
const TEAMS_HOSTS: [&str; 4] = [
    "webhook.office.com",
    "outlook.office.com",
    "logic.azure.com",
    "api.powerplatform.com",
];

/// Incoming webhook.
pub struct Webhook {
    url: Url,
    form: NotificationForm,
    timeout: Duration,
}

impl Webhook {
    /// Returns the webhook that the options name; `None` without one.
    ///
    /// # Errors
    /// If its URL is not one of HTTP.
    pub fn from_args(args: &NotifyArgs) -> Result<Option<Self>, Failure> {
        let Some(given) = args.notify.as_deref().filter(|given| !given.is_empty()) else {
            return Ok(None);
        };
        let url = Url::parse(given).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            return Err(Failure::usage(
                "the address of --notify or REHEARSE_NOTIFY_URL is no URL of HTTP; give the whole address of the incoming webhook: https://HOST/PATH",
            ));
        };
        let form = match args.notify_format {
            Some(NotifyFormat::Slack) => NotificationForm::Slack,
            Some(NotifyFormat::Teams) => NotificationForm::Teams,
            Some(NotifyFormat::Json) => NotificationForm::Json,
            None => form_of_host(url.host_str().unwrap_or_default()),
        };
        Ok(Some(Webhook {
            url,
            form,
            timeout: args.notify_timeout,
        }))
    }

    /// Posts the message. A failure is reported on standard error.
    pub fn post(&self, message: &Notification) {
        let place = hide_path(&self.url);
        match self.try_post(message) {
            Ok(()) => terminal::note(&format!("Posted the verdict to {place}.")),
            Err(reason) => terminal::complain(&format!(
                "the verdict could not be posted to {place}: {reason}; the verdict and the exit code remain as they are"
            )),
        }
    }

    /// Posts the message, or returns the reason and the remedy.
    fn try_post(&self, message: &Notification) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("the system refuses a socket ({error}); try again"))?;
        let body = message.render(self.form);
        runtime.block_on(async {
            match tokio::time::timeout(self.timeout, self.send_until_accepted(&body)).await {
                Ok(ended) => ended,
                Err(_) => Err(format!(
                    "no answer within {} s; check the address and the proxy, or allow more with --notify-timeout",
                    self.timeout.as_secs_f64()
                )),
            }
        })
    }

    /// Sends requests until one is accepted, refused for good, or the last.
    async fn send_until_accepted(&self, body: &str) -> Result<(), String> {
        connect::tls::install_cryptography();
        // A redirection would turn the request into one without a message.
        let client = Client::builder()
            .user_agent(concat!("rehearse/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| {
                let cause = root_cause(error);
                format!("there is no HTTP client ({cause}); install the system's certificates (on Debian, the package ca-certificates)")
            })?;
        let mut pause = PAUSE;
        for attempt in 1.. {
            let request = client.post(self.url.clone());
            let request = request.header(CONTENT_TYPE, "application/json");
            let sent = request.body(body.to_owned()).send().await;
            let response = sent.map_err(|error| {
                let cause = root_cause(error);
                format!("{cause}; check the address, the network and the proxy")
            })?;
            let status = response.status();
            if status.is_success() {
                return Ok(());
            }
            if !is_temporary(status) || attempt == ATTEMPTS_MAX {
                return Err(refusal(status));
            }
            tokio::time::sleep(requested_pause(&response).unwrap_or(pause)).await;
            pause *= 2;
        }
        unreachable!("the last attempt returns")
    }
}

/// Chooses the format of a webhook's host.
fn form_of_host(host: &str) -> NotificationForm {
    let is_within = |domain: &&str| {
        host.strip_suffix(*domain)
            .is_some_and(|start| start.is_empty() || start.ends_with('.'))
    };
    match host {
        host if SLACK_HOSTS.contains(&host) => NotificationForm::Slack,
        _ if TEAMS_HOSTS.iter().any(is_within) => NotificationForm::Teams,
        _ => NotificationForm::Json,
    }
}

/// Returns scheme, host and port of a URL.
fn hide_path(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns scheme, host and port of an argument that is a URL of HTTP; `None` for others.
pub fn hide_http_path(argument: &str) -> Option<String> {
    let url = Url::parse(argument).ok()?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_http.then(|| format!("{}/…", hide_path(&url)))
}

/// Whether the same request may be accepted later.
fn is_temporary(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// Returns the pause that an answer asks for, in seconds, limited to [`PAUSE_MAX`].
fn requested_pause(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(PAUSE_MAX))
}

/// Describes an answer that refuses the message, and what to do.
fn refusal(status: StatusCode) -> String {
    let remedy = match status.as_u16() {
        300..400 => "give the address that it redirects to",
        400 | 413 | 415 | 422 => "choose the format that it takes with --notify-format",
        401 | 403 | 404 | 410 => "check that the webhook still exists, and give its whole address",
        407 => "check the user and password of the proxy in the environment",
        429 => "it takes no more messages now, so post less often",
        500.. => "the service fails, so try again later",
        _ => "check the address",
    };
    format!("it answered {status}; {remedy}")
}

/// Returns the innermost reason of an error of the HTTP client, which names no URL.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(url: &str, format: Option<NotifyFormat>) -> Result<Option<Webhook>, Failure> {
        Webhook::from_args(&NotifyArgs {
            notify: Some(url.to_owned()),
            notify_format: format,
            notify_timeout: Duration::from_secs(1),
        })
    }

    #[test]
    fn format_is_that_of_the_host_or_the_chosen_one() {
        for (url, form) in [
            (
                "https://hooks.slack.com/services/T/B/x",
                NotificationForm::Slack,
            ),
            (
                "https://a.webhook.office.com/webhookb2/x",
                NotificationForm::Teams,
            ),
            (
                "https://p.01.westus.logic.azure.com:443/workflows/x",
                NotificationForm::Teams,
            ),
            (
                "https://evil-logic.azure.com.example/x",
                NotificationForm::Json,
            ),
            ("https://notlogic.azure.com/x", NotificationForm::Json),
            ("http://localhost:1/x", NotificationForm::Json),
        ] {
            assert_eq!(webhook(url, None).unwrap().unwrap().form, form, "{url}");
            let chosen = webhook(url, Some(NotifyFormat::Slack)).unwrap().unwrap();
            assert_eq!(chosen.form, NotificationForm::Slack, "{url}");
        }
    }

    #[test]
    fn address_that_is_no_url_of_http_is_refused_without_its_path() {
        for url in [
            "hooks.slack.com/SECRET",
            "ftp://h/SECRET",
            "https:///",
            "file:///SECRET",
        ] {
            let refused = webhook(url, None).map(drop).unwrap_err();
            assert!(!refused.message.contains("SECRET"), "{}", refused.message);
        }
        assert!(webhook("", None).unwrap().is_none());
        let url = Url::parse("https://user:SECRET@h:8443/SECRET?SECRET#SECRET").unwrap();
        assert_eq!(hide_path(&url), "https://h:8443");
    }
}
