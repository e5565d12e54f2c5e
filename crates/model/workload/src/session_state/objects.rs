//! Objects that a session keeps across transactions, as the statements that made them, in their order.
//!
//! A statement leaves the list when it is undone or superseded. The meaning of a prepared statement, a cursor
//! or a temporary table may depend on the settings before it. Such settings stay, even if they change later.

use std::collections::HashSet;

use super::tracker::event_bytes;
use crate::event::Event;
use sql::{Effect, is_identity, survives_reset_all};

/// Maximum number of statements of one session; the oldest are dropped.
const STATEMENTS_MAX: usize = 4_096;
/// Maximum bytes of SQL and parameters of one session.
const BYTES_MAX: usize = 4 << 20;

/// Identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Setting(String),
    AllSettings,
    Prepared(String),
    Message(String),
    Channel(String),
    Cursor(String),
    Temporary(String),
    Lock(String),
    Library(String),
}

impl Key {
    fn is_setting(&self) -> bool {
        matches!(self, Key::Setting(_) | Key::AllSettings)
    }
}

/// A statement whose objects still exist.
#[derive(Debug, Clone)]
struct StateStatement {
    keys: Vec<Key>,
    /// It resets settings. It is needed only if an earlier statement sets them.
    resets: bool,
    event: Event,
}

impl StateStatement {
    /// Whether the statement's meaning may depend on the settings before it.
    fn depends_on_settings(&self) -> bool {
        self.keys.iter().any(|key| {
            matches!(
                key,
                Key::Prepared(_) | Key::Message(_) | Key::Cursor(_) | Key::Temporary(_)
            )
        })
    }
}

/// Objects of a session: settings, prepared statements, channels, cursors, advisory locks, libraries and temporary
/// objects.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionObjects {
    statements: Vec<StateStatement>,
    /// Names of temporary objects, including those of an open transaction.
    temporary: HashSet<String>,
    /// The statements were taken; only the names of temporary objects are followed since.
    is_taken: bool,
    /// Statements were dropped because of the limits.
    is_truncated: bool,
}

impl SessionObjects {
    /// Whether these effects change something that the session keeps.
    pub(super) fn are_changed_by(&self, effects: &[Effect]) -> bool {
        let temporary = |name: &String| self.temporary.contains(name);
        effects.iter().any(|effect| match effect {
            Effect::Alter { name, .. } => temporary(name),
            Effect::Drop(names) => names.iter().any(temporary),
            _ => true,
        })
    }

    /// Forgets the preparation of this name by message: its execution carries the text.
    pub(super) fn forget_message_prepared(&mut self, name: &str) {
        if !name.is_empty() && !self.statements.is_empty() {
            self.forget(|key| matches!(key, Key::Message(this) if this == name));
        }
    }

