//! The phases, and which of them keep what they call.

use schemars::JsonSchema;
use serde::Serialize;

macro_rules! phases {
    ($($variant:ident, $name:literal, $title:literal;)*) => {
        /// What the server does with processor time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum Phase { $($variant,)* }

        impl Phase {
            /// All of them, in the order of a statement's way through the server.
            pub const ALL: &'static [Phase] = &[$(Phase::$variant,)*];

            /// The name for programs.
            pub fn name(self) -> &'static str {
                match self { $(Phase::$variant => $name,)* }
            }

            /// The name for people.
            pub fn title(self) -> &'static str {
                match self { $(Phase::$variant => $title,)* }
            }
        }
    };
}

phases! {
    Backend, "backend", "starting and ending backends";
    Idle, "idle", "going to sleep and waking up";
    Network, "network", "network: messages read, results sent";
    Protocol, "protocol", "dispatch of messages, portals";
    Parse, "parse", "parsing";
    Analyse, "analyse", "parse analysis";
    Rewrite, "rewrite", "rewriting";
    PreparedPlans, "prepared_plans", "taking prepared plans";
    Plan, "plan", "planning";
    ExecutorStart, "executor_start", "executor start and end";
    OpenTables, "open_tables", "opening tables";
    OpenIndexes, "open_indexes", "opening indexes";
    Caches, "caches", "relation and catalogue caches";
    Executor, "executor", "executor, between steps";
    Scan, "scan", "scans";
    Join, "join", "joins";
    Sort, "sort", "sorting and storing rows";
    Aggregate, "aggregate", "aggregates";
    Expression, "expression", "expressions";
    IndexPredicate, "index_predicate", "index predicates and expressions";
    Jit, "jit", "just-in-time compilation";
    Procedural, "procedural", "procedural languages";
    Modify, "modify", "modifying tables";
    IndexInsertion, "index_insertion", "inserting into indexes";
    Utility, "utility", "utility statements";
    Wal, "wal", "write-ahead log";
    Transaction, "transaction", "transactions: snapshots, commit";
    LockManager, "lock_manager", "lock manager";
    LightweightLock, "lightweight_lock", "waiting for lightweight locks";
    SpinLock, "spin_lock", "spin locks";
    Statistics, "statistics", "statistics";
    Io, "io", "input and output";
    Parallel, "parallel", "parallel query's messages";
    Background, "background", "the server's own processes";
    Unplaced, "unplaced", "not placed";
}

impl Phase {
    /// Whether what this phase calls for `inner` is still this phase: where tables are read to fill a
    /// cache, that is no scan of the statement's. [`Phase::SpinLock`] is kept by none.
    pub(super) fn keeps(self, inner: Phase) -> bool {
        use Phase::*;
        if inner == SpinLock {
            return false;
        }
        match self {
            // All that a new backend fills its caches with.
            Backend | Background => inner != Protocol,
            OpenIndexes | Caches => !matches!(inner, Wal | Io),
            Wal | Jit | IndexPredicate | Parse => true,
            // An extension that counts stands around what it counts.
            Statistics => !matches!(inner, Plan | ExecutorStart | Executor | Utility),
            Io => inner != Wal,
            Plan => matches!(
                inner,
                Scan | Expression
                    | OpenTables
                    | OpenIndexes
                    | Sort
                    | Aggregate
                    | ExecutorStart
                    | Analyse
                    | Rewrite
            ),
            Rewrite | Analyse => matches!(inner, Scan | Expression | Analyse | Rewrite),
            PreparedPlans => matches!(inner, OpenTables),
            LockManager => inner != Caches && inner != Io,
            LightweightLock => true,
            Network => inner != Idle,
            OpenTables => matches!(inner, Scan | Expression | LockManager),
            IndexInsertion => matches!(inner, Scan | OpenTables | OpenIndexes),
            SpinLock => true,
            _ => false,
        }
    }
}
