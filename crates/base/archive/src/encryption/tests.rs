use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::file::CHUNK;
use super::*;
use crate::error::ArchiveError;

/// A directory with a key.
struct Fixture {
    directory: tempfile::TempDir,
    identity: Identity,
}

impl Fixture {
    fn new() -> Self {
        Fixture {
            directory: tempfile::tempdir().unwrap(),
            identity: Identity::generate(),
        }
    }

    fn encrypted(&self, content: &[u8]) -> PathBuf {
        let path = self.directory.path().join("a.age");
        let others = [Identity::generate().to_public(), self.identity.to_public()];
        std::fs::write(&path, encrypt(&Encryption::to(&others), content).unwrap()).unwrap();
        path
    }

    fn keyring(&self) -> Keyring {
        Keyring::new([self.identity.clone()])
    }

    fn open(&self, path: &Path) -> Result<EncryptedFile, ArchiveError> {
        EncryptedFile::open(path, &self.keyring())
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn read(file: &EncryptedFile, from: usize, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_from(from as u64).read_exact(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn key_files_are_read_and_written_as_age_keygen_does() {
    // The key of age's own tests: 32 times 0x42.
    let secret = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    let public = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
    let file = format!("# public key: {public}\n{secret}\n");
    let identity = &parse_identities(&format!("# created\n{file}")).unwrap()[0];
    assert_eq!(key_file(identity), file);
    assert_eq!(parse_recipients(&file).unwrap(), [identity.to_public()]);
    assert_eq!(parse_recipients(public).unwrap(), [identity.to_public()]);
    let misspelt = public.replace("zvky", "zvkz");
    for (text, line) in [("\nx", 2), (&*misspelt, 1)] {
        assert_eq!(
            parse_recipients(text).unwrap_err(),
            KeyError::NoKey { line }
        );
    }
    assert_eq!(parse_recipients("# x").unwrap_err(), KeyError::Empty);
    assert_eq!(
        parse_identities(public).err().unwrap(),
        KeyError::PublicOnly
    );
}

#[test]
fn content_is_read_from_any_offset() {
    let fixture = Fixture::new();
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let content = content(length);
        let path = fixture.encrypted(&content);
        let file = fixture.open(&path).unwrap();
        assert_eq!(file.len(), length as u64);
        assert_eq!(decrypt(&path, &fixture.keyring()).unwrap(), content);
        for from in [
            0, 1, 65_535, 65_536, 70_000, 131_071, 131_072, 200_000, 262_144,
        ] {
            let mut read = Vec::new();
            file.read_from(from as u64).read_to_end(&mut read).unwrap();
            assert_eq!(read, content[from.min(length)..], "{length} from {from}");
        }
    }
}

#[test]
fn readers_of_one_file_are_used_in_turns() {
    let fixture = Fixture::new();
    let content = content(200_000);
    let file = fixture.open(&fixture.encrypted(&content)).unwrap();
    let starts = [150_000, 0, 65_530, 0];
    let mut readers = starts.map(|start| file.read_from(start as u64));
    let mut read = starts.map(|_| Vec::new());
    for _ in 0..40 {
        for (reader, read) in readers.iter_mut().zip(&mut read) {
            let mut bytes = [0; 1_000];
            reader.read_exact(&mut bytes).unwrap();
            read.extend(bytes);
        }
    }
    for (start, read) in starts.into_iter().zip(&read) {
        assert_eq!(read, &content[start..start + 40_000], "from {start}");
    }
}

#[test]
fn only_the_chunks_that_are_asked_for_are_decrypted() {
    let fixture = Fixture::new();
    let content = content(10 * CHUNK);
    let path = fixture.encrypted(&content);
    let mut bytes = std::fs::read(&path).unwrap();
    let payload = bytes.len() - 10 * (CHUNK + 16);
    for chunk in [0, 3, 4, 6] {
        bytes[payload + chunk * (CHUNK + 16)] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    for (chunk, is_whole) in [(9, true), (5, true), (1, true), (2, true), (8, true)] {
        let file = fixture.open(&path).unwrap();
        let read = read(&file, chunk * CHUNK, CHUNK);
        assert_eq!(read.is_ok(), is_whole, "chunk {chunk}");
        assert_eq!(read.unwrap(), content[chunk * CHUNK..(chunk + 1) * CHUNK]);
    }
    let file = fixture.open(&path).unwrap();
    assert!(read(&file, 3 * CHUNK + 7, 1).is_err());
}

#[test]
fn another_key_opens_nothing() {
    let fixture = Fixture::new();
    let path = fixture.encrypted(b"content");
    for keyring in [Keyring::default(), Keyring::new([Identity::generate()])] {
        let refused = EncryptedFile::open(&path, &keyring).err().unwrap();
        assert!(matches!(refused, ArchiveError::Locked { .. }), "{refused}");
    }
}

#[test]
fn the_writer_opens_its_files_without_a_secret_key() {
    let fixture = Fixture::new();
    let encryption = Encryption::to(&[fixture.identity.to_public()]);
    let path = fixture.directory.path().join("a.age");
    std::fs::write(&path, encrypt(&encryption, b"content").unwrap()).unwrap();
    assert_eq!(decrypt(&path, &encryption.keyring()).unwrap(), b"content");
    let other = Encryption::to(&[fixture.identity.to_public()]);
    let refused = decrypt(&path, &other.keyring()).unwrap_err();
    assert!(matches!(refused, ArchiveError::Locked { .. }), "{refused}");
}

#[test]
fn any_altered_byte_is_found() {
    let fixture = Fixture::new();
    let path = fixture.encrypted(b"content");
    let whole = std::fs::read(&path).unwrap();
    let reads = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let read = fixture.open(&path).ok();
        let read = read.and_then(|file| read_all(&file).ok());
        let decrypted = decrypt(&path, &fixture.keyring()).ok();
        assert_eq!(read, decrypted);
        decrypted.is_some_and(|content| content == b"content")
    };
    assert!(reads(&whole));
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        assert!(!reads(&altered), "byte {at}");
        assert!(!reads(&whole[..at]), "cut at {at}");
    }
}

fn read_all(file: &EncryptedFile) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.read_from(0).read_to_end(&mut content)?;
    Ok(content)
}

#[test]
fn a_file_that_was_cut_between_chunks_is_damaged() {
    let fixture = Fixture::new();
    let path = fixture.encrypted(&content(200_000));
    let whole = std::fs::read(&path).unwrap();
    // The last chunk has what is left of three whole ones.
    let last = 200_000 - 3 * CHUNK + 16;
    std::fs::write(&path, &whole[..whole.len() - last]).unwrap();
    let opened = fixture.open(&path).map(drop);
    let decrypted = decrypt(&path, &fixture.keyring()).map(drop);
    for result in [opened, decrypted] {
        let error = result.unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
    }
}

/// As after a kill: the file has no last chunk.
#[test]
fn tail_completes_an_unfinished_file() {
    let fixture = Fixture::new();
    let encryption = Encryption::to(&[fixture.identity.to_public()]);
    let path = fixture.directory.path().join("a.age");
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 131_073, 400_000] {
        for piece in [999, 65_536, 70_000, 300_000] {
            let content = content(length);
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = EncryptedWriter::begin(file, &encryption).unwrap();
            for piece in content.chunks(piece) {
                writer.write_all(piece).unwrap();
            }
            let tail = writer.tail();
            assert!(tail.len() <= CHUNK);
            drop(writer);
            let on_disk = (length - tail.len()) as u64;
            let mut recovered = Vec::new();
            let stream = open_stream(&path, &fixture.keyring()).unwrap();
            stream.take(on_disk).read_to_end(&mut recovered).unwrap();
            recovered.extend(tail);
            assert_eq!(recovered, content, "{length} by {piece}");
        }
    }
}
