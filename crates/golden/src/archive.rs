//! The compressed form of recordings: one gzipped tar file per part (`recordings/cases.tar.gz`), which is read in memory.
//!
//! Files with the same name are adjacent, which halves the size: deflate looks back 32 KiB, and the same child of two cases
//! has mostly the same text.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// The length of a header; contents are padded to a multiple of it.
const BLOCK: usize = 512;
/// Offset and length of the fields of a ustar header.
const NAME: (usize, usize) = (0, 100);
const SIZE: (usize, usize) = (124, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const PREFIX: (usize, usize) = (345, 155);

/// The files of one part, by their path below the root of the recordings.
pub(crate) type Files = BTreeMap<String, String>;

/// Returns the path of a part's archive.
pub(crate) fn place(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{part}.tar.gz"))
}

/// Returns the names of the archived parts.
pub fn parts() -> Vec<String> {
    let folder = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings"));
    let names = folder.into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".tar.gz").map(str::to_owned)).collect();
    parts.sort();
    parts
}

/// Returns the files of an archived part, or `None` if there is no such part.
pub(crate) fn read(part: &str) -> Option<Files> {
    let packed = fs::read(place(part)).ok()?;
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    Some(untar(&bytes))
}

/// Archives a part. The same files always give the same bytes.
pub(crate) fn write(files: &Files) -> Vec<u8> {
    let mut order: Vec<(&String, &String)> = files.iter().collect();
    order.sort_by_key(|(path, _)| (path.rsplit('/').next().unwrap_or_default(), *path));
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    for (path, text) in order {
        packer.write_all(&header(path, text.len())).unwrap();
        packer.write_all(text.as_bytes()).unwrap();
        packer.write_all(&[0; BLOCK][..padding(text.len())]).unwrap();
    }
    packer.write_all(&[0; 2 * BLOCK]).unwrap();
    packer.finish().unwrap()
}

fn padding(length: usize) -> usize {
    length.next_multiple_of(BLOCK) - length
}

fn header(path: &str, length: usize) -> [u8; BLOCK] {
    // A path of more than 100 bytes is split at a slash.
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let cut = if path.len() <= NAME.1 { None } else { slashes.rfind(|at| *at <= PREFIX.1) };
    let (prefix, name) = cut.map_or(("", path), |at| (&path[..at], &path[at + 1..]));
    assert!(name.len() <= NAME.1, "a path that is too long for a tar file: {path}");
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(NAME.0, name.as_bytes());
    put(PREFIX.0, prefix.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(SIZE.0, format!("{length:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(CHECKSUM.0, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[CHECKSUM.0..CHECKSUM.0 + CHECKSUM.1].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn untar(bytes: &[u8]) -> Files {
    let mut files = Files::new();
    let mut left = bytes;
    while left.len() >= BLOCK && left[0] != 0 {
        let (header, rest) = left.split_at(BLOCK);
        let field = |(at, length): (usize, usize)| {
            let text = std::str::from_utf8(&header[at..at + length]).unwrap();
            text.split('\0').next().unwrap_or_default().trim().to_owned()
        };
        let (name, prefix) = (field(NAME), field(PREFIX));
        let length = usize::from_str_radix(&field(SIZE), 8).unwrap();
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        files.insert(path, std::str::from_utf8(&rest[..length]).unwrap().to_owned());
        left = &rest[length + padding(length)..];
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_back_whatever_its_length_and_path() {
        let long = format!("cases/{}/{}.yaml", "a".repeat(80), "b".repeat(90));
        let files: Files =
            [("cases/empty", 0), ("cases/one", 1), ("cases/block", BLOCK), (long.as_str(), 3000)]
                .into_iter()
                .map(|(path, length)| (path.to_owned(), "é".repeat(length)))
                .collect();
        let packed = write(&files);
        assert_eq!(packed, write(&files));
        let mut bytes = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        assert_eq!(untar(&bytes), files);
    }

    #[test]
    fn the_parts_are_there() {
        let all = [
            "apiserver",
            "base",
            "cases",
            "crds",
            "fetch",
            "merge",
            "picks",
            "presets",
            "schema",
            "sidecar",
            "starts",
        ];
        assert_eq!(parts(), all);
    }
}
