//! Does what is left of a proof, and judges it where it may be judged.

use std::sync::Arc;
use std::time::Duration;

use analyse::proof::{BLOCKS_MIN, Effect, Goal, PairedBlock, Verdict, effect, looks, verdict};
use clock::Clock;
use replay::Options;
use workload::WorkloadReader;

use super::ground::ProofGround;
use super::journal::{Decision, ProofJournal, ProofRecord, RunPlace};
use super::numbers::ProofNumbers;
use super::order::block;
use super::trial::{Place, perform};
use crate::error::ExperimentError;

/// Runs of each side in a block.
const RUNS: usize = analyse::proof::RUNS_A_SIDE;

/// What a side's clients do.
#[derive(Debug, Clone)]
pub struct SideLoad {
    /// The workload, rewritten where the side says so.
    pub reader: WorkloadReader,
    /// How it is replayed.
    pub options: Options,
}

/// What is done, beside the plan that the journal has.
#[derive(Debug)]
pub struct Proving {
    /// Of each side, the unchanged first.
    pub loads: Vec<SideLoad>,
    /// Which number is to get better.
    pub goal: Goal,
    /// Statements of the unchanged workload.
    pub statements: u64,
}

/// What is told while it goes on.
#[derive(Debug)]
pub enum ProofTold<'a> {
    /// The changes are carried out once.
    Preparing,
    /// A run begins.
    Begins(RunPlace),
    /// It is over.
    Over(&'a ProofRecord),
    /// How many blocks there will be at most.
    Decided(Decision),
    /// A side was judged.
    Judged(usize, Effect, Verdict),
}

/// How a side stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SideStanding {
    /// Each look with what it came to.
    pub looks: Vec<(Effect, Verdict)>,
    /// Blocks that were done of it.
    pub blocks: u32,
}

impl SideStanding {
    /// The last verdict.
    pub fn verdict(&self) -> Verdict {
        self.looks.last().map_or(Verdict::NotProven, |last| last.1)
    }

