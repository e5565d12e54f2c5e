//! Account of a part of a capture: the difference of two accounts of the whole.

use serde_json::Value;

/// Returns the account of the part between two accounts of a capture. Numbers are subtracted. Of lists of time ranges, those
/// that begin in `range` (start and end, in microseconds) are kept.
pub(super) fn account_of_part(after: &Value, before: &Value, range: (i64, i64)) -> Value {
    let mut account = after.clone();
    subtract(&mut account, before, range);
    if let Value::Object(fields) = &mut account {
        for (name, us) in [("from_us", range.0), ("to_us", range.1)] {
            if let Some(field) = fields.get_mut(name) {
                *field = us.into();
            }
        }
    }
    account
}

fn subtract(from: &mut Value, what: &Value, range: (i64, i64)) {
    match from {
        Value::Object(from) => {
            for (name, value) in from {
                subtract(value, &what[name], range);
            }
        }
        Value::Array(all) => all.retain(|one| match one["from_us"].as_i64() {
            Some(from_us) => (range.0..range.1).contains(&from_us),
            None => what.is_null(),
        }),
        Value::Number(number) => {
            if let Some((after, before)) = number.as_u64().zip(what.as_u64()) {
                *from = after.saturating_sub(before).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn account_of_part_is_the_difference_with_the_time_ranges_of_the_part() {
        let before = json!({"from_us": 5, "to_us": 7, "lost_bytes": 3, "incomplete": [{"from_us": 6}], "conversation": {"events": 1}});
        let after = json!({"from_us": 5, "to_us": 15, "lost_bytes": 10, "incomplete": [{"from_us": 6}, {"from_us": 12}], "conversation": {"events": 5, "refused": 2}});
        let expected = json!({"from_us": 10, "to_us": 20, "lost_bytes": 7, "incomplete": [{"from_us": 12}], "conversation": {"events": 4, "refused": 2}});
        assert_eq!(account_of_part(&after, &before, (10, 20)), expected);
        assert_eq!(
            account_of_part(&after, &Value::Null, (5, 15))["lost_bytes"],
            10
        );
    }
}
