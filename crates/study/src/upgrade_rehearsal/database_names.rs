//! Names of databases in the findings of a rehearsal from templates: those of production instead of the template.

use crate::environment::quote_identifier;
use crate::upgrade_inspect::UpgradeInspection;

/// Replaces the name of the template by that of the captured database, which production has. If the servers have databases of
/// both names, nothing is replaced.
pub(super) fn name_captured(inspection: &mut UpgradeInspection, template: &str, captured: &str) {
    if inspection.databases.iter().any(|name| name == captured) {
        return;
    }
    let is_template = |name: &str| name == template || name == quote_identifier(template);
    for name in inspection
        .databases
        .iter_mut()
        .filter(|name| is_template(name))
    {
        captured.clone_into(name);
    }
    for part in &mut inspection.unchecked {
        let name = part.database.as_mut().filter(|name| is_template(name));
        name.into_iter().for_each(|name| captured.clone_into(name));
    }
    let quoted = [template, captured].map(|name| format!("DATABASE {}", quote_identifier(name)));
    for object in inspection
        .findings
        .iter_mut()
        .flat_map(|one| &mut one.objects)
    {
        match &mut object.database {
            Some(name) if is_template(name) => captured.clone_into(name),
            // An object of the whole server may be the database.
            None if is_template(&object.name) => captured.clone_into(&mut object.name),
            _ => {}
        }
        if let Some(statement) = &mut object.statement {
            *statement = replace_name(statement, &quoted);
        }
    }
}

/// Replaces a database that a statement names, not one whose name only begins so.
fn replace_name(statement: &str, [template, captured]: &[String; 2]) -> String {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with([' ', ';']);
    match statement.split_once(template.as_str()) {
        Some((before, rest)) if ends(rest) => format!("{before}{captured}{rest}"),
        _ => statement.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_inspect::{
        NewServerKind, UncheckedPart, UpgradeCheck, UpgradeFinding, UpgradeMethod, UpgradeObject,
        UpgradeSeverity,
    };

    fn inspection(databases: &[&str]) -> UpgradeInspection {
        let object = |database: Option<&str>, name: &str, statement: &str| UpgradeObject {
            database: database.map(str::to_owned),
            name: name.to_owned(),
            detail: None,
            statement: Some(statement.to_owned()),
        };
        UpgradeInspection {
            from_version: "15.1".to_owned(),
            to_version: "18.1".to_owned(),
            new_server: NewServerKind::Upgraded,
            method: UpgradeMethod::Dump,
            databases: databases.iter().map(|name| (*name).to_owned()).collect(),
            findings: vec![UpgradeFinding {
                check: UpgradeCheck::Statistics,
                severity: UpgradeSeverity::MendAfter,
                message: String::new(),
                reason: String::new(),
                remedy: String::new(),
                objects: vec![
                    object(Some("shop_t"), "public.a", "ANALYZE public.a"),
                    object(
                        None,
                        "shop_t",
                        "ALTER DATABASE \"shop_t\" ALLOW_CONNECTIONS true",
                    ),
                    object(
                        Some("shop_t2"),
                        "b",
                        "ALTER DATABASE \"shop_t2\" SET jit = off",
                    ),
                ],
            }],
            unchecked: vec![UncheckedPart {
                on_new_server: false,
                database: Some("shop_t".to_owned()),
                part: "tables".to_owned(),
                reason: String::new(),
            }],
        }
    }

    #[test]
    fn findings_of_a_template_name_the_captured_database_and_others_stay() {
        let mut found = inspection(&["postgres", "shop_t", "shop_t2"]);
        name_captured(&mut found, "shop_t", "shop");
        assert_eq!(found.databases, ["postgres", "shop", "shop_t2"]);
        assert_eq!(found.unchecked[0].database.as_deref(), Some("shop"));
        let objects = &found.findings[0].objects;
        let names: Vec<_> = objects
            .iter()
            .map(|one| (one.database.as_deref(), one.name.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                (Some("shop"), "public.a"),
                (None, "shop"),
                (Some("shop_t2"), "b")
            ]
        );
        let statements: Vec<_> = objects
            .iter()
            .filter_map(|one| one.statement.as_deref())
            .collect();
        assert_eq!(
            statements,
            [
                "ANALYZE public.a",
                "ALTER DATABASE \"shop\" ALLOW_CONNECTIONS true",
                "ALTER DATABASE \"shop_t2\" SET jit = off"
            ]
        );
    }

    #[test]
    fn template_next_to_a_database_of_the_captured_name_keeps_its_name() {
        let before = inspection(&["shop", "shop_t"]);
        let mut after = before.clone();
        name_captured(&mut after, "shop_t", "shop");
        assert_eq!(after, before);
    }
}
