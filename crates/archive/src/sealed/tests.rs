use std::io::Read;
use std::path::{Path, PathBuf};

use super::*;
use crate::error::ArchiveError;

struct Room {
    directory: tempfile::TempDir,
    identity: Identity,
}

impl Room {
    fn new() -> Self {
        Room {
            directory: tempfile::tempdir().unwrap(),
            identity: Identity::random(),
        }
    }

    fn sealed(&self, content: &[u8]) -> PathBuf {
        let path = self.directory.path().join("a.age");
        let others = [Identity::random().recipient(), self.identity.recipient()];
        std::fs::write(&path, seal(&Encryption::to(&others), content).unwrap()).unwrap();
        path
    }

    fn open(&self, path: &Path) -> Result<SealedFile, ArchiveError> {
        SealedFile::open(path, &Keyring::new([self.identity.clone()]))
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn keys_are_written_as_age_writes_them() {
    // The key of age's own tests: 32 times 0x42.
    let text = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    let identity = Identity::parse(text).unwrap();
    assert_eq!(identity.0, [0x42; 32]);
    assert_eq!(identity.secret_text(), text);
    let public = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
    assert_eq!(identity.recipient().to_string(), public);
    assert_eq!(Recipient::parse(public), Some(identity.recipient()));
    assert_eq!(Recipient::parse(&public.replace("zvky", "zvkz")), None);
    let file = format!("# created\n# public key: {public}\n{text}\n");
    assert_eq!(Identity::all_in(&file).unwrap().len(), 1);
    assert_eq!(Recipient::all_in(&file).unwrap(), [identity.recipient()]);
    assert_eq!(Identity::all_in(public).unwrap_err(), KeyError::PublicOnly);
    assert_eq!(
        Recipient::all_in("\nx").unwrap_err(),
        KeyError::NoKey { line: 2 }
    );
    assert_eq!(Recipient::all_in("# x").unwrap_err(), KeyError::Empty);
}

#[test]
fn what_is_sealed_is_read_from_any_place() {
    let room = Room::new();
    for length in [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let content = content(length);
        let path = room.sealed(&content);
        let file = room.open(&path).unwrap();
        assert_eq!(file.len(), length as u64);
        assert_eq!(file.read_all().unwrap(), content);
        for from in [0, 1, 65_535, 65_536, 70_000, 131_071] {
            let mut read = Vec::new();
            file.read_from(from as u64).read_to_end(&mut read).unwrap();
            assert_eq!(read, content[from.min(length)..], "{length} from {from}");
        }
    }
}

#[test]
fn another_key_opens_nothing() {
    let room = Room::new();
    let path = room.sealed(b"content");
    for keyring in [Keyring::default(), Keyring::new([Identity::random()])] {
        let refused = SealedFile::open(&path, &keyring).err().unwrap();
        assert!(matches!(refused, ArchiveError::Locked { .. }), "{refused}");
    }
}

#[test]
fn any_byte_that_is_altered_is_found() {
    let room = Room::new();
    let path = room.sealed(b"content");
    let whole = std::fs::read(&path).unwrap();
    let reads = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let all = room.open(&path).ok().and_then(|file| file.read_all().ok());
        all.is_some_and(|content| content == b"content")
    };
    assert!(reads(&whole));
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        assert!(!reads(&altered), "byte {at}");
        assert!(!reads(&whole[..at]), "cut at {at}");
    }
}

#[test]
fn a_file_that_was_cut_between_chunks_is_found() {
    let room = Room::new();
    let path = room.sealed(&content(200_000));
    let whole = std::fs::read(&path).unwrap();
    let file = room.open(&path).unwrap();
    // The last chunk has what is left over of three whole ones.
    let last = 200_000 - 3 * 65_536 + 16;
    drop(file);
    std::fs::write(&path, &whole[..whole.len() - last]).unwrap();
    assert!(room.open(&path).unwrap().read_all().is_err());
}
