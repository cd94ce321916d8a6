//! Digests that sources report, and their computation.

use std::{fmt, num::NonZeroU64};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::{CrcAlgorithm, Digest as Crc};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use fast_md5::Md5;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use serde::{Serialize, Serializer};

/// A digest algorithm, the most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Algorithm {
    /// SHA-256.
    Sha256,
    /// Git's blob hash: SHA-1 over a header with the size, and the content.
    GitBlob,
    /// SHA-1.
    Sha1,
    /// MD5.
    Md5,
    /// CRC-64/NVME, which S3 computes by default.
    Crc64Nvme,
    /// CRC-32C.
    Crc32c,
    /// CRC-32.
    Crc32,
}

/// A digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    /// How it is computed.
    pub(crate) algorithm: Algorithm,
    /// The size of the parts, if this is the digest of the digests of all parts. The last part may be smaller.
    part: Option<NonZeroU64>,
    /// Its bytes, padded with zeros. Stored inline, because there is one digest for each file.
    value: [u8; MAX_LENGTH],
}

/// Length of the longest digest in bytes.
const MAX_LENGTH: usize = 32;

/// A digest that is being computed.
pub(crate) struct Hasher {
    algorithm: Algorithm,
    state: State,
}

enum State {
    Ring(Context),
    Md5(Md5),
    Crc(Crc),
    Parts(Box<Parts>),
}

/// The digest of the digests of parts.
struct Parts {
    /// The size of a part.
    part: NonZeroU64,
    /// The number of bytes that the current part can still take.
    room: u64,
    /// The digest of the current part.
    current: Hasher,
    /// The digest of the digests of the parts before it.
    all: Hasher,
}

// === impl Algorithm ===

impl Algorithm {
    const ALL: [Self; 7] =
        [Self::Sha256, Self::GitBlob, Self::Sha1, Self::Md5, Self::Crc64Nvme, Self::Crc32c, Self::Crc32];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.facts().0
    }

    /// Length of the digest in bytes.
    fn length(self) -> usize {
        self.facts().1
    }

    fn facts(self) -> (&'static str, usize) {
        match self {
            Self::Sha256 => ("sha256", 32),
            Self::GitBlob => ("git-blob-sha1", 20),
            Self::Sha1 => ("sha1", 20),
            Self::Md5 => ("md5", 16),
            Self::Crc64Nvme => ("crc64nvme", 8),
            Self::Crc32c => ("crc32c", 4),
            Self::Crc32 => ("crc32", 4),
        }
    }
}

