use proptest::prelude::*;

use super::quantity::QuantityKind;
use super::*;

fn message(text: &str) -> String {
    Condition::parse(text).unwrap_err().to_string()
}

#[test]
fn valid_conditions_are_parsed() {
    for (text, canonical) in [
        ("regression", "regression"),
        ("P99>1.2X AND calls>100", "p99 > 1.2x and calls > 100"),
        ("new_errors > 0", "new_errors > 0"),
        ("new_errors", "new_errors"),
        (
            "median > 1.5x or added > 10s",
            "median > 1.5x or added > 10s",
        ),
        ("all.p95 > 1.1x", "all.p95 > 1.1x"),
        ("errors.after > 5", "after.errors > 5"),
        ("digests_differ", "digests_differ"),
        ("throughput < 0.9 x", "throughput < 0.9x"),
        ("throughput < -10%", "throughput < -10%"),
        (
            "sql ~ \"orders' x\" and mean > 20 ms",
            "sql ~ 'orders'' x' and mean > 20ms",
        ),
        ("p99.low > 1.1x", "p99.low > 1.1x"),
        ("low.p99 > 1.1x", "p99.low > 1.1x"),
        ("before.mean >= 1_000µs", "before.mean >= 1000us"),
        ("all.failure_rate > .5%", "all.failure_rate > 0.5%"),
        ("all.errors == 0", "errors = 0"),
        ("p50 > 2x", "median > 2x"),
        ("connects.p99 > 2x", "connects.p99 > 2x"),
        (
            "class = select and regressed",
            "class = 'select' and regressed",
        ),
        (
            "not (slower > 3 or faster) and not not regression",
            "not (slower > 3 or faster) and not not regression",
        ),
        (
            "(regression and (slower and faster)) or (elapsed > 1min)",
            "regression and (slower and faster) or elapsed > 1min",
        ),
        ("elapsed > 1m", "elapsed > 1min"),
        (
            "fingerprint != 0123456789ABCDEf",
            "fingerprint != '0123456789abcdef'",
        ),
    ] {
        // A text that begins with a digit needs quotes.
        let text = text.replace("0123456789ABCDEf", "'0123456789ABCDEf'");
        let condition = Condition::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(condition.to_string(), canonical);
        assert_eq!(condition.given, text);
    }
}

#[test]
fn invalid_conditions_report_fault_and_position() {
    for (text, sentence, marked) in [
        (
            "p9 > 1.2x",
            "there is no quantity 'p9'; did you mean p95 or p99?",
            "p9",
        ),
        ("meen > 2x", "did you mean mean?", "meen"),
        ("nw_errors > 0", "did you mean new_errors?", "nw_errors"),
        ("all.pp99 > 2x", "did you mean p99?", "pp99"),
        ("latency > 2x", "there are median, mean, p95", "latency"),
        (
            "p99 > 1.2",
            "a ratio (1.2x, or 20% for a change by so much) or a time",
            "1.2",
        ),
        ("p99 > 1.2z", "'z' is no unit", "1.2z"),
        ("calls > 2x", "a plain number, without a unit", "2x"),
        ("before.p99 > 2x", "of one run and no ratio", "2x"),
        (
            "p99.low > 2ms",
            "an end of the ratio's interval; write such as p99.low > 1.2x",
            "2ms",
        ),
        ("max.low > 2x", "max has no interval", "max.low"),
        ("connects.calls > 2", "not known of that", "connects.calls"),
        ("before.slower > 2", "of both runs", "before.slower"),
        ("all.all.p99 > 2x", "'all' says again", "all"),
        ("p99.p95 > 2x", "'p95' says again", "p95"),
        ("all > 2x", "the name of a quantity is missing", "all"),
        ("all. > 2x", "a dot stands between two names", ""),
        (
            "p99",
            "p99 is compared with something; write such as p99 > 1.2x",
            "p99",
        ),
        ("p99 >", "a number is missing here", ""),
        ("p99 > p95", "not with another quantity", "p95"),
        ("p99 1.2x", "is missing before this", "1.2x"),
        ("regression > 0", "write it alone, or 'not regression'", ">"),
        (
            "all.regression",
            "stands alone, without a dot",
            "all.regression",
        ),
        ("p99 > 2x calls > 3", "'and' or 'or' is missing", "calls"),
        ("(p99 > 2x", "no bracket closes the one at character 1", ""),
        ("p99 > 2x)", "closes none", ")"),
        ("", "a test is missing here", ""),
        ("slower or", "a test is missing here", ""),
        ("> 2", "begins with the name of a quantity", ">"),
        ("sql = 'x'", "sql takes ~", "="),
        ("sql ~ orders", "a text in quotes is missing", "orders"),
        ("sql ~ 'orders", "no ' closes this text", "'orders"),
        ("sql ~ '*'", "every statement has this in it", "'*'"),
        ("class = 'selct'", "there are select, insert", "'selct'"),
        ("class ~ select", "class takes = and !=", "~"),
        ("p99 ~ 'x'", "~ is for sql alone", "~"),
        ("fingerprint = 'x'", "16 hexadecimal digits", "'x'"),
        ("p99 > 2x & slower", "'&' has no meaning here", "&"),
        ("p99 > -200%", "no ratio is below 0", "-200%"),
        (
            "failure_rate > 150%",
            "no share is below 0% or above 100%",
            "150%",
        ),
        (
            "divergence > 101%",
            "no share is below 0% or above 100%",
            "101%",
        ),
        ("p99 > 1.2.3x", "is no number", "1.2.3"),
        ("failure_rate > 0.5", "a share in %", "0.5"),
    ] {
        let error = Condition::parse(text).unwrap_err();
        assert!(error.message().contains(sentence), "{text}: {error}");
        assert!(!error.message().contains('\n'), "{error}");
        let (from, to) = error.place();
        assert_eq!(&text[from..to], marked, "{error}");
    }
    assert_eq!(
        message("p99 > 1.2x and\tcälls > 100"),
        "there is no quantity 'cälls'; did you mean calls?\n  p99 > 1.2x and cälls > 100\n                 ^^^^^"
    );
    let long = format!("{} nonsense", "slower and ".repeat(20));
    let said = message(&long);
    assert!(
        said.lines().skip(1).all(|line| line.chars().count() < 140),
        "{said}"
    );
    assert!(message(&"(".repeat(9_999)).contains("within each other"));
    assert!(message(&"not ".repeat(4_000)).contains("within each other"));
    assert!(message(&" ".repeat(20_000)).contains("at most 16384 bytes"));
    assert!(Condition::parse(&format!("slower{}", " or slower".repeat(1_000))).is_ok());
}

