//! Text on an export over OTLP: the numbers of accepted and lost items.

use telemetry::{ExportAccount, ExportFailure};

use crate::text::line::one_line;
use crate::text::units::{count, counted};

/// Maximum characters of a collector's message.
const MESSAGE_MAX: usize = 160;

/// Returns the address and the numbers of accepted items, for the summary of a run.
pub fn summary(account: &ExportAccount) -> String {
    let accepted = account.readings.saturating_sub(account.readings_lost);
    let lost = match account.is_complete() {
        true => String::new(),
        false => format!("; {}", lost_items(account)),
    };
    format!(
        "{} over OTLP ({} of the metrics, {}{lost})",
        account.endpoint,
        counted(accepted, "reading"),
        counted(account.spans, "span"),
    )
}

/// Returns a sentence on what was lost; `None` if the collector accepted everything.
pub fn complaint(account: &ExportAccount) -> Option<String> {
    if account.is_complete() {
        return None;
    }
    Some(format!(
        "The export over OTLP to {} is incomplete: {}{}; check the address and the collector's log, nothing else is affected.",
        account.endpoint,
        lost_items(account),
        account
            .last_failure
            .as_ref()
            .map_or(String::new(), |failure| {
                format!(
                    ", and the last failure was that {}",
                    describe_failure(failure)
                )
            })
    ))
}

fn lost_items(account: &ExportAccount) -> String {
    let mut parts = Vec::new();
    if account.readings_lost > 0 {
        let (lost, all) = (count(account.readings_lost), count(account.readings));
        parts.push(format!("{lost} of {all} readings of the metrics"));
    }
    if account.spans_lost > 0 {
        let all = account.spans + account.spans_lost;
        parts.push(format!(
            "{} of {} spans",
            count(account.spans_lost),
            count(all)
        ));
    }
    match parts.is_empty() {
        true => "an unknown part was lost".to_owned(),
        false => format!("{} were lost", parts.join(" and ")),
    }
}

fn describe_failure(failure: &ExportFailure) -> String {
    match failure {
        ExportFailure::NoAnswer(reason) => {
            format!("there was no answer ({})", one_line(reason, MESSAGE_MAX))
        }
        ExportFailure::Refused(status, message) if message.is_empty() => {
            format!("it answered {status}")
        }
        ExportFailure::Refused(status, message) => {
            format!("it answered {status} ({})", one_line(message, MESSAGE_MAX))
        }
        ExportFailure::PartlyRejected(message) => {
            format!("it rejected a part ({})", one_line(message, MESSAGE_MAX))
        }
        ExportFailure::Panicked => {
            "the exporter's thread ended early, which is an error of ours".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaint_has_what_was_lost_and_the_last_failure_only_if_something_was() {
        let mut account = ExportAccount {
            endpoint: "http://c:4318".to_owned(),
            accepted: 2,
            readings: 3,
            spans: 1_200,
            ..ExportAccount::default()
        };
        assert_eq!(complaint(&account), None);
        assert_eq!(
            summary(&account),
            "http://c:4318 over OTLP (3 readings of the metrics, 1,200 spans)"
        );
        account.readings_lost = 1;
        account.spans_lost = 800;
        account.last_failure = Some(ExportFailure::Refused(503, "full".to_owned()));
        assert_eq!(
            complaint(&account).unwrap(),
            "The export over OTLP to http://c:4318 is incomplete: 1 of 3 readings of the metrics and 800 of 2,000 spans were lost, and the last failure was that it answered 503 (full); check the address and the collector's log, nothing else is affected."
        );
    }
}
