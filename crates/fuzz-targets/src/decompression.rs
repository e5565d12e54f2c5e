//! Decompression of logs: bombs, cut and damaged files.

use std::io::{Cursor, Read};

use capture_sink::compression::{Compression, FileFormat, MAGIC_BYTES, detect};

/// Decompressed bytes to read. More are left in the decoder.
const READ_BYTES_MAX: u64 = 8 << 20;

/// Checks the bytes as a file, and as content of a file of each compression.
pub fn check(data: &[u8]) {
    let magic = &data[..data.len().min(MAGIC_BYTES)];
    if let FileFormat::Compressed(compression) = detect(magic) {
        let once = decompress(compression, data.to_vec());
        assert_eq!(
            decompress(compression, data.to_vec()),
            once,
            "it depends on chance"
        );
        // A file that is whole is the beginning of two that are joined.
        if once.is_whole && (once.text.len() as u64) < READ_BYTES_MAX / 2 {
            let twice = decompress(compression, [data, data].concat());
            assert_eq!(twice.text[..once.text.len()], once.text);
        }
        // A cut file gives a beginning of the whole one.
        let cut = decompress(compression, data[..data.len() / 2].to_vec());
        let length = cut.text.len().min(once.text.len());
        assert_eq!(cut.text[..length], once.text[..length]);
    }
    for (compression, packed) in pack(data) {
        assert_eq!(
            detect(&packed[..MAGIC_BYTES]),
            FileFormat::Compressed(compression)
        );
        let unpacked = decompress(compression, packed.clone());
        assert!(
            unpacked.is_whole && unpacked.text == data,
            "{compression:?}"
        );
        let cut = decompress(compression, packed[..packed.len() - 1].to_vec());
        assert!(!cut.is_whole, "{compression:?}: a cut file is not noticed");
        assert!(data.starts_with(&cut.text), "{compression:?}");
    }
}

/// Result of a decompression.
#[derive(Debug, PartialEq, Eq)]
struct Decompressed {
    text: Vec<u8>,
    is_whole: bool,
}

fn decompress(compression: Compression, packed: Vec<u8>) -> Decompressed {
    let mut text = Vec::new();
    let decoder = compression
        .decoder(Cursor::new(packed))
        .expect("memory for a decoder");
    let is_whole = match decoder.take(READ_BYTES_MAX).read_to_end(&mut text) {
        Ok(_) => true,
        Err(error) => {
            assert!(compression.damage(&error).contains(compression.name()));
            false
        }
    };
    Decompressed { text, is_whole }
}

fn pack(data: &[u8]) -> [(Compression, Vec<u8>); 2] {
    let fast = flate2::Compression::fast();
    let mut gzip = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(data, fast);
    encoder.read_to_end(&mut gzip).expect("memory");
    let zstd = zstd::encode_all(data, 1).expect("memory");
    [(Compression::Gzip, gzip), (Compression::Zstd, zstd)]
}
