//! Bar charts in characters.

/// Eighths of a character cell.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws bars of `values`, `height` lines high, without axes. A value above 0 gets at least the
/// lowest bar.
pub(crate) fn bars(values: &[u64], height: usize) -> Vec<String> {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let eighths = |value: u64| {
        let all = u128::from(value) * 8 * height as u128;
        all.div_ceil(u128::from(most)) as usize
    };
    (0..height)
        .rev()
        .map(|row| {
            let line: String = values
                .iter()
                .map(|value| BARS[eighths(*value).saturating_sub(row * 8).min(8)])
                .collect();
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values() {
        assert_eq!(bars(&[0, 1, 4, 8, 16], 2), ["    █", " ▁▄██"]);
        assert_eq!(bars(&[0, 0], 1), [""]);
        assert_eq!(bars(&[1_000_000, 1], 1), ["█▁"]);
    }
}
