//! Creates roles, the database and the objects of an export in a private server.

use std::collections::HashSet;

use connect::login::{LoginError, QueryConnection};

use crate::document::{DatabaseLocale, PlannerExport, SchemaObject, ServerSetting};
use crate::not_restored::NotRestored;
use crate::object_queries::VIEW_OWNER;
use crate::quoting::{quote_identifier, quote_literal};
use crate::restore_connections::OWNER;
use crate::setting_values::{EXPORTED_SETTINGS, assigned_value};

/// Kinds of objects of the export.
const SCHEMA: &str = "schema";
const EXTENSION: &str = "extension";
/// Beginning of the statement that creates an extension, as an export has it.
const CREATE_EXTENSION: &str = "CREATE EXTENSION IF NOT EXISTS ";
/// Reason why an extension of [`REACHING_EXTENSIONS`] is not restored.
const REACHES: &str = "it connects to other systems, which a private server must not do";
/// Views of the connected role, with the names of an export.
const OWN_VIEWS_SQL: &str = "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind = 'v' AND pg_catalog.pg_get_userbyid(c.relowner) = current_user";
/// First version with ICU as the provider of a database.
const ICU_DATABASE_MAJOR: u16 = 15;

/// Extensions that connect to other systems. Private servers do not have them.
pub const REACHING_EXTENSIONS: [&str; 9] = [
    "dblink",
    "http",
    "pg_net",
    "aws_s3",
    "aws_lambda",
    "azure_storage",
    "azure_ai",
    "amqp",
    "plproxy",
];

/// Creates the owner of the database, and the roles with the right to log in and without passwords. Exported superusers are
/// none here; policies of rows do not apply to them either. Roles become members of those that are created here only: other
/// groups, such as `pg_execute_server_program`, have rights on the machine.
pub(crate) fn create_roles(
    superuser: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let owner = quote_identifier(OWNER);
    superuser.query(&format!("CREATE ROLE {owner} LOGIN BYPASSRLS"))?;
    let mut made: HashSet<&str> = HashSet::new();
    for role in &export.roles {
        let name = quote_identifier(&role.name);
        let bypass = match role.bypass_rls || role.superuser {
            true => "BYPASSRLS",
            false => "NOBYPASSRLS",
        };
        // The owner may give tables to each role.
        let created = superuser.query(&format!(
            "CREATE ROLE {name} LOGIN NOSUPERUSER {bypass}; GRANT {name} TO {owner}"
        ));
        if created.is_ok() {
            made.insert(&role.name);
        }
        note(left_out, &format!("role {}", role.name), created);
    }
    for role in &export.roles {
        for group in &role.member_of {
            if !made.contains(group.as_str()) {
                left_out.push(NotRestored {
                    subject: format!("membership of {}", role.name),
                    reason: format!("the private server has no role {group} of the export"),
                });
                continue;
            }
            let sql = format!(
                "GRANT {} TO {}",
                quote_identifier(group),
                quote_identifier(&role.name)
            );
            note(
                left_out,
                &format!("membership of {}", role.name),
                superuser.query(&sql),
            );
        }
    }
    Ok(())
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
        let sql = format!(
            "CREATE DATABASE {name} OWNER {} TEMPLATE template0 ENCODING {encoding} {clause}",
            quote_identifier(OWNER)
        );
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

/// Creates the schemas.
pub(crate) fn create_schemas(
    owner: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let schemas = export.objects.iter().filter(|one| one.kind == SCHEMA);
    create_in_any_order(owner, schemas.collect(), left_out)
}

/// Creates the extensions, except those that connect to other systems, and gives the schemas to the owner.
pub(crate) fn create_extensions(
    superuser: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let extensions = export.objects.iter().filter(|one| one.kind == EXTENSION);
    // The superuser executes these statements, so they must be of this kind.
    let creates = |one: &SchemaObject| {
        let beginning = format!("{CREATE_EXTENSION}{} SCHEMA ", one.name);
        one.sql.starts_with(&beginning) && !one.sql.contains(';')
    };
    let (extensions, unknown): (Vec<_>, Vec<_>) = extensions.partition(|one| creates(one));
    left_out.extend(unknown.into_iter().map(|one| NotRestored {
        subject: format!("extension {}", one.name),
        reason: "its statement in the export does not create it".to_owned(),
    }));
    let (reaching, others): (Vec<_>, Vec<_>) = extensions
        .into_iter()
        .partition(|one| REACHING_EXTENSIONS.contains(&one.name.as_str()));
    left_out.extend(reaching.into_iter().map(|one| NotRestored {
        subject: format!("extension {}", one.name),
        reason: REACHES.to_owned(),
    }));
    superuser.query("SET client_min_messages = error")?;
    create_in_any_order(superuser, others, left_out)?;
    drop_reaching_extensions(superuser, left_out)?;
    let owner = quote_identifier(OWNER);
    superuser.query(&format!("ALTER SCHEMA public OWNER TO {owner}"))?;
    // A role needs the right to create tables if it gets one.
    superuser.query(
        "DO $$ DECLARE s text; BEGIN FOR s IN SELECT nspname FROM pg_catalog.pg_namespace \
         WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP \
         EXECUTE pg_catalog.format('GRANT ALL ON SCHEMA %I TO PUBLIC', s); END LOOP; END $$",
    )?;
    Ok(())
}

/// Drops the extensions that connect to other systems, with those that require them: `CASCADE` creates what an extension
/// requires.
fn drop_reaching_extensions(
    superuser: &mut QueryConnection<'_>,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let sql = "SELECT pg_catalog.quote_ident(extname) FROM pg_catalog.pg_extension ORDER BY 1";
    let before = superuser.query(sql)?;
    let reaching = REACHING_EXTENSIONS.map(quote_identifier).join(", ");
    superuser.query(&format!("DROP EXTENSION IF EXISTS {reaching} CASCADE"))?;
    let after = superuser.query(sql)?;
    let dropped = before.into_iter().filter(|row| !after.contains(row));
    for name in dropped.flatten().flatten() {
        let reason = match REACHING_EXTENSIONS.contains(&&*name) {
            true => REACHES,
            false => "it requires an extension that connects to other systems",
        };
        let dropped = NotRestored {
            subject: format!("extension {name}"),
            reason: reason.to_owned(),
        };
        if !left_out.contains(&dropped) {
            left_out.push(dropped);
        }
    }
    Ok(())
}

/// Creates the other objects.
pub(crate) fn create_objects(
    owner: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let objects = export.objects.iter();
    let objects = objects.filter(|one| one.kind != SCHEMA && one.kind != EXTENSION);
    create_in_any_order(owner, objects.collect(), left_out)
}

/// Creates objects, and repeats those that fail until no further one succeeds: an object may need a later one.
fn create_in_any_order(
    connection: &mut QueryConnection<'_>,
    mut waiting: Vec<&SchemaObject>,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    connection.query(
        "SET check_function_bodies = off; SET client_min_messages = error; SET default_tablespace = ''",
    )?;
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
            return Ok(());
        }
        waiting = failed.into_iter().map(|(object, _)| object).collect();
    }
}

