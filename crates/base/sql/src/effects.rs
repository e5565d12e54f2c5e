//! Effects of a statement on its session, read from its words.
//!
//! Settings made by a function or a `DO` block are not detected. Sources: PostgreSQL documentation, SQL
//! commands; `DISCARD ALL`: its page; `RESET ALL` and the settings that it does not reset: `GUC_NO_RESET_ALL`
//! in `guc_tables.c`.

use super::byte_pair_prefilter::may_have_pair;
use super::fingerprint::{StatementClass, classify};
use super::statement_splitter::{Lexeme, SqlStatement};

/// One effect of a statement on its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Begins a transaction.
    Begin,
    /// Commits the transaction, or prepares it for a two-phase commit.
    Commit {
        /// It begins the next transaction at once.
        chain: bool,
    },
    /// Rolls the transaction back.
    Rollback {
        /// It begins the next transaction at once.
        chain: bool,
    },
    /// Defines a savepoint.
    Savepoint(String),
    /// Releases a savepoint.
    Release(String),
    /// Rolls back to a savepoint.
    RollbackTo(String),
    /// Lasts to the end of the transaction, and has no effect outside of one.
    Local,
    /// Sets these settings.
    Set(Vec<String>),
    /// Resets these settings to their values at the start of the session.
    Reset(Vec<String>),
    /// Resets all settings.
    ResetAll,
    /// Prepares a statement by SQL.
    Prepare(String),
    /// Deallocates a prepared statement, or all (`None`).
    Deallocate(Option<String>),
    /// Listens to a channel.
    Listen(String),
    /// Stops listening to a channel, or to all (`None`).
    Unlisten(Option<String>),
    /// Declares a cursor `WITH HOLD`, which outlives its transaction.
    HoldCursor(String),
    /// Closes a cursor, or all (`None`).
    CloseCursor(Option<String>),
    /// Creates a temporary object, unless `IF NOT EXISTS` finds it.
    Temporary {
        /// Its name.
        name: String,
        /// `IF NOT EXISTS`.
        if_missing: bool,
    },
    /// Changes an object that may be temporary.
    Alter {
        /// Its name.
        name: String,
        /// Its new name, if it is renamed.
        renamed: Option<String>,
    },
    /// Drops these objects.
    Drop(Vec<String>),
    /// Takes a session-level advisory lock, identified by the text of its arguments.
    Lock(String),
    /// Releases an advisory lock.
    Unlock(String),
    /// Releases all advisory locks.
    UnlockAll,
    /// Loads a library.
    Load(String),
    /// Discards all state of the session.
    DiscardAll,
    /// Drops all temporary objects.
    DiscardTemporary,
    /// Prepares a statement of this name by message.
    MessagePrepared(String),
}

impl Effect {
    /// Whether a rollback undoes it. Prepared statements and advisory locks of the session stay.
    pub fn is_transactional(&self) -> bool {
        !matches!(
            self,
            Effect::Prepare(_)
                | Effect::Deallocate(_)
                | Effect::Lock(_)
                | Effect::Unlock(_)
                | Effect::UnlockAll
                | Effect::MessagePrepared(_)
        )
    }

    /// Whether it affects its own transaction only.
    pub fn is_transaction_local(&self) -> bool {
        matches!(
            self,
            Effect::Begin
                | Effect::Commit { .. }
                | Effect::Rollback { .. }
                | Effect::Savepoint(_)
                | Effect::Release(_)
                | Effect::RollbackTo(_)
                | Effect::Local
        )
    }
}

const ROLE: &str = "role";
const AUTHORIZATION: &str = "session_authorization";

/// Whether `RESET ALL` does not reset the setting.
pub fn survives_reset_all(setting: &str) -> bool {
    is_identity(setting) || setting == "seed"
}

/// Whether the setting is the current role.
pub fn is_identity(setting: &str) -> bool {
    setting == ROLE || setting == AUTHORIZATION
}

