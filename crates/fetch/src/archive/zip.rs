//! Reads zip archives by their central directory, with the extensions for large files.

use std::io::{self, Read, Seek, SeekFrom};

use super::problem::Problem;

/// The compression of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// No compression.
    Stored,
    /// Deflate.
    Deflated,
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, as in the archive.
    pub path: String,
    /// Its compression.
    pub method: Method,
    /// CRC-32 of its content.
    pub sum: u32,
    /// Its compressed size in bytes.
    pub packed: u64,
    /// The size of its content in bytes.
    pub size: u64,
    /// Its Unix type and permissions. 0 if the archive was not made on Unix.
    pub mode: u32,
    /// The position of its header.
    offset: u64,
}

const END: usize = 22;
const MAX_COMMENT: u64 = 65_535;
const ZIP64_MARKER: u64 = 0xFFFF_FFFF;
/// Longest directory that is read, in bytes.
const MAX_DIRECTORY: u64 = 8 << 20;

/// Returns the members in the central directory.
pub fn directory(file: &mut (impl Read + Seek)) -> Result<Vec<Entry>, Problem> {
    let invalid = || Problem::from("The file format is not valid.");
    let length = file.seek(SeekFrom::End(0))?;
    let tail_start = length.saturating_sub(END as u64 + MAX_COMMENT);
    let tail = read(file, tail_start, length - tail_start)?;
    // From the back, because a member may itself be an archive and contain such a record.
    let at = (0..tail.len().saturating_sub(END - 1))
        .rev()
        .find(|at| tail[*at..].starts_with(b"PK\x05\x06"))
        .ok_or_else(invalid)?;
    let end = &tail[at..];
    let (mut count, mut size, mut offset) =
        (u64::from(u16_at(end, 10)?), u64::from(u32_at(end, 12)?), u64::from(u32_at(end, 16)?));
    // A locator in the 20 bytes before the end record announces the zip64 form.
    if let Some(locator) =
        at.checked_sub(20).map(|from| &tail[from..at]).filter(|l| l.starts_with(b"PK\x06\x07"))
    {
        let large = read(file, u64_at(locator, 8)?, 56)?;
        if !large.starts_with(b"PK\x06\x06") {
            return Err(invalid());
        }
        (count, size, offset) = (u64_at(&large, 32)?, u64_at(&large, 40)?, u64_at(&large, 48)?);
    }
    if size > MAX_DIRECTORY {
        let why =
            format!("its list of members has {size} bytes; expected {MAX_DIRECTORY} at most, so use .tar.gz");
        return Err(why.into());
    }
    let all = read(file, offset, size)?;
    let mut left = &all[..];
    let mut entries = Vec::new();
    for _ in 0..count {
        let (entry, length) = entry(left)?;
        entries.push(entry);
        left = &left[length..];
    }
    Ok(entries)
}

/// Reads one record of the central directory. Returns the member and the record's length.
fn entry(bytes: &[u8]) -> Result<(Entry, usize), Problem> {
    if !bytes.starts_with(b"PK\x01\x02") {
        return Err("The file format is not valid.".into());
    }
    let lengths = [28, 30, 32].map(|at| u16_at(bytes, at).map(usize::from));
    let [name, extra, comment] = lengths;
    let (name, extra, comment) = (name?, extra?, comment?);
    let short = || Problem::from("The file format is not valid.");
    let path = String::from_utf8_lossy(bytes.get(46..46 + name).ok_or_else(short)?).into_owned();
    let fields = bytes.get(46 + name..46 + name + extra).ok_or_else(short)?;
    let length = 46 + name + extra + comment;
    bytes.get(..length).ok_or_else(short)?;
    let (mut packed, mut size, mut offset) =
        (u64::from(u32_at(bytes, 20)?), u64::from(u32_at(bytes, 24)?), u64::from(u32_at(bytes, 42)?));
    // Of the three values, the field has only those that do not fit into the record, in this order (APPNOTE 4.5.3).
    if let Some(mut large) = field(fields, 1) {
        for value in [&mut size, &mut packed, &mut offset] {
            if *value == ZIP64_MARKER {
                *value = u64_at(large, 0)?;
                large = &large[8..];
            }
        }
    }
    if u16_at(bytes, 8)? & 1 != 0 {
        return Err(format!("`{}` is encrypted", crate::names::shown(&path)).into());
    }
    let method = match u16_at(bytes, 10)? {
        0 => Method::Stored,
        8 => Method::Deflated,
        other => {
            let path = crate::names::shown(&path);
            return Err(format!("`{path}` is compressed with method {other}, which is not supported").into());
        }
    };
    let from_unix = bytes[5] == 3;
    let mode = if from_unix { u32_at(bytes, 38)? >> 16 } else { 0 };
    Ok((Entry { path, method, sum: u32_at(bytes, 16)?, packed, size, mode, offset }, length))
}

/// Returns the extra field of this kind.
fn field(mut fields: &[u8], wanted: u16) -> Option<&[u8]> {
    while fields.len() >= 4 {
        let (kind, length) = (u16_at(fields, 0).ok()?, usize::from(u16_at(fields, 2).ok()?));
        let content = fields.get(4..4 + length)?;
        if kind == wanted {
            return Some(content);
        }
        fields = &fields[4 + length..];
    }
    None
}

// === impl Entry ===

impl Entry {
    /// Moves to the start of the compressed content.
    pub(super) fn seek(&self, file: &mut (impl Read + Seek)) -> Result<(), Problem> {
        let header = read(file, self.offset, 30)?;
        if !header.starts_with(b"PK\x03\x04") {
            return Err("The file format is not valid.".into());
        }
        // The extra fields here need not be those of the directory, so their length may differ.
        let (name, extra) = (u64::from(u16_at(&header, 26)?), u64::from(u16_at(&header, 28)?));
        file.seek(SeekFrom::Start(self.offset + 30 + name + extra))?;
        Ok(())
    }

    /// Whether it is a symbolic link.
    pub(super) fn is_symlink(&self) -> bool {
        self.mode & 0o170_000 == 0o120_000
    }
}

fn read(file: &mut (impl Read + Seek), at: u64, length: u64) -> Result<Vec<u8>, Problem> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends early").into());
    }
    Ok(bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Problem> {
    let found = bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
    found.ok_or_else(|| "The file format is not valid.".into())
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Problem> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Problem> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Problem> {
    array(bytes, at).map(u64::from_le_bytes)
}
