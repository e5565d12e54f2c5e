//! What a session holds outside of transactions: the statements that made it, in their order.
//!
//! What is undone or done anew leaves the list. Where a statement was prepared, or a temporary
//! table made, its meaning may hang on the settings before it; these stay then, also where they
//! change later.

use std::collections::HashSet;

use super::effects::{Effect, is_identity, survives_reset_all};
use super::session_state::bytes_of;
use crate::event::Event;

/// The most items that are held of one session; the oldest go.
const ITEMS_MAX: usize = 4_096;
/// The most bytes of SQL and parameters that are held in the items of one session.
const ITEMS_BYTES_MAX: usize = 4 << 20;

/// What an item is remembered by.
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

/// A statement that made something that the session still holds.
#[derive(Debug, Clone)]
struct Item {
    keys: Vec<Key>,
    /// It sets back: without something before it, it is not needed.
    resets: bool,
    event: Event,
}

impl Item {
    /// Its meaning may hang on the settings before it.
    fn hangs_on_settings(&self) -> bool {
        self.keys.iter().any(|key| {
            matches!(
                key,
                Key::Prepared(_) | Key::Message(_) | Key::Cursor(_) | Key::Temporary(_)
            )
        })
    }
}

/// The list. See the module's text.
#[derive(Debug, Clone, Default)]
pub(super) struct Items {
    list: Vec<Item>,
    /// Names of temporary tables and the like, also those of an open transaction.
    temporary: HashSet<String>,
    /// The slice has the session: only the temporary names are followed.
    given_out: bool,
    /// Something was too much to hold.
    cut: bool,
}

impl Items {
    /// Whether a statement does something that the session holds.
    pub(super) fn carries(&self, effects: &[Effect]) -> bool {
        let temporary = |name: &String| self.temporary.contains(name);
        effects.iter().any(|effect| match effect {
            Effect::Alter { name, .. } => temporary(name),
            Effect::Drop(names) => names.iter().any(temporary),
            _ => true,
        })
    }

    /// An execution by message carries the text of this name: it need not be prepared before.
    pub(super) fn executed(&mut self, name: &str) {
        if !name.is_empty() && !self.list.is_empty() {
            self.forget(|key| matches!(key, Key::Message(this) if this == name));
        }
    }

