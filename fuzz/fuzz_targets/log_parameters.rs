//! Any text as a list of parameters: no panic, and what is read encodes to the same text.

#![no_main]

use capture_log::parse_parameters;
use libfuzzer_sys::fuzz_target;
use workload::{PackedParameters, ParameterRef};

fuzz_target!(|list: &str| {
    let mut values = PackedParameters::default();
    if parse_parameters(list, &mut values).is_err() {
        return;
    }
    let one = |(index, value): (usize, Option<ParameterRef<'_>>)| match value {
        None => format!("${} = NULL", index + 1),
        Some(value) => {
            let text = value.text().expect("a log's values are text");
            format!("${} = '{}'", index + 1, text.replace('\'', "''"))
        }
    };
    let again: Vec<String> = values.iter().enumerate().map(one).collect();
    assert_eq!(again.join(", "), list);
});
