//! CRCs that object stores use as checksums: CRC-32C and CRC-64/NVME.

/// A reflected CRC of at most 64 bits, computed eight bytes at a time.
#[derive(Debug, Clone)]
pub(crate) struct Crc {
    tables: &'static Tables,
    value: u64,
    mask: u64,
}

type Tables = [[u64; 256]; 8];

static CRC32C: Tables = tables(0x82F6_3B78);
static CRC64_NVME: Tables = tables(0x9A6C_9329_AC4B_C9B5);

const fn tables(polynomial: u64) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ if value & 1 == 1 { polynomial } else { 0 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

// === impl Crc ===

impl Crc {
    /// CRC-32C (Castagnoli).
    pub(crate) fn crc32c() -> Self {
        Self { tables: &CRC32C, value: 0xFFFF_FFFF, mask: 0xFFFF_FFFF }
    }

    /// CRC-64/NVME.
    pub(crate) fn crc64_nvme() -> Self {
        Self { tables: &CRC64_NVME, value: u64::MAX, mask: u64::MAX }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let table = |index: usize, value: u64| self.tables[index][(value & 0xFF) as usize];
        let mut value = self.value;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let mixed = u64::from_le_bytes(*word) ^ value;
            value = table(7, mixed)
                ^ table(6, mixed >> 8)
                ^ table(5, mixed >> 16)
                ^ table(4, mixed >> 24)
                ^ table(3, mixed >> 32)
                ^ table(2, mixed >> 40)
                ^ table(1, mixed >> 48)
                ^ table(0, mixed >> 56);
        }
        for byte in rest {
            value = (value >> 8) ^ table(0, value ^ u64::from(*byte));
        }
        self.value = value;
    }

    /// The CRC of all bytes so far.
    pub(crate) fn value(&self) -> u64 {
        (self.value ^ u64::MAX) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_the_catalogue_come_out() {
        for (mut crc, check) in [(Crc::crc32c(), 0xE306_9283), (Crc::crc64_nvme(), 0xAE8B_1486_0A79_9888)] {
            crc.update(b"123456789");
            assert_eq!(crc.value(), check);
        }
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let mut whole = Crc::crc32c();
        whole.update(&bytes);
        let mut pieces = Crc::crc32c();
        bytes.chunks(13).for_each(|piece| pieces.update(piece));
        assert_eq!(whole.value(), pieces.value());
    }
}
