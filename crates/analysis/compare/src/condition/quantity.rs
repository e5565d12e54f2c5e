//! Quantities that a condition can refer to.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// Unit of a quantity, which determines the values that it can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ratio after / before: `1.2x`, or as a change: `20%`.
    Ratio,
    /// Time in nanoseconds: `20ms`.
    #[serde(rename = "ns")]
    Time,
    /// Plain number.
    Count,
    /// Share, from 0 to 1: `1%`.
    Share,
}

/// Subject that a quantity describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// Each statement separately.
    Statement,
    /// `all.`: all statements together.
    All,
    /// `response.`: the response times (due → done) of all statements together.
    Response,
    /// `connects.`: the opening of connections.
    Connects,
}

/// Side of an absolute value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunSide {
    /// `before.`
    Before,
    /// `after.`, also the default.
    After,
}

/// End of a ratio's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IntervalEnd {
    /// `.low`
    Low,
    /// `.high`
    High,
}

/// Name of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // QUANTITIES says what each is
pub enum Name {
    Median,
    Mean,
    P95,
    P99,
    Max,
    Total,
    Added,
    Calls,
    Failures,
    FailureRate,
    Skipped,
    Throughput,
    Elapsed,
    Errors,
    NewErrors,
    MoreErrors,
    GoneErrors,
    Slower,
    Faster,
    RowsDiffer,
    DigestsDiffer,
    Divergence,
}

/// Boolean quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flag {
    /// The verdict is a regression.
    Regression,
    /// The statement is part of the regression.
    Regressed,
    /// The comparison is inconclusive.
    Inconclusive,
}

/// Quantity that is compared with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextName {
    /// Normalised SQL.
    Sql,
    /// `select`, `insert` …
    Class,
    /// 16 hexadecimal digits.
    Fingerprint,
}

/// Quantity with its prefixes and suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quantity {
    /// Subject.
    pub subject: Subject,
    /// Side, if it was given.
    pub side: Option<RunSide>,
    /// Its name.
    pub name: Name,
    /// End of the ratio's interval.
    pub end: Option<IntervalEnd>,
}

/// Description of a quantity; the table in `docs/reference/fail-on.md` has the same content.
#[derive(Debug, Clone, Copy)]
pub struct QuantityDescription {
    /// Name as it is written.
    pub word: &'static str,
    /// Meaning of the quantity.
    pub meaning: &'static str,
    pub(super) what: QuantityKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuantityKind {
    Number(Name),
    Flag(Flag),
    Text(TextName),
}

/// All quantities of conditions.
pub const QUANTITIES: [QuantityDescription; 28] = {
    use Name::*;
    use QuantityKind::*;
    [
        of("median", Number(Median), "half of the calls took no longer"),
        of("mean", Number(Mean), "the arithmetic mean"),
        of("p95", Number(P95), "95 % of the calls took no longer"),
        of("p99", Number(P99), "99 % of the calls took no longer"),
        of("max", Number(Max), "the longest call"),
        of("total", Number(Total), "the sum of all calls"),
        of(
            "added",
            Number(Added),
            "what the change costs: the difference of the means times the calls of a run before",
        ),
        of("calls", Number(Calls), "how often it was sent"),
        of("failures", Number(Failures), "how often it failed"),
        of("failure_rate", Number(FailureRate), "failures a call"),
        of("skipped", Number(Skipped), "how often it was not sent"),
        of(
            "throughput",
            Number(Throughput),
            "statements answered a second",
        ),
        of(
            "elapsed",
            Number(Elapsed),
            "from the start of the replay to its last answer",
        ),
        of("errors", Number(Errors), "statements that failed, in all"),
        of(
            "new_errors",
            Number(NewErrors),
            "errors, by statement and SQLSTATE, that neither the run before nor the capture had",
        ),
        of(
            "more_errors",
            Number(MoreErrors),
            "errors, by statement and SQLSTATE, that became more than chance explains",
        ),
        of(
            "gone_errors",
            Number(GoneErrors),
            "errors, by statement and SQLSTATE, that came before and not after",
        ),
        of(
            "slower",
            Number(Slower),
            "statements that got slower independently",
        ),
        of(
            "faster",
            Number(Faster),
            "statements that got faster independently",
        ),
        of(
            "rows_differ",
            Number(RowsDiffer),
            "statements whose rows differ, in number or in values",
        ),
        of(
            "digests_differ",
            Number(DigestsDiffer),
            "statements with as many rows as before, and other values in them",
        ),
        of(
            "divergence",
            Number(Divergence),
            "statements that ended otherwise than in the capture: with another error, other rows or other values",
        ),
        of(
            "regression",
            Flag(self::Flag::Regression),
            "the verdict: a statement got slower independently, or fails that did not, or repeated runs got slower as a whole",
        ),
        of(
            "inconclusive",
            Flag(self::Flag::Inconclusive),
            "the verdict: the runs cannot tell; the report says what would settle it",
        ),
        of(
            "regressed",
            Flag(self::Flag::Regressed),
            "this statement got slower independently",
        ),
        of("sql", Text(TextName::Sql), "the normalised statement"),
        of(
            "class",
            Text(TextName::Class),
            "what kind of statement it is",
        ),
        of(
            "fingerprint",
            Text(TextName::Fingerprint),
            "the 16 digits by which reports name it",
        ),
    ]
};

const fn of(word: &'static str, what: QuantityKind, meaning: &'static str) -> QuantityDescription {
    QuantityDescription {
        word,
        meaning,
        what,
    }
}

impl QuantityDescription {
    /// Returns the allowed prefixes: `all`, `response`, `connects`, `before`, `after`.
    pub fn takes_before_it(&self) -> Vec<&'static str> {
        let QuantityKind::Number(name) = self.what else {
            return Vec::new();
        };
        let mut words = Vec::new();
        for subject in [Subject::All, Subject::Response, Subject::Connects] {
            if name.subjects().contains(&subject) {
                words.extend(subject.word());
            }
        }
        if name.has_sides() {
            words.extend(["before", "after"]);
        }
        words
    }

