//! Wraps logs as services do, by their documentation or, for syslog, by the server's own
//! `write_syslog` (elog.c).

use serde_json::{Map, Value, json};

/// Lines that the server writes at once: a message, and its DETAIL, STATEMENT and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub pid: u32,
    /// Seconds since the epoch, and microseconds.
    pub time: String,
    /// The lines, each with its folded text, without the last newline.
    pub lines: Vec<String>,
}

const HEADS: [&str; 8] = [
    "LOG:  ",
    "ERROR:  ",
    "FATAL:  ",
    "PANIC:  ",
    "WARNING:  ",
    "NOTICE:  ",
    "INFO:  ",
    "DEBUG:  ",
];
const OTHERS: [&str; 6] = [
    "DETAIL:  ",
    "STATEMENT:  ",
    "CONTEXT:  ",
    "HINT:  ",
    "QUERY:  ",
    "LOCATION:  ",
];

/// Position of the first of these words.
fn first(line: &str, words: &[&str]) -> Option<usize> {
    words.iter().filter_map(|word| line.find(word)).min()
}

/// Whether a line begins a message.
pub fn is_head(line: &str) -> bool {
    match (first(line, &HEADS), first(line, &OTHERS)) {
        (Some(head), Some(other)) => head < other,
        (head, _) => head.is_some(),
    }
}

/// Position of a line's label.
pub fn label_at(line: &str) -> usize {
    let words = [&HEADS[..], &OTHERS].concat();
    first(line, &words).unwrap()
}

/// Splits a stderr log whose prefix has the time first and the process in brackets.
pub fn reports(log: &str) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for line in log.lines() {
        if line.starts_with('\t') {
            let text = reports.last_mut().unwrap().lines.last_mut().unwrap();
            text.push('\n');
            text.push_str(line);
        } else if is_head(line) {
            let pid = line
                .split('[')
                .find_map(|rest| rest.split(']').next()?.parse().ok());
            reports.push(Report {
                pid: pid.unwrap_or_else(|| panic!("{line}")),
                time: line[..19].replace(' ', "T"),
                lines: vec![line.to_owned()],
            });
        } else {
            reports.last_mut().unwrap().lines.push(line.to_owned());
        }
    }
    reports
}

/// Style of a syslog.
#[derive(Debug, Clone, Copy)]
pub struct SyslogStyle {
    pub header: SyslogHeader,
    /// `syslog_sequence_numbers`
    pub numbers: bool,
    /// `syslog_split_messages`
    pub split: bool,
    /// Interleaves two processes' messages, part by part.
    pub interleaved: bool,
    /// Replacements of a tab and a newline.
    pub escapes: [&'static str; 2],
}

#[derive(Debug, Clone, Copy)]
pub enum SyslogHeader {
    Rfc3164,
    Iso,
    Rfc5424,
}

pub const SYSLOG: SyslogStyle = SyslogStyle {
    header: SyslogHeader::Rfc3164,
    numbers: true,
    split: true,
    interleaved: false,
    escapes: ["#011", "#012"],
};

/// Splits a message into parts as `write_syslog` does.
fn parts(text: &str) -> Vec<String> {
    const LIMIT: usize = 900;
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('\n') {
            rest = after;
            continue;
        }
        let line = rest.find('\n').unwrap_or(rest.len());
        let mut length = line.min(LIMIT);
        while !rest.is_char_boundary(length) {
            length -= 1;
        }
        let bytes = rest.as_bytes();
        if length < bytes.len() && !bytes[length].is_ascii_whitespace() {
            let blank = (1..length)
                .rev()
                .find(|at| bytes[*at].is_ascii_whitespace());
            length = blank.unwrap_or(length);
        }
        parts.push(rest[..length].to_owned());
        rest = &rest[length..];
    }
    parts
}

