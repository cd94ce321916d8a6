//! The journal of a download: what is complete, and which bytes of unfinished files are there.
//!
//! A journal is a text file of records, one a line, each with a sum of its own at the end; it is only ever appended to, so
//! a process that is killed loses at most its last line. The kinds of records:
//!
//! | first word | rest |
//! |---|---|
//! | `longboat-fetch` | format version, source |
//! | `partial` | number, size or `-`, identity and path of an unfinished file, as a JSON list |
//! | `block` | number of the file, first byte, byte after the last, CRC-32 of the bytes |
//! | `done` | a complete file, as JSON |
//! | `gone` | the path of a file that was removed, as JSON |
//! | `complete` | revision and patterns of a source that was brought as a whole, as a JSON list |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Longest line that is read, in bytes.
pub(crate) const LONGEST_LINE: usize = 64 << 10;

const HEADER: &str = "longboat-fetch 1";

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Path below the target.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified: i64,
    /// What the source calls this content: an ETag, a generation, a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The digest that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The revision of the source that it was brought of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The archive that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

/// An unfinished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// Its number in the journal.
    pub number: u64,
    /// Path below the target.
    pub path: String,
    /// Size in bytes, if it is known.
    pub size: Option<u64>,
    /// What the source calls this content.
    pub identity: String,
    /// What was written: first byte, byte after the last, CRC-32.
    pub blocks: Vec<(u64, u64, u32)>,
}

