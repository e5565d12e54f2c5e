//! Blocks of a B-tree that has a height and at most two entries.
//!
//! The planner reads the height from the metapage (`_bt_getrootheight`), and follows the outermost blocks down to the
//! smallest and the largest value (`get_actual_variable_range`). So the chain from the root to one leaf must be valid.
//! The leaf comes from the server ([`crate::restore_ranges`]), or is empty.
//!
//! Source: `nbtree.h`, `bufpage.h` and `itup.h` of PostgreSQL 10 to 18. Blocks are written in the byte order of this
//! machine, as the server on it reads them.

/// Offset of the metapage's data, after the page header.
const META: usize = 24;
/// Size of the page header in bytes.
const PAGE_HEADER: u16 = 24;
/// Size of the B-tree's data at the end of a page (`BTPageOpaqueData`).
const OPAQUE: u16 = 16;
/// Size of an index tuple without keys (`IndexTupleData`).
const TUPLE: u16 = 8;
/// `BTP_LEAF`
const LEAF: u16 = 1;
/// `BTP_ROOT`
const ROOT: u16 = 2;
/// `LP_NORMAL`
const LINE_NORMAL: u32 = 1;
/// `PG_PAGE_LAYOUT_VERSION`
const LAYOUT_VERSION: u16 = 4;
/// `INDEX_ALT_TID_MASK`: the tuple's offset number counts attributes (B-tree version 4, from 12 on).
const ALTERNATIVE_TID: u16 = 0x2000;
/// First major version with B-trees of version 4.
const VERSION_4_MAJOR: u16 = 12;
/// `BTREE_MAGIC`
const MAGIC: u32 = 0x0005_3162;

/// Returns the height in a metapage: 0 for a tree of one leaf. `None` if it is no metapage of a B-tree, or one without
/// a root, which the server has on disk until the first checkpoint after rows came.
pub(crate) fn height(metapage: &[u8]) -> Option<u32> {
    if number(metapage, META)? != MAGIC || number(metapage, META + 8)? == 0 {
        return None;
    }
    // magic, version, root, level, fast root, fast level; the planner reads the last.
    number(metapage, META + 20)
}

/// Sets the height in a metapage that the server wrote. The root is block 1.
pub(crate) fn set_height(metapage: &mut [u8], height: u32) {
    for (field, value) in [(8, 1), (12, height), (16, 1), (20, height)] {
        put(metapage, META + field, &value.to_ne_bytes());
    }
}

/// Returns the blocks 1 to `height` + 1: the root, inner blocks with one child each, and the leaf.
pub(crate) fn chain(height: u32, leaf: Option<&[u8]>, block_size: u16, major: u16) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = (0..=height)
        .map(|depth| block(depth, height, block_size, major))
        .collect();
    if let (Some(leaf), Some(last)) = (leaf, blocks.last_mut())
        && leaf.len() == last.len()
    {
        let flags = usize::from(block_size - OPAQUE) + 12;
        let own = [last[flags], last[flags + 1]];
        last.copy_from_slice(leaf);
        // It was the root of its index.
        last[flags..flags + 2].copy_from_slice(&own);
    }
    blocks
}

/// Returns the first block of a visibility map in which the first block of the table is all-visible.
pub(crate) fn visibility_map(block_size: u16) -> Vec<u8> {
    let mut page = vec![0; usize::from(block_size)];
    put(&mut page, 12, &PAGE_HEADER.to_ne_bytes());
    put(&mut page, 14, &block_size.to_ne_bytes());
    put(&mut page, 16, &block_size.to_ne_bytes());
    put(&mut page, 18, &(block_size | LAYOUT_VERSION).to_ne_bytes());
    // `VISIBILITYMAP_ALL_VISIBLE` of block 0.
    page[usize::from(PAGE_HEADER)] = 1;
    page
}

