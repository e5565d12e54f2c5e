//! Context of a statement: the route, the job and the trace that a client names in a comment.
//!
//! Clients write it in two forms:
//!
//! - sqlcommenter, which OpenTelemetry, Django and Rails 7.1 use:
//!   `/*controller='posts',route='/posts/%3Cint%3E',traceparent='00-…-01'*/`. Keys and values are URL-encoded, and a
//!   backslash escapes a quote (<https://google.github.io/sqlcommenter/spec/>).
//! - marginalia, which was the form of Rails before: `/*application:Blog,controller:posts,action:index*/`.
//!
//! The comment is the first or the last token of a text. A comment that follows neither form, or only in part, is no
//! context. Comments in literals are data.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use crate::fingerprint::Shaper;
use crate::fingerprint::lexer::{Lexer, Token, comment_end};

/// Maximum bytes of a value. A longer one is no name of a place in an application.
const VALUE_BYTES_MAX: usize = 1024;

/// Part of a context by which statements are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ContextKey {
    /// Pattern of the requested URL, such as `/polls/<int>`.
    Route,
    /// Controller or view.
    Controller,
    /// Action of the controller.
    Action,
    /// Application (`application`, or Django's `app_name`).
    Application,
    /// Background job.
    Job,
}

impl ContextKey {
    /// All keys.
    pub const ALL: [ContextKey; 5] = [
        ContextKey::Route,
        ContextKey::Controller,
        ContextKey::Action,
        ContextKey::Application,
        ContextKey::Job,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            ContextKey::Route => "route",
            ContextKey::Controller => "controller",
            ContextKey::Action => "action",
            ContextKey::Application => "application",
            ContextKey::Job => "job",
        }
    }

    /// Returns the key that has this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    fn of_comment(key: &str) -> Option<Self> {
        match key {
            "app_name" => Some(ContextKey::Application),
            name => Self::from_name(name),
        }
    }
}

/// Identity of equal contexts: a hash of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u64);

/// Place in an application that sent a statement. Absent values are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StatementContext<'a> {
    values: [Cow<'a, str>; ContextKey::ALL.len()],
}

impl<'a> StatementContext<'a> {
    /// Creates a context from the values of [`ContextKey::ALL`]; empty ones are absent.
    pub fn from_values(values: [Cow<'a, str>; ContextKey::ALL.len()]) -> Self {
        StatementContext { values }
    }

    /// Returns the value of a key, if it has one.
    pub fn value(&self, key: ContextKey) -> Option<&str> {
        Some(&*self.values[key as usize]).filter(|value| !value.is_empty())
    }

    /// Returns its identity.
    pub fn id(&self) -> ContextId {
        // No value has a zero byte.
        ContextId(xxh3_64(self.values.join("\0").as_bytes()))
    }

    /// Whether it has no value.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(|value| value.is_empty())
    }

    /// Copies the borrowed values.
    pub fn into_owned(self) -> StatementContext<'static> {
        StatementContext {
            values: self.values.map(|value| Cow::Owned(value.into_owned())),
        }
    }
}

/// Position of a statement in a distributed trace (W3C Trace Context, `traceparent` of version 00).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// Id of the trace; never zero.
    pub trace_id: u128,
    /// Id of the span that sent the statement; never zero.
    pub span_id: u64,
    /// Flags; 1 if the trace is sampled.
    pub flags: u8,
}

impl TraceParent {
    /// Parses `00-` trace id `-` span id `-` flags, in lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |part: &str, digits| {
            let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            part.len() == digits && part.bytes().all(lower)
        };
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_valid = version == "00"
            && parts.next().is_none()
            && is_hex(trace, 32)
            && is_hex(span, 16)
            && is_hex(flags, 2);
        let parent = is_valid.then_some(TraceParent {
            trace_id: u128::from_str_radix(trace, 16).ok()?,
            span_id: u64::from_str_radix(span, 16).ok()?,
            flags: u8::from_str_radix(flags, 16).ok()?,
        });
        parent.filter(|parent| parent.trace_id != 0 && parent.span_id != 0)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceParent {
            trace_id,
            span_id,
            flags,
        } = self;
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Comment that names the context of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextComment<'a> {
    /// Bytes of the comment in the text.
    pub range: Range<usize>,
    /// The context; empty if the comment has a trace only.
    pub context: StatementContext<'a>,
    /// The trace.
    pub trace: Option<TraceParent>,
    /// Whether it has a `traceparent` that cannot be read.
    has_invalid_trace: bool,
}

impl ContextComment<'_> {
    /// Returns the text on the side of the comment on which the statement is.
    pub fn statement<'s>(&self, sql: &'s str) -> &'s str {
        match sql[..self.range.start].trim_ascii().is_empty() {
            true => &sql[self.range.end..],
            false => &sql[..self.range.start],
        }
    }
}

/// Reads the context of texts. It reuses a buffer.
#[derive(Debug, Default)]
pub struct ContextReader {
    shaper: Shaper,
    invalid_traces: u64,
}

