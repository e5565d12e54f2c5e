//! Splits connection strings into names and values.

use std::path::Path;

/// Returns the names and values of a URL or of `name=value` pairs, in order.
pub(super) fn pairs(given: &str) -> Result<Vec<(String, String)>, String> {
    for scheme in ["postgres://", "postgresql://"] {
        if let Some(rest) = given.strip_prefix(scheme) {
            return url(rest);
        }
    }
    if given.starts_with("sandbox:") {
        return Err(SANDBOX.to_owned());
    }
    // The value of a pair may contain an address.
    let scheme = given.split_once("://").map(|(scheme, _)| scheme);
    if scheme.is_some_and(|scheme| !scheme.contains(['=', ' ', '\''])) {
        return Err("its scheme is not postgres://".to_owned());
    }
    key_values(given)
}

/// Reason why a URL is refused whose password probably has a special character.
pub(super) const UNESCAPED: &str = "it has a '/' or '?' before its last '@'; in a password write %2F and %3F, otherwise %40 for '@'";

/// Reason why the name of a private server is refused.
const SANDBOX: &str = "only --against takes sandbox:NAME; elsewhere pass --target \"$(rehearse sandbox url NAME)\", or --sandbox NAME to commands that have it";

const SECOND_QUERY: &str =
    "it has a second '?'; write '&' between parameters, and %3F for a '?' in a value";

fn url(rest: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let (before_query, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let (authority, database) = match before_query.split_once('/') {
        Some((authority, database)) => (authority, Some(database)),
        None => (before_query, None),
    };
    let (user_info, host_port) = match authority.rsplit_once('@') {
        Some((user_info, host_port)) => (Some(user_info), host_port),
        None => (None, authority),
    };
    // Otherwise a part of the password would be taken for a port, a database or a parameter.
    if user_info.is_none() && authority.contains(':') && rest[authority.len()..].contains('@') {
        return Err(UNESCAPED.to_owned());
    }
    // A parameter after a second '?' would be a part of the value before it, and messages would show a password there.
    if query.is_some_and(|query| query.contains('?')) {
        return Err(SECOND_QUERY.to_owned());
    }
    let mut add = |name: &str, value: &str| -> Result<(), String> {
        if !value.is_empty() {
            pairs.push((name.to_owned(), percent_decoded(value)?));
        }
        Ok(())
    };
    if let Some(user_info) = user_info {
        let (user, password) = match user_info.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user_info, None),
        };
        add("user", user)?;
        add("password", password.unwrap_or(""))?;
    }
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for server in host_port.split(',') {
        let (host, port) = if let Some(bracketed) = server.strip_prefix('[') {
            let (address, port) = bracketed
                .split_once(']')
                .ok_or("the address lacks its ']'")?;
            (address, port.strip_prefix(':').unwrap_or(port))
        } else {
            // As in libpq: an address with colons needs its brackets.
            server.split_once(':').unwrap_or((server, ""))
        };
        hosts.push(host);
        ports.push(port);
    }
    add("host", &hosts.join(","))?;
    if ports.iter().any(|port| !port.is_empty()) {
        add("port", &ports.join(","))?;
    }
    add("dbname", database.unwrap_or(""))?;
    for parameter in query
        .unwrap_or("")
        .split('&')
        .filter(|text| !text.is_empty())
    {
        let (name, value) = parameter
            .split_once('=')
            .ok_or("a parameter after its '?' lacks its '='")?;
        pairs.push((percent_decoded(name)?, percent_decoded(value)?));
    }
    Ok(pairs)
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let value = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|&value| value != 0)
            .ok_or("a percent sign is not followed by two hex digits (write %25 for itself)")?;
        bytes.push(value);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

fn key_values(given: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut rest = given.trim_start();
    if rest.is_empty() {
        return Err("it is empty".to_owned());
    }
    while !rest.is_empty() {
        let name_end = rest
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_end);
        let after_sign = after
            .trim_start()
            .strip_prefix('=')
            .ok_or("a name lacks its '='")?;
        let after = after_sign.trim_start();
        let quoted = after.starts_with('\'');
        let mut value = String::new();
        let mut characters = after.char_indices().skip(usize::from(quoted));
        let end = loop {
            match characters.next() {
                None if quoted => {
                    return Err("a value lacks its closing quote".to_owned());
                }
                None => break after.len(),
                Some((_, '\\')) => value.extend(characters.next().map(|(_, escaped)| escaped)),
                Some((at, '\'')) if quoted => break at + 1,
                Some((at, c)) if !quoted && c.is_whitespace() => break at,
                Some((_, c)) => value.push(c),
            }
        };
        // `host= password=x`, as a script writes whose variable is empty. The password would be shown as the host.
        if !quoted && after.len() < after_sign.len() && begins_as_pair(&value) {
            return Err(MISSING.to_owned());
        }
        pairs.push((name.to_owned(), value));
        rest = after[end..].trim_start();
    }
    Ok(pairs)
}