/// Whether a text may have effects. It tests the first word and searches for a few substrings. Most texts
/// have no effects and need not be split.
pub fn may_have_effects(sql: &str) -> bool {
    let text = sql.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
    if text
        .trim_end()
        .trim_end_matches(';')
        .as_bytes()
        .contains(&b';')
    {
        return true;
    }
    let word = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .map_or(text, |end| &text[..end]);
    let is = |known: &&str| word.eq_ignore_ascii_case(known);
    if [
        "insert", "update", "delete", "merge", "copy", "fetch", "show",
    ]
    .iter()
    .any(is)
    {
        return false;
    }
    if !["select", "values", "with"].iter().any(is) {
        return true;
    }
    // `set_config`, `pg_advisory_lock`, `INTO TEMP` and the like.
    let bytes = text.as_bytes();
    let telling: [&[u8]; 3] = [b"_config", b"advisory", b"temp"];
    may_have_pair(bytes, [*b"_c", *b"dv", *b"mp"])
        && (0..bytes.len()).any(|at| {
            telling.iter().any(|word| {
                let found = bytes.get(at..at + word.len());
                found.is_some_and(|found| found.eq_ignore_ascii_case(word))
            })
        })
}

/// Reads the effects of one statement, in their order. `parameters` are its readable values.
pub fn read_effects(statement: &SqlStatement<'_>, parameters: &[Option<&str>]) -> Vec<Effect> {
    let words = Words(&statement.words);
    let Some(Lexeme::Word(first)) = statement.words.first() else {
        return Vec::new();
    };
    let one = |effect: Option<Effect>| effect.into_iter().collect();
    match first.to_ascii_lowercase().as_str() {
        "begin" => vec![Effect::Begin],
        "start" if words.at(1, "transaction") => vec![Effect::Begin],
        "commit" | "end" if words.at(1, "prepared") => Vec::new(),
        "commit" | "end" => vec![Effect::Commit {
            chain: words.has_chain(),
        }],
        "rollback" | "abort" => one(read_rollback(&words)),
        "savepoint" => one(words.name(1).map(Effect::Savepoint)),
        "release" => {
            let at = 1 + usize::from(words.at(1, "savepoint") && words.name(2).is_some());
            one(words.name(at).map(Effect::Release))
        }
        "prepare" if words.at(1, "transaction") => vec![Effect::Commit { chain: false }],
        "prepare" => one(words.name(1).map(Effect::Prepare)),
        "deallocate" => {
            let at = 1 + usize::from(words.at(1, "prepare") && words.name(2).is_some());
            let all = words.at(at, "all");
            one(match words.name(at) {
                Some(_) if all => Some(Effect::Deallocate(None)),
                name => name.map(|name| Effect::Deallocate(Some(name))),
            })
        }
        "set" => one(read_set(&words)),
        "reset" => one(read_reset(&words)),
        "listen" => one(words.name(1).map(Effect::Listen)),
        "unlisten" if words.symbol(1, "*") => vec![Effect::Unlisten(None)],
        "unlisten" => one(words.name(1).map(|name| Effect::Unlisten(Some(name)))),
        "declare" => one(words.name(1).map(|name| match words.has_hold() {
            true => Effect::HoldCursor(name),
            false => Effect::Local,
        })),
        "close" if words.at(1, "all") => vec![Effect::CloseCursor(None)],
        "close" => one(words.name(1).map(|name| Effect::CloseCursor(Some(name)))),
        "load" => one(statement
            .words
            .get(1)
            .map(|file| Effect::Load(file.text().to_owned()))),
        "discard" if words.at(1, "all") => vec![Effect::DiscardAll],
        "discard" if words.at(1, "temp") || words.at(1, "temporary") => {
            vec![Effect::DiscardTemporary]
        }
        "create" => one(read_create(&words)),
        "alter" => one(read_alter(&words)),
        "drop" => one(read_drop(&words)),
        "select" | "values" | "with" if classify(statement.text) == StatementClass::Select => {
            let mut effects: Vec<Effect> = read_into_temporary(&words).into_iter().collect();
            effects.extend(read_call_effects(statement, parameters));
            effects
        }
        _ => Vec::new(),
    }
}