    /// A transaction that is still open makes these.
    pub(super) fn will_be_temporary(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Temporary { name, .. } = effect {
                self.temporary.insert(name.clone());
            }
        }
    }

    /// A transaction was rolled back: what it made is not there.
    pub(super) fn rolled_back(&mut self) {
        if self.given_out {
            return;
        }
        let keys = self.list.iter().flat_map(|item| &item.keys);
        self.temporary = keys
            .filter_map(|key| match key {
                Key::Temporary(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
    }

    /// Whether something is held that another connection cannot be given: rows of temporary tables,
    /// cursors, locks, and notifications that come meanwhile.
    pub(super) fn hang_on_connection(&self) -> bool {
        let hangs = |key: &Key| {
            matches!(
                key,
                Key::Temporary(_) | Key::Cursor(_) | Key::Lock(_) | Key::Channel(_)
            )
        };
        self.list.iter().any(|item| item.keys.iter().any(hangs))
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many temporary names there are.
    pub(super) fn temporary_objects(&self) -> u64 {
        self.temporary.len() as u64
    }

    /// The session is in the slice from here on; hands out the statements, and whether some are
    /// missing.
    pub(super) fn give_out(&mut self) -> (Vec<Event>, bool) {
        self.given_out = true;
        let list = std::mem::take(&mut self.list);
        let events = list.into_iter().map(|item| item.event).collect();
        (events, std::mem::take(&mut self.cut))
    }

    /// What a statement did counts from here on.
    pub(super) fn apply(&mut self, effects: &[Effect], event: Event) {
        let mut keys = Vec::new();
        let mut resets = false;
        for effect in effects {
            match effect {
                Effect::Begin
                | Effect::Commit { .. }
                | Effect::Rollback { .. }
                | Effect::Savepoint(_)
                | Effect::Release(_)
                | Effect::RollbackTo(_)
                | Effect::Local => {}
                Effect::Set(settings) => {
                    keys.extend(settings.iter().cloned().map(Key::Setting));
                }
                Effect::Reset(settings) => {
                    resets = true;
                    keys.extend(settings.iter().cloned().map(Key::Setting));
                }
                Effect::ResetAll => {
                    resets = true;
                    keys.push(Key::AllSettings);
                }
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
                    if !self.list.iter().any(|item| item.keys.contains(&key)) {
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
                    let known = self.list.iter().any(|item| item.keys.contains(&key));
                    if !(known && *if_missing) {
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
                        self.list.iter_mut().for_each(|item| {
                            item.keys.retain(|key| *key != Key::Temporary(name.clone()));
                        });
                    }
                    self.list.retain(|item| !item.keys.is_empty());
                }
                Effect::Lock(arguments) => keys.push(Key::Lock(arguments.clone())),
                Effect::Unlock(arguments) => self.unlock(arguments),
                Effect::UnlockAll => self.forget(|key| matches!(key, Key::Lock(_))),
                Effect::Load(library) => {
                    let key = Key::Library(library.clone());
                    if !self.list.iter().any(|item| item.keys.contains(&key)) {
                        keys.push(key);
                    }
                }
                Effect::DiscardAll => {
                    let libraries = |item: &Item| matches!(item.keys[..], [Key::Library(_)]);
                    self.list.retain(libraries);
                    self.temporary.clear();
                }
                Effect::DiscardTemporary => {
                    self.forget(|key| matches!(key, Key::Temporary(_)));
                    self.temporary.clear();
                }
            }
        }
        if keys.is_empty() || self.given_out {
            return;
        }
        let changes_settings = keys
            .iter()
            .any(|key| matches!(key, Key::Setting(_) | Key::AllSettings));
        self.list.push(Item {
            keys,
            resets,
            event,
        });
        if changes_settings {
            self.settle();
        }
        let mut bytes: usize = self.list.iter().map(|item| bytes_of(&item.event)).sum();
        while self.list.len() > ITEMS_MAX || bytes > ITEMS_BYTES_MAX {
            bytes -= bytes_of(&self.list.remove(0).event);
            self.cut = true;
        }
    }

    fn forget(&mut self, goes: impl Fn(&Key) -> bool) {
        for item in &mut self.list {
            item.keys.retain(|key| !goes(key));
        }
        self.list.retain(|item| !item.keys.is_empty());
    }

    /// A lock is taken as often as it is asked for. Where it is not known which one goes, all do:
    /// a lock that the session had not would let others wait for ever.
    fn unlock(&mut self, arguments: &str) {
        let is_it = |key: &Key| matches!(key, Key::Lock(this) if this == arguments);
        match self
            .list
            .iter_mut()
            .rev()
            .find(|item| item.keys.iter().any(is_it))
        {
            Some(item) => {
                let at = item.keys.iter().rposition(is_it).expect("just found");
                item.keys.remove(at);
                self.list.retain(|item| !item.keys.is_empty());
            }
            None => self.forget(|key| matches!(key, Key::Lock(_))),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> String {
        self.temporary.remove(from);
        self.temporary.insert(to.to_owned());
        for key in self.list.iter_mut().flat_map(|item| &mut item.keys) {
            if *key == Key::Temporary(from.to_owned()) {
                *key = Key::Temporary(to.to_owned());
            }
        }
        to.to_owned()
    }

    /// Takes out the settings that later ones replace. What hangs on settings keeps those before
    /// it; and whatever is kept keeps who acted before it, since others may not be allowed to.
    fn settle(&mut self) {
        let mut later: HashSet<Key> = HashSet::new();
        let mut all_later = false;
        for item in self.list.iter_mut().rev() {
            if item.hangs_on_settings() {
                later.clear();
                all_later = false;
            }
            item.keys.retain(|key| match key {
                Key::Setting(name) => {
                    !(later.contains(key) || all_later && !survives_reset_all(name))
                }
                Key::AllSettings => !all_later,
                _ => true,
            });
            if item.keys.is_empty() {
                continue;
            }
            let identity = |key: &Key| matches!(key, Key::Setting(name) if is_identity(name));
            if !item.keys.iter().any(identity) {
                later.retain(|key| !identity(key));
            }
            for key in &item.keys {
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
        self.list.retain(|item| {
            let needed = |key: &Key| match key {
                Key::Setting(name) => set.contains(name),
                Key::AllSettings => set.iter().any(|name| !survives_reset_all(name)),
                _ => true,
            };
            if item.keys.is_empty() || item.resets && !item.keys.iter().any(needed) {
                return false;
            }
            set.extend(item.keys.iter().filter_map(|key| match key {
                Key::Setting(name) => Some(name.clone()),
                _ => None,
            }));
            true
        });
    }
}
