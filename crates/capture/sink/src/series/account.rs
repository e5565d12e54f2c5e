//! Account of a part of a capture: the difference of two accounts of the whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Time range of a part, in microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartRange {
    pub(super) from_us: i64,
    pub(super) to_us: i64,
    /// No part follows in this capture.
    pub(super) is_last: bool,
}

/// Returns the account of a part, and the sum of those of all parts so far, which was `before`. `after` is the account of
/// the capture. Numbers are subtracted. Time ranges in lists are cut at the end of the part, and the rest is left to the
/// next parts. A range that became known late is in the first part that is not complete.
pub(super) fn account_of_part(after: &Value, before: &Value, part: PartRange) -> (Value, Value) {
    let (mut account, mut accounted) = (after.clone(), after.clone());
    subtract(&mut account, &mut accounted, before, part);
    if let Value::Object(fields) = &mut account {
        for (name, us) in [("from_us", part.from_us), ("to_us", part.to_us)] {
            if let Some(field) = fields.get_mut(name) {
                *field = us.into();
            }
        }
    }
    (account, accounted)
}

/// Whether an account of the capture, `after`, has something that is in no part yet. `accounted` is the sum of the parts.
pub(super) fn has_rest(after: &Value, accounted: &Value) -> bool {
    let all = PartRange {
        from_us: i64::MIN,
        to_us: i64::MAX,
        is_last: true,
    };
    let (rest, _) = account_of_part(after, accounted, all);
    has_content(&rest, accounted)
}

fn has_content(rest: &Value, accounted: &Value) -> bool {
    match rest {
        Value::Object(fields) => fields.iter().any(|(name, rest)| {
            let is_range = matches!(&**name, "from_us" | "to_us");
            !is_range && has_content(rest, &accounted[name])
        }),
        Value::Array(items) => !items.is_empty(),
        Value::Number(number) => number.as_u64() != Some(0),
        other => !other.is_null() && other != accounted,
    }
}

fn subtract(from: &mut Value, accounted: &mut Value, before: &Value, part: PartRange) {
    match (from, accounted) {
        (Value::Object(from), Value::Object(accounted)) => {
            let left_out = count_left_out(from, before);
            for ((name, value), accounted) in from.iter_mut().zip(accounted.values_mut()) {
                match left_out.get(name) {
                    // The lists have the same range at different places.
                    Some((gone, _)) => {
                        let kept = before[name].as_array().and_then(|all| all.get(*gone..));
                        let kept = kept.unwrap_or_default().to_vec();
                        subtract(value, accounted, &kept.into(), part);
                    }
                    None => subtract(value, accounted, &before[name], part),
                }
            }
            for (name, (_, in_no_part)) in left_out {
                from.insert(left_out_name(&name), in_no_part.into());
            }
        }
        (Value::Array(from), Value::Array(accounted)) => {
            if from.iter().any(|one| !one["from_us"].is_i64()) {
                from.retain(|_| before.is_null());
                return;
            }
            let all = std::mem::take(from);
            for (index, range) in all.iter().enumerate() {
                let (piece, written) = cut_range(range, &before[index], part);
                from.extend(piece);
                accounted[index] = written;
            }
        }
        (Value::Number(number), _) => {
            if let Some((after, before)) = number.as_u64().zip(before.as_u64()) {
                *number = after.saturating_sub(before).into();
            }
        }
        _ => {}
    }
}

/// Returns the name of the number of ranges that a list no longer has at its beginning.
fn left_out_name(list: &str) -> String {
    format!("{list}_left_out")
}

/// Returns, for each list with a limit, the number of ranges that it has left out since `before`, and the number of those
/// that are in no part.
fn count_left_out(after: &Map<String, Value>, before: &Value) -> BTreeMap<String, (usize, usize)> {
    let lists = after.iter().filter(|(_, value)| value.is_array());
    let counts = lists.filter_map(|(name, _)| {
        let counter = left_out_name(name);
        let gone = after.get(&counter)?.as_u64()? - before[&counter].as_u64().unwrap_or(0);
        let gone = usize::try_from(gone).unwrap_or(usize::MAX);
        let accounted = before[name].as_array();
        let accounted = accounted.into_iter().flatten().take(gone);
        let in_parts = accounted.filter(|written| !written.is_null()).count();
        Some((name.clone(), (gone, gone - in_parts)))
    });
    counts.collect()
}

