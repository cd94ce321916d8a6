//! Reads tar archives: ustar with the extensions of POSIX and GNU. Needs little memory.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use super::problem::Problem;

const BLOCK: usize = 512;
/// Longest extension header, in bytes.
const MAX_EXTENSION: u64 = 256 << 10;

/// The kind of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link with its target.
    Symlink(String),
    /// A hard link to an earlier member.
    Hardlink(String),
    /// A device, a pipe, or another kind that models do not need.
    Special,
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, as in the archive.
    pub path: String,
    /// Its kind.
    pub kind: Kind,
    /// Size of its content in bytes.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
}

/// Reads the members one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    /// Bytes of the current member that are still to be read.
    left: u64,
    /// Zeros after the current member, up to the end of its last block.
    padding: u64,
}

// === impl Reader ===

impl<R: Read> Reader<R> {
    /// Starts at the beginning of an archive.
    pub fn new(inner: R) -> Self {
        Self { inner, left: 0, padding: 0 }
    }

    /// Returns the next member, and skips the unread rest of the one before. Returns `None` at the end of the archive.
    pub fn entry(&mut self) -> Result<Option<Entry>, Problem> {
        let mut extended: BTreeMap<String, String> = BTreeMap::new();
        let (mut long_name, mut long_link) = (None, None);
        loop {
            self.skip(self.left + self.padding)?;
            (self.left, self.padding) = (0, 0);
            let Some(header) = self.header()? else { return Ok(None) };
            let size = match extended.get("size") {
                Some(size) => size.parse().map_err(|_| "a size cannot be read")?,
                None => number(&header[124..136]).ok_or("a size cannot be read")?,
            };
            let typeflag = header[156];
            let holds = matches!(typeflag, b'0' | 0 | b'7' | b'L' | b'K' | b'x' | b'g' | b'V' | b'S');
            // Links, devices, folders and pipes (1 to 6) have no content, even if they name a size. POSIX reads unknown kinds as files.
            if holds || !matches!(typeflag, b'1'..=b'6') {
                self.left = size;
                self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
            }
            match typeflag {
                b'L' => long_name = Some(text(&self.extension(size)?)),
                b'K' => long_link = Some(text(&self.extension(size)?)),
                b'x' => extended = records(&self.extension(size)?)?,
                // Global defaults and volume labels are not needed.
                b'g' | b'V' => {}
                _ => {
                    if extended.keys().any(|key| key.starts_with("GNU.sparse.")) || typeflag == b'S' {
                        return Err("it has sparse files, which are not supported".into());
                    }
                    let path = extended.remove("path").or(long_name).unwrap_or_else(|| name(&header));
                    let link =
                        extended.remove("linkpath").or(long_link).unwrap_or_else(|| text(&header[157..257]));
                    let kind = match typeflag {
                        b'0' | 0 | b'7' if path.ends_with('/') => Kind::Folder,
                        b'0' | 0 | b'7' => Kind::File,
                        b'1' => Kind::Hardlink(link),
                        b'2' => Kind::Symlink(link),
                        b'5' => Kind::Folder,
                        _ => Kind::Special,
                    };
                    let mode =
                        u32::try_from(number(&header[100..108]).unwrap_or(0o644) & 0o7777).unwrap_or(0);
                    return Ok(Some(Entry { path, kind, size: self.left, mode }));
                }
            }
        }
    }