pub fn syslog(reports: &[Report], style: SyslogStyle) -> String {
    let mut sequences = std::collections::HashMap::new();
    let messages: Vec<Vec<String>> = reports
        .iter()
        .map(|report| {
            let sequence: &mut u64 = sequences.entry(report.pid).or_default();
            *sequence += 1;
            let text = report.lines.join("\n") + "\n";
            let texts = match (style.split, style.numbers) {
                (true, true) => parts(&text)
                    .iter()
                    .enumerate()
                    .map(|(index, part)| format!("[{sequence}-{}] {part}", index + 1))
                    .collect(),
                (true, false) => parts(&text)
                    .iter()
                    .enumerate()
                    .map(|(index, part)| format!("[{}] {part}", index + 1))
                    .collect(),
                (false, true) => vec![format!("[{sequence}] {text}")],
                (false, false) => vec![text],
            };
            texts
                .iter()
                .map(|text| {
                    let text = text
                        .trim_end_matches('\n')
                        .replace('\t', style.escapes[0])
                        .replace('\n', style.escapes[1]);
                    format!("{} {text}\n", header(report, style.header))
                })
                .collect()
        })
        .collect();
    let mut all = String::new();
    let mut at = 0;
    while at < messages.len() {
        let two =
            style.interleaved && at + 1 < messages.len() && reports[at].pid != reports[at + 1].pid;
        if !two {
            all.extend(messages[at].iter().map(String::as_str));
            at += 1;
            continue;
        }
        let (one, other) = (&messages[at], &messages[at + 1]);
        for index in 0..one.len().max(other.len()) {
            all.push_str(one.get(index).map_or("", String::as_str));
            all.push_str(other.get(index).map_or("", String::as_str));
        }
        at += 2;
    }
    all
}

fn header(report: &Report, header: SyslogHeader) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (time, pid) = (&report.time, report.pid);
    match header {
        SyslogHeader::Rfc3164 => {
            let month = MONTHS[time[5..7].parse::<usize>().unwrap() - 1];
            let day: u32 = time[8..10].parse().unwrap();
            format!("{month} {day:>2} {} db1 postgres[{pid}]:", &time[11..])
        }
        SyslogHeader::Iso => format!("{time}.500000+00:00 db1 postgres[{pid}]:"),
        SyslogHeader::Rfc5424 => format!("<134>1 {time}.5Z db1 postgres {pid} - -"),
    }
}

/// Formats an export to S3: the event's time, the event as it is.
pub fn cloudwatch_export(reports: &[Report]) -> String {
    let mut all = String::new();
    for report in reports {
        for line in &report.lines {
            all.push_str(&format!("{}.000Z {line}\n", report.time));
        }
    }
    all
}

/// `aws logs tail GROUP`
pub fn cloudwatch_tail(reports: &[Report]) -> String {
    let mut all = String::new();
    for report in reports {
        for line in &report.lines {
            all.push_str(&format!("{}.123000+00:00 shop.0 {line}\n", report.time));
        }
    }
    all
}

/// `aws logs filter-log-events`
pub fn cloudwatch_json(reports: &[Report]) -> String {
    let events: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "logStreamName": "shop.0",
                "timestamp": 1_772_357_405_000_i64,
                "message": report.lines.join("\n"),
                "ingestionTime": 1_772_357_406_000_i64,
                "eventId": "0",
            })
        })
        .collect();
    let all = json!({"events": events, "searchedLogStreams": []});
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

/// Makes one entry of Cloud Logging for each of a message's lines.
pub fn cloudsql_entries(reports: &[Report]) -> Vec<Value> {
    let mut all = Vec::new();
    for report in reports {
        for line in &report.lines {
            all.push(json!({
                "textPayload": line,
                "insertId": format!("s=1;i={}#a1", all.len()),
                "resource": {
                    "type": "cloudsql_database",
                    "labels": {"project_id": "p", "region": "europe-west1", "database_id": "p:shop"}
                },
                "timestamp": format!("{}.123456Z", report.time),
                "severity": "INFO",
                "labels": {"LOG_BUCKET_NUM": "10", "INSTANCE_UID": "1"},
                "logName": "projects/p/logs/cloudsql.googleapis.com%2Fpostgres.log",
                "receiveTimestamp": format!("{}.9Z", report.time),
            }));
        }
    }
    all
}

