//! A few rows at the bottom of a terminal that are redrawn in place. Pure functions.

use std::fmt::Write;

use owo_colors::{OwoColorize, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::visible::steers;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// The characters of a row.
    pub(crate) columns: usize,
    /// The number of rows.
    pub(crate) rows: usize,
}

// === impl Size ===

impl Size {
    /// Creates a size. Zeros, which mean unknown, become common values.
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        Self { columns: if columns == 0 { 100 } else { columns }, rows: if rows == 0 { 24 } else { rows } }
    }

    /// Returns the number of rows that a picture may have: the cursor is in the row below it.
    pub(crate) fn room(self) -> usize {
        self.rows.saturating_sub(1).max(1)
    }
}

/// A row: pieces of text, each with its own style.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row(Vec<(String, Style)>);

// === impl Row ===

impl Row {
    /// A row with this text.
    pub(crate) fn plain(text: &str) -> Self {
        let mut row = Self::default();
        row.push(text, Style::new());
        row
    }

    /// Adds a piece of text. Replaces what would move the cursor or turn the row by spaces.
    pub(crate) fn push(&mut self, text: &str, style: Style) {
        let text = text.chars().map(|c| if c.is_control() || steers(c) { ' ' } else { c }).collect();
        self.0.push((text, style));
    }

    /// Returns the row with colours, cut to this many columns; `…` marks a cut.
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

    /// Returns the width of the row in columns.
    fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.width()).sum()
    }
}

/// The rows that were drawn.
#[derive(Debug)]
pub(crate) struct Picture {
    rows: Vec<Row>,
    /// The width in columns of each drawn row.
    widths: Vec<usize>,
}

// === impl Picture ===

impl Picture {
    /// Creates a picture for a terminal of this size. Omits rows that do not fit.
    pub(crate) fn new(mut rows: Vec<Row>, size: Size) -> Self {
        rows.truncate(size.room());
        let widths = rows.iter().map(|row| row.width().min(size.columns)).collect();
        Self { rows, widths }
    }

    /// Returns the same picture for a terminal of another size.
    pub(crate) fn resized(self, size: Size) -> Self {
        Self::new(self.rows, size)
    }

    /// Returns the codes that draw the picture, over the previous one if there is one. Each row is cleared after its text,
    /// so that nothing flickers.
    pub(crate) fn over(&self, before: Option<&Self>, size: Size) -> String {
        // Line wrapping is off while drawing, because terminals differ in the width of some characters.
        let mut out = String::from("\x1b[?7l");
        out += &before.map_or_else(String::new, |before| before.back(size));
        for row in self.rows.iter().take(size.room()) {
            let _ = write!(out, "{}\x1b[K\r\n", row.clipped(size.columns));
        }
        out + "\x1b[J\x1b[?7h"
    }

    /// Returns the codes that remove the picture.
    pub(crate) fn erased(&self, size: Size) -> String {
        self.back(size) + "\x1b[J"
    }

    /// Returns the code that moves the cursor to the first row. A terminal that has become narrower has wrapped the longer
    /// rows. Rows beyond the top of the terminal cannot be reached.
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

    #[test]
    fn rows_are_cut_to_the_columns_that_characters_take() {
        assert_eq!(Row::plain("abc").clipped(2), "a…");
        assert_eq!(Row::plain("abc").clipped(3), "abc");
        assert_eq!(Row::plain("鯨鯨").clipped(3), "鯨…");
        assert_eq!(Row::plain("a\u{1b}[2Jb\nc\u{202e}d").clipped(99), "a [2Jb c d");
        let mut two = Row::plain("ab");
        two.push("cd", Style::new());
        assert_eq!(two.clipped(3), "ab…");
        assert_eq!(two.clipped(4), "abcd");
    }

    #[test]
    fn a_picture_goes_back_over_as_many_rows_as_the_former_one_takes_now() {
        let wide = Size::new(10, 24);
        let before = Picture::new(vec![Row::plain("0123456789abc"), Row::plain("x")], wide);
        let after = Picture::new(vec![Row::plain("y")], wide);
        assert_eq!(after.over(Some(&before), wide), "\x1b[?7l\x1b[2Fy\x1b[K\r\n\x1b[J\x1b[?7h");
        // A row of ten columns now takes two and a half rows.
        assert!(after.over(Some(&before), Size::new(4, 24)).starts_with("\x1b[?7l\x1b[4F"));
        // The cursor never moves beyond the top.
        assert!(after.over(Some(&before), Size::new(4, 3)).starts_with("\x1b[?7l\x1b[2F"));
    }

    #[test]
    fn no_more_rows_are_drawn_than_there_is_room_for() {
        let small = Size::new(80, 3);
        let picture = Picture::new((0..9).map(|n| Row::plain(&n.to_string())).collect(), small);
        assert_eq!(picture.over(None, small).matches("\r\n").count(), 2);
    }
}
