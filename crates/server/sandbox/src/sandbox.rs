//! A private server, from `initdb` to its deletion.

mod upgrade;

use crate::dirs;
use crate::dirs::Dirs;
use crate::disk_sync;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorContext, Result};
use crate::installation::{Installation, Source};
use crate::marker;
use crate::marker::Marker;
use crate::named;
use crate::named::NamedSandbox;
use crate::password;
use crate::password::Password;
use crate::ports::Port;
use crate::postmaster;
use crate::postmaster::Identity;
use crate::privileges::RunAs;
use crate::server;
use crate::server::{Cluster, Failure, SUPERUSER};
use crate::server_clock;
use crate::server_clock::ServerClock;
use crate::settings;
use crate::snapshot;
use crate::snapshot::CopyStats;
use crate::watchdog::Watchdog;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

pub use upgrade::{CHECKSUMS_BY_DEFAULT_MAJOR, PgUpgradeCheck, check_upgrade_programs};

/// Maximum length of the socket directory, so that the path with the server's file name fits.
const LONGEST_SOCKET_DIR: usize = 107 - "/.s.PGSQL.65535".len();

/// Options of a new sandbox.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port.
    pub port: Port,
    /// Whether it also listens on 127.0.0.1, in addition to its Unix socket. The socket is only for the user
    /// that creates the sandbox; TCP connections need the superuser's password.
    pub tcp: bool,
    /// Password of the superuser over TCP. By default it is random.
    pub password: Option<Password>,
    /// Locale of its databases.
    pub locale: String,
    /// Additional arguments of `initdb`, such as `--no-data-checksums`.
    pub initdb: Vec<String>,
    /// Data directory of a stopped server that is copied instead of running `initdb`. `password`, `locale` and
    /// `initdb` must describe it.
    pub template: Option<PathBuf>,
    /// Settings, as in `postgresql.conf`. `ALTER SYSTEM` overrides them.
    pub settings: Vec<(String, String)>,
    /// Whether the server counts the work of statements with pg_stat_statements, if the installation has it.
    /// Each database has the extension.
    pub statement_statistics: bool,
    /// Time limit for a start and for a stop, which include the recovery or the checkpoint of a large
    /// database.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: Port::Free,
            tcp: false,
            password: None,
            locale: "C".to_owned(),
            initdb: Vec::new(),
            template: None,
            settings: Vec::new(),
            statement_statistics: false,
            timeout: Duration::from_secs(300),
        }
    }
}

/// Shutdown mode of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Terminates sessions and writes a checkpoint. The next start needs no recovery.
    Fast,
    /// Stops at once, as in a crash. The next start recovers.
    Immediate,
}

/// A private server. When it is dropped, the server is stopped and its directory deleted. If this process
/// ends without dropping it, a watchdog process does that, otherwise [`crate::reap`].
#[must_use = "dropping a sandbox stops and deletes it"]
pub struct Sandbox {
    root: PathBuf,
    data: PathBuf,
    marker: Marker,
    installation: Installation,
    run_as: RunAs,
    port: Port,
    patience: Duration,
    /// Server process, if this process started it.
    child: Option<Child>,
    /// Lock that excludes other processes from the sandbox.
    owner: Option<File>,
    watchdog: Option<Watchdog>,
}

impl Sandbox {
    /// Creates a sandbox with a new cluster that is not started yet. Also deletes abandoned sandboxes of
    /// earlier processes.
    pub fn create(installation: &Installation, options: Options, places: &Dirs) -> Result<Self> {
        crate::reap(places);
        settings::check(&options.settings)?;
        let run_as = RunAs::decide()?;
        run_as.check_reaches(&installation.bin_dir)?;
        let sandboxes = places.sandboxes();
        dirs::make(&sandboxes)?;
        run_as.check_reaches(&sandboxes)?;

        let root = tempfile::Builder::new()
            .prefix("pg")
            .permissions(private())
            .tempdir_in(&sandboxes)
            .context("make a directory in", &sandboxes)?
            .keep();
        // Absolute and without links, since it is compared with the kernel's data about a process.
        let root = root.canonicalize().context("find", &root)?;
        // Owned before it is marked, since an unowned marked directory counts as abandoned.
        let owner = marker::lock_owner(&root)?;
        let mut marker = Marker::new(installation);
        marker.tcp = options.tcp;
        marker.run_as = Some(run_as.clone());
        marker.settings = options.settings;
        marker.write(&root)?;
        // From here on, a drop cleans up.
        let mut sandbox = Self {
            data: root.join("data"),
            root,
            marker,
            installation: installation.clone(),
            run_as,
            port: options.port,
            patience: options.timeout,
            child: None,
            owner: Some(owner),
            watchdog: None,
        };
        sandbox.prepare_dirs()?;
        let password = match (options.tcp, options.password) {
            (false, _) => None,
            (true, Some(given)) => Some(given),
            (true, None) => Some(Password::random()?),
        };
        if let Some(password) = &password {
            password.write(&sandbox.root)?;
        }
        match &options.template {
            Some(template) => {
                snapshot::copy_tree(template, &sandbox.data)?;
            }
            None => sandbox.init_cluster(password, &options.locale, &options.initdb)?,
        }
        if options.statement_statistics {
            let databases = ["template1", "postgres"];
            let create = |name| {
                sandbox
                    .cluster()
                    .create_extension(settings::STATISTICS, name)
            };
            sandbox.marker.statement_statistics = databases.into_iter().all(create);
            sandbox.marker.write(&sandbox.root)?;
        }
        server::include(&sandbox.data, &sandbox.root.join(settings::FILE))?;
        Ok(sandbox)
    }

