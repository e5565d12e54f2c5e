//! Converts waits into the stacks of a flame graph, with the event below and the statement above.
//!
//! There are few events and many statements, so the base has a wide box for each type of wait, and
//! the statements are a click away. The search adds up the boxes of one statement.

use std::collections::BTreeMap;

use sql::Fingerprint;
use time_breakdown::waiting::{WaitContext, WaitKey, Waiting};
use workload::StatementText;

use crate::text::line::one_line;
use crate::text::units::{counted, duration};

/// Maximum number of characters of a statement's text.
const TEXT_CHARS: usize = 300;

/// Unit of the widths.
pub const WAIT_UNIT: &str = "ms";

/// Returns folded stacks with times in milliseconds.
pub fn folded_waits(
    waiting: &Waiting,
    texts: &BTreeMap<Fingerprint, StatementText>,
) -> Vec<String> {
    let mut lines: Vec<String> = waiting
        .places
        .iter()
        .map(|(place, sampled)| {
            let (frames, _) = wait_frames(place, texts);
            // Even the shortest wait gets a visible width.
            let ms = (sampled.ns / 1e6).round().max(1.0);
            format!("{} {ms}", frames.join(";"))
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Returns the frames of a wait, the outermost first, and its statement if it is known.
pub(super) fn wait_frames(
    place: &WaitKey,
    texts: &BTreeMap<Fingerprint, StatementText>,
) -> ([String; 3], Option<Fingerprint>) {
    let statement = |of: &Option<Fingerprint>| match of {
        None => "a statement that is not known".to_owned(),
        Some(fingerprint) => {
            let text = texts.get(fingerprint).map(|text| text.sql.as_str());
            let text = one_line(text.unwrap_or("its text is not known"), TEXT_CHARS);
            format!("{text} [{fingerprint}]")
        }
    };
    let (frames, fingerprint) = match &place.within {
        WaitContext::Statement(of) => (
            [place.kind.clone(), place.event.clone(), statement(of)],
            *of,
        ),
        WaitContext::Transaction(of) => (
            [
                "idle in transaction".to_owned(),
                format!("{} {}", place.kind, place.event),
                format!("after {}", statement(of)),
            ],
            *of,
        ),
        WaitContext::Server(kind) => (
            [place.kind.clone(), place.event.clone(), format!("({kind})")],
            None,
        ),
    };
    (frames.map(|frame| frame_of(&frame)), fingerprint)
}

/// Describes the source of the graph, and the time that it leaves out.
pub fn wait_notes(waiting: &Waiting) -> Vec<String> {
    let waited = waiting.waited();
    let mut notes = vec![format!(
        "Samples of sessions that wait, as pg_stat_activity names it, and no stacks: type of wait, event, \
         statement. {} of waiting in {}, by {} in {}.",
        duration(waited.ns / 1e3),
        duration(waiting.sampled_ns / 1e3),
        counted(waited.samples, "sample"),
        counted(waiting.samples, "look")
    )];
    let left = [
        (
            waiting.working,
            "with a statement and not waiting (running or waiting for a CPU)",
        ),
        (waiting.others, "of what was not chosen"),
        (
            waiting.hidden,
            "of sessions that the role may not look into, idle or not",
        ),
    ];
    for (part, what) in left {
        if part.samples > 0 {
            notes.push(format!("Not drawn: {} {what}.", duration(part.ns / 1e3)));
        }
    }
    notes
}

/// Replaces the characters that separate frames and lines.
fn frame_of(name: &str) -> String {
    let name = name.trim();
    match name.is_empty() {
        true => "not named".to_owned(),
        false => name.replace(';', ",").replace(char::is_control, " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::StatementClass;
    use time_breakdown::waiting::SampledTime;

    #[test]
    fn waits_are_stacks_of_type_event_and_statement() {
        let (one, two) = (Fingerprint(1), Fingerprint(2));
        let place = |kind: &str, event: &str, within| WaitKey {
            kind: kind.to_owned(),
            event: event.to_owned(),
            within,
        };
        let of = |ms: f64, samples| SampledTime {
            ns: ms * 1e6,
            samples,
        };
        let waiting = Waiting {
            places: BTreeMap::from([
                (
                    place("Lock", "tuple", WaitContext::Statement(Some(one))),
                    of(1_500.4, 30),
                ),
                (
                    place("Lock", "tuple", WaitContext::Statement(Some(two))),
                    of(0.2, 1),
                ),
                (
                    place("IO", "", WaitContext::Server("walwriter".to_owned())),
                    of(50.0, 1),
                ),
                (
                    place("Client", "ClientRead", WaitContext::Transaction(None)),
                    of(100.0, 2),
                ),
            ]),
            working: of(250.0, 5),
            sampled_ns: 3e9,
            samples: 60,
            ..Waiting::default()
        };
        let text = StatementText {
            fingerprint: one,
            class: StatementClass::Select,
            sql: "select 1;\n select $1 limit 5".to_owned(),
        };
        let lines = folded_waits(&waiting, &BTreeMap::from([(one, text)]));
        assert_eq!(
            lines,
            [
                "IO;not named;(walwriter) 50",
                "Lock;tuple;its text is not known [0000000000000002] 1",
                "Lock;tuple;select 1, select $1 limit 5 [0000000000000001] 1500",
                "idle in transaction;Client ClientRead;after a statement that is not known 100",
            ]
        );
        let notes = wait_notes(&waiting);
        assert!(
            notes[0].contains("no stacks")
                && notes[0].contains("1.65 s of waiting in 3.00 s, by 34 samples in 60 looks"),
            "{notes:?}"
        );
        assert_eq!(notes.len(), 2);
        assert!(notes[1].contains("250 ms with a statement"), "{notes:?}");
    }
}