fn quantity(name: Name) -> impl Strategy<Value = Quantity> {
    let subjects = prop::sample::select(name.subjects());
    let sides = match name.has_sides() {
        true => vec![None, Some(RunSide::Before), Some(RunSide::After)],
        false => vec![None],
    };
    let ends = match name.has_interval() {
        true => vec![None, Some(IntervalEnd::Low), Some(IntervalEnd::High)],
        false => vec![None],
    };
    (
        subjects,
        prop::sample::select(sides),
        prop::sample::select(ends),
    )
        .prop_map(move |(subject, side, end)| Quantity {
            subject,
            side: side.filter(|_| end.is_none()),
            name,
            end,
        })
}

fn number() -> impl Strategy<Value = Test> {
    let names = QUANTITIES.iter().filter_map(|known| match known.what {
        QuantityKind::Number(name) => Some(name),
        _ => None,
    });
    let operators = Operator::ALL.map(|(_, operator)| operator);
    prop::sample::select(names.collect::<Vec<_>>())
        .prop_flat_map(quantity)
        .prop_flat_map(move |quantity| {
            let fits = |unit: &Unit| {
                let value = Value {
                    number: 1.0,
                    unit: *unit,
                };
                match value.kind(quantity.name) {
                    None => false,
                    Some(Kind::Ratio) => quantity.side.is_none(),
                    Some(_) => quantity.end.is_none(),
                }
            };
            let units: Vec<Unit> = Unit::WORDS
                .map(|(_, unit)| unit)
                .into_iter()
                .filter(fits)
                .collect();
            (
                Just(quantity),
                prop::sample::select(operators[..6].to_vec()),
                prop_oneof![
                    (0u32..5_000_000).prop_map(|number| f64::from(number) / 1_000.0),
                    0.0..1e30
                ],
                prop::sample::select(units),
            )
        })
        .prop_map(|(quantity, operator, number, unit)| {
            let value = Value { number, unit };
            // No share is above 100 %.
            let number = match value.kind(quantity.name) {
                Some(Kind::Share) => number % 100.0,
                _ => number,
            };
            Test::Number(quantity, operator, Value { number, unit })
        })
}

fn test() -> impl Strategy<Value = Test> {
    let counts = QUANTITIES.iter().filter_map(|known| match known.what {
        QuantityKind::Number(name) if name.may_stand_alone() => Some(name),
        _ => None,
    });
    prop_oneof![
        4 => number(),
        1 => prop::sample::select(counts.collect::<Vec<_>>())
            .prop_flat_map(quantity)
            .prop_map(Test::IsThere),
        1 => prop::sample::select(vec![Flag::Regression, Flag::Regressed]).prop_map(Test::Flag),
        1 => (any::<bool>(), "\\PC{0,9}[a-z]'?\"?").prop_map(|(matches, text)| Test::Sql {
            matches,
            pattern: Pattern::statement(&text).unwrap(),
        }),
        1 => (any::<bool>(), prop::sample::select(&sql::StatementClass::ALL[..]))
            .prop_map(|(equal, class)| Test::Is {
                name: TextName::Class,
                equal,
                text: class.name().to_owned(),
            }),
        1 => (any::<bool>(), any::<u64>()).prop_map(|(equal, number)| Test::Is {
            name: TextName::Fingerprint,
            equal,
            text: format!("{number:016x}"),
        }),
    ]
}

/// Generates trees. A disjunction within a disjunction keeps its brackets.
fn tree() -> impl Strategy<Value = Tree> {
    test()
        .prop_map(Tree::Test)
        .prop_recursive(5, 24, 4, |part| {
            prop_oneof![
                prop::collection::vec(part.clone(), 2..5).prop_map(Tree::Any),
                prop::collection::vec(part.clone(), 2..5).prop_map(Tree::Every),
                part.prop_map(|part| Tree::Not(Box::new(part))),
            ]
        })
}

proptest! {
    #[test]
    fn printed_condition_parses_to_the_same_tree(tree in tree()) {
        let text = tree.to_string();
        let read = Condition::parse(&text);
        let read = read.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&read.tree, &tree, "{}", text);
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn any_text_parses_or_reports_a_valid_position(
        text in "(all\\.|before\\.|p99|calls|errors|slower|sql|class|regression| and | or | not |\\(|\\)|>|<=|=|~|!|'|\"|1\\.2|x|%|ms|\\PC|\\.|-|\\n| ){0,12}"
    ) {
        match Condition::parse(&text) {
            Ok(condition) => {
                let again = Condition::parse(&condition.to_string()).unwrap();
                prop_assert!(again.is_equivalent_to(&condition));
            }
            Err(error) => {
                let (from, to) = error.place();
                prop_assert!(text.get(from..to).is_some());
                prop_assert_eq!(error.to_string().lines().count(), 3);
            }
        }
    }
}