/// Gives the views that a change has created again to their owners. One with a new name stays with the owner of the
/// database, and so does each view of an export without policies. If the server refuses, the owner is listed
/// in `left_out`, since no policies apply through the view.
pub(crate) fn give_views(
    owner: &mut QueryConnection<'_>,
    export: &PlannerExport,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let own = owner.query(OWN_VIEWS_SQL)?;
    let own: HashSet<String> = own.into_iter().flatten().flatten().collect();
    let objects = export.objects.iter();
    for view in objects.filter(|one| one.kind == VIEW_OWNER && own.contains(&one.name)) {
        let Err(error) = owner.query(&view.sql) else {
            continue;
        };
        if owner.is_closed() {
            return Err(error);
        }
        let subject = format!("{} {}", view.kind, view.name);
        // It was refused before the change, too.
        if !left_out.iter().any(|one| one.subject == subject) {
            left_out.push(NotRestored {
                subject,
                reason: error.message,
            });
        }
    }
    Ok(())
}

/// Grants all rights on the objects to all roles: rights are not what is checked, and a role without them would get no plan.
/// Functions keep the default, and those of extensions theirs, since some reach files of the server.
pub(crate) fn grant_all(superuser: &mut QueryConnection<'_>) -> Result<(), LoginError> {
    superuser.query(
        "DO $$ DECLARE s text; BEGIN FOR s IN SELECT nspname FROM pg_catalog.pg_namespace \
         WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP \
         EXECUTE pg_catalog.format('GRANT ALL ON SCHEMA %I TO PUBLIC', s); \
         EXECUTE pg_catalog.format('GRANT ALL ON ALL TABLES IN SCHEMA %I TO PUBLIC', s); \
         EXECUTE pg_catalog.format('GRANT ALL ON ALL SEQUENCES IN SCHEMA %I TO PUBLIC', s); END LOOP; END $$",
    )?;
    Ok(())
}

/// Sets what the server, its databases and roles had set. Other settings than those of an export are left out: some execute
/// programs.
pub(crate) fn apply_settings(
    superuser: &mut QueryConnection<'_>,
    export: &PlannerExport,
    major: u16,
    left_out: &mut Vec<NotRestored>,
) -> Result<(), LoginError> {
    let known = superuser.query(&format!(
        "SELECT name FROM pg_catalog.pg_settings WHERE {EXPORTED_SETTINGS}"
    ))?;
    let known: Vec<String> = known.into_iter().flatten().flatten().collect();
    let mut assign = |command: &str, name: &str, value: &str| -> Result<(), String> {
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err("this version has no such setting that changes plans".to_owned());
        }
        let value = assigned_value(name, value, u32::from(major))
            .ok_or_else(|| "its value is no list of names".to_owned())?;
        let sql = format!("{command} SET {} = {value}", quote_setting(name));
        superuser
            .query(&sql)
            .map(drop)
            .map_err(|error| error.message)
    };
    for ServerSetting { name, value } in &export.settings {
        if let Err(reason) = assign("ALTER SYSTEM", name, value) {
            let subject = format!("setting {name}");
            left_out.push(NotRestored { subject, reason });
        }
    }
    let database = quote_identifier(&export.database);
    for setting in &export.role_settings {
        let whose = match (&setting.role, setting.in_database) {
            (None, _) => format!("DATABASE {database}"),
            (Some(role), true) => format!("ROLE {} IN DATABASE {database}", quote_identifier(role)),
            (Some(role), false) => format!("ROLE {}", quote_identifier(role)),
        };
        let command = format!("ALTER {whose}");
        if let Err(reason) = assign(&command, &setting.name, &setting.value) {
            let subject = format!("setting {} of {whose}", setting.name);
            left_out.push(NotRestored { subject, reason });
        }
    }
    Ok(())
}

/// Quotes the parts of a setting's name.
pub fn quote_setting(name: &str) -> String {
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