impl ContextReader {
    /// Returns the comment that names the context; `None` if there is none.
    pub fn read<'a>(&mut self, sql: &'a str) -> Option<ContextComment<'a>> {
        let at_end = self.at_end(sql);
        let end_start = at_end.as_ref().map(|comment| comment.range.start);
        if let Some(named) = self.named(at_end) {
            return Some(named);
        }
        // A comment alone is both.
        self.named(at_start(sql).filter(|comment| Some(comment.range.start) != end_start))
    }

    /// Returns the number of texts read so far whose comment has a `traceparent` that cannot be read.
    pub fn invalid_traces(&self) -> u64 {
        self.invalid_traces
    }

    /// Returns a comment if it names something.
    fn named<'a>(&mut self, comment: Option<ContextComment<'a>>) -> Option<ContextComment<'a>> {
        let comment = comment?;
        self.invalid_traces += u64::from(comment.has_invalid_trace);
        let is_named = !comment.context.is_empty() || comment.trace.is_some();
        is_named.then_some(comment)
    }

    fn at_end<'a>(&mut self, sql: &'a str) -> Option<ContextComment<'a>> {
        let end_of_statement = |last: char| last.is_ascii_whitespace() || last == ';';
        let text = sql.trim_end_matches(end_of_statement);
        let before = text.strip_suffix("*/")?;
        let start = before.rfind("/*")?;
        let comment = read_comment(&before[start + 2..], start..text.len())?;
        // A text with a shape ends outside of literals and comments.
        let is_token = self.shaper.shape(&sql[..start]).is_some()
            || Lexer::new(text).last()
                == Some(Token::Comment {
                    start,
                    end: text.len(),
                });
        is_token.then_some(comment)
    }
}

fn at_start(sql: &str) -> Option<ContextComment<'_>> {
    let start = sql.len() - sql.trim_ascii_start().len();
    if !sql[start..].starts_with("/*") {
        return None;
    }
    let end = comment_end(sql.as_bytes(), start)?;
    let inner = sql.get(start + 2..end.checked_sub(2)?)?;
    read_comment(inner, start..end)
}

/// Reads what is between `/*` and `*/`.
fn read_comment(inner: &str, range: Range<usize>) -> Option<ContextComment<'_>> {
    // A hint of pg_hint_plan, or nested comments.
    if inner.starts_with('+') || inner.contains("/*") || inner.contains("*/") {
        return None;
    }
    let inner = inner.trim_ascii();
    let mut comment = ContextComment {
        range,
        context: StatementContext::default(),
        trace: None,
        has_invalid_trace: false,
    };
    match inner.contains("='") {
        true => read_sqlcommenter(inner, &mut comment)?,
        false => read_marginalia(inner, &mut comment)?,
    }
    Some(comment)
}

impl<'a> ContextComment<'a> {
    fn add(&mut self, key: &str, value: Cow<'a, str>) {
        if key == "traceparent" {
            self.trace = TraceParent::parse(&value);
            self.has_invalid_trace = self.trace.is_none();
        } else if let Some(key) = ContextKey::of_comment(key)
            && value.len() <= VALUE_BYTES_MAX
            && !value.contains(char::is_control)
        {
            self.context.values[key as usize] = value;
        }
    }
}

