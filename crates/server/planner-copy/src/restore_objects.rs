//! Creates roles, the database and the objects of an export in a private server.

use connect::login::{LoginError, QueryConnection};

use crate::document::{DatabaseLocale, PlannerExport, SchemaObject};
use crate::not_restored::NotRestored;
use crate::quoting::{quote_identifier, quote_literal};

/// First version with ICU as the provider of a database.
const ICU_DATABASE_MAJOR: u16 = 15;

/// Creates the roles, with the right to log in and without passwords.
pub(crate) fn create_roles(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) {
    for role in &export.roles {
        let name = quote_identifier(&role.name);
        let superuser = if role.superuser {
            "SUPERUSER"
        } else {
            "NOSUPERUSER"
        };
        let bypass = if role.bypass_rls {
            "BYPASSRLS"
        } else {
            "NOBYPASSRLS"
        };
        let attributes = format!("LOGIN {superuser} {bypass}");
        // The superuser of the private server may be among them.
        let created = connection
            .query(&format!("CREATE ROLE {name} {attributes}"))
            .or_else(|_| match role.superuser {
                true => connection.query(&format!("ALTER ROLE {name} {attributes}")),
                false => Ok(Vec::new()),
            });
        note(left_out, &format!("role {}", role.name), created);
    }
    for role in &export.roles {
        for group in &role.member_of {
            let sql = format!(
                "GRANT {} TO {}",
                quote_identifier(group),
                quote_identifier(&role.name)
            );
            note(
                left_out,
                &format!("membership of {}", role.name),
                connection.query(&sql),
            );
        }
    }
}

