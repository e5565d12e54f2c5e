//! Text on an inspection for an upgrade.

use study::upgrade_inspect::{
    NewServerKind, UncheckedPart, UpgradeFinding, UpgradeInspection, UpgradeMethod, UpgradeObject,
    UpgradeSeverity,
};

use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone, readable};
use crate::text::units::counted;

/// Maximum number of objects of a finding.
const OBJECTS_MAX: usize = 10;
/// Maximum number of characters of a name, a fact or a statement.
const TEXT_MAX: usize = 400;

/// All severities, the gravest first.
pub(crate) const SEVERITIES: [UpgradeSeverity; 3] = [
    UpgradeSeverity::Blocks,
    UpgradeSeverity::MendAfter,
    UpgradeSeverity::Note,
];

/// Renders an inspection, ending with a line feed.
pub fn render_text(inspection: &UpgradeInspection, style: &TextStyle) -> String {
    let width = readable(style.columns());
    let head = style.paint(Tone::Heading, &heading(inspection));
    let mut lines = wrapped(&head, "", "  ", width);
    lines.extend(wrapped(&scope(inspection), "  ", "  ", width));
    let mut number = 0;
    for severity in SEVERITIES {
        let findings = inspection.findings.iter();
        let findings: Vec<&UpgradeFinding> =
            findings.filter(|one| one.severity == severity).collect();
        if findings.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(style.paint(tone(severity), title(severity)));
        for one in findings {
            number += 1;
            lines.extend(finding(number, one, *style));
        }
    }
    lines.extend(unchecked(inspection, width));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the versions, the way, and the numbers of findings.
pub(crate) fn heading(inspection: &UpgradeInspection) -> String {
    let method = match inspection.method {
        UpgradeMethod::PgUpgrade => "pg_upgrade",
        UpgradeMethod::Dump => "dump",
    };
    let number = |severity| inspection.count(severity) as u64;
    let counts: Vec<String> = [
        (number(UpgradeSeverity::Blocks), "blocks it", "block it"),
        (
            number(UpgradeSeverity::MendAfter),
            "needs a statement afterwards",
            "need statements afterwards",
        ),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .map(|(number, one, many)| {
        let verb = if number == 1 { one } else { many };
        format!("{} {verb}", counted(number, "finding"))
    })
    .chain(match number(UpgradeSeverity::Note) {
        0 => None,
        notes => Some(counted(notes, "note")),
    })
    .collect();
    format!(
        "Upgrade of PostgreSQL {} to {} by {method}: {}",
        one_line(&inspection.from_version, 40),
        one_line(&inspection.to_version, 40),
        match counts.is_empty() {
            true => "nothing found".to_owned(),
            false => counts.join(", "),
        }
    )
}

/// Returns what was compared.
pub(crate) fn scope(inspection: &UpgradeInspection) -> String {
    let with = match inspection.new_server {
        NewServerKind::Private => "a private server of the new version, without data",
        NewServerKind::Upgraded => "the upgraded server",
    };
    let names: Vec<String> = inspection
        .databases
        .iter()
        .map(|name| one_line(name, 60))
        .collect();
    format!("Databases: {}. Compared with {with}.", names.join(", "))
}

/// Returns the heading of a severity.
pub(crate) fn title(severity: UpgradeSeverity) -> &'static str {
    match severity {
        UpgradeSeverity::Blocks => "Blocks the upgrade or the start of the new server:",
        UpgradeSeverity::MendAfter => "To mend on the new server:",
        UpgradeSeverity::Note => "Notes:",
    }
}

fn tone(severity: UpgradeSeverity) -> Tone {
    match severity {
        UpgradeSeverity::Blocks => Tone::Bad,
        UpgradeSeverity::MendAfter => Tone::Care,
        UpgradeSeverity::Note => Tone::Heading,
    }
}

fn finding(number: usize, finding: &UpgradeFinding, style: TextStyle) -> Vec<String> {
    let width = readable(style.columns());
    let head = format!("{number}. {} [{}]", finding.message, finding.check.name());
    let mut lines = wrapped(&one_line(&head, TEXT_MAX), "", "   ", width);
    for text in [&finding.reason, &finding.remedy] {
        lines.extend(wrapped(text, "   ", "   ", width));
    }
    for object in finding.objects.iter().take(OBJECTS_MAX) {
        lines.extend(wrapped(&subject(object), "   - ", "     ", width));
        if let Some(statement) = &object.statement {
            lines.push(format!("       {}", one_line(statement, TEXT_MAX)));
        }
    }
    if finding.objects.len() > OBJECTS_MAX {
        lines.push(style.paint(
            Tone::Aside,
            &format!(
                "   - and {} more (--json lists all)",
                finding.objects.len() - OBJECTS_MAX
            ),
        ));
    }
    lines
}

/// Names an object, with its database and the fact about it.
pub(crate) fn subject(object: &UpgradeObject) -> String {
    let mut text = match &object.database {
        Some(database) => format!(
            "{}: {}",
            one_line(database, 80),
            one_line(&object.name, 200)
        ),
        None => one_line(&object.name, 200),
    };
    if let Some(detail) = &object.detail {
        text.push_str(&format!(" ({})", one_line(detail, TEXT_MAX)));
    }
    text
}

/// Describes a part that was not checked.
pub(crate) fn unchecked_text(part: &UncheckedPart) -> String {
    let server = match part.on_new_server {
        true => "new server",
        false => "old server",
    };
    let place = match &part.database {
        Some(database) => format!("{server}, database {database}"),
        None => server.to_owned(),
    };
    one_line(
        &format!("{} ({place}): {}", part.part, part.reason),
        TEXT_MAX,
    )
}

fn unchecked(inspection: &UpgradeInspection, width: usize) -> Vec<String> {
    if inspection.unchecked.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "Not checked:".to_owned()];
    for part in &inspection.unchecked {
        lines.extend(wrapped(&unchecked_text(part), "  ", "    ", width));
    }
    lines
}
