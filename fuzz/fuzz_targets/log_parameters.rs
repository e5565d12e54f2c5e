//! Any text as a list of parameters: no panic, and what is read encodes to the same text.

#![no_main]

use capture::log::parse_parameters;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|list: &str| {
    let Ok(values) = parse_parameters(list) else {
        return;
    };
    let one = |(index, value): (usize, &Option<Box<str>>)| match value {
        None => format!("${} = NULL", index + 1),
        Some(value) => format!("${} = '{}'", index + 1, value.replace('\'', "''")),
    };
    let again: Vec<String> = values.iter().enumerate().map(one).collect();
    assert_eq!(again.join(", "), list);
});
