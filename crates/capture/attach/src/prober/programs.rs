//! The programs that the kernel runs at each call of `secure_read` and `secure_write`.
//!
//! A program at the call notes the address of the bytes, and one at the return copies as many bytes as the function
//! returned: a write may be partial, and a read knows its length only then. Bytes that find no space in the ring buffer
//! are counted, so that the server never waits. Totals include them. A total is advanced after its record is
//! complete, so that a total read from the map proves that all earlier records can be read.
//!
//! A process is recorded if its parent is the postmaster. The kernel's structures have that at its first call.

use super::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use super::assembler::{Arithmetic, Assembler, Condition, Helper, Label, Register, Width};
use super::type_information::TaskOffsets;
use crate::record::{DATA_BYTES_MAX, HEADER_BYTES, RecordKind};
use std::os::fd::RawFd;

/// Length of a key of the map of processes: the process number.
pub(super) const KEY_BYTES: u32 = 4;
/// Length of a value of the map of processes.
pub(super) const PROCESS_BYTES: u32 = 80;
/// Length of the memory with the counters.
pub(super) const COUNTERS_BYTES: u32 = 24;
/// Length of the memory with the number of the postmaster.
pub(super) const SETTINGS_BYTES: u32 = 8;

/// Offsets in a value of the map of processes. All fields have eight bytes.
pub(super) mod process_field {
    /// Address of the bytes that `secure_read` fills; that of `secure_write` follows. 0 outside of a call, and in a call
    /// that began before the probes were attached.
    pub const FROM: i16 = 0;
    /// Time of the current read; that of the current write follows.
    pub const TIME: i16 = 16;
    /// Bytes read, lost ones included; those written follow.
    pub const TOTAL: i16 = 32;
    /// Lost bytes of both directions.
    pub const LOST: i16 = 48;
    /// Start of the process.
    pub const STARTED: i16 = 56;
    /// Time of the end of a process that has no record of it; 0 while it runs.
    pub const ENDED: i16 = 64;
    /// Bytes that the next program of a chain copies.
    pub const REST: i16 = 72;
}

/// Offsets in the memory with the counters.
pub(super) mod counter {
    /// Lost bytes.
    pub const LOST: i32 = 0;
    /// Ends of processes without a record.
    pub const UNREPORTED_ENDS: i32 = 8;
    /// Calls of processes that had no space in the map of processes.
    pub const UNTRACKED_CALLS: i32 = 16;
}

/// Direction of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read = 0,
    Write = 1,
}

impl Direction {
    fn field(self, of_read: i16) -> i16 {
        of_read + 8 * self as i16
    }

    fn record_kind(self) -> RecordKind {
        match self {
            Direction::Read => RecordKind::FromClient,
            Direction::Write => RecordKind::ToClient,
        }
    }
}

/// Offsets in `struct pt_regs`, or `struct user_pt_regs`, of the second argument of a function, and of its result.
#[cfg(target_arch = "x86_64")]
const REGISTERS: Option<(i16, i16)> = Some((104, 80));
#[cfg(target_arch = "aarch64")]
const REGISTERS: Option<(i16, i16)> = Some((8, 0));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: Option<(i16, i16)> = None;

/// Lengths for which space is reserved, since the kernel's verifier requires constants. A reserved space is consumed
/// as a whole, so the lengths grow by small factors.
const SPACES: [i32; 8] = [
    64,
    256,
    1024,
    4096,
    8192,
    16_384,
    32_768,
    DATA_BYTES_MAX as i32,
];
/// Full chunks that one program copies. A chain of programs continues; the kernel allows 33 of them
/// (`MAX_TAIL_CALL_CNT`).
const CHUNKS_OF_A_PROGRAM: i32 = 32;
/// Flag `BPF_RB_NO_WAKEUP`. The reader polls, so that no call of the server pays for waking it.
const NO_WAKEUP: i32 = 1;

/// Positions in the stack of a program, relative to the frame pointer.
mod stack {
    /// Process number.
    pub const KEY: i16 = -8;
    pub const CHUNKS: i16 = -16;
    pub const CONTEXT: i16 = -24;
    pub const RECORD: i16 = -32;
    pub const SCRATCH: i16 = -40;
    pub const PROCESS: i16 = -120;
}

/// Descriptors of the maps that the programs use.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapDescriptors {
    pub processes: RawFd,
    pub settings: RawFd,
    pub counters: RawFd,
    pub ring: RawFd,
    /// Array of the programs that continue a long copy, by direction.
    pub chain: RawFd,
}

/// Builds the programs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs {
    maps: MapDescriptors,
    task: TaskOffsets,
    argument_offset: i16,
    result_offset: i16,
}

