//! Positions in YAML documents that are block texts (`key: |`) of other documents.

use crate::{Position, limits::options, node::Read, path};

/// Returns the position of the field `inner` of the YAML document `text`. This text is a literal block of `input`, and its
/// key is at `key`. Returns `None` if the text is written in another form.
pub(crate) fn locate(input: &str, key: Position, text: &str, inner: &str) -> Option<Position> {
    let read: Read = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let found = path::locate(&read.node, inner).key;
    let (line, column) = (index(found.line)?, index(found.column)?);
    // The position of an item of a list is that of its text, and the header is in the line before.
    let key = index(key.line)?;
    let opens = |at: &usize| input.lines().nth(*at).is_some_and(opens_block);
    let header = [Some(key), key.checked_sub(1)].into_iter().flatten().find(opens)?;
    // The indentation of a block is that of its first line with content. A comparison of the found line shows whether it is
    // right: the text may have been changed since, or set another indentation.
    let wanted = text.lines().nth(line)?;
    let block: Vec<&str> = input.lines().skip(header + 1).take(line + 1).collect();
    let first = block.iter().zip(text.lines()).find(|(_, inner)| !inner.trim().is_empty());
    let (outer, own) = first?;
    let indent = outer.len().checked_sub(own.len())?;
    if block.last()?.get(indent..)?.trim_end() != wanted.trim_end() {
        return None;
    }
    Some(Position::of_indices(header + 1 + line, indent + column))
}

/// A position that counts from 1, as an index.
fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

/// Whether a line ends with the header of a literal block: `|`, possibly with indicators and a comment.
fn opens_block(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let header = line.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'));
    header.ends_with('|')
}