    /// Creates a private server with a copy of this one's data, and with its settings. It is not started yet. This one is
    /// stopped meanwhile.
    ///
    /// # Errors
    /// If the data cannot be copied, or this one does not stop or start again.
    pub fn copy(&mut self, places: &Dirs) -> Result<Self> {
        self.complete_restore()?;
        snapshot::check_whole(&self.data)?;
        let installation = self.installation.clone();
        self.while_stopped(Stop::Fast, |original| {
            let options = Options {
                template: Some(original.data.clone()),
                settings: original.marker.settings.clone(),
                ..Options::default()
            };
            let mut copy = Self::create(&installation, options, places)?;
            // The copied configuration includes the original's settings, too.
            server::remove_include(&copy.data, &original.root.join(settings::FILE))?;
            copy.marker.statement_statistics = original.marker.statement_statistics;
            copy.marker.write(&copy.root)?;
            Ok(copy)
        })
    }

    fn prepare_dirs(&mut self) -> Result<()> {
        self.run_as.admit(&self.root)?;
        let sockets = self.make_socket_dir()?;
        self.marker.socket_dir = Some(sockets.clone());
        let watchdog = Watchdog::start(&self.root, Some(&sockets))?;
        self.marker.watchdog = Some(watchdog.pid());
        self.watchdog = Some(watchdog);
        self.marker.write(&self.root)
    }

    fn init_cluster(
        &self,
        password: Option<Password>,
        locale: &str,
        initdb: &[String],
    ) -> Result<()> {
        private_dir(&self.data)?;
        self.run_as.change_owner(&self.data)?;
        let password = password.as_ref().map(Password::reveal);
        self.cluster().init(password, locale, initdb)
    }

    /// Creates the socket directory in the sandbox, unless the socket's path would exceed the limit of the
    /// system.
    fn make_socket_dir(&self) -> Result<PathBuf> {
        let inside = self.root.join("socket");
        let dir = if inside.as_os_str().len() <= LONGEST_SOCKET_DIR {
            private_dir(&inside)?;
            inside
        } else {
            let short = Path::new(marker::SHORT_DIR);
            tempfile::Builder::new()
                .prefix(marker::SOCKET_PREFIX)
                .permissions(private())
                .tempdir_in(short)
                .context("make a directory in", short)?
                .keep()
        };
        self.run_as.change_owner(&dir)?;
        Ok(dir)
    }

    /// Attaches to a sandbox that outlives its owner.
    pub(crate) fn attach(root: PathBuf) -> Result<Self> {
        let owner = marker::lock_owner(&root)?;
        let marker = Marker::read(&root).ok_or_else(|| Error::NoSuchSandbox {
            name: root.display().to_string(),
            known: "it has just been taken down".to_owned(),
        })?;
        let data = root.join("data");
        let run_as = match marker.run_as.clone() {
            Some(recorded) => recorded,
            None => RunAs::owner(&data)?,
        };
        Ok(Self {
            data,
            installation: Installation {
                bin_dir: marker.bin_dir.clone(),
                major: marker.major,
                version: marker.version.clone(),
                source: Source::Given,
            },
            root,
            run_as,
            port: Port::Free,
            patience: Options::default().timeout,
            child: None,
            owner: Some(owner),
            watchdog: None,
            marker,
        })
    }

