//! Names and binary forms of built-in types (`pg_type.dat`, and the `send` function of each type).

/// First OID of user-defined objects (`FirstNormalObjectId` in `transam.h`).
pub const FIRST_USER_OID: u32 = 16_384;

/// Returns the name of a built-in type by its OID; `None` for types that are not listed here.
pub fn type_name(oid: u32) -> Option<&'static str> {
    Some(match oid {
        16 => "bool",
        17 => "bytea",
        20 => "int8",
        21 => "int2",
        23 => "int4",
        25 => "text",
        26 => "oid",
        114 => "json",
        700 => "float4",
        701 => "float8",
        1043 => "varchar",
        1082 => "date",
        1114 => "timestamp",
        1184 => "timestamptz",
        1700 => "numeric",
        2950 => "uuid",
        3802 => "jsonb",
        _ => return None,
    })
}

/// Returns the text of a value in binary form, of types with a simple form; `None` for others.
pub fn binary_value_text(oid: u32, bytes: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(match oid {
        16 => match bytes {
            [0] => "f".to_owned(),
            [1] => "t".to_owned(),
            _ => return None,
        },
        17 => format!("\\x{}", hex_digits(bytes)),
        20 => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        21 => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        23 => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        26 => u32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        700 => f32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        701 => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        25 | 114 | 1043 => text(bytes)?,
        2950 if bytes.len() == 16 => hex_digits(bytes),
        3802 if bytes.first() == Some(&1) => text(&bytes[1..])?,
        _ => return None,
    })
}

/// Returns the bytes as hexadecimal digits.
pub fn hex_digits(bytes: &[u8]) -> String {
    let digits = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digits)
}
