//! Reports which diagnostic settings are on, can be enabled, or are unavailable on this provider. Each is
//! queried from the server: the provider's name tells who manages the settings, but not their values.

use run::{ProbeNote, ProbeState};

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_text};
use crate::probe_connection::{ProbeConnection, ProbeError};

/// Diagnostic settings, and the libraries that they require.
const SETTINGS: [(&str, Option<&str>); 7] = [
    (
        "pg_stat_statements.track_planning",
        Some("pg_stat_statements"),
    ),
    ("track_io_timing", None),
    ("track_wal_io_timing", None),
    ("compute_query_id", None),
    ("track_activities", None),
    ("track_functions", None),
    ("auto_explain.log_min_duration", Some("auto_explain")),
];

/// Providers that manage a server's settings, with a setting (by its prefix) or a role that only they have.
const PROVIDERS: [(&str, &str, &str, &str); 9] = [
    ("alloydb.", "", "Google AlloyDB", "its database flags"),
    ("cloudsql.", "", "Google Cloud SQL", "its database flags"),
    (
        "azure.",
        "",
        "Azure Database for PostgreSQL",
        "its server parameters",
    ),
    ("rds.", "", "Amazon RDS or Aurora", "its parameter group"),
    ("neon.", "", "Neon", "its support"),
    (
        "supautils.",
        "supabase_admin",
        "Supabase",
        "its dashboard or command-line tool",
    ),
    (
        "",
        "tsdbadmin",
        "Timescale Cloud",
        "its database parameters",
    ),
    ("", "avnadmin", "Aiven", "its advanced configuration"),
    ("", "doadmin", "DigitalOcean", "its API"),
];

/// Queries the settings once.
#[derive(Default)]
pub(crate) struct CapabilitiesProbe {
    asked: bool,
}

/// A setting, with the permissions of this role.
struct Setting {
    value: String,
    context: String,
    may_set: bool,
    may_alter_system: bool,
}

impl CapabilitiesProbe {
    fn setting(
        connection: &mut ProbeConnection<'_>,
        name: &str,
    ) -> Result<Option<Setting>, ProbeError> {
        let rights = match connection.server().version {
            150_000.. => format!(
                "pg_catalog.has_parameter_privilege('{name}', 'SET'), \
                 pg_catalog.has_parameter_privilege('{name}', 'ALTER SYSTEM')"
            ),
            _ => "s.context = 'user' OR r.rolsuper, r.rolsuper".to_owned(),
        };
        let rows = connection.query(&format!(
            "SELECT s.reset_val, s.context, {rights} FROM pg_catalog.pg_settings s, \
             pg_catalog.pg_roles r WHERE s.name = '{name}' AND r.rolname = current_user"
        ))?;
        Ok(rows.first().map(|row| Setting {
            value: column_text(row, 0).to_owned(),
            context: column_text(row, 1).to_owned(),
            may_set: column_text(row, 2) == "t",
            may_alter_system: column_text(row, 3) == "t",
        }))
    }

    fn provider(
        connection: &mut ProbeConnection<'_>,
    ) -> Result<Option<(&'static str, &'static str)>, ProbeError> {
        let settings = connection.query(
            "SELECT DISTINCT pg_catalog.split_part(s.name, '.', 1) || '.' \
             FROM pg_catalog.pg_settings s WHERE s.name LIKE '%.%'",
        )?;
        let roles = connection.query("SELECT r.rolname FROM pg_catalog.pg_roles r")?;
        let has = |rows: &[connect::login::Row], name: &str| {
            !name.is_empty() && rows.iter().any(|row| column_text(row, 0) == name)
        };
        let found = PROVIDERS
            .iter()
            .find(|(prefix, role, _, _)| has(&settings, prefix) || has(&roles, role));
        Ok(found.map(|(_, _, name, where_to)| (*name, *where_to)))
    }

    fn judge(
        connection: &mut ProbeConnection<'_>,
        name: &str,
        library: Option<&str>,
        keeper: &str,
        is_offered: bool,
    ) -> Result<(ProbeState, String, Option<String>), ProbeError> {
        let found = Self::setting(connection, name)?;
        let superuser = connection.server().is_superuser;
        Ok(match (found, library) {
            (None, Some(library)) if is_offered || superuser => (
                ProbeState::Changeable,
                format!("the library {library} is not loaded"),
                Some(format!(
                    "add {library} to shared_preload_libraries by {keeper}; it needs a restart"
                )),
            ),
            (None, Some(library)) => (
                ProbeState::Fixed,
                format!("the library {library} is not loaded, and nothing says that it is there"),
                None,
            ),
            (None, None) => (
                ProbeState::Fixed,
                "this version does not have it".to_owned(),
                None,
            ),
            (Some(setting), _) if !is_off(name, &setting.value) => {
                (ProbeState::Allowed, setting.value, None)
            }
            (Some(setting), _) if setting.context == "internal" => {
                (ProbeState::Fixed, setting.value, None)
            }
            (Some(setting), _) => {
                let how = match (setting.may_alter_system, setting.may_set) {
                    (true, _) if keeper == OWN => "this role, with ALTER SYSTEM",
                    (_, true) => "this role, with SET or ALTER ROLE … SET",
                    _ => keeper,
                };
                let when = match setting.context.as_str() {
                    "postmaster" => "; it needs a restart",
                    _ => "",
                };
                (
                    ProbeState::Changeable,
                    setting.value,
                    Some(format!("by {how}{when}")),
                )
            }
        })
    }
}

const OWN: &str = "who runs the server";

/// Whether a value of the setting disables it.
fn is_off(name: &str, value: &str) -> bool {
    match name {
        "auto_explain.log_min_duration" => value == "-1",
        "track_functions" => value == "none",
        _ => value == "off",
    }
}

impl Probe for CapabilitiesProbe {
    fn name(&self) -> &'static str {
        "host"
    }

    fn interval_ns(&self) -> i64 {
        i64::MAX
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError> {
        if self.asked {
            return Ok(());
        }
        let provider = Self::provider(connection)?;
        let keeper = provider.map_or(OWN, |(_, where_to)| where_to);
        if let Some((name, _)) = provider {
            log.note(self.name(), ProbeState::Remark, name);
        }
        let offered =
            connection.query("SELECT e.name FROM pg_catalog.pg_available_extensions e")?;
        let is_offered = |name: &str| offered.iter().any(|row| column_text(row, 0) == name);
        for (name, library) in SETTINGS {
            let there = library.is_some_and(is_offered);
            let (state, text, remedy) = Self::judge(connection, name, library, keeper, there)?;
            log.add_note(ProbeNote {
                probe: name.to_owned(),
                state,
                text,
                remedy,
                ..ProbeNote::default()
            });
        }
        self.asked = true;
        Ok(())
    }

    fn sample(
        &mut self,
        _: &mut ProbeConnection<'_>,
        _: &ObservationLog,
        _: SampleContext,
    ) -> Result<(), ProbeError> {
        Ok(())
    }
}
