//! The formats of archives and of their compression.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::problem::Problem;

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
pub(super) fn decompressed(mut file: File) -> Result<Box<dyn Read>, Problem> {
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

/// Whether a file is a zip archive.
pub(super) fn is_zip(file: &mut File) -> io::Result<bool> {
    let mut start = [0; 4];
    file.seek(SeekFrom::Start(0))?;
    let count = file.read(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(form(&start[..count]) == Ok(Form::Zip))
}
