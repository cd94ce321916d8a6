//! Lines and columns.

use std::fmt;

/// A place in a text. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// Where a field stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// The field's name; of an item of a list, the item.
    pub key: Position,
    /// The field's value.
    pub value: Position,
    /// Whether the field itself is there; otherwise the positions are those of the nearest parent that is.
    pub exists: bool,
}

// === impl Position ===

impl Position {
    /// Where a text starts.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}
