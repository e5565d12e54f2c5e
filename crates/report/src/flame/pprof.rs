//! Profiles in the format of pprof: gzip-compressed protocol buffers.
//!
//! The messages and numbers of fields are those of pprof's `proto/profile.proto`
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>). Fields that are always empty here are left out. Texts
//! are indices of the string table, whose first entry is empty. Frames have no addresses, so each function has one location.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{ExportedProfile, SampledQuantity};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Locations, the innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// String table.
struct Strings {
    numbers: HashMap<String, i64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        let (numbers, all) = (HashMap::from([(String::new(), 0)]), vec![String::new()]);
        Strings { numbers, all }
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as i64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

/// Returns the profile for pprof. Each sample has the values `samples` and, in nanoseconds, `cpu` or `wait`; the labels
/// `statement` and `fingerprint` name its statement.
///
/// # Errors
/// If it cannot be compressed for lack of memory.
pub fn pprof(profile: &ExportedProfile) -> io::Result<Vec<u8>> {
    let mut strings = Strings::new();
    let time = match profile.quantity {
        SampledQuantity::Processor => "cpu",
        SampledQuantity::Wait => "wait",
    };
    let mut value_type = |name: &str, unit: &str| ValueType {
        r#type: strings.number(name),
        unit: strings.number(unit),
    };
    let count_type = value_type("samples", "count");
    let time_type = value_type(time, "nanoseconds");
    let mut functions: HashMap<&str, u64> = HashMap::new();
    let mut out = Profile {
        sample_type: vec![count_type, time_type],
        time_nanos: profile.started_wall_us.saturating_mul(1_000),
        duration_nanos: profile.duration_ns,
        period_type: Some(time_type),
        period: profile.period_ns,
        default_sample_type: time_type.r#type,
        ..Profile::default()
    };
    let (statement_key, fingerprint_key) =
        (strings.number("statement"), strings.number("fingerprint"));
    for stack in &profile.stacks {
        let mut location_id = Vec::with_capacity(stack.frames.len());
        for frame in stack.frames.iter().rev() {
            let next = functions.len() as u64 + 1;
            let id = *functions.entry(frame).or_insert_with(|| {
                let name = strings.number(frame);
                out.function.push(Function {
                    id: next,
                    name,
                    system_name: name,
                });
                let line = vec![Line { function_id: next }];
                out.location.push(Location { id: next, line });
                next
            });
            location_id.push(id);
        }
        let mut label = Vec::new();
        if let Some(statement) = &stack.statement {
            let texts = [
                (statement_key, statement.sql.clone()),
                (fingerprint_key, statement.fingerprint.to_string()),
            ];
            for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
                let str = strings.number(&text);
                label.push(Label { key, str });
            }
        }
        out.sample.push(Sample {
            location_id,
            value: vec![stack.samples as i64, stack.ns.round() as i64],
            label,
        });
    }
    let comments = std::iter::once(&profile.name).chain(&profile.notes);
    out.comment = comments.map(|text| strings.number(text)).collect();
    out.string_table = strings.all;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&out.encode_to_vec())?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use sql::Fingerprint;

    use super::super::{ExportedStack, ExportedStatement};
    use super::*;

    #[test]
    fn profile_has_its_stacks_from_the_innermost_frame_with_their_statement() {
        let statement = ExportedStatement::new(Fingerprint(7), Some("select\n $1"));
        let of = ExportedStack::of_folded;
        let profile = ExportedProfile {
            name: "a.run".to_owned(),
            notes: vec!["a note".to_owned()],
            started_wall_us: 5,
            duration_ns: 1_000,
            quantity: SampledQuantity::Processor,
            period_ns: 100,
            stacks: vec![
                of("main;exec;scan", Some(statement), (3, 300.4)),
                of("main;exec", None, (1, 100.0)),
            ],
        };
        let bytes = pprof(&profile).unwrap();
        let mut plain = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        let read = Profile::decode(&plain[..]).unwrap();
        let text = |at: i64| read.string_table[at as usize].as_str();
        assert_eq!(text(0), "");
        let names = |sample: &Sample| -> Vec<&str> {
            let function = |id: &u64| {
                let location = &read.location[*id as usize - 1];
                let function = &read.function[location.line[0].function_id as usize - 1];
                text(function.name)
            };
            sample.location_id.iter().map(function).collect()
        };
        assert_eq!(names(&read.sample[0]), ["scan", "exec", "main"]);
        assert_eq!(names(&read.sample[1]), ["exec", "main"]);
        assert_eq!(read.sample[0].value, [3, 300]);
        let labels = read.sample[0].label.iter();
        let labels: Vec<_> = labels.map(|one| (text(one.key), text(one.str))).collect();
        let fingerprint = Fingerprint(7).to_string();
        assert_eq!(
            labels,
            [("statement", "select $1"), ("fingerprint", &*fingerprint)]
        );
        assert_eq!(read.sample[1].label, []);
        assert_eq!(read.time_nanos, 5_000);
        assert_eq!(text(read.default_sample_type), "cpu");
        assert_eq!(text(read.comment[1]), "a note");
    }
}
