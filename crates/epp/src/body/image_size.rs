//! The size of an image, from the first bytes of its file. GIF, JPEG and PNG are known, as in the reference.

use longboat_scheduler::Resolution;

/// The most bytes of a file that are looked at. A photograph may begin with a preview of itself.
const MAX_HEADER: usize = 1 << 18;

/// Returns the size of an image in a `data:` URL. Returns `None` for any other URL.
pub(super) fn of_url(url: &[u8]) -> Option<Resolution> {
    let image = url.strip_prefix(b"data:image/")?;
    let data = memchr::memmem::find(image, b"base64,")?;
    of_base64(&image[data + b"base64,".len()..])
}

/// Returns the size of an image whose file is encoded in Base64.
pub(super) fn of_base64(text: &[u8]) -> Option<Resolution> {
    let size = Header(decoded(text).take(MAX_HEADER)).size()?;
    (size.width > 0 && size.height > 0).then_some(size)
}

/// Decodes Base64 up to the first character that has no place in it.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let sextets = text.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')).map_while(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bits, mut count) = (0_u16, 0);
    sextets.filter_map(move |sextet| {
        bits = bits << 6 | u16::from(sextet);
        count += 6;
        let byte = count >= 8;
        if byte {
            count -= 8;
        }
        byte.then(|| (bits >> count).to_le_bytes()[0])
    })
}

/// The bytes at the beginning of a file.
struct Header<I>(I);

impl<I: Iterator<Item = u8>> Header<I> {
    fn size(&mut self) -> Option<Resolution> {
        match self.array()? {
            [0xff, 0xd8] => self.jpeg(),
            [b'G', b'I'] => {
                matches!(&self.array()?, b"F87a" | b"F89a").then_some(())?;
                let mut number = || Some(u16::from_le_bytes(self.array()?).into());
                Some(Resolution { width: number()?, height: number()? })
            }
            [0x89, b'P'] => {
                (self.array()? == *b"NG\r\n\x1a\n\0\0\0\rIHDR").then_some(())?;
                let mut number = || Some(u32::from_be_bytes(self.array()?).into());
                Some(Resolution { width: number()?, height: number()? })
            }
            _ => None,
        }
    }

    /// Looks for the segment with the size. Other segments are skipped.
    fn jpeg(&mut self) -> Option<Resolution> {
        loop {
            self.0.find(|byte| *byte == 0xff)?;
            let marker = self.0.find(|byte| *byte != 0xff)?;
            match marker {
                // Not the beginning of a segment.
                0 | 0xd0..=0xd7 => continue,
                // The end of the image, or its pixels.
                0xd9 | 0xda => return None,
                _ => {}
            }
            let length = self.number()?.checked_sub(2)?;
            if matches!(marker, 0xc0..=0xc2) {
                self.0.next()?;
                let (height, width) = (self.number()?, self.number()?);
                return Some(Resolution { width: width.into(), height: height.into() });
            }
            if let Some(last) = usize::from(length).checked_sub(1) {
                self.0.nth(last)?;
            }
        }
    }

    fn number(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut array = [0; N];
        for byte in &mut array {
            *byte = self.0.next()?;
        }
        Some(array)
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    use super::*;

    fn size(file: &[u8]) -> Option<(u64, u64)> {
        of_base64(STANDARD.encode(file).as_bytes()).map(|size| (size.width, size.height))
    }

    #[test]
    fn every_known_format_says_its_size() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x40\0\0\x01\x20";
        assert_eq!(size(png), Some((64, 288)));
        assert_eq!(size(&png[..23]), None);
        assert_eq!(size(b"GIF89a\x40\0\x20\x01"), Some((64, 288)));
        assert_eq!(size(b"GIF99a\x40\0\x20\x01"), None);
        assert_eq!(size(b"RIFF\0\0\0\0WEBPVP8 "), None);
        let frame = b"\xff\xff\xc2\0\x0b\x08\x01\x20\0\x40";
        let jpeg = |segments: &[u8]| [b"\xff\xd8", segments, &frame[..]].concat();
        assert_eq!(size(&jpeg(b"")), Some((64, 288)));
        assert_eq!(size(&jpeg(b"\xff\xe0\0\x04\xff\xc0\xff\xe1\0\x02\xff\0")), Some((64, 288)));
        let preview = [&b"\xff\xe1\xff\xff"[..], &vec![0; 0xfffd]].concat();
        assert_eq!(size(&jpeg(&preview)), Some((64, 288)));
        assert_eq!(size(&jpeg(&preview.repeat(4))), None, "it is too far from the beginning");
        for broken in [&b"\xff\xda"[..], b"\xff\xd9", b"\xff\xe0\0\x01"] {
            assert_eq!(size(&jpeg(broken)), None, "{broken:?}");
        }
        assert_eq!(size(b"GIF89a\0\0\x20\x01"), None, "an image has pixels");
    }

    #[test]
    fn only_urls_with_an_image_have_a_size() {
        let gif = STANDARD.encode(b"GIF89a\x40\0\x20\x01");
        let (start, end) = gif.split_at(5);
        for (url, known) in [
            (format!("data:image/gif;base64,{start}\r\n{end}"), true),
            (format!("data:text/plain;base64,{gif}"), false),
            (format!("data:image/gif,{gif}"), false),
            ("http://a/1.gif".to_owned(), false),
        ] {
            assert_eq!(of_url(url.as_bytes()).is_some(), known, "{url}");
        }
    }

    proptest! {
        #[test]
        fn a_file_is_decoded(file: Vec<u8>) {
            prop_assert_eq!(decoded(STANDARD.encode(&file).as_bytes()).collect::<Vec<_>>(), file);
        }
    }
}
