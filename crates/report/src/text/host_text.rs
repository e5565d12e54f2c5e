//! Checks of the machine, as text.

use study::host_check::{HostCheck, HostState};

use super::line::{one_line, wrapped};
use super::style::{TextStyle, Tone};

/// Renders the checks of a machine, with what to do about each that does not work.
pub fn render(checks: &[HostCheck], style: &TextStyle) -> String {
    let name_width = checks.iter().map(|check| check.name.chars().count()).max();
    let mut lines = Vec::new();
    for check in checks {
        let (tone, state) = match check.state {
            HostState::Works => (Tone::Good, "works"),
            HostState::Limited => (Tone::Care, "limited"),
            HostState::Missing => (Tone::Care, "missing"),
        };
        lines.push(format!(
            "{}  {:width$}  {}",
            style.paint(tone, &format!("{state:7}")),
            check.name,
            one_line(&check.found, style.columns()),
            width = name_width.unwrap_or_default(),
        ));
        let indent = "           ";
        lines.extend(
            (check.remedy.iter())
                .flat_map(|remedy| wrapped(remedy, indent, indent, style.columns())),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_stands_below_what_does_not_work() {
        let check = |state, remedy: Option<&str>| HostCheck {
            name: "Disk",
            state,
            found: "1.0 GiB free".to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let checks = [
            check(HostState::Works, None),
            check(HostState::Limited, Some("Free some")),
        ];
        let plain = TextStyle {
            colour: false,
            width: 80,
        };
        assert_eq!(
            render(&checks, &plain),
            "works    Disk  1.0 GiB free\nlimited  Disk  1.0 GiB free\n           Free some\n"
        );
    }
}
