//! Reads what a backend shows of itself in `/proc`: its title, and its number in its own namespace of processes.
//!
//! The title is `postgres: [CLUSTER: ]USER DATABASE HOST(PORT) ACTIVITY`, with `[local]` for a unix socket
//! (`src/backend/tcop/backend_startup.c`, `src/backend/utils/misc/ps_status.c`). Before the login it has fewer parts, and
//! it has no activity with `update_process_title = off`.

/// Client and login of a backend, from its title.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessTitle {
    /// Address and port as `127.0.0.1:5000`, or `[local]`; empty if it is unknown.
    pub client: String,
    /// User; empty if it is unknown.
    pub user: String,
    /// Database; empty if it is unknown.
    pub database: String,
    /// Whether the process sends a replication stream.
    pub is_walsender: bool,
}

impl ProcessTitle {
    /// Reads the title of a process of this host. It is empty if the process has ended.
    pub(crate) fn read(pid: u32) -> Self {
        let title = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&title))
    }

    fn parse(title: &str) -> Self {
        let title = title.trim_end_matches(['\0', ' ']);
        let Some(title) = title.strip_prefix("postgres: ") else {
            return ProcessTitle::default();
        };
        let words: Vec<&str> = title.split(' ').collect();
        let clients = words.iter().map(|word| client(word));
        let Some((index, client)) = clients
            .enumerate()
            .find_map(|(index, client)| Some((index, client?)))
        else {
            return ProcessTitle::default();
        };
        // The name of the cluster ends with a colon, and may have spaces.
        let names = &words[..index];
        let cluster = names.iter().rposition(|word| word.ends_with(':'));
        let names = &names[cluster.map_or(0, |colon| colon + 1)..];
        let is_walsender = names.first() == Some(&"walsender");
        // Names with spaces cannot be told apart.
        let (user, database) = match names {
            [user, database] if !is_walsender => (*user, *database),
            _ => ("", ""),
        };
        ProcessTitle {
            client,
            user: user.to_owned(),
            database: database.to_owned(),
            is_walsender,
        }
    }
}

/// Converts `HOST(PORT)` to `HOST:PORT`, with brackets for IPv6.
fn client(word: &str) -> Option<String> {
    if word == "[local]" {
        return Some(word.to_owned());
    }
    let (host, port) = word.strip_suffix(')')?.split_once('(')?;
    port.parse::<u16>().ok()?;
    Some(match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

/// Returns the number of a process in its own namespace, as `pg_stat_activity` has it; `None` if the process has ended.
pub(crate) fn own_process_id(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_title_has_client_and_login() {
        let found = |client: &str, user: &str, database: &str| ProcessTitle {
            client: client.to_owned(),
            user: user.to_owned(),
            database: database.to_owned(),
            is_walsender: false,
        };
        for (title, expected) in [
            (
                "postgres: ann shop 127.0.0.1(5123) idle in transaction\0\0",
                found("127.0.0.1:5123", "ann", "shop"),
            ),
            (
                "postgres: main: ann shop [local] SELECT",
                found("[local]", "ann", "shop"),
            ),
            (
                "postgres: 15/main: ann shop fe80::1%2(9) idle",
                found("[fe80::1%2]:9", "ann", "shop"),
            ),
            (
                "postgres: ann the shop ::1(9) idle",
                found("[::1]:9", "", ""),
            ),
            ("postgres: autovacuum launcher ", ProcessTitle::default()),
            ("/usr/bin/psql", ProcessTitle::default()),
        ] {
            assert_eq!(ProcessTitle::parse(title), expected, "{title}");
        }
        let title = "postgres: walsender copy 10.0.0.2(5123) streaming 0/3000060";
        let walsender = ProcessTitle::parse(title);
        assert!(walsender.is_walsender && walsender.user.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_process_id_of_this_process_is_known() {
        assert_eq!(own_process_id(std::process::id()), Some(std::process::id()));
    }
}