    /// Returns the next header. Returns `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, Problem> {
        let mut header = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.inner.read(&mut header[filled..])? {
                0 if filled == 0 => return Err("it ends early".into()),
                0 => return Err("The file format is not valid.".into()),
                count => filled += count,
            }
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let written = number(&header[148..156]);
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(i, byte)| u64::from(if (148..156).contains(&i) { b' ' } else { *byte }))
            .sum();
        if written != Some(sum) {
            return Err("The file format is not valid.".into());
        }
        Ok(Some(header))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Problem> {
        if size > MAX_EXTENSION {
            return Err("it has a name that is too long".into());
        }
        let mut content = Vec::new();
        self.read_to_end(&mut content)?;
        Ok(content)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Problem> {
        let skipped = io::copy(&mut self.inner.by_ref().take(bytes), &mut io::sink())?;
        if skipped < bytes { Err("it ends early".into()) } else { Ok(()) }
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if count == 0 {
            return Ok(0);
        }
        match self.inner.read(&mut buffer[..count])? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends early")),
            count => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}

/// Reads a number in octal digits, or in GNU's binary form.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let mut value = u64::from(field[0] & 0x7f);
        for byte in &field[1..] {
            value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
        }
        return Some(value);
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(|c: char| c == '\0' || c == ' ');
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

/// Returns the text up to the first zero byte. Names that are not UTF-8 lose their invalid bytes.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn name(header: &[u8; BLOCK]) -> String {
    let name = text(&header[..100]);
    // GNU's own format (`ustar  `) has other fields at the place of the prefix.
    let prefix = if &header[257..263] == b"ustar\0" { text(&header[345..500]) } else { String::new() };
    if prefix.is_empty() { name } else { format!("{prefix}/{name}") }
}

/// Reads the records of a POSIX extension header: `LENGTH KEY=VALUE`, one per line.
fn records(mut content: &[u8]) -> Result<BTreeMap<String, String>, Problem> {
    let broken = || Problem::from("an extension header cannot be read");
    let mut records = BTreeMap::new();
    while !content.is_empty() && content[0] != 0 {
        let space = content.iter().take(20).position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length =
            std::str::from_utf8(&content[..space]).ok().and_then(|length| length.parse::<usize>().ok());
        let length =
            length.filter(|length| (space + 1..=content.len()).contains(length)).ok_or_else(broken)?;
        let record = content[space + 1..length].strip_suffix(b"\n").ok_or_else(broken)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
        records.insert(text(&record[..equals]), text(&record[equals + 1..]));
        content = &content[length..];
    }
    Ok(records)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A header with the content of one member.
    pub(in crate::archive) fn member(
        path: &str,
        typeflag: u8,
        mode: u32,
        link: &str,
        content: &[u8],
    ) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = typeflag;
        block[157..157 + link.len()].copy_from_slice(link.as_bytes());
        block[257..263].copy_from_slice(b"ustar\0");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block.extend_from_slice(content);
        block.resize(block.len().div_ceil(BLOCK) * BLOCK, 0);
        block
    }

    #[test]
    fn members_are_read_with_long_names_and_in_order() {
        let long = "x/".repeat(100) + "y";
        let record = format!("path={long}2\n");
        let record = format!("{} {record}", record.len() + 4);
        let archive = [
            member("a", b'0', 0o644, "", b"hello"),
            member("././@LongLink", b'L', 0, "", long.as_bytes()),
            member("short", b'0', 0o755, "", b""),
            member("pax", b'x', 0, "", record.as_bytes()),
            member("short", b'0', 0o600, "", b"z"),
            member("l", b'2', 0o777, "a", b""),
            member("d/", b'5', 0o755, "", b""),
            vec![0; 2 * BLOCK],
        ]
        .concat();
        let mut reader = Reader::new(&archive[..]);
        let mut seen = Vec::new();
        while let Some(entry) = reader.entry().unwrap() {
            let mut content = String::new();
            if entry.path != "a" {
                reader.read_to_string(&mut content).unwrap();
            }
            seen.push((entry.path, entry.kind, content));
        }
        let none = String::new();
        assert_eq!(
            seen,
            [
                ("a".into(), Kind::File, none.clone()),
                (long.clone(), Kind::File, none.clone()),
                (long + "2", Kind::File, "z".into()),
                ("l".into(), Kind::Symlink("a".into()), none.clone()),
                ("d/".into(), Kind::Folder, none),
            ]
        );
    }

    #[test]
    fn an_archive_cut_anywhere_is_refused() {
        let archive = [member("a", b'0', 0o644, "", &[7; 700]), member("b", b'0', 0o644, "", b"x")].concat();
        for length in 0..=archive.len() {
            let mut reader = Reader::new(&archive[..length]);
            let read = (|| {
                while reader.entry()?.is_some() {
                    io::copy(&mut reader, &mut io::sink())?;
                }
                Ok::<(), Problem>(())
            })();
            assert!(read.is_err(), "{length}");
        }
    }
}
