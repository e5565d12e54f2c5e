//! What a condition can ask for.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The unit of a quantity, which decides what it can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// After divided by before: `1.2x`, or as a change: `20%`.
    Ratio,
    /// A time in nanoseconds: `20ms`.
    #[serde(rename = "ns")]
    Time,
    /// A plain number.
    Count,
    /// A part of a whole, from 0 to 1: `1%`.
    Share,
}

/// Of what a quantity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// Of each statement by itself.
    Statement,
    /// `all.`: of all statements together.
    All,
    /// `response.`: the response times (due → done) of all statements together.
    Response,
    /// `connects.`: of opening connections.
    Connects,
}

/// Which run an absolute value is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunSide {
    /// `before.`
    Before,
    /// `after.`, also where nothing is said.
    After,
}

/// Which end of a ratio's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// `.low`
    Low,
    /// `.high`
    High,
}

/// A quantity's name.
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
}

/// What stands alone: it holds or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flag {
    /// The verdict is a regression.
    Regression,
    /// The statement is a part of it.
    Regressed,
}

/// What is compared with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextName {
    /// The normalised statement.
    Sql,
    /// `select`, `insert` …
    Class,
    /// 16 hexadecimal digits.
    Fingerprint,
}

/// A quantity with all that stands around its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quantity {
    /// Of what.
    pub subject: Subject,
    /// Of which run, where that was said.
    pub side: Option<RunSide>,
    /// Its name.
    pub name: Name,
    /// The end of the ratio's interval.
    pub end: Option<End>,
}

/// What is known of a name: the table in `docs/fail-on.md` has the same.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    /// As it is written.
    pub word: &'static str,
    /// What it is.
    pub meaning: &'static str,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Number(Name),
    Flag(Flag),
    Text(TextName),
}

/// Everything that a condition can ask for.
pub const QUANTITIES: [Described; 26] = {
    use Name::*;
    use What::*;
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
            "statements that got slower, noticeably",
        ),
        of("faster", Number(Faster), "statements that got faster"),
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
            "regression",
            Flag(self::Flag::Regression),
            "the verdict: something got slower noticeably, or fails that did not",
        ),
        of(
            "regressed",
            Flag(self::Flag::Regressed),
            "this statement got slower, noticeably",
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

const fn of(word: &'static str, what: What, meaning: &'static str) -> Described {
    Described {
        word,
        meaning,
        what,
    }
}

impl Described {
    /// The words before it that are allowed: `all`, `response`, `connects`, `before`, `after`.
    pub fn takes_before_it(&self) -> Vec<&'static str> {
        let What::Number(name) = self.what else {
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

    /// What it can be compared with.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.what {
            What::Number(name) => name.kinds(),
            What::Flag(_) | What::Text(_) => &[],
        }
    }

    /// It has `.low` and `.high`.
    pub fn has_interval(&self) -> bool {
        matches!(self.what, What::Number(name) if name.has_interval())
    }

    /// It is of each statement where nothing else is said.
    pub fn is_of_statements(&self) -> bool {
        match self.what {
            What::Number(name) => name.subjects().contains(&Subject::Statement),
            What::Flag(flag) => flag == Flag::Regressed,
            What::Text(_) => true,
        }
    }
}

impl Name {
    /// What it can be compared with. A ratio is of both runs, all else of one.
    pub fn kinds(self) -> &'static [Kind] {
        use Name::*;
        match self {
            Median | Mean | P95 | P99 | Elapsed => &[Kind::Ratio, Kind::Time],
            Max | Total | Added => &[Kind::Time],
            Throughput => &[Kind::Ratio, Kind::Count],
            FailureRate => &[Kind::Share],
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

    /// A count of the whole may stand alone: it is then asked whether there is one.
    pub(super) fn may_stand_alone(self) -> bool {
        self.kinds() == [Kind::Count] && self.subjects() == [Subject::All]
    }

    /// As it is written.
    pub fn word(self) -> &'static str {
        word_of(What::Number(self))
    }
}

impl Flag {
    /// As it is written.
    pub fn word(self) -> &'static str {
        word_of(What::Flag(self))
    }
}

impl TextName {
    /// As it is written.
    pub fn word(self) -> &'static str {
        word_of(What::Text(self))
    }
}

fn word_of(what: What) -> &'static str {
    let found = QUANTITIES.iter().find(|described| described.what == what);
    found.map_or("", |described| described.word)
}

impl Subject {
    /// What stands before the quantity for it.
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
        // What is of the whole only needs no word for it.
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
            Some(End::Low) => f.write_str(".low"),
            Some(End::High) => f.write_str(".high"),
            None => Ok(()),
        }
    }
}