/// Reads `key='value',…`. `None` if the text does not follow this form to its end.
fn read_sqlcommenter<'a>(mut rest: &'a str, comment: &mut ContextComment<'a>) -> Option<()> {
    loop {
        let (key, after) = rest.split_once("='")?;
        let end = closing_quote(after)?;
        comment.add(&decode(key.trim_ascii())?, decode(&after[..end])?);
        rest = after[end + 1..].trim_ascii_start();
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// Returns the offset of the quote that ends a value.
fn closing_quote(value: &str) -> Option<usize> {
    let mut is_escaped = false;
    value.bytes().position(|byte| {
        let ends = byte == b'\'' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

/// Removes the backslashes of escaped quotes, and decodes `%3C`. `None` if the result is not UTF-8 or a `%` is not
/// followed by two digits.
fn decode(encoded: &str) -> Option<Cow<'_, str>> {
    if !encoded.contains(['%', '\\']) {
        return Some(Cow::Borrowed(encoded));
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'\\' => bytes.next()?,
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// Reads `key:value,…`. A value may contain commas: a part without a key belongs to the value before it, and is not
/// read. `None` for prose, which has blanks around its colons.
fn read_marginalia<'a>(text: &'a str, comment: &mut ContextComment<'a>) -> Option<()> {
    let is_key = |key: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !key.is_empty() && key.bytes().all(plain)
    };
    for (at, part) in text.split(',').enumerate() {
        match part.split_once(':').filter(|(key, _)| is_key(key)) {
            Some((_, value)) if value.starts_with(' ') => return None,
            Some((key, value)) => comment.add(key, Cow::Borrowed(value)),
            None if at == 0 => return None,
            None => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use ContextKey::{Action, Application, Controller, Job, Route};

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(sql: &str) -> Option<ContextComment<'_>> {
        ContextReader::default().read(sql)
    }

    fn value(sql: &str, key: ContextKey) -> Option<String> {
        read(sql)?.context.value(key).map(str::to_owned)
    }

    #[test]
    fn sqlcommenter_values_are_decoded() {
        let sql = format!(
            "SELECT * FROM polls WHERE id = 'a/*b*/' /*action='it%5C%27s',app_name='a\\'b',\
             controller='x',job='j',route='%2Fpolls%2F%3Cint%3E',traceparent='{TRACE}'*/;\n"
        );
        for (key, expected) in [
            (Action, "it\\'s"),
            (Application, "a'b"),
            (Controller, "x"),
            (Job, "j"),
            (Route, "/polls/<int>"),
        ] {
            assert_eq!(value(&sql, key).as_deref(), Some(expected), "{key:?}");
        }
        let comment = read(&sql).unwrap();
        assert_eq!(comment.trace.unwrap().to_string(), TRACE);
        assert_eq!(
            comment.statement(&sql),
            "SELECT * FROM polls WHERE id = 'a/*b*/' "
        );
    }

    #[test]
    fn marginalia_values_are_read_as_they_are() {
        let sql = "SELECT 1 /*application:Blog,controller:posts,action:index,line:/app/a.rb:3:in `b, c'*/";
        assert_eq!(value(sql, Application).as_deref(), Some("Blog"));
        assert_eq!(value(sql, Controller).as_deref(), Some("posts"));
        assert_eq!(value(sql, Action).as_deref(), Some("index"));
    }

    #[test]
    fn comment_at_the_start_names_the_context_of_the_statement_after_it() {
        let sql = " /*action='index',controller='posts'*/ SELECT 1";
        let comment = read(sql).unwrap();
        assert_eq!(comment.context.value(Controller), Some("posts"));
        assert_eq!(comment.statement(sql), " SELECT 1");
        let hinted = "/*+ SeqScan(t) */ SELECT 1 /*route='/x'*/";
        assert_eq!(value(hinted, Route).as_deref(), Some("/x"));
    }

    #[test]
    fn malformed_and_other_comments_are_no_context() {
        for sql in [
            "",
            "/*",
            "*/",
            "/*/",
            "SELECT 1",
            "SELECT 1 /* all rows */",
            "SELECT 1 /* action: delete, job: 7 */",
            "SELECT 1 /*route='/x*/",
            "SELECT 1 /*route='/x',*/",
            "SELECT 1 /*route='/x' action='y'*/",
            "SELECT 1 /*route='/x%'*/",
            "SELECT 1 /*route='/x%2'*/",
            "SELECT 1 /*route='/x%zz'*/",
            "SELECT 1 /*route='%ff'*/",
            "SELECT 1 /*route='a%00b'*/",
            "SELECT 1 /*route=''*/",
            "SELECT 1 /*framework='django'*/",
            "SELECT 1 /*traceparent='00-0-0-01'*/",
            "SELECT 1 /* a /*route='/x'*/ */",
            "SELECT 1 /* a /*route='/x'*/",
            "/*+ route='/x'*/ SELECT 1",
            "SELECT 1 -- /*route='/x'*/",
            "SELECT 'a /*route='",
            "SELECT 'a /*route:x*/",
            "SELECT $$ /*route='/x'*/",
            "SELECT \"/*route:x*/",
            "SELECT 1 /*route='/x'*/ + 1",
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
        assert_eq!(
            value("SELECT $$'$$ /*route='/x'*/", Route).as_deref(),
            Some("/x")
        );
    }

    #[test]
    fn traceparents_of_other_versions_and_of_zeros_are_none() {
        assert!(TraceParent::parse(TRACE).is_some());
        for other in [
            TRACE.replacen("00", "01", 1),
            TRACE.to_uppercase(),
            format!("{TRACE}-00"),
            TRACE.replace("00f067aa0ba902b7", "0000000000000000"),
            TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f"),
        ] {
            assert_eq!(TraceParent::parse(&other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(
            before in "[ a'$/*;\\\\-]{0,12}",
            inner in "[ a-z='\\\\%2,:/*é]{0,24}",
            after in "[ ;a*/]{0,4}",
        ) {
            let sql = format!("{before}/*{inner}*/{after}");
            if let Some(comment) = read(&sql) {
                // It is a token of the text.
                let is_token = |token| matches!(token, Token::Comment { start, end }
                    if (start..end) == comment.range);
                prop_assert!(Lexer::new(&sql).any(is_token), "{}", sql);
            }
        }

        #[test]
        fn encoded_values_are_read_back(route in "[ -~é]{1,40}") {
            let encoded: String = route.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let sql = format!("SELECT 1 /*route='{encoded}',traceparent='{TRACE}'*/");
            prop_assert_eq!(value(&sql, Route), Some(route));
        }
    }
}
