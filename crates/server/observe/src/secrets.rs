//! Recognises settings whose values are secret and never recorded.

use sql::secrets::{holds_login, names_a_secret};

/// Parts of names whose values may be secrets, in addition to the names of passwords and keys: commands and
/// connection strings, which may contain passwords.
const WORDS: [&str; 4] = ["conninfo", "private", "_command", "dsn"];

/// Names that contain such a part and whose values are not secret.
const HARMLESS: [&str; 3] = [
    "password_encryption",
    "md5_password_warnings",
    "ssl_passphrase_command_supports_reload",
];

/// Prefixes of the settings of known extensions, languages and services. Any other name with a dot is defined
/// by a user (`app.stripe_sk`), and its value may be anything.
const EXTENSIONS: [&str; 29] = [
    "alloydb",
    "aqo",
    "auth_delay",
    "auto_explain",
    "azure",
    "citus",
    "cloudsql",
    "columnar",
    "cron",
    "google_columnar_engine",
    "google_db_advisor",
    "hnsw",
    "hypopg",
    "ivfflat",
    "pg_hint_plan",
    "pg_prewarm",
    "pg_qualstats",
    "pg_stat_kcache",
    "pg_stat_monitor",
    "pg_stat_statements",
    "pg_trgm",
    "pg_wait_sampling",
    "pgaudit",
    "pglogical",
    "plpgsql",
    "postgis",
    "postgres_fdw",
    "rds",
    "timescaledb",
];

/// Words of a name, between dots and underscores, that mark a secret. Only whole words count, since `compass`
/// and `bypass` contain some.
const PARTS: [&str; 15] = [
    "pass", "pwd", "pw", "jwt", "command", "key", "keys", "apikey", "salt", "hmac", "auth", "cert",
    "pin", "sk", "psk",
];

/// Whether a setting's value may be secret, by its name or by its form.
pub fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    let of_an_extension = name.split_once('.').map(|(extension, rest)| {
        EXTENSIONS.contains(&extension) && !rest.split(['.', '_']).any(|part| PARTS.contains(&part))
    });
    of_an_extension == Some(false)
        || names_a_secret(&name)
        || WORDS.iter().any(|word| name.contains(word))
        || holds_login(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_named_once_and_in_order() {
        assert!(EXTENSIONS.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn setting_that_may_hold_a_password_is_not_recorded() {
        for (name, value) in [
            ("primary_conninfo", "host=a"),
            ("ssl_passphrase_command", "echo x"),
            ("archive_command", "AWS_SECRET_ACCESS_KEY=x cp"),
            ("restore_command", ""),
            ("app.jwt_secret", "x"),
            ("app.signing_key", "x"),
            ("my.ApiKey", "x"),
            ("ldap.url", "ldap://admin:pw@host/x"),
            ("app.db", "host=a Password=b"),
            ("app.stripe_sk", "x"),
            ("app.pass", "x"),
            ("app.pwd", "x"),
            ("app.jwt", "x"),
            ("app.master_key_hex", "x"),
            ("app.hmac_salt", "x"),
            ("app.encryption_key_base64", "x"),
            ("app.tenant", "x"),
            ("App.Tenant", "x"),
            ("plpgsql2.tenant", "x"),
            ("timescaledb.license_key", "x"),
            ("citus.node_conninfo", "sslmode=require"),
            ("pg_stat_statements.auth", "x"),
            ("cluster_name", "http://a, ldap://admin:pw@host"),
            ("cluster_name", "http://u:p@h?x=/"),
            ("cluster_name", "host=a PWD = b"),
        ] {
            assert!(may_be_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("password_encryption", "scram-sha-256"),
            ("ssl_key_file", "server.key"),
            ("work_mem", "4096"),
            ("search_path", "\"$user\", public"),
            ("cluster_name", "https://example.org/a:b@c, https://b"),
            ("pg_stat_statements.max", "5000"),
            ("auto_explain.log_min_duration", "100"),
            ("Citus.max_adaptive_executor_pool_size", "16"),
            ("timescaledb.max_background_workers", "16"),
            ("plpgsql.variable_conflict", "error"),
            ("cron.database_name", "postgres"),
            ("ssl_passphrase_command_supports_reload", "off"),
        ] {
            assert!(!may_be_secret(name, value), "{name}");
        }
    }
}
