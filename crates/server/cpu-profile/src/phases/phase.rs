//! Phases, and the rules for nested phases.

use schemars::JsonSchema;
use serde::Serialize;

macro_rules! phases {
    ($($variant:ident, $name:literal, $title:literal;)*) => {
        /// Activity of the server that uses CPU time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum Phase { $($variant,)* }

        impl Phase {
            /// All phases, in the order in which a statement passes through the server.
            pub const ALL: &'static [Phase] = &[$(Phase::$variant,)*];

            /// Returns the name for programs.
            pub fn name(self) -> &'static str {
                match self { $(Phase::$variant => $name,)* }
            }

            /// Returns the name for users.
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
    /// Whether a call from this phase into `inner` still counts as this phase. For example, reading tables to
    /// fill a cache is not a scan of the statement. The planner reads sizes of files, and locks indexes. No phase keeps [`Phase::SpinLock`].
    pub(super) fn keeps(self, inner: Phase) -> bool {
        use Phase::*;
        if inner == SpinLock {
            return false;
        }
        match self {
            // A new backend fills its caches by all of these.
            Backend | Background => inner != Protocol,
            OpenIndexes | Caches => !matches!(inner, Wal | Io),
            Wal | Jit | IndexPredicate | Parse => true,
            // The functions of a statistics extension enclose those that they measure.
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
                    | Caches
                    | LockManager
                    | Io
            ),
            Rewrite | Analyse => matches!(
                inner,
                Scan | Expression | Analyse | Rewrite | OpenTables | Caches | LockManager | Io
            ),
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
