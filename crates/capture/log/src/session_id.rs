//! Parses session identifiers.

/// Parses `%c`: the process's start in hexadecimal seconds, and its number.
#[inline]
pub(crate) fn parse_session_id(text: &[u8]) -> Option<(u64, u32, usize)> {
    let mut at = 0;
    let mut hex = || {
        let (mut value, start) = (0u64, at);
        while let Some(byte) = text.get(at) {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ => break,
            };
            if at - start == 15 {
                return None;
            }
            value = value << 4 | u64::from(digit);
            at += 1;
        }
        let any = at > start;
        at += 1;
        any.then_some((value, at - 1))
    };
    let (started, dot) = hex()?;
    if text.get(dot) != Some(&b'.') {
        return None;
    }
    let (pid, end) = hex()?;
    Some((started, u32::try_from(pid).ok()?, end))
}