/// Returns the block at a depth; the root has the depth 0.
fn block(depth: u32, height: u32, block_size: u16, major: u16) -> Vec<u8> {
    let level = height - depth;
    let special = block_size - OPAQUE;
    let has_child = level > 0;
    let (lower, upper) = match has_child {
        true => (PAGE_HEADER + 4, special - TUPLE),
        false => (PAGE_HEADER, special),
    };
    let mut page = vec![0; usize::from(block_size)];
    put(&mut page, 12, &lower.to_ne_bytes());
    put(&mut page, 14, &upper.to_ne_bytes());
    put(&mut page, 16, &special.to_ne_bytes());
    put(&mut page, 18, &(block_size | LAYOUT_VERSION).to_ne_bytes());
    if has_child {
        let line = u32::from(upper) | LINE_NORMAL << 15 | u32::from(TUPLE) << 17;
        put(&mut page, usize::from(PAGE_HEADER), &line.to_ne_bytes());
        put_pivot(&mut page, usize::from(upper), depth + 2, major);
    }
    let mut flags = 0;
    if depth == 0 {
        flags |= ROOT;
    }
    if !has_child {
        flags |= LEAF;
    }
    let special = usize::from(special);
    put(&mut page, special + 8, &level.to_ne_bytes());
    put(&mut page, special + 12, &flags.to_ne_bytes());
    page
}

/// Writes the tuple for the child block, which is smaller than all keys and has none itself.
fn put_pivot(page: &mut [u8], at: usize, child: u32, major: u16) {
    let (offset_number, info) = match major >= VERSION_4_MAJOR {
        true => (0_u16, TUPLE | ALTERNATIVE_TID),
        false => (1_u16, TUPLE),
    };
    let halves = [(child >> 16) as u16, child as u16, offset_number, info];
    for (place, half) in halves.into_iter().enumerate() {
        put(page, at + place * 2, &half.to_ne_bytes());
    }
}

/// Estimates the height of a tree from its blocks and the width of its keys in bytes. A tuple has a header and a line
/// pointer, and inner blocks are filled to 70 % (`BTREE_NONLEAF_FILLFACTOR`).
pub(crate) fn estimate_height(pages: u32, key_width: f64, block_size: u32) -> u32 {
    let tuple = f64::from(TUPLE) + (key_width / 8.0).ceil() * 8.0 + 4.0;
    let fanout = (f64::from(block_size) * 0.7 / tuple).max(2.0);
    let mut height = 0;
    // The metapage is no part of the tree.
    let mut blocks = f64::from(pages.saturating_sub(1));
    while blocks > 1.0 {
        blocks = (blocks / fanout).floor();
        height += 1;
    }
    height
}

fn number(page: &[u8], at: usize) -> Option<u32> {
    let bytes = page.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn height_of_a_metapage_is_read_and_set() {
        let mut page = vec![0; 128];
        assert_eq!(height(&page), None);
        put(&mut page, META, &MAGIC.to_ne_bytes());
        assert_eq!(height(&page), None, "a tree without a root");
        set_height(&mut page, 3);
        assert_eq!(height(&page), Some(3));
        assert_eq!(height(&page[..40]), None);
    }

    #[test]
    fn chain_leads_from_the_root_to_one_leaf() {
        let pages = chain(2, None, 8_192, 18);
        assert_eq!(pages.len(), 3);
        let flags: Vec<u8> = pages.iter().map(|page| page[8_176 + 12]).collect();
        assert_eq!(flags, [2, 0, 1]);
        let levels: Vec<u8> = pages.iter().map(|page| page[8_176 + 8]).collect();
        assert_eq!(levels, [2, 1, 0]);
        // Block 1 is the first of them, so the root's child is block 2.
        assert_eq!(pages[0][8_168 + 2], 2);
        assert_eq!(pages[1][8_168 + 2], 3);
        let mut leaf = vec![7; 8_192];
        leaf[8_176 + 12..8_176 + 14].copy_from_slice(&3_u16.to_ne_bytes());
        let pages = chain(1, Some(&leaf), 8_192, 18);
        assert_eq!(
            (pages[1][0], pages[1][8_176 + 12]),
            (7, 1),
            "the leaf is no root any more"
        );
    }

    #[test]
    fn estimated_height_grows_with_blocks_and_key_width() {
        assert_eq!(estimate_height(2, 8.0, 8_192), 0);
        assert_eq!(estimate_height(276, 4.0, 8_192), 1);
        assert_eq!(estimate_height(27_422, 8.0, 8_192), 2);
        assert!(estimate_height(27_422, 200.0, 8_192) > 2);
    }
}