    /// Adds the names of temporary objects that an open transaction creates.
    pub(super) fn add_uncommitted_temporary(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Temporary { name, .. } = effect {
                self.temporary.insert(name.clone());
            }
        }
    }

    /// Removes the names of temporary objects whose transaction was rolled back.
    pub(super) fn remove_uncommitted_temporary(&mut self) {
        if self.is_taken {
            return;
        }
        let keys = self.statements.iter().flat_map(|statement| &statement.keys);
        self.temporary = keys
            .filter_map(|key| match key {
                Key::Temporary(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
    }

    /// Whether an object cannot be restored on another connection: rows of temporary tables, cursors, locks, and
    /// notifications sent in between.
    pub(super) fn are_bound_to_connection(&self) -> bool {
        let is_bound = |key: &Key| {
            matches!(
                key,
                Key::Temporary(_) | Key::Cursor(_) | Key::Lock(_) | Key::Channel(_)
            )
        };
        self.statements
            .iter()
            .any(|statement| statement.keys.iter().any(is_bound))
    }

    /// The statements that change settings, in their order.
    pub(super) fn settings(&self) -> impl Iterator<Item = &Event> {
        let statements = self.statements.iter();
        let sets = statements.filter(|statement| statement.keys.iter().any(Key::is_setting));
        sets.map(|statement| &statement.event)
    }

    /// Estimates the memory of the statements, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let statements = self.statements.iter();
        statements
            .map(|statement| event_bytes(&statement.event))
            .sum()
    }

    /// Number of temporary objects.
    pub(super) fn temporary_count(&self) -> u64 {
        self.temporary.len() as u64
    }

    /// Takes the statements, and whether some were dropped. Afterwards only the names of temporary objects
    /// are followed.
    pub(super) fn take_statements(&mut self) -> (Vec<Event>, bool) {
        self.is_taken = true;
        let statements = std::mem::take(&mut self.statements);
        let events = statements
            .into_iter()
            .map(|statement| statement.event)
            .collect();
        (events, std::mem::take(&mut self.is_truncated))
    }

    /// Applies the effects of a statement.
    pub(super) fn apply(&mut self, effects: &[Effect], event: Event) {
        let mut keys = Vec::new();
        for effect in effects {
            self.apply_effect(effect, &mut keys);
        }
        if keys.is_empty() || self.is_taken {
            return;
        }
        let changes_settings = keys.iter().any(Key::is_setting);
        let is_reset = |effect: &Effect| matches!(effect, Effect::Reset(_) | Effect::ResetAll);
        self.statements.push(StateStatement {
            keys,
            resets: effects.iter().any(is_reset),
            event,
        });
        if changes_settings {
            self.remove_superseded_settings();
        }
        let statements = self.statements.iter();
        let mut bytes: usize = statements
            .map(|statement| event_bytes(&statement.event))
            .sum();
        while self.statements.len() > STATEMENTS_MAX || bytes > BYTES_MAX {
            bytes -= event_bytes(&self.statements.remove(0).event);
            self.is_truncated = true;
        }
    }

    /// Applies one effect; adds the objects that it makes to `keys`.
    fn apply_effect(&mut self, effect: &Effect, keys: &mut Vec<Key>) {
        match effect {
            Effect::Begin
            | Effect::Commit { .. }
            | Effect::Rollback { .. }
            | Effect::Savepoint(_)
            | Effect::Release(_)
            | Effect::RollbackTo(_)
            | Effect::Local => {}
            Effect::Set(settings) | Effect::Reset(settings) => {
                keys.extend(settings.iter().cloned().map(Key::Setting));
            }
            Effect::ResetAll => keys.push(Key::AllSettings),
            Effect::Prepare(name) => keys.push(Key::Prepared(name.clone())),
            Effect::MessagePrepared(name) => {
                self.forget(|key| *key == Key::Message(name.clone()));
                keys.push(Key::Message(name.clone()));
            }
            Effect::Deallocate(name) => self.forget(|key| match (key, name) {
                (Key::Prepared(_) | Key::Message(_), None) => true,
                (Key::Prepared(this) | Key::Message(this), Some(name)) => this == name,
                _ => false,
            }),
            Effect::Listen(channel) => {
                let key = Key::Channel(channel.clone());
                if !self.has(&key) {
                    keys.push(key);
                }
            }
            Effect::Unlisten(channel) => self.forget(|key| match (key, channel) {
                (Key::Channel(_), None) => true,
                (Key::Channel(this), Some(channel)) => this == channel,
                _ => false,
            }),
            Effect::HoldCursor(name) => keys.push(Key::Cursor(name.clone())),
            Effect::CloseCursor(name) => self.forget(|key| match (key, name) {
                (Key::Cursor(_), None) => true,
                (Key::Cursor(this), Some(name)) => this == name,
                _ => false,
            }),
            Effect::Temporary { name, if_missing } => {
                self.temporary.insert(name.clone());
                let key = Key::Temporary(name.clone());
                let exists = self.has(&key);
                if !(exists && *if_missing) {
                    keys.push(key);
                }
            }
            Effect::Alter { name, renamed } => {
                if self.temporary.contains(name) {
                    let name = match renamed {
                        Some(renamed) => self.rename(name, renamed),
                        None => name.clone(),
                    };
                    keys.push(Key::Temporary(name));
                }
            }
            Effect::Drop(names) => {
                for name in names.iter().filter(|name| self.temporary.remove(*name)) {
                    self.statements.iter_mut().for_each(|statement| {
                        statement
                            .keys
                            .retain(|key| *key != Key::Temporary(name.clone()));
                    });
                }
                self.statements
                    .retain(|statement| !statement.keys.is_empty());
            }
            Effect::Lock(arguments) => keys.push(Key::Lock(arguments.clone())),
            Effect::Unlock(arguments) => self.unlock(arguments),
            Effect::UnlockAll => self.forget(|key| matches!(key, Key::Lock(_))),
            Effect::Load(library) => {
                let key = Key::Library(library.clone());
                if !self.has(&key) {
                    keys.push(key);
                }
            }
            Effect::DiscardAll => {
                let libraries =
                    |statement: &StateStatement| matches!(statement.keys[..], [Key::Library(_)]);
                self.statements.retain(libraries);
                self.temporary.clear();
            }
            Effect::DiscardTemporary => {
                self.forget(|key| matches!(key, Key::Temporary(_)));
                self.temporary.clear();
            }
        }
    }

    fn has(&self, key: &Key) -> bool {
        self.statements
            .iter()
            .any(|statement| statement.keys.contains(key))
    }

    fn forget(&mut self, goes: impl Fn(&Key) -> bool) {
        for statement in &mut self.statements {
            statement.keys.retain(|key| !goes(key));
        }
        self.statements
            .retain(|statement| !statement.keys.is_empty());
    }

    /// Forgets one acquisition of a lock. A lock is held as often as it was acquired. If the lock is unknown,
    /// all locks are forgotten: restoring a lock that the session had released would block others forever.
    fn unlock(&mut self, arguments: &str) {
        let is_it = |key: &Key| matches!(key, Key::Lock(this) if this == arguments);
        match self
            .statements
            .iter_mut()
            .rev()
            .find(|statement| statement.keys.iter().any(is_it))
        {
            Some(statement) => {
                let at = statement.keys.iter().rposition(is_it).expect("just found");
                statement.keys.remove(at);
                self.statements
                    .retain(|statement| !statement.keys.is_empty());
            }
            None => self.forget(|key| matches!(key, Key::Lock(_))),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> String {
        self.temporary.remove(from);
        self.temporary.insert(to.to_owned());
        for key in self
            .statements
            .iter_mut()
            .flat_map(|statement| &mut statement.keys)
        {
            if *key == Key::Temporary(from.to_owned()) {
                *key = Key::Temporary(to.to_owned());
            }
        }
        to.to_owned()
    }

    /// Removes the settings that later ones replace. A statement that depends on settings keeps those before it, and
    /// every statement keeps the role before it, whose rights it may need.
    fn remove_superseded_settings(&mut self) {
        let mut later: HashSet<Key> = HashSet::new();
        let mut all_later = false;
        for statement in self.statements.iter_mut().rev() {
            if statement.depends_on_settings() {
                later.clear();
                all_later = false;
            }
            statement.keys.retain(|key| match key {
                Key::Setting(name) => {
                    !(later.contains(key) || all_later && !survives_reset_all(name))
                }
                Key::AllSettings => !all_later,
                _ => true,
            });
            if statement.keys.is_empty() {
                continue;
            }
            let identity = |key: &Key| matches!(key, Key::Setting(name) if is_identity(name));
            if !statement.keys.iter().any(identity) {
                later.retain(|key| !identity(key));
            }
            for key in &statement.keys {
                match key {
                    Key::Setting(_) => {
                        later.insert(key.clone());
                    }
                    Key::AllSettings => all_later = true,
                    _ => {}
                }
            }
        }
        let mut set: HashSet<String> = HashSet::new();
        self.statements.retain(|statement| {
            let needed = |key: &Key| match key {
                Key::Setting(name) => set.contains(name),
                Key::AllSettings => set.iter().any(|name| !survives_reset_all(name)),
                _ => true,
            };
            if statement.keys.is_empty() || statement.resets && !statement.keys.iter().any(needed) {
                return false;
            }
            set.extend(statement.keys.iter().filter_map(|key| match key {
                Key::Setting(name) => Some(name.clone()),
                _ => None,
            }));
            true
        });
    }
}
