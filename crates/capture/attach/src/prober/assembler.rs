//! Encodes instructions of eBPF programs.
//!
//! Source of the encoding: the kernel's `Documentation/bpf/standardization/instruction-set.rst` and
//! `include/uapi/linux/bpf.h`.

use std::os::fd::RawFd;

/// Register of the eBPF machine. `R0` has results; `R1` to `R5` have arguments of calls and are lost by a call; `R6` to
/// `R9` are kept; `R10` is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// Second operand of an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Register(Register),
    /// Constant, extended with its sign to 64 bits.
    Constant(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Operand::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(constant: i32) -> Self {
        Operand::Constant(constant)
    }
}

/// Width of a memory access.
#[derive(Debug, Clone, Copy)]
pub(super) enum Width {
    Four = 0x00,
    Eight = 0x18,
}

/// Arithmetic of 64 bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arithmetic {
    Add = 0x00,
    Subtract = 0x10,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// Condition of a jump, on 64 bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition {
    Equal = 0x10,
    /// Unsigned comparison.
    Greater = 0x20,
    NotEqual = 0x50,
    SignedLessOrEqual = 0xd0,
}

/// Functions of the kernel that a program can call, by number (`enum bpf_func_id`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MonotonicTime = 5,
    TailCall = 12,
    CurrentPidTgid = 14,
    CurrentTask = 35,
    ReadUser = 112,
    ReadKernel = 113,
    RingReserve = 131,
    RingSubmit = 132,
    RingDiscard = 133,
}

/// Position in a program to which a jump can lead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// Map of the kernel, or memory in it, as the operand of a load.
#[derive(Debug, Clone, Copy)]
enum MapReference {
    Map = 1,
    Value = 2,
}

const CLASS_LOAD_CONSTANT: u64 = 0x00;
const CLASS_LOAD: u64 = 0x01;
const CLASS_STORE_CONSTANT: u64 = 0x02;
const CLASS_STORE: u64 = 0x03;
const CLASS_JUMP: u64 = 0x05;
const CLASS_ARITHMETIC: u64 = 0x07;
const MODE_MEMORY: u64 = 0x60;
const MODE_ATOMIC: u64 = 0xc0;
const SOURCE_REGISTER: u64 = 0x08;
const CALL: u64 = 0x80;
const EXIT: u64 = 0x90;

/// Program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    /// Index of the instruction at each label, when it is known.
    labels: Vec<Option<usize>>,
    /// Jumps with their labels.
    jumps: Vec<(usize, Label)>,
}

fn instruction(opcode: u64, to: Register, from: u64, offset: i16, constant: i32) -> u64 {
    opcode
        | (to as u64) << 8
        | from << 12
        | u64::from(offset as u16) << 16
        | u64::from(constant as u32) << 32
}

impl Assembler {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a label, which [`Assembler::bind`] gives its position.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives a label the position of the next instruction.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn with_operand(&mut self, opcode: u64, to: Register, operand: Operand, offset: i16) {
        self.code.push(match operand {
            Operand::Register(from) => {
                instruction(opcode | SOURCE_REGISTER, to, from as u64, offset, 0)
            }
            Operand::Constant(constant) => instruction(opcode, to, 0, offset, constant),
        });
    }

    /// `to = to OPERATION operand`.
    pub fn compute(&mut self, operation: Arithmetic, to: Register, operand: impl Into<Operand>) {
        self.with_operand(operation as u64 | CLASS_ARITHMETIC, to, operand.into(), 0);
    }

    /// `to = operand`.
    pub fn set(&mut self, to: Register, operand: impl Into<Operand>) {
        self.compute(Arithmetic::Move, to, operand);
    }

