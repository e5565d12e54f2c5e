//! Conditions on a comparison: `p99 > 1.2x and calls > 100`.
//!
//! [`Condition::parse`] parses a text into a tree, in which every quantity is compared with a value
//! of its kind. [`Condition::check`] evaluates it on a [`Comparison`](crate::compare::Comparison).
//! [`QUANTITIES`] describes the quantities, `docs/reference/fail-on.md` the syntax.
//!
//! Quantities of statements are evaluated for each statement; the condition holds if it holds for
//! any. Unknown values, such as the ratio of a statement with too few calls, are neither true nor
//! false (Kleene, "Introduction to Metamathematics", 1952, section 64), so that missing data never
//! makes a condition hold.
//!
//! There is no arithmetic, and no aggregate over several statements.

mod check;
mod error;
mod lexer;
mod outcome;
mod parse;
mod quantity;
mod quantity_path;

use std::fmt;

use sql::Pattern;

pub use error::ConditionError;
pub use outcome::{ConditionOutcome, ConditionStatement, MeasuredQuantity};
pub use quantity::{
    Flag, IntervalEnd, Kind, Name, QUANTITIES, Quantity, QuantityDescription, RunSide, Subject,
    TextName,
};

/// A condition on a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    given: String,
    tree: Tree,
}

/// Syntax tree of a condition. Lists have at least two members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Any(Vec<Tree>),
    Every(Vec<Tree>),
    Not(Box<Tree>),
    Test(Test),
}

/// Single test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    Flag(Flag),
    /// A count on its own: it holds if the count is not zero.
    IsThere(Quantity),
    Number(Quantity, Operator, Value),
    Sql {
        matches: bool,
        pattern: Pattern,
    },
    Is {
        name: TextName,
        equal: bool,
        text: String,
    },
}

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    Unequal,
}

/// Value that a quantity is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    pub(crate) number: f64,
    pub(crate) unit: Unit,
}

/// Unit as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    None,
    Times,
    Percent,
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Minutes,
}

impl Operator {
    const ALL: [(&'static str, Operator); 7] = [
        (">=", Operator::AtLeast),
        (">", Operator::Above),
        ("<=", Operator::AtMost),
        ("<", Operator::Below),
        ("!=", Operator::Unequal),
        ("=", Operator::Equal),
        ("==", Operator::Equal),
    ];

    fn holds(self, one: f64, other: f64) -> bool {
        match self {
            Operator::Above => one > other,
            Operator::AtLeast => one >= other,
            Operator::Below => one < other,
            Operator::AtMost => one <= other,
            Operator::Equal => one == other,
            Operator::Unequal => one != other,
        }
    }
}

impl Unit {
    /// Spellings of the units; the first of each is used for printing.
    const WORDS: [(&'static str, Unit); 11] = [
        ("", Unit::None),
        ("x", Unit::Times),
        ("%", Unit::Percent),
        ("ns", Unit::Nanoseconds),
        ("us", Unit::Microseconds),
        ("µs", Unit::Microseconds),
        ("μs", Unit::Microseconds),
        ("ms", Unit::Milliseconds),
        ("s", Unit::Seconds),
        ("min", Unit::Minutes),
        ("m", Unit::Minutes),
    ];

    fn word(self) -> &'static str {
        let found = Unit::WORDS.iter().find(|(_, unit)| *unit == self);
        found.map_or("", |(word, _)| word)
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// If the text is not a condition; the error has the position and the allowed input.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        Ok(Condition {
            tree: parse::parse(text)?,
            given: text.trim().to_owned(),
        })
    }

    /// Whether two conditions have the same tree, regardless of spelling.
    pub fn is_equivalent_to(&self, other: &Condition) -> bool {
        self.tree == other.tree
    }

    /// Returns the names of its quantities in order, without repetition.
    pub fn quantities(&self) -> Vec<&'static str> {
        fn of(tree: &Tree, words: &mut Vec<&'static str>) {
            let word = match tree {
                Tree::Any(parts) | Tree::Every(parts) => {
                    return parts.iter().for_each(|part| of(part, words));
                }
                Tree::Not(part) => return of(part, words),
                Tree::Test(Test::Flag(flag)) => flag.word(),
                Tree::Test(Test::IsThere(quantity) | Test::Number(quantity, ..)) => {
                    quantity.name.word()
                }
                Tree::Test(Test::Sql { .. }) => TextName::Sql.word(),
                Tree::Test(Test::Is { name, .. }) => name.word(),
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let mut words = Vec::new();
        of(&self.tree, &mut words);
        words
    }

    /// Whether it is evaluated for each statement.
    fn is_of_statements(&self) -> bool {
        self.tree.is_of_statements()
    }
}

impl Tree {
    fn is_of_statements(&self) -> bool {
        match self {
            Tree::Any(parts) | Tree::Every(parts) => parts.iter().any(Tree::is_of_statements),
            Tree::Not(part) => part.is_of_statements(),
            Tree::Test(test) => test.is_of_statements(),
        }
    }
}

impl Test {
    fn is_of_statements(&self) -> bool {
        match self {
            Test::Flag(flag) => *flag == Flag::Regressed,
            Test::IsThere(quantity) | Test::Number(quantity, ..) => {
                quantity.subject == Subject::Statement
            }
            Test::Sql { .. } | Test::Is { .. } => true,
        }
    }
}

/// Writes the canonical form, which parses to the same tree.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Tree], word: &str, within_every: bool| {
            for (at, part) in parts.iter().enumerate() {
                if at > 0 {
                    write!(f, " {word} ")?;
                }
                match part {
                    Tree::Any(_) => write!(f, "({part})")?,
                    Tree::Every(_) if within_every => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Tree::Any(parts) => list(f, parts, "or", false),
            Tree::Every(parts) => list(f, parts, "and", true),
            Tree::Not(part) => match &**part {
                Tree::Any(_) | Tree::Every(_) => write!(f, "not ({part})"),
                Tree::Not(_) | Tree::Test(_) => write!(f, "not {part}"),
            },
            Tree::Test(test) => test.fmt(f),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Flag(flag) => f.write_str(flag.word()),
            Test::IsThere(quantity) => quantity.fmt(f),
            Test::Number(quantity, operator, value) => {
                let found = Operator::ALL.iter().find(|(_, known)| known == operator);
                let word = found.map_or("", |(word, _)| word);
                write!(f, "{quantity} {word} {}{}", value.number, value.unit.word())
            }
            Test::Sql { matches, pattern } => {
                let word = if *matches { "~" } else { "!~" };
                write!(f, "sql {word} {}", quoted(pattern.given()))
            }
            Test::Is { name, equal, text } => {
                let word = if *equal { "=" } else { "!=" };
                write!(f, "{} {word} {}", name.word(), quoted(text))
            }
        }
    }
}

/// Quotes a text; quotes within it are doubled.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests;
