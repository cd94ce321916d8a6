//! A few rows at the bottom of a terminal that are drawn over again and again. Pure.

use std::fmt::Write;

use owo_colors::{OwoColorize, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Characters in a row.
    pub(crate) columns: usize,
    /// Rows.
    pub(crate) rows: usize,
}

// === impl Size ===

impl Size {
    /// A terminal of this size; of a usual one where it does not say its own.
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        Self { columns: if columns == 0 { 100 } else { columns }, rows: if rows == 0 { 24 } else { rows } }
    }

    /// Rows that a picture may have: the cursor stands below it.
    pub(crate) fn room(self) -> usize {
        self.rows.saturating_sub(1).max(1)
    }
}

/// One row: pieces of text, each in its own colour.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row(Vec<(String, Style)>);

// === impl Row ===

impl Row {
    /// Adds a piece. Characters that would move the cursor become spaces.
    pub(crate) fn push(&mut self, text: &str, style: Style) {
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.0.push((text, style));
    }

    /// The row in colours, cut to this many columns; `…` stands for what was cut.
    pub(crate) fn clipped(&self, columns: usize) -> String {
        let is_cut = self.width() > columns;
        let mut left = if is_cut { columns.saturating_sub(1) } else { columns };
        let mut out = String::new();
        for (text, style) in &self.0 {
            let mut fitting = String::new();
            let mut fits = true;
            for character in text.chars() {
                let width = character.width().unwrap_or(0);
                if width > left {
                    fits = false;
                    fitting.push('…');
                    break;
                }
                left -= width;
                fitting.push(character);
            }
            if !fitting.is_empty() {
                let _ = write!(out, "{}", fitting.style(*style));
            }
            if !fits {
                break;
            }
        }
        out
    }

    /// Columns that it takes.
    fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.width()).sum()
    }
}

/// What is drawn.
#[derive(Debug)]
pub(crate) struct Picture {
    rows: Vec<Row>,
    /// Columns of each row as it was drawn.
    widths: Vec<usize>,
}

// === impl Picture ===

impl Picture {
    /// Rows for a terminal of this size; those that do not fit are left out.
    pub(crate) fn new(mut rows: Vec<Row>, size: Size) -> Self {
        rows.truncate(size.room());
        let widths = rows.iter().map(|row| row.width().min(size.columns)).collect();
        Self { rows, widths }
    }

    /// The same for a terminal of another size.
    pub(crate) fn again(self, size: Size) -> Self {
        Self::new(self.rows, size)
    }

    /// What draws it, over another one if there is one. Each row is cleared behind its text, so nothing flickers.
    pub(crate) fn over(&self, before: Option<&Self>, size: Size) -> String {
        // Lines do not wrap while this is drawn, whatever a terminal makes of wide characters.
        let mut out = String::from("\x1b[?7l");
        out += &before.map_or_else(String::new, |before| before.back(size));
        for row in self.rows.iter().take(size.room()) {
            let _ = write!(out, "{}\x1b[K\r\n", row.clipped(size.columns));
        }
        out + "\x1b[J\x1b[?7h"
    }

    /// What takes it away.
    pub(crate) fn erased(&self, size: Size) -> String {
        self.back(size) + "\x1b[J"
    }

    /// Goes back to its first row. A terminal that has become narrower has wrapped the longer rows; what has gone off its
    /// top cannot be reached.
    fn back(&self, size: Size) -> String {
        let rows: usize = self.widths.iter().map(|width| width.div_ceil(size.columns).max(1)).sum();
        match rows.min(size.room()) {
            0 => "\r".to_owned(),
            rows => format!("\x1b[{rows}F"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        let mut row = Row::default();
        row.push(text, Style::new());
        row
    }

    #[test]
    fn rows_are_cut_to_the_columns_that_characters_take() {
        assert_eq!(row("abc").clipped(2), "a…");
        assert_eq!(row("abc").clipped(3), "abc");
        assert_eq!(row("鯨鯨").clipped(3), "鯨…");
        assert_eq!(row("a\u{1b}[2Jb\nc").clipped(99), "a [2Jb c");
        let mut two = row("ab");
        two.push("cd", Style::new());
        assert_eq!(two.clipped(3), "ab…");
        assert_eq!(two.clipped(4), "abcd");
    }

    #[test]
    fn a_picture_goes_back_over_as_many_rows_as_the_former_one_takes_now() {
        let wide = Size::new(10, 24);
        let before = Picture::new(vec![row("0123456789abc"), row("x")], wide);
        let after = Picture::new(vec![row("y")], wide);
        assert_eq!(after.over(Some(&before), wide), "\x1b[?7l\x1b[2Fy\x1b[K\r\n\x1b[J\x1b[?7h");
        // Ten columns have become two and a half rows.
        assert!(after.over(Some(&before), Size::new(4, 24)).starts_with("\x1b[?7l\x1b[4F"));
        // Never further than to the top.
        assert!(after.over(Some(&before), Size::new(4, 3)).starts_with("\x1b[?7l\x1b[2F"));
    }

    #[test]
    fn no_more_rows_are_drawn_than_there_is_room_for() {
        let small = Size::new(80, 3);
        let picture = Picture::new((0..9).map(|n| row(&n.to_string())).collect(), small);
        assert_eq!(picture.over(None, small).matches("\r\n").count(), 2);
    }
}