/// Words of a statement, with tests by position.
struct Words<'a>(&'a [Lexeme<'a>]);

impl Words<'_> {
    fn at(&self, position: usize, keyword: &str) -> bool {
        self.0.get(position).is_some_and(|word| word.is(keyword))
    }

    fn any(&self, position: usize, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.at(position, keyword))
    }

    fn symbol(&self, position: usize, symbol: &str) -> bool {
        self.0
            .get(position)
            .is_some_and(|word| word.is_symbol(symbol))
    }

    fn name(&self, position: usize) -> Option<String> {
        self.0.get(position)?.name()
    }

    /// Returns a qualified name without its qualifiers, whether the qualifier is `pg_temp`, and the position
    /// after it.
    fn qualified(&self, mut position: usize) -> Option<(String, bool, usize)> {
        let mut name = self.name(position)?;
        let mut temporary = false;
        position += 1;
        while self.symbol(position, ".") {
            temporary = name == "pg_temp";
            name = self.name(position + 1)?;
            position += 2;
        }
        Some((name, temporary, position))
    }

    fn find(&self, keyword: &str) -> Option<usize> {
        self.0.iter().position(|word| word.is(keyword))
    }

    /// Whether the statement has `AND CHAIN`, without `NO`.
    fn has_chain(&self) -> bool {
        self.find("chain")
            .is_some_and(|at| at > 0 && self.at(at - 1, "and"))
    }

    /// Whether the cursor has `WITH HOLD` before its query.
    fn has_hold(&self) -> bool {
        let head = self.find("for").unwrap_or(self.0.len());
        (1..head).any(|at| self.at(at, "hold") && self.at(at - 1, "with"))
    }
}

fn read_rollback(words: &Words<'_>) -> Option<Effect> {
    if words.at(1, "prepared") {
        return None;
    }
    let after = 1 + usize::from(words.any(1, &["work", "transaction"]));
    if words.at(after, "to") {
        let at = after + 1;
        let at = at + usize::from(words.at(at, "savepoint") && words.name(at + 1).is_some());
        return words.name(at).map(Effect::RollbackTo);
    }
    Some(Effect::Rollback {
        chain: words.has_chain(),
    })
}

fn read_set(words: &Words<'_>) -> Option<Effect> {
    if words.any(1, &["local", "constraints", "transaction"]) {
        return Some(Effect::Local);
    }
    let session = words.at(1, "session");
    if session && words.at(2, "characteristics") {
        let mut settings = Vec::new();
        for (keyword, setting) in [
            ("isolation", "default_transaction_isolation"),
            ("read", "default_transaction_read_only"),
            ("deferrable", "default_transaction_deferrable"),
        ] {
            // `ISOLATION LEVEL READ COMMITTED` does not concern read-only mode.
            let reads_only = |at: usize| words.any(at + 1, &["only", "write"]);
            let said = (0..words.0.len())
                .any(|at| words.at(at, keyword) && (keyword != "read" || reads_only(at)));
            if said {
                settings.push(setting.to_owned());
            }
        }
        return Some(Effect::Set(settings));
    }
    let at = 1 + usize::from(session && !words.at(2, "to") && !words.symbol(2, "="));
    let (settings, after) = read_setting(words, at)?;
    let value = after + usize::from(words.at(after, "to") || words.symbol(after, "="));
    Some(match words.at(value, "default") {
        true => Effect::Reset(settings),
        false => Effect::Set(settings),
    })
}

