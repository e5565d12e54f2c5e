//! Turns panics of the Parquet library into errors.
//!
//! Its decoders assert that data is well-formed: `BitReader::get_vlq_int` documents that it panics at a number that is
//! too long. Checksums do not help: an attacker writes a new one with the altered file.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::SerializedFileReader;

use crate::content::Content;

thread_local! {
    /// Whether this thread decodes foreign bytes.
    static DECODES: Cell<bool> = const { Cell::new(false) };
}

/// Returns what `decode` returns, or an error if it panics. What it changed is to be dropped then.
pub(crate) fn catch_decoder_panic<T>(
    decode: impl FnOnce() -> ParquetResult<T>,
) -> ParquetResult<T> {
    silence_caught_panics();
    let outer = DECODES.replace(true);
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    DECODES.set(outer);
    decoded.unwrap_or_else(|panic| Err(ParquetError::General(reason(&*panic))))
}

/// Opens a Parquet file, which reads its footer.
pub(crate) fn open_parquet(content: Content) -> ParquetResult<SerializedFileReader<Content>> {
    catch_decoder_panic(|| SerializedFileReader::new(content))
}

/// Keeps the panic hook from reporting a panic that becomes an error.
fn silence_caught_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !DECODES.get() {
                report(panic);
            }
        }));
    });
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = (panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!(
        "its values cannot be decoded ({})",
        text.unwrap_or("the Parquet library gives no reason")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_the_decoder_is_an_error_with_its_reason() {
        let error = catch_decoder_panic::<()>(|| panic!("a number is {} bytes long", 11));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("its values cannot be decoded (a number is 11 bytes long)"),
            "{text}"
        );
        assert!(!DECODES.get());
        assert_eq!(catch_decoder_panic(|| Ok(1)).unwrap(), 1);
    }
}
