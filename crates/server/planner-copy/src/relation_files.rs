//! Files of relations of a stopped private server: extended by holes to a number of blocks, so that they take no
//! space on the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use crate::btree_pages;
use crate::error::PlannerCopyError;

/// Number of bytes of a metapage that are copied: the data of GIN (56 bytes) and BRIN (16 bytes) after the header.
const COPIED: std::ops::Range<usize> = 24..80;

/// Contents of the first blocks of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FirstBlocks {
    /// The blocks that the server wrote.
    Unchanged,
    /// B-tree of this height.
    Btree {
        /// Height; 0 for a tree of one leaf.
        height: u32,
        /// Block of its leaf; `None` for an empty one.
        leaf: Option<Vec<u8>>,
    },
    /// Numbers of the metapage of another access method, from this beginning of a block.
    Copied(Vec<u8>),
}

/// Extends files in one data directory.
pub(crate) struct RelationFiles<'d> {
    /// Data directory of a stopped server.
    pub(crate) data: &'d Path,
    /// Size of a block in bytes.
    pub(crate) block_size: u16,
    /// Size of a segment in bytes.
    pub(crate) segment_bytes: u64,
    /// Major version of the server.
    pub(crate) major: u16,
}

impl RelationFiles<'_> {
    /// Extends a relation to a number of blocks. A relation that has more is left as it is.
    ///
    /// # Errors
    /// If a file cannot be read or written, such as on a file system with a smaller limit.
    pub(crate) fn extend(
        &self,
        file: &str,
        pages: u32,
        first: &FirstBlocks,
    ) -> Result<(), PlannerCopyError> {
        let path = self.data.join(file);
        self.write_first_blocks(&path, pages, first)?;
        let mut left = u64::from(pages) * u64::from(self.block_size);
        for segment in 0.. {
            if left == 0 && segment > 0 {
                break;
            }
            let bytes = left.min(self.segment_bytes);
            self.extend_segment(&segment_path(&path, segment), bytes)?;
            left -= bytes;
        }
        Ok(())
    }

    /// Writes a visibility map in which the first block of a table is all-visible.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write_visibility_map(&self, file: &str) -> Result<(), PlannerCopyError> {
        let path = self.data.join(format!("{file}_vm"));
        self.extend_segment(&path, 1)?;
        let failed = |source| PlannerCopyError::file("write", &path)(source);
        let mut map = File::options()
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed)?;
        map.write_all(&btree_pages::visibility_map(self.block_size))
            .map_err(failed)
    }

    fn extend_segment(&self, path: &Path, bytes: u64) -> Result<(), PlannerCopyError> {
        let failed = |source| PlannerCopyError::file("extend", path)(source);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // The directory belongs to another user if root extends files, so no link may be followed.
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(failed)?;
        let known = file.metadata().map_err(failed)?;
        if known.len() < bytes {
            file.set_len(bytes).map_err(failed)?;
        }
        let owner = fs::metadata(self.data).map_err(failed)?;
        if known.uid() != owner.uid() {
            chown(path, Some(owner.uid()), Some(owner.gid())).map_err(failed)?;
        }
        Ok(())
    }

    fn write_first_blocks(
        &self,
        path: &Path,
        pages: u32,
        first: &FirstBlocks,
    ) -> Result<(), PlannerCopyError> {
        if *first == FirstBlocks::Unchanged {
            return Ok(());
        }
        let failed = |source| PlannerCopyError::file("write the metapage of", path)(source);
        let mut file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(failed)?;
        let mut metapage = vec![0; usize::from(self.block_size)];
        file.read_exact(&mut metapage).map_err(failed)?;
        let mut further = Vec::new();
        match first {
            FirstBlocks::Unchanged => {}
            FirstBlocks::Copied(page) => {
                if let Some(page) = page.get(COPIED) {
                    metapage[COPIED].copy_from_slice(page);
                }
            }
            FirstBlocks::Btree { height, leaf } => {
                // A tree has a block on each level, and the metapage.
                let height = (*height).min(pages.saturating_sub(2));
                btree_pages::set_height(&mut metapage, height);
                further = btree_pages::chain(height, leaf.as_deref(), self.block_size, self.major);
            }
        }
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.write_all(&metapage).map_err(failed)?;
        file.write_all(&further.concat()).map_err(failed)
    }
}

/// Returns the path of a segment; the first has no number.
fn segment_path(path: &Path, segment: u32) -> PathBuf {
    match segment {
        0 => path.to_owned(),
        number => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            name.into()
        }
    }
}