/// Returns the settings named at a position, and the position after the name.
fn read_setting(words: &Words<'_>, at: usize) -> Option<(Vec<String>, usize)> {
    if words.at(at, "authorization") {
        // It also resets the role.
        return Some((vec![AUTHORIZATION.to_owned(), ROLE.to_owned()], at + 1));
    }
    for (first, second, setting) in [
        ("time", Some("zone"), "timezone"),
        ("transaction", Some("isolation"), "transaction_isolation"),
        ("xml", Some("option"), "xmloption"),
        ("names", None, "client_encoding"),
        ("schema", None, "search_path"),
    ] {
        if words.at(at, first) && second.is_none_or(|second| words.at(at + 1, second)) {
            return Some((
                vec![setting.to_owned()],
                at + 1 + usize::from(second.is_some()),
            ));
        }
    }
    let mut name = words.name(at)?.to_lowercase();
    let mut after = at + 1;
    while words.symbol(after, ".") {
        name = format!("{name}.{}", words.name(after + 1)?.to_lowercase());
        after += 2;
    }
    Some((vec![name], after))
}

fn read_reset(words: &Words<'_>) -> Option<Effect> {
    if words.at(1, "all") {
        return Some(Effect::ResetAll);
    }
    let at = 1 + usize::from(words.at(1, "session") && words.at(2, "authorization"));
    read_setting(words, at).map(|(settings, _)| Effect::Reset(settings))
}

fn read_create(words: &Words<'_>) -> Option<Effect> {
    let mut at = 1;
    if words.at(at, "or") && words.at(at + 1, "replace") {
        at += 2;
    }
    at += usize::from(words.any(at, &["local", "global"]));
    let said_temporary = words.any(at, &["temp", "temporary"]);
    at += usize::from(said_temporary);
    if words.at(at, "index") || words.at(at, "unique") && words.at(at + 1, "index") {
        let on = words.find("on")?;
        let at = on + 1 + usize::from(words.at(on + 1, "only"));
        let (name, _, _) = words.qualified(at)?;
        return Some(Effect::Alter {
            name,
            renamed: None,
        });
    }
    at += usize::from(words.any(at, &["recursive", "unlogged"]));
    at += 1;
    let if_missing = words.at(at, "if") && words.at(at + 1, "not");
    at += 3 * usize::from(if_missing);
    let (name, in_temporary, _) = words.qualified(at)?;
    if !said_temporary && !in_temporary {
        return None;
    }
    let until_commit = (0..words.0.len())
        .any(|at| words.at(at, "on") && words.at(at + 1, "commit") && words.at(at + 2, "drop"));
    Some(match until_commit {
        true => Effect::Local,
        false => Effect::Temporary { name, if_missing },
    })
}

fn read_alter(words: &Words<'_>) -> Option<Effect> {
    if !words.any(1, &["table", "view", "sequence", "index"]) {
        return None;
    }
    let mut at = 2;
    at += 2 * usize::from(words.at(at, "if") && words.at(at + 1, "exists"));
    at += usize::from(words.at(at, "only"));
    let (name, _, after) = words.qualified(at)?;
    let renamed = (words.at(after, "rename") && words.at(after + 1, "to"))
        .then(|| words.name(after + 2))
        .flatten();
    Some(Effect::Alter { name, renamed })
}

fn read_drop(words: &Words<'_>) -> Option<Effect> {
    let mut at = 2;
    at += 2 * usize::from(words.at(at, "if") && words.at(at + 1, "exists"));
    let mut names = Vec::new();
    loop {
        let (name, _, after) = words.qualified(at)?;
        names.push(name);
        if !words.symbol(after, ",") {
            return Some(Effect::Drop(names));
        }
        at = after + 1;
    }
}

/// Reads `SELECT … INTO TEMP name`.
fn read_into_temporary(words: &Words<'_>) -> Option<Effect> {
    let into = words.find("into")?;
    if !words.any(into + 1, &["temp", "temporary"]) {
        return None;
    }
    let at = into + 2 + usize::from(words.at(into + 2, "table"));
    let (name, _, _) = words.qualified(at)?;
    Some(Effect::Temporary {
        name,
        if_missing: false,
    })
}