    fn cluster(&self) -> Cluster<'_> {
        Cluster {
            installation: &self.installation,
            run_as: &self.run_as,
            root: &self.root,
            data: &self.data,
        }
    }

    /// Starts the server, and waits until it accepts connections. The port may differ from that of the last
    /// start if it has been taken meanwhile. A restore that was interrupted is completed first.
    pub fn start(&mut self) -> Result<Endpoint> {
        if self.pid().is_some() {
            return Ok(self.endpoint());
        }
        self.complete_restore()?;
        self.child = None;
        let text = match self.marker.statement_statistics {
            true => settings::render(&settings::with_statistics(&self.marker.settings)),
            false => settings::render(&self.marker.settings),
        };
        server::write_for(&self.run_as, &self.root.join(settings::FILE), &text)?;
        let sockets = self.marker.socket_dir.clone().unwrap_or_default();
        let candidates = self.port.candidates(self.marker.port);
        for &port in &candidates {
            let library = self.marker.clock_library.as_deref();
            let start =
                self.cluster()
                    .launch(self.marker.tcp, port, &sockets, &self.log(), library)?;
            match start.wait(&self.data, &self.installation.version, self.patience) {
                Ok(child) => {
                    self.marker.port = Some(port);
                    self.marker.server = Some(Identity::of(child.id() as i32));
                    self.child = Some(child);
                    self.marker.write(&self.root)?;
                    return Ok(self.endpoint());
                }
                Err(Failure::Port) => {}
                Err(Failure::Other(error)) => return Err(error),
            }
        }
        let ports: Vec<_> = candidates.iter().map(u16::to_string).collect();
        Err(Error::PortTaken {
            ports: ports.join(", "),
        })
    }

    /// Stops the server, if it runs.
    pub fn stop(&mut self, how: Stop) -> Result<()> {
        let Some(pid) = self.identity() else {
            return Ok(());
        };
        match how {
            Stop::Fast => {
                pid.signal(libc::SIGINT);
                if !pid.wait_for_end(self.patience) {
                    return Err(Error::Stop {
                        pid: pid.pid,
                        seconds: self.patience.as_secs(),
                    });
                }
            }
            Stop::Immediate => end_now(pid)?,
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        self.marker.server = None;
        self.marker.write(&self.root)
    }

    /// Stops the server in fast mode, and starts it again with the current settings.
    pub fn restart(&mut self) -> Result<Endpoint> {
        self.stop(Stop::Fast)?;
        self.start()
    }

    /// Stops the server in fast mode, and starts it again with libfaketime, so that its clock can be set. `offset_us` is
    /// its offset from the machine's clock at first. Later starts do the same until [`Self::use_machine_clock`].
    ///
    /// # Errors
    /// If libfaketime is not installed; also as [`Self::start`].
    pub fn restart_with_clock(&mut self, offset_us: i64) -> Result<ServerClock> {
        let named = std::env::var_os(server_clock::LIBRARY_VARIABLE);
        let library = server_clock::find_library(named.map(PathBuf::from))?;
        self.run_as.check_reaches(&library)?;
        let clock = ServerClock::new(&self.root, &self.run_as);
        clock.set_offset(offset_us)?;
        self.marker.clock_library = Some(library);
        if let Err(error) = self.restart() {
            // The server runs again without the library, if it starts.
            self.use_machine_clock()?;
            self.start()?;
            return Err(error);
        }
        Ok(clock)
    }

    /// Uses the machine's clock from the next start on.
    pub fn use_machine_clock(&mut self) -> Result<()> {
        self.marker.clock_library = None;
        self.marker.write(&self.root)
    }

    /// Replaces all settings, from the next start on.
    pub fn set(&mut self, settings: Vec<(String, String)>) -> Result<()> {
        settings::check(&settings)?;
        self.marker.settings = settings;
        self.marker.write(&self.root)
    }

    /// Returns the settings that the next start uses.
    pub fn settings(&self) -> &[(String, String)] {
        &self.marker.settings
    }

    /// Returns the current or last endpoint. Before the first start the port is 0.
    pub fn endpoint(&self) -> Endpoint {
        let mut endpoint = endpoint(&self.root, &self.marker);
        let file = endpoint.password_file.as_deref();
        endpoint.password = file.and_then(Password::read).map(Password::into_text);
        endpoint
    }

    /// Returns the process id of the postmaster, if it runs.
    pub fn pid(&mut self) -> Option<i32> {
        self.identity().map(|identity| identity.pid)
    }

    fn identity(&mut self) -> Option<Identity> {
        match &mut self.child {
            Some(child) => match child.try_wait() {
                Ok(None) => Some(Identity::of(child.id() as i32)),
                _ => None,
            },
            None => postmaster::find(&self.data, self.marker.server),
        }
    }

    /// Returns the server's programs.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Returns the sandbox's directory, which contains all others.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the server's data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// Returns the path of the server's log.
    pub fn log(&self) -> PathBuf {
        self.root.join("server.log")
    }

    fn snapshot_dir(&self, name: &str) -> PathBuf {
        self.root.join("snapshots").join(name)
    }

    /// Returns the names of the snapshots.
    pub fn snapshots(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.snapshot_dir(""))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| marker::check_name(name).is_ok())
            .collect();
        names.sort();
        names
    }

    /// Copies the data directory under a name. The server is stopped meanwhile.
    pub fn snapshot(&mut self, name: &str) -> Result<CopyStats> {
        marker::check_name(name)?;
        let place = self.snapshot_dir(name);
        if place.exists() {
            return Err(Error::SnapshotTaken {
                name: name.to_owned(),
            });
        }
        self.complete_restore()?;
        snapshot::check_whole(&self.data)?;
        self.while_stopped(Stop::Fast, |sandbox| {
            let all = sandbox.snapshot_dir("");
            if !all.is_dir() {
                private_dir(&all)?;
            }
            let partial = sandbox.snapshot_dir(".partial");
            marker::delete_any(&partial)?;
            let copied = snapshot::copy_tree(&sandbox.data, &partial)?;
            // A restore deletes the data that were copied, so the copy must be on the disk.
            disk_sync::sync_file_system(&partial)?;
            let settings = serde_json::to_vec(&sandbox.marker.settings)
                .map_err(std::io::Error::other)
                .context("describe the settings of", &place)?;
            marker::write_private(&sandbox.snapshot_settings_file(name), &settings, false)?;
            fs::rename(&partial, &place).context("rename the copy to", &place)?;
            disk_sync::sync_directory(&all)?;
            Ok(copied)
        })
    }

    /// File next to a snapshot. Its name is none of a snapshot's.
    fn snapshot_settings_file(&self, name: &str) -> PathBuf {
        self.snapshot_dir(&format!(".{name}.settings.json"))
    }

    /// Returns the settings that the sandbox had when a snapshot was made; `None` if they are not recorded.
    pub fn snapshot_settings(&self, name: &str) -> Option<Vec<(String, String)>> {
        let text = fs::read(self.snapshot_settings_file(name)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns the name of the snapshot whose restore was interrupted. Until it is restored, there are no usable data.
    pub fn interrupted_restore(&self) -> Option<&str> {
        self.marker.interrupted_restore()
    }

    /// Completes an interrupted restore, with the settings of that time.
    fn complete_restore(&mut self) -> Result<()> {
        let Some(name) = self.marker.interrupted_restore().map(str::to_owned) else {
            return Ok(());
        };
        self.restore(&name)?;
        match self.snapshot_settings(&name) {
            Some(settings) => self.set(settings),
            None => Ok(()),
        }
    }

    /// Restores the data directory from a snapshot. The server is stopped meanwhile. If it fails or is killed, the
    /// snapshot is unchanged, and the next start restores it again. So does the first one after a loss of power, unless
    /// [`Sandbox::sync`] was called, which removing the snapshot does.
    pub fn restore(&mut self, name: &str) -> Result<CopyStats> {
        let place = self.snapshot_dir(name);
        if marker::check_name(name).is_err() || !place.is_dir() {
            let names = self.snapshots();
            return Err(Error::NoSuchSnapshot {
                name: name.to_owned(),
                known: named::list_names(&names, "there is none"),
            });
        }
        // The current data is discarded, so no checkpoint is needed.
        self.while_stopped(Stop::Immediate, |sandbox| {
            sandbox.marker.restoring = Some(name.to_owned());
            sandbox.marker.write(&sandbox.root)?;
            let fresh = sandbox.root.join("data.new");
            let old = sandbox.root.join("data.old");
            marker::delete_any(&fresh)?;
            // Deleted first, so that the disk does not need to hold the data three times.
            marker::delete_any(&old)?;
            if sandbox.data.exists() {
                fs::rename(&sandbox.data, &old).context("rename", &sandbox.data)?;
                marker::delete_any(&old)?;
            }
            let copied = snapshot::copy_tree(&place, &fresh)?;
            fs::rename(&fresh, &sandbox.data).context("rename to", &sandbox.data)?;
            if !sandbox.marker.restored(name) {
                disk_sync::sync_file_system(&sandbox.root)?;
            }
            sandbox.marker.write(&sandbox.root)?;
            Ok(copied)
        })
    }

    /// Writes restored data to the disk. After that, a loss of power leaves them as the server's are left.
    pub fn sync(&mut self) -> Result<()> {
        if self.marker.is_unsynced() {
            disk_sync::sync_file_system(&self.root)?;
            self.marker.synced();
            self.marker.write(&self.root)?;
        }
        Ok(())
    }

    /// Deletes a snapshot.
    pub fn remove_snapshot(&mut self, name: &str) -> Result<()> {
        marker::check_name(name)?;
        // The data may have to be restored from it after a loss of power.
        self.sync()?;
        // Renamed first: a snapshot is complete or absent.
        let removed = self.snapshot_dir(".removed");
        marker::delete_any(&removed)?;
        match fs::rename(self.snapshot_dir(name), &removed) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            renamed => {
                renamed.context("rename to", &removed)?;
                disk_sync::sync_directory(&self.snapshot_dir(""))?;
            }
        }
        marker::delete_any(&self.snapshot_settings_file(name))?;
        marker::delete_any(&removed)
    }

    fn while_stopped<T>(
        &mut self,
        how: Stop,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let ran = self.pid().is_some();
        self.stop(how)?;
        let done = work(self);
        if ran {
            let started = self.start();
            let done = done?;
            started?;
            return Ok(done);
        }
        done
    }

    /// Lets the sandbox outlive this process, under a name by which [`crate::list`], [`crate::open`] and
    /// [`crate::down`] find it.
    pub fn keep(self, name: &str, places: &Dirs) -> Result<NamedSandbox> {
        let _names = named::reserve(name, places)?;
        self.keep_as(name)
    }

    pub(crate) fn keep_as(mut self, name: &str) -> Result<NamedSandbox> {
        self.marker.name = Some(name.to_owned());
        self.marker.lasting = true;
        self.marker.watchdog = None;
        if let Err(error) = self.marker.write(&self.root) {
            // Without a name it could not be found again, so it is deleted.
            self.marker.lasting = false;
            return Err(error);
        }
        // Last, so that at every moment some process would clean up.
        self.watchdog = None;
        Ok(NamedSandbox::of(&self.root, &self.marker))
    }

    /// Stops and deletes the sandbox, as dropping it does, and reports errors. A named sandbox is deleted,
    /// too.
    pub fn close(mut self) -> Result<()> {
        self.marker.lasting = true; // dropping it afterwards has nothing to do
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        if let Some(identity) = self.identity() {
            end_now(identity)?;
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        marker::delete(&self.root, &self.marker)?;
        // Last, so that the watchdog takes over if this process ends in between.
        self.watchdog = None;
        self.owner = None;
        Ok(())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !self.marker.lasting && self.remove().is_err() {
            // The closed pipe makes the watchdog try again.
            if let Some(watchdog) = self.watchdog.take() {
                watchdog.hand_over();
            }
        }
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("root", &self.root)
            .field("version", &self.installation.version)
            .field("endpoint", &self.endpoint())
            .finish_non_exhaustive()
    }
}

/// Ends a server whose identity is verified.
pub(crate) fn end_now(server: Identity) -> Result<()> {
    server.signal(libc::SIGQUIT);
    if !server.wait_for_end(Duration::from_secs(20)) {
        server.signal(libc::SIGKILL);
        if !server.wait_for_end(Duration::from_secs(20)) {
            return Err(Error::Stop {
                pid: server.pid,
                seconds: 40,
            });
        }
    }
    Ok(())
}

/// Returns the endpoint, without the password.
pub(crate) fn endpoint(root: &Path, marker: &Marker) -> Endpoint {
    let password_file = root.join(password::FILE);
    Endpoint {
        host: marker.tcp.then(|| "127.0.0.1".to_owned()),
        socket_dir: marker.socket_dir.clone(),
        port: marker.port.unwrap_or(0),
        user: SUPERUSER.to_owned(),
        password: None,
        password_file: (marker.tcp && password_file.is_file()).then_some(password_file),
    }
}

fn private_dir(path: &Path) -> Result<()> {
    fs::create_dir(path).context("make the directory", path)?;
    fs::set_permissions(path, private()).context("set the permissions of", path)
}

fn private() -> fs::Permissions {
    fs::Permissions::from_mode(0o700)
}
