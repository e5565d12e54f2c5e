//! Conditions of `--fail-on`.

use compare::condition::Condition;

/// Checks a text: a condition that is printed and parsed again is the same, and an error has a place in the text.
pub fn check(data: &[u8]) {
    let text = crate::text(data);
    match Condition::parse(text) {
        Ok(condition) => {
            let printed = condition.to_string();
            let again = Condition::parse(&printed).expect("a printed condition is parsed");
            assert!(again.is_equivalent_to(&condition), "{printed}");
            assert_eq!(again.to_string(), printed);
        }
        Err(error) => {
            let (from, to) = error.place();
            assert!(text.get(from..to).is_some() || text.len() > 16_384);
            assert_eq!(error.to_string().lines().count(), 3);
        }
    }
}