/// Creates the database with the locale of the export, or with the nearest that the machine has.
pub(crate) fn create_database(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
    major: u16,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let name = quote_identifier(&export.database);
    if export.database == "postgres" {
        connection.query("ALTER DATABASE postgres RENAME TO rehearse_unused")?;
    }
    let mut refusal = None;
    for (place, (what, clause)) in locale_choices(&export.locale, major)
        .into_iter()
        .enumerate()
    {
        let encoding = quote_literal(&export.locale.encoding);
        let sql = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING {encoding} {clause}");
        match connection.query(&sql) {
            Ok(_) if place == 0 => return Ok(()),
            Ok(_) => {
                left_out.push(NotRestored {
                    subject: format!("locale {} of the database", export.locale.collate),
                    reason: format!(
                        "this machine does not have it; the copy has {what}, so ranges of texts are estimated in another order"
                    ),
                });
                return Ok(());
            }
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.expect("there is a choice"))
}

/// Returns locales with their clauses of `CREATE DATABASE`, the right one first. A locale other than C is replaced by
/// one that is no C either, since a B-tree index serves `LIKE 'x%'` in C only.
fn locale_choices(locale: &DatabaseLocale, major: u16) -> Vec<(String, String)> {
    let libc = |name: &str, ctype: &str| {
        let (name, ctype) = (quote_literal(name), quote_literal(ctype));
        let provider = if major >= ICU_DATABASE_MAJOR {
            "LOCALE_PROVIDER libc "
        } else {
            ""
        };
        format!("{provider}LC_COLLATE {name} LC_CTYPE {ctype}")
    };
    let icu = |name: &str| {
        let name = quote_literal(name);
        format!("LOCALE_PROVIDER icu ICU_LOCALE {name} LC_COLLATE 'C' LC_CTYPE 'C'")
    };
    let mut choices = Vec::new();
    match (locale.provider.as_str(), &locale.provider_locale) {
        ("i", Some(name)) if major >= ICU_DATABASE_MAJOR => choices.push((name.clone(), icu(name))),
        ("b", Some(name)) if major >= 17 => choices.push((
            name.clone(),
            format!(
                "LOCALE_PROVIDER builtin BUILTIN_LOCALE {} LC_COLLATE 'C' LC_CTYPE 'C'",
                quote_literal(name)
            ),
        )),
        // The built-in provider's locales are C's order.
        ("b", _) => choices.push(("C".to_owned(), libc("C", "C"))),
        _ => choices.push((locale.collate.clone(), libc(&locale.collate, &locale.ctype))),
    }
    let is_c = |name: &str| name == "C" || name == "POSIX";
    if !(is_c(&locale.collate) && locale.provider == "c") {
        let language = locale
            .collate
            .split('.')
            .next()
            .unwrap_or("und")
            .replace('_', "-");
        if major >= ICU_DATABASE_MAJOR && locale.encoding == "UTF8" {
            choices.push((format!("ICU's {language}"), icu(&language)));
        }
        for name in ["C.UTF-8", "C.utf8", "en_US.UTF-8", "UTF-8"] {
            choices.push((name.to_owned(), libc(name, name)));
        }
    }
    choices.push(("C".to_owned(), libc("C", "C")));
    choices
}

/// Creates the objects, and repeats those that fail until no further one succeeds: an object may need a later one.
pub(crate) fn create_objects(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    connection.query(
        "SET check_function_bodies = off; SET search_path = ''; SET client_min_messages = error; \
         SET default_tablespace = ''",
    )?;
    let mut waiting: Vec<&SchemaObject> = export.objects.iter().collect();
    loop {
        let mut failed: Vec<(&SchemaObject, LoginError)> = Vec::new();
        let before = waiting.len();
        for object in waiting {
            if let Err(error) = connection.query(&object.sql) {
                if connection.is_closed() {
                    return Err(error);
                }
                failed.push((object, error));
            }
        }
        if failed.is_empty() || failed.len() == before {
            left_out.extend(failed.into_iter().map(|(object, error)| NotRestored {
                subject: format!("{} {}", object.kind, object.name),
                reason: error.message,
            }));
            break;
        }
        waiting = failed.into_iter().map(|(object, _)| object).collect();
    }
    // Rights are not what is checked, and a role without them would get no plan.
    connection.query(
        "DO $$ DECLARE s text; BEGIN FOR s IN SELECT nspname FROM pg_catalog.pg_namespace \
         WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP \
         EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %I TO PUBLIC', s); \
         EXECUTE pg_catalog.format('GRANT ALL ON ALL TABLES IN SCHEMA %I TO PUBLIC', s); \
         EXECUTE pg_catalog.format('GRANT ALL ON ALL SEQUENCES IN SCHEMA %I TO PUBLIC', s); \
         EXECUTE pg_catalog.format('GRANT ALL ON ALL FUNCTIONS IN SCHEMA %I TO PUBLIC', s); END LOOP; END $$",
    )?;
    Ok(())
}

/// Sets what the server, its databases and roles had set, and then the settings of the request.
pub(crate) fn apply_settings(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) {
    for setting in &export.settings {
        let sql = format!(
            "ALTER SYSTEM SET {} = {}",
            quote_setting(&setting.name),
            quote_literal(&setting.value)
        );
        note(
            left_out,
            &format!("setting {}", setting.name),
            connection.query(&sql),
        );
    }
    let database = quote_identifier(&export.database);
    for setting in &export.role_settings {
        let whose = match (&setting.role, setting.in_database) {
            (None, _) => format!("DATABASE {database}"),
            (Some(role), true) => format!("ROLE {} IN DATABASE {database}", quote_identifier(role)),
            (Some(role), false) => format!("ROLE {}", quote_identifier(role)),
        };
        let value = match setting.name.as_str() {
            // A list of names, in which each is quoted already.
            "search_path" if !setting.value.is_empty() => setting.value.clone(),
            _ => quote_literal(&setting.value),
        };
        let sql = format!(
            "ALTER {whose} SET {} = {value}",
            quote_setting(&setting.name)
        );
        note(
            left_out,
            &format!("setting {} of {whose}", setting.name),
            connection.query(&sql),
        );
    }
}

/// Quotes the parts of a setting's name.
pub(crate) fn quote_setting(name: &str) -> String {
    let parts: Vec<String> = name.split('.').map(quote_identifier).collect();
    parts.join(".")
}

fn note<T>(left_out: &mut Vec<NotRestored>, subject: &str, answer: Result<T, LoginError>) {
    if let Err(error) = answer {
        left_out.push(NotRestored {
            subject: subject.to_owned(),
            reason: error.message,
        });
    }
}
