//! Finds the offsets of fields in the kernel's structures, which differ between kernels.
//!
//! The kernel publishes its types in `/sys/kernel/btf/vmlinux`. Source of the format: the kernel's
//! `Documentation/bpf/btf.rst`.

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;

/// Offsets in bytes of the fields of `struct task_struct` that the programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskOffsets {
    pub real_parent: i32,
    pub tgid: i32,
    pub start_boottime: i32,
}

impl TaskOffsets {
    /// Finds the offsets in type information; `None` if it is damaged or a field is missing.
    pub fn find(bytes: &[u8]) -> Option<Self> {
        let types = Types::parse(bytes)?;
        let task = types.find_struct("task_struct")?;
        Some(TaskOffsets {
            real_parent: types.field_offset(task, "real_parent", 0)?,
            tgid: types.field_offset(task, "tgid", 0)?,
            start_boottime: types.field_offset(task, "start_boottime", 0)?,
        })
    }
}

/// Types of the kernel.
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Start of each type in `types`. The type with the number 0 is `void`, and in no list.
    starts: Vec<usize>,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

impl<'a> Types<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        if u16::from_le_bytes(*bytes.first_chunk()?) != MAGIC || bytes.len() < HEADER_BYTES {
            return None;
        }
        let header = number(bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(number(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(number(bytes, at + 4)? as usize)?)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut starts = Vec::new();
        let mut at = 0;
        while at < types.len() {
            starts.push(at);
            let info = number(types, at + 4)?;
            at += TYPE_BYTES + trailing_bytes(info)?;
        }
        Some(Types {
            types,
            strings,
            starts,
        })
    }

    fn is_named(&self, name_at: u32, name: &str) -> bool {
        let rest = self.strings.get(name_at as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn find_struct(&self, name: &str) -> Option<usize> {
        self.starts.iter().copied().find(|start| {
            number(self.types, start + 4).map(kind) == Some(KIND_STRUCT)
                && number(self.types, *start).is_some_and(|at| self.is_named(at, name))
        })
    }

    /// Returns the offset in bytes of a field, also if it is in a structure without a name. `depth` is the number of
    /// structures around this one.
    fn field_offset(&self, start: usize, name: &str, depth: u32) -> Option<i32> {
        const DEPTH_MAX: u32 = 8;
        let info = number(self.types, start + 4)?;
        if !matches!(kind(info), KIND_STRUCT | KIND_UNION) || depth > DEPTH_MAX {
            return None;
        }
        let has_bit_sizes = info >> 31 == 1;
        (0..count(info)).find_map(|index| {
            let member = start + TYPE_BYTES + index * MEMBER_BYTES;
            let bits = number(self.types, member + 8)?;
            let bits = if has_bit_sizes {
                bits & 0xff_ffff
            } else {
                bits
            };
            let offset = i32::try_from(bits / 8).ok()?;
            let name_at = number(self.types, member)?;
            if self.is_named(name_at, name) {
                return Some(offset);
            }
            if !self.is_named(name_at, "") {
                return None;
            }
            let inner = number(self.types, member + 4)?.checked_sub(1)?;
            let inner = *self.starts.get(inner as usize)?;
            offset.checked_add(self.field_offset(inner, name, depth + 1)?)
        })
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn count(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Returns the bytes after the description of a type; `None` if the kind is unknown.
fn trailing_bytes(info: u32) -> Option<usize> {
    Some(match kind(info) {
        // Pointers, forward declarations, names of types, qualifiers, functions, floats and tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables and tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections of data and enumerations of 64 bits.
        KIND_STRUCT | KIND_UNION | 15 | 19 => count(info) * MEMBER_BYTES,
        // Enumerations and prototypes of functions.
        6 | 13 => count(info) * 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types: an integer, a structure without a name that has `tgid`, and `task_struct`.
    fn small_types() -> Vec<u8> {
        let strings = b"\0int\0task_struct\0real_parent\0tgid\0start_boottime\0";
        let at = |name: &str| {
            let found = strings
                .windows(name.len())
                .position(|part| part == name.as_bytes());
            found.unwrap() as u32
        };
        let words: Vec<u32> = [
            vec![at("int"), 1 << 24, 4, 32],
            vec![0, KIND_STRUCT << 24 | 2, 8, 0, 1, 0, at("tgid"), 1, 32],
            vec![at("task_struct"), 1 << 31 | KIND_STRUCT << 24 | 3, 40],
            vec![at("real_parent"), 1, 64],
            // The size of a bit field is in the upper byte.
            vec![at("start_boottime"), 1, 8 << 24 | 128],
            vec![0, 2, 192],
        ]
        .concat();
        let types: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let header = [
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        bytes.extend(header.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn fields_are_found_also_in_a_structure_without_a_name() {
        let expected = TaskOffsets {
            real_parent: 8,
            tgid: 28,
            start_boottime: 16,
        };
        assert_eq!(TaskOffsets::find(&small_types()), Some(expected));
    }

    #[test]
    fn damaged_types_are_refused_without_a_panic() {
        let bytes = small_types();
        for end in 0..bytes.len() {
            let found = TaskOffsets::find(&bytes[..end]);
            assert_eq!(found, None, "{end} bytes");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _ = TaskOffsets::find(&changed);
        }
    }

    #[test]
    fn types_of_this_kernel_have_the_fields() {
        match std::fs::read("/sys/kernel/btf/vmlinux") {
            Ok(bytes) => assert!(TaskOffsets::find(&bytes).is_some()),
            Err(error) => println!("skipped: types_of_this_kernel_have_the_fields ({error})"),
        }
    }
}
