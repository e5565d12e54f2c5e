//! Functions for large objects, which clients call by their OIDs ([`crate::EventKind::FunctionCall`]).
//!
//! Their OIDs are the same in all versions (`src/include/catalog/pg_proc.dat`).

/// Type OIDs (`pg_type.dat`).
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT4: u32 = 23;
const OID: u32 = 26;

/// A built-in function for large objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeObjectFunction {
    /// Its OID in `pg_proc`.
    pub oid: u32,
    /// Its name.
    pub name: &'static str,
    /// OIDs of its argument types.
    pub arguments: &'static [u32],
    /// Whether it may change a large object.
    pub writes: bool,
}

/// `lo_creat`, which creates a large object with an OID that the server chooses.
pub const LO_CREAT: u32 = 957;
/// `lo_create`, which creates a large object with the OID that it is given; 0 leaves the choice to the server.
pub const LO_CREATE: u32 = 715;

const fn function(
    oid: u32,
    name: &'static str,
    arguments: &'static [u32],
    writes: bool,
) -> LargeObjectFunction {
    LargeObjectFunction {
        oid,
        name,
        arguments,
        writes,
    }
}

const FUNCTIONS: [LargeObjectFunction; 17] = [
    function(LO_CREATE, "lo_create", &[OID], true),
    function(952, "lo_open", &[OID, INT4], false),
    function(953, "lo_close", &[INT4], false),
    function(954, "loread", &[INT4, INT4], false),
    function(955, "lowrite", &[INT4, BYTEA], true),
    function(956, "lo_lseek", &[INT4, INT4, INT4], false),
    function(LO_CREAT, "lo_creat", &[INT4], true),
    function(958, "lo_tell", &[INT4], false),
    function(964, "lo_unlink", &[OID], true),
    function(1004, "lo_truncate", &[INT4, INT4], true),
    function(3170, "lo_lseek64", &[INT4, INT8, INT4], false),
    function(3171, "lo_tell64", &[INT4], false),
    function(3172, "lo_truncate64", &[INT4, INT8], true),
    function(3457, "lo_from_bytea", &[OID, BYTEA], true),
    function(3458, "lo_get", &[OID], false),
    function(3459, "lo_get", &[OID, INT8, INT4], false),
    function(3460, "lo_put", &[OID, INT8, BYTEA], true),
];

impl LargeObjectFunction {
    /// Returns the function with this OID.
    pub fn of(oid: u32) -> Option<&'static LargeObjectFunction> {
        FUNCTIONS.iter().find(|function| function.oid == oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_object_function_is_found_by_its_oid() {
        let found = LargeObjectFunction::of(955).unwrap();
        assert_eq!((found.name, found.writes), ("lowrite", true));
        assert_eq!(LargeObjectFunction::of(1), None);
    }
}
