//! The journal of a download: the complete files, and the written bytes of unfinished files.
//!
//! A journal is a text file of records, one per line. Each record ends with its own checksum. Records are only appended, so a
//! killed process loses at most the last line. The kinds of records:
//!
//! | first word | rest |
//! |---|---|
//! | `longboat-fetch` | format version, source |
//! | `partial` | number, size or `-`, identity and path of an unfinished file, as a JSON list |
//! | `block` | number of the file, first byte, byte after the last, CRC-32 of the bytes |
//! | `done` | a complete file, as JSON |
//! | `gone` | the path of a file that was removed, as JSON |
//! | `complete` | revision and patterns of a source that was downloaded as a whole, as a JSON list |

use std::{
    collections::BTreeMap,
    io::{self, BufRead},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize};

use crate::{digest::Digest, index::Index, target::Stat};

/// Longest line that is read, in bytes.
pub(crate) const MAX_LINE: usize = 64 << 10;

const HEADER: &str = "longboat-fetch 1";

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path below the target.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// The source's name for this content: an ETag, a generation or a digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The verified digest.
    #[serde(default, deserialize_with = "digest", skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<Digest>,
    /// The revision of the source that the file was downloaded from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The archive that contains the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

/// An unfinished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialFile {
    /// Its number in the journal.
    pub number: u64,
    /// Path below the target.
    pub path: String,
    /// Size in bytes, if it is known.
    pub size: Option<u64>,
    /// The source's name for this content.
    pub identity: String,
    /// The written blocks: first byte, byte after the last, CRC-32.
    pub blocks: Vec<(u64, u64, u32)>,
}

/// The content of a journal. There may be very many complete files, so only the places of their records are kept.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// The source.
    pub source: String,
    /// The offsets of the records of complete files.
    pub(crate) done: Index,
    /// The number of bytes that were read, which is the offset of the next record.
    pub(crate) length: u64,
    /// Unfinished files by path.
    pub partial: BTreeMap<String, PartialFile>,
    /// Revision and patterns. `None` unless all files were downloaded.
    pub complete: Option<(Option<String>, String)>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The start of the journal.
    Header(&'a str),
    /// The start of a file.
    Partial {
        /// Number of the file.
        number: u64,
        /// Size in bytes, if it is known.
        size: Option<u64>,
        /// The source's name for this content.
        identity: &'a str,
        /// Path below the target.
        path: &'a str,
    },
    /// A written block.
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
    /// The end of a file.
    Done(&'a FileRecord),
    /// The removal of a file.
    Gone(&'a str),
    /// The end of the source.
    Complete {
        /// Its revision.
        revision: Option<&'a str>,
        /// The patterns that selected its files.
        filter: &'a str,
    },
}

// === impl Record ===

impl Record<'_> {
    /// Returns the line of this record, with its checksum and a line break.
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

// === impl FileRecord ===

impl FileRecord {
    /// The record of a file of the source, without a digest.
    pub(crate) fn new(
        path: &str,
        stat: Stat,
        identity: Option<Arc<str>>,
        revision: Option<&Arc<str>>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            size: stat.size,
            modified: stat.modified,
            identity: identity.map(|identity| identity.to_string()),
            digest: None,
            revision: revision.map(ToString::to_string),
            archive: None,
        }
    }

    /// Reads the record of a complete file. Returns `None` if the line is anything else.
    pub fn read(line: &[u8]) -> Option<Self> {
        let text = checked(line)?.strip_prefix("done ")?;
        serde_json::from_str(text).ok()
    }
}

/// Reads a digest. One of an unknown kind counts as none.
fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Digest>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.as_deref().and_then(Digest::parse))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers are always JSON")
}

fn sum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

// === impl Journal ===

