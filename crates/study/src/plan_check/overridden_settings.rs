//! Settings of the user that a setting of the database or of a role replaces (`ALTER DATABASE`, `ALTER ROLE`).

use planner_copy::{NotRestored, PlannerExport};

use crate::failure::Failure;

/// Returns the settings that do not apply to some roles, since the export has others for these.
///
/// # Errors
/// If the database has another value of a setting, so that it would have no effect.
pub(super) fn overridden_settings(
    settings: &[(String, String)],
    export: &PlannerExport,
) -> Result<Vec<NotRestored>, Failure> {
    let mut overridden = Vec::new();
    for (name, value) in settings {
        let all = export.role_settings.iter();
        for known in all.filter(|one| one.name.eq_ignore_ascii_case(name)) {
            match &known.role {
                None => {
                    let database = &export.database;
                    return Err(Failure::usage(format!(
                        "--set {name}={value} has no effect: the database {database} sets {name} to {} (ALTER DATABASE); \
                         give --change with ALTER DATABASE \"{database}\" SET {name} = …",
                        known.value
                    )));
                }
                Some(role) => overridden.push(NotRestored {
                    subject: format!("setting {name}={value}"),
                    reason: format!(
                        "it does not apply to the role {role}, which sets {name} to {} (ALTER ROLE)",
                        known.value
                    ),
                }),
            }
        }
    }
    Ok(overridden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner_copy::RoleSetting;

    #[test]
    fn setting_that_the_database_has_is_refused_and_one_of_a_role_is_listed() {
        let set = |role: Option<&str>, name: &str| RoleSetting {
            role: role.map(str::to_owned),
            in_database: role.is_none(),
            name: name.to_owned(),
            value: "2".to_owned(),
        };
        let export = PlannerExport {
            database: "shop".to_owned(),
            role_settings: vec![set(None, "random_page_cost"), set(Some("etl"), "work_mem")],
            ..PlannerExport::default()
        };
        let settings = |name: &str| [(name.to_owned(), "1000".to_owned())];
        let refusal = overridden_settings(&settings("RANDOM_PAGE_COST"), &export).unwrap_err();
        let refusal = format!("{refusal:?}");
        assert!(refusal.contains("sets RANDOM_PAGE_COST to 2"), "{refusal}");
        let listed = overridden_settings(&settings("work_mem"), &export).unwrap();
        assert!(listed[0].reason.contains("role etl"), "{listed:?}");
        assert_eq!(overridden_settings(&settings("jit"), &export).unwrap(), []);
    }
}