impl Programs {
    /// Returns `None` on a processor architecture whose registers are not known.
    pub fn new(maps: MapDescriptors, task: TaskOffsets) -> Option<Self> {
        let (argument_offset, result_offset) = REGISTERS?;
        Some(Programs {
            maps,
            task,
            argument_offset,
            result_offset,
        })
    }

    /// Program for the call of a function: notes the address of the bytes and the time.
    pub fn at_call(&self, direction: Direction) -> Vec<u64> {
        let mut code = Assembler::new();
        let end = code.label();
        let found = code.label();
        code.set(R6, R1);
        self.find_process(&mut code);
        let unknown = code.label();
        code.jump_if(R0, Condition::Equal, 0, unknown);
        code.set(R7, R0);
        code.load(Width::Eight, R1, R7, process_field::ENDED);
        code.jump_if(R1, Condition::Equal, 0, found);
        code.bind(unknown);
        self.add_process(&mut code, end);
        code.bind(found);
        code.load(Width::Eight, R1, R6, self.argument_offset);
        code.store(Width::Eight, R7, direction.field(process_field::FROM), R1);
        if direction == Direction::Write {
            code.call(Helper::MonotonicTime);
            code.store(Width::Eight, R7, direction.field(process_field::TIME), R0);
        }
        code.bind(end);
        code.exit();
        code.finish()
    }

    /// Program for the return of a function: copies the bytes.
    pub fn at_return(&self, direction: Direction) -> Vec<u64> {
        let mut code = Assembler::new();
        let end = code.label();
        code.set(R6, R1);
        code.store(Width::Eight, R10, stack::CONTEXT, R6);
        self.find_running_process(&mut code, end);
        // The bytes of a call that was not seen, or that are copied already, are not lost.
        code.load(Width::Eight, R1, R7, direction.field(process_field::FROM));
        code.jump_if(R1, Condition::Equal, 0, end);
        code.load(Width::Eight, R9, R6, self.result_offset);
        code.jump_if(R9, Condition::SignedLessOrEqual, 0, end);
        if direction == Direction::Read {
            code.call(Helper::MonotonicTime);
            code.store(Width::Eight, R7, direction.field(process_field::TIME), R0);
        }
        self.copy(&mut code, direction);
        code.bind(end);
        code.exit();
        code.finish()
    }

    /// Program that continues the copy of a long write.
    pub fn continued(&self, direction: Direction) -> Vec<u64> {
        let mut code = Assembler::new();
        let end = code.label();
        code.store(Width::Eight, R10, stack::CONTEXT, R1);
        self.find_running_process(&mut code, end);
        code.load(Width::Eight, R9, R7, process_field::REST);
        self.copy(&mut code, direction);
        code.bind(end);
        code.exit();
        code.finish()
    }

    /// Program for the end of a process, at the kernel's tracepoint `sched_process_exit`.
    pub fn at_process_end(&self) -> Vec<u64> {
        const DATA_BYTES: i32 = 16;
        let mut code = Assembler::new();
        let end = code.label();
        let no_space = code.label();
        self.find_process(&mut code);
        code.jump_if(R0, Condition::Equal, 0, end);
        code.set(R7, R0);
        // The end of a thread is not that of its process.
        code.call(Helper::CurrentPidTgid);
        code.set(R1, R0);
        code.compute(Arithmetic::ShiftRight, R1, 32);
        code.compute(Arithmetic::ShiftLeft, R0, 32);
        code.compute(Arithmetic::ShiftRight, R0, 32);
        code.jump_if(R0, Condition::NotEqual, R1, end);
        code.load(Width::Eight, R1, R7, process_field::ENDED);
        code.jump_if(R1, Condition::NotEqual, 0, end);
        code.call(Helper::MonotonicTime);
        code.set(R8, R0);
        code.store(Width::Eight, R7, process_field::TIME, R8);
        self.reserve(&mut code, DATA_BYTES);
        code.jump_if(R0, Condition::Equal, 0, no_space);
        code.set(R6, DATA_BYTES);
        self.write_header(
            &mut code,
            RecordKind::Closed,
            process_field::TIME,
            process_field::TOTAL,
        );
        code.load(Width::Eight, R1, R7, process_field::TOTAL);
        code.store(Width::Eight, R0, HEADER_BYTES as i16, R1);
        code.load(Width::Eight, R1, R7, process_field::TOTAL + 8);
        code.store(Width::Eight, R0, HEADER_BYTES as i16 + 8, R1);
        // In this order: a process that is in the map after the ring buffer was read has no record of its end there.
        code.set(R9, R0);
        code.set_to_map(R1, self.maps.processes);
        self.set_to_stack(&mut code, R2, stack::KEY);
        code.call(Helper::MapDelete);
        code.set(R1, R9);
        code.set(R2, NO_WAKEUP);
        code.call(Helper::RingSubmit);
        code.jump(end);
        code.bind(no_space);
        code.store(Width::Eight, R7, process_field::ENDED, R8);
        code.set(R1, 1);
        self.count(&mut code, counter::UNREPORTED_ENDS, R1);
        code.bind(end);
        code.exit();
        code.finish()
    }