impl Journal {
    /// Creates the journal of a source without any files.
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.to_owned(), ..Self::default() }
    }

    /// Reads all records, up to the first damaged one. Returns `None` if the text is not a journal of this format.
    pub fn parse(mut text: impl BufRead) -> io::Result<Option<Self>> {
        let mut journal: Option<Self> = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            io::Read::take(&mut text, MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
            let understood = match &mut journal {
                None => {
                    journal = Self::begin(&line);
                    journal.is_some()
                }
                Some(journal) => journal.read(&line).is_some(),
            };
            if !understood {
                return Ok(journal);
            }
        }
    }

    /// Starts a journal with its first line.
    fn begin(line: &[u8]) -> Option<Self> {
        let source = checked(line)?.strip_prefix(HEADER)?.strip_prefix(' ')?;
        let source = serde_json::from_str(source).ok()?;
        Some(Self { source, length: line.len() as u64, ..Self::default() })
    }

    /// The number of complete files.
    pub fn files(&self) -> usize {
        self.done.len()
    }

    /// Returns the offsets of the records of complete files, in order.
    pub fn offsets(&self) -> Vec<u64> {
        self.done.by_offset().into_iter().map(|(offset, _)| offset).collect()
    }

    /// Reads the next line. Returns `None` if the line is damaged; the lines after it cannot be trusted.
    pub(crate) fn read(&mut self, line: &[u8]) -> Option<()> {
        let (kind, rest) = checked(line)?.split_once(' ')?;
        match kind {
            "partial" => {
                let (number, size, identity, path): (u64, Option<u64>, String, String) =
                    serde_json::from_str(rest).ok()?;
                self.done.remove(&path);
                self.complete = None;
                let partial = PartialFile { number, path: path.clone(), size, identity, blocks: vec![] };
                self.partial.insert(path, partial);
            }
            "block" => {
                let mut words = rest.split(' ');
                let mut number = || words.next()?.parse::<u64>().ok();
                let (file, start, end) = (number()?, number()?, number()?);
                let sum = u32::from_str_radix(words.next()?, 16).ok()?;
                // If the file is complete by now, its blocks are ignored.
                let partial = self.partial.values_mut().find(|partial| partial.number == file);
                if let Some(partial) = partial.filter(|_| start < end) {
                    partial.blocks.push((start, end, sum));
                }
            }
            "done" => {
                let done: FileRecord = serde_json::from_str(rest).ok()?;
                self.partial.remove(&done.path);
                self.done.insert(&done.path, self.length);
            }
            "gone" => {
                self.done.remove(&serde_json::from_str::<String>(rest).ok()?);
                self.complete = None;
            }
            "complete" => self.complete = Some(serde_json::from_str(rest).ok()?),
            // A newer version wrote this record.
            _ => return None,
        }
        self.length += line.len() as u64;
        Some(())
    }
}

/// Returns the text of a complete line if its checksum is right.
fn checked(line: &[u8]) -> Option<&str> {
    let line = line.strip_suffix(b"\n").filter(|line| line.len() <= MAX_LINE)?;
    let (text, written) = line.split_at_checked(line.len().checked_sub(10)?)?;
    let written = std::str::from_utf8(written).ok()?.strip_prefix(" #")?;
    let right = u32::from_str_radix(written, 16).ok()? == sum(text);
    std::str::from_utf8(text).ok().filter(|_| right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    fn done(path: &str) -> FileRecord {
        FileRecord {
            path: path.into(),
            size: 3,
            modified: 7,
            identity: Some("e".into()),
            digest: None,
            revision: None,
            archive: None,
        }
    }

    fn parse(text: &[u8]) -> Option<Journal> {
        Journal::parse(text).unwrap()
    }

    /// Returns the complete files of a journal's text.
    fn complete(text: &[u8]) -> Vec<FileRecord> {
        let offsets = parse(text).unwrap().offsets();
        let line = |offset: u64| {
            text[usize::try_from(offset).unwrap()..].split_inclusive(|byte| *byte == b'\n').next().unwrap()
        };
        offsets.into_iter().map(|offset| FileRecord::read(line(offset)).unwrap()).collect()
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
        let journal = parse(text().as_bytes()).unwrap();
        assert_eq!((journal.source.as_str(), journal.length), ("hf://o/m", text().len() as u64));
        assert_eq!(complete(text().as_bytes()), [done("a")]);
        assert_eq!(journal.partial.len(), 1);
        assert_eq!(journal.partial["w x\n"].blocks, [(0, 5, 9), (7, 9, 2)]);
    }

    #[test]
    fn the_last_record_of_a_file_counts() {
        let digest = Some(Digest::of(Algorithm::Sha256, b"w"));
        let (old, other) = (done("a"), done("b"));
        let new = FileRecord { digest, revision: Some("c".repeat(40)), size: 4, ..done("a") };
        let mut lines =
            [Record::Header("hf://o/m"), Record::Done(&old), Record::Done(&other), Record::Done(&new)]
                .map(|record| record.line())
                .concat();
        assert_eq!(complete(lines.as_bytes()), [other, new]);
        lines.push_str(&Record::Gone("b").line());
        assert_eq!(complete(lines.as_bytes()).len(), 1);
    }

    #[test]
    fn a_journal_cut_at_any_byte_says_nothing_that_was_not_written() {
        let text = text();
        let whole = parse(text.as_bytes()).unwrap();
        for length in 0..text.len() {
            let Some(journal) = parse(&text.as_bytes()[..length]) else { continue };
            for partial in journal.partial.values().filter(|partial| partial.number == 1) {
                assert!(partial.blocks.iter().all(|block| whole.partial["w x\n"].blocks.contains(block)));
            }
            assert!(journal.files() == 0 || journal.offsets() == whole.offsets(), "{length}");
        }
    }

    #[test]
    fn a_changed_byte_ends_the_reading() {
        let mut text = text().into_bytes();
        let at = text.windows(6).position(|bytes| bytes == b"block ").unwrap();
        text[at + 6] ^= 1;
        let journal = parse(&text).unwrap();
        assert!(journal.files() == 0 && journal.partial["w x\n"].blocks.is_empty());
        assert_eq!(journal.length, at as u64);
    }
}
