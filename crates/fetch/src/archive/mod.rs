//! Unpacks untrusted archives. Nothing is written outside of the folder, and the size of the content is limited.

mod rules;
mod stage;
mod tar;
mod zip;

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

pub(crate) use self::stage::{Member, Stage};
pub use self::{
    tar::{Kind as TarKind, Reader as TarReader},
    zip::{Entry as ZipEntry, directory as zip_directory},
};

/// Most members of one archive that are wanted: what is known of each is held in memory.
const MAX_MEMBERS: usize = 100_000;
/// An archive may grow to this many times its size…
const MAX_EXPANSION: u64 = 200;
/// …or this many bytes, whatever the archive's size.
const EXPANSION_ALLOWANCE: u64 = 256 << 20;

/// The formats of archives, recognized by their first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Zip,
    Gzip,
    Zstandard,
    Plain,
}

fn form(start: &[u8]) -> Result<Form, &'static str> {
    match start {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Ok(Form::Zip),
        [0x1f, 0x8b, ..] => Ok(Form::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Form::Zstandard),
        [b'B', b'Z', b'h', ..] => Err("bzip2 is not supported: use .tar.gz or .tar.zst"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => Err("xz is not supported: use .tar.gz or .tar.zst"),
        _ => Ok(Form::Plain),
    }
}

/// Reads concatenated Zstandard frames.
struct Frames<R: Read> {
    decoder: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
}

impl Frames<BufReader<File>> {
    fn new(file: BufReader<File>) -> io::Result<Self> {
        Ok(Self { decoder: Some(StreamingDecoder::new(file).map_err(io::Error::other)?) })
    }
}

impl Read for Frames<BufReader<File>> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(decoder) = &mut self.decoder else { return Ok(0) };
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let mut file = match self.decoder.take() {
                Some(decoder) => decoder.into_inner(),
                None => return Ok(0),
            };
            if io::BufRead::fill_buf(&mut file)?.is_empty() {
                return Ok(0);
            }
            self.decoder = Some(StreamingDecoder::new(file).map_err(io::Error::other)?);
        }
    }
}

/// Opens a tar archive with any supported compression.
fn decompressed(mut file: File) -> Result<Box<dyn Read>, Problem> {
    let mut start = [0; 8];
    let count = file.read(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    let file = BufReader::with_capacity(64 << 10, file);
    Ok(match form(&start[..count])? {
        Form::Gzip => Box::new(MultiGzDecoder::new(file)),
        Form::Zstandard => Box::new(Frames::new(file)?),
        Form::Plain | Form::Zip => Box::new(file),
    })
}

fn is_zip(file: &mut File) -> io::Result<bool> {
    let mut start = [0; 4];
    file.seek(SeekFrom::Start(0))?;
    let count = file.read(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(form(&start[..count]) == Ok(Form::Zip))
}

/// Why an archive cannot be unpacked.
#[derive(Debug)]
pub enum Problem {
    /// The archive is broken or not allowed.
    Archive(String),
    /// The archive cannot be read, or its content cannot be written.
    Io(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<&str> for Problem {
    fn from(why: &str) -> Self {
        Self::Archive(why.to_owned())
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self::Archive(why)
    }
}