    /// `R0 = ` the current process in the map, or 0.
    fn find_process(&self, code: &mut Assembler) {
        code.call(Helper::CurrentPidTgid);
        code.compute(Arithmetic::ShiftRight, R0, 32);
        code.store(Width::Eight, R10, stack::KEY, R0);
        self.look_up(code);
    }

    /// `R7 = ` the current process in the map. Jumps to `other` if it is not there, or if that is an ended process, whose number
    /// the current one has.
    fn find_running_process(&self, code: &mut Assembler, other: Label) {
        self.find_process(code);
        code.jump_if(R0, Condition::Equal, 0, other);
        code.set(R7, R0);
        code.load(Width::Eight, R1, R7, process_field::ENDED);
        code.jump_if(R1, Condition::NotEqual, 0, other);
    }

    fn look_up(&self, code: &mut Assembler) {
        code.set_to_map(R1, self.maps.processes);
        self.set_to_stack(code, R2, stack::KEY);
        code.call(Helper::MapLookup);
    }

    fn set_to_stack(&self, code: &mut Assembler, to: Register, offset: i16) {
        code.set(to, R10);
        code.compute(Arithmetic::Add, to, i32::from(offset));
    }

    /// Adds what `amount`, which is not `R2`, has to a counter.
    fn count(&self, code: &mut Assembler, counter: i32, amount: Register) {
        code.set_to_value(R2, self.maps.counters, counter);
        code.add_atomically(R2, 0, amount);
    }

    /// `R7 = ` a new process in the map. Jumps to `other` if the current process is not a child of the postmaster.
    fn add_process(&self, code: &mut Assembler, other: Label) {
        let added = code.label();
        code.call(Helper::CurrentTask);
        code.set(R8, R0);
        self.read_kernel(code, stack::SCRATCH, 8, R8, self.task.real_parent);
        code.load(Width::Eight, R9, R10, stack::SCRATCH);
        code.store(Width::Eight, R10, stack::SCRATCH, 0);
        self.read_kernel(code, stack::SCRATCH, 4, R9, self.task.tgid);
        code.load(Width::Four, R1, R10, stack::SCRATCH);
        code.set_to_value(R2, self.maps.settings, 0);
        code.load(Width::Eight, R2, R2, 0);
        code.jump_if(R1, Condition::NotEqual, R2, other);
        for field in (0..PROCESS_BYTES as i16).step_by(8) {
            code.store(Width::Eight, R10, stack::PROCESS + field, 0);
        }
        let started = stack::PROCESS + process_field::STARTED;
        self.read_kernel(code, started, 8, R8, self.task.start_boottime);
        code.set_to_map(R1, self.maps.processes);
        self.set_to_stack(code, R2, stack::KEY);
        self.set_to_stack(code, R3, stack::PROCESS);
        code.set(R4, 0);
        code.call(Helper::MapUpdate);
        self.look_up(code);
        code.jump_if(R0, Condition::NotEqual, 0, added);
        code.set(R1, 1);
        self.count(code, counter::UNTRACKED_CALLS, R1);
        code.jump(other);
        code.bind(added);
        code.set(R7, R0);
    }

    /// Reads memory of the kernel at `from + offset` into the stack. The memory is zero if that fails.
    fn read_kernel(&self, code: &mut Assembler, to: i16, bytes: i32, from: Register, offset: i32) {
        self.set_to_stack(code, R1, to);
        code.set(R2, bytes);
        code.set(R3, from);
        code.compute(Arithmetic::Add, R3, offset);
        code.call(Helper::ReadKernel);
    }

