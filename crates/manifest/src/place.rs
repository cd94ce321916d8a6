//! Positions in texts.

use std::fmt;

use serde_saphyr::Location;

/// A position in a text. Lines and columns count from 1, and columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// The position of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLocation {
    /// The position of the field's name. For an item of a list, the position of the item.
    pub key: Position,
    /// The position of the field's value.
    pub value: Position,
    /// Whether the field exists. Otherwise the positions are those of its nearest existing parent.
    pub exists: bool,
}

// === impl Position ===

impl Position {
    /// The start of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position of a line and a column that count from 0.
    pub(crate) fn of_indices(line: usize, column: usize) -> Self {
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
        Self { line: number(line), column: number(column) }
    }

    /// The position that the parser gives. It counts from the start of the document, not of the file.
    pub(crate) fn of_parser(location: Location) -> Self {
        // Zero says that the parser does not know.
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
        Self { line: number(location.line()), column: number(location.column()) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}