// === impl Digest ===

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.name())?;
        if let Some(part) = self.part {
            write!(f, "/{part}")?;
        }
        write!(f, ":{}", self.hex())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Digest {
    /// Creates a digest of these bytes. Returns `None` if they have another length.
    fn new(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        let mut value = [0; MAX_LENGTH];
        value.get_mut(..bytes.len()).filter(|_| bytes.len() == algorithm.length())?.copy_from_slice(bytes);
        Some(Self { algorithm, part: None, value })
    }

    /// Makes this the digest of the digests of all parts of a content. A size of zero is ignored.
    pub(crate) fn of_parts(self, part: u64) -> Self {
        Self { part: NonZeroU64::new(part), ..self }
    }

    /// The name of the algorithm, for messages.
    pub(crate) fn kind(&self) -> String {
        let of = if self.part.is_some() { " of parts" } else { "" };
        format!("{}{of}", self.algorithm.name())
    }

    /// Its bytes.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value[..self.algorithm.length()]
    }

    /// Reads a hexadecimal digest. Returns `None` if the text is not one.
    pub(crate) fn from_hex(algorithm: Algorithm, text: &str) -> Option<Self> {
        Self::new(algorithm, &HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?)
    }

    /// Reads a base64 digest. Returns `None` if the text is not one.
    pub(crate) fn from_base64(algorithm: Algorithm, text: &str) -> Option<Self> {
        Self::new(algorithm, &STANDARD.decode(text).ok()?)
    }

    /// Reads `sha256:…`, as registries write it, or another algorithm with its [`Algorithm::name`]. The digest of the digests
    /// of parts has their size after the name: `md5/8388608:…`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, hex) = text.split_once(':')?;
        let (name, part) = match name.split_once('/') {
            Some((name, part)) => (name, Some(part.parse().ok()?)),
            None => (name, None),
        };
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)?;
        Some(Self { part, ..Self::from_hex(algorithm, hex)? })
    }

    /// The value in hexadecimal.
    pub(crate) fn hex(&self) -> String {
        HEXLOWER.encode(self.value())
    }

    /// Computes the digest of bytes in memory.
    pub(crate) fn of(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm, bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

// === impl Hasher ===

impl Hasher {
    /// Starts the computation of a digest of the same kind for a content of `size` bytes.
    pub(crate) fn same_kind(digest: &Digest, size: u64) -> Self {
        let algorithm = digest.algorithm;
        let Some(part) = digest.part else { return Self::new(algorithm, size) };
        let hasher = || Self::new(algorithm, size);
        let parts = Parts { part, room: part.get(), current: hasher(), all: hasher() };
        Self { algorithm, state: State::Parts(Box::new(parts)) }
    }

    /// Starts the digest of a content of `size` bytes.
    pub(crate) fn new(algorithm: Algorithm, size: u64) -> Self {
        let state = match algorithm {
            Algorithm::Sha256 => State::Ring(Context::new(&SHA256)),
            Algorithm::Sha1 => State::Ring(Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::GitBlob => {
                let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
                context.update(format!("blob {size}\0").as_bytes());
                State::Ring(context)
            }
            Algorithm::Md5 => State::Md5(Md5::new()),
            Algorithm::Crc64Nvme => State::Crc(Crc::new(CrcAlgorithm::Crc64Nvme)),
            Algorithm::Crc32c => State::Crc(Crc::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Crc32 => State::Crc(Crc::new(CrcAlgorithm::Crc32IsoHdlc)),
        };
        Self { algorithm, state }
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Ring(context) => context.update(bytes),
            State::Md5(md5) => md5.update(bytes),
            State::Crc(crc) => crc.update(bytes),
            State::Parts(parts) => parts.update(bytes),
        }
    }

    /// Returns the digest.
    pub(crate) fn finish(self) -> Digest {
        let digest = match self.state {
            State::Ring(context) => Digest::new(self.algorithm, context.finish().as_ref()),
            State::Md5(md5) => Digest::new(self.algorithm, &md5.finalize()),
            State::Crc(crc) => {
                Digest::new(self.algorithm, &crc.finalize().to_be_bytes()[8 - self.algorithm.length()..])
            }
            State::Parts(parts) => Some(parts.finish()),
        };
        digest.expect("each algorithm computes a digest of its own length")
    }
}

// === impl Parts ===

impl Parts {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // A part ends when the next one begins, because a content of whole parts ends with a part, not with an empty one.
            if self.room == 0 {
                self.end_part();
                self.room = self.part.get();
            }
            let room = usize::try_from(self.room).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current.update(now);
            self.room -= now.len() as u64;
            bytes = later;
        }
    }

    fn end_part(&mut self) {
        let next = Hasher::new(self.current.algorithm, 0);
        self.all.update(std::mem::replace(&mut self.current, next).finish().value());
    }

    fn finish(mut self) -> Digest {
        self.end_part();
        self.all.finish().of_parts(self.part.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_catalogues() {
        for (algorithm, check) in [
            (Algorithm::Crc64Nvme, "ae8b14860a799888"),
            (Algorithm::Crc32c, "e3069283"),
            (Algorithm::Crc32, "cbf43926"),
            (Algorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
        ] {
            assert_eq!(Digest::of(algorithm, b"123456789").hex(), check);
        }
    }

    #[test]
    fn parts_have_a_digest_of_their_digests() {
        let bytes = b"0123456789";
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::GitBlob) {
            for part in [1, 3, 5, 9, 10, 11] {
                let inner: Vec<u8> = bytes
                    .chunks(part)
                    .flat_map(|part| Digest::of(algorithm, part).value().to_vec())
                    .collect();
                let expected = Digest::of(algorithm, &inner).of_parts(part as u64);
                for piece in [1, 4, 10] {
                    let mut hasher = Hasher::same_kind(&expected, 10);
                    bytes.chunks(piece).for_each(|piece| hasher.update(piece));
                    assert_eq!(hasher.finish(), expected, "{algorithm:?} {part} {piece}");
                }
                assert_eq!(Digest::parse(&expected.to_string()), Some(expected));
                assert_ne!(Digest::of(algorithm, &inner), expected);
            }
        }
        assert_eq!(Digest::parse("crc32/0:00000000"), None);
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        for algorithm in Algorithm::ALL {
            let digest = Digest::of(algorithm, b"hello\n");
            assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
            assert_eq!(Digest::from_base64(algorithm, &STANDARD.encode(digest.value())), Some(digest));
        }
        assert_eq!(Digest::parse("sha256:00"), None);
        assert_eq!(Digest::parse("sha257:00"), None);
        assert_eq!(Digest::from_hex(Algorithm::Crc32, "0000000g"), None);
    }

    #[test]
    fn a_git_blob_has_the_name_that_git_gives_it() {
        // `printf 'hello\n' | git hash-object --stdin`
        assert_eq!(
            Digest::of(Algorithm::GitBlob, b"hello\n").hex(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }
}
