//! Private server that plans with an export.
//!
//! An export has code of the exported database: functions, expressions of indexes, checks of domains. Any role of that
//! database may have written it. It must not reach the machine of a check, and so none of it runs as a superuser:
//!
//! - The owner of the copy, a role without rights on the server, executes all definitions and reads all values.
//! - No exported role is a superuser of the copy, or a member of a role that the export does not have. So none may execute
//!   programs, read files or load libraries.
//! - The superuser creates roles and extensions, and writes catalogues; its `search_path` is empty.

use std::path::Path;
use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection};
use sandbox::{CHECKSUMS_BY_DEFAULT_MAJOR, Dirs, Installation, Options, Sandbox, Stop};

use crate::document::PlannerExport;
use crate::error::PlannerCopyError;
use crate::not_restored::NotRestored;
use crate::relation_files::RelationFiles;
use crate::restore_connections::{OWNER, RestoreConnections, SUPERUSER, check_role_names};
use crate::restore_ranges::{INDEX_VALUE_MAJOR, Leaves};
use crate::restore_sizes::{CreatedTable, KnownRelations};
use crate::setting_values::assigned_value;
use crate::{perturb, restore_objects, restore_ranges, restore_sizes, restore_statistics};

/// Time limit of the queries of one connection.
const TIME_MAX: Duration = Duration::from_secs(1_800);

/// Settings of the private server itself. Nothing may read or write relations whose blocks are holes.
const OWN_SETTINGS: [(&str, &str); 6] = [
    // Statistics are written through a view with columns of the type anyarray.
    ("allow_system_table_mods", "on"),
    ("autovacuum", "off"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    // A query may plan over many partitions.
    ("max_locks_per_transaction", "1024"),
    ("shared_buffers", "32MB"),
];

/// Request of a private server.
pub struct CopyRequest<'a> {
    /// Data that it plans with.
    pub export: &'a PlannerExport,
    /// Programs of the server.
    pub installation: &'a Installation,
    /// Directories in which it is created.
    pub dirs: &'a Dirs,
    /// Settings in addition to those of the export, which replace them.
    pub settings: &'a [(String, String)],
    /// Applies a change to the empty tables, before they get their sizes. The user of the target is the owner of the database.
    pub change: &'a mut dyn FnMut(&Target) -> Result<(), String>,
}

/// Private server that plans with an export. It is deleted when this is dropped.
pub struct PlannerServer {
    sandbox: Sandbox,
    target: Target,
    database: String,
    /// Number of the perturbed copy of the statistics that it plans with; 0 for those of the export.
    copy: u32,
    /// Parts of the export that it does not have.
    pub left_out: Vec<NotRestored>,
    /// Tables that the change creates.
    pub created: Vec<CreatedTable>,
}