/// What a journal says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// The source it is about.
    pub source: String,
    /// Complete files by path.
    pub done: BTreeMap<String, Done>,
    /// Unfinished files by path.
    pub partial: BTreeMap<String, Partial>,
    /// Revision and patterns, if everything was brought.
    pub complete: Option<(Option<String>, String)>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Starts a journal.
    Header(&'a str),
    /// Starts a file.
    Partial {
        /// Number of the file.
        number: u64,
        /// Size in bytes, if it is known.
        size: Option<u64>,
        /// What the source calls this content.
        identity: &'a str,
        /// Path below the target.
        path: &'a str,
    },
    /// Bytes that were written.
    Block {
        /// Number of the file.
        number: u64,
        /// First byte.
        start: u64,
        /// Byte after the last.
        end: u64,
        /// CRC-32 of the bytes.
        sum: u32,
    },
    /// Ends a file.
    Done(&'a Done),
    /// A file was removed.
    Gone(&'a str),
    /// Ends the source.
    Complete {
        /// Its revision.
        revision: Option<&'a str>,
        /// The patterns that chose its files.
        filter: &'a str,
    },
}

// === impl Record ===

impl Record<'_> {
    /// The line of this record, with its sum and line break.
    pub(crate) fn line(&self) -> String {
        let text = match self {
            Self::Header(source) => format!("{HEADER} {}", json(source)),
            Self::Partial { number, size, identity, path } => {
                format!("partial {}", json(&(number, size, identity, path)))
            }
            Self::Block { number, start, end, sum } => format!("block {number} {start} {end} {sum:08x}"),
            Self::Done(done) => format!("done {}", json(done)),
            Self::Gone(path) => format!("gone {}", json(path)),
            Self::Complete { revision, filter } => format!("complete {}", json(&(revision, filter))),
        };
        format!("{text} #{:08x}\n", sum(text.as_bytes()))
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers are always JSON")
}

fn sum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

// === impl Journal ===

impl Journal {
    /// Reads all records of a text, up to the first that is torn. None where the text is no journal of this format.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let mut journal = Self::begin(lines.next()?)?;
        for line in lines {
            if journal.read(line).is_none() {
                break;
            }
        }
        Some(journal)
    }

    /// A journal that begins with this line.
    pub fn begin(line: &[u8]) -> Option<Self> {
        let source = checked(line)?.strip_prefix(HEADER)?.strip_prefix(' ')?;
        Some(Self { source: serde_json::from_str(source).ok()?, ..Self::default() })
    }

    /// Takes in the next line; none where it is torn, after which nothing can be believed.
    pub fn read(&mut self, line: &[u8]) -> Option<()> {
        let (kind, rest) = checked(line)?.split_once(' ')?;
        match kind {
            "partial" => {
                let (number, size, identity, path): (u64, Option<u64>, String, String) =
                    serde_json::from_str(rest).ok()?;
                self.done.remove(&path);
                self.complete = None;
                let partial = Partial { number, path: path.clone(), size, identity, blocks: vec![] };
                self.partial.insert(path, partial);
            }
            "block" => {
                let mut words = rest.split(' ');
                let mut number = || words.next()?.parse::<u64>().ok();
                let (file, start, end) = (number()?, number()?, number()?);
                let sum = u32::from_str_radix(words.next()?, 16).ok()?;
                // The blocks of a file that is complete by now are of no use.
                let partial = self.partial.values_mut().find(|partial| partial.number == file);
                if let Some(partial) = partial.filter(|_| start < end) {
                    partial.blocks.push((start, end, sum));
                }
            }
            "done" => {
                let done: Done = serde_json::from_str(rest).ok()?;
                self.partial.remove(&done.path);
                self.done.insert(done.path.clone(), done);
            }
            "gone" => {
                self.done.remove(&serde_json::from_str::<String>(rest).ok()?);
                self.complete = None;
            }
            "complete" => self.complete = Some(serde_json::from_str(rest).ok()?),
            // A newer build wrote it.
            _ => return None,
        }
        Some(())
    }
}

/// The text of a whole line whose sum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let line = line.strip_suffix(b"\n").filter(|line| line.len() <= LONGEST_LINE)?;
    let (text, written) = line.split_at_checked(line.len().checked_sub(10)?)?;
    let written = std::str::from_utf8(written).ok()?.strip_prefix(" #")?;
    let right = u32::from_str_radix(written, 16).ok()? == sum(text);
    std::str::from_utf8(text).ok().filter(|_| right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(path: &str) -> Done {
        Done {
            path: path.into(),
            size: 3,
            modified: 7,
            identity: Some("e".into()),
            digest: None,
            revision: None,
            archive: None,
        }
    }

    fn text() -> String {
        let done = done("a");
        [
            Record::Header("hf://o/m"),
            Record::Partial { number: 1, size: Some(10), identity: "i", path: "w x\n" },
            Record::Block { number: 1, start: 0, end: 5, sum: 9 },
            Record::Partial { number: 2, size: None, identity: "i", path: "a" },
            Record::Block { number: 2, start: 0, end: 3, sum: 1 },
            Record::Done(&done),
            Record::Block { number: 1, start: 7, end: 9, sum: 2 },
        ]
        .map(|record| record.line())
        .concat()
    }

    #[test]
    fn a_journal_says_what_is_there() {
        let journal = Journal::parse(text().as_bytes()).unwrap();
        assert_eq!(journal.source, "hf://o/m");
        assert_eq!(journal.done.into_values().collect::<Vec<_>>(), [done("a")]);
        assert_eq!(journal.partial.len(), 1);
        assert_eq!(journal.partial["w x\n"].blocks, [(0, 5, 9), (7, 9, 2)]);
    }

    #[test]
    fn a_journal_cut_at_any_byte_says_nothing_that_was_not_written() {
        let text = text();
        let whole = Journal::parse(text.as_bytes()).unwrap();
        for length in 0..text.len() {
            let Some(journal) = Journal::parse(&text.as_bytes()[..length]) else { continue };
            for partial in journal.partial.values().filter(|partial| partial.number == 1) {
                assert!(partial.blocks.iter().all(|block| whole.partial["w x\n"].blocks.contains(block)));
            }
            assert!(journal.done.is_empty() || journal.done == whole.done, "{length}");
        }
    }

    #[test]
    fn a_changed_byte_ends_the_reading() {
        let mut text = text().into_bytes();
        let at = text.windows(6).position(|bytes| bytes == b"block ").unwrap();
        text[at + 6] ^= 1;
        let journal = Journal::parse(&text).unwrap();
        assert!(journal.done.is_empty() && journal.partial["w x\n"].blocks.is_empty());
    }
}
