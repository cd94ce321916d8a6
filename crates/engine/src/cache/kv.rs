//! Stores keys and values in blocks of tokens.

use super::blocks::Block;
use crate::transfer::Shape;

/// The blocks of a sequence, in the order of its tokens.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a>(pub(crate) &'a [Block]);

/// The keys and values of all blocks. The operating system allocates the memory of a block when it is first written.
pub(crate) struct Kv {
    /// For each layer: the keys, then the values.
    layers: Vec<[Vec<f32>; 2]>,
    block_size: usize,
    heads: usize,
    head_width: usize,
}

// === impl Kv ===

impl Kv {
    pub(crate) fn new(
        layers: usize,
        blocks: usize,
        block_size: usize,
        heads: usize,
        head_width: usize,
    ) -> Self {
        let numbers = blocks * block_size * heads * head_width;
        let layers = (0..layers).map(|_| [vec![0.0; numbers], vec![0.0; numbers]]).collect();
        Self { layers, block_size, heads, head_width }
    }

    pub(crate) fn head_width(&self) -> usize {
        self.head_width
    }

    /// Returns the shape of the blocks, for a model with this digest.
    pub(crate) fn shape(&self, model: String) -> Shape {
        Shape {
            model,
            numbers: "f32".into(),
            block_tokens: self.block_size,
            layers: self.layers.len(),
            heads: self.heads,
            head_width: self.head_width,
        }
    }

    /// The total size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.layers.iter().flatten().map(|numbers| size_of_val(numbers.as_slice())).sum()
    }

    /// The size of one block over all layers, in bytes.
    pub(crate) fn block_bytes(&self) -> usize {
        2 * self.layers.len() * self.side_numbers() * size_of::<f32>()
    }

    /// The number of keys (or values) of one block in one layer.
    fn side_numbers(&self) -> usize {
        self.block_size * self.heads * self.head_width
    }

    /// Appends all numbers of a block, layer by layer, as little-endian bytes.
    pub(crate) fn read(&self, block: Block, bytes: &mut Vec<u8>) {
        let start = self.start(block, 0);
        for numbers in self.layers.iter().flatten() {
            let numbers = &numbers[start..start + self.side_numbers()];
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
    }

    /// Writes numbers, in the order of [`Self::read`], to a block.
    pub(crate) fn write(&mut self, block: Block, numbers: &[f32]) {
        let (start, length) = (self.start(block, 0), self.side_numbers());
        for (mine, numbers) in self.layers.iter_mut().flatten().zip(numbers.chunks_exact(length)) {
            mine[start..start + length].copy_from_slice(numbers);
        }
    }

    /// Stores the keys and values of one token for all heads.
    pub(crate) fn store(
        &mut self,
        layer: usize,
        table: &Table<'_>,
        position: usize,
        keys: &[f32],
        values: &[f32],
    ) {
        let block = table.0[position / self.block_size];
        for (side, numbers) in [keys, values].into_iter().enumerate() {
            for (head, numbers) in numbers.chunks_exact(self.head_width).enumerate() {
                let start = self.start(block, head) + position % self.block_size * self.head_width;
                self.layers[layer][side][start..start + self.head_width].copy_from_slice(numbers);
            }
        }
    }

    /// The keys of one head for the first `length` tokens of a sequence.
    pub(crate) fn keys(
        &self,
        layer: usize,
        head: usize,
        table: &Table<'_>,
        length: usize,
    ) -> impl Iterator<Item = &[f32]> {
        self.side(0, layer, head, table, length)
    }

    /// The values of one head for the first `length` tokens of a sequence.
    pub(crate) fn values(
        &self,
        layer: usize,
        head: usize,
        table: &Table<'_>,
        length: usize,
    ) -> impl Iterator<Item = &[f32]> {
        self.side(1, layer, head, table, length)
    }

    fn side(
        &self,
        side: usize,
        layer: usize,
        head: usize,
        table: &Table<'_>,
        length: usize,
    ) -> impl Iterator<Item = &[f32]> {
        let numbers = &self.layers[layer][side];
        let block_numbers = self.block_size * self.head_width;
        table
            .0
            .iter()
            .flat_map(move |block| {
                let start = self.start(*block, head);
                numbers[start..start + block_numbers].chunks_exact(self.head_width)
            })
            .take(length)
    }

    /// A block is ordered by head first, so that the keys of a head are adjacent.
    fn start(&self, block: Block, head: usize) -> usize {
        (block.index() * self.heads + head) * self.block_size * self.head_width
    }
}