    /// The last effect; `None` before the first look, and where the goal was not measured.
    pub fn effect(&self) -> Option<Effect> {
        self.looks.last().map(|last| last.0)
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ProofEnded {
    /// Of each side behind the unchanged.
    pub standings: Vec<SideStanding>,
    /// It was stopped by the user: `--resume` goes on.
    pub stopped: bool,
    /// The time was over before the verdict was clear.
    pub time_over: bool,
}

impl ProofJournal {
    /// How each side behind the unchanged stands by what was done.
    pub fn standings(&self, goal: Goal, statements: u64) -> Vec<SideStanding> {
        let sides = 1..self.plan().sides.len();
        sides
            .map(|side| self.standing(side, goal, statements))
            .collect()
    }

    /// The goal's number of each run of a side and of the unchanged, by the blocks that are whole.
    pub fn blocks_of(&self, side: usize, goal: Goal, statements: u64) -> Vec<PairedBlock> {
        self.blocks_with(side, &|numbers| numbers.of(goal, statements))
    }

    /// Any number of each run of a side and of the unchanged, by the blocks that are whole; it ends at the first run
    /// that has none.
    pub fn blocks_with(
        &self,
        side: usize,
        number_of: &dyn Fn(&ProofNumbers) -> Option<f64>,
    ) -> Vec<PairedBlock> {
        let mut blocks = Vec::new();
        for number in 1.. {
            let of = |side: usize| -> Option<[f64; RUNS]> {
                let runs = self
                    .records()
                    .filter(|one| one.place.block == number && one.place.side == side);
                let found: Option<Vec<f64>> = runs.map(|one| number_of(&one.numbers)).collect();
                found?.try_into().ok()
            };
            match (of(0), of(side)) {
                (Some(before), Some(after)) => blocks.push(PairedBlock { before, after }),
                _ => break,
            }
        }
        blocks
    }

    fn standing(&self, side: usize, goal: Goal, statements: u64) -> SideStanding {
        let blocks = self.blocks_of(side, goal, statements);
        let mut standing = SideStanding {
            looks: Vec::new(),
            blocks: blocks.len() as u32,
        };
        let Some(decision) = self.decision() else {
            return standing;
        };
        let mut look = |blocks: &[PairedBlock], error: f64| {
            if let Some(effect) = effect(blocks, error) {
                let verdict = verdict(&effect, goal, self.plan().margin);
                standing.looks.push((effect, verdict));
                return verdict.is_clear();
            }
            false
        };
        for one in looks(decision.blocks) {
            let is_last = decision.ended == Some(blocks.len() as u32);
            match one.blocks as usize {
                at if at <= blocks.len() => {
                    if look(&blocks[..at], one.error) {
                        break;
                    }
                }
                // There is no time for another block, which has nothing to do with what was seen: what
                // is left of the chance of error goes to what there is.
                _ if is_last && blocks.len() as u32 >= BLOCKS_MIN => {
                    look(&blocks, one.last_error);
                    break;
                }
                _ => break,
            }
        }
        standing
    }
}

/// Does what the journal does not have, until each verdict is clear, all blocks are done, or the time is
/// over.
///
/// # Errors
/// Where a change fails, a replay cannot be done, the time is too short for any verdict, or the goal cannot be
/// measured. The server is left as it was found then, too.
pub fn prove(
    proving: &Proving,
    ground: &mut dyn ProofGround,
    journal: &mut ProofJournal,
    clock: &Arc<dyn Clock>,
    tell: &mut dyn FnMut(ProofTold<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<ProofEnded, ExperimentError> {
    let mut course = Course {
        proving,
        journal,
        clock,
        stop,
        begun_ns: clock.now_ns(),
        prepared_s: 0.0,
        number: 0,
        is_ready: false,
    };
    let result = course.all(ground, tell);
    if course.is_ready {
        let left = ground.leave();
        let ended = result?;
        left?;
        return Ok(ended);
    }
    result
}

struct Course<'a> {
    proving: &'a Proving,
    journal: &'a mut ProofJournal,
    clock: &'a Arc<dyn Clock>,
    stop: &'a dyn Fn() -> bool,
    begun_ns: i64,
    /// How long it took to carry out the changes.
    prepared_s: f64,
    number: u32,
    /// The server was touched.
    is_ready: bool,
}

impl Course<'_> {
    fn all(
        &mut self,
        ground: &mut dyn ProofGround,
        tell: &mut dyn FnMut(ProofTold<'_>),
    ) -> Result<ProofEnded, ExperimentError> {
        let plan = self.journal.plan().clone();
        let stopped = |course: &Self| course.ended(true, false);
        for _ in 0..plan.noise_runs {
            if !self.run(ground, 0, 0, tell)? {
                return Ok(stopped(self));
            }
            if self.number == 1 {
                self.check_first()?;
            }
        }
        let decision = match self.journal.decision() {
            Some(decision) => decision,
            None => self.decide()?,
        };
        tell(ProofTold::Decided(decision));
        for number in 1..=decision.blocks {
            let standings = self.standings();
            let clear = |side: &usize| {
                let standing = &standings[side - 1];
                !standing.verdict().is_clear()
            };
            let mut active: Vec<usize> = (1..plan.sides.len()).filter(clear).collect();
            if active.is_empty() {
                break;
            }
            active.insert(0, 0);
            let order = block(plan.sides.len(), &active, number, plan.seed);
            let first = self.place(self.number + 1, number, order[0]);
            let is_begun = self.journal.record(first).is_some();
            let needed = decision.run_s * order.len() as f64;
            if decision.ended == Some(number - 1)
                || !is_begun && self.spent_s() + needed > plan.within_s
            {
                self.journal.decide(Decision {
                    ended: Some(number - 1),
                    ..decision
                })?;
                self.tell_looks(&standings, tell);
                return Ok(self.ended(false, true));
            }
            for side in order {
                if !self.run(ground, number, side, tell)? {
                    return Ok(stopped(self));
                }
            }
            self.tell_looks(&standings, tell);
        }
        Ok(self.ended(false, false))
    }

    fn place(&self, number: u32, block: u32, side: usize) -> RunPlace {
        RunPlace {
            number,
            block,
            side,
        }
    }

    fn standings(&self) -> Vec<SideStanding> {
        self.journal
            .standings(self.proving.goal, self.proving.statements)
    }

    fn ended(&self, stopped: bool, time_over: bool) -> ProofEnded {
        ProofEnded {
            standings: self.standings(),
            stopped,
            time_over,
        }
    }

    fn tell_looks(&self, before: &[SideStanding], tell: &mut dyn FnMut(ProofTold<'_>)) {
        for (side, (before, now)) in (1..).zip(before.iter().zip(self.standings())) {
            for (effect, verdict) in now.looks.iter().skip(before.looks.len()) {
                tell(ProofTold::Judged(side, *effect, *verdict));
            }
        }
    }

    fn spent_s(&self) -> f64 {
        self.journal.spent_s() + self.prepared_s
    }

    /// Does the next run if it was not done; false where the user stopped it.
    fn run(
        &mut self,
        ground: &mut dyn ProofGround,
        block: u32,
        side: usize,
        tell: &mut dyn FnMut(ProofTold<'_>),
    ) -> Result<bool, ExperimentError> {
        self.number += 1;
        let place = self.place(self.number, block, side);
        if self.journal.record(place).is_some() {
            return Ok(true);
        }
        if (self.stop)() {
            return Ok(false);
        }
        if !self.is_ready {
            tell(ProofTold::Preparing);
            self.is_ready = true;
            ground.prepare()?;
            self.prepared_s = self.since_s(self.begun_ns);
        }
        tell(ProofTold::Begins(place));
        let (started_ns, started_wall_us) = (self.clock.now_ns(), self.clock.wall_us());
        let target = ground.ready(side)?;
        let run = self.journal.run_path(place);
        let mut partial = run.clone().into_os_string();
        partial.push(".partial");
        // Of a proof that was killed within this very run.
        for left in [run.as_path(), partial.as_ref()] {
            if left.exists() {
                std::fs::remove_dir_all(left).map_err(ExperimentError::file("remove", left))?;
            }
        }
        let load = &self.proving.loads[side];
        let numbers = perform(&Place {
            reader: &load.reader,
            options: &load.options,
            target: &target,
            is_ours: ground.is_ours(),
            postmaster: ground.postmaster(side),
            run: &run,
            clock: self.clock,
            stop: self.stop,
        })?;
        let Some(numbers) = numbers else {
            return Ok(false);
        };
        let took_s = self.since_s(started_ns);
        let record = self.journal.keep(ProofRecord {
            place,
            started_wall_us,
            took_s,
            numbers,
        })?;
        tell(ProofTold::Over(record));
        Ok(true)
    }

    fn since_s(&self, from_ns: i64) -> f64 {
        (self.clock.now_ns() - from_ns).max(0) as f64 / 1e9
    }

    /// What the first run says of all others: the goal can be measured, and the time is enough for a verdict.
    fn check_first(&self) -> Result<(), ExperimentError> {
        let Some(first) = self.journal.records().next() else {
            return Ok(());
        };
        let goal = self.proving.goal;
        if first.numbers.of(goal, self.proving.statements).is_none() {
            let why = first.numbers.missing.get(goal.name());
            return Err(ExperimentError::Failed(format!(
                "the goal {} cannot be measured here ({}); give another --goal",
                goal.name(),
                why.map_or("the first run has none of it", String::as_str)
            )));
        }
        let plan = self.journal.plan();
        let of_blocks = BLOCKS_MIN as usize * RUNS * plan.sides.len();
        let runs = plan.noise_runs as usize + of_blocks;
        let needed_s = self.prepared_s + first.took_s * runs as f64;
        if self.journal.decision().is_none() && needed_s > plan.within_s {
            let text = |seconds: f64| {
                let time = Duration::from_secs_f64(seconds.ceil());
                clock::duration_text(time.as_nanos() as i64)
            };
            return Err(ExperimentError::Failed(format!(
                "{} are too short for a verdict: a run takes {} with restoring, and at least {runs} are needed ({} to know the noise, {BLOCKS_MIN} blocks of {}); give --within {} or more, or a part of the workload (`rehearse slice`)",
                text(plan.within_s),
                text(first.took_s),
                plan.noise_runs,
                RUNS * plan.sides.len(),
                text(needed_s * 1.1).replace(' ', ""),
            )));
        }
        Ok(())
    }

    /// How many blocks there will be at most: as many as there is time for.
    fn decide(&mut self) -> Result<Decision, ExperimentError> {
        let plan = self.journal.plan();
        let records: Vec<&ProofRecord> = self.journal.records().collect();
        let run_s = records.iter().map(|one| one.took_s).fold(0.0, f64::max);
        let (goal, statements) = (self.proving.goal, self.proving.statements);
        let logs: Option<Vec<f64>> = records
            .iter()
            .map(|one| one.numbers.of(goal, statements).map(f64::ln))
            .collect();
        let deviation = logs.filter(|logs| logs.len() > 1).map(|logs| {
            let count = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / count;
            let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            (squares / (count - 1.0)).sqrt()
        });
        let of_a_block = run_s * (RUNS * plan.sides.len()) as f64;
        let fitting = ((plan.within_s - self.spent_s()) / of_a_block).floor();
        let decision = Decision {
            blocks: (fitting.max(0.0) as u32).clamp(BLOCKS_MIN, plan.blocks_max.max(BLOCKS_MIN)),
            deviation,
            run_s,
            ended: None,
        };
        self.journal.decide(decision)?;
        Ok(decision)
    }
}
