//! A small model of a PostgreSQL session for the tests: the effect of their statements, and which
//! of them fail. It parses only the texts that the tests generate.

use std::collections::{BTreeMap, BTreeSet};

/// State that a rollback restores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transactional {
    settings: BTreeMap<String, String>,
    locals: BTreeMap<String, String>,
    channels: BTreeSet<String>,
    /// Temporary tables with their changes, and the context of those.
    temporary: BTreeMap<String, (u32, Context)>,
    cursors: BTreeSet<String>,
}

/// Settings that a statement's meaning depended on when it was prepared. `None` if they were local
/// to a transaction: the prepared statement outlives it, and no list of statements outside of it
/// restores them.
type Context = Option<(Option<String>, Option<String>)>;

impl Transactional {
    fn beside(&mut self, other: &Transactional) {
        for (name, (_, context)) in &mut self.temporary {
            if context.is_none()
                && let Some((_, known)) = other.temporary.get(name)
            {
                context.clone_from(known);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    implicit: bool,
    aborted: bool,
    before: Transactional,
    savepoints: Vec<(String, Transactional)>,
    writes: Vec<String>,
    prepared: Vec<String>,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    state: Transactional,
    prepared: BTreeMap<String, Context>,
    locks: BTreeMap<String, u32>,
    open: Option<Open>,
    /// Writes outside of the open transaction.
    pub written: Vec<String>,
}

impl Model {
    /// Sends a text of one or several statements; an error is the index of the failed one.
    pub fn send(&mut self, text: &str) -> Result<(), usize> {
        let parts: Vec<&str> = text.split(';').map(str::trim).collect();
        for (place, part) in parts.iter().enumerate() {
            if self.open.is_none() && parts.len() > 1 {
                self.begin(true);
            }
            if !self.statement(part) {
                match &mut self.open {
                    Some(open) if !open.implicit => open.aborted = true,
                    Some(_) => self.end(false),
                    None => {}
                }
                return Err(place);
            }
        }
        if self.open.as_ref().is_some_and(|open| open.implicit) {
            self.end(true);
        }
        Ok(())
    }

    /// Returns the model without earlier writes, and with the contexts of `other` in place of
    /// unknown ones.
    pub fn beside(mut self, other: &Model) -> Model {
        self.written = Vec::new();
        for (name, context) in &mut self.prepared {
            if context.is_none() {
                *context = other.prepared.get(name).cloned().flatten();
            }
        }
        self.state.beside(&other.state);
        if let (Some(open), Some(other)) = (&mut self.open, &other.open) {
            open.before.beside(&other.before);
            open.prepared.clone_from(&other.prepared);
            for ((_, one), (_, another)) in open.savepoints.iter_mut().zip(&other.savepoints) {
                one.beside(another);
            }
        }
        self
    }

    fn begin(&mut self, implicit: bool) {
        self.open = Some(Open {
            implicit,
            aborted: false,
            before: self.state.clone(),
            savepoints: Vec::new(),
            writes: Vec::new(),
            prepared: Vec::new(),
        });
    }

    fn end(&mut self, commits: bool) {
        let Some(open) = self.open.take() else {
            return;
        };
        if commits && !open.aborted {
            self.written.extend(open.writes);
        } else {
            self.state = open.before;
            self.contexts_are_gone(&open.prepared);
        }
        self.state.locals.clear();
    }

    fn contexts_are_gone(&mut self, prepared: &[String]) {
        for name in prepared {
            if let Some(context) = self.prepared.get_mut(name) {
                *context = None;
            }
        }
    }

    fn context(&self) -> Context {
        let value = |name: &str| self.state.settings.get(name).cloned();
        (self.state.locals.is_empty()).then(|| (value("search_path"), value("role")))
    }

    fn statement(&mut self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        let explicit = self.open.as_ref().is_some_and(|open| !open.implicit);
        let aborted = self.open.as_ref().is_some_and(|open| open.aborted);
        match words[..] {
            ["commit"] => {
                self.end(true);
                return true;
            }
            ["rollback"] => {
                self.end(false);
                return true;
            }
            [ending @ ("commit" | "rollback"), "and", "chain"] => {
                if !explicit {
                    return false;
                }
                self.end(ending == "commit");
                self.begin(false);
                return true;
            }
            ["rollback", "to", name] => {
                let Some(open) = self.open.as_mut().filter(|open| !open.implicit) else {
                    return false;
                };
                let Some(at) = open.savepoints.iter().rposition(|(this, _)| this == name) else {
                    return false;
                };
                open.savepoints.truncate(at + 1);
                self.state = open.savepoints[at].1.clone();
                open.writes.push(text.to_owned());
                open.aborted = false;
                let prepared = open.prepared.clone();
                self.contexts_are_gone(&prepared);
                return true;
            }
            _ if aborted => return false,
            ["begin"] => {
                match &mut self.open {
                    Some(open) => open.implicit = false,
                    None => self.begin(false),
                }
                return true;
            }
            ["savepoint", name] => {
                let Some(open) = self.open.as_mut().filter(|open| !open.implicit) else {
                    return false;
                };
                open.savepoints.push((name.to_owned(), self.state.clone()));
                return true;
            }
            ["release", name] => {
                let Some(open) = self.open.as_mut().filter(|open| !open.implicit) else {
                    return false;
                };
                let Some(at) = open.savepoints.iter().rposition(|(this, _)| this == name) else {
                    return false;
                };
                open.savepoints.truncate(at);
                return true;
            }
            _ => {}
        }
        self.other(text, &words)
    }

    /// Executes a statement that does not end or divide a transaction; false if it fails.
    fn other(&mut self, text: &str, words: &[&str]) -> bool {
        match words[0] {
            "set" | "reset" => self.change_setting(words),
            "discard" => self.discard_all(words),
            "listen" | "unlisten" => self.change_channel(words),
            "prepare" | "deallocate" => self.change_prepared(words),
            "create" | "alter" | "drop" => self.change_temporary_table(words),
            "declare" | "close" => self.change_cursor(words),
            "select" => self.select(words),
            "insert" => self.insert(text),
            _ => unknown(words),
        }
    }

    fn change_setting(&mut self, words: &[&str]) -> bool {
        let state = &mut self.state;
        match *words {
            ["set", "local", name, "=", value] => {
                if self.open.is_some() {
                    state.locals.insert(name.to_owned(), value.to_owned());
                }
            }
            ["set", name, "=", value] | ["set", name @ "role", value] => {
                state.locals.remove(name);
                state.settings.insert(name.to_owned(), value.to_owned());
            }
            ["reset", "all"] => {
                state.settings.retain(|name, _| name == "role");
                state.locals.clear();
            }
            ["reset", name] => {
                state.locals.remove(name);
                state.settings.remove(name);
            }
            _ => unknown(words),
        }
        true
    }

    fn discard_all(&mut self, words: &[&str]) -> bool {
        let ["discard", "all"] = *words else {
            unknown(words)
        };
        if self.open.is_some() {
            return false;
        }
        self.state = Transactional::default();
        self.prepared.clear();
        self.locks.clear();
        true
    }

    fn change_channel(&mut self, words: &[&str]) -> bool {
        match *words {
            ["listen", name] => self.state.channels.insert(name.to_owned()),
            ["unlisten", name] => self.state.channels.remove(name),
            _ => unknown(words),
        };
        true
    }

    fn change_prepared(&mut self, words: &[&str]) -> bool {
        match *words {
            ["prepare", name, "as", ..] => {
                if self.prepared.contains_key(name) {
                    return false;
                }
                self.prepared.insert(name.to_owned(), self.context());
                if let Some(open) = &mut self.open {
                    open.prepared.push(name.to_owned());
                }
                true
            }
            ["deallocate", "all"] => {
                self.prepared.clear();
                true
            }
            ["deallocate", name] => self.prepared.remove(name).is_some(),
            _ => unknown(words),
        }
    }

    fn change_temporary_table(&mut self, words: &[&str]) -> bool {
        let context = self.context();
        let temporary = &mut self.state.temporary;
        match *words {
            ["create", "temp", "table", name, ..] => {
                if temporary.contains_key(name) {
                    return false;
                }
                temporary.insert(name.to_owned(), (0, context));
                true
            }
            ["alter", "table", name, ..] => match temporary.get_mut(name) {
                Some((changes, _)) => {
                    *changes += 1;
                    true
                }
                None => false,
            },
            ["drop", "table", name] => temporary.remove(name).is_some(),
            _ => unknown(words),
        }
    }

    fn change_cursor(&mut self, words: &[&str]) -> bool {
        let cursors = &mut self.state.cursors;
        match *words {
            ["declare", name, "cursor", "with", "hold", ..] => cursors.insert(name.to_owned()),
            ["close", name] => cursors.remove(name),
            _ => unknown(words),
        }
    }

    fn select(&mut self, words: &[&str]) -> bool {
        match *words {
            ["select", call] if call.starts_with("pg_advisory_lock(") => {
                *self.locks.entry(argument(call)).or_default() += 1;
                true
            }
            ["select", call] if call.starts_with("pg_advisory_unlock(") => {
                match self.locks.get_mut(&argument(call)) {
                    Some(1) => {
                        self.locks.remove(&argument(call));
                    }
                    Some(count) => *count -= 1,
                    // The released locks are unknown then, and a slice forgets them all.
                    None => self.locks.clear(),
                }
                true
            }
            ["select", "1/0"] => false,
            _ => true,
        }
    }

    fn insert(&mut self, text: &str) -> bool {
        match &mut self.open {
            Some(open) => open.writes.push(text.to_owned()),
            None => self.written.push(text.to_owned()),
        }
        true
    }
}

fn unknown(words: &[&str]) -> ! {
    panic!("the model does not know: {}", words.join(" "))
}

fn argument(call: &str) -> String {
    call[call.find('(').unwrap()..].to_owned()
}
