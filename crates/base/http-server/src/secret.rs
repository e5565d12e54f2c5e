//! Secrets that a request must present.

use std::fs::File;
use std::io::{self, Read};

/// Draws random bytes from the operating system, as hexadecimal digits.
///
/// # Errors
/// If the random device cannot be read.
pub fn random_hex<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares a given secret with the right one, in a time that does not depend on where they differ.
pub fn is_same_secret(given: &str, right: &str) -> bool {
    let pairs = given.bytes().zip(right.bytes());
    given.len() == right.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_the_secret() {
        let (one, other) = (random_hex::<16>().unwrap(), random_hex::<16>().unwrap());
        assert_eq!(one.len(), 32);
        assert!(is_same_secret(&one, &one) && !is_same_secret(&one, &other));
        assert!(!is_same_secret("", &one) && !is_same_secret(&one[..31], &one));
        assert!(!is_same_secret(&format!("{one}0"), &one));
    }
}
