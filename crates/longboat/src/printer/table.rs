//! Text in columns. A pure function.

use unicode_width::UnicodeWidthStr;

/// Aligns the cells of rows: those of the first `words` columns to the left, and those of the others, which are numbers, to the
/// right.
pub(crate) fn aligned(rows: &[Vec<String>], words: usize, gap: &str) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let space = " ".repeat(width - cell.width());
            if column < words { format!("{cell}{space}") } else { format!("{space}{cell}") }
        });
        cells.collect::<Vec<_>>().join(gap).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
