//! Two targets side by side.

use analyse::targets::{
    Detail, IndexDifference, ObjectDifference, Presence, SettingDifference, SettingSide,
    SizeDifference, TargetsComparison,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Two targets side by side: what is different, as far as both runs know it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetsView {
    /// Nothing but places (ports, directories) and sizes is different.
    pub same: bool,
    /// The server's version before; `null` where it is not known.
    pub version_before: Option<String>,
    /// The server's version after.
    pub version_after: Option<String>,
    /// Settings that differ; those that bear on plans first, and of these what somebody set before what
    /// the versions brought.
    pub settings: Vec<SettingView>,
    /// Settings that only the server before has, and that are as by default there.
    pub settings_gone: usize,
    /// Settings that only the server after has, and that are as by default there.
    pub settings_new: usize,
    /// Databases whose encoding, locale or collation differs.
    pub databases: Vec<ObjectView>,
    /// Extensions that are on one side only or of another version.
    pub extensions: Vec<ObjectView>,
    /// Tables and the like that are on one side only, or defined otherwise.
    pub relations: Vec<ObjectView>,
    /// Indexes that are on one side only, defined otherwise, or called otherwise.
    pub indexes: Vec<IndexView>,
    /// Indexes that queries may not use.
    pub invalid_indexes: Vec<InvalidIndexView>,
    /// Tables and indexes whose size or estimated rows differ by more than a factor of two; the
    /// greatest factor first.
    pub sizes: Vec<SizeView>,
    /// What is not known of a side, and why.
    pub notes: Vec<TargetNoteView>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingView {
    /// Which.
    pub name: String,
    /// What it bears on: `planner`, `resources`, `other`, `watching` (logs and the like) or `place`
    /// (ports, directories, names).
    pub bearing: &'static str,
    /// Both are as by default: it is the versions that differ.
    pub by_version: bool,
    /// Before; `null` where that server has none, or it may not be seen.
    pub before: Option<SettingSideView>,
    /// After.
    pub after: Option<SettingSideView>,
}

/// A setting on one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingSideView {
    /// Its value as `SHOW` has it; `null` where it may be a secret, and was not kept.
    pub value: Option<String>,
    /// Where it comes from, in the server's words.
    pub source: String,
    /// It is as by default.
    pub default: bool,
    /// A change in a file waits for a restart.
    pub pending_restart: bool,
}

/// Something that is on one side only, or not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ObjectView {
    /// Its database.
    pub database: String,
    /// Its name; with its schema where it has one.
    pub name: String,
    /// `differs`, `only before` or `only after`.
    pub presence: &'static str,
    /// What differs.
    pub details: Vec<DetailView>,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DetailView {
    /// What.
    pub what: String,
    /// Before; `null` where there is none.
    pub before: Option<String>,
    /// After.
    pub after: Option<String>,
}

/// An index that is on one side only, or not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexView {
    /// Its database.
    pub database: String,
    /// Its table, with the schema.
    pub table: String,
    /// Its name; before, where it has two.
    pub name: String,
    /// Its name after, where the same index is called otherwise there.
    pub renamed: Option<String>,
    /// `differs`, `only before` or `only after`.
    pub presence: &'static str,
    /// `CREATE INDEX …`, of the side that has it, or before.
    pub definition: String,
    /// What differs.
    pub details: Vec<DetailView>,
}

/// An index that queries may not use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InvalidIndexView {
    /// `before` or `after`.
    pub side: &'static str,
    /// Its database.
    pub database: String,
    /// Its table, with the schema.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Writes keep it up to date all the same.
    pub ready: bool,
}

/// A table or an index of another size.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SizeView {
    /// Its database.
    pub database: String,
    /// Its name, with the schema.
    pub name: String,
    /// It is an index.
    pub index: bool,
    /// The greater one of the factors by which rows and bytes differ.
    pub factor: f64,
    /// The planner's estimate of rows before; `null`: never analysed, or an index.
    pub rows_before: Option<u64>,
    /// And after.
    pub rows_after: Option<u64>,
    /// Bytes before; `null` where they are not known.
    pub bytes_before: Option<u64>,
    /// And after.
    pub bytes_after: Option<u64>,
    /// One side was never analysed: its plans rest on guesses.
    pub unanalysed: bool,
}

/// What is not known of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TargetNoteView {
    /// `before` or `after`.
    pub side: &'static str,
    /// What it is about: `settings`, `relations` …
    pub about: String,
    /// In a sentence.
    pub text: String,
    /// How many were left out, where something was counted.
    pub count: Option<u64>,
}

impl TargetsView {
    /// The view of a comparison.
    pub fn new(found: &TargetsComparison) -> Self {
        let [version_before, version_after] = found.versions.clone();
        let notes = found.notes.iter();
        let invalid = found.invalid_indexes.iter();
        TargetsView {
            same: found.is_same(),
            version_before,
            version_after,
            settings: found.settings.iter().map(setting).collect(),
            settings_gone: found.settings_gone,
            settings_new: found.settings_new,
            databases: found.databases.iter().map(object).collect(),
            extensions: found.extensions.iter().map(object).collect(),
            relations: found.relations.iter().map(object).collect(),
            indexes: found.indexes.iter().map(index).collect(),
            invalid_indexes: invalid
                .map(|one| InvalidIndexView {
                    side: one.side.name(),
                    database: one.database.clone(),
                    table: one.table.clone(),
                    name: one.name.clone(),
                    ready: one.ready,
                })
                .collect(),
            sizes: found.sizes.iter().map(size).collect(),
            notes: notes
                .map(|(side, note)| TargetNoteView {
                    side: side.name(),
                    about: note.about.clone(),
                    text: note.text.clone(),
                    count: note.count,
                })
                .collect(),
        }
    }
}

fn setting(difference: &SettingDifference) -> SettingView {
    let side = |side: &SettingSide| SettingSideView {
        value: side.value.clone(),
        source: side.source.clone(),
        default: side.default,
        pending_restart: side.pending_restart,
    };
    SettingView {
        name: difference.name.clone(),
        bearing: difference.bearing.name(),
        by_version: difference.by_version,
        before: difference.before.as_ref().map(side),
        after: difference.after.as_ref().map(side),
    }
}

fn details(details: &[Detail]) -> Vec<DetailView> {
    let view = |detail: &Detail| DetailView {
        what: detail.what.clone(),
        before: detail.before.clone(),
        after: detail.after.clone(),
    };
    details.iter().map(view).collect()
}

fn presence(presence: Presence) -> &'static str {
    presence.name()
}

fn object(difference: &ObjectDifference) -> ObjectView {
    ObjectView {
        database: difference.database.clone(),
        name: difference.name.clone(),
        presence: presence(difference.presence),
        details: details(&difference.details),
    }
}

fn index(difference: &IndexDifference) -> IndexView {
    IndexView {
        database: difference.database.clone(),
        table: difference.table.clone(),
        name: difference.name.clone(),
        renamed: difference.renamed.clone(),
        presence: presence(difference.presence),
        definition: difference.definition.clone(),
        details: details(&difference.details),
    }
}

fn size(difference: &SizeDifference) -> SizeView {
    let ([rows_before, rows_after], [bytes_before, bytes_after]) =
        (difference.rows, difference.bytes);
    SizeView {
        database: difference.database.clone(),
        name: difference.name.clone(),
        index: difference.index,
        factor: difference.factor(),
        rows_before,
        rows_after,
        bytes_before,
        bytes_after,
        unanalysed: difference.is_unanalysed(),
    }
}
