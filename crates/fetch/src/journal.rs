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
//! | `complete` | revision and patterns of a source that was brought as a whole, as a JSON list |

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Longest line that is read, in bytes.
pub(crate) const LONGEST_LINE: usize = 64 << 10;

const HEADER: &str = "longboat-fetch 1";

/// A complete file. There may be very many, so texts are shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Path below the target.
    pub path: Arc<str>,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// The source's name for this content: an ETag, a generation or a digest.
    pub identity: Option<Arc<str>>,
    /// The verified digest.
    pub(crate) digest: Option<Digest>,
    /// The revision of the source that the file was downloaded from.
    pub revision: Option<Arc<str>>,
    /// The archive that contains the file.
    pub archive: Option<Arc<str>>,
}

/// A complete file, as in the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    size: u64,
    modified: i64,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    identity: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    digest: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    revision: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    archive: Option<Cow<'a, str>>,
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
    /// The source's name for this content.
    pub identity: String,
    /// The written blocks: first byte, byte after the last, CRC-32.
    pub blocks: Vec<(u64, u64, u32)>,
}

/// The content of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// The source.
    pub source: String,
    /// Complete files by path.
    pub done: BTreeMap<Arc<str>, Arc<Done>>,
    /// Unfinished files by path.
    pub partial: BTreeMap<String, Partial>,
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
    Done(&'a Arc<Done>),
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
            Self::Done(done) => format!("done {}", json(&Line::of(done))),
            Self::Gone(path) => format!("gone {}", json(path)),
            Self::Complete { revision, filter } => format!("complete {}", json(&(revision, filter))),
        };
        format!("{text} #{:08x}\n", sum(text.as_bytes()))
    }
}

// === impl Line ===

impl<'a> Line<'a> {
    fn of(done: &'a Done) -> Self {
        let text = |text: &'a Option<Arc<str>>| text.as_deref().map(Cow::Borrowed);
        Self {
            path: Cow::Borrowed(&done.path),
            size: done.size,
            modified: done.modified,
            identity: text(&done.identity),
            digest: done.digest.map(|digest| Cow::Owned(digest.to_string())),
            revision: text(&done.revision),
            archive: text(&done.archive),
        }
    }

    /// Returns the file. Texts that are equal to those of the previous file are shared with it.
    fn into_done(self, before: Option<&Done>) -> Done {
        let shared = |text: Option<Cow<'_, str>>, before: Option<&Arc<str>>| {
            text.map(|text| match before.filter(|before| ***before == *text) {
                Some(before) => before.clone(),
                None => Arc::from(&*text),
            })
        };
        Done {
            path: Arc::from(&*self.path),
            size: self.size,
            modified: self.modified,
            identity: self.identity.map(|identity| Arc::from(&*identity)),
            digest: self.digest.as_deref().and_then(Digest::parse),
            revision: shared(self.revision, before.and_then(|done| done.revision.as_ref())),
            archive: shared(self.archive, before.and_then(|done| done.archive.as_ref())),
        }
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
    /// Reads all records of a text, up to the first damaged one. Returns `None` if the text is not a journal of this format.
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

    /// Starts a journal with its first line.
    pub fn begin(line: &[u8]) -> Option<Self> {
        let source = checked(line)?.strip_prefix(HEADER)?.strip_prefix(' ')?;
        Some(Self { source: serde_json::from_str(source).ok()?, ..Self::default() })
    }

    /// Adds a complete file.
    pub(crate) fn add(&mut self, done: Arc<Done>) {
        self.partial.remove(&*done.path);
        self.done.insert(done.path.clone(), done);
    }

    /// Reads the next line. Returns `None` if the line is damaged; the lines after it cannot be trusted.
    pub fn read(&mut self, line: &[u8]) -> Option<()> {
        let (kind, rest) = checked(line)?.split_once(' ')?;
        match kind {
            "partial" => {
                let (number, size, identity, path): (u64, Option<u64>, String, String) =
                    serde_json::from_str(rest).ok()?;
                self.done.remove(path.as_str());
                self.complete = None;
                let partial = Partial { number, path: path.clone(), size, identity, blocks: vec![] };
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
                let line: Line<'_> = serde_json::from_str(rest).ok()?;
                let before = self.done.last_key_value().map(|(_, done)| done.as_ref());
                self.add(Arc::new(line.into_done(before)));
            }
            "gone" => {
                self.done.remove(serde_json::from_str::<String>(rest).ok()?.as_str());
                self.complete = None;
            }
            "complete" => self.complete = Some(serde_json::from_str(rest).ok()?),
            // A newer version wrote this record.
            _ => return None,
        }
        Some(())
    }
}

/// Returns the text of a complete line if its checksum is right.
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
    use crate::digest::Algorithm;

    fn done(path: &str) -> Arc<Done> {
        Arc::new(Done {
            path: path.into(),
            size: 3,
            modified: 7,
            identity: Some("e".into()),
            digest: None,
            revision: None,
            archive: None,
        })
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
    fn files_of_one_revision_share_its_name_and_keep_their_digests() {
        let revision: Option<Arc<str>> = Some("c".repeat(40).into());
        let digest = Some(Digest::of(Algorithm::Sha256, b"w"));
        let file =
            |path| Arc::new(Done { revision: revision.clone(), digest, ..done(path).as_ref().clone() });
        let (one, other) = (file("a"), file("b"));
        let lines = [Record::Header("hf://o/m"), Record::Done(&one), Record::Done(&other)]
            .map(|record| record.line());
        let read = Journal::parse(lines.concat().as_bytes()).unwrap().done;
        assert_eq!(read.values().collect::<Vec<_>>(), [&one, &other]);
        let name = |path| read[path].revision.clone().unwrap();
        assert!(Arc::ptr_eq(&name("a"), &name("b")));
        assert!(Arc::ptr_eq(read.get_key_value("a").unwrap().0, &read["a"].path));
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