/// Reason why pairs are refused in which a value is missing.
const MISSING: &str =
    "a value is missing between a '=' and the next name; write '' for an empty value";

fn begins_as_pair(value: &str) -> bool {
    let is_name = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    value.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns a connection string without anything that may be a password, however malformed it is, for messages.
pub fn hide_password(given: &str) -> String {
    let is_plain = |scheme: &str| {
        scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b':')
    };
    let (scheme, rest) = match given.split_once("://") {
        Some((scheme, rest)) if is_plain(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), given),
    };
    // Values may contain blanks and quotes, so all that follows the name of a secret is left out.
    let lower = rest.to_ascii_lowercase();
    let secrets = ["pass", "pasw", "pwd", "scram_client_key"];
    let named = secrets.iter().filter_map(|name| lower.find(name)).min();
    match named {
        Some(at) => format!("{scheme}{}password=…", hide_user_info(&rest[..at])),
        None if scheme.is_empty() => hide_loose_password(rest),
        None => scheme + &hide_user_info(rest),
    }
}

/// Returns a path without a password that a mistake made a part of it: `cert.pem password=…`.
pub(super) fn hide_in_path(path: &Path) -> String {
    let text = path.display().to_string();
    match gives_password(&text) {
        true => hide_password(&text),
        false => text,
    }
}

/// Returns whether a value has `password=…` in it: a backslash or quotes made the next parameter a part of it.
pub(super) fn gives_password(value: &str) -> bool {
    if value.contains("://") && hide_password(value) != value {
        return true;
    }
    let is_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    value.split('=').rev().skip(1).any(|before| {
        let name = before.trim_end();
        let name = &name[name.trim_end_matches(is_name).len()..];
        hide_password(name) != name
    })
}

/// Hides what may be a password in a text without a scheme: after the first `:` or `/` before an `@`, and after an option
/// of a command (`psql -W x`).
fn hide_loose_password(text: &str) -> String {
    let hidden = hide_user_info(text);
    if let Some((user, host)) = hidden.rsplit_once('@')
        && let Some((user, _)) = user.split_once('/')
        && !user.contains('=')
    {
        return format!("{user}/…@{host}");
    }
    match hidden.find(" -") {
        Some(at) if !hidden.contains('=') => format!("{} …", &hidden[..at]),
        _ => hidden,
    }
}

/// Hides what stands between the first `:` and the last `@`; without an `@`, what follows the first `:` and is no
/// port.
fn hide_user_info(text: &str) -> String {
    let (before, after) = text.split_at(text.rfind('@').unwrap_or(text.len()));
    if after.is_empty() && text.starts_with('[') {
        return text.to_owned();
    }
    let Some((user, secret)) = before.split_once(':') else {
        return text.to_owned();
    };
    let port = secret.split(['/', ',', '?']).next().unwrap_or_default();
    match after.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.to_owned(),
        false => format!("{user}:…{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_value_is_refused_and_does_not_take_the_next_parameter() {
        for given in ["host= password=x", "user=a dbname =\tpassword=x"] {
            assert_eq!(pairs(given), Err(MISSING.to_owned()), "{given}");
        }
        for given in [
            "host='' password=x",
            "host=h options= -cwork_mem=1",
            "options=a=b",
        ] {
            assert!(pairs(given).is_ok(), "{given}");
        }
    }

    #[test]
    fn password_in_a_path_is_hidden() {
        for (given, shown) in [
            ("/a/pass/cert.pem", "/a/pass/cert.pem"),
            ("/a/.pgpass=b", "/a/.pgpassword=…"),
            ("/a b/x=y", "/a b/x=y"),
            ("cert.pem password=x", "cert.pem password=…"),
            ("cert.pem password = x", "cert.pem password=…"),
            ("cert.pem?sslpassword=x&a=b", "cert.pem?sslpassword=…"),
        ] {
            assert_eq!(hide_in_path(Path::new(given)), shown);
        }
    }

    #[test]
    fn second_query_of_a_url_is_refused() {
        for given in [
            "postgres://h/d?sslcert=c?password=x",
            "postgres://h?host=a?password=x",
        ] {
            assert_eq!(pairs(given), Err(SECOND_QUERY.to_owned()), "{given}");
        }
        assert!(pairs("postgres://h/d?options=-c%20a.b=%3F").is_ok());
    }

    #[test]
    fn password_before_a_url_is_hidden() {
        for (given, shown) in [
            ("u/S3cret@h:5432/d", "u/…@h:5432/d"),
            ("psql -h h -W S3cret", "psql …"),
            ("host=/a/b user=c@d", "host=/a/b user=c@d"),
            ("password='x' application_name=http://a", "password=…"),
            ("host=h password=x options=a://b", "host=h password=…"),
            (
                "jdbc:postgresql://h/d?password=x",
                "jdbc:postgresql://h/d?password=…",
            ),
        ] {
            assert_eq!(hide_password(given), shown);
        }
    }
}