    /// Copies `R9` bytes of the process `R7`, and continues after it.
    fn copy(&self, code: &mut Assembler, direction: Direction) {
        let from = direction.field(process_field::FROM);
        let (next, rest, done, limit) = (code.label(), code.label(), code.label(), code.label());
        code.load(Width::Eight, R8, R7, from);
        code.store(Width::Eight, R7, from, 0);
        code.store(Width::Eight, R10, stack::CHUNKS, 0);
        code.bind(next);
        let full = code.label();
        code.jump_if(R9, Condition::Greater, DATA_BYTES_MAX as i32, full);
        code.jump(rest);
        code.bind(full);
        code.load(Width::Eight, R1, R10, stack::CHUNKS);
        code.jump_if(R1, Condition::Equal, CHUNKS_OF_A_PROGRAM, limit);
        code.compute(Arithmetic::Add, R1, 1);
        code.store(Width::Eight, R10, stack::CHUNKS, R1);
        code.set(R6, DATA_BYTES_MAX as i32);
        self.reserve(code, DATA_BYTES_MAX as i32);
        self.copy_chunk(code, direction);
        code.compute(Arithmetic::Add, R8, R6);
        code.compute(Arithmetic::Subtract, R9, R6);
        code.jump(next);

        // The next program of the chain does not return here, unless the chain is too long.
        code.bind(limit);
        code.store(Width::Eight, R7, from, R8);
        code.store(Width::Eight, R7, process_field::REST, R9);
        code.load(Width::Eight, R1, R10, stack::CONTEXT);
        code.set_to_map(R2, self.maps.chain);
        code.set(R3, direction as i32);
        code.call(Helper::TailCall);
        code.store(Width::Eight, R7, from, 0);
        code.set(R6, R9);
        self.lose(code, direction);
        code.jump(done);

        code.bind(rest);
        let reserved = code.label();
        for space in SPACES {
            let larger = code.label();
            code.jump_if(R9, Condition::Greater, space, larger);
            code.set(R6, R9);
            self.reserve(code, space);
            code.jump(reserved);
            code.bind(larger);
        }
        // Never reached, but the verifier does not know that.
        code.jump(done);
        code.bind(reserved);
        self.copy_chunk(code, direction);
        code.bind(done);
    }

    /// `R0 = ` space in the ring buffer for a record, or 0.
    fn reserve(&self, code: &mut Assembler, data_bytes: i32) {
        code.set_to_map(R1, self.maps.ring);
        code.set(R2, HEADER_BYTES as i32 + data_bytes);
        code.set(R3, 0);
        code.call(Helper::RingReserve);
    }

    /// Writes the header of a record of the process `R7` with `R6` bytes to `R0`.
    fn write_header(&self, code: &mut Assembler, kind: RecordKind, time: i16, offset: i16) {
        code.store(Width::Four, R0, 0, kind as i32);
        code.load(Width::Four, R1, R10, stack::KEY);
        code.store(Width::Four, R0, 4, R1);
        for (to, field) in [(8, process_field::STARTED), (16, time), (24, offset)] {
            code.load(Width::Eight, R1, R7, field);
            code.store(Width::Eight, R0, to, R1);
        }
        // The length, and flags of zero.
        code.store(Width::Eight, R0, 32, R6);
        code.store(Width::Eight, R0, 40, 0);
    }

    /// Copies `R6` bytes from the address `R8` into the space `R0`, or counts them as lost.
    fn copy_chunk(&self, code: &mut Assembler, direction: Direction) {
        let (time, total) = (
            direction.field(process_field::TIME),
            direction.field(process_field::TOTAL),
        );
        let (lost, unreadable, done) = (code.label(), code.label(), code.label());
        code.jump_if(R0, Condition::Equal, 0, lost);
        code.store(Width::Eight, R10, stack::RECORD, R0);
        self.write_header(code, direction.record_kind(), time, total);
        code.set(R1, R0);
        code.compute(Arithmetic::Add, R1, HEADER_BYTES as i32);
        code.set(R2, R6);
        code.set(R3, R8);
        code.call(Helper::ReadUser);
        code.load(Width::Eight, R1, R10, stack::RECORD);
        code.set(R2, NO_WAKEUP);
        code.jump_if(R0, Condition::NotEqual, 0, unreadable);
        code.call(Helper::RingSubmit);
        code.load(Width::Eight, R1, R7, total);
        code.compute(Arithmetic::Add, R1, R6);
        code.store(Width::Eight, R7, total, R1);
        code.jump(done);
        code.bind(unreadable);
        code.call(Helper::RingDiscard);
        code.bind(lost);
        self.lose(code, direction);
        code.bind(done);
    }

    /// Counts `R6` bytes as lost.
    fn lose(&self, code: &mut Assembler, direction: Direction) {
        for field in [direction.field(process_field::TOTAL), process_field::LOST] {
            code.load(Width::Eight, R1, R7, field);
            code.compute(Arithmetic::Add, R1, R6);
            code.store(Width::Eight, R7, field, R1);
        }
        self.count(code, counter::LOST, R6);
    }
}