    /// Returns the kinds of values that it can be compared with.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.what {
            QuantityKind::Number(name) => name.kinds(),
            QuantityKind::Flag(_) | QuantityKind::Text(_) => &[],
        }
    }

    /// Whether it has `.low` and `.high`.
    pub fn has_interval(&self) -> bool {
        matches!(self.what, QuantityKind::Number(name) if name.has_interval())
    }

    /// Whether its default subject is each statement.
    pub fn is_of_statements(&self) -> bool {
        match self.what {
            QuantityKind::Number(name) => name.subjects().contains(&Subject::Statement),
            QuantityKind::Flag(flag) => flag == Flag::Regressed,
            QuantityKind::Text(_) => true,
        }
    }
}

impl Name {
    /// Returns the kinds of values that it can be compared with. A ratio covers both runs, other
    /// kinds one.
    pub fn kinds(self) -> &'static [Kind] {
        use Name::*;
        match self {
            Median | Mean | P95 | P99 | Elapsed => &[Kind::Ratio, Kind::Time],
            Max | Total | Added => &[Kind::Time],
            Throughput => &[Kind::Ratio, Kind::Count],
            FailureRate => &[Kind::Share],
            Divergence => &[Kind::Count, Kind::Share],
            Calls | Failures | Skipped | Errors | NewErrors | MoreErrors | GoneErrors | Slower
            | Faster | RowsDiffer | DigestsDiffer => &[Kind::Count],
        }
    }

    pub(super) fn subjects(self) -> &'static [Subject] {
        use Name::*;
        match self {
            Median | Mean | P95 | P99 | Max | Total | Added => &[
                Subject::Statement,
                Subject::All,
                Subject::Response,
                Subject::Connects,
            ],
            Calls | Failures | FailureRate | Skipped => &[Subject::Statement, Subject::All],
            _ => &[Subject::All],
        }
    }

    pub(super) fn has_sides(self) -> bool {
        use Name::*;
        !matches!(
            self,
            Added
                | NewErrors
                | MoreErrors
                | GoneErrors
                | Slower
                | Faster
                | RowsDiffer
                | DigestsDiffer
        )
    }

    pub(super) fn has_interval(self) -> bool {
        matches!(self, Name::Median | Name::Mean | Name::P99)
    }

    /// Whether it may be a test on its own, which holds if the count is not zero.
    pub(super) fn may_stand_alone(self) -> bool {
        self.kinds()[0] == Kind::Count && self.subjects() == [Subject::All]
    }

    /// Returns the name as it is written.
    pub fn word(self) -> &'static str {
        word_of(QuantityKind::Number(self))
    }
}

impl Flag {
    /// Returns the name as it is written.
    pub fn word(self) -> &'static str {
        word_of(QuantityKind::Flag(self))
    }
}

impl TextName {
    /// Returns the name as it is written.
    pub fn word(self) -> &'static str {
        word_of(QuantityKind::Text(self))
    }
}

fn word_of(what: QuantityKind) -> &'static str {
    let found = QUANTITIES.iter().find(|described| described.what == what);
    found.map_or("", |described| described.word)
}

impl Subject {
    /// Returns the prefix for this subject.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Subject::Statement => None,
            Subject::All => Some("all"),
            Subject::Response => Some("response"),
            Subject::Connects => Some("connects"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A quantity that only exists for all statements needs no prefix.
        if self.name.subjects() != [Subject::All]
            && let Some(word) = self.subject.word()
        {
            write!(f, "{word}.")?;
        }
        match self.side {
            Some(RunSide::Before) => f.write_str("before.")?,
            Some(RunSide::After) => f.write_str("after.")?,
            None => {}
        }
        f.write_str(self.name.word())?;
        match self.end {
            Some(IntervalEnd::Low) => f.write_str(".low"),
            Some(IntervalEnd::High) => f.write_str(".high"),
            None => Ok(()),
        }
    }
}
