use super::*;
use std::io::Write;

fn read_all(mut window: Window) -> Vec<u8> {
    let mut all = Vec::new();
    while !window.is_at_end() {
        window.fill().unwrap();
        all.extend_from_slice(window.bytes());
        window.consume(window.bytes().len());
    }
    all
}

fn packed(text: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(text).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(text).unwrap();
    [
        ("gzip", gzip.finish().unwrap()),
        ("bzip2", bzip2.finish().unwrap()),
        ("xz", xz.finish().unwrap()),
        ("zstd", zstd::encode_all(text, 1).unwrap()),
    ]
}

fn open(bytes: Vec<u8>) -> Window {
    Window::open(Box::new(Cursor::new(bytes)), "x.log").unwrap()
}

#[test]
fn compression_is_told_by_the_bytes_and_not_by_the_name() {
    let text = b"2026-01-01 00:00:00.000 UTC [1] LOG:  x\n".repeat(100_000);
    for (name, packed) in packed(&text) {
        assert!(read_all(open(packed.clone())) == text, "{name}");
        // Two members in one file, as `cat a.gz b.gz` makes.
        let twice = [packed.clone(), packed].concat();
        assert!(read_all(open(twice)) == text.repeat(2), "{name}");
    }
    assert!(read_all(open(text.clone())) == text);
    assert_eq!(read_all(open(b"abc".to_vec())), b"abc");
    let zip = Box::new(Cursor::new(b"PK\x03\x04\x14\0\0\0"));
    let error = Window::open(zip, "x.zip").err().unwrap().to_string();
    assert!(
        error.contains("unzip -p x.zip | rehearse capture log -"),
        "{error}"
    );
    let zip = Box::new(Cursor::new(b"PK\x03\x04\x14\0\0\0"));
    let error = Window::open(zip, &Input::Stdin.name()).err().unwrap();
    let error = error.to_string();
    assert!(error.starts_with("standard input is "), "{error}");
    assert!(
        error.contains("unzip -p FILE | rehearse capture log -"),
        "{error}"
    );
}

#[test]
fn a_cut_or_damaged_file_is_read_as_far_as_it_goes() {
    // Noise, so that the packed files are long and a cut loses little of them.
    let mut state = 1u64;
    let text: Vec<u8> = (0..3_000_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            b"0123456789abcdef"[(state >> 60) as usize]
        })
        .collect();
    for (name, packed) in packed(&text) {
        let mut window = open(packed[..packed.len() * 3 / 4].to_vec());
        let mut read = Vec::new();
        while !window.is_at_end() {
            window.fill().unwrap();
            read.extend_from_slice(window.bytes());
            window.consume(window.bytes().len());
        }
        assert!(window.damage().unwrap().contains(name), "{name}");
        assert!(text.starts_with(&read), "{name}");
        assert!(read.len() > text.len() / 3, "{name}: {}", read.len());
        // The checksum at the end is wrong: all data is read and the damage is reported.
        if name == "gzip" {
            let mut altered = packed.clone();
            let at = altered.len() - 6;
            altered[at] ^= 1;
            let mut window = open(altered);
            while !window.is_at_end() {
                window.fill().unwrap();
                window.consume(window.bytes().len());
            }
            assert_eq!(window.consumed_bytes(), text.len() as u64);
            assert!(window.damage().unwrap().contains("damaged"));
        }
    }
}

struct Refusing;

impl Read for Refusing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is broken"))
    }
}

#[test]
fn a_disk_that_refuses_is_an_error_and_no_damage() {
    let (_, packed) = &packed(&[b'x'; 1_000])[0];
    let half = Cursor::new(packed[..packed.len() / 2].to_vec());
    let mut window = Window::open(Box::new(half.chain(Refusing)), "x.gz").unwrap();
    assert!(window.fill().unwrap_err().to_string().contains("broken"));
}

#[test]
fn the_window_grows_for_one_entry_and_shrinks_again() {
    let mut window = Window::from_bytes(vec![b'x'; 20 << 20]);
    while window.bytes().len() < 10 << 20 {
        window.fill().unwrap();
    }
    assert!(window.buffer.size() >= 10 << 20);
    window.consume(window.bytes().len());
    window.fill().unwrap();
    assert_eq!(window.buffer.size(), WINDOW_BYTES);
}

#[test]
fn what_another_thread_reads_is_the_same_bytes_in_any_bites() {
    let text: Vec<u8> = (0..3_000_000u32)
        .map(|at| (u64::from(at).pow(2) >> 7) as u8)
        .collect();
    for (bite, least) in [
        (1_000, 1),
        (100_000, 50_000),
        (200_000, 20_000),
        (2_500_000, 2_400_000),
    ] {
        let reader = Box::new(Cursor::new(text.clone()));
        let mut window = Window {
            origin: ByteSource::Ahead(
                ReadAhead::start(reader, Parallelism::default(), None).unwrap(),
            ),
            ..Window::from_bytes([])
        };
        let mut read = Vec::new();
        // As a reader does that needs this number of bytes for its next entry.
        while !(window.is_at_end() && window.bytes().is_empty()) {
            if window.bytes().len() < least && !window.is_at_end() {
                window.fill().unwrap();
                continue;
            }
            let length = window.bytes().len().min(bite);
            read.extend_from_slice(&window.bytes()[..length]);
            window.consume(length);
            assert!(window.buffer.size() <= 4 * least.max(SAMPLE_BYTES));
        }
        assert!(read == text, "{bite}");
    }
}

#[test]
fn a_disk_that_refuses_another_thread_is_an_error_too() {
    let text = Cursor::new(vec![b'x'; 3 << 20]).chain(Refusing);
    let mut window = Window::open(Box::new(text), "x.log").unwrap();
    let error = loop {
        match window.fill() {
            Ok(()) => assert!(!window.is_at_end()),
            Err(error) => break error,
        }
        window.consume(window.bytes().len());
    };
    assert!(error.to_string().contains("broken"));
    assert_eq!(window.consumed_bytes(), 3 << 20);
}