/// Reads the effects of the functions that any statement calls. [`read_effects`] has only those of queries:
/// to restore a session, a statement that writes is not executed again.
pub fn read_call_effects(statement: &SqlStatement<'_>, parameters: &[Option<&str>]) -> Vec<Effect> {
    let words = &statement.words;
    let mut effects = Vec::new();
    for (position, word) in words.iter().enumerate() {
        let opens = words
            .get(position + 1)
            .is_some_and(|next| next.is_symbol("("));
        let (true, Lexeme::Word(_)) = (opens, word) else {
            continue;
        };
        let name = word.name().unwrap_or_default();
        if name == "set_config" {
            effects.push(read_set_config(&read_arguments(
                &words[position + 2..],
                parameters,
            )));
            continue;
        }
        let Some(lock) = name
            .strip_prefix("pg_try_advisory_")
            .or_else(|| name.strip_prefix("pg_advisory_"))
        else {
            continue;
        };
        let key = read_arguments(&words[position + 2..], parameters).join(",");
        effects.push(match lock {
            "lock" => Effect::Lock(key),
            "lock_shared" => Effect::Lock(format!("shared {key}")),
            "unlock" => Effect::Unlock(key),
            "unlock_shared" => Effect::Unlock(format!("shared {key}")),
            "unlock_all" => Effect::UnlockAll,
            "xact_lock" | "xact_lock_shared" => Effect::Local,
            _ => continue,
        });
    }
    effects
}

/// Reads `set_config(name, value, is_local)`.
fn read_set_config(arguments: &[String]) -> Effect {
    let local = arguments.get(2).map(|text| unquote(text).to_lowercase());
    if local.is_some_and(|text| ["true", "t", "on", "yes", "y", "1"].contains(&text.as_str())) {
        return Effect::Local;
    }
    // A computed name is identified by its expression.
    let name = arguments.first().map(|text| unquote(text).to_lowercase());
    match name.unwrap_or_default() {
        name if name == AUTHORIZATION => Effect::Set(vec![name, ROLE.to_owned()]),
        name => Effect::Set(vec![name]),
    }
}

fn unquote(text: &str) -> &str {
    text.strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
        .unwrap_or(text)
}

/// Maximum number of words of a call that are read. Longer calls compute their arguments. Calls may be
/// nested, so the work for each must be bounded.
const CALL_WORDS_MAX: usize = 200;

/// Returns the arguments of a call as texts, from the word after its bracket. Parameters are inserted as
/// literals.
fn read_arguments(words: &[Lexeme<'_>], parameters: &[Option<&str>]) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut one = String::new();
    let mut depth = 0_u32;
    for word in words.iter().take(CALL_WORDS_MAX) {
        match word.text() {
            ")" if depth == 0 => break,
            "," if depth == 0 => {
                arguments.push(std::mem::take(&mut one));
                continue;
            }
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        let value = match word {
            Lexeme::Value(text) => text
                .strip_prefix('$')
                .and_then(|number| number.parse::<usize>().ok())
                .and_then(|number| *parameters.get(number.checked_sub(1)?)?),
            _ => None,
        };
        let after_word = one.ends_with(|c: char| c.is_alphanumeric() || c == '\'');
        if after_word && !matches!(word, Lexeme::Symbol(_)) {
            one.push(' ');
        }
        match value {
            // A number is the same whether bound or written.
            Some(number) if number.parse::<i64>().is_ok() => one.push_str(number),
            Some(text) => one.push_str(&format!("'{text}'")),
            None => one.push_str(word.text()),
        }
    }
    if !one.is_empty() {
        arguments.push(one);
    }
    arguments
}

#[cfg(test)]
#[path = "effects/tests.rs"]
mod tests;