    /// `to = *(from + offset)`.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        let opcode = CLASS_LOAD | MODE_MEMORY | width as u64;
        self.code
            .push(instruction(opcode, to, from as u64, offset, 0));
    }

    /// `*(to + offset) = operand`.
    pub fn store(&mut self, width: Width, to: Register, offset: i16, operand: impl Into<Operand>) {
        let mode = MODE_MEMORY | width as u64;
        self.code.push(match operand.into() {
            Operand::Register(from) => instruction(CLASS_STORE | mode, to, from as u64, offset, 0),
            Operand::Constant(constant) => {
                instruction(CLASS_STORE_CONSTANT | mode, to, 0, offset, constant)
            }
        });
    }

    /// `*(to + offset) += from`, for eight bytes that several processors change.
    pub fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        let opcode = CLASS_STORE | MODE_ATOMIC | Width::Eight as u64;
        self.code
            .push(instruction(opcode, to, from as u64, offset, 0));
    }

    /// `to = ` address of a map.
    pub fn set_to_map(&mut self, to: Register, map: RawFd) {
        self.reference(MapReference::Map, to, map, 0);
    }

    /// `to = ` address of the byte `offset` of the only element of an array map.
    pub fn set_to_value(&mut self, to: Register, map: RawFd, offset: i32) {
        self.reference(MapReference::Value, to, map, offset);
    }

    fn reference(&mut self, kind: MapReference, to: Register, map: RawFd, offset: i32) {
        let opcode = CLASS_LOAD_CONSTANT | Width::Eight as u64;
        self.code.push(instruction(opcode, to, kind as u64, 0, map));
        self.code.push(instruction(0, Register::R0, 0, 0, offset));
    }

    /// Jumps to a label.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.code
            .push(instruction(CLASS_JUMP, Register::R0, 0, 0, 0));
    }

    /// Jumps to a label if `left CONDITION right`.
    pub fn jump_if(
        &mut self,
        left: Register,
        condition: Condition,
        right: impl Into<Operand>,
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        self.with_operand(condition as u64 | CLASS_JUMP, left, right.into(), 0);
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        let opcode = CALL | CLASS_JUMP;
        self.code
            .push(instruction(opcode, Register::R0, 0, 0, helper as i32));
    }

    /// Ends the program with the result 0.
    pub fn exit(&mut self) {
        self.set(Register::R0, 0);
        self.code
            .push(instruction(EXIT | CLASS_JUMP, Register::R0, 0, 0, 0));
    }

    /// Returns the instructions.
    ///
    /// # Panics
    /// If a jump leads to a label without a position, or too far.
    pub fn finish(mut self) -> Vec<u64> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("each label has a position");
            let distance = to as isize - from as isize - 1;
            let distance = i16::try_from(distance).expect("programs are short");
            self.code[from] |= u64::from(distance as u16) << 16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{R0, R1, R2, R6, R10};
    use super::*;

    /// The expected words are those that LLVM's assembler makes of the same instructions.
    #[test]
    fn instructions_are_encoded_as_by_llvm() {
        let mut assembler = Assembler::new();
        let end = assembler.label();
        assembler.set(R6, R1);
        assembler.set(R2, -8);
        assembler.compute(Arithmetic::ShiftRight, R0, 32);
        assembler.load(Width::Eight, R1, R6, 104);
        assembler.store(Width::Four, R10, -8, R0);
        assembler.store(Width::Eight, R10, -16, 5);
        assembler.jump_if(R0, Condition::Equal, 0, end);
        assembler.add_atomically(R1, 8, R6);
        assembler.set_to_map(R1, 3);
        assembler.call(Helper::MapLookup);
        assembler.bind(end);
        assembler.exit();
        let expected: [u64; 13] = [
            0x0000_0000_0000_16bf,
            0xffff_fff8_0000_02b7,
            0x0000_0020_0000_0077,
            0x0000_0000_0068_6179,
            0x0000_0000_fff8_0a63,
            0x0000_0005_fff0_0a7a,
            0x0000_0000_0004_0015,
            0x0000_0000_0008_61db,
            0x0000_0003_0000_1118,
            0x0000_0000_0000_0000,
            0x0000_0001_0000_0085,
            0x0000_0000_0000_00b7,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(assembler.finish(), expected);
    }

    #[test]
    fn jump_to_an_earlier_label_has_a_negative_distance() {
        let mut assembler = Assembler::new();
        let start = assembler.label();
        assembler.bind(start);
        assembler.set(R0, 0);
        assembler.jump(start);
        assert_eq!(assembler.finish()[1], 0x0000_0000_fffe_0005);
    }
}