/// Makes AlloyDB's entries: the source of the message after the label, and no tabs after newlines.
pub fn alloydb_entries(reports: &[Report]) -> Vec<Value> {
    let mut all = cloudsql_entries(reports);
    for entry in &mut all {
        let text = entry["textPayload"].as_str().unwrap();
        let at = text.find(":  ").unwrap() + 3;
        let text = format!("{}[postgres.c:1214]  {}", &text[..at], &text[at..]);
        let folded = text.contains("\n\t");
        entry["textPayload"] = json!(match folded {
            true => text.replace("\n\t", "\n"),
            false => text,
        });
        entry["resource"] = json!({
            "type": "alloydb.googleapis.com/Instance",
            "labels": {"cluster_id": "c", "instance_id": "shop-primary", "location": "l"}
        });
        entry["labels"] = json!({"NODE_ID": "kvqd"});
        entry["logName"] = json!("projects/p/logs/alloydb.googleapis.com%2Fpostgres.log");
    }
    all
}

pub fn json_lines(all: &[Value]) -> String {
    all.iter().map(|one| format!("{one}\n")).collect()
}

/// Formats as `gcloud logging read --format=json` does.
pub fn printed(all: &[Value]) -> String {
    serde_json::to_string_pretty(&all).unwrap() + "\n"
}

/// Makes Azure's diagnostic records: the message with its prefix, the DETAIL without; nothing else.
pub fn azure_records(reports: &[Report]) -> Vec<Value> {
    reports
        .iter()
        .map(|report| {
            let head = &report.lines[0];
            let label = &head[label_at(head)..];
            let mut properties = json!({
                "timestamp": format!("{} UTC", report.time.replace('T', " ")),
                "processId": report.pid,
                "errorLevel": label.split(':').next().unwrap(),
                "message": head,
            });
            for line in &report.lines[1..] {
                let text = &line[label_at(line)..];
                if let Some(detail) = text.strip_prefix("DETAIL:  ") {
                    properties["detail"] = json!(detail.replace("\n\t", "\n"));
                }
            }
            json!({
                "time": format!("{}.830Z", report.time),
                "resourceId": "/SUBSCRIPTIONS/0/RESOURCEGROUPS/R/PROVIDERS/MICROSOFT.DBFORPOSTGRESQL/FLEXIBLESERVERS/SHOP",
                "category": "PostgreSQLLogs",
                "operationName": "LogEvent",
                "location": "westeurope",
                "properties": properties,
            })
        })
        .collect()
}

/// Reduces a log to the lines that Azure has.
pub fn as_azure_has_it(reports: &[Report]) -> String {
    let mut all = String::new();
    for report in reports {
        for (index, line) in report.lines.iter().enumerate() {
            if index == 0 || line[label_at(line)..].starts_with("DETAIL") {
                all.push_str(line);
                all.push('\n');
            }
        }
    }
    all
}

/// csvlog's columns as CloudNativePG names them.
const COLUMNS: [&str; 26] = [
    "log_time",
    "user_name",
    "database_name",
    "process_id",
    "connection_from",
    "session_id",
    "session_line_num",
    "command_tag",
    "session_start_time",
    "virtual_transaction_id",
    "transaction_id",
    "error_severity",
    "sql_state_code",
    "message",
    "detail",
    "hint",
    "internal_query",
    "internal_query_pos",
    "context",
    "query",
    "query_pos",
    "location",
    "application_name",
    "backend_type",
    "leader_pid",
    "query_id",
];

pub fn cnpg_lines(csv: &str) -> String {
    let mut all = String::new();
    for row in csv_rows(csv) {
        let record: Map<String, Value> = COLUMNS
            .iter()
            .zip(row)
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let line = json!({
            "level": "info",
            "ts": "2026-03-01T09:30:05.123456789Z",
            "logger": "postgres",
            "msg": "record",
            "logging_pod": "shop-1",
            "record": record,
        });
        all.push_str(&format!("{line}\n"));
    }
    all
}

fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut value) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, quoted) {
            ('"', true) if characters.peek() == Some(&'"') => {
                value.push('"');
                characters.next();
            }
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut value)),
            ('\n', false) => {
                row.push(std::mem::take(&mut value));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => value.push(c),
        }
    }
    rows
}
