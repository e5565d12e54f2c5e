//! Names of quantities with their dotted prefixes and suffixes.

use super::error::nearest;
use super::quantity::{
    IntervalEnd, Kind, Name, QUANTITIES, Quantity, QuantityKind, RunSide, Subject,
};

/// Parsed parts of a dotted name such as `all.before.p99`.
#[derive(Default)]
pub(super) struct QuantityPath {
    pub(super) subject: Option<Subject>,
    pub(super) side: Option<RunSide>,
    pub(super) end: Option<IntervalEnd>,
    pub(super) what: Option<(QuantityKind, &'static str)>,
}

impl QuantityPath {
    pub(super) fn add(&mut self, part: &str) -> Result<(), String> {
        let taken = match part {
            "all" => self.subject.replace(Subject::All).is_some(),
            "response" => self.subject.replace(Subject::Response).is_some(),
            "connects" => self.subject.replace(Subject::Connects).is_some(),
            "before" => self.side.replace(RunSide::Before).is_some(),
            "after" => self.side.replace(RunSide::After).is_some(),
            "low" => self.end.replace(IntervalEnd::Low).is_some(),
            "high" => self.end.replace(IntervalEnd::High).is_some(),
            "" => return Err("a dot stands between two names, such as all.p99".to_owned()),
            part => {
                let word = match part {
                    "p50" => "median",
                    "avg" => "mean",
                    part => part,
                };
                let Some(found) = QUANTITIES.iter().find(|known| known.word == word) else {
                    return Err(unknown_name_message(part));
                };
                self.what.replace((found.what, found.word)).is_some()
            }
        };
        match taken {
            true => Err(format!(
                "'{part}' says again what was said before it; write one of the two"
            )),
            false => Ok(()),
        }
    }

    pub(super) fn quantity(&self, name: Name) -> Result<Quantity, String> {
        let word = name.word();
        let subjects = name.subjects();
        let subject = match self.subject {
            Some(subject) if !subjects.contains(&subject) => {
                return Err(match subject {
                    Subject::Connects | Subject::Response => format!(
                        "{word} is not known of that; median, mean, p95, p99, max, total and added are"
                    ),
                    _ => format!("{word} is never of all"),
                });
            }
            Some(subject) => subject,
            None if subjects.contains(&Subject::Statement) => Subject::Statement,
            None => Subject::All,
        };
        if self.side.is_some() && !name.has_sides() {
            return Err(format!(
                "{word} is of both runs; write it without before or after"
            ));
        }
        if self.end.is_some() && !name.has_interval() {
            return Err(format!(
                "{word} has no interval; median, mean and p99 have .low and .high"
            ));
        }
        if self.end.is_some() && self.side.is_some() {
            return Err(format!(
                ".low and .high are of the ratio of both runs; write {word}.low or before.{word}"
            ));
        }
        Ok(Quantity {
            subject,
            side: self.side,
            name,
            end: self.end,
        })
    }
}

fn unknown_name_message(part: &str) -> String {
    let words = QUANTITIES.iter().map(|known| known.word);
    let modifiers = [
        "all", "response", "connects", "before", "after", "low", "high", "and", "or", "not",
    ];
    let near = nearest(part, words.clone().chain(modifiers));
    let shown: String = part.chars().take(40).collect();
    match near.as_slice() {
        [] => format!(
            "there is no quantity '{shown}'; there are {}",
            words.collect::<Vec<_>>().join(", ")
        ),
        near => format!(
            "there is no quantity '{shown}'; did you mean {}?",
            near.join(" or ")
        ),
    }
}

pub(super) fn allowed_values(name: Name) -> String {
    let kinds = name.kinds().iter().map(|kind| match kind {
        Kind::Ratio => "a ratio (1.2x, or 20% for a change by so much)",
        Kind::Time => "a time (ns, us, ms, s or min)",
        Kind::Count if name == Name::Throughput => "a plain number (a second)",
        Kind::Count => "a plain number, without a unit",
        Kind::Share => "a share in %",
    });
    format!("compared with {}", kinds.collect::<Vec<_>>().join(" or "))
}

/// Returns an example of a valid test with this quantity.
pub(super) fn example_test(quantity: Quantity) -> String {
    let kinds = quantity.name.kinds();
    let kind = match (quantity.side, quantity.end) {
        (Some(_), _) => kinds.iter().find(|kind| **kind != Kind::Ratio),
        (None, Some(_)) => Some(&Kind::Ratio),
        (None, None) => kinds.first(),
    };
    let value = match kind {
        Some(Kind::Ratio) if quantity.name == Name::Throughput => "< 0.9x",
        Some(Kind::Ratio) => "> 1.2x",
        Some(Kind::Time) => "> 20ms",
        Some(Kind::Share) => "> 1%",
        Some(Kind::Count) | None => "> 100",
    };
    format!("{quantity} {value}")
}