impl PlannerServer {
    /// Creates and starts a server.
    ///
    /// # Errors
    /// If the server cannot be created, the change fails, a setting of the request is refused, or the export has a role with
    /// the name of one of the server's own.
    pub fn create(request: CopyRequest<'_>) -> Result<Self, PlannerCopyError> {
        let (export, major) = (request.export, request.installation.major);
        check_role_names(export)?;
        let mut sandbox = create_sandbox(&request)?;
        let (mut left_out, mut created) = (Vec::new(), Vec::new());
        let target = start(&mut sandbox, "template1")?;
        with_superuser(&target, "template1", "create the database", |superuser| {
            restore_objects::create_roles(superuser, export, &mut left_out)?;
            restore_objects::create_database(superuser, export, major, &mut left_out)
        })?;
        let target = target_of(&sandbox, &export.database)?;
        let (known, leaves) = restore(&target, export, major, &mut left_out)?;
        set_all(&target, (&export.database, major), request.settings)?;
        (request.change)(&target).map_err(PlannerCopyError::Failed)?;
        // The change may have created objects, and schemas in which an owner of a view needs the right to create.
        let action = "grant rights on all objects";
        with_superuser(
            &target,
            &export.database,
            action,
            restore_objects::grant_all,
        )?;
        with_connection(
            &target,
            (OWNER, &export.database),
            "give the views to their owners",
            |owner| restore_objects::give_views(owner, export, &mut left_out),
        )?;
        let (sized, block_size, segment_bytes) =
            with_superuser(&target, &export.database, "set the sizes", |connection| {
                let sized = restore_sizes::sized_relations(
                    connection,
                    export,
                    &known,
                    leaves,
                    (&mut left_out, &mut created),
                )?;
                restore_sizes::write_sizes(connection, &sized)?;
                Ok((
                    sized,
                    number(connection, "block_size")?,
                    number(connection, "segment_size")?,
                ))
            })?;
        let block_size = u16::try_from(block_size)
            .ok()
            .filter(|size| u32::from(*size) == export.block_size)
            .ok_or_else(|| {
                PlannerCopyError::Failed(format!(
                    "cannot copy a server with blocks of {} bytes: PostgreSQL {} here has blocks of {block_size} bytes; \
                     use an installation with the same size",
                    export.block_size, request.installation.version
                ))
            })?;
        sandbox.stop(Stop::Fast)?;
        let files = RelationFiles {
            data: sandbox.data_dir(),
            block_size,
            segment_bytes,
            major,
        };
        for relation in &sized {
            if let Some(file) = &relation.file {
                files.extend(file, relation.pages, &relation.first)?;
                if relation.has_rows && relation.pages > 0 && major >= INDEX_VALUE_MAJOR {
                    files.write_visibility_map(file)?;
                }
            }
        }
        let target = start(&mut sandbox, &export.database)?;
        Ok(PlannerServer {
            sandbox,
            target,
            database: export.database.clone(),
            copy: 0,
            left_out,
            created,
        })
    }

    /// Perturbs the statistics, for connections opened from now on. Equal numbers of copies give equal perturbations; 0 has
    /// the statistics of the export.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses.
    pub fn perturb(&mut self, export: &PlannerExport, copy: u32) -> Result<(), PlannerCopyError> {
        let copies = (self.copy, copy);
        with_superuser(
            &self.target,
            &self.database,
            "perturb the statistics",
            |connection| perturb::perturb(connection, export, copies),
        )?;
        self.copy = copy;
        Ok(())
    }

    /// Returns the address of the copied database, with its owner as the user.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> &Path {
        self.sandbox.data_dir()
    }
}

fn create_sandbox(request: &CopyRequest<'_>) -> Result<Sandbox, PlannerCopyError> {
    // An exported role may have the usual name of a superuser, without the rights of one.
    let mut initdb = vec![format!("--username={SUPERUSER}")];
    // Blocks are written here without checksums.
    if request.installation.major >= CHECKSUMS_BY_DEFAULT_MAJOR {
        initdb.push("--no-data-checksums".to_owned());
    }
    let own = OWN_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options {
        initdb,
        settings: own.to_vec(),
        ..Options::default()
    };
    Ok(Sandbox::create(
        request.installation,
        options,
        request.dirs,
    )?)
}

/// Creates the objects, with statistics and settings. Returns the relations before a change, and leaves of indexes.
fn restore(
    target: &Target,
    export: &PlannerExport,
    major: u16,
    left_out: &mut Vec<NotRestored>,
) -> Result<(KnownRelations, Leaves), PlannerCopyError> {
    let database = &export.database;
    with_connection(target, (OWNER, database), "create the schema", |owner| {
        restore_objects::create_schemas(owner, export, left_out)
    })?;
    // Schemas are still empty, so that no script of an extension can find an object of the export.
    with_superuser(target, database, "create the extensions", |superuser| {
        restore_objects::create_extensions(superuser, export, left_out)?;
        restore_statistics::permit_writes(superuser)
    })?;
    let action = "create the schema";
    with_connection(target, (OWNER, database), action, |owner| {
        restore_objects::create_objects(owner, export, left_out)?;
        restore_statistics::write_columns(owner, export, major, left_out)
    })?;
    let dialer = Dialer::new(target).map_err(|error| failed(action, &error))?;
    let open = |role| open(&dialer, (role, database)).map_err(|error| failed(action, &error));
    let mut connections = RestoreConnections {
        superuser: open(SUPERUSER)?,
        owner: open(OWNER)?,
    };
    let mut finish = || -> Result<_, LoginError> {
        restore_statistics::write_extended(&mut connections, export, major, left_out)?;
        let leaves = match major >= INDEX_VALUE_MAJOR {
            true => restore_ranges::make_leaves(&mut connections, export)?,
            false => Leaves::new(),
        };
        let superuser = &mut connections.superuser;
        restore_statistics::end_writes(superuser)?;
        restore_objects::grant_all(superuser)?;
        restore_objects::apply_settings(superuser, export, major, left_out)?;
        Ok((restore_sizes::known_relations(superuser, export)?, leaves))
    };
    finish().map_err(|error| failed(action, &error))
}

