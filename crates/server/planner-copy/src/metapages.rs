//! First blocks of indexes. In a file they are as the last checkpoint left them: zeros for an index that was created since.

/// `BTREE_MAGIC` of `nbtree.h`.
const BTREE_MAGIC: u32 = 0x0005_3162;
/// `BRIN_META_MAGIC` of `brin_page.h`.
const BRIN_MAGIC: u32 = 0xA810_9CFA;
/// Size of the header of a block in bytes (`PageHeaderData`).
const HEADER: usize = 24;
/// Place of `pagesPerRange` (`BrinMetaPageData`).
const BRIN_RANGE: usize = HEADER + 8;

/// Returns whether the beginning of a first block is that of an index of this method. A BRIN index of zeros has ranges of no block, which
/// gives costs without a meaning.
pub(crate) fn is_written(method: &str, page: &[u8]) -> bool {
    let number = |at: usize| {
        let four = page.get(at..at + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    };
    match method {
        "btree" => number(HEADER) == Some(BTREE_MAGIC),
        "brin" => {
            number(HEADER) == Some(BRIN_MAGIC) && number(BRIN_RANGE).is_some_and(|one| one > 0)
        }
        _ => page.iter().any(|byte| *byte != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_of_zeros_or_without_a_range_is_not_written() {
        let mut page = [0; 128];
        for method in ["btree", "gin", "brin"] {
            assert!(!is_written(method, &page), "{method}");
        }
        page[24..28].copy_from_slice(&BRIN_MAGIC.to_le_bytes());
        assert!(!is_written("brin", &page) && !is_written("btree", &page));
        page[32] = 128;
        assert!(is_written("brin", &page) && is_written("gin", &page));
        assert!(!is_written("brin", &page[..20]));
    }
}
