//! Options that select a part of a workload, shared by captures and `rehearse slice`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use sql::Pattern;
use transform::{
    ContextFilter, ContextPattern, Filter, PatternFilter, Slice, StatementKind, TimeBound,
};

use crate::options::encrypting::EncryptArgs;
use crate::options::masking::MaskArgs;
use study::Failure;

/// Options of `rehearse slice`.
#[derive(Debug, Args)]
pub struct SliceWorkload {
    /// Read this workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// Write the part to this directory, NAME.workload.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// Begin at the snapshot of the pg_dump that the workload contains, and leave out the sessions of pg_dump: what is
    /// kept follows from a restored dump. Transactions in progress at the snapshot are kept whole.
    #[arg(long, conflicts_with = "from")]
    pub from_dump: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Part of the workload to keep.
    #[command(flatten)]
    pub slice: SliceArgs,
    /// Masking of the values.
    #[command(flatten)]
    pub masking: MaskArgs,
    /// Encryption of the workload.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// Part of the traffic to keep.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SliceArgs {
    /// Keep statements sent at or after this time: '2026-03-01 09:30' (UTC), with a zone '… +02'
    /// or '… Europe/Berlin', or '+1h30m' from the start.
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    pub from: Option<TimeBound>,
    /// Keep statements sent before this time.
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    pub to: Option<TimeBound>,
    /// Keep sessions on this database; `*` matches any text. Repeatable, as all of these
    /// options.
    #[arg(long, value_name = "NAME")]
    pub filter_database: Vec<String>,
    /// Exclude sessions on this database.
    #[arg(long, value_name = "NAME")]
    pub not_database: Vec<String>,
    /// Keep sessions of this user.
    #[arg(long, value_name = "NAME")]
    pub filter_user: Vec<String>,
    /// Exclude sessions of this user.
    #[arg(long, value_name = "NAME")]
    pub not_user: Vec<String>,
    /// Keep sessions of this application.
    #[arg(long, value_name = "NAME")]
    pub application: Vec<String>,
    /// Exclude sessions of this application.
    #[arg(long, value_name = "NAME")]
    pub not_application: Vec<String>,
    /// Keep statements whose normalised text, as `inspect` shows it, contains this text in any
    /// case; `*` matches any text.
    #[arg(long, value_name = "PATTERN")]
    pub statement: Vec<String>,
    /// Exclude statements whose normalised text contains this text.
    #[arg(long, value_name = "PATTERN")]
    pub not_statement: Vec<String>,
    /// Keep statements of this kind: read, write, or a class that `inspect` shows, such as
    /// select.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<StatementKind>,
    /// Exclude statements of this kind.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub not_kind: Vec<StatementKind>,
    /// Keep statements whose comment (sqlcommenter, marginalia) names this route, controller, action,
    /// application or job: route=/orders/*.
    #[arg(long, value_name = "KEY=VALUE")]
    pub context: Vec<ContextPattern>,
    /// Exclude statements whose comment names this.
    #[arg(long, value_name = "KEY=VALUE")]
    pub not_context: Vec<ContextPattern>,
}

impl SliceArgs {
    /// Converts the options to a slice, or returns `None` if none is given.
    ///
    /// # Errors
    /// If a pattern matches every statement, or `--from` is not before `--to`.
    pub fn slice(&self) -> Result<Option<Slice>, Failure> {
        let names = |wanted: &[String], unwanted: &[String]| PatternFilter {
            included: wanted.iter().map(|name| Pattern::name(name)).collect(),
            excluded: unwanted.iter().map(|name| Pattern::name(name)).collect(),
        };
        let slice = Slice {
            from: self.from,
            to: self.to,
            filter: Filter {
                databases: names(&self.filter_database, &self.not_database),
                users: names(&self.filter_user, &self.not_user),
                applications: names(&self.application, &self.not_application),
                statements: PatternFilter {
                    included: statement_patterns("--statement", &self.statement)?,
                    excluded: statement_patterns("--not-statement", &self.not_statement)?,
                },
                kinds: self.kind.clone(),
                excluded_kinds: self.not_kind.clone(),
                contexts: ContextFilter {
                    included: self.context.clone(),
                    excluded: self.not_context.clone(),
                },
            },
        };
        if let (Some(from), Some(to)) = (self.from, self.to) {
            let comparable = match (from, to) {
                (TimeBound::Wall(from), TimeBound::Wall(to))
                | (TimeBound::Offset(from), TimeBound::Offset(to)) => from < to,
                _ => true,
            };
            if !comparable {
                return Err(Failure::usage(format!(
                    "--from ({from}) is not before --to ({to}); what is kept lies between them"
                )));
            }
        }
        Ok((!slice.is_everything()).then_some(slice))
    }

    /// Returns the given values by option, for a manifest.
    pub fn given(&self) -> BTreeMap<String, Vec<String>> {
        let moment = |moment: &Option<TimeBound>| moment.iter().map(TimeBound::to_string).collect();
        let kinds =
            |kinds: &[StatementKind]| kinds.iter().map(|kind| kind.name().to_owned()).collect();
        let contexts = |given: &[ContextPattern]| given.iter().map(ToString::to_string).collect();
        let all: [(&str, Vec<String>); 14] = [
            ("from", moment(&self.from)),
            ("to", moment(&self.to)),
            ("database", self.filter_database.clone()),
            ("not_database", self.not_database.clone()),
            ("user", self.filter_user.clone()),
            ("not_user", self.not_user.clone()),
            ("application", self.application.clone()),
            ("not_application", self.not_application.clone()),
            ("statement", self.statement.clone()),
            ("not_statement", self.not_statement.clone()),
            ("kind", kinds(&self.kind)),
            ("not_kind", kinds(&self.not_kind)),
            ("context", contexts(&self.context)),
            ("not_context", contexts(&self.not_context)),
        ];
        all.into_iter()
            .filter(|(_, given)| !given.is_empty())
            .map(|(name, given)| (name.to_owned(), given))
            .collect()
    }
}

/// Parses the patterns of statements that an option has.
///
/// # Errors
/// If a pattern matches every statement.
pub fn statement_patterns(option: &str, given: &[String]) -> Result<Vec<Pattern>, Failure> {
    let pattern = |text: &String| {
        Pattern::statement(text).ok_or_else(|| {
            Failure::usage(format!(
                "{option} '{text}' would match every statement; give a part of a statement's text, such as 'update orders*where'"
            ))
        })
    };
    given.iter().map(pattern).collect()
}
