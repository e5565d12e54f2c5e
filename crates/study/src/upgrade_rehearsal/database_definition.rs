//! Definition of the dumped database: encoding, locale, owner and privileges. `pg_dump` writes them only with `--create`,
//! in the syntax of its own version, under the old name, and without a way to continue if this machine lacks the locale.

/// Shell commands that write the definition of the database that libpq's variables name, as two scripts of psql with the
/// variable `database`: one that creates it, and one for its owner and privileges.
///
/// The columns of providers depend on the version, so they are read as JSON: `daticulocale` in 15 and 16, `datlocale` since
/// 17. Names are in UTF-8, since another database executes the scripts. The database is created under another name, so that
/// the one that is there stays if this machine lacks the locale.
pub(super) const DUMP: &str = r#"PGCLIENTENCODING=UTF8 psql -X -q -A -t -v ON_ERROR_STOP=1 -o database.sql <<'END'
SELECT 'CREATE DATABASE rehearse_copy TEMPLATE template0' || format(' ENCODING %L LC_COLLATE %L LC_CTYPE %L',
    pg_encoding_to_char(encoding), datcollate, datctype)
  || CASE j->>'datlocprovider'
    WHEN 'i' THEN format(' LOCALE_PROVIDER icu ICU_LOCALE %L', coalesce(j->>'datlocale', j->>'daticulocale'))
      || coalesce(' ICU_RULES ' || quote_literal(j->>'daticurules'), '')
    WHEN 'b' THEN format(' LOCALE_PROVIDER builtin BUILTIN_LOCALE %L', j->>'datlocale')
    ELSE '' END || ';'
FROM pg_database d, to_jsonb(d) j WHERE datname = current_database();
SELECT 'DROP DATABASE :"database"; ALTER DATABASE rehearse_copy RENAME TO :"database";';
END
PGCLIENTENCODING=UTF8 psql -X -q -A -t -v ON_ERROR_STOP=1 -o database-rights.sql <<'END'
SELECT format('ALTER DATABASE :"database" OWNER TO %I;', pg_get_userbyid(datdba))
FROM pg_database WHERE datname = current_database();
SELECT 'REVOKE ALL ON DATABASE :"database" FROM PUBLIC;'
FROM pg_database WHERE datname = current_database() AND datacl IS NOT NULL;
SELECT format('GRANT %s ON DATABASE :"database" TO %s%s;', privilege_type,
  CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
  CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_database, aclexplode(datacl) WHERE datname = current_database() ORDER BY grantee, privilege_type;
END
"#;

/// Returns the shell commands that execute both scripts on the server that libpq's variables name. A refused statement of
/// SQL stays in the file of [`log`]; anything else is a failure. `fail` is a function of the shell.
pub(super) fn load(side: &str) -> String {
    let log = log(side);
    format!(
        "PGCLIENTENCODING=UTF8 psql -X -q -d template1 -v ON_ERROR_STOP=1 -v database=\"$PGDATABASE\" -f database.sql >/dev/null 2>{log}\n\
         case $? in 0|3) ;; *) fail 'psql could not create the database' {log} ;; esac\n\
         PGCLIENTENCODING=UTF8 psql -X -q -d template1 -v database=\"$PGDATABASE\" -f database-rights.sql >/dev/null 2>>{log} || \
         fail 'psql could not set the owner of the database' {log}\n"
    )
}

/// Returns the file of refused statements.
pub(super) fn log(side: &str) -> String {
    format!("database-{side}.log")
}
