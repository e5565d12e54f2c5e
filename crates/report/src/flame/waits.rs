//! Waits as the stacks of a flame graph: what was waited for below, in which statement above.
//!
//! That way round since waits are few and statements many: the ground has a box for each type of wait, wide
//! enough to be read, and what it stands under is a click away. How much one statement waits in all, a search
//! for it says, which adds its boxes up wherever they are.

use std::collections::BTreeMap;

use sql::Fingerprint;
use time_breakdown::waiting::{Waiting, Within};
use workload::StatementText;

use crate::text::amount::{counted, duration};
use crate::text::line::one_line;

/// A statement's text beyond this is cut.
const TEXT_CHARS: usize = 300;

/// The unit of the widths.
pub const WAIT_UNIT: &str = "ms";

/// Lines of folded stacks, their numbers in milliseconds.
pub fn folded_waits(
    waiting: &Waiting,
    texts: &BTreeMap<Fingerprint, StatementText>,
) -> Vec<String> {
    let statement = |of: &Option<Fingerprint>| match of {
        None => "a statement that is not known".to_owned(),
        Some(fingerprint) => {
            let text = texts.get(fingerprint).map(|text| text.sql.as_str());
            let text = one_line(text.unwrap_or("its text is not known"), TEXT_CHARS);
            format!("{text} [{fingerprint}]")
        }
    };
    let mut lines: Vec<String> = waiting
        .places
        .iter()
        .map(|(place, sampled)| {
            let frames = match &place.within {
                Within::Statement(of) => [place.kind.clone(), place.event.clone(), statement(of)],
                Within::Transaction(of) => [
                    "idle in transaction".to_owned(),
                    format!("{} {}", place.kind, place.event),
                    format!("after {}", statement(of)),
                ],
                Within::Server(kind) => {
                    [place.kind.clone(), place.event.clone(), format!("({kind})")]
                }
            };
            let frames = frames.map(|frame| frame_of(&frame));
            // What was met at all is wider than nothing.
            let ms = (sampled.ns / 1e6).round().max(1.0);
            format!("{} {ms}", frames.join(";"))
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// What such a picture is made of, and what is not in it.
pub fn wait_notes(waiting: &Waiting) -> Vec<String> {
    let waited = waiting.waited();
    let mut notes = vec![format!(
        "Samples of sessions that wait, as pg_stat_activity names it, and no stacks: type of wait, event, \
         statement. {} of waiting in {}, by {} in {}.",
        duration(waited.ns / 1e3),
        duration(waiting.looked_ns / 1e3),
        counted(waited.samples, "sample"),
        counted(waiting.looks, "look")
    )];
    let left = [
        (
            waiting.working,
            "with a statement and not waiting (on a processor, or in want of one)",
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

/// A name that is one frame: what separates frames and lines is not in it.
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
    use time_breakdown::waiting::{Sampled, WaitPlace};

    #[test]
    fn waits_are_stacks_of_type_event_and_statement() {
        let (one, two) = (Fingerprint(1), Fingerprint(2));
        let place = |kind: &str, event: &str, within| WaitPlace {
            kind: kind.to_owned(),
            event: event.to_owned(),
            within,
        };
        let of = |ms: f64, samples| Sampled {
            ns: ms * 1e6,
            samples,
        };
        let waiting = Waiting {
            places: BTreeMap::from([
                (
                    place("Lock", "tuple", Within::Statement(Some(one))),
                    of(1_500.4, 30),
                ),
                (
                    place("Lock", "tuple", Within::Statement(Some(two))),
                    of(0.2, 1),
                ),
                (
                    place("IO", "", Within::Server("walwriter".to_owned())),
                    of(50.0, 1),
                ),
                (
                    place("Client", "ClientRead", Within::Transaction(None)),
                    of(100.0, 2),
                ),
            ]),
            working: of(250.0, 5),
            looked_ns: 3e9,
            looks: 60,
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
