//! Settings of an export: from an option, and from the standard variables of OpenTelemetry.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Time limit of a request, if OTEL_EXPORTER_OTLP_TIMEOUT does not set it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two readings of the metrics, if OTEL_METRIC_EXPORT_INTERVAL does not set it. OpenTelemetry has a
/// minute, which is longer than many replays.
const METRIC_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest interval between two readings.
const METRIC_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Form of an endpoint, for messages.
const EXAMPLE: &str = "give http://HOST:PORT or https://HOST:PORT, such as http://localhost:4318";

/// Settings of an export.
#[derive(Clone)]
pub struct ExportSettings {
    pub(crate) metrics_url: Url,
    pub(crate) traces_url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) interval: Duration,
    pub(crate) resource: Vec<(String, String)>,
    /// Address of the collector for messages, without credentials.
    pub(crate) shown_endpoint: String,
}

impl ExportSettings {
    /// Reads the settings. `endpoint` is the base address, to which `/v1/metrics` and `/v1/traces` are added.
    /// `environment` returns the variables. Returns `None` if OTEL_SDK_DISABLED is `true`.
    ///
    /// # Errors
    /// If the endpoint or a variable is invalid, with what to do. The text has no value of a header.
    pub fn read(
        endpoint: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        // An empty variable counts as absent.
        let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        if let Some(protocol) = variable("OTEL_EXPORTER_OTLP_PROTOCOL")
            && protocol != "http/protobuf"
        {
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is '{protocol}', and only http/protobuf is supported, which collectors take at port 4318; set the variable to http/protobuf, or set OTEL_SDK_DISABLED=true to export nothing"
            ));
        }
        let base = parse_endpoint(endpoint)?;
        let duration = |name: &str, default: Duration| match variable(name) {
            None => Ok(default),
            Some(text) => match text.trim().parse::<u64>() {
                Ok(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
                _ => Err(format!(
                    "{name} is '{text}', which is no number of milliseconds above 0; correct or unset it"
                )),
            },
        };
        let mut shown = base.clone();
        let _ = (shown.set_username(""), shown.set_password(None));
        shown.set_query(None);
        Ok(Some(ExportSettings {
            metrics_url: with_path(&base, "v1/metrics"),
            traces_url: with_path(&base, "v1/traces"),
            headers: parse_headers(&variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default())?,
            timeout: duration("OTEL_EXPORTER_OTLP_TIMEOUT", REQUEST_TIMEOUT)?,
            interval: duration("OTEL_METRIC_EXPORT_INTERVAL", METRIC_INTERVAL)?
                .max(METRIC_INTERVAL_MIN),
            resource: parse_resource(
                &variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default(),
                variable("OTEL_SERVICE_NAME"),
            )?,
            shown_endpoint: shown.as_str().trim_end_matches('/').to_owned(),
        }))
    }

    /// Returns the address of the collector, without credentials.
    pub fn endpoint(&self) -> &str {
        &self.shown_endpoint
    }

    /// Adds an attribute of the program, unless the user set it.
    pub fn add_resource_attribute(&mut self, key: &str, value: &str) {
        if !self.resource.iter().any(|(known, _)| known == key) {
            self.resource.push((key.to_owned(), value.to_owned()));
        }
    }
}

fn parse_endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim())
        .map_err(|error| format!("the OTLP endpoint is no URL ({error}); {EXAMPLE}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err(format!(
            "the OTLP endpoint does not begin with http:// or https://; {EXAMPLE}"
        )),
    }
}

/// Adds a path to a base address. An address that has the path of a signal already is taken as its base.
fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let known = base.path().trim_end_matches('/');
    let known = known
        .strip_suffix("/v1/metrics")
        .or_else(|| known.strip_suffix("/v1/traces"))
        .unwrap_or(known);
    url.set_path(&format!("{known}/{path}"));
    url
}

