//! Tables with aligned columns.

use crate::text::line::cut;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows of cells. Each column is as wide as its widest cell, with two blanks between columns.
#[derive(Debug)]
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

const GAP: &str = "  ";

impl Table {
    pub(crate) fn new(align: &[Align]) -> Self {
        Self {
            align: align.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Adds a row whose number of columns is only known at run time.
    pub(crate) fn line(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the rows as lines, without trailing blanks.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.align.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |row: &Vec<String>| {
            let mut out = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.align) {
                if !out.is_empty() {
                    out.push_str(GAP);
                }
                let blanks = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => out.extend([cell.as_str(), blanks.as_str()]),
                    Align::Right => out.extend([blanks.as_str(), cell.as_str()]),
                }
            }
            out.truncate(out.trim_end().len());
            out
        };
        self.rows.iter().map(line).collect()
    }
}

/// Table of names, amounts and remarks.
pub(super) struct AccountTable(Table);

impl AccountTable {
    pub(super) fn new() -> Self {
        Self(Table::new(&[Align::Left, Align::Right, Align::Left]))
    }

    /// Adds a row. A part of the row above has an empty name.
    pub(super) fn row(&mut self, name: &str, amount: String, remark: impl Into<String>) {
        self.0.row([format!("  {name}"), amount, remark.into()]);
    }

    /// Returns the rows as lines, cut to a width.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        self.0.lines().iter().map(|line| cut(line, width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        for cells in [["a", "1", "x"], ["größe", "1,234", ""]] {
            table.row(cells.map(String::from));
        }
        assert_eq!(table.lines(), ["a          1  x", "größe  1,234"]);
    }
}
