//! Any text: a condition that is printed and read again as the same, or a place in the text.

#![no_main]

use compare::condition::Condition;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Condition::parse(text) {
        Ok(condition) => {
            let printed = condition.to_string();
            let again = Condition::parse(&printed).expect("what is printed is read");
            assert!(again.is_equivalent_to(&condition), "{printed}");
            assert_eq!(again.to_string(), printed);
        }
        Err(error) => {
            let (from, to) = error.place();
            assert!(text.get(from..to).is_some() || text.len() > 16_384);
            assert_eq!(error.to_string().lines().count(), 3);
        }
    }
});