/// Returns the piece of a time range that belongs to a part, and what of the range is in parts by then. `written` is what
/// is in earlier parts, or null. Bytes are divided by time.
fn cut_range(range: &Value, written: &Value, part: PartRange) -> (Option<Value>, Value) {
    let number = |value: &Value, name: &str| value[name].as_i64().unwrap_or(0);
    let (from_us, to_us) = (number(range, "from_us"), number(range, "to_us"));
    if from_us >= part.to_us && !part.is_last {
        return (None, written.clone());
    }
    let bytes = number(range, "bytes") - number(written, "bytes");
    let start_us = match written["to_us"].as_i64() {
        Some(written_us) if to_us <= written_us && bytes <= 0 => return (None, written.clone()),
        Some(written_us) if number(written, "from_us") <= from_us => written_us.min(to_us),
        _ => from_us,
    };
    let end_us = match part.is_last || part.to_us <= start_us {
        true => to_us,
        false => to_us.min(part.to_us),
    };
    let share = match end_us < to_us {
        true => i128::from(bytes) * i128::from(end_us - start_us) / i128::from(to_us - start_us),
        false => i128::from(bytes),
    };
    let share = i64::try_from(share).unwrap_or(bytes);
    let with = |from_us: i64, bytes: i64| {
        let mut piece = range.clone();
        piece["from_us"] = from_us.into();
        piece["to_us"] = end_us.into();
        piece["bytes"] = bytes.into();
        piece
    };
    let sum = number(written, "bytes") + share;
    (Some(with(start_us, share)), with(from_us, sum))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(from_us: i64, to_us: i64) -> PartRange {
        PartRange {
            from_us,
            to_us,
            is_last: false,
        }
    }

    fn range(from_us: i64, to_us: i64, bytes: i64) -> Value {
        json!({"from_us": from_us, "to_us": to_us, "bytes": bytes})
    }

    #[test]
    fn account_of_part_is_the_difference_with_the_time_ranges_of_the_part() {
        let before = json!({"from_us": 5, "to_us": 7, "lost_bytes": 3, "incomplete": [range(6, 7, 3)], "conversation": {"events": 1}});
        let after = json!({"from_us": 5, "to_us": 15, "lost_bytes": 10, "incomplete": [range(6, 7, 3), range(12, 13, 7)], "conversation": {"events": 5, "refused": 2}});
        let expected = json!({"from_us": 10, "to_us": 20, "lost_bytes": 7, "incomplete": [range(12, 13, 7)], "conversation": {"events": 4, "refused": 2}});
        assert_eq!(
            account_of_part(&after, &before, part(10, 20)),
            (expected, after.clone())
        );
        let (first, _) = account_of_part(&after, &Value::Null, part(5, 15));
        assert_eq!(first["lost_bytes"], 10);
    }

    #[test]
    fn has_rest_is_true_for_new_counts_ranges_and_failures_only() {
        let before = json!({"from_us": 5, "to_us": 7, "lost_bytes": 3, "incomplete": [range(6, 7, 3)], "name": "a", "failure": null});
        let with = |name: &str, value: Value| {
            let mut after = before.clone();
            after["to_us"] = 90.into();
            after[name] = value;
            has_rest(&after, &before)
        };
        assert!(!with("name", "a".into()));
        assert!(with("lost_bytes", 4.into()));
        assert!(with("failure", "full".into()));
        assert!(with("incomplete", json!([range(6, 7, 3), range(8, 9, 1)])));
        assert!(!has_rest(&Value::Null, &Value::Null));
    }

    #[test]
    fn time_ranges_that_a_full_list_has_left_out_are_counted_only_if_they_are_in_no_part() {
        let account = |left_out: u64, ranges: Value| json!({"incomplete": ranges, "incomplete_left_out": left_out});
        let known = account(0, json!([range(1, 2, 5), range(11, 12, 5)]));
        let (first, accounted) = account_of_part(&known, &Value::Null, part(0, 10));
        assert_eq!(first, account(0, json!([range(1, 2, 5)])));
        // The list has room for two. Of the first three ranges, one is in a part.
        let known = account(3, json!([range(15, 16, 5), range(18, 19, 5)]));
        let (second, accounted) = account_of_part(&known, &accounted, part(10, 17));
        assert_eq!(second, account(2, json!([range(15, 16, 5)])));
        let (third, _) = account_of_part(&known, &accounted, part(17, 20));
        assert_eq!(third, account(0, json!([range(18, 19, 5)])));
    }

    #[test]
    fn time_ranges_at_cuts_and_outside_of_parts_are_in_one_part_each() {
        let mut accounted = Value::Null;
        let mut pieces = |ranges: &[Value], part: PartRange| {
            let after = json!({"incomplete": ranges});
            let account;
            (account, accounted) = account_of_part(&after, &accounted, part);
            account["incomplete"].clone()
        };
        // Before the first event, and across the cut.
        let known = [range(1, 2, 5), range(18, 28, 10)];
        let first = json!([range(1, 2, 5), range(18, 20, 2)]);
        assert_eq!(pieces(&known, part(10, 20)), first);
        // The range continues, and so does the part after the next.
        let known = [range(1, 2, 5), range(18, 34, 20), range(40, 41, 1)];
        let second = json!([range(20, 30, 12)]);
        assert_eq!(pieces(&known, part(20, 30)), second);
        // Nothing was recorded from 30 to 50.
        let third = json!([range(30, 34, 6), range(40, 41, 1)]);
        assert_eq!(pieces(&known, part(50, 60)), third);
        // Known only now, and after the end of the last part.
        let mut known = known.to_vec();
        known.extend([range(44, 45, 3), range(75, 76, 4)]);
        assert_eq!(pieces(&known, part(60, 70)), json!([range(44, 45, 3)]));
        let last = PartRange {
            is_last: true,
            ..part(70, 72)
        };
        assert_eq!(pieces(&known, last), json!([range(75, 76, 4)]));
    }
}