fn start(sandbox: &mut Sandbox, database: &str) -> Result<Target, PlannerCopyError> {
    sandbox.start()?;
    target_of(sandbox, database)
}

/// Returns a database of the server by its socket, which needs no password for any role. The user is its owner.
fn target_of(sandbox: &Sandbox, database: &str) -> Result<Target, PlannerCopyError> {
    let mut endpoint = sandbox.endpoint();
    OWNER.clone_into(&mut endpoint.user);
    let url = endpoint
        .socket_url(database)
        .unwrap_or_else(|| endpoint.url(database));
    Target::parse(&url, |_| None).map_err(|error| PlannerCopyError::Failed(error.to_string()))
}

fn failed(action: &str, reason: &dyn std::fmt::Display) -> PlannerCopyError {
    PlannerCopyError::Failed(format!("the private server could not {action}: {reason}"))
}

/// Connects as a role to a database. Settings of the export do not apply: with its `search_path`, an operator of the export
/// could replace one of the server.
fn open<'d>(
    dialer: &'d Dialer,
    (role, database): (&str, &str),
) -> Result<QueryConnection<'d>, LoginError> {
    let settings = [("search_path", ""), ("standard_conforming_strings", "on")];
    let login = Login {
        user: role.into(),
        database: database.into(),
        application: "rehearse".into(),
        role: None,
        settings: settings
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
    };
    let mut connection = dialer.open_query_connection(&login)?;
    connection.limit(TIME_MAX);
    Ok(connection)
}

fn with_connection<T>(
    target: &Target,
    login: (&str, &str),
    action: &str,
    work: impl FnOnce(&mut QueryConnection<'_>) -> Result<T, LoginError>,
) -> Result<T, PlannerCopyError> {
    let dialer = Dialer::new(target).map_err(|error| failed(action, &error))?;
    let mut connection = open(&dialer, login).map_err(|error| failed(action, &error))?;
    work(&mut connection).map_err(|error| failed(action, &error))
}

fn with_superuser<T>(
    target: &Target,
    database: &str,
    action: &str,
    work: impl FnOnce(&mut QueryConnection<'_>) -> Result<T, LoginError>,
) -> Result<T, PlannerCopyError> {
    with_connection(target, (SUPERUSER, database), action, work)
}

/// Sets the settings of the request. The next start uses them.
fn set_all(
    target: &Target,
    (database, major): (&str, u16),
    settings: &[(String, String)],
) -> Result<(), PlannerCopyError> {
    for (name, value) in settings {
        let assigned = assigned_value(name, value, u32::from(major)).ok_or_else(|| {
            PlannerCopyError::Usage(format!(
                "cannot set {name} to {value}: it is no list of names; separate names by commas, and put one with spaces, \
                 commas or capital letters in double quotes, as in app,\"Old app\""
            ))
        })?;
        let sql = format!(
            "ALTER SYSTEM SET {} = {assigned}",
            restore_objects::quote_setting(name)
        );
        let set = with_superuser(
            target,
            database,
            &format!("set {name} to {value}"),
            |connection| connection.query(&sql),
        );
        set.map_err(|error| PlannerCopyError::Usage(error.to_string()))?;
    }
    Ok(())
}

/// Returns a setting of the server as a number of bytes.
fn number(connection: &mut QueryConnection<'_>, name: &str) -> Result<u64, LoginError> {
    let sql = format!(
        "SELECT setting::bigint * CASE unit WHEN '8kB' THEN current_setting('block_size')::bigint ELSE 1 END \
         FROM pg_catalog.pg_settings WHERE name = '{name}'"
    );
    let rows = connection.query(&sql)?;
    let text = rows
        .into_iter()
        .flatten()
        .flatten()
        .next()
        .unwrap_or_default();
    Ok(text.parse().unwrap_or(0))
}
