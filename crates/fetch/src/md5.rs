//! MD5, which the ETags of S3 and the metadata of Google's store are. It is a sum against damage here, and keeps no secret.
//!
//! Each of its steps waits for the one before, so what counts is how many instructions are between two results. Compilers add the
//! terms of a step in an order that puts more of them there than needed; written as below it takes a quarter less time.

use std::hint::black_box;

/// Bytes of a block.
const BLOCK: usize = 64;

/// An MD5 in the making.
#[derive(Debug, Clone)]
pub(crate) struct Md5 {
    state: [u32; 4],
    /// The beginning of a block that is not complete.
    rest: [u8; BLOCK],
    /// Bytes so far.
    length: u64,
}

/// How far each step of a round turns, in bits: the four of a round are used in turn.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The constants of the steps: of step `i`, 2³² · |sin(i + 1)|.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

// === impl Md5 ===

impl Md5 {
    pub(crate) fn new() -> Self {
        Self { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], rest: [0; BLOCK], length: 0 }
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        let filled = self.filled();
        self.length += bytes.len() as u64;
        if filled > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - filled));
            self.rest[filled..filled + now.len()].copy_from_slice(now);
            if filled + now.len() < BLOCK {
                return;
            }
            compress(&mut self.state, &self.rest);
            bytes = later;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            compress(&mut self.state, block);
        }
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The sum: after a bit and zeros comes the length in bits, at the end of a block.
    pub(crate) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8).to_le_bytes();
        let zeros = (BLOCK + 55 - self.filled()) % BLOCK;
        self.update(&[0x80]);
        self.update(&[0; BLOCK][..zeros]);
        self.update(&bits);
        let mut sum = [0; 16];
        for (bytes, word) in sum.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        sum
    }

    /// Bytes of the block that is not complete.
    fn filled(&self) -> usize {
        usize::try_from(self.length % BLOCK as u64).expect("it is less than a block")
    }
}

/// Takes in a block.
fn compress(state: &mut [u32; 4], block: &[u8; BLOCK]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut new = *state;
    round::<0>(&mut new, &words);
    round::<1>(&mut new, &words);
    round::<2>(&mut new, &words);
    round::<3>(&mut new, &words);
    for (old, new) in state.iter_mut().zip(new) {
        *old = old.wrapping_add(new);
    }
}

/// Sixteen steps, in each of which another word of the state is replaced.
#[inline]
fn round<const ROUND: usize>([a, b, c, d]: &mut [u32; 4], words: &[u32; 16]) {
    for step in [0, 4, 8, 12] {
        *a = next::<ROUND>([*a, *b, *c, *d], words, step);
        *d = next::<ROUND>([*d, *a, *b, *c], words, step + 1);
        *c = next::<ROUND>([*c, *d, *a, *b], words, step + 2);
        *b = next::<ROUND>([*b, *c, *d, *a], words, step + 3);
    }
}

/// The new word of a step. `b` is what the step before has just computed: whatever does not need it is added first, and the black box
/// keeps it so.
#[inline]
fn next<const ROUND: usize>([a, b, c, d]: [u32; 4], words: &[u32; 16], step: usize) -> u32 {
    let word = match ROUND {
        0 => words[step],
        1 => words[(5 * step + 1) % 16],
        2 => words[(3 * step + 5) % 16],
        _ => words[(7 * step) % 16],
    };
    let early = a.wrapping_add(SINES[16 * ROUND + step]).wrapping_add(word);
    let sum = match ROUND {
        0 => black_box(early).wrapping_add(d ^ (b & (c ^ d))),
        // The two halves have no bit in common, so one of them can be early, too.
        1 => black_box(early.wrapping_add(c & !d)).wrapping_add(b & d),
        2 => black_box(early).wrapping_add((c ^ d) ^ b),
        _ => black_box(early).wrapping_add(c ^ (b | !d)),
    };
    sum.rotate_left(TURNS[ROUND][step % 4]).wrapping_add(b)
}

#[cfg(test)]
mod tests {
    use md5::Digest as _;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_others_compute(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..6)) {
            let (mut ours, mut theirs) = (Md5::new(), md5::Md5::new());
            for piece in pieces {
                ours.update(&piece);
                theirs.update(&piece);
                prop_assert_eq!(&ours.clone().finish()[..], &theirs.clone().finalize()[..]);
            }
        }
    }
}