/// Splits `key=value,key=value`. Values are URL-encoded.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let filled = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    filled
        .map(|pair| {
            let parts = pair.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let (key, value) = parts.filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                format!("{variable} has a part that is not KEY=VALUE; separate the parts by commas, and write a comma in a value as %2C")
            })?;
            let value = percent_decode_str(value).decode_utf8().map_err(|_| {
                format!("{variable} has a value of {key} that is not UTF-8 after decoding; correct it")
            })?;
            Ok((key.to_owned(), value.into_owned()))
        })
        .collect()
}

fn parse_headers(text: &str) -> Result<HeaderMap, String> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let mut headers = HeaderMap::new();
    for (key, value) in pairs(VARIABLE, text)? {
        let name = HeaderName::from_bytes(key.as_bytes()).map_err(|_| {
            format!("{VARIABLE} has '{key}', which is no name of a header; correct it")
        })?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            format!("{VARIABLE} has a value of {key} that no header can have; correct it")
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns the attributes of the program: those of the user, and then the service's name, version and instance.
fn parse_resource(text: &str, service: Option<String>) -> Result<Vec<(String, String)>, String> {
    let mut resource = pairs("OTEL_RESOURCE_ATTRIBUTES", text)?;
    if let Some(service) = service {
        resource.retain(|(key, _)| key != "service.name");
        resource.insert(0, ("service.name".to_owned(), service));
    }
    for (key, value) in [
        ("service.name", "rehearse".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", random_uuid()),
    ] {
        if !resource.iter().any(|(known, _)| known == key) {
            resource.push((key.to_owned(), value));
        }
    }
    Ok(resource)
}

/// Returns a random UUID (RFC 9562, version 4), which tells this process from others with the same name.
fn random_uuid() -> String {
    let mut bytes = [0; 16];
    // Without randomness all processes look like one, which is better than to fail.
    let _ = getrandom::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
    format!("{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(endpoint: &str, variables: &[(&str, &str)]) -> Result<Option<ExportSettings>, String> {
        ExportSettings::read(endpoint, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn endpoint_is_a_base_address() {
        for (endpoint, metrics) in [
            ("http://c:4318", "http://c:4318/v1/metrics"),
            ("https://c/otlp/", "https://c/otlp/v1/metrics"),
            ("http://c:4318/v1/traces", "http://c:4318/v1/metrics"),
        ] {
            let settings = read(endpoint, &[]).unwrap().unwrap();
            assert_eq!(settings.metrics_url.as_str(), metrics);
        }
        for wrong in ["", "c:4318", "localhost", "grpc://c:4317", "http://"] {
            assert!(
                read(wrong, &[])
                    .err()
                    .unwrap()
                    .contains("http://localhost:4318"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn variables_set_headers_times_and_resource() {
        let settings = read(
            "http://me:secret@c:4318?key=secret",
            &[
                ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb, x=1"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
                ("OTEL_METRIC_EXPORT_INTERVAL", ""),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=db%20x"),
                ("OTEL_SERVICE_NAME", "b"),
            ],
        );
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.headers["api-key"], "a,b");
        assert_eq!(settings.headers["x"], "1");
        assert_eq!(settings.timeout, Duration::from_millis(250));
        assert_eq!(settings.interval, METRIC_INTERVAL);
        assert_eq!(settings.endpoint(), "http://c:4318");
        let value = |key: &str| {
            let found = settings.resource.iter().filter(|(known, _)| known == key);
            found.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(value("service.name"), ["b"]);
        assert_eq!(value("team"), ["db x"]);
        assert_eq!(value("service.version"), [env!("CARGO_PKG_VERSION")]);
    }

    #[test]
    fn invalid_variable_is_refused_without_its_secret() {
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_HEADERS", "swordfish"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=swordfish"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=swordfish%0A"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ] {
            let message = read("http://c", &[(variable, value)]).err().unwrap();
            assert!(message.contains(variable), "{message}");
            assert!(!message.contains("swordfish"), "{message}");
        }
        let disabled = [("OTEL_SDK_DISABLED", "true")];
        assert!(read("http://c", &disabled).unwrap().is_none());
    }
}
